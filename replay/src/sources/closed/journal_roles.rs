//! Which streams are journals of file systems, and which streams wait for their commits.
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
//!   at the beginning: commits begin far sooner after the process's writes than at an arbitrary time.
//!
//! A process that does not wait sends after its writes without any commit in between, unless commits are frequent. So
//! most of its writes must be followed by a whole commit before it goes on.
//!
//! Linux lets a sync join a commit that began while its data were being written. Here only a commit that begins after
//! the data counts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use traces::{Flags, Nanos, Operation, Record, Request, StreamId, Timestamp, VmId};

/// Fewest commits of a journal, and fewest waits of a stream, that show it. Set by judgement; not varied.
const SEEN_MIN: u64 = 16;
/// The most streams of a VM that are taken for journals: those with the most commits. A VM has one for each file system.
const JOURNALS_MAX: usize = 16;
/// Fewest arrivals that chance has to send during commits. Set by judgement; not varied.
const EXPECTED_DURING_MIN: f64 = 8.0;
/// Largest share of them that a waiting stream sends. Set by judgement; not varied.
const DURING_SHARE_MAX: f64 = 0.25;
/// Largest time from a waiting stream's write to the commit, as a share of the time between two commits. Chance makes it
/// one half. Set by judgement; not varied.
const BEGINS_SOON_SHARE_MAX: f64 = 0.125;

/// The journals and the streams that wait for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalRoles {
    waiting: BTreeMap<(VmId, StreamId), StreamId>,
    journals: BTreeSet<(VmId, StreamId)>,
}

impl JournalRoles {
    /// Finds them in `records`, which are in the order of arrival.
    pub fn of(records: &[Record]) -> JournalRoles {
        let mut streams: BTreeMap<(VmId, StreamId), Vec<Sent>> = BTreeMap::new();
        let mut spans: BTreeMap<VmId, (Timestamp, Timestamp)> = BTreeMap::new();
        for Record { request, observed } in records {
            let (_, last) = spans.entry(request.vm).or_insert((request.arrival, request.arrival));
            *last = request.arrival;
            if request.is_sync() {
                streams.entry((request.vm, request.stream)).or_default().push(Sent {
                    arrival: request.arrival,
                    completed: observed.completed.unwrap_or(request.arrival),
                    writes: request.operation == Operation::Write,
                    durable: is_durable(request),
                });
            }
        }
        let mut roles = JournalRoles::default();
        for (&vm, (first, last)) in &spans {
            let of_vm = || streams.range((vm, StreamId(0))..=(vm, StreamId(u32::MAX)));
            let with_commits = of_vm().filter_map(|(key, sent)| Some((*key, Commits::of(sent, last.since(*first))?)));
            let mut journals: Vec<_> = with_commits.collect();
            journals.sort_by_key(|(key, commits)| (Reverse(commits.periods.len()), *key));
            for ((_, journal), commits) in journals.into_iter().take(JOURNALS_MAX) {
                for (&(_, stream), sent) in of_vm() {
                    // A stream that waits for two journals waits for the one with more commits.
                    if stream != journal && !roles.waiting.contains_key(&(vm, stream)) && commits.make_wait(sent) {
                        roles.waiting.insert((vm, stream), journal);
                        roles.journals.insert((vm, journal));
                    }
                }
            }
        }
        // Nobody waits for a stream that waits itself.
        let JournalRoles { waiting, journals } = &mut roles;
        journals.retain(|journal| !waiting.contains_key(journal));
        waiting.retain(|(vm, _), journal| journals.contains(&(*vm, *journal)));
        roles
    }

    /// Whether a stream is a journal. Its synchronous writes are commits; what it writes back is not.
    pub fn is_journal(&self, vm: VmId, stream: StreamId) -> bool {
        self.journals.contains(&(vm, stream))
    }

    /// The journal that a stream waits for.
    pub fn awaited(&self, vm: VmId, stream: StreamId) -> Option<StreamId> {
        self.waiting.get(&(vm, stream)).copied()
    }
}

/// Whether a request ends a commit.
pub(super) fn is_durable(request: &Request) -> bool {
    request.flags.intersects(Flags::PREFLUSH | Flags::FUA)
}

/// A synchronous request as recorded.
struct Sent {
    arrival: Timestamp,
    completed: Timestamp,
    writes: bool,
    durable: bool,
}

/// The commits of a stream: beginning and end of each, in order.
struct Commits {
    periods: Vec<(Timestamp, Timestamp)>,
    /// The share of the time in which one runs.
    busy: f64,
    /// The mean time between two beginnings.
    interval: f64,
}

impl Commits {
    /// The commits among the synchronous requests of a stream, if it has enough of them. The trace is `span` long.
    fn of(sent: &[Sent], span: Nanos) -> Option<Commits> {
        let mut periods = Vec::new();
        let mut begun: Option<(Timestamp, Timestamp)> = None;
        for request in sent.iter().filter(|request| request.writes) {
            let (begin, end) = begun.unwrap_or((request.arrival, request.completed));
            begun = Some((begin, end.max(request.completed)));
            if request.durable {
                periods.extend(begun.take());
            }
        }
        if (periods.len() as u64) < SEEN_MIN || span == Nanos::ZERO {
            return None;
        }
        let busy: u64 = periods.iter().map(|(begin, end)| end.since(*begin).as_ns()).sum();
        let span = span.as_ns() as f64;
        let interval = span / periods.len() as f64;
        Some(Commits { busy: busy as f64 / span, interval, periods })
    }

    /// Whether a stream that sent these requests waits for the commits.
    fn make_wait(&self, sent: &[Sent]) -> bool {
        let (mut writes, mut waits, mut during, mut until_begin) = (0u64, 0u64, 0u64, 0u64);
        let mut done = Timestamp::ZERO;
        let mut has_written = false;
        for request in sent {
            if has_written && done <= request.arrival {
                writes += 1;
                let next = self.periods.partition_point(|(begin, _)| *begin < done);
                match self.periods.get(next) {
                    Some((begin, end)) if *end <= request.arrival => {
                        waits += 1;
                        until_begin += begin.since(done).as_ns();
                    }
                    Some((begin, _)) if *begin <= request.arrival => during += 1,
                    _ => {}
                }
            }
            done = done.max(request.completed);
            has_written = request.writes;
        }
        if waits < SEEN_MIN || 2 * waits < writes {
            return false;
        }
        let expected = self.busy * writes as f64;
        let keeps_out = expected >= EXPECTED_DURING_MIN && during as f64 <= DURING_SHARE_MAX * expected;
        let begins_soon = until_begin as f64 / waits as f64 <= BEGINS_SOON_SHARE_MAX * self.interval;
        keeps_out || (begins_soon && expected < EXPECTED_DURING_MIN)
    }
}
