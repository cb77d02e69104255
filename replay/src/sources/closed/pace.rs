//! Streams that go at a pace of their own: their programs do not wait for the request that they send.
//!
//! One program thinks after each completion, so a slower drive makes it slower. Another reads a file through read-ahead:
//! the request that it sends is for what it needs later. A third sends by the clock, such as a player. A slow drive stops
//! the last two only when requests take longer than the pace. Both show in the times of the trace.
//!
//! *Read-ahead* sends a batch as the program comes to the beginning of the batch before (`page_cache_async_ra`,
//! `mm/readahead.c`, Linux 6.1). Then the program waits until that one has been read, if it has not, and goes through it.
//! So the next batch comes one distance after the last one, or after the completion of the one before that if this is
//! later. Of a program that waits, the times from completions to arrivals are steadier; of one that reads ahead, these
//! distances are. Only batches that go on where the last one ended are read ahead; others depend on completions.
//!
//! *By the clock* distances between batches are regular, and vary no more than the times from completions to arrivals do.
//! What came late is made up for: after a distance that was too long comes one that was too short.
//!
//! The other requests of a batch depend on each other as everywhere (`closed/dependencies.rs`).

use traces::{Lba, Nanos, Operation, Request, Timestamp};

use super::roles::{Commit, Sent};

/// Fewest batches that show a pace. Set by judgement; not varied.
const BATCHES_MIN: usize = 64;
/// Read-ahead sends the requests of a batch within this time: the pages between them were in the cache. Set by judgement;
/// not varied.
const READ_AHEAD_APART: Nanos = Nanos::from_us(1000);
/// Largest range of the distances of batches that are read ahead, as a share of the range of think times; ranges between
/// the quartiles. Chosen on train's captures of the suite: 0.2 and less where reading ahead shows, 0.8 and more elsewhere.
const READ_AHEAD_SHARE_MAX: f64 = 0.5;
/// A distance is regular if it is off the median by less than this part of it. Others are pauses, or batches of which a
/// page cache needed none. Set by judgement; not varied.
const REGULAR_PART: f64 = 0.25;
/// Smallest share of regular distances. Set by judgement; not varied.
const REGULAR_SHARE_MIN: f64 = 0.75;
/// Largest mean deviation of regular distances, as a share of the median. Set by judgement; not varied.
const DEVIATION_MAX: f64 = 0.1;
/// Largest deviation of distances by the clock, as a share of that of think times: response times may hardly vary. Set by
/// judgement; not varied.
const CLOCK_SHARE_MAX: f64 = 1.1;
/// Largest correlation of a distance with the one before, of a stream that goes by the clock: -1/2 if nothing else
/// disturbs it, and 0 without a clock. Set by judgement; not varied.
const CLOCK_CORRELATION_MAX: f64 = -0.25;
/// Largest correlation with the one before that: 0 by the clock, and 1 of think times that alternate. Set by judgement;
/// not varied.
const CLOCK_CORRELATION_OF_SECOND_MAX: f64 = 0.25;

/// What gives a stream its pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    ReadAhead,
    Clock,
}

/// The pace of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Paced {
    pub(super) by: Pace,
    /// A request that comes later than this after the one before begins a batch.
    apart: Nanos,
}

/// When a batch begins, at the earliest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begins {
    /// At this time, if the stream is then no deeper than in the trace.
    At(Timestamp),
    /// This long after the latest batch, and after the completion of all before it.
    After(Nanos),
    /// As its dependency says, since it was not read ahead.
    Freely,
}

impl Begins {
    /// Whether the pace decides when the batch begins.
    pub(super) fn by_pace(self) -> bool {
        self != Begins::Freely
    }
}

/// The batches of a stream that have been read.
#[derive(Debug, Default)]
pub(super) struct Batches {
    latest: Option<Timestamp>,
    /// Where the latest request ended.
    end: Lba,
    begun: Timestamp,
    /// When all had completed that was sent.
    done: Timestamp,
    /// When all had completed that was sent before the latest batch.
    done_before: Timestamp,
}

impl Batches {
    /// When the batch begins that a request with these times begins; `None` if it belongs to the batch before.
    pub(super) fn begins(&mut self, paced: Paced, request: &Request, completed: Option<Timestamp>) -> Option<Begins> {
        let arrival = request.arrival;
        let latest = self.latest.replace(arrival);
        let goes_on = self.end == request.lba && request.operation == Operation::Read;
        self.end = request.end();
        let done = self.done;
        self.done = done.max(completed.unwrap_or_default());
        if latest.is_some_and(|latest| arrival.since(latest) <= paced.apart) {
            return None;
        }
        let since = self.begun.max(self.done_before);
        (self.begun, self.done_before) = (arrival, done);
        Some(match paced.by {
            Pace::ReadAhead if goes_on => Begins::After(arrival.saturating_since(since)),
            Pace::ReadAhead => Begins::Freely,
            Pace::Clock => Begins::At(arrival),
        })
    }
}

impl Paced {
    /// The pace of a stream that sent these requests, if it has one. It waits for these commits, which may be none.
    pub(super) fn of(sent: &[Sent], commits: &[Commit]) -> Option<Paced> {
        let (first, last) = (sent.first()?.arrival, sent.last()?.arrival);
        let apart = Nanos::from_ns(last.since(first).as_ns() / (2 * sent.len() as u64));
        if Times::of(sent, commits, apart).are_by_clock() {
            return Some(Paced { by: Pace::Clock, apart });
        }
        let apart = apart.min(READ_AHEAD_APART);
        Times::of(sent, commits, apart).are_read_ahead().then_some(Paced { by: Pace::ReadAhead, apart })
    }
}

/// The times of a stream's batches but the first, ns.
#[derive(Debug, Default)]
struct Times {
    /// From the beginning of the batch before.
    distances: Vec<f64>,
    /// From the completion of all that was sent before, and of the commit that it waited for; negative if it was not
    /// complete.
    thinks: Vec<f64>,
    /// From the beginning of the batch before, or the completion of all before that if it was later: of batches that may
    /// have been read ahead, with their think times.
    read_ahead: Vec<f64>,
    read_ahead_thinks: Vec<f64>,
}

impl Times {
    fn of(sent: &[Sent], commits: &[Commit], apart: Nanos) -> Times {
        let mut times = Times::default();
        let mut begun = sent[0].arrival;
        let mut done = Timestamp::ZERO;
        let mut done_before = Timestamp::ZERO;
        for pair in sent.windows(2) {
            let [before, request] = pair else { unreachable!("windows of two") };
            done = done.max(before.completed);
            let next = commits.partition_point(|commit| commit.begin < before.completed);
            let commit = commits.get(next).filter(|commit| before.writes && commit.end <= request.arrival);
            done = commit.map_or(done, |commit| done.max(commit.end));
            if request.arrival.since(before.arrival) > apart {
                let since = |event: Timestamp| (i128::from(request.arrival.as_ns()) - i128::from(event.as_ns())) as f64;
                times.distances.push(since(begun));
                times.thinks.push(since(done));
                if request.reads && request.begin == before.end {
                    times.read_ahead.push(since(begun.max(done_before)));
                    times.read_ahead_thinks.push(since(done));
                }
                (begun, done_before) = (request.arrival, done);
            }
        }
        times
    }

    fn are_by_clock(&self) -> bool {
        if self.distances.len() < BATCHES_MIN {
            return false;
        }
        let [_, median, _] = quartiles(&self.distances);
        let regular: Vec<bool> =
            self.distances.iter().map(|distance| (distance - median).abs() < REGULAR_PART * median).collect();
        let is_regular = |n: &usize| regular[*n];
        let count = regular.iter().filter(|is_regular| **is_regular).count();
        let deviation = mean_deviation((0..regular.len()).filter(is_regular).map(|n| self.distances[n]));
        let of_thinks = mean_deviation((0..regular.len()).filter(is_regular).map(|n| self.thinks[n]));
        count as f64 >= REGULAR_SHARE_MIN * regular.len() as f64
            && deviation <= DEVIATION_MAX * median
            && deviation < CLOCK_SHARE_MAX * of_thinks
            && correlation(&self.distances, &regular, 1) <= CLOCK_CORRELATION_MAX
            && correlation(&self.distances, &regular, 2) <= CLOCK_CORRELATION_OF_SECOND_MAX
    }

    fn are_read_ahead(&self) -> bool {
        let range = |values: &[f64]| {
            let [low, _, high] = quartiles(values);
            high - low
        };
        self.read_ahead.len() >= BATCHES_MIN
            && range(&self.read_ahead) < READ_AHEAD_SHARE_MAX * range(&self.read_ahead_thinks)
    }
}

/// The quartiles of some values.
fn quartiles(values: &[f64]) -> [f64; 3] {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| sorted[sorted.len() * quarter / 4])
}

fn mean_deviation(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / count;
    values.map(|value| (value - mean).abs()).sum::<f64>() / count
}

/// The correlation of a distance with the one so many before, over those that are regular.
fn correlation(distances: &[f64], regular: &[bool], before: usize) -> f64 {
    let among = |n: &usize| regular[*n];
    let count = (0..distances.len()).filter(among).count() as f64;
    let mean = (0..distances.len()).filter(among).map(|n| distances[n]).sum::<f64>() / count;
    let off = |n: usize| distances[n] - mean;
    let squares: f64 = (0..distances.len()).filter(among).map(|n| off(n) * off(n)).sum();
    let pairs = || (before..distances.len()).filter(|n| regular[*n] && regular[n - before]);
    let products: f64 = pairs().map(|n| off(n) * off(n - before)).sum();
    if squares == 0.0 { 0.0 } else { products / pairs().count().max(1) as f64 / (squares / count) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlation_is_that_of_neighbours_that_are_both_regular() {
        let distances = [10.0, 14.0, 10.0, 14.0, 40.0, 14.0, 10.0];
        let regular = distances.map(|distance| distance < 20.0);
        assert_eq!(correlation(&distances, &regular, 1), -1.0);
        assert_eq!(correlation(&distances, &regular, 2), 1.0);
        assert_eq!(correlation(&[10.0, 10.0, 14.0, 14.0, 10.0, 10.0, 14.0, 14.0], &[true; 8], 1), 1.0 / 7.0);
        assert_eq!(correlation(&[10.0; 8], &[true; 8], 1), 0.0);
    }

    #[test]
    fn a_write_is_done_with_the_commit_that_it_waited_for() {
        let at = Timestamp::from_ns;
        let sent = |arrival: u64, writes: bool| Sent {
            arrival: at(arrival),
            completed: at(arrival + 10),
            writes,
            reads: !writes,
            durable: false,
            begin: Lba::ZERO,
            end: Lba::ZERO,
        };
        let commit = |begin: u64, end: u64| Commit { begin: at(begin), logged: at(begin), end: at(end) };
        let thinks = |writes: bool, commits: &[Commit]| {
            Times::of(&[sent(0, writes), sent(100, writes), sent(101, writes)], commits, Nanos::from_ns(50)).thinks
        };
        assert_eq!(thinks(true, &[]), [90.0]);
        assert_eq!(thinks(true, &[commit(20, 60)]), [40.0]);
        assert_eq!(thinks(false, &[commit(20, 60)]), [90.0], "a read waits for no commit");
        assert_eq!(thinks(true, &[commit(20, 160)]), [90.0], "the next request came before its end");
        assert_eq!(thinks(true, &[commit(5, 60)]), [90.0], "it began before the write had completed");
    }
}
