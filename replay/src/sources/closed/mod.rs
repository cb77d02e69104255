//! Closed loop over recorded think times: each stream (process or cgroup of a VM) sends its next
//! request as long after the completions that it had waited for as it did when it was recorded.
//!
//! Which these were is inferred from the stream's own times (`closed/causes.rs`): synchronous requests are waited for, others are
//! not; batches stay together; a stream never goes deeper than it did. Left out: dependencies between streams.
//!
//! Streams drift apart as the drive lets them, so a stream's next record may lie far ahead in the
//! trace. [`BUFFERED_MAX`] records are read ahead; a stream that has drifted further than that waits
//! for the others, and its arrivals that came later for it are counted.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use traces::{Operation, Request, RequestId, StreamId, Timestamp, VmId};

use self::causes::{Cause, Recorded, Since, UNAWAITED, WAITED_FOR};
use crate::source::{Next, ReplayError, Source};
use crate::sources::MergedTraces;

mod causes;

/// How many records are read ahead; about 5 MB.
pub const BUFFERED_MAX: usize = 65_536;

/// So many requests without a single completion mark a trace that records none; at the edges of a
/// capture some are always missing.
const CONVINCING: u64 = 1000;

#[derive(Debug)]
struct Waiting {
    request: Request,
    cause: Cause,
    /// Of which kind it completes; `None` if it never did.
    kind: Option<u8>,
}

/// Completions of one kind in a stream's replay: when, but for the first so many, which nobody asks for any more.
#[derive(Debug, Default)]
struct Completions {
    times: VecDeque<Timestamp>,
    forgotten: u64,
}

impl Completions {
    /// When so many had completed, `None` if they have not. Later questions are for no fewer.
    fn reached(&mut self, completed: u64) -> Option<Timestamp> {
        while self.forgotten + 1 < completed && self.times.pop_front().is_some() {
            self.forgotten += 1;
        }
        if completed <= self.forgotten {
            return Some(Timestamp::ZERO);
        }
        if completed == self.forgotten + 1 { self.times.front().copied() } else { None }
    }
}

#[derive(Debug, Default)]
struct Stream {
    recorded: Recorded,
    queue: VecDeque<Waiting>,
    completions: [Completions; 2],
    replayed_arrival: Timestamp,
    /// Whether the head of the queue is due at a known time.
    scheduled: bool,
}

impl Stream {
    /// When the next request arrives, if that is known yet.
    fn due(&mut self) -> Option<Timestamp> {
        let Cause { since, span, completed } = self.queue.front()?.cause;
        let waited_for = self.completions[WAITED_FOR].reached(completed[WAITED_FOR])?;
        let unawaited = self.completions[UNAWAITED].reached(completed[UNAWAITED])?;
        let begin = match since {
            Since::Start => Timestamp::ZERO,
            Since::Arrival => self.replayed_arrival,
            Since::Completion => waited_for,
        };
        Some((begin + span).max(self.replayed_arrival).max(waited_for).max(unawaited))
    }
}

/// What was read of a VM.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    requests: u64,
    completions: u64,
    /// Whether its trace tells flags.
    flags: bool,
}

/// A workload replayed closed.
pub struct Closed {
    workload: MergedTraces,
    streams: Vec<Stream>,
    index: BTreeMap<(VmId, StreamId), u32>,
    /// Streams whose next arrival is known: when, then in the order in which it became known.
    due: BinaryHeap<Reverse<(Timestamp, u64, u32)>>,
    sequence: u64,
    /// Stream and kind of each outstanding request, by id.
    outstanding: Vec<(u32, Option<u8>)>,
    /// Per VM: to refuse traces without completions, and to know what their flags mean.
    seen: Vec<Seen>,
    buffered: usize,
    buffered_max: usize,
    exhausted: bool,
    late: u64,
    now: Timestamp,
}

impl Closed {
    /// A workload that has not begun.
    pub fn new(workload: MergedTraces) -> Closed {
        Closed {
            workload,
            streams: Vec::new(),
            index: BTreeMap::new(),
            due: BinaryHeap::new(),
            sequence: 0,
            outstanding: Vec::new(),
            seen: Vec::new(),
            buffered: 0,
            buffered_max: BUFFERED_MAX,
            exhausted: false,
            late: 0,
            now: Timestamp::ZERO,
        }
    }

    /// The workload, to ask what was read of it.
    pub fn workload(&self) -> &MergedTraces {
        &self.workload
    }

    /// Arrivals that came later than their think time, because their stream had drifted further from
    /// the others than is read ahead.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Requests read that have no completion time, of how many: nobody is taken to have waited for
    /// them.
    pub fn incomplete(&self) -> (u64, u64) {
        let sum = |of: fn(&Seen) -> u64| self.seen.iter().map(of).sum::<u64>();
        let requests = sum(|vm| vm.requests);
        (requests - sum(|vm| vm.completions), requests)
    }

    fn read_ahead(&mut self) -> Result<(), ReplayError> {
        if self.exhausted || self.buffered == self.buffered_max {
            return Ok(());
        }
        while !self.exhausted && self.buffered < self.buffered_max {
            let Some(record) = self.workload.take()? else {
                self.exhausted = true;
                break;
            };
            self.read(record.request, record.observed.completed);
        }
        for (vm, &Seen { requests, completions, .. }) in self.seen.iter().enumerate() {
            let enough = requests >= CONVINCING || (self.exhausted && requests > 0);
            if enough && completions == 0 {
                return Err(ReplayError::NoCompletions { trace: self.workload.path_of(VmId(vm as u16)), requests });
            }
        }
        Ok(())
    }

    /// Takes in the next record of the trace.
    fn read(&mut self, request: Request, completed: Option<Timestamp>) {
        let vm = usize::from(request.vm.0);
        if vm >= self.seen.len() {
            self.seen.resize(vm + 1, Seen::default());
        }
        let seen = &mut self.seen[vm];
        seen.requests += 1;
        seen.completions += u64::from(completed.is_some());
        seen.flags |= !request.flags.is_empty();
        let is_waited_for = request.is_sync() || request.operation == Operation::Flush || !seen.flags;
        let kind = if is_waited_for { WAITED_FOR } else { UNAWAITED };
        let number = self.streams.len() as u32;
        let number = *self.index.entry((request.vm, request.stream)).or_insert(number);
        if number as usize == self.streams.len() {
            self.streams.push(Stream::default());
        }
        let stream = &mut self.streams[number as usize];
        let cause = stream.recorded.infer(request.arrival, completed, kind);
        stream.queue.push_back(Waiting { request, cause, kind: completed.map(|_| kind as u8) });
        self.buffered += 1;
        self.schedule(number);
    }

    /// Works out when the stream's next request arrives, if all is there that it waits for.
    fn schedule(&mut self, number: u32) {
        let stream = &mut self.streams[number as usize];
        if stream.scheduled {
            return;
        }
        if let Some(due) = stream.due() {
            stream.scheduled = true;
            self.sequence += 1;
            self.due.push(Reverse((due, self.sequence, number)));
        }
    }
}

impl Source for Closed {
    fn next(&mut self) -> Result<Next, ReplayError> {
        self.read_ahead()?;
        Ok(match self.due.peek() {
            Some(&Reverse((due, _, _))) => Next::At(due.max(self.now)),
            None if self.exhausted && self.buffered == 0 => Next::Exhausted,
            None => Next::Blocked,
        })
    }

    fn take(&mut self, now: Timestamp, id: RequestId) -> Result<Request, ReplayError> {
        self.now = now;
        let Reverse((due, _, number)) = self.due.pop().expect("the engine takes what was announced");
        self.late += u64::from(due < now);
        let stream = &mut self.streams[number as usize];
        let mut head = stream.queue.pop_front().expect("a stream that is due has a request");
        stream.replayed_arrival = now;
        stream.scheduled = false;
        self.buffered -= 1;
        if id.index() >= self.outstanding.len() {
            self.outstanding.resize(id.index() + 1, (0, None));
        }
        self.outstanding[id.index()] = (number, head.kind);
        self.schedule(number);
        head.request.arrival = now;
        Ok(head.request)
    }

    fn completed(&mut self, now: Timestamp, id: RequestId, _request: &Request) {
        self.now = now;
        let (number, kind) = self.outstanding[id.index()];
        if let Some(kind) = kind {
            self.streams[number as usize].completions[usize::from(kind)].times.push_back(now);
            self.schedule(number);
        }
    }
}

#[cfg(test)]
mod tests;
