//! The commits of a journal: as recorded, and as a replay makes them.
//!
//! On another device a journal commits more or less often than in the trace, because it serves more or fewer streams at
//! once. The rules are those of a journal (`fs/jbd2/commit.c`, Linux 6.1):
//!
//! 1. A stream that waits *wants* a commit from the completion of all that it sent.
//! 2. A commit begins when one is wanted and none runs, after the recorded delay. It serves all streams that wanted one
//!    before that. The others wait for the next.
//! 3. A commit that no stream waited for begins as long after the beginning of the one before as in the trace: the
//!    journal has a timer.
//! 4. Commits take the requests of the recorded ones in their order. If several streams now share one, the streams get
//!    ahead of the recorded commits, and some are left out. If each needs its own, the recorded commits get ahead of the
//!    streams, and the last one is repeated, at the same place.
//!
//! Within a commit a request follows the arrival of the one before, or the completion of all before it, as in the
//! trace.

use std::collections::VecDeque;

use traces::results::JournalCommits;
use traces::{Nanos, Request, Timestamp};

use super::log_writes::LogWrites;
use super::roles::is_durable;

/// The most requests of one commit. More are the next one's: memory is bounded.
const COMMIT_REQUESTS_MAX: u32 = 4096;

/// The recorded commits that the next one may be behind the furthest that a stream has wanted. Streams share commits now
/// more, now less than in the trace; fewer would be left out and then repeated. Set by judgement: one for each stream
/// made three times as many of both on the shipped mail server.
const BEHIND_MAX: u64 = 16;

/// The commit that a stream waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// Its number among the recorded ones.
    pub(super) commit: u64,
    /// Its recorded end.
    pub(super) end: Timestamp,
}

/// A stream that waits, as recorded so far.
#[derive(Clone, Copy, Debug, Default)]
struct Waiter {
    /// When all that it sent had completed.
    done: Timestamp,
    /// Whether the last request that it sent is a write.
    has_written: bool,
    /// The first commit that began since then; with its end once that is read.
    served_by: Option<(u64, Option<Timestamp>)>,
}

#[derive(Clone, Copy, Debug)]
struct CommitRequest {
    request: Request,
    /// Whether it follows the completion of all requests before it, and not the arrival of the one before.
    after_all: bool,
    think_time: Nanos,
}

/// A recorded commit.
#[derive(Clone, Copy, Debug)]
struct Recorded {
    requests: u32,
    /// Whether a stream waited for it.
    is_awaited: bool,
    /// From the first want, or the end of the commit before, to its beginning.
    delay: Nanos,
    /// From the beginning of the commit before to its own.
    gap: Nanos,
}

/// The part of a commit that has been read.
#[derive(Clone, Copy, Debug)]
struct Reading {
    begin: Timestamp,
    arrival: Timestamp,
    /// The latest completion.
    end: Timestamp,
    commit: Recorded,
}

#[derive(Clone, Copy, Debug)]
struct Want {
    stream: u32,
    since: Timestamp,
}

/// A journal.
#[derive(Debug, Default)]
pub(super) struct Journal {
    /// When the replay begins, in the time of the trace.
    start: Timestamp,
    /// The number of commits that began before.
    passed: u64,
    waiters: Vec<Waiter>,
    reading: Option<Reading>,
    /// Beginning and end of the recorded commit before.
    before: (Timestamp, Timestamp),
    /// The log writes that were read.
    pub(super) recorded_log_writes: LogWrites,
    /// Recorded commits that have not begun; the first is number `first`.
    recorded: VecDeque<Recorded>,
    first: u64,
    /// Their requests, and those of the commit that is being read.
    requests: VecDeque<CommitRequest>,
    wanted: Vec<Want>,
    /// The latest recorded commit that a stream has wanted.
    furthest: u64,
    /// The number of waits that were read and have not been served.
    unserved: usize,
    /// The streams that the running commit serves.
    served: Vec<u32>,
    /// The commit that runs, or that ran last.
    current: Vec<CommitRequest>,
    current_delay: Nanos,
    is_running: bool,
    sent: usize,
    outstanding: usize,
    began: Timestamp,
    arrival: Timestamp,
    /// The latest completion.
    completion: Timestamp,
    /// When the log write began that goes on.
    logs_since: Option<Timestamp>,
    /// How long log writes have taken that are over.
    logged: Nanos,
    counts: JournalCommits,
}

impl Journal {
    /// A journal whose commits are made again if they began at `start` or later.
    pub(super) fn starting_at(start: Timestamp) -> Journal {
        Journal { start, ..Journal::default() }
    }

    /// Adds a stream that waits, and returns its number among them.
    pub(super) fn add_waiter(&mut self) -> u32 {
        self.waiters.push(Waiter::default());
        self.waiters.len() as u32 - 1
    }

    /// Reads a synchronous request of a stream that waits. Returns the commit that it waited for, if that is made again.
    pub(super) fn read_waiter(
        &mut self,
        waiter: u32,
        request: &Request,
        completed: Option<Timestamp>,
        writes: bool,
    ) -> Option<Wait> {
        let waiter = &mut self.waiters[waiter as usize];
        let served_by = waiter.served_by.take();
        waiter.done = waiter.done.max(completed.unwrap_or(request.arrival));
        waiter.has_written = writes;
        let (commit, end) = served_by?;
        let end = end.filter(|end| *end <= request.arrival)?;
        if commit < self.passed {
            return None;
        }
        let held = commit.checked_sub(self.first).and_then(|index| self.recorded.get_mut(index as usize));
        if let Some(held) = held {
            held.is_awaited = true;
        }
        self.unserved += 1;
        Some(Wait { commit, end })
    }

    /// Reads a request of a commit.
    pub(super) fn read(&mut self, request: Request, completed: Option<Timestamp>) {
        let at = request.arrival;
        let end = completed.unwrap_or(at);
        let mut reading = match self.reading.take() {
            Some(reading) => reading,
            None => self.read_beginning(at),
        };
        let after_all = reading.commit.requests > 0 && reading.end <= at;
        if is_durable(&request) {
            self.recorded_log_writes.add(reading.begin, reading.end.min(at));
        }
        let since = if after_all { reading.end } else { reading.arrival };
        self.requests.push_back(CommitRequest { request, after_all, think_time: at.since(since) });
        reading.commit.requests += 1;
        (reading.arrival, reading.end) = (at, reading.end.max(end));
        if is_durable(&request) || reading.commit.requests == COMMIT_REQUESTS_MAX {
            self.close(reading);
        } else {
            self.reading = Some(reading);
        }
    }

    /// Ends a commit that is being read at the end of the trace.
    pub(super) fn read_end(&mut self) {
        if let Some(reading) = self.reading.take() {
            self.close(reading);
        }
    }

    fn read_beginning(&mut self, at: Timestamp) -> Reading {
        let number = self.first + self.recorded.len() as u64;
        let mut wanted: Option<Timestamp> = None;
        for waiter in &mut self.waiters {
            if waiter.has_written && waiter.served_by.is_none() && waiter.done <= at {
                waiter.served_by = Some((number, None));
                wanted = Some(wanted.map_or(waiter.done, |first| first.min(waiter.done)));
            }
        }
        let (before, free) = self.before;
        let delay = at.saturating_since(wanted.unwrap_or(at).max(free));
        let gap = at.since(before);
        let commit = Recorded { requests: 0, is_awaited: false, delay, gap };
        Reading { begin: at, arrival: at, end: at, commit }
    }

    fn close(&mut self, reading: Reading) {
        let number = self.first + self.recorded.len() as u64;
        if reading.begin < self.start {
            self.pass(&reading);
        } else {
            self.recorded.push_back(reading.commit);
        }
        self.before = (reading.begin, reading.end);
        let of_commit = self.waiters.iter_mut().filter_map(|waiter| waiter.served_by.as_mut());
        of_commit.filter(|(commit, _)| *commit == number).for_each(|(_, end)| *end = Some(reading.end));
    }

    /// Takes a commit that began before the replay as made when it was recorded.
    fn pass(&mut self, reading: &Reading) {
        self.first += 1;
        self.passed += 1;
        self.current.clear();
        self.current.extend(self.requests.drain(..));
        self.sent = self.current.len();
        (self.current_delay, self.began, self.completion) = (reading.commit.delay, reading.begin, reading.end);
    }

    /// The number of requests in memory that have not been sent.
    pub(super) fn held(&self) -> usize {
        self.requests.len() + if self.is_running { self.current.len() - self.sent } else { 0 }
    }

    /// The numbers of commits and of their requests so far.
    pub(super) fn counts(&self) -> JournalCommits {
        JournalCommits { recorded: self.first + self.recorded.len() as u64 - self.passed, ..self.counts }
    }

    /// A stream waits from `since` on for a commit; in the trace, for this one.
    pub(super) fn want(&mut self, stream: u32, since: Timestamp, commit: u64) {
        self.wanted.push(Want { stream, since });
        self.furthest = self.furthest.max(commit);
        while self.first + BEHIND_MAX < self.furthest && self.leave_out() {}
    }

    /// When its next request arrives, if that is known.
    pub(super) fn due(&self) -> Option<Timestamp> {
        if self.is_running {
            let next = self.current.get(self.sent)?;
            return match (next.after_all, self.outstanding) {
                (false, _) => Some(self.arrival + next.think_time),
                (true, 0) => Some(self.completion + next.think_time),
                (true, _) => None,
            };
        }
        if let Some(want) = self.wanted.first() {
            let delay = self.next_wanted().map_or(self.current_delay, |commit| commit.delay);
            return Some(want.since.max(self.completion) + delay);
        }
        self.recorded.front().filter(|next| !next.is_awaited).map(|next| self.began + next.gap)
    }

    /// Takes the request that is due.
    pub(super) fn take(&mut self, now: Timestamp) -> Request {
        if !self.is_running {
            self.begin(now);
        }
        let mut request = self.current[self.sent].request;
        self.sent += 1;
        self.outstanding += 1;
        self.arrival = now;
        request.arrival = now;
        self.note_log_write(now);
        request
    }

    /// Notes whether the log is written from now on.
    fn note_log_write(&mut self, now: Timestamp) {
        let left = self.current.len() - self.sent;
        let is_written = left == 0 || (left == 1 && self.outstanding == 0);
        let logs_since = if self.is_running && !is_written { self.logs_since.or(Some(now)) } else { None };
        if let (Some(since), None) = (self.logs_since, logs_since) {
            self.logged += now.since(since);
        }
        self.logs_since = logs_since;
    }

    /// Whether it writes its log now.
    pub(super) fn logs(&self) -> bool {
        self.logs_since.is_some()
    }

    /// How long it has written its log until now.
    pub(super) fn logged(&self, now: Timestamp) -> Nanos {
        self.logged + self.logs_since.map_or(Nanos::ZERO, |since| now.saturating_since(since))
    }

    /// The recorded commit that the next one takes after if a stream wants it, unless the recorded ones are ahead.
    fn next_wanted(&self) -> Option<&Recorded> {
        self.recorded.front().filter(|_| self.first <= self.furthest)
    }

    fn begin(&mut self, now: Timestamp) {
        let takes_next = self.wanted.is_empty() || self.next_wanted().is_some();
        if let Some(next) = if takes_next { self.recorded.pop_front() } else { None } {
            self.first += 1;
            self.current.clear();
            self.current.extend(self.requests.drain(..next.requests as usize));
            self.current_delay = next.delay;
        } else {
            self.counts.repeated += 1;
            self.counts.requests_repeated += self.current.len() as u64;
        }
        // A stream that wants one in the instant in which this begins for another waits for the next.
        let joining = self.wanted.iter().skip(1).take_while(|want| want.since < now).count();
        let served = self.wanted.len().min(1 + joining);
        self.served.extend(self.wanted.drain(..served).rev().map(|want| want.stream));
        self.unserved -= served;
        (self.is_running, self.sent, self.began) = (true, 0, now);
    }

    /// Leaves out commits that streams waited for in the trace, if all streams that have been read are served.
    fn leave_out_surplus(&mut self) {
        while self.unserved == 0 && self.recorded.front().is_some_and(|next| next.is_awaited) && self.leave_out() {}
    }

    /// Leaves out the next recorded commit. Returns whether there was one.
    fn leave_out(&mut self) -> bool {
        let next = self.recorded.pop_front();
        if let Some(next) = next {
            self.requests.drain(..next.requests as usize);
            self.first += 1;
            self.counts.left_out += 1;
            self.counts.requests_left_out += u64::from(next.requests);
        }
        next.is_some()
    }

    /// A request of it has completed. Returns whether that ends the commit; then [`Journal::served`] are served.
    pub(super) fn completed(&mut self, now: Timestamp) -> bool {
        self.completion = now;
        self.outstanding -= 1;
        self.is_running = self.outstanding > 0 || self.sent < self.current.len();
        self.note_log_write(now);
        if !self.is_running {
            self.leave_out_surplus();
        }
        !self.is_running
    }

    /// The next stream that the commit served, in the order in which they wanted it; each once.
    pub(super) fn next_served(&mut self) -> Option<u32> {
        self.served.pop()
    }
}

#[cfg(test)]
mod tests {
    use traces::{Flags, Lba, Operation, Sectors};

    use super::*;

    fn at(ns: u64) -> Timestamp {
        Timestamp::from_ns(ns)
    }

    fn write(arrival: u64, lba: u64, flags: Flags) -> Request {
        let mut request = Request::new(at(arrival), Operation::Write, Lba::new(lba), Sectors::new(8));
        request.flags = flags;
        request
    }

    /// A journal with `commits` commits of one durable write each, at sector 8 times its number. A stream wanted each
    /// 30 ns before it began, and went on 5 ns after its end.
    fn recorded(commits: u64) -> Journal {
        let mut journal = Journal::default();
        let waiter = journal.add_waiter();
        for number in 0..commits {
            let began = 1_000 * number + 100;
            let own = write(began - 50, 9_999, Flags::SYNC);
            let wait = journal.read_waiter(waiter, &own, Some(at(began - 30)), true);
            assert_eq!(wait.map(|wait| wait.commit), number.checked_sub(1));
            journal.read(write(began, 8 * number, Flags::SYNC | Flags::FUA), Some(at(began + 20)));
        }
        journal
    }

    /// Takes the next commit at `now`, which takes 20 ns. Returns its number and the streams that it served.
    fn commit(journal: &mut Journal, now: u64) -> (u64, Vec<u32>) {
        let number = journal.take(at(now)).lba.sector() / 8;
        assert!(journal.completed(at(now + 20)));
        (number, std::iter::from_fn(|| journal.next_served()).collect())
    }

    #[test]
    fn commit_begins_the_recorded_delay_after_it_is_wanted_or_the_one_before_ends() {
        let mut journal = recorded(10);
        journal.want(7, at(500), 0);
        assert_eq!(journal.due(), Some(at(530)));
        journal.take(at(530));
        journal.want(8, at(540), 1);
        assert_eq!(journal.due(), None, "one runs");
        assert!(journal.completed(at(600)));
        assert_eq!(journal.next_served(), Some(7));
        assert_eq!(journal.due(), Some(at(630)));
    }

    #[test]
    fn stream_that_has_read_since_its_write_does_not_wait() {
        let mut journal = Journal::default();
        let waiter = journal.add_waiter();
        let mut wait = |began: u64, writes: bool| {
            journal.read_waiter(waiter, &write(began - 50, 9_999, Flags::SYNC), Some(at(began - 30)), writes);
            journal.read(write(began, 0, Flags::SYNC | Flags::FUA), Some(at(began + 20)));
            journal.read_waiter(waiter, &write(began + 30, 9_999, Flags::SYNC), Some(at(began + 40)), false)
        };
        assert_eq!(wait(1_000, true), Some(Wait { commit: 0, end: at(1_020) }));
        assert_eq!(wait(2_000, false), None);
    }

    #[test]
    fn stream_that_wants_a_commit_as_it_begins_waits_for_the_next() {
        let mut journal = recorded(10);
        journal.want(1, at(500), 0);
        journal.want(2, at(510), 0);
        journal.want(3, at(530), 0);
        assert_eq!(commit(&mut journal, 530).1, [1, 2]);
        assert_eq!(commit(&mut journal, 600).1, [3]);
    }

    #[test]
    fn recorded_commits_are_taken_in_order_repeated_if_ahead_and_left_out_if_far_behind() {
        let mut journal = recorded(100);
        let mut next = |stream: u32, wanted: u64, now: u64| {
            journal.want(stream, at(now), wanted);
            commit(&mut journal, now + 30).0
        };
        // Two streams that shared commit 0 need one each.
        assert_eq!((next(1, 0, 1_000), next(2, 0, 2_000)), (0, 0));
        // One may be ahead of the other.
        assert_eq!((next(1, 3, 3_000), next(2, 2, 4_000), next(1, 4, 5_000)), (1, 2, 3));
        // They share one where there were many.
        assert_eq!((next(1, 60, 6_000), next(2, 61, 7_000)), (44, 45));
        let JournalCommits { recorded, left_out, repeated, .. } = journal.counts();
        assert_eq!((recorded, left_out, repeated), (100, 40, 1));
    }
}
