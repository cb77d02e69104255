//! A stream of a closed replay: its next requests, what they wait for, and what of that has happened.

use std::collections::VecDeque;

use traces::{Nanos, Request, Timestamp, VmId};

use super::dependencies::{Dependency, Recorded, Since, UNAWAITED, WAITED_FOR};
use super::log_writes::KeptOut;
use super::write_back::Progress;

#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) request: Request,
    pub(super) dependency: Dependency,
    /// The kind of the request; `None` if it never completed.
    pub(super) kind: Option<u8>,
    /// Of a stream that is kept out as it sends: from the end of the log write to this request.
    pub(super) resume: Option<Nanos>,
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
    pub(super) recorded: Recorded,
    pub(super) queue: VecDeque<Waiting>,
    pub(super) completions: [Completions; 2],
    pub(super) replayed_arrival: Timestamp,
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
    pub(super) fn pass(&mut self, arrival: Timestamp, completed: Option<Timestamp>, kind: usize) {
        self.replayed_arrival = arrival;
        if let Some(completed) = completed {
            self.completions[kind].insert(completed);
        }
    }

    /// When the next request arrives, if that is known. `progress` is that of its VM.
    pub(super) fn due(&mut self, progress: Progress) -> Option<Due> {
        let Waiting { request, dependency: Dependency { since, span, completed }, kind, .. } = *self.queue.front()?;
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
        Some(Due::At(burst.unwrap_or_else(|| begin + span).max(self.replayed_arrival).max(waited_for).max(unawaited)))
    }
}
