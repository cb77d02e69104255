//! A stream of a closed replay: its next requests, what they wait for, and what of that has happened.

use std::collections::VecDeque;

use traces::{Nanos, Request, Timestamp, VmId};

use super::dependencies::{Dependency, Recorded, Since, UNAWAITED, WAITED_FOR};
use super::log_writes::KeptOut;
use super::pace::{Batches, Begins, Paced};
use super::write_back::Progress;

#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) request: Request,
    pub(super) dependency: Dependency,
    /// The kind of the request; `None` if it never completed.
    pub(super) kind: Option<u8>,
    /// Of a stream that is kept out as it sends: from the end of the log write to this request.
    pub(super) resume: Option<Nanos>,
    /// Of a stream with a pace: when the batch begins that this request begins.
    pub(super) begins: Option<Begins>,
}

/// The completion times of one kind in the replay of a stream, without the first `forgotten` ones, which are no longer
/// needed.
#[derive(Debug, Default)]
pub(super) struct Completions {
    pub(super) times: VecDeque<Timestamp>,
    pub(super) forgotten: u64,
}

impl Completions {
    /// Adds a completion at its time.
    fn insert(&mut self, at: Timestamp) {
        let place = self.times.partition_point(|time| *time <= at);
        self.times.insert(place, at);
    }

    fn count(&self) -> u64 {
        self.forgotten + self.times.len() as u64
    }

    /// When the request number `completed` completed; `None` if it has not. Later calls ask for no smaller number.
    pub(super) fn reached(&mut self, completed: u64) -> Option<Timestamp> {
        while self.forgotten + 1 < completed && self.times.pop_front().is_some() {
            self.forgotten += 1;
        }
        if completed <= self.forgotten {
            return Some(Timestamp::ZERO);
        }
        if completed == self.forgotten + 1 { self.times.front().copied() } else { None }
    }
}

/// What a stream has of the commit that its next request waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CommitWait {
    #[default]
    Idle,
    /// It waits.
    Wants,
    /// The commit ended then.
    Served(Timestamp),
}

/// When the next request of a stream arrives.
pub(super) enum Due {
    At(Timestamp),
    /// After a commit, which the stream wants from this time on; in the trace it was the one of this number.
    Commit(Timestamp, u64),
}

#[derive(Debug, Default)]
pub(super) struct Stream {
    pub(super) vm: VmId,
    /// The journal whose commits it makes.
    pub(super) commits: Option<u32>,
    /// The journal that it waits for, and its number among those that do.
    pub(super) awaits: Option<(u32, u32)>,
    pub(super) commit_wait: CommitWait,
    /// The journal that keeps it out, and when.
    pub(super) kept_out: Option<(u32, KeptOut)>,
    /// How long that journal had written its log when the next request was scheduled.
    pub(super) logged: Nanos,
    /// Its pace, if it has one.
    pub(super) paced: Option<Paced>,
    pub(super) batches: Batches,
    /// When its latest batch began, or all before it had completed.
    pub(super) replayed_batch: Timestamp,
    /// When all had completed that passed before the replay.
    pub(super) passed_done: Timestamp,
    /// The number of requests that it has sent, of those that are waited for.
    pub(super) sent: u64,
    /// How many of these have to complete until all before the latest batch has.
    pub(super) before_batch: u64,
    pub(super) recorded: Recorded,
    pub(super) queue: VecDeque<Waiting>,
    pub(super) completions: [Completions; 2],
    pub(super) replayed_arrival: Timestamp,
    /// The latest of its arrivals, in the time of the trace.
    pub(super) recorded_to: Timestamp,
    /// By how much its latest arrival was later than in the trace, if it counts for the VM's progress.
    pub(super) late_ns: Option<i64>,
    /// Whether it has sent a flush or a synchronous write that is not of metadata.
    pub(super) writes: bool,
    /// Whether it has sent a write that nobody waits for.
    pub(super) writes_back: bool,
    /// Whether the first request of the queue has been scheduled.
    pub(super) scheduled: bool,
}

impl Stream {
    /// Whether its next request is one that the journal keeps out.
    pub(super) fn next_is_kept_out(&self) -> bool {
        self.queue.front().is_some_and(|next| next.resume.is_some())
    }

    /// When its next request arrives, which was due at `due` and was kept out until `now`. Its journal has written its log
    /// for `logged` by now.
    pub(super) fn due_when_let_in(&mut self, due: Timestamp, now: Timestamp, logged: Nanos) -> Timestamp {
        let stood = logged.saturating_sub(std::mem::replace(&mut self.logged, logged));
        match (self.kept_out, self.queue.front().and_then(|next| next.resume)) {
            (Some((_, KeptOut::Throughout)), _) => due.saturating_add(stood),
            (_, Some(resume)) if due <= now => now.saturating_add(resume),
            _ => due,
        }
    }

    /// Takes a request from before the replay as sent and completed when it was recorded.
    pub(super) fn pass(&mut self, arrival: Timestamp, completed: Option<Timestamp>, kind: usize, begins: bool) {
        self.replayed_arrival = arrival;
        if let Some(completed) = completed {
            self.completions[kind].insert(completed);
        }
        self.sends(arrival, begins, completed.map(|_| kind as u8));
        if kind == WAITED_FOR {
            self.passed_done = self.passed_done.max(completed.unwrap_or_default());
        }
    }

    /// Counts a request that is sent, which begins a batch or does not.
    pub(super) fn sends(&mut self, now: Timestamp, begins: bool, kind: Option<u8>) {
        if begins {
            (self.replayed_batch, self.before_batch) = (now.max(self.passed_done), self.sent);
        }
        self.sent += u64::from(kind == Some(WAITED_FOR as u8));
    }

    /// A request of this kind has completed.
    pub(super) fn completes(&mut self, now: Timestamp, kind: u8) {
        let completions = &mut self.completions[usize::from(kind)];
        completions.times.push_back(now);
        if kind == WAITED_FOR as u8 && completions.count() == self.before_batch {
            self.replayed_batch = self.replayed_batch.max(now);
        }
    }

    /// When the next request arrives, if that is known. `progress` is that of its VM.
    pub(super) fn due(&mut self, progress: Progress) -> Option<Due> {
        let Waiting { request, dependency: Dependency { since, span, completed }, kind, begins, .. } =
            *self.queue.front()?;
        let is_write_back = since == Since::Arrival && kind == Some(UNAWAITED as u8);
        let burst = if is_write_back { progress.burst(request.arrival, span) } else { None };
        let waited_for = self.completions[WAITED_FOR].reached(completed[WAITED_FOR])?;
        let unawaited = self.completions[UNAWAITED].reached(completed[UNAWAITED])?;
        let begin = match since {
            Since::Start => Timestamp::ZERO,
            Since::Arrival => self.replayed_arrival,
            Since::Completion => waited_for,
            Since::Room => unawaited,
            Since::Commit(number) => match self.commit_wait {
                CommitWait::Idle => return Some(Due::Commit(waited_for.max(self.replayed_arrival), number)),
                CommitWait::Wants => return None,
                CommitWait::Served(end) => end,
            },
        };
        let paced = match begins {
            None | Some(Begins::Freely) => Timestamp::ZERO,
            Some(Begins::At(time)) => time,
            Some(Begins::After(_)) if self.completions[WAITED_FOR].count() < self.before_batch => return None,
            Some(Begins::After(distance)) => self.replayed_batch.saturating_add(distance),
            Some(Begins::Through { ahead, rest }) => self.replayed_batch.saturating_add(ahead).saturating_add(rest),
        };
        let due = burst.unwrap_or_else(|| begin + span).max(paced);
        Some(Due::At(due.max(self.replayed_arrival).max(waited_for).max(unawaited)))
    }
}
