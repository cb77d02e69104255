//! Streams that a journal keeps from writing while it writes its log.
//!
//! A commit first writes its blocks to the log, then the durable record that ends it. Until its blocks are in the log
//! nobody may change them: a process that would waits (`do_get_write_access` in `fs/jbd2/transaction.c`, Linux 6.1). The
//! inodes of several files share a block, so one file's commit stops writers of others, direct ones too. The longer
//! a device takes for the log, the longer they stop.
//!
//! The *log write* of a commit lasts from its first request to the completion of all before the durable one, or to the
//! arrival of that one if it does not wait. A commit without other requests has none. A stream that is kept out sends
//! hardly any writes during log writes, and right after them no fewer than by chance. Chance is counted in the trace
//! itself: its think times, each put in the place of another ([`PLACES`]).

use std::collections::VecDeque;

use traces::{Nanos, Timestamp};

use super::roles::{Commit, DURING_SHARE_MAX, EXPECTED_DURING_MIN, Sent};

/// In the places of how many other think times each one is put to count what chance does. Set by judgement; not varied.
const PLACES: usize = 5;
/// A write that follows the end of a log write within this part of its think time is taken to have waited for it. Set by
/// judgement; not varied.
const RIGHT_AFTER_PART: u64 = 8;
/// The log writes of a journal that are kept in memory: those that may lie within the think time of the next write.
const KEPT: usize = 1024;

/// When a stream is kept out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeptOut {
    /// As it sends. It changes blocks only then, and sends right after the log write that it met.
    AtSend,
    /// All the time: it makes many changes before it sends. It stands still for as long as the log is written.
    Throughout,
}

/// Where think times end.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    /// During a log write.
    during: u64,
    /// Right after a log write that ended within the think time.
    right_after: u64,
}

impl Ends {
    fn add(&mut self, commits: &[Commit], since: Timestamp, think: Nanos) {
        let end = since.saturating_add(think);
        let begun = commits.partition_point(|commit| commit.begin <= end);
        let Some(commit) = begun.checked_sub(1).map(|last| &commits[last]) else { return };
        self.during += u64::from(commit.begin < end && end < commit.logged);
        self.right_after += u64::from(resumes(since, end, commit.begin, commit.logged));
    }
}

/// Whether a write at `at` whose think time began at `since` comes right after a log write.
fn resumes(since: Timestamp, at: Timestamp, begin: Timestamp, logged: Timestamp) -> bool {
    begin < logged
        && since < logged
        && logged <= at
        && at.since(logged) <= Nanos::from_ns(at.since(since).as_ns() / RIGHT_AFTER_PART)
}

impl KeptOut {
    /// Whether, and when, a stream that sent these requests is kept out by the log writes of these commits. `waits` says
    /// that it waits for the commits.
    pub(super) fn of(sent: &[Sent], commits: &[Commit], waits: bool) -> Option<KeptOut> {
        let thinks = thinks(sent, commits, waits);
        let mut seen = Ends::default();
        thinks.iter().for_each(|(since, think)| seen.add(commits, *since, *think));
        let mut by_chance = Ends::default();
        for place in 1..=PLACES.min(thinks.len().saturating_sub(1)) {
            let others = thinks.iter().cycle().skip(place);
            thinks.iter().zip(others).for_each(|((since, _), (_, think))| by_chance.add(commits, *since, *think));
        }
        let mean = |sum: u64| sum as f64 / PLACES as f64;
        let (during, right_after) = (mean(by_chance.during), mean(by_chance.right_after));
        if during < EXPECTED_DURING_MIN || seen.during as f64 > DURING_SHARE_MAX * during {
            return None;
        }
        // Whatever else stops it, such as a busy processor, does not end with the log write.
        if 2.0 * (seen.right_after as f64) < right_after {
            return None;
        }
        // Those that would have sent during log writes have all waited until the end of one, or have gone on from there and
        // sent at any other time.
        let at_any_time = right_after / (1.0 - during / thinks.len() as f64).max(f64::EPSILON);
        let waited = seen.right_after as f64 >= (right_after + during + at_any_time) / 2.0;
        Some(if waited { KeptOut::AtSend } else { KeptOut::Throughout })
    }
}

/// The think times before the writes of a stream: beginning and length of each.
fn thinks(sent: &[Sent], commits: &[Commit], waits: bool) -> Vec<(Timestamp, Nanos)> {
    let mut thinks = Vec::new();
    let mut done: Option<Timestamp> = None;
    let mut has_written = false;
    for request in sent {
        if let Some(done) = done.filter(|done| request.writes && *done <= request.arrival) {
            let served_by = commits.get(commits.partition_point(|commit| commit.begin < done));
            let served = served_by.map(|commit| commit.end).filter(|_| waits && has_written);
            let since = served.filter(|end| *end <= request.arrival).unwrap_or(done);
            thinks.push((since, request.arrival.since(since)));
        }
        done = Some(done.unwrap_or_default().max(request.completed));
        has_written = request.writes;
    }
    thinks
}

/// A think time as it is without log writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Think {
    pub(super) span: Nanos,
    /// From the end of the log write that the stream met as it sent to its arrival.
    pub(super) resume: Nanos,
}

/// The latest recorded log writes of a journal: beginnings and ends, in order.
#[derive(Debug, Default)]
pub(super) struct LogWrites(VecDeque<(Timestamp, Timestamp)>);

impl LogWrites {
    pub(super) fn add(&mut self, begin: Timestamp, end: Timestamp) {
        if begin < end {
            if self.0.len() == KEPT {
                self.0.pop_front();
            }
            self.0.push_back((begin, end));
        }
    }

    /// The think time before a write at `arrival` that was recorded `span` after what it waited for.
    pub(super) fn think(&self, kept_out: KeptOut, arrival: Timestamp, span: Nanos) -> Think {
        let since = Timestamp::from_ns(arrival.as_ns().saturating_sub(span.as_ns()));
        match kept_out {
            KeptOut::Throughout => {
                let within = self.0.iter().rev().take_while(|(_, end)| *end > since);
                let stood = within.map(|(begin, end)| (*end).min(arrival).saturating_since((*begin).max(since)));
                Think { span: stood.fold(span, Nanos::saturating_sub), resume: Nanos::ZERO }
            }
            KeptOut::AtSend => match self.0.back() {
                // When it would have sent is not known: on average in the middle of the log write.
                Some(&(begin, end)) if resumes(since, arrival, begin, end) => {
                    let begin = begin.max(since);
                    Think {
                        span: begin.since(since) + Nanos::from_ns(end.since(begin).as_ns() / 2),
                        resume: arrival.since(end),
                    }
                }
                _ => Think { span, resume: Nanos::ZERO },
            },
        }
    }
}
