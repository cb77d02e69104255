//! Closed loop over recorded think times: each stream (process or cgroup of a VM) sends its next request one recorded
//! think time after the completions that it waits for.
//!
//! These completions are inferred from the times of the stream alone (`closed/dependencies.rs`): synchronous requests
//! are waited for, others are not. Requests of one batch keep their recorded distances. A stream never has more
//! requests outstanding than in the trace. Left out: dependencies between streams.
//!
//! On another drive some streams advance faster than others, so the next record of a stream may lie far ahead in the
//! trace. Up to [`BUFFERED_MAX`] records are read ahead. A stream whose next record lies beyond them waits until the
//! other streams have used up records. Its arrivals may then be late; these are counted ([`Closed::late`]).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use traces::{Operation, Request, RequestId, StreamId, Timestamp, VmId};

use self::dependencies::{Dependency, Recorded, Since, UNAWAITED, WAITED_FOR};
use crate::source::{Next, ReplayError, Source};
use crate::sources::MergedTraces;

mod dependencies;

/// The number of records that are read ahead; about 5 MB.
pub const BUFFERED_MAX: usize = 65_536;

/// A trace without a completion among this many requests records no completions; at the edges of a capture some are
/// always missing.
const REQUESTS_WITHOUT_COMPLETION_MAX: u64 = 1000;

#[derive(Debug)]
struct Waiting {
    request: Request,
    dependency: Dependency,
    /// The kind of the request; `None` if it never completed.
    kind: Option<u8>,
}

/// The completion times of one kind in the replay of a stream, without the first `forgotten` ones, which are no longer
/// needed.
#[derive(Debug, Default)]
struct Completions {
    times: VecDeque<Timestamp>,
    forgotten: u64,
}

impl Completions {
    /// When the request number `completed` completed; `None` if it has not. Later calls ask for no smaller number.
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
    /// Whether the first request of the queue has been scheduled.
    scheduled: bool,
}

impl Stream {
    /// When the next request arrives, if that is known.
    fn due(&mut self) -> Option<Timestamp> {
        let Dependency { since, span, completed } = self.queue.front()?.dependency;
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

/// The counts of the records read of one VM.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    requests: u64,
    completions: u64,
    /// Whether its trace has shown a flag.
    flags: bool,
    /// Records that have not arrived yet.
    buffered: u64,
    /// Whether its trace has no further records.
    is_read: bool,
    /// Whether its end was announced.
    has_ended: bool,
}

/// Traces replayed as a closed loop.
pub struct Closed {
    traces: MergedTraces,
    streams: Vec<Stream>,
    index: BTreeMap<(VmId, StreamId), u32>,
    /// Streams whose next arrival is known: by its time, then in the order in which it became known.
    due: BinaryHeap<Reverse<(Timestamp, u64, u32)>>,
    sequence: u64,
    /// The stream and the kind of each outstanding request, by id.
    outstanding: Vec<(u32, Option<u8>)>,
    /// Per VM: used to refuse traces without completions and to interpret missing flags.
    seen: Vec<Seen>,
    buffered: usize,
    buffered_max: usize,
    exhausted: bool,
    late: u64,
    now: Timestamp,
}

impl Closed {
    /// A replay of `traces`, before its start.
    pub fn new(traces: MergedTraces) -> Closed {
        Closed {
            traces,
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

    /// The traces, with the counts of the records read.
    pub fn traces(&self) -> &MergedTraces {
        &self.traces
    }

    /// The number of arrivals that came later than their think time because their stream had drifted further from the
    /// others than records are read ahead.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// The number of requests without a completion time, and of all requests, that were read. No request waits for
    /// those.
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
            let Some(record) = self.traces.take()? else {
                self.exhausted = true;
                break;
            };
            self.read(record.request, record.observed.completed);
            while let Some(vm) = self.traces.ended_vm() {
                if let Some(seen) = self.seen.get_mut(usize::from(vm.0)) {
                    seen.is_read = true;
                }
            }
        }
        for (vm, &Seen { requests, completions, .. }) in self.seen.iter().enumerate() {
            let enough = requests >= REQUESTS_WITHOUT_COMPLETION_MAX || (self.exhausted && requests > 0);
            if enough && completions == 0 {
                return Err(ReplayError::NoCompletions { trace: self.traces.path_of(VmId(vm as u16)), requests });
            }
        }
        Ok(())
    }

    /// Adds the next record of the trace to its stream.
    fn read(&mut self, request: Request, completed: Option<Timestamp>) {
        let vm = usize::from(request.vm.0);
        if vm >= self.seen.len() {
            self.seen.resize(vm + 1, Seen::default());
        }
        let seen = &mut self.seen[vm];
        seen.requests += 1;
        seen.buffered += 1;
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
        let dependency = stream.recorded.infer(request.arrival, completed, kind);
        stream.queue.push_back(Waiting { request, dependency, kind: completed.map(|_| kind as u8) });
        self.buffered += 1;
        self.schedule(number);
    }

    /// Schedules the next request of the stream, if all its dependencies have completed.
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
        self.seen[usize::from(head.request.vm.0)].buffered -= 1;
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

    fn ended_vm(&mut self) -> Option<VmId> {
        let has_ended = |vm: &Seen| vm.is_read && vm.buffered == 0 && !vm.has_ended;
        let vm = self.seen.iter().position(has_ended)?;
        self.seen[vm].has_ended = true;
        Some(VmId(vm as u16))
    }
}

#[cfg(test)]
mod tests;
