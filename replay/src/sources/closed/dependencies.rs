//! Infers the dependency of each arrival from the recorded times of its stream, in one pass.
//!
//! A stream continues when requests that it waits for complete. Its progress is measured by the number of these that
//! have completed, not by which ones. A process that keeps four requests at the drive sends the next one at any
//! completion. A process that waited for a batch waited for all of it, in whatever order another drive serves it.
//!
//! 1. *Waited for* are synchronous requests ([`Request::is_sync`]) and flushes. Other writes are the write-back of the
//!    kernel: no later request waits for their completion. Until a trace has had a request with a flag, synchronous
//!    writes and write-back look alike, and all requests count as waited for.
//! 2. An arrival depends on the latest completion that its stream waited for, if there is one since the stream's
//!    previous arrival. The time between the two is its think time. So a process sends later on a drive that takes
//!    longer for the request before. A kernel thread that only writes back has no such completions; its arrivals keep
//!    their recorded gaps.
//! 3. With other requests outstanding, that completion may lie by chance between two arrivals of a batch. It then lies
//!    anywhere between them, on average in the middle. If, in the mean over recent arrivals, it lies in the last
//!    quarter of the gap ([`CHANCE_ABOVE`]), it is the dependency. If not, the recorded gap is kept. For example, a
//!    process that keeps four reads outstanding sends one every 2 ms, each 0.1 ms after a completion. That is 5 % of
//!    the gap, so each depends on a completion. Another process sends batches of reads 1 ms apart. The earlier reads of
//!    a batch complete anywhere between the later arrivals, so these stay 1 ms apart.
//! 4. Several processes that each send and think within one stream (a VM seen from outside) take turns: each completion
//!    lets one of them continue. In a stream of depth d, arrival number n then depends on completion number n - d, and
//!    not on the latest one. It does so where think times counted from that completion are twice as steady
//!    ([`Steadiness`]). Processes with widely spread think times cannot be detected in this way.
//! 5. A process that waits for a commit of the journal (`closed/roles.rs`) sends one think time after the end
//!    of that commit, and wants it when all that it sent before has completed (`closed/commits.rs`).
//! 6. A stream may have a pace of its own (`closed/pace.rs`). A batch that is read ahead comes one recorded distance after
//!    the batch before, or after the completion of the one before that. The first batch of the next file comes when the
//!    program has gone through the last one. By the clock a batch comes at its time.
//! 7. A stream never has more requests outstanding (waited for, or not) than its respective maximum in the trace so
//!    far: what it would do beyond that is unknown. So a congested drive slows down write-back, too.
//!    Writes that were merged count as one: a kernel thread waits for a free tag of its disk, and one tag carries them.
//!    Where the kernel lets write-back have another depth ([`super::Closed::with_write_back_depth`]), that one holds.
//! 8. Write-back at this maximum comes when a completion makes room for it, if it did so in the trace: this time and,
//!    in the mean, the times before, by the measure of rule 3. So a backlog drains as fast as the drive lets it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use traces::{Lba, Nanos, Request, Timestamp};

use super::commits::Wait;
use super::pace::Begins;

/// The index of requests that are waited for.
pub(super) const WAITED_FOR: usize = 0;
/// The index of requests that are not waited for.
pub(super) const UNAWAITED: usize = 1;

/// Means of the last arrivals weigh each new one by 1 / 2^4.
const DECAY_BITS: u32 = 4;

/// The fixed-point unit of shares: the whole distance between two arrivals.
const WHOLE: i64 = 1 << 16;

/// If completions lie nearer to the arrival after them than this share of the distance, in the mean, they are
/// dependencies. Chance makes the mean 1/2 with a standard deviation of 0.05.
const CHANCE_ABOVE: i64 = WHOLE / 4;

/// The number of think times that are needed before they count as steady.
const STEADY_AFTER: u32 = 32;

/// The event that the span of an arrival is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Since {
    /// The start of the replay.
    Start,
    /// The previous arrival of the stream.
    Arrival,
    /// The last of the completions that were waited for.
    Completion,
    /// The completion that made room for write-back.
    Room,
    /// The end of the commit that serves the stream; in the trace it was the one of this number.
    Commit(u64),
}

/// The dependency of an arrival: it comes `span` after `since`, and not before `completed` requests have completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dependency {
    pub(super) since: Since,
    pub(super) span: Nanos,
    /// The least number of requests of the stream, of each kind, that have completed by then.
    pub(super) completed: [u64; 2],
}

/// The recorded requests of one kind in a stream, without those that have no completion.
#[derive(Debug, Default)]
struct Kind {
    sent: u64,
    outstanding: BinaryHeap<Reverse<Timestamp>>,
    deepest: u64,
    /// The completion times, without the first `forgotten` ones; no more than the depth.
    completions: VecDeque<Timestamp>,
    forgotten: u64,
}

impl Kind {
    /// Removes from the outstanding requests those that had completed when a request arrived. Returns the latest
    /// completion.
    fn pass(&mut self, arrival: Timestamp) -> Option<Timestamp> {
        let mut latest = None;
        while let Some(&Reverse(completed)) = self.outstanding.peek().filter(|next| next.0 <= arrival) {
            self.outstanding.pop();
            self.completions.push_back(completed);
            latest = Some(completed);
        }
        latest
    }

    /// When the request number `completed` completed. Earlier times are dropped: no later call needs them.
    fn turn(&mut self, completed: u64) -> Option<Timestamp> {
        while self.forgotten + 1 < completed {
            self.completions.pop_front();
            self.forgotten += 1;
        }
        if completed == 0 { None } else { self.completions.front().copied() }
    }

    fn completed(&self) -> u64 {
        self.sent - self.outstanding.len() as u64
    }

    /// Counts an arrival, unless it never completed. Returns the least number of requests that have completed before
    /// it, so that the stream is no deeper than in the trace.
    fn send(&mut self, completed: Option<Timestamp>) -> u64 {
        if let Some(completed) = completed {
            self.sent += 1;
            self.outstanding.push(Reverse(completed));
            self.deepest = self.deepest.max(self.outstanding.len() as u64);
        }
        self.sent.saturating_sub(self.deepest)
    }
}

/// The mean and the mean deviation of time spans, both exponentially decaying.
#[derive(Clone, Copy, Debug, Default)]
struct Steadiness {
    seen: u32,
    mean: i64,
    deviation: i64,
}

impl Steadiness {
    fn add(&mut self, span: Nanos) {
        let span = span.as_ns().min(1 << 60) as i64;
        if self.seen == 0 {
            self.mean = span;
        }
        self.seen = self.seen.saturating_add(1);
        self.deviation += ((span - self.mean).abs() - self.deviation) >> DECAY_BITS;
        self.mean += (span - self.mean) >> DECAY_BITS;
    }
}

/// The part of a stream that has been read.
#[derive(Debug)]
pub(super) struct Recorded {
    arrival: Option<Timestamp>,
    /// The end of the latest write that nobody waits for, and when it completed.
    write_back: Option<(Lba, Timestamp)>,
    /// The most requests outstanding that nobody waits for, if it is known; otherwise it is that of the trace.
    write_back_depth: Option<u64>,
    kinds: [Kind; 2],
    /// The number of completions, of each kind, that arrivals have depended on until now; later arrivals depend on no
    /// fewer.
    asked: [u64; 2],
    since_latest: Steadiness,
    since_turn: Steadiness,
    /// The mean position of completions between two arrivals, of each kind, as a share of [`WHOLE`] before the later one.
    lag: [i64; 2],
}

impl Default for Recorded {
    fn default() -> Recorded {
        Recorded {
            arrival: None,
            write_back: None,
            write_back_depth: None,
            kinds: Default::default(),
            asked: [0; 2],
            since_latest: Steadiness::default(),
            since_turn: Steadiness::default(),
            // Write-back waits for room once that was seen several times.
            lag: [0, WHOLE / 2],
        }
    }
}

impl Recorded {
    /// A stream of which nothing has been read, with the most requests of write-back outstanding if that is known.
    pub(super) fn of(write_back_depth: Option<u64>) -> Recorded {
        Recorded { write_back_depth, ..Recorded::default() }
    }

    /// Whether a write that nobody waits for was merged into the request of the write before: it is the next on the
    /// disk, and both completed at once.
    pub(super) fn joins(&mut self, write: &Request, completed: Option<Timestamp>) -> bool {
        let done = completed.map(|completed| (write.end(), completed));
        let before = std::mem::replace(&mut self.write_back, done);
        before.is_some_and(|(end, at)| end == write.lba && completed == Some(at))
    }

    /// Infers the dependency of the next arrival of the stream. It waited for a commit if `wait` names one. It begins a
    /// batch of a stream with a pace if `begins` says when.
    pub(super) fn infer(
        &mut self,
        arrival: Timestamp,
        completed: Option<Timestamp>,
        kind: usize,
        wait: Option<Wait>,
        begins: Option<Begins>,
    ) -> Dependency {
        self.kinds[UNAWAITED].pass(arrival);
        let latest = self.kinds[WAITED_FOR].pass(arrival);
        let others = !self.kinds[WAITED_FOR].outstanding.is_empty();
        let done = self.kinds[WAITED_FOR].completed();
        let bound = self.kinds[kind].send(completed);
        let Some(before) = self.arrival.replace(arrival) else {
            let span = arrival.since(Timestamp::ZERO);
            return Dependency { since: Since::Start, span, completed: self.asked };
        };
        let turn = self.kinds[kind].turn(bound);
        let room = turn.filter(|room| kind == UNAWAITED && *room >= before);
        let turn = turn.filter(|_| kind == WAITED_FOR);
        let since_latest = arrival.since(latest.unwrap_or(before));
        if let Some(turn) = turn {
            self.since_latest.add(since_latest);
            self.since_turn.add(arrival.saturating_since(turn));
        }
        if others && latest.is_some() {
            self.learn_lag(WAITED_FOR, since_latest, arrival.since(before));
        }
        let room = room.filter(|room| {
            let share = self.learn_lag(UNAWAITED, arrival.since(*room), arrival.since(before));
            share.max(self.lag[UNAWAITED]) <= CHANCE_ABOVE
        });
        let by_turns = kind == WAITED_FOR && self.goes_by_turns();
        let by_chance = others && self.lag[WAITED_FOR] > CHANCE_ABOVE;
        let (since, span, waited_for) = match (turn, latest, wait, begins) {
            (.., Some(Wait { commit, .. }), Some(_)) => (Since::Commit(commit), Nanos::ZERO, done),
            (.., Some(Wait { commit, end }), None) => (Since::Commit(commit), arrival.since(end), done),
            (.., Some(Begins::Through { rest, .. })) => (Since::Completion, rest, done),
            (.., Some(_)) => (Since::Arrival, Nanos::ZERO, 0),
            (Some(turn), ..) if by_turns && bound > self.asked[WAITED_FOR] => {
                (Since::Completion, arrival.saturating_since(turn), bound)
            }
            (_, Some(_), ..) if !by_turns && !by_chance => (Since::Completion, since_latest, done),
            _ => match room {
                Some(room) => (Since::Room, arrival.since(room), 0),
                None => (Since::Arrival, arrival.since(before), 0),
            },
        };
        self.ask(WAITED_FOR, waited_for);
        // A program that reads ahead has one batch more outstanding where its reads take longer.
        if !matches!(begins, Some(Begins::After(_))) {
            let depth = self.write_back_depth.filter(|_| kind == UNAWAITED);
            self.ask(kind, depth.map_or(bound, |depth| self.kinds[UNAWAITED].sent.saturating_sub(depth)));
        }
        Dependency { since, span, completed: self.asked }
    }

    /// The number of recorded times in memory.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.kinds.iter().map(|kind| kind.outstanding.len() + kind.completions.len()).sum::<usize>()
    }

    fn ask(&mut self, kind: usize, completed: u64) {
        self.asked[kind] = self.asked[kind].max(completed);
    }

    /// Adds the position of a completion to the mean. Returns it as a share of [`WHOLE`].
    fn learn_lag(&mut self, kind: usize, lag: Nanos, distance: Nanos) -> i64 {
        let (lag, distance) = (lag.as_ns().min(distance.as_ns()), distance.as_ns().max(1));
        let share = (u128::from(lag) * WHOLE as u128 / u128::from(distance)) as i64;
        self.lag[kind] += (share - self.lag[kind]) >> DECAY_BITS;
        share
    }

    fn goes_by_turns(&self) -> bool {
        self.since_turn.seen >= STEADY_AFTER && self.since_turn.deviation < self.since_latest.deviation / 2
    }
}
