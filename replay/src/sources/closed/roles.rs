//! Which streams are journals of file systems, which wait for their commits, and which have a pace of their own.
//!
//! A process that syncs a file writes its data, then waits until the journal has committed (`jbd2_log_wait_commit`,
//! Linux 6.1). The journal's thread sends the requests of a commit; the last one is durable ([`Flags::PREFLUSH`],
//! [`Flags::FUA`]). The trace holds both streams and not the wait between them. It is found in what the waiting process
//! does *not* do:
//!
//! - The process has written, and all that it wrote has completed. A commit begins after that. If the process waits for
//!   it, the process sends nothing until the commit's end. By chance it would send during commits as often as at any
//!   other time.
//! - A fast device commits in so little time that chance would hardly ever send during a commit. There the wait is seen
//!   at the beginning: commits begin far sooner after the process's writes than at an arbitrary time. The time in which
//!   another commit runs does not count.
//! - A process that thinks for longer than the journal pauses would hardly ever send during the next commit by chance,
//!   either. There its think time shows: counted from the commit's end it is far steadier than from its own write.
//!
//! What chance would do is counted in the trace itself: the same times between a process's write and its next request,
//! laid at other times of the trace ([`SHIFTS`]).
//!
//! A process that does not wait sends after its writes without any commit in between, unless commits are frequent. So
//! most of its writes must be followed by a whole commit before it goes on.
//!
//! Streams that a journal keeps from writing meanwhile are found beside them (`closed/log_writes.rs`), and then those with
//! a pace (`closed/pace.rs`).
//!
//! Linux lets a sync join a commit that began while its data were being written. Here only a commit that begins after
//! the data counts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use traces::{Flags, Lba, Nanos, Operation, Record, Request, Sectors, StreamId, Timestamp, VmId};

use super::log_writes::KeptOut;
use super::pace::Paced;
use super::write_back;

/// Fewest commits of a journal, and fewest waits of a stream, that show it. Set by judgement; not varied.
const SEEN_MIN: u64 = 16;
/// The most streams of a VM that are taken for journals: those with the most commits. A VM has one for each file system.
const JOURNALS_MAX: usize = 16;
/// By how many parts of the trace its requests are shifted, each by one more, to count what chance does. Set by judgement;
/// not varied.
const SHIFTS: u64 = 5;
/// Fewest requests that chance has to send during commits. Set by judgement; not varied.
pub(super) const EXPECTED_DURING_MIN: f64 = 8.0;
/// Largest share of them that a waiting stream sends. Set by judgement; not varied.
pub(super) const DURING_SHARE_MAX: f64 = 0.25;
/// Largest time of an idle journal from a waiting stream's write to the commit, as a share of what chance makes it. Set
/// by judgement; not varied.
const BEGINS_SOON_SHARE_MAX: f64 = 0.25;
/// Largest deviation of the times from commits to the requests after them, as a share of that of the times from writes.
/// Set by judgement; not varied.
const STEADY_SHARE_MAX: f64 = 0.5;

/// A drive has nothing to flush if a flush takes less than this share of a write, in the medians. Set by judgement: 1 to 28
/// % on the served drives whose writes are durable, 70 % on one with a volatile cache.
const NOTHING_FLUSHED_SHARE: f64 = 0.5;

/// A read that begins more sectors than this behind another does not go on where that ended; 32 MiB.
const GAP_MAX: u64 = 1 << 16;

/// The journals, the streams that wait for each, the streams that each keeps out while it writes its log, the streams with
/// a pace, the VMs whose threads take turns in writing back, and those whose drive has nothing to flush.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamRoles {
    waiting: BTreeMap<(VmId, StreamId), StreamId>,
    journals: BTreeSet<(VmId, StreamId)>,
    kept_out: BTreeMap<(VmId, StreamId), (StreamId, KeptOut)>,
    paced: BTreeMap<(VmId, StreamId), Paced>,
    one_flusher: BTreeSet<VmId>,
    nothing_flushed: BTreeSet<VmId>,
}

impl StreamRoles {
    /// Finds them in `records`, which are in the order of arrival.
    pub fn of(records: &[Record]) -> StreamRoles {
        let mut streams: BTreeMap<(VmId, StreamId), Vec<Sent>> = BTreeMap::new();
        let mut spans: BTreeMap<VmId, (Timestamp, Timestamp)> = BTreeMap::new();
        for Record { request, observed } in records {
            let (_, last) = spans.entry(request.vm).or_insert((request.arrival, request.arrival));
            *last = request.arrival;
            if request.is_sync() {
                let sent = Sent::of(request, observed.completed);
                streams.entry((request.vm, request.stream)).or_default().push(sent);
            }
        }
        let mut roles = StreamRoles {
            one_flusher: write_back::vms_with_one_flusher(records),
            nothing_flushed: vms_with_nothing_to_flush(records),
            ..StreamRoles::default()
        };
        let mut commits_of = BTreeMap::new();
        for (&vm, (first, last)) in &spans {
            let of_vm = || streams.range((vm, StreamId(0))..=(vm, StreamId(u32::MAX)));
            let with_commits = of_vm().filter_map(|(key, sent)| Some((*key, Commits::of(sent, last.since(*first))?)));
            let mut journals: Vec<_> = with_commits.collect();
            journals.sort_by_key(|(key, commits)| (Reverse(commits.commits.len()), *key));
            for ((_, journal), commits) in journals.into_iter().take(JOURNALS_MAX) {
                roles.add(vm, journal, &commits, of_vm());
                commits_of.insert((vm, journal), commits);
            }
        }
        for (stream, sent) in streams.iter().filter(|(stream, _)| !roles.journals.contains(stream)) {
            let commits = roles.waiting.get(stream).and_then(|journal| commits_of.get(&(stream.0, *journal)));
            if let Some(paced) = Paced::of(sent, commits.map_or(&[], |commits| &commits.commits)) {
                roles.paced.insert(*stream, paced);
                roles.kept_out.remove(stream);
            }
        }
        roles
    }

    /// Adds the streams that wait for a journal. A stream waits for one journal, that with more commits, and a journal for
    /// none with fewer.
    fn add<'a>(
        &mut self,
        vm: VmId,
        journal: StreamId,
        commits: &Commits,
        streams: impl Iterator<Item = (&'a (VmId, StreamId), &'a Vec<Sent>)> + Clone,
    ) {
        for (&stream, sent) in streams.clone() {
            let is_free = !self.waiting.contains_key(&stream) && !self.journals.contains(&stream);
            if is_free && stream.1 != journal && commits.make_wait(sent) {
                self.waiting.insert(stream, journal);
            }
        }
        if self.waiting.iter().any(|((of, _), awaited)| *of == vm && *awaited == journal) {
            self.journals.insert((vm, journal));
            let others = streams.filter(|(stream, _)| !self.journals.contains(stream));
            let kept_out = others.filter_map(|(&stream, sent)| {
                let waits = self.waiting.get(&stream) == Some(&journal);
                Some((stream, (journal, KeptOut::of(sent, &commits.commits, waits)?)))
            });
            kept_out.for_each(|(stream, by)| {
                self.kept_out.entry(stream).or_insert(by);
            });
        }
    }

    /// Adds the roles that were found in the trace of one VM, for `vm`.
    pub fn add_vm(&mut self, vm: VmId, found: &StreamRoles) {
        self.waiting.extend(found.waiting.iter().map(|((_, stream), journal)| ((vm, *stream), *journal)));
        self.journals.extend(found.journals.iter().map(|(_, stream)| (vm, *stream)));
        self.kept_out.extend(found.kept_out.iter().map(|((_, stream), by)| ((vm, *stream), *by)));
        self.paced.extend(found.paced.iter().map(|((_, stream), paced)| ((vm, *stream), *paced)));
        self.one_flusher.extend((!found.one_flusher.is_empty()).then_some(vm));
        self.nothing_flushed.extend((!found.nothing_flushed.is_empty()).then_some(vm));
    }

    /// The same, for a replay in which a flush takes the time that it took in the trace, whatever it flushed.
    #[must_use]
    pub fn with_timed_flushes(mut self) -> StreamRoles {
        self.nothing_flushed.clear();
        self
    }

    /// Whether a stream is a journal. Its synchronous writes are commits; what it writes back is not.
    pub fn is_journal(&self, vm: VmId, stream: StreamId) -> bool {
        self.journals.contains(&(vm, stream))
    }

    /// The journal that a stream waits for.
    pub fn awaited(&self, vm: VmId, stream: StreamId) -> Option<StreamId> {
        self.waiting.get(&(vm, stream)).copied()
    }

    /// The journal that keeps a stream out, and when.
    pub(super) fn kept_out(&self, vm: VmId, stream: StreamId) -> Option<(StreamId, KeptOut)> {
        self.kept_out.get(&(vm, stream)).copied()
    }

    /// Whether all writes of a VM that nobody waits for are one sequence, whatever thread sends them.
    pub(super) fn has_one_flusher(&self, vm: VmId) -> bool {
        self.one_flusher.contains(&vm)
    }

    /// Whether a VM's drive has nothing to flush: its writes are durable when they complete. A flush takes only the way.
    pub(super) fn has_nothing_to_flush(&self, vm: VmId) -> bool {
        self.nothing_flushed.contains(&vm)
    }

    /// The pace of a stream that has one.
    pub(super) fn paced(&self, vm: VmId, stream: StreamId) -> Option<Paced> {
        self.paced.get(&(vm, stream)).copied()
    }
}

/// The VMs whose drive has nothing to flush, by the device times in `records`.
fn vms_with_nothing_to_flush(records: &[Record]) -> BTreeSet<VmId> {
    let mut times: BTreeMap<VmId, [Vec<Nanos>; 2]> = BTreeMap::new();
    for Record { request, observed } in records {
        let Some(time) = observed.device_time() else { continue };
        match request.operation {
            Operation::Write => times.entry(request.vm).or_default()[0].push(time),
            Operation::Flush => times.entry(request.vm).or_default()[1].push(time),
            _ => {}
        }
    }
    let has_nothing = |[writes, flushes]: &mut [Vec<Nanos>; 2]| {
        let [write, flush] = [median(writes), median(flushes)].map(|time| time.map(|time| time.as_ns() as f64));
        write.zip(flush).is_some_and(|(write, flush)| flush <= NOTHING_FLUSHED_SHARE * write)
    };
    times.into_iter().filter_map(|(vm, mut times)| has_nothing(&mut times).then_some(vm)).collect()
}

/// The middle of the times, the later of two.
fn median(times: &mut [Nanos]) -> Option<Nanos> {
    let middle = times.len() / 2;
    (!times.is_empty()).then(|| *times.select_nth_unstable(middle).1)
}

/// Whether a request ends a commit.
pub(super) fn is_durable(request: &Request) -> bool {
    request.flags.intersects(Flags::PREFLUSH | Flags::FUA)
}

/// A synchronous request as recorded.
pub(super) struct Sent {
    pub(super) arrival: Timestamp,
    pub(super) completed: Timestamp,
    pub(super) writes: bool,
    pub(super) reads: bool,
    pub(super) durable: bool,
    /// Whether a page cache's read-ahead sent it.
    pub(super) ahead: bool,
    pub(super) begin: Lba,
    pub(super) end: Lba,
}

impl Sent {
    /// A request with its completion. One that never completed counts as complete when it arrived.
    pub(super) fn of(request: &Request, completed: Option<Timestamp>) -> Sent {
        Sent {
            arrival: request.arrival,
            completed: completed.unwrap_or(request.arrival),
            writes: request.operation == Operation::Write,
            reads: request.operation == Operation::Read,
            durable: is_durable(request),
            ahead: request.flags.contains(Flags::AHEAD),
            begin: request.lba,
            end: request.end(),
        }
    }

    /// How far it begins behind a place; `None` if it begins before it, or further away than windows of read-ahead have
    /// holes.
    pub(super) fn gap_behind(&self, end: Lba) -> Option<Sectors> {
        let gap = self.begin.sector().checked_sub(end.sector())?;
        (gap <= GAP_MAX).then_some(Sectors::new(gap))
    }

    /// How much it moves.
    pub(super) fn size(&self) -> Sectors {
        self.begin.distance(self.end)
    }
}

/// A commit as recorded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Commit {
    pub(super) begin: Timestamp,
    /// The end of its log write; its beginning if it has none.
    pub(super) logged: Timestamp,
    pub(super) end: Timestamp,
}

/// The commits of a stream.
struct Commits {
    /// In order.
    commits: Vec<Commit>,
    /// The length of the trace.
    span: Nanos,
}

/// What a stream did after its writes.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    writes: u64,
    /// Writes after which the next commit ended before the stream went on.
    waits: u64,
    /// Writes after which the stream went on during the next commit.
    during: u64,
    /// The time from the writes counted in `waits`, or from the end of a commit that ran then, to the commits, ns.
    until_begin: u64,
    /// From these writes, and from the ends of these commits, to the next request.
    since_write: Spread,
    since_commit: Spread,
}

/// Sums of times and of their squares, ns.
#[derive(Clone, Copy, Debug, Default)]
struct Spread {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Spread {
    fn add(&mut self, span: Nanos) {
        let ns = span.as_ns() as f64;
        (self.count, self.sum, self.squares) = (self.count + 1.0, self.sum + ns, self.squares + ns * ns);
    }

    /// The standard deviation, ns.
    fn deviation(&self) -> f64 {
        let mean = self.sum / self.count;
        (self.squares / self.count - mean * mean).max(0.0).sqrt()
    }
}

impl Tally {
    fn mean_until_begin(&self) -> f64 {
        self.until_begin as f64 / self.waits.max(1) as f64
    }
}

impl Commits {
    /// The commits among the synchronous requests of a stream, if it has enough of them. The trace is `span` long.
    fn of(sent: &[Sent], span: Nanos) -> Option<Commits> {
        let mut commits = Vec::new();
        let mut begun: Option<(Timestamp, Timestamp)> = None;
        for request in sent.iter().filter(|request| request.writes) {
            let (begin, end) = begun.unwrap_or((request.arrival, request.arrival));
            begun = Some((begin, end.max(request.completed)));
            if request.durable {
                begun = None;
                commits.push(Commit { begin, logged: end.min(request.arrival), end: end.max(request.completed) });
            }
        }
        ((commits.len() as u64) >= SEEN_MIN && span > Nanos::ZERO).then_some(Commits { commits, span })
    }

    /// Counts what a stream that sent these requests did, if its writes had completed `shift` later, around the trace.
    fn tally(&self, sent: &[Sent], shift: Nanos) -> Tally {
        let mut tally = Tally::default();
        let mut done = Timestamp::ZERO;
        let mut has_written = false;
        for request in sent {
            if has_written && done <= request.arrival {
                tally.writes += 1;
                let wrote = Timestamp::from_ns((done.as_ns() + shift.as_ns()) % (self.span.as_ns() + 1));
                let goes_on = wrote.saturating_add(request.arrival.since(done));
                let next = self.commits.partition_point(|commit| commit.begin < wrote);
                match self.commits.get(next) {
                    Some(Commit { begin, end, .. }) if *end <= goes_on => {
                        tally.waits += 1;
                        let free = next.checked_sub(1).map_or(Timestamp::ZERO, |before| self.commits[before].end);
                        tally.until_begin += begin.saturating_since(wrote.max(free)).as_ns();
                        tally.since_write.add(goes_on.since(wrote));
                        tally.since_commit.add(goes_on.since(*end));
                    }
                    Some(Commit { begin, .. }) if *begin <= goes_on => tally.during += 1,
                    _ => {}
                }
            }
            done = done.max(request.completed);
            has_written = request.writes;
        }
        tally
    }

    /// Whether a stream that sent these requests waits for the commits.
    fn make_wait(&self, sent: &[Sent]) -> bool {
        let seen = self.tally(sent, Nanos::ZERO);
        if seen.waits < SEEN_MIN || 2 * seen.waits < seen.writes {
            return false;
        }
        let shifted = |part: u64| self.tally(sent, Nanos::from_ns(self.span.as_ns() / SHIFTS * part));
        let by_chance: Vec<Tally> = (1..SHIFTS).map(shifted).collect();
        let mean = |of: fn(&Tally) -> f64| by_chance.iter().map(of).sum::<f64>() / by_chance.len() as f64;
        let expected = mean(|tally| tally.during as f64);
        let keeps_out = expected >= EXPECTED_DURING_MIN && seen.during as f64 <= DURING_SHARE_MAX * expected;
        let begins_soon = seen.mean_until_begin() <= BEGINS_SOON_SHARE_MAX * mean(Tally::mean_until_begin);
        let is_steady = seen.since_commit.deviation() <= STEADY_SHARE_MAX * seen.since_write.deviation();
        keeps_out || begins_soon || is_steady
    }
}
