//! In which order waiting requests are taken, told from a recording.
//!
//! Whenever something is taken while others wait, the recording shows what was chosen. A choice tells policies apart if they would
//! choose differently: if the oldest waiting request is a write and a read waits too.

use std::fmt;

use traces::{Nanos, Operation, Timestamp};

use super::recording::{Recorded, Recording};

/// An order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    /// The oldest first.
    Fcfs,
    /// The oldest read, and the oldest write if there is no read.
    ReadPriority,
    /// None of these.
    Unknown,
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Policy::Fcfs => "first come, first served",
            Policy::ReadPriority => "reads first",
            Policy::Unknown => "unknown",
        })
    }
}

/// Choices that were seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Choices {
    /// All.
    pub(super) all: u64,
    /// Among them: the oldest of its kind was taken.
    pub(super) oldest_of_kind: u64,
    /// A read waited behind a write that was older.
    pub(super) telling: u64,
    /// Among the telling: the write was taken.
    pub(super) oldest: u64,
    /// Among the telling: the read was taken.
    pub(super) read: u64,
}

/// Requests that come within so little of one another come at once.
const AT_ONCE: Nanos = Nanos::from_ms(1);
/// Fewer telling choices leave the policy open.
const TELLING_MIN: u64 = 20;
/// A policy is one if it explains so many of the choices.
const EXPLAINED: f64 = 0.88;
/// And so many of the telling choices are one of the two that policies would make.
const UNDERSTOOD: f64 = 0.8;

impl Choices {
    /// Those of two recordings.
    pub(super) fn and(self, other: Choices) -> Choices {
        Choices {
            all: self.all + other.all,
            oldest_of_kind: self.oldest_of_kind + other.oldest_of_kind,
            telling: self.telling + other.telling,
            oldest: self.oldest + other.oldest,
            read: self.read + other.read,
        }
    }

    /// The policy that explains the choices, and whether that is sure. Where nothing tells, requests are taken as they come.
    pub(super) fn policy(&self) -> (Policy, bool) {
        let share = |count: u64, of: u64| count as f64 / of.max(1) as f64;
        if self.all >= TELLING_MIN && share(self.oldest_of_kind, self.all) < EXPLAINED {
            return (Policy::Unknown, true);
        }
        if self.telling < TELLING_MIN {
            return (Policy::Fcfs, false);
        }
        // What came late or was heard of late makes some choices look like neither.
        let either = self.oldest + self.read;
        if share(either, self.telling) < UNDERSTOOD {
            return (Policy::Unknown, true);
        }
        if share(self.oldest, either) >= EXPLAINED {
            return (Policy::Fcfs, true);
        }
        if share(self.read, either) >= EXPLAINED {
            return (Policy::ReadPriority, true);
        }
        (Policy::Unknown, true)
    }

    /// Whether reads pass waiting writes more often than chance would have it.
    pub(super) fn prefers_reads(&self) -> bool {
        self.telling >= TELLING_MIN && 2 * self.read > self.telling
    }

    fn add(&mut self, waiting: &[(Timestamp, &Recorded)], taken: (Timestamp, &Recorded)) {
        if waiting.len() < 2 {
            return;
        }
        let oldest = |operation: Operation| waiting.iter().find(|(_, request)| request.operation == operation);
        self.all += 1;
        // What came at about the same time may have changed places on its way.
        let is = |oldest: Timestamp| taken.0 <= oldest.saturating_add(AT_ONCE);
        self.oldest_of_kind += u64::from(oldest(taken.1.operation).is_some_and(|(since, _)| is(*since)));
        let (Some((write, _)), Some((read, _))) = (oldest(Operation::Write), oldest(Operation::Read)) else { return };
        if write.saturating_add(AT_ONCE) < *read {
            self.telling += 1;
            self.oldest += u64::from(taken.1.operation == Operation::Write && is(*write));
            self.read += u64::from(taken.1.operation == Operation::Read && is(*read));
        }
    }
}

/// What a device that serves one request after another took next, of those that were at it.
pub(super) fn at_device(recording: &Recording) -> Choices {
    let mut end = Timestamp::ZERO;
    choices(
        recording,
        |request| request.issued,
        |request| request.completed,
        move |request| {
            let started = request.issued.max(end);
            end = request.completed;
            started
        },
    )
}

/// What the machine itself issued next, of those that had arrived.
pub(super) fn in_machine(recording: &Recording) -> Choices {
    choices(recording, |request| request.arrival, |request| request.issued, |request| request.issued)
}

/// The choices of a server that requests come to `since`, and that is done with them in the order of `done`; it chose each `when`.
fn choices(
    recording: &Recording,
    since: fn(&Recorded) -> Timestamp,
    done: fn(&Recorded) -> Timestamp,
    mut when: impl FnMut(&Recorded) -> Timestamp,
) -> Choices {
    let mut coming: Vec<&Recorded> = recording.requests.iter().filter(|request| request.moves_data()).collect();
    let mut taken = coming.clone();
    coming.sort_by_key(|request| (since(request), done(request), request.lba));
    taken.sort_by_key(|request| (done(request), since(request), request.lba));
    let mut coming = coming.into_iter().peekable();
    let mut waiting: Vec<(Timestamp, &Recorded)> = Vec::new();
    let mut choices = Choices::default();
    for request in taken {
        let chosen = when(request);
        while let Some(next) = coming.next_if(|next| since(next) <= chosen.max(since(request))) {
            waiting.push((since(next), next));
        }
        choices.add(&waiting, (since(request), request));
        if let Some(place) = waiting.iter().position(|(_, other)| std::ptr::eq(*other, request)) {
            waiting.remove(place);
        }
    }
    choices
}

#[cfg(test)]
mod tests {
    use traces::{Lba, StreamId};

    use super::*;

    /// Requests that come faster than they are served in bursts of eight, taken as `pick` says from the kinds that wait.
    fn served(pick: fn(&[(u64, Operation)]) -> usize) -> Recording {
        let kind = |n: u64| if n * 7 % 5 < 2 { Operation::Write } else { Operation::Read };
        let mut coming: Vec<(u64, Operation)> = (0..400).map(|n| (n / 8 * 18_000 + n % 8 * 1100, kind(n))).collect();
        coming.reverse();
        let (mut waiting, mut now) = (Vec::new(), 0);
        let mut recording = Recording::default();
        while !coming.is_empty() || !waiting.is_empty() {
            if waiting.is_empty() {
                now = now.max(coming.last().unwrap().0);
            }
            while let Some(next) = coming.pop_if(|next| next.0 <= now) {
                waiting.push(next);
            }
            let (at, operation) = waiting.remove(pick(&waiting));
            now = now.max(at) + 2000;
            recording.requests.push(Recorded {
                arrival: Timestamp::from_ns(at * 1000),
                issued: Timestamp::from_ns(at * 1000),
                completed: Timestamp::from_ns(now * 1000),
                lba: Lba::ZERO,
                sectors: 8,
                stream: StreamId(0),
                operation,
                sync: true,
                durable: false,
            });
        }
        recording
    }

    fn first_read(waiting: &[(u64, Operation)]) -> usize {
        waiting.iter().position(|(_, operation)| *operation == Operation::Read).unwrap_or(0)
    }

    #[test]
    fn orders_are_told_from_what_was_taken() {
        assert_eq!(at_device(&served(|_| 0)).policy(), (Policy::Fcfs, true));
        assert_eq!(at_device(&served(first_read)).policy(), (Policy::ReadPriority, true));
        assert_eq!(at_device(&served(|waiting| waiting.len() - 1)).policy(), (Policy::Unknown, true));
        assert!(at_device(&served(first_read)).prefers_reads() && !at_device(&served(|_| 0)).prefers_reads());
    }

    #[test]
    fn what_never_waits_tells_nothing() {
        let mut lone = served(|_| 0);
        for (nth, request) in lone.requests.iter_mut().enumerate() {
            let at = Timestamp::from_ns(nth as u64 * 10_000_000);
            (request.arrival, request.issued, request.completed) = (at, at, at + traces::Nanos::from_ms(2));
        }
        assert_eq!(at_device(&lone), Choices::default());
        assert_eq!(at_device(&lone).policy(), (Policy::Fcfs, false));
    }
}
