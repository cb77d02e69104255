//! Records that come as a stream of all CPUs while the kernel still writes: from `blktrace -o -`, or from
//! the tracer `blk` with its option `bin`.

use std::collections::{BTreeMap, VecDeque};

use super::file::{IMPOSSIBLE_CPU, complete, note};
use super::record::{ByteOrder, Header, MAGIC, RECORD_BYTES, VERSION, decode};
use crate::events::{Category, Placed};
use crate::formats::capture::live::Released;
use crate::formats::capture::{CPUS_MAX, Findings};
use crate::trace::Losses;

/// A stream of records, each CPU's in the order of time.
///
/// Losses and bytes that are no record are counted and never an error: a capture goes on.
#[derive(Default)]
pub struct LiveRecords {
    /// The beginning of a record of which the rest is to come.
    carry: Vec<u8>,
    offset: u64,
    cpus: BTreeMap<u32, Cpu>,
    findings: Findings,
    order: Released,
    /// Bytes that are no record are being passed over.
    astray: bool,
}

#[derive(Default)]
struct Cpu {
    waiting: VecDeque<Placed>,
    /// The number expected next; 0 before the first, or where there are none.
    next: u32,
}

impl LiveRecords {
    /// A stream of this machine that has not begun.
    pub fn new() -> LiveRecords {
        LiveRecords { findings: Findings::new(true), ..LiveRecords::default() }
    }

    /// Decodes the bytes that were read.
    pub fn hand(&mut self, bytes: &[u8]) {
        self.carry.extend_from_slice(bytes);
        let stream = std::mem::take(&mut self.carry);
        let mut left = stream.as_slice();
        while let Some(taken) = self.take(left) {
            self.offset += taken as u64;
            left = &left[taken..];
        }
        self.carry = left.to_vec();
    }

    /// Takes a record, or a byte that begins none, and gives the bytes taken; `None` if it is not all there.
    fn take(&mut self, left: &[u8]) -> Option<usize> {
        let order = if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };
        let record = left.first_chunk::<RECORD_BYTES>()?;
        let header = Header::decode(record, order);
        if header.magic != MAGIC | u32::from(VERSION) {
            if !std::mem::replace(&mut self.astray, true) {
                self.findings.losses.skip("run of bytes that are no record");
            }
            return Some(1);
        }
        let length = RECORD_BYTES + header.payload;
        let payload = left.get(RECORD_BYTES..length)?;
        self.astray = false;
        let mut event = decode(record, order);
        if event.is(Category::NOTIFY) {
            note(&event, payload, order, &mut self.findings);
        } else if event.cpu >= CPUS_MAX {
            self.findings.losses.skip(IMPOSSIBLE_CPU);
        } else {
            complete(&mut event, payload, order);
            let cpu = self.cpus.entry(event.cpu).or_default();
            if event.sequence != 0 {
                let missing = event.sequence.wrapping_sub(cpu.next);
                // A smaller number is that of a task which was moved between taking it and writing.
                if cpu.next != 0 && missing < 1 << 31 {
                    self.findings.losses.lost_events += u64::from(missing);
                }
                if cpu.next == 0 || missing < 1 << 31 {
                    cpu.next = event.sequence.wrapping_add(1);
                }
            }
            cpu.waiting.push_back(Placed { event, at: self.offset });
        }
        Some(length)
    }

    /// Appends the events up to the time `until` to `into`, by time, then CPU.
    pub fn release(&mut self, until: u64, into: &mut Vec<Placed>) {
        for cpu in self.cpus.values_mut() {
            cpu.waiting.make_contiguous().sort_by_key(|placed| placed.event.time);
        }
        self.order.release(self.cpus.values_mut().map(|cpu| &mut cpu.waiting), until, into, &mut self.findings);
    }

    /// Counts events that the kernel reports as lost in a full buffer.
    pub fn lost(&mut self, events: u64) {
        self.findings.losses.lost_events += events;
    }

    /// The losses so far.
    pub fn losses(&self) -> &Losses {
        &self.findings.losses
    }

    /// Names of processes, by their number.
    pub fn names(&self) -> &BTreeMap<u32, String> {
        &self.findings.names
    }

    /// Adds the facts of the stream, by key: the CPUs that events came from.
    pub fn describe(&self, add: &mut dyn FnMut(&str, String)) {
        add("cpus", self.cpus.keys().map(u32::to_string).collect::<Vec<_>>().join(","));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{Event, action};
    use crate::formats::blktrace::encode;

    fn bytes(events: &[(u32, u32, u64)]) -> Vec<u8> {
        let order = if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };
        let mut bytes = Vec::new();
        for (cpu, sequence, time) in events {
            let action = u32::from(action::QUEUE) | (Category::QUEUE | Category::READ | Category::FS).in_action();
            let event = Event { cpu: *cpu, sequence: *sequence, time: *time, action, ..Event::default() };
            encode(&event, &[], order, &mut bytes);
        }
        bytes
    }

    fn times(live: &mut LiveRecords, until: u64) -> Vec<u64> {
        let mut into = Vec::new();
        live.release(until, &mut into);
        into.iter().map(|placed| placed.event.time).collect()
    }

    #[test]
    fn a_stream_is_the_same_however_it_is_cut() {
        let stream = bytes(&[(0, 1, 10), (0, 2, 30), (1, 1, 20), (1, 2, 40), (0, 3, 50)]);
        for step in [1, 7, RECORD_BYTES, stream.len()] {
            let mut live = LiveRecords::new();
            stream.chunks(step).for_each(|part| live.hand(part));
            assert_eq!(times(&mut live, 30), [10, 20, 30]);
            assert_eq!(times(&mut live, u64::MAX), [40, 50]);
            assert_eq!(live.losses().total(), 0);
        }
    }

    #[test]
    fn missing_numbers_and_bytes_that_are_no_record_are_counted() {
        let mut live = LiveRecords::new();
        live.hand(&bytes(&[(0, 1, 10), (0, 4, 30), (1, 9, 20)]));
        live.hand(b"CPU:0 [LOST 7 EVENTS]\n");
        live.hand(&bytes(&[(0, 5, 40)]));
        assert_eq!(times(&mut live, u64::MAX), [10, 20, 30, 40]);
        assert_eq!(live.losses().lost_events, 2);
        assert_eq!(live.losses().skipped.values().sum::<u64>(), 1);
        // One that was written late is not missing, and nothing is missing behind it.
        live.hand(&bytes(&[(0, 3, 42), (0, 6, 45)]));
        assert_eq!(live.losses().lost_events, 2);
        // The records of the tracer have no numbers.
        live.hand(&bytes(&[(0, 0, 50), (0, 0, 60)]));
        assert_eq!(live.losses().lost_events, 2);
    }
}
