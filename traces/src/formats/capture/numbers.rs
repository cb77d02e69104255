//! The numbers that the kernel gives the events of each CPU. It counts an event that finds its
//! buffer full, so that a missing number is a lost event.
//!
//! Numbers are checked after the merge. A task may be moved between taking a number and writing the event (possible in
//! a preemptible kernel). It then leaves an event with one CPU's number in the file of another. For the same reason a
//! gap is believed only when nothing has closed it within [`REORDER_WINDOW_NS`].
//!
//! A capture whose events all have the number 0 has no numbers: it was read through tracefs.

use std::path::Path;

use super::{Findings, REORDER_WINDOW_NS};
use crate::error::{Place, Problem, ReadError};
use crate::events::Event;

/// Finds out which events of a capture are missing.
pub(super) struct Numbers {
    /// The number expected next, by CPU; `UNSEEN` before the first event.
    next: Vec<u64>,
    /// By how much the number rises from event to event: not at all where there are none.
    step: u32,
    /// Gaps that may still close, oldest first.
    gaps: Vec<Gap>,
    /// Whether there is a gap, so that every event must be checked.
    open: bool,
}

const UNSEEN: u64 = u64::MAX;

/// More gaps than this at a time are not kept open.
const OPEN_GAPS: usize = 256;

/// Numbers that are missing, and the stream and place of the event after them.
pub(super) struct Gap {
    cpu: u32,
    first: u32,
    count: u32,
    time: u64,
    place: (usize, u64),
}

impl Gap {
    fn holds(&self, cpu: u32, number: u32) -> bool {
        cpu == self.cpu && number.wrapping_sub(self.first) < self.count
    }

    /// Stream and place of the event after it.
    pub(super) fn place(&self) -> (usize, u64) {
        self.place
    }

    /// Believes it: an error, or counted.
    pub(super) fn lost(&self, path: &Path, place: Place, findings: &mut Findings) -> Result<(), ReadError> {
        if findings.lenient {
            let before = findings.left_out.len();
            findings.left_out.retain(|(cpu, number)| !self.holds(*cpu, *number));
            let left_out = (before - findings.left_out.len()) as u64;
            findings.losses.lost_events += u64::from(self.count).saturating_sub(left_out);
            return Ok(());
        }
        let Gap { cpu, first, count, .. } = *self;
        let last = first.wrapping_add(count - 1);
        let why = format!("the capture lost {count} events of CPU {cpu} before this one (numbers {first} to {last})");
        Err(ReadError::new(path, place, Problem::Lost(why))
            .remedy("--lenient counts them and goes on; larger buffers (blktrace -b, -n) avoid them"))
    }
}

impl Numbers {
    pub(super) fn new() -> Numbers {
        Numbers { next: Vec::new(), step: 1, gaps: Vec::new(), open: false }
    }

    /// CPUs that events came from so far.
    pub(super) fn cpus(&self) -> impl Iterator<Item = usize> + '_ {
        self.next.iter().enumerate().filter(|(_, next)| **next != UNSEEN).map(|(cpu, _)| cpu)
    }

    /// Whether the events seen so far have numbers; true before the first.
    pub(super) fn are_there(&self) -> bool {
        self.step == 1
    }

    /// Whether an event has the number that is expected next of its CPU.
    pub(super) fn is_next(&self, event: &Event) -> bool {
        self.next.get(event.cpu as usize) == Some(&u64::from(event.sequence))
    }

    /// The fast path: the event has the number that was expected and no gap is open.
    #[inline]
    pub(super) fn expected(&mut self, event: &Event) -> bool {
        match self.next.get_mut(event.cpu as usize) {
            Some(next) if *next == u64::from(event.sequence) && !self.open => {
                *next = u64::from(event.sequence.wrapping_add(self.step));
                true
            }
            _ => false,
        }
    }

    /// Takes in an event that [`Numbers::expected`] has refused; `place` is its stream and place.
    /// Gives gaps to be believed.
    #[cold]
    pub(super) fn unexpected(&mut self, event: &Event, place: (usize, u64), findings: &mut Findings) -> Vec<Gap> {
        let mut believed = Vec::new();
        let cpu = event.cpu as usize;
        self.tell_whether_there_are_any(event);
        if cpu >= self.next.len() {
            self.next.resize(cpu + 1, UNSEEN);
        }
        let expected = self.next[cpu];
        let following = u64::from(event.sequence.wrapping_add(self.step));
        let ahead = event.sequence.wrapping_sub(expected as u32);
        if expected == UNSEEN || ahead == 0 {
            // A capture may have been cut: the first number of a CPU is taken as it is.
            self.next[cpu] = following;
        } else if ahead < 1 << 31 {
            let gap = Gap { cpu: event.cpu, first: expected as u32, count: ahead, time: event.time, place };
            self.gaps.push(gap);
            self.next[cpu] = following;
        } else if !self.fill(event) {
            // Two CPUs that take a number of the same one at once may both get it.
            findings.losses.unmatched("event with a number seen before");
        }
        if self.gaps.len() > OPEN_GAPS {
            believed.push(self.gaps.remove(0));
        }
        self.close(event.time, &mut believed);
        believed
    }

    /// The first event decides, and is overruled by any that has a number.
    fn tell_whether_there_are_any(&mut self, event: &Event) {
        if self.step == 0 && event.sequence != 0 {
            self.step = 1;
            self.next.fill(UNSEEN);
        } else if self.next.is_empty() {
            self.step = u32::from(event.sequence != 0);
        }
    }

    /// Takes the number of a late event out of the gap it left.
    fn fill(&mut self, event: &Event) -> bool {
        let Some(at) = self.gaps.iter().position(|gap| gap.holds(event.cpu, event.sequence)) else { return false };
        let gap = &mut self.gaps[at];
        let before = event.sequence.wrapping_sub(gap.first);
        let after = Gap {
            first: event.sequence.wrapping_add(1),
            count: gap.count - before - 1,
            ..Gap { place: gap.place, ..*gap }
        };
        gap.count = before;
        self.gaps.insert(at + 1, after);
        self.gaps.retain(|gap| gap.count > 0);
        true
    }

    /// Gives the gaps that no event up to `now` has closed in time, all at the end of the capture.
    fn close(&mut self, now: u64, believed: &mut Vec<Gap>) {
        let late = |gap: &&Gap| now.saturating_sub(gap.time) > REORDER_WINDOW_NS || now == u64::MAX;
        let count = self.gaps.iter().take_while(late).count();
        believed.extend(self.gaps.drain(..count));
        self.open = !self.gaps.is_empty();
    }

    /// The gaps that are left at the end of the capture.
    pub(super) fn end(&mut self) -> Vec<Gap> {
        let mut believed = Vec::new();
        self.close(u64::MAX, &mut believed);
        believed
    }
}
