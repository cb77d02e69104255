//! Shared parts of the formats of block-layer events. Files give events ([`EventFile`]). These are put in the order of
//! time within a window ([`Stream`]), merged ([`Merge`]) and restricted to one device ([`devices`]), and the kernel's
//! numbers are checked ([`numbers`]). [`Capture`] is the resulting [`EventSource`](crate::events::EventSource).

pub(super) mod devices;
pub(super) mod lines;
pub(super) mod live;
mod merge;
mod numbers;
pub(super) mod rwbs;
mod source;
mod stream;
pub(super) mod tracepoint;

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

pub(super) use merge::Merge;
pub(super) use source::Capture;
pub(super) use stream::Stream;

use crate::error::{Place, Problem, ReadError};
use crate::events::{Category, Event, Placed, action};
use crate::trace::Losses;
use crate::units::SECTOR_BYTES;

/// How late an event may stand in its file, nanoseconds: one tick of a kernel at 100 Hz.
///
/// Linux 6.1 stamps events with interrupts off from one monotonic clock, so that its files are in
/// order. Old kernels used `sched_clock`, which may differ between CPUs, and jump when an
/// event's task moves, by as much as the time since it was last synchronised: a tick.
pub const REORDER_WINDOW_NS: u64 = 10_000_000;

/// How many events may stand between a late one and its place: as many are always looked ahead.
pub const REORDER_EVENTS: usize = 2048;

/// A bound on CPU numbers, so that garbage cannot make the table of counts per CPU grow.
pub(super) const CPUS_MAX: u32 = 1 << 16;

/// How many of [`Findings::left_out`] are kept, far more than a gap waits for.
const LEFT_OUT: usize = 4096;

/// No capture says that it lost more events than this.
const LOST_MAX: u64 = 1 << 48;

/// One file of a capture.
pub(super) trait EventFile: Send + Sized {
    /// Whether there is a file for each CPU, so that metadata says how many there are.
    const PER_CPU: bool;

    /// Whether its events have numbers, so that metadata says when there are none.
    const NUMBERED: bool;

    /// Key in metadata of the capture's own time at the trace's zero, nanoseconds.
    const ZERO: &'static str;

    /// Appends events to `batch` until that is full; false once the file has ended.
    fn read(&mut self, batch: &mut Batch, findings: &mut Findings) -> Result<bool, ReadError>;

    /// Its path.
    fn path(&self) -> &Path;

    /// The place that [`Placed::at`] stands for.
    fn place(at: u64) -> Place;

    /// Bytes of (compressed) input consumed so far.
    fn consumed_bytes(&self) -> u64;

    /// Adds the facts of the file beside its events, as key and value.
    fn describe(&self, _add: &mut dyn FnMut(&str, String)) {}
}

/// Events as they were read from one file.
pub(super) struct Batch {
    events: Vec<Placed>,
    /// Time of the latest event of the file so far, its CPU and number.
    latest: u64,
    latest_number: (u32, u32),
    /// Whether an event is out of order.
    disordered: bool,
}

impl Batch {
    fn new() -> Batch {
        Batch { events: Vec::with_capacity(REORDER_EVENTS), latest: 0, latest_number: (0, 0), disordered: false }
    }

    /// One to be filled again and again by [`Batch::take`].
    pub(super) fn to_be_emptied() -> Batch {
        Batch::new()
    }

    /// Moves the events to `into`, in order of their time, and remembers which was the latest.
    pub(super) fn take(&mut self, into: &mut impl Extend<Placed>) {
        if std::mem::take(&mut self.disordered) {
            self.events.sort_by_key(|placed| rank(&placed.event));
        }
        into.extend(self.events.drain(..));
    }

    /// Whether there is no capacity left.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.events.len() >= REORDER_EVENTS
    }

    /// Appends an event that is not late; false if it is.
    #[inline(always)]
    pub(super) fn push_in_order(&mut self, placed: Placed) -> bool {
        let Event { time, cpu, sequence, .. } = placed.event;
        if time > self.latest || (time == self.latest && rank(&placed.event) >= self.latest_rank()) {
            self.latest = time;
            self.latest_number = (cpu, sequence);
            self.events.push(placed);
            return true;
        }
        false
    }

    fn latest_rank(&self) -> (u64, u64) {
        let (cpu, sequence) = self.latest_number;
        rank(&Event { time: self.latest, cpu, sequence, ..Event::default() })
    }

    /// Appends an event of `file`, late or not.
    ///
    /// # Errors
    /// One that is later than [`REORDER_WINDOW_NS`] allows, unless the read is lenient.
    #[inline]
    pub(super) fn push<F: EventFile>(
        &mut self,
        placed: Placed,
        file: &F,
        findings: &mut Findings,
    ) -> Result<(), ReadError> {
        if self.push_in_order(placed) { Ok(()) } else { self.push_late(placed, file, findings) }
    }

    #[cold]
    fn push_late<F: EventFile>(&mut self, placed: Placed, file: &F, findings: &mut Findings) -> Result<(), ReadError> {
        let by = self.latest - placed.event.time;
        if by > REORDER_WINDOW_NS {
            let why = format!("an event comes {by} ns late, by more than {REORDER_WINDOW_NS} ns");
            return findings.out_of_order(file, &placed, why);
        }
        self.disordered = true;
        self.events.push(placed);
        Ok(())
    }
}

/// Order of the events of a file: their time, then, where they have numbers, CPU and number. Events
/// without numbers stay as they stand in the file.
#[inline(always)]
fn rank(event: &Event) -> (u64, u64) {
    let number = u64::from(event.cpu) << 32 | u64::from(event.sequence);
    (event.time, if event.sequence == 0 { 0 } else { number })
}

/// The category bits that the kernel gives every event of an action, `BLK_TA_*` (Linux 6.1,
/// `include/uapi/linux/blktrace_api.h`).
#[inline]
pub(super) fn category_of(code: u8) -> Category {
    match code {
        action::SPLIT | action::BOUNCE | action::ABORT => Category::empty(),
        action::REQUEUE => Category::REQUEUE,
        action::ISSUE => Category::ISSUE,
        action::COMPLETE => Category::COMPLETE,
        _ => Category::QUEUE,
    }
}

/// The length in bytes of the first part of a bio at `sector` that was split at sector `second`; 0
/// if that does not lie behind it.
///
/// Of `second` only the lower 32 bits count: the kernel hands it on as an `unsigned int` (Linux 6.1,
/// `include/trace/events/block.h`, `block_split`).
pub(super) fn first_part_bytes(sector: u64, second: u64) -> u32 {
    (second as u32).wrapping_sub(sector as u32).checked_mul(SECTOR_BYTES as u32).unwrap_or(0)
}

/// The counts that all files of a capture add to.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) lenient: bool,
    pub(super) losses: Losses,
    /// Process names by process id.
    pub(super) names: BTreeMap<u32, String>,
    /// Time of a timestamp record and the wall clock (ns since 1970) at that time.
    pub(super) wall: Option<(u64, i64)>,
    /// Free-text messages; their text is not kept.
    pub(super) messages: u64,
    /// Further counts, by their keys in metadata.
    pub(super) counts: BTreeMap<&'static str, u64>,
    /// The name noted last, which is mostly the next one too.
    last_name: (u32, Vec<u8>),
    /// CPU and number of events left out, which are therefore not lost; the latest ones.
    left_out: VecDeque<(u32, u32)>,
}

impl Findings {
    /// Of a read that is lenient or not.
    pub(super) fn new(lenient: bool) -> Findings {
        Findings { lenient, ..Findings::default() }
    }

    /// Counts something under the key it has in metadata.
    pub(super) fn count(&mut self, key: &'static str) {
        *self.counts.entry(key).or_default() += 1;
    }

    /// Notes the name of a process; of several the last.
    #[inline]
    pub(super) fn name(&mut self, pid: u32, name: &[u8]) {
        if self.last_name.0 != pid || self.last_name.1 != name {
            self.other_name(pid, name);
        }
    }

    fn other_name(&mut self, pid: u32, name: &[u8]) {
        self.last_name.0 = pid;
        self.last_name.1.clear();
        self.last_name.1.extend_from_slice(name);
        // Looked up first so that a name that is known allocates nothing.
        if self.names.get(&pid).is_none_or(|known| known.as_bytes() != name) {
            self.names.insert(pid, String::from_utf8_lossy(name).into_owned());
        }
    }

    /// A malformed record at `at`: counted under `reason`, or an error.
    #[cold]
    pub(super) fn malformed<F: EventFile>(
        &mut self,
        file: &F,
        at: u64,
        why: impl Into<String>,
        reason: &str,
    ) -> Result<(), ReadError> {
        if self.lenient {
            self.losses.skip(reason);
            return Ok(());
        }
        Err(ReadError::malformed(file.path(), F::place(at), why).remedy("--lenient leaves it out and counts it"))
    }

    /// Events that the capture says it lost before `at`; it may not know how many.
    #[cold]
    pub(super) fn lost<F: EventFile>(
        &mut self,
        file: &F,
        at: u64,
        events: Option<u64>,
        what: &str,
    ) -> Result<(), ReadError> {
        if self.lenient {
            match events {
                // Bounded, so that no absurd number makes a sum overflow.
                Some(events) => {
                    let lost = self.losses.lost_events.saturating_add(events);
                    self.losses.lost_events = lost.min(LOST_MAX);
                }
                None => {
                    // At least one.
                    self.losses.lost_events += 1;
                    self.count("losses_of_unknown_number");
                }
            }
            return Ok(());
        }
        let count = events.map_or("an unknown number of".to_owned(), |events| events.to_string());
        let why = format!("the capture lost {count} events {what}");
        Err(ReadError::new(file.path(), F::place(at), Problem::Lost(why))
            .remedy("--lenient counts them and goes on; larger buffers avoid them"))
    }

    /// An event that comes too late: an error, or left out.
    fn out_of_order<F: EventFile>(&mut self, file: &F, late: &Placed, why: String) -> Result<(), ReadError> {
        if self.lenient {
            self.losses.skip("event out of order");
            self.left_out.truncate(LEFT_OUT - 1);
            self.left_out.push_front((late.event.cpu, late.event.sequence));
            return Ok(());
        }
        Err(ReadError::new(file.path(), F::place(late.at), Problem::OutOfOrder(why))
            .remedy("--lenient leaves such events out and counts them"))
    }
}
