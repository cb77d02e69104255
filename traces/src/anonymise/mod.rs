//! Removes from a trace what identifies its owner, and keeps what a replay needs.
//!
//! *Names* of VMs, processes, cgroups, hosts and devices become pseudonyms: the first 64 bits of
//! HMAC-SHA-256 over the kind of name and the name. The same name under the same key is the same pseudonym in every
//! trace, so that traces of one site can be distinguished or put together. Without the key a name can be neither read
//! back nor guessed and confirmed.
//!
//! *Stream numbers* (process ids) go through a keyed permutation of 1 … 2³²−1; zero, "not known",
//! stays. *VM numbers* are indices and stay.
//!
//! *Provenance* that says how a trace was made ([`TECHNICAL_KEYS`], [`TECHNICAL_EVENT_KEYS`]) stays, names in it
//! ([`NAME_KEYS`]) become pseudonyms, and everything else, such as messages and headers, is
//! dropped. So is the time of day: the clock begins at the first request, whatever it counted from (1970, the host's
//! start, the day of a recording), and times relative to each other stay as they are.
//!
//! *Addresses* stay unless [`Anonymiser::with_addresses`] asks for more. Then the address space is shifted by a keyed
//! multiple of 1 MiB below a region's size and cut into regions of [`REGION_SECTORS`] (1 GiB). A keyed permutation puts
//! them in another order. Each is followed by a gap as long as the longest request. Within a region distances, overlaps
//! and the alignment to 1 MiB survive. A request that reaches over the end of its region stays whole and lies in the
//! gap, so that it overlaps no request that it did not overlap before. It no longer overlaps requests of the next
//! region, and seek distances between regions are those of another disk.

mod permutation;

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use permutation::Permutation;

use crate::formats::FORMATS;
use crate::record::Record;
use crate::request::{Operation, StreamId};
use crate::trace::TraceMeta;
use crate::units::{Lba, Sectors, Timestamp};

/// A region of addresses that stays in one piece: 1 GiB.
pub const REGION_SECTORS: Sectors = Sectors::new(1 << 21);

/// What shifts and gaps are multiples of, so that alignment survives: 1 MiB.
const ALIGNMENT_SECTORS: u64 = 1 << 11;

/// Provenance keys whose values stay: they name methods, versions and counts, never places.
pub const TECHNICAL_KEYS: &[&str] =
    &["converted_by", "lost_events", "skipped_records", "source_format", "vscsi_version"];

/// The same of captures of events, behind the format's name and a point: `blktrace.arrivals`.
pub const TECHNICAL_EVENT_KEYS: &[&str] = &[
    "arrivals",
    "bounces",
    "byte_order",
    "cpus",
    "driver_data_events",
    "events_of_other_devices",
    "files",
    "losses_of_unknown_number",
    "merges",
    "messages",
    "numbers",
    "other_events",
    "page_bytes",
    "passthrough_events",
    "remaps",
    "requests_without_data",
    "requeues",
    "resolution",
    "splits",
    "stack_trace_lines",
    "zone_commands",
];

/// Provenance keys whose values become pseudonyms; `device` also behind the name of a format of
/// events and a point.
pub const NAME_KEYS: &[&str] = &["cgroup", "converted_from", "device", "host", "hostname", "vm"];

/// The key of a capture of events without its format's name; `None` if it is none.
fn event_key(key: &str) -> Option<&str> {
    let (format, key) = key.split_once('.')?;
    FORMATS.iter().any(|row| row.name == format && row.open_events.is_some()).then_some(key)
}

/// Whether the value of a provenance key is a name, which becomes a pseudonym.
pub fn is_name(key: &str) -> bool {
    NAME_KEYS.contains(&key) || event_key(key) == Some("device")
}

/// The shortest key in bytes: 128 bits, if they are random.
pub const KEY_BYTES_MIN: usize = 16;

/// Pseudonyms that are kept for reuse before they are computed anew, so that memory stays bounded.
const REMEMBERED: usize = 1 << 16;

/// Why a trace cannot be anonymised.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnonymiseError {
    /// Whoever tries all short keys finds it, and with it the names.
    #[error(
        "the key has {0} bytes, but needs {KEY_BYTES_MIN} at least; make a random one: head -c 32 /dev/urandom | base64"
    )]
    ShortKey(usize),
    /// The permuted address space would not fit 64 bits.
    #[error("an address space of {end} sectors with requests of {longest} sectors is too large to permute")]
    TooLarge {
        /// First sector above all.
        end: Lba,
        /// The longest request.
        longest: Sectors,
    },
    /// A request lies outside of what the permutation was made for.
    #[error("a request of {sectors} sectors at {lba} is longer or higher than was announced")]
    Outside {
        /// Its address.
        lba: Lba,
        /// Its length.
        sectors: Sectors,
    },
}

/// Anonymises a trace. A copy that has seen no record serves another trace under the same key.
#[derive(Clone)]
pub struct Anonymiser {
    mac: Hmac<Sha256>,
    streams: Permutation,
    known_streams: HashMap<u32, u32>,
    addresses: Option<Addresses>,
    /// The arrival of the first record, which becomes the clock's zero.
    zero: Option<Timestamp>,
}

impl Anonymiser {
    /// Pseudonyms under `key`; addresses stay.
    ///
    /// # Errors
    /// [`AnonymiseError::ShortKey`].
    pub fn new(key: &[u8]) -> Result<Anonymiser, AnonymiseError> {
        if key.len() < KEY_BYTES_MIN {
            return Err(AnonymiseError::ShortKey(key.len()));
        }
        let mac = Hmac::new_from_slice(key).expect("HMAC takes keys of any length");
        let streams = Permutation::new(&mac, "stream number", u64::from(u32::MAX));
        Ok(Anonymiser { mac, streams, known_streams: HashMap::new(), addresses: None, zero: None })
    }

    /// Permutes addresses too. `end` is the device's capacity or the first sector above all
    /// requests, whichever is higher, and `longest` the longest request: what a first pass over
    /// the trace finds.
    ///
    /// # Errors
    /// [`AnonymiseError::TooLarge`].
    pub fn with_addresses(mut self, end: Lba, longest: Sectors) -> Result<Anonymiser, AnonymiseError> {
        self.addresses = Some(Addresses::new(&self.mac, end, longest)?);
        Ok(self)
    }

    /// The metadata of the anonymised trace.
    pub fn meta(&self, meta: &TraceMeta) -> TraceMeta {
        let mut anonymous = meta.clone();
        anonymous.clock.zero_unix_ns = None;
        anonymous.vms = meta.vms.iter().map(|name| self.pseudonym("vm", name)).collect();
        anonymous.streams = meta
            .streams
            .iter()
            .map(|(&stream, name)| (self.streams_number(stream), self.pseudonym("stream", name)))
            .collect();
        anonymous.provenance = self.provenance(&meta.provenance);
        if let (Some(addresses), Some(capacity)) = (&self.addresses, &mut anonymous.capacity_sectors) {
            *capacity = addresses.capacity();
        }
        anonymous
    }

    /// The record of the anonymised trace. Records come in order of arrival.
    ///
    /// # Errors
    /// [`AnonymiseError::Outside`] if addresses are permuted and this one was not announced.
    pub fn record(&mut self, record: &Record) -> Result<Record, AnonymiseError> {
        let mut anonymous = *record;
        let zero = *self.zero.get_or_insert(record.request.arrival);
        let (request, observed) = (&mut anonymous.request, &mut anonymous.observed);
        let times = [&mut observed.inserted, &mut observed.issued, &mut observed.completed];
        for time in times.into_iter().flatten().chain([&mut request.arrival]) {
            *time = Timestamp::from_ns(time.saturating_since(zero).as_ns());
        }
        let request = &mut anonymous.request;
        let stream = request.stream.0;
        let streams = &self.streams;
        request.stream = StreamId(remember(&mut self.known_streams, stream, || number(streams, stream)));
        if let Some(addresses) = &mut self.addresses
            && request.operation != Operation::Flush
        {
            request.lba = addresses.map(request.lba, request.sectors())?;
        }
        Ok(anonymous)
    }

    /// The pseudonym of a name: its kind, a hyphen and 16 hexadecimal digits.
    pub fn pseudonym(&self, kind: &str, name: &str) -> String {
        format!("{kind}-{:016x}", keyed(&self.mac, &["name", kind, name]))
    }

    fn streams_number(&self, stream: u32) -> u32 {
        number(&self.streams, stream)
    }

    fn provenance(&self, provenance: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let kept = provenance.iter().filter_map(|(key, value)| {
            let of_events = event_key(key).unwrap_or_default();
            let value = if TECHNICAL_KEYS.contains(&key.as_str()) || TECHNICAL_EVENT_KEYS.contains(&of_events) {
                value.clone()
            } else if is_name(key) {
                self.pseudonym(key, value)
            } else {
                return None;
            };
            Some((key.clone(), value))
        });
        kept.collect()
    }
}

/// The number of an anonymous stream; zero stays zero.
fn number(streams: &Permutation, stream: u32) -> u32 {
    match stream.checked_sub(1) {
        None => 0,
        Some(index) => streams.apply(u64::from(index)) as u32 + 1,
    }
}

/// Looks up what was computed before, in bounded memory.
fn remember<K: Copy + Eq + Hash, V: Copy>(known: &mut HashMap<K, V>, key: K, compute: impl FnOnce() -> V) -> V {
    if let Some(&value) = known.get(&key) {
        return value;
    }
    if known.len() == REMEMBERED {
        known.clear();
    }
    let value = compute();
    known.insert(key, value);
    value
}

/// 64 bits of HMAC-SHA-256 over some parts, each preceded by its length so that no two lists of
/// parts are the same message.
fn keyed(mac: &Hmac<Sha256>, parts: &[&str]) -> u64 {
    let mut mac = mac.clone();
    for part in parts {
        mac.update(&(part.len() as u64).to_le_bytes());
        mac.update(part.as_bytes());
    }
    first_64_bits(mac)
}

fn first_64_bits(mac: Hmac<Sha256>) -> u64 {
    let code = mac.finalize().into_bytes();
    code.iter().take(8).fold(0, |bits, &byte| bits << 8 | u64::from(byte))
}

/// The shifted and permuted address space.
#[derive(Clone)]
struct Addresses {
    end: Lba,
    longest: Sectors,
    /// Added before regions are cut.
    shift: u64,
    /// From the beginning of one region's place to that of the next.
    stride: u64,
    regions: Permutation,
    known_places: HashMap<u64, u64>,
}

impl Addresses {
    fn new(mac: &Hmac<Sha256>, end: Lba, longest: Sectors) -> Result<Addresses, AnonymiseError> {
        let region = REGION_SECTORS.count();
        let shift = keyed(mac, &["address shift"]) % (region / ALIGNMENT_SECTORS) * ALIGNMENT_SECTORS;
        let places = || {
            let gap = longest.count().checked_next_multiple_of(ALIGNMENT_SECTORS)?;
            let stride = region.checked_add(gap)?;
            let regions = end.sector().checked_add(shift)?.div_ceil(region).max(1);
            stride.checked_mul(regions).map(|_| (stride, regions))
        };
        let (stride, regions) = places().ok_or(AnonymiseError::TooLarge { end, longest })?;
        let regions = Permutation::new(mac, "address region", regions);
        Ok(Addresses { end, longest, shift, stride, regions, known_places: HashMap::new() })
    }

    fn capacity(&self) -> Sectors {
        Sectors::new(self.stride * self.regions.size())
    }

    fn map(&mut self, lba: Lba, sectors: Sectors) -> Result<Lba, AnonymiseError> {
        let end = lba.sector().checked_add(sectors.count());
        if sectors > self.longest || end.is_none_or(|end| end > self.end.sector()) {
            return Err(AnonymiseError::Outside { lba, sectors });
        }
        let shifted = lba.sector() + self.shift;
        let (region, within) = (shifted / REGION_SECTORS.count(), shifted % REGION_SECTORS.count());
        let regions = &self.regions;
        let place = remember(&mut self.known_places, region, || regions.apply(region));
        Ok(Lba::new(place * self.stride + within))
    }
}

#[cfg(test)]
mod tests;
