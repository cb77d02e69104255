//! A trace: where it was taken, by which clock, what got lost, and the reader that streams it.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{ReadError, WriteError};
use crate::record::Record;
use crate::request::Operation;
use crate::units::{Lba, Sectors, Timestamp};

/// Where in the I/O path a trace was taken, which decides what a replay of it can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// As the guest's file system queued it, before its scheduler (blktrace Q).
    GuestQueue,
    /// As the guest's scheduler sent it to its device (blktrace D).
    GuestIssued,
    /// As the hypervisor received it from the guest.
    Hypervisor,
    /// As it went over the wire, or to the drive itself.
    Wire,
}

impl Layer {
    /// Every layer, from the file system down.
    pub const ALL: [Layer; 4] = [Layer::GuestQueue, Layer::GuestIssued, Layer::Hypervisor, Layer::Wire];

    /// The name in metadata and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Layer::GuestQueue => "guest-queue",
            Layer::GuestIssued => "guest-issued",
            Layer::Hypervisor => "hypervisor",
            Layer::Wire => "wire",
        }
    }

    /// The layer with this name.
    pub fn from_name(name: &str) -> Option<Layer> {
        Layer::ALL.into_iter().find(|layer| layer.name() == name)
    }

    /// Who has put the requests in order already, so that a scheduler replayed on them no longer
    /// has the choice the real one had; `None` for requests as they were queued.
    pub const fn ordered_by(self) -> Option<&'static str> {
        match self {
            Layer::GuestQueue => None,
            Layer::GuestIssued | Layer::Hypervisor => Some("the guest's scheduler"),
            Layer::Wire => Some("the schedulers of guest and hypervisor"),
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What the zero of a trace's [`Timestamp`]s means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// The clock's name as its source calls it, e.g. `monotonic`.
    pub name: String,
    /// The wall-clock time (nanoseconds since 1970 UTC) of timestamp zero, if the trace has it.
    pub zero_unix_ns: Option<i64>,
}

/// What the addresses of a trace of several VMs refer to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AddressSpace {
    /// One device, on which each VM has its place.
    #[default]
    Shared,
    /// A device of its own per VM (a volume, a virtual disk, a file), each with an address zero.
    PerVm,
}

/// What is known of a trace beside its requests. Complete once its reader is exhausted: names may
/// come at any place in a capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceMeta {
    /// The format it was read from, a name of [`crate::formats::FORMATS`].
    pub format: String,
    /// Where it was taken.
    pub layer: Layer,
    /// Its clock.
    pub clock: Clock,
    /// The traced device's capacity, if the trace has it.
    pub capacity_sectors: Option<Sectors>,
    /// Whether the VMs share one device.
    #[serde(default)]
    pub address_space: AddressSpace,
    /// Names of the VMs; [`crate::VmId`] is the index. Never empty.
    pub vms: Vec<String>,
    /// Names of the streams (processes, cgroups) by [`crate::StreamId`], if the trace has it.
    pub streams: BTreeMap<u32, String>,
    /// Free key-value provenance: how, where and by what the trace was made.
    pub provenance: BTreeMap<String, String>,
}

/// The name of the one VM of a trace that names none.
pub const NO_NAME: &str = "vm0";

impl TraceMeta {
    /// Metadata of a trace of one VM whose name is not known.
    pub fn new(format: &str, layer: Layer, clock_name: &str) -> TraceMeta {
        TraceMeta {
            format: format.to_owned(),
            layer,
            clock: Clock { name: clock_name.to_owned(), zero_unix_ns: None },
            capacity_sectors: None,
            address_space: AddressSpace::default(),
            vms: vec![NO_NAME.to_owned()],
            streams: BTreeMap::new(),
            provenance: BTreeMap::new(),
        }
    }
}

/// What a reader could not use. Empty after a strict read that succeeded, but for `unmatched`,
/// which a capture always has at its edges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// Events that the capture itself lost (a gap in its sequence numbers).
    pub lost_events: u64,
    /// Records skipped because `--lenient` asked for it, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Events that have no partner in the capture, by kind (e.g. completions of requests that were
    /// queued before it began). Not an error.
    pub unmatched: BTreeMap<String, u64>,
    /// Requests whose times are in an impossible order, by kind (`C before D`: completed before it was issued). They
    /// are read; times between two such events are not measured.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub impossible: BTreeMap<String, u64>,
}

impl Losses {
    /// Counts one skipped record.
    pub fn skip(&mut self, reason: &str) {
        count(&mut self.skipped, reason);
    }

    /// Counts one event without a partner.
    pub fn unmatched(&mut self, kind: &str) {
        count(&mut self.unmatched, kind);
    }

    /// Counts one request whose times are in an impossible order.
    pub fn impossible(&mut self, kind: &str) {
        count(&mut self.impossible, kind);
    }

    /// Records lost or skipped; unmatched events are not counted.
    pub fn total(&self) -> u64 {
        self.lost_events + self.skipped.values().sum::<u64>()
    }
}

fn count(counts: &mut BTreeMap<String, u64>, key: &str) {
    // Looked up first so that counting an old key allocates nothing.
    if let Some(seen) = counts.get_mut(key) {
        *seen += 1;
    } else {
        counts.insert(key.to_owned(), 1);
    }
}

/// Streams a trace, in the order of arrival, in bounded memory.
///
/// ```
/// use std::path::Path;
/// use iocast_traces::formats;
/// use iocast_traces::trace::ReadOptions;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("two.csv");
/// let header = "arrival_ns,operation,lba_sectors,sectors,flags,priority,vm,stream,cpu,\
///               inserted_ns,issued_ns,completed_ns,error";
/// std::fs::write(&path, format!("{header}\n0,read,8,8,,0,0,0,0,,0,500,0\n1000,write,64,8,,0,0,0,0,,1000,1900,0\n"))?;
/// let mut reader = formats::open(&path, &ReadOptions::default())?;
/// let mut sectors = 0;
/// while let Some(record) = reader.next()? {
///     sectors += record.request.sectors().count();
/// }
/// assert_eq!((sectors, reader.losses().total()), (16, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait TraceReader: Send {
    /// What is known of the trace so far; complete once the reader is exhausted.
    fn meta(&self) -> &TraceMeta;

    /// The next record, `None` at the end of the trace. Arrivals never decrease.
    ///
    /// # Errors
    /// The first place where the input is not what its format says. A reader that has failed is
    /// not asked again.
    fn next(&mut self) -> Result<Option<Record>, ReadError>;

    /// What was lost so far.
    fn losses(&self) -> &Losses;

    /// Bytes of (compressed) input consumed so far, for progress.
    fn position_bytes(&self) -> u64;
}

/// The arrivals a replay takes from a trace that has several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ArrivalPoint {
    /// As queued (blktrace Q): bios, before merging and splitting.
    #[default]
    Queued,
    /// As issued to the device (blktrace D): after merging, splitting and scheduling.
    Issued,
}

/// How a trace is to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// Count and skip what is malformed or lost instead of failing at it.
    pub lenient: bool,
    /// Which event is the arrival, in formats that hold several.
    pub arrivals: ArrivalPoint,
    /// The layer to record in place of the format's usual one.
    pub layer: Option<Layer>,
    /// The format, a name of [`crate::formats::FORMATS`], instead of recognising it.
    pub format: Option<String>,
    /// Only the requests of this device (volume, disk, file), by its name in [`TraceMeta::vms`], of
    /// a trace that holds several devices.
    pub device: Option<String>,
    /// The operation of every request, for a format that does not tell.
    pub operation: Option<Operation>,
    /// Units in place of the format's own.
    pub units: UnitOverrides,
    /// Which pause a line's think time is, in a format of service and think times.
    pub think_time: Option<ThinkTime>,
}

/// Which pause the think time of a line is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThinkTime {
    /// From this request's completion to the next one.
    #[default]
    After,
    /// From the completion before to this request.
    Before,
}

/// Units in place of a format's own. What is given here is not checked for plausibility.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnitOverrides {
    /// Of points and spans of time.
    pub time: Option<TimeUnit>,
    /// Of addresses, in bytes per unit: 1, or a power of two from 512.
    pub address_bytes: Option<u32>,
    /// Of lengths, in bytes per unit: 1, or a power of two from 512.
    pub length_bytes: Option<u32>,
}

/// A unit of time in a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// s
    Seconds,
    /// ms
    Milliseconds,
    /// µs
    Microseconds,
    /// 100 ns, Windows file time
    HundredNanoseconds,
    /// ns
    Nanoseconds,
}

impl TimeUnit {
    /// Every unit, the longest first.
    pub const ALL: [TimeUnit; 5] = [
        TimeUnit::Seconds,
        TimeUnit::Milliseconds,
        TimeUnit::Microseconds,
        TimeUnit::HundredNanoseconds,
        TimeUnit::Nanoseconds,
    ];

    /// The name on the command line and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            TimeUnit::Seconds => "s",
            TimeUnit::Milliseconds => "ms",
            TimeUnit::Microseconds => "us",
            TimeUnit::HundredNanoseconds => "100ns",
            TimeUnit::Nanoseconds => "ns",
        }
    }

    /// Decimal places between the unit and the nanosecond.
    pub const fn decimals(self) -> u32 {
        match self {
            TimeUnit::Seconds => 9,
            TimeUnit::Milliseconds => 6,
            TimeUnit::Microseconds => 3,
            TimeUnit::HundredNanoseconds => 2,
            TimeUnit::Nanoseconds => 0,
        }
    }
}

/// Writes a trace, in the order of arrival.
pub trait TraceWriter {
    /// Writes one record.
    ///
    /// # Errors
    /// The file system's; a record out of order; one that the format cannot express, unless
    /// [`WriteOptions::lossy`].
    fn write(&mut self, record: &Record) -> Result<(), WriteError>;

    /// Completes the output. Until then nothing stands at its path.
    ///
    /// # Errors
    /// The file system's.
    fn finish(self: Box<Self>, meta: &TraceMeta) -> Result<Written, WriteError>;
}

/// How a trace is to be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Leave out and count records that the format cannot express, instead of failing at them.
    pub lossy: bool,
    /// What the addresses of a trace of several VMs refer to, so that those of different devices
    /// are kept apart, or refused by a format that has one device.
    pub address_space: AddressSpace,
    /// The one device or file that a replay of the output uses, in formats that name devices.
    pub replay_device: Option<String>,
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// First and last arrival, addresses and number of the records; `None` if there was none.
    pub extent: Option<Extent>,
    /// Records that the format cannot express, by reason.
    pub left_out: BTreeMap<String, u64>,
}

/// The earliest and latest point of a trace and the addresses it touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First arrival.
    pub first_arrival: Timestamp,
    /// Last arrival.
    pub last_arrival: Timestamp,
    /// Lowest sector touched; zero if no record has an address.
    pub lba_min: Lba,
    /// First sector above all that are touched.
    pub lba_end: Lba,
    /// Number of records.
    pub records: u64,
}
