//! Closed loop over recorded think times: each stream (process or cgroup of a VM) sends its next request one recorded
//! think time after the completions that it waits for.
//!
//! These completions are inferred from the times of the stream alone (`closed/dependencies.rs`): synchronous requests
//! are waited for, others are not. Requests of one batch keep their recorded distances. A stream never has more
//! requests outstanding than in the trace. Of the dependencies between streams one is known: processes that wait for
//! commits of a journal (`closed/roles.rs`), which commits as often as they need (`closed/commits.rs`), and keeps
//! others from writing meanwhile (`closed/log_writes.rs`). Which streams these are, and which have a pace of their own
//! (`closed/pace.rs`), is learned from the records that are read ahead before the start, or known
//! ([`Closed::with_roles`]).
//!
//! On another drive some streams advance faster than others, so the next record of a stream may lie far ahead in the
//! trace. Up to [`BUFFERED_MAX`] records are read ahead. A stream whose next record lies beyond them waits until the
//! other streams have used up records. Its arrivals may then be late; these are counted ([`Closed::late`]).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use traces::results::JournalCommits;
use traces::{Flags, Nanos, Operation, Record, Request, RequestId, StreamId, Timestamp, VmId};

use self::commits::Journal;
use self::dependencies::{Dependency, Recorded, Since, UNAWAITED, WAITED_FOR};
use self::log_writes::KeptOut;
pub use self::roles::StreamRoles;
use self::roles::{Sent, is_durable};
use self::seen::Seen;
use self::stream::{CommitWait, Due, Stream, Waiting};
use crate::source::{Next, ReplayError, Source};
use crate::sources::MergedTraces;

mod commits;
mod dependencies;
mod log_writes;
mod pace;
mod read_ahead;
mod roles;
mod seen;
mod stream;
mod used_up;
mod write_back;

/// The number of records that are read ahead; about 5 MB, and at the start, when roles are learned, twice as much.
pub const BUFFERED_MAX: usize = 65_536;

/// A trace without a completion among this many requests records no completions; at the edges of a capture some are
/// always missing.
const REQUESTS_WITHOUT_COMPLETION_MAX: u64 = 1000;

/// Who sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sender {
    Stream(u32),
    /// The commits of a journal. What the same process writes back is a stream.
    Journal(u32),
}

/// The commits of a journal, with its VM.
#[derive(Debug)]
struct JournalOf {
    vm: VmId,
    commits: Journal,
    /// Which of the arrivals in [`Closed::due`] is its next one. Others are out of date.
    scheduled: Option<(Timestamp, u64)>,
    /// Streams that it keeps out until its log is written, and when their requests were due.
    kept_out: Vec<(u32, Timestamp)>,
}

/// Traces replayed as a closed loop.
pub struct Closed {
    traces: MergedTraces,
    streams: Vec<Stream>,
    index: BTreeMap<(VmId, StreamId), u32>,
    journals: Vec<JournalOf>,
    journal_index: BTreeMap<(VmId, StreamId), u32>,
    /// Which streams are journals, which wait for them, and which have a pace, once that is known.
    roles: Option<StreamRoles>,
    /// Whether the first records have been read.
    has_begun: bool,
    /// Senders whose next arrival is known: by its time, then in the order in which it became known.
    due: BinaryHeap<Reverse<(Timestamp, u64, Sender)>>,
    sequence: u64,
    /// The sender and, of a stream, the kind of each outstanding request, by id.
    outstanding: Vec<(Sender, Option<u8>)>,
    /// Per VM: used to refuse traces without completions and to interpret missing flags.
    seen: Vec<Seen>,
    buffered: usize,
    buffered_max: usize,
    exhausted: bool,
    late: u64,
    start: Timestamp,
    now: Timestamp,
}

impl Closed {
    /// A replay of `traces`, before its start.
    pub fn new(traces: MergedTraces) -> Closed {
        Closed {
            traces,
            streams: Vec::new(),
            index: BTreeMap::new(),
            journals: Vec::new(),
            journal_index: BTreeMap::new(),
            roles: None,
            has_begun: false,
            due: BinaryHeap::new(),
            sequence: 0,
            outstanding: Vec::new(),
            seen: Vec::new(),
            buffered: 0,
            buffered_max: BUFFERED_MAX,
            exhausted: false,
            late: 0,
            start: Timestamp::ZERO,
            now: Timestamp::ZERO,
        }
    }

    /// The same replay, begun at `start` in the time of the traces. What arrived before is taken to have gone as
    /// recorded: from it is known what the requests after it wait for. Write-back that is outstanding then is sent at the
    /// start, since the queue that it makes may stand for long.
    #[must_use]
    pub fn starting_at(self, start: Timestamp) -> Closed {
        Closed { start, now: start, ..self }
    }

    /// The same replay, of traces whose journals and paces are known.
    #[must_use]
    pub fn with_roles(self, roles: StreamRoles) -> Closed {
        Closed { roles: Some(roles), ..self }
    }

    /// The same replay, of VMs whose flushes are held back outside while write-back is throttled.
    #[must_use]
    pub fn with_throttled_flushes(mut self, vms: &[VmId]) -> Closed {
        for vm in vms {
            let vm = usize::from(vm.0);
            self.seen.resize(self.seen.len().max(vm + 1), Seen::default());
            self.seen[vm].waits_outside = true;
        }
        self
    }

    /// The same replay, of `vms` whose kernels have at most `depth` requests of write-back outstanding, each; at least one.
    #[must_use]
    pub fn with_write_back_depth(mut self, vms: &[VmId], depth: u32) -> Closed {
        for vm in vms {
            let vm = usize::from(vm.0);
            self.seen.resize(self.seen.len().max(vm + 1), Seen::default());
            self.seen[vm].write_back_depth = Some(u64::from(depth.max(1)));
        }
        self
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

    /// The commits of journals that were recorded, and of these the ones that the replay left out and repeated.
    pub fn journal_commits(&self) -> JournalCommits {
        let counts = self.journals.iter().map(|journal| journal.commits.counts());
        counts.fold(JournalCommits::default(), JournalCommits::and)
    }

    /// The traces of VMs whose programs the drive of the trace held back from writing. How much they would write on a
    /// faster one is not in the trace: the kernel stops programs at its dirty limits, and writes back without end.
    pub fn held_back_writers(&self) -> Vec<String> {
        let held_back = self.seen.iter().enumerate().filter(|(_, seen)| seen.write_back.is_held_back());
        held_back.map(|(vm, _)| self.traces.path_of(VmId(vm as u16)).display().to_string()).collect()
    }

    /// Learns from the first records which streams are journals and which have a pace, unless that is known, and reads
    /// them. No request has arrived yet.
    fn begin(&mut self) -> Result<(), ReplayError> {
        self.has_begun = true;
        let mut first = Vec::new();
        if self.roles.is_none() {
            while !self.exhausted && first.len() < self.buffered_max {
                match self.traces.take()? {
                    Some(record) => first.push(record),
                    None => self.exhausted = true,
                }
            }
            self.roles = Some(StreamRoles::of(&first));
        }
        first.into_iter().for_each(|record| self.read(record));
        Ok(())
    }

    fn read_ahead(&mut self) -> Result<(), ReplayError> {
        if self.exhausted || self.buffered >= self.buffered_max {
            return Ok(());
        }
        if !self.has_begun {
            self.begin()?;
        }
        while !self.exhausted && self.buffered < self.buffered_max {
            match self.traces.take()? {
                Some(record) => self.read(record),
                None => self.exhausted = true,
            }
        }
        if self.exhausted {
            for journal in 0..self.journals.len() as u32 {
                self.with_journal(journal, Journal::read_end);
                self.schedule_journal(journal);
            }
        }
        self.check_read()
    }

    /// Notes which VMs have no further records, and refuses traces without completions.
    fn check_read(&mut self) -> Result<(), ReplayError> {
        while let Some(vm) = self.traces.ended_vm() {
            if let Some(seen) = self.seen.get_mut(usize::from(vm.0)) {
                seen.end_of_trace(self.streams.iter().filter(|stream| stream.vm == vm));
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
    fn read(&mut self, record: Record) {
        let (request, mut completed) = (record.request, record.observed.completed);
        let vm = usize::from(request.vm.0);
        let number = self.stream(request.vm, request.stream);
        let seen = &mut self.seen[vm];
        seen.requests += 1;
        seen.completions += u64::from(completed.is_some());
        seen.flags |= !request.flags.is_empty();
        seen.recorded_from.get_or_insert(request.arrival);
        seen.recorded_to = request.arrival;
        let is_waited_for = request.is_sync() || request.operation == Operation::Flush || !seen.flags;
        let kind = if is_waited_for { WAITED_FOR } else { UNAWAITED };
        let seen_flags = seen.flags;
        if !is_waited_for && let Some(completed) = completed {
            seen.write_back.add(request.arrival, completed);
        }
        match request.operation {
            Operation::Flush => {
                let has_nothing = self.roles.as_ref().is_some_and(|roles| roles.has_nothing_to_flush(request.vm));
                completed = seen.flush_without_wait(&record, has_nothing);
            }
            Operation::Write if is_durable(&request) => {
                seen.durable_until = seen.durable_until.max(completed.unwrap_or_default());
            }
            _ => {}
        }
        self.streams[number as usize].writes_back |= !is_waited_for;
        let number = if is_waited_for { number } else { self.flusher(number) };
        let stream = &mut self.streams[number as usize];
        if let Some(journal) = stream.commits.filter(|_| request.operation == Operation::Write && request.is_sync()) {
            self.with_journal(journal, |commits| commits.read(request, completed));
            self.schedule_journal(journal);
            return;
        }
        stream.recorded_to = request.arrival;
        // A journal that nobody waits for writes metadata, by its timer.
        let is_meta = request.flags.contains(Flags::META);
        stream.writes |= is_waited_for && seen_flags && !is_meta && request.operation != Operation::Read;
        let awaits = stream.awaits.filter(|_| request.is_sync());
        let wait = awaits.and_then(|(journal, waiter)| {
            let writes = request.operation == Operation::Write;
            self.journals[journal as usize].commits.read_waiter(waiter, &request, completed, writes)
        });
        let paced = stream.paced.filter(|_| request.is_sync());
        let begins = paced.and_then(|paced| stream.batches.begins(paced, &Sent::of(&request, completed)));
        // Its request counts once among those outstanding.
        let counted = completed.filter(|_| is_waited_for || !stream.recorded.joins(&request, completed));
        let mut dependency =
            stream.recorded.infer(request.arrival, counted, kind, wait, begins.filter(|begins| begins.by_pace()));
        let mut resume = None;
        if let Some((journal, kept_out)) = stream.kept_out
            && request.operation == Operation::Write
            && matches!(dependency.since, Since::Completion | Since::Commit(_))
        {
            let log_writes = &self.journals[journal as usize].commits.recorded_log_writes;
            let think = log_writes.think(kept_out, request.arrival, dependency.span);
            (dependency.span, resume) = (think.span, Some(think.resume));
        }
        if request.arrival < self.start {
            if is_waited_for || completed.is_none_or(|completed| completed <= self.start) {
                stream.pass(request.arrival, counted, kind, begins.is_some());
                return;
            }
            dependency = Dependency { since: Since::Start, span: self.start.since(Timestamp::ZERO), ..dependency };
        }
        self.buffered += 1;
        self.seen[vm].buffered += 1;
        let kind = counted.map(|_| kind as u8);
        stream.queue.push_back(Waiting { request, dependency, kind, resume, begins });
        self.schedule(number);
    }

    /// The number of a stream, with its part in a journal if it is new.
    fn stream(&mut self, vm: VmId, stream: StreamId) -> u32 {
        if let Some(&number) = self.index.get(&(vm, stream)) {
            return number;
        }
        let number = self.streams.len() as u32;
        self.index.insert((vm, stream), number);
        let vms = self.seen.len().max(usize::from(vm.0) + 1);
        self.seen.resize(vms, Seen::default());
        let roles = self.roles.as_ref();
        let is_journal = roles.is_some_and(|roles| roles.is_journal(vm, stream));
        let awaited = roles.and_then(|roles| roles.awaited(vm, stream));
        let kept_out = roles.and_then(|roles| roles.kept_out(vm, stream));
        let paced = roles.and_then(|roles| roles.paced(vm, stream));
        let commits = is_journal.then(|| self.journal(vm, stream));
        let awaits = awaited.map(|awaited| {
            let journal = self.journal(vm, awaited);
            (journal, self.journals[journal as usize].commits.add_waiter())
        });
        let kept_out = kept_out.map(|(by, when)| (self.journal(vm, by), when));
        let recorded = Recorded::of(self.seen[usize::from(vm.0)].write_back_depth);
        self.streams.push(Stream { vm, commits, awaits, kept_out, paced, recorded, ..Stream::default() });
        number
    }

    /// The stream that writes back what the stream `number` does.
    fn flusher(&mut self, number: u32) -> u32 {
        let vm = self.streams[number as usize].vm;
        let seen = &mut self.seen[usize::from(vm.0)];
        if seen.flusher.is_none() && self.roles.as_ref().is_some_and(|roles| roles.has_one_flusher(vm)) {
            seen.flusher = Some(self.streams.len() as u32);
            let recorded = Recorded::of(seen.write_back_depth);
            self.streams.push(Stream { vm, writes_back: true, recorded, ..Stream::default() });
        }
        seen.flusher.unwrap_or(number)
    }

    /// The number of a journal.
    fn journal(&mut self, vm: VmId, stream: StreamId) -> u32 {
        let number = self.journals.len() as u32;
        let number = *self.journal_index.entry((vm, stream)).or_insert(number);
        if number as usize == self.journals.len() {
            self.journals.push(JournalOf {
                vm,
                commits: Journal::starting_at(self.start),
                scheduled: None,
                kept_out: Vec::new(),
            });
        }
        number
    }

    /// Schedules the next request of the stream, if all its dependencies have completed.
    fn schedule(&mut self, number: u32) {
        let stream = &mut self.streams[number as usize];
        if stream.scheduled {
            return;
        }
        match stream.due(self.seen[usize::from(stream.vm.0)].progress) {
            Some(Due::At(due)) => {
                stream.scheduled = true;
                if let Some((journal, _)) = stream.kept_out {
                    stream.logged = self.journals[journal as usize].commits.logged(self.now);
                }
                self.push_stream(due, number);
            }
            Some(Due::Commit(since, commit)) => {
                stream.commit_wait = CommitWait::Wants;
                let (journal, _) = stream.awaits.expect("only a stream that waits depends on a commit");
                self.with_journal(journal, |commits| commits.want(number, since, commit));
                self.schedule_journal(journal);
            }
            None => {}
        }
    }

    fn push_stream(&mut self, due: Timestamp, number: u32) {
        self.sequence += 1;
        self.due.push(Reverse((due, self.sequence, Sender::Stream(number))));
    }

    /// Schedules the next request of a journal, if it is known when that comes.
    fn schedule_journal(&mut self, number: u32) {
        let JournalOf { commits, scheduled, .. } = &mut self.journals[number as usize];
        let due = commits.due().map(|at| at.max(self.now));
        if due == scheduled.map(|(at, _)| at) {
            return;
        }
        *scheduled = due.map(|at| {
            self.sequence += 1;
            self.due.push(Reverse((at, self.sequence, Sender::Journal(number))));
            (at, self.sequence)
        });
    }

    /// Makes the head of [`Closed::due`] true: removes arrivals of journals that are out of date, and puts off those of
    /// streams that are kept out.
    fn settle_head(&mut self) {
        while let Some(&Reverse((due, sequence, sender))) = self.due.peek() {
            match sender {
                Sender::Journal(number) if self.journals[number as usize].scheduled != Some((due, sequence)) => {
                    self.due.pop();
                }
                Sender::Stream(number) if self.put_off(number, due) => {}
                _ => return,
            }
        }
    }

    /// Puts off the request of a stream at the head of [`Closed::due`] if its journal keeps it out, or has kept it out
    /// since it was scheduled.
    fn put_off(&mut self, number: u32, due: Timestamp) -> bool {
        let stream = &mut self.streams[number as usize];
        let Some((journal, kept_out)) = stream.kept_out.filter(|_| stream.next_is_kept_out()) else { return false };
        let JournalOf { commits, kept_out: waiting, .. } = &mut self.journals[journal as usize];
        if commits.logs() {
            self.due.pop();
            waiting.push((number, due));
            return true;
        }
        let stood = commits.logged(self.now).saturating_sub(stream.logged);
        if kept_out == KeptOut::AtSend || stood == Nanos::ZERO {
            return false;
        }
        stream.logged += stood;
        self.due.pop();
        self.push_stream(due.saturating_add(stood), number);
        true
    }

    /// Schedules the streams that a journal kept out, if its log is written.
    fn let_in(&mut self, number: u32) {
        let JournalOf { commits, kept_out: waiting, .. } = &mut self.journals[number as usize];
        if waiting.is_empty() || commits.logs() {
            return;
        }
        let logged = commits.logged(self.now);
        for (number, due) in std::mem::take(waiting) {
            let stream = &mut self.streams[number as usize];
            let due = stream.due_when_let_in(due, self.now, logged);
            self.push_stream(due, number);
        }
    }

    /// Takes the request of a journal that is due.
    fn take_commit(&mut self, now: Timestamp, number: u32) -> Request {
        let JournalOf { vm, scheduled, .. } = &mut self.journals[number as usize];
        *scheduled = None;
        self.seen[usize::from(vm.0)].arrivals += 1;
        let request = self.with_journal(number, |commits| commits.take(now));
        self.let_in(number);
        self.schedule_journal(number);
        request
    }

    /// Changes a journal. Its requests that have not arrived become fewer or more: commits are left out or repeated.
    fn with_journal<R>(&mut self, number: u32, change: impl FnOnce(&mut Journal) -> R) -> R {
        let JournalOf { vm, commits, .. } = &mut self.journals[number as usize];
        let before = commits.held();
        let result = change(commits);
        let seen = &mut self.seen[usize::from(vm.0)];
        self.buffered = self.buffered + commits.held() - before;
        seen.buffered = seen.buffered + commits.held() as u64 - before as u64;
        result
    }

    /// A request of a journal has completed.
    fn commit_completed(&mut self, now: Timestamp, number: u32) {
        if self.with_journal(number, |commits| commits.completed(now)) {
            while let Some(stream) = self.journals[number as usize].commits.next_served() {
                self.streams[stream as usize].commit_wait = CommitWait::Served(now);
                self.schedule(stream);
            }
        }
        self.let_in(number);
        self.schedule_journal(number);
    }

    /// Takes the next request of a stream, which is due.
    fn take_of_stream(&mut self, now: Timestamp, number: u32) -> (Request, Option<u8>) {
        let stream = &mut self.streams[number as usize];
        let mut head = stream.queue.pop_front().expect("a stream that is due has a request");
        stream.replayed_arrival = now;
        stream.sends(now, head.begins.is_some(), head.kind);
        let seen = &mut self.seen[usize::from(stream.vm.0)];
        if stream.writes && !stream.writes_back {
            seen.progress.sends(now, head.request.arrival, &mut stream.late_ns);
        }
        stream.scheduled = false;
        stream.commit_wait = CommitWait::Idle;
        self.buffered -= 1;
        seen.buffered -= 1;
        seen.arrivals += 1;
        seen.note_used_up(stream);
        head.request.arrival = now;
        (head.request, head.kind)
    }
}

impl Source for Closed {
    fn next(&mut self) -> Result<Next, ReplayError> {
        self.read_ahead()?;
        self.settle_head();
        Ok(match self.due.peek() {
            Some(&Reverse((due, _, _))) => Next::At(due.max(self.now)),
            None if self.exhausted && self.buffered == 0 => Next::Exhausted,
            None => Next::Blocked,
        })
    }

    fn take(&mut self, now: Timestamp, id: RequestId) -> Result<Request, ReplayError> {
        self.now = now;
        let Reverse((due, _, sender)) = self.due.pop().expect("the engine takes what was announced");
        self.late += u64::from(due < now);
        let (request, kind) = match sender {
            Sender::Stream(number) => self.take_of_stream(now, number),
            Sender::Journal(number) => (self.take_commit(now, number), None),
        };
        if id.index() >= self.outstanding.len() {
            self.outstanding.resize(id.index() + 1, (sender, None));
        }
        self.outstanding[id.index()] = (sender, kind);
        if let Sender::Stream(number) = sender {
            self.schedule(number);
        }
        Ok(request)
    }

    fn completed(&mut self, now: Timestamp, id: RequestId, _request: &Request) {
        self.now = now;
        match self.outstanding[id.index()] {
            (Sender::Journal(number), _) => self.commit_completed(now, number),
            (Sender::Stream(number), Some(kind)) => {
                self.streams[number as usize].completes(now, kind);
                self.schedule(number);
            }
            (Sender::Stream(_), None) => {}
        }
    }

    fn ended_vm(&mut self) -> Option<VmId> {
        let has_ended = |vm: &Seen| vm.is_read && (vm.buffered == 0 || vm.used_up.is_some()) && !vm.has_ended;
        let vm = self.seen.iter().position(has_ended)?;
        self.seen[vm].has_ended = true;
        Some(VmId(vm as u16))
    }
}

#[cfg(test)]
mod journal_tests;
#[cfg(test)]
mod log_write_tests;
#[cfg(test)]
mod pace_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod used_up_tests;
#[cfg(test)]
mod write_back_tests;
