//! The files of all CPUs merged into one sequence of events, and the gaps in their numbers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};

use super::stream::{Findings, Placed, REORDER_WINDOW_NS, Stream};
use crate::error::{Place, Problem, ReadError};
use crate::events::Event;

/// Order of events: time, then CPU and number, and last the file so that it is total.
type Key = (u64, u32, u32, usize);

/// The k-way merge.
pub(super) struct Merge {
    streams: Vec<Stream>,
    /// The stream the next event comes from.
    current: Option<usize>,
    /// The first events of all other streams that have one.
    rest: BinaryHeap<Reverse<Key>>,
    /// Time of the first of those: `current` is read up to it without a look at the others.
    challenge: u64,
    numbers: Numbers,
    device: u32,
    zero: u64,
    run: Run,
}

/// Events of one stream that follow one another: none of another file, device or CPU, nor a missing
/// number, is between them, so that all is checked for the whole run at once.
#[derive(Clone, Copy, Default)]
struct Run {
    stream: usize,
    /// The current event, and where the run ends, among what its stream has ready.
    at: usize,
    end: usize,
}

impl Merge {
    /// Opens the files; they hold at least one event.
    pub(super) fn open(paths: &[PathBuf], named: &Path, findings: &mut Findings) -> Result<Merge, ReadError> {
        let mut streams = Vec::with_capacity(paths.len());
        let mut rest = BinaryHeap::new();
        for path in paths {
            let stream = Stream::open(path, findings)?;
            rest.extend(key(&stream, streams.len()).map(Reverse));
            streams.push(stream);
        }
        let Some(Reverse((zero, _, _, first))) = rest.pop() else {
            return Err(ReadError::new(named, Place::Whole, Problem::Empty));
        };
        let device = streams[first].peek().map_or(0, |placed| placed.event.device);
        let challenge = rest.peek().map_or(u64::MAX, |Reverse(key)| key.0);
        let numbers = Numbers::default();
        Ok(Merge { streams, current: Some(first), rest, challenge, numbers, device, zero, run: Run::default() })
    }

    /// The traced device.
    pub(super) fn device(&self) -> u32 {
        self.device
    }

    /// Time of the earliest event.
    pub(super) fn zero(&self) -> u64 {
        self.zero
    }

    /// CPUs that events came from so far.
    pub(super) fn cpus(&self) -> impl Iterator<Item = usize> + '_ {
        self.numbers.cpus()
    }

    /// The files.
    pub(super) fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// Path and place of the current event.
    pub(super) fn place(&self) -> (&Path, Place) {
        let (stream, offset) = self.position();
        (self.streams[stream].path(), Place::Byte(offset))
    }

    /// Goes to the next event of the traced device; false at the end of the capture.
    #[inline]
    pub(super) fn next(&mut self, findings: &mut Findings) -> Result<bool, ReadError> {
        if self.run.at + 1 < self.run.end {
            self.run.at += 1;
            return Ok(true);
        }
        self.next_run(findings)
    }

    fn next_run(&mut self, findings: &mut Findings) -> Result<bool, ReadError> {
        if self.run.end > 0 {
            let Run { stream, end, .. } = std::mem::take(&mut self.run);
            self.go_past(stream, end, findings)?;
        }
        while let Some(current) = self.current {
            let (ready, at) = self.streams[current].ready();
            let Some(&Placed { event: first, .. }) = ready.get(at) else {
                // Only the refused events of a lenient read can leave a stream like that.
                self.switch(current);
                continue;
            };
            self.run = Run { stream: current, at, end: at + 1 };
            if first.device != self.device {
                self.other_device(first.device, findings)?;
                self.go_past(current, at + 1, findings)?;
                continue;
            }
            if self.numbers.expected(&first) {
                let follows =
                    |placed: &&Placed| placed.event.time < self.challenge && placed.event.device == first.device;
                let following = ready[at + 1..].iter().take_while(follows).map(|placed| &placed.event);
                self.run.end += self.numbers.expected_after(first.cpu, following);
            } else {
                self.numbers.unexpected(&first, self.position(), &self.streams, findings)?;
            }
            return Ok(true);
        }
        self.numbers.close(u64::MAX, &self.streams, findings)?;
        Ok(false)
    }

    /// Leaves the current stream's ready events before `end` behind.
    fn go_past(&mut self, current: usize, end: usize, findings: &mut Findings) -> Result<(), ReadError> {
        let stream = &mut self.streams[current];
        stream.go_to(end, findings)?;
        if stream.peek().is_none_or(|placed| placed.event.time >= self.challenge) {
            self.switch(current);
        }
        Ok(())
    }

    /// The event that [`Merge::next`] went to.
    #[inline]
    pub(super) fn event(&self) -> &Event {
        &self.streams[self.run.stream].ready().0[self.run.at].event
    }

    /// Stream and byte of the current event.
    fn position(&self) -> (usize, u64) {
        let Run { stream, at, .. } = self.run;
        (stream, self.streams[stream].ready().0.get(at).map_or(0, |placed| placed.offset))
    }

    /// Goes on with the stream whose event is first.
    fn switch(&mut self, current: usize) {
        match (key(&self.streams[current], current), self.rest.peek_mut()) {
            (None, None) => self.current = None,
            (Some(_), None) => {}
            (None, Some(top)) => {
                let Reverse(key) = std::collections::binary_heap::PeekMut::pop(top);
                self.current = Some(key.3);
            }
            (Some(key), Some(mut top)) => {
                if key > top.0 {
                    self.current = Some(top.0.3);
                    *top = Reverse(key);
                }
            }
        }
        self.challenge = self.rest.peek().map_or(u64::MAX, |Reverse(key)| key.0);
    }

    #[cold]
    fn other_device(&self, other: u32, findings: &mut Findings) -> Result<(), ReadError> {
        if findings.lenient {
            findings.losses.skip("event of another device");
            return Ok(());
        }
        let (path, place) = self.place();
        let (this, other) = (device_name(self.device), device_name(other));
        let why = format!("an event of device {other} in a capture of device {this}; a trace is of one device");
        Err(ReadError::malformed(path, place, why)
            .remedy("--lenient reads the first device and counts the events of others"))
    }
}

fn key(stream: &Stream, number: usize) -> Option<Key> {
    stream.peek().map(|Placed { event, .. }| (event.time, event.cpu, event.sequence, number))
}

/// `major:minor`, as `lsblk` prints it.
pub(super) fn device_name(device: u32) -> String {
    format!("{}:{}", device >> 20, device & 0xf_ffff)
}

/// The numbers that the kernel gives the events of each CPU. It counts an event that finds its
/// buffer full, so that a missing number is a lost event.
///
/// Numbers are checked after the merge: a task that is moved between taking a number and writing
/// the event (possible in a preemptible kernel) leaves an event with one CPU's number in the file
/// of another. For the same reason a gap is believed only when nothing has closed it within
/// [`REORDER_WINDOW_NS`].
#[derive(Default)]
struct Numbers {
    /// The number expected next, by CPU; `UNSEEN` before the first event.
    next: Vec<u64>,
    /// Gaps that may still close, oldest first.
    gaps: Vec<Gap>,
    /// Whether there is a gap, so that every event must be looked at.
    open: bool,
}

const UNSEEN: u64 = u64::MAX;

/// More gaps than this at a time are not kept open.
const OPEN_GAPS: usize = 256;

struct Gap {
    cpu: u32,
    first: u32,
    count: u32,
    time: u64,
    /// Stream and byte of the event after it.
    place: (usize, u64),
}

impl Gap {
    fn holds(&self, cpu: u32, number: u32) -> bool {
        cpu == self.cpu && number.wrapping_sub(self.first) < self.count
    }
}

impl Numbers {
    fn cpus(&self) -> impl Iterator<Item = usize> + '_ {
        self.next.iter().enumerate().filter(|(_, next)| **next != UNSEEN).map(|(cpu, _)| cpu)
    }

    /// The fast path: the event has the number that was expected and no gap is open.
    #[inline]
    fn expected(&mut self, event: &Event) -> bool {
        match self.next.get_mut(event.cpu as usize) {
            Some(next) if *next == u64::from(event.sequence) && !self.open => {
                *next = u64::from(event.sequence.wrapping_add(1));
                true
            }
            _ => false,
        }
    }

    /// How many of the events that follow one with the number that was expected are of its CPU and
    /// have the expected numbers too.
    #[inline]
    fn expected_after<'a>(&mut self, cpu: u32, following: impl Iterator<Item = &'a Event>) -> usize {
        let Some(next) = self.next.get_mut(cpu as usize) else { return 0 };
        let first = *next as u32;
        let mut expected = first;
        for event in following {
            if event.cpu != cpu || event.sequence != expected {
                break;
            }
            expected = expected.wrapping_add(1);
        }
        *next = u64::from(expected);
        expected.wrapping_sub(first) as usize
    }

    #[cold]
    fn unexpected(
        &mut self,
        event: &Event,
        place: (usize, u64),
        streams: &[Stream],
        findings: &mut Findings,
    ) -> Result<(), ReadError> {
        let cpu = event.cpu as usize;
        if cpu >= self.next.len() {
            self.next.resize(cpu + 1, UNSEEN);
        }
        let expected = self.next[cpu];
        let ahead = event.sequence.wrapping_sub(expected as u32);
        if expected == UNSEEN || ahead == 0 {
            // A capture may have been cut: the first number of a CPU is taken as it is.
            self.next[cpu] = u64::from(event.sequence.wrapping_add(1));
        } else if ahead < 1 << 31 {
            let gap = Gap { cpu: event.cpu, first: expected as u32, count: ahead, time: event.time, place };
            self.gaps.push(gap);
            self.next[cpu] = u64::from(event.sequence.wrapping_add(1));
        } else if !self.fill(event) {
            // Two CPUs that take a number of the same one at once may both get it.
            findings.losses.unmatched("event with a number seen before");
        }
        if self.gaps.len() > OPEN_GAPS {
            let oldest = self.gaps.remove(0);
            believe(&oldest, streams, findings)?;
        }
        self.close(event.time, streams, findings)
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

    /// Believes the gaps that no event up to `now` has closed in time.
    fn close(&mut self, now: u64, streams: &[Stream], findings: &mut Findings) -> Result<(), ReadError> {
        while let Some(gap) = self.gaps.first() {
            if now.saturating_sub(gap.time) <= REORDER_WINDOW_NS && now != u64::MAX {
                break;
            }
            let gap = self.gaps.remove(0);
            believe(&gap, streams, findings)?;
        }
        self.open = !self.gaps.is_empty();
        Ok(())
    }
}

fn believe(gap: &Gap, streams: &[Stream], findings: &mut Findings) -> Result<(), ReadError> {
    if findings.lenient {
        let before = findings.left_out.len();
        findings.left_out.retain(|(cpu, number)| !gap.holds(*cpu, *number));
        let left_out = (before - findings.left_out.len()) as u64;
        findings.losses.lost_events += u64::from(gap.count).saturating_sub(left_out);
        return Ok(());
    }
    let Gap { cpu, first, count, place: (stream, offset), .. } = *gap;
    let last = first.wrapping_add(count - 1);
    let why = format!("the capture lost {count} events of CPU {cpu} before this one (numbers {first} to {last})");
    Err(ReadError::new(streams[stream].path(), Place::Byte(offset), Problem::Lost(why))
        .remedy("--lenient counts them and goes on; larger buffers (blktrace -b, -n) avoid them"))
}
