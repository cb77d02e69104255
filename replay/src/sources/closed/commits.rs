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
//! 4. The requests of a commit are those of the recorded commit that served the stream. If several streams now share
//!    one, recorded commits are left out. If each needs its own, a recorded commit is repeated, at the same place.
//!
//! Within a commit a request follows the arrival of the one before, or the completion of all before it, as in the
//! trace.

use std::collections::VecDeque;

use traces::{Nanos, Request, Timestamp};

use super::journal_roles::is_durable;

/// The most requests of one commit. More are the next one's: memory is bounded.
const COMMIT_REQUESTS_MAX: u32 = 4096;

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
    /// The number of streams that waited for it and have not been served in the replay.
    unserved: u32,
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
    commit: u64,
}

/// A journal.
#[derive(Debug, Default)]
pub(super) struct Journal {
    waiters: Vec<Waiter>,
    reading: Option<Reading>,
    /// Beginning and end of the recorded commit before.
    before: (Timestamp, Timestamp),
    /// Recorded commits that have not begun; the first is number `first`.
    recorded: VecDeque<Recorded>,
    first: u64,
    /// Their requests, and those of the commit that is being read.
    requests: VecDeque<CommitRequest>,
    wanted: Vec<Want>,
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
    begun: u64,
}

impl Journal {
    /// Adds a stream that waits, and returns its number among them.
    pub(super) fn add_waiter(&mut self) -> u32 {
        self.waiters.push(Waiter::default());
        self.waiters.len() as u32 - 1
    }

    /// Reads a synchronous request of a stream that waits. Returns the commit that it waited for.
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
        let held = commit.checked_sub(self.first).and_then(|index| self.recorded.get_mut(index as usize));
        if let Some(held) = held {
            held.is_awaited = true;
            held.unserved += 1;
        }
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
        let commit = Recorded { requests: 0, is_awaited: false, unserved: 0, delay, gap };
        Reading { begin: at, arrival: at, end: at, commit }
    }

    fn close(&mut self, reading: Reading) {
        let number = self.first + self.recorded.len() as u64;
        self.before = (reading.begin, reading.end);
        self.recorded.push_back(reading.commit);
        let of_commit = self.waiters.iter_mut().filter_map(|waiter| waiter.served_by.as_mut());
        of_commit.filter(|(commit, _)| *commit == number).for_each(|(_, end)| *end = Some(reading.end));
    }

    /// The number of requests in memory that have not been sent.
    pub(super) fn held(&self) -> usize {
        self.requests.len() + if self.is_running { self.current.len() - self.sent } else { 0 }
    }

    /// The numbers of commits recorded so far and begun so far.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.first + self.recorded.len() as u64, self.begun)
    }

    /// A stream waits from `since` on for a commit; in the trace, for this one.
    pub(super) fn want(&mut self, stream: u32, since: Timestamp, commit: u64) {
        self.wanted.push(Want { stream, since, commit });
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
            let held = want.commit.checked_sub(self.first).and_then(|index| self.recorded.get(index as usize));
            let delay = held.map_or(self.current_delay, |commit| commit.delay);
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
        request
    }

    fn begin(&mut self, now: Timestamp) {
        let number = self.wanted.first().map_or(self.first, |want| want.commit);
        while self.first < number && self.leave_out() {}
        if self.first == number
            && let Some(next) = self.recorded.pop_front()
        {
            self.current.clear();
            self.current.extend(self.requests.drain(..next.requests as usize));
            self.current_delay = next.delay;
            self.first += 1;
        }
        // A stream that wants one in the instant in which this begins for another waits for the next.
        let joining = self.wanted.iter().skip(1).take_while(|want| want.since < now).count();
        for want in self.wanted.drain(..self.wanted.len().min(1 + joining)).rev() {
            self.served.push(want.stream);
            let held = want.commit.checked_sub(self.first).and_then(|index| self.recorded.get_mut(index as usize));
            if let Some(held) = held {
                held.unserved -= 1;
            }
        }
        // Another commit has served all that waited for these.
        while self.recorded.front().is_some_and(|next| next.is_awaited && next.unserved == 0) && self.leave_out() {}
        (self.is_running, self.sent, self.began) = (true, 0, now);
        self.begun += 1;
    }

    /// Leaves out the next recorded commit. Returns whether there was one.
    fn leave_out(&mut self) -> bool {
        let next = self.recorded.pop_front();
        if let Some(next) = next {
            self.requests.drain(..next.requests as usize);
            self.first += 1;
        }
        next.is_some()
    }

    /// A request of it has completed. Returns whether that ends the commit; then [`Journal::served`] are served.
    pub(super) fn completed(&mut self, now: Timestamp) -> bool {
        self.completion = now;
        self.outstanding -= 1;
        self.is_running = self.outstanding > 0 || self.sent < self.current.len();
        !self.is_running
    }

    /// The next stream that the commit served, in the order in which they wanted it; each once.
    pub(super) fn next_served(&mut self) -> Option<u32> {
        self.served.pop()
    }
}
