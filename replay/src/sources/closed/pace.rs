//! Streams that go at a pace of their own: their programs do not wait for the request that they send.
//!
//! One program thinks after each completion, so a slower drive makes it slower. Another reads a file through read-ahead:
//! the request that it sends is for what it needs later. A third sends by the clock, such as a player. A slow drive stops
//! the last two only when requests take longer than the pace. Both show in the times of the trace; that a page cache reads
//! ahead may also be recorded ([`traces::Flags::AHEAD`]).
//!
//! *Read-ahead* sends a batch as the program comes to the beginning of the batch before (`page_cache_async_ra`,
//! `mm/readahead.c`, Linux 6.1). Then the program waits until that one has been read, if it has not, and goes through it.
//! So the next batch comes one distance after the last one, or after the completion of the one before that if this is
//! later. Of a program that waits, the times from completions to arrivals are steadier; of one that reads ahead, these
//! distances are. Where the page cache says that it reads ahead, times need not show it, but must not contradict it.
//!
//! The first two batches of a file depend on completions (`closed/read_ahead.rs`). At the end of a file the program goes
//! through what it has left, waits for the last batch and goes through that. Only then comes the next file.
//!
//! *By the clock* distances between batches are regular, and vary no more than the times from completions to arrivals do.
//! What came late is made up for: after a distance that was too long comes one that was too short.
//!
//! The other requests of a batch depend on each other as everywhere (`closed/dependencies.rs`).

use std::ops::Add;

use traces::{Lba, Nanos, Sectors, Timestamp};

use super::read_ahead::{Place, Window, largest};
use super::roles::{Commit, Sent};

/// Fewest batches that show a pace. Set by judgement; not varied.
const BATCHES_MIN: usize = 64;
/// Read-ahead sends the requests of a batch within this time: the pages between them were in the cache. Set by judgement;
/// not varied.
const READ_AHEAD_APART: Nanos = Nanos::from_us(1000);
/// Largest range of the distances of batches that are read ahead, as a share of the range of think times; ranges between
/// the quartiles. Chosen on train's captures of the suite: 0.2 and less where reading ahead shows, 0.8 and more elsewhere.
/// Where a page cache says that it reads ahead: smallest range of think times, as a share of that of distances.
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
    /// Of read-ahead: the size of the largest windows.
    largest: Sectors,
    /// Of read-ahead: how long the program takes to go through a sector, ns.
    sector_ns: u64,
}

/// When a batch begins, at the earliest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begins {
    /// At this time, if the stream is then no deeper than in the trace.
    At(Timestamp),
    /// This long after the latest batch, and after the completion of all before it.
    After(Nanos),
    /// `ahead` after the latest batch, and after the completion of all before it, the program has gone through all but
    /// that batch. When the batch has been read, too, it takes the `rest` of the time.
    Through { ahead: Nanos, rest: Nanos },
    /// As its dependency says, since it was not read ahead.
    Freely,
}

impl Begins {
    /// Whether the pace decides when the batch begins.
    pub(super) fn by_pace(self) -> bool {
        self != Begins::Freely
    }
}

/// A batch as recorded.
struct Batch {
    /// When the batch before began.
    before: Timestamp,
    /// When all had completed that was sent before it.
    done: Timestamp,
    /// When all had completed that was sent before the batch before.
    done_before: Timestamp,
    /// Its place in a file, if it is one of reads.
    place: Option<Place>,
    /// What the program still had to go through as the batch before began.
    left: Sectors,
}

impl Batch {
    /// What its distance is counted from if it was read ahead.
    fn read_ahead_since(&self) -> Timestamp {
        self.before.max(self.done_before)
    }

    /// When it begins, if it began at `arrival` and reads ahead at this pace.
    fn reads_ahead(&self, paced: Paced, arrival: Timestamp) -> Begins {
        let since = self.read_ahead_since();
        if self.place == Some(Place::Later) {
            return Begins::After(arrival.saturating_since(since));
        }
        let left = Nanos::from_ns(self.left.count().saturating_mul(paced.sector_ns));
        let through = since.saturating_add(left).min(arrival);
        if self.place == Some(Place::First) && left > Nanos::ZERO && self.done <= arrival {
            let rest = arrival.since(through.max(self.done));
            Begins::Through { ahead: through.saturating_since(since), rest }
        } else {
            Begins::Freely
        }
    }
}

/// The batches of a stream that have been read.
#[derive(Debug, Default)]
pub(super) struct Batches {
    latest: Option<Timestamp>,
    /// Where the latest request ended.
    end: Lba,
    window: Window,
    begun: Timestamp,
    done: Timestamp,
    done_before: Timestamp,
}

impl Batches {
    /// The batch that a request begins; `None` if it belongs to the batch before.
    fn add(&mut self, paced: Paced, sent: &Sent) -> Option<Batch> {
        let latest = self.latest.replace(sent.arrival);
        let end = std::mem::replace(&mut self.end, sent.end);
        let gap = sent.gap_behind(end).filter(|_| sent.reads);
        let done = self.done;
        self.done = done.max(sent.completed);
        if latest.is_some_and(|latest| sent.arrival.since(latest) <= paced.apart) {
            self.window.add(sent.size());
            return None;
        }
        self.window.begin(paced.largest, gap, sent.size());
        let before = std::mem::replace(&mut self.begun, sent.arrival);
        let done_before = std::mem::replace(&mut self.done_before, done);
        let Window { place, left, .. } = self.window;
        Some(Batch { before, done, done_before, place: sent.reads.then_some(place), left })
    }

    /// When the batch begins that a request begins; `None` if it belongs to the batch before.
    pub(super) fn begins(&mut self, paced: Paced, sent: &Sent) -> Option<Begins> {
        let batch = self.add(paced, sent)?;
        Some(match paced.by {
            Pace::ReadAhead => batch.reads_ahead(paced, sent.arrival),
            Pace::Clock => Begins::At(sent.arrival),
        })
    }
}

impl Paced {
    /// The pace of a stream that sent these requests, if it has one. It waits for these commits, which may be none.
    pub(super) fn of(sent: &[Sent], commits: &[Commit]) -> Option<Paced> {
        let (first, last) = (sent.first()?.arrival, sent.last()?.arrival);
        let apart = Nanos::from_ns(last.since(first).as_ns() / (2 * sent.len() as u64));
        let clock = Paced { by: Pace::Clock, apart, largest: Sectors::new(0), sector_ns: 0 };
        if Times::of(sent, commits, clock).are_by_clock() {
            return Some(clock);
        }
        // Most streams read nothing that may have been read ahead. They need no further look.
        let reads_on = |pair: &&[Sent]| pair[1].reads && pair[1].gap_behind(pair[0].end).is_some();
        if sent.windows(2).filter(reads_on).count() < BATCHES_MIN {
            return None;
        }
        let apart = apart.min(READ_AHEAD_APART);
        let batches = sent.chunk_by(|one, next| next.arrival.since(one.arrival) <= apart);
        let largest = largest(batches.map(|batch| batch.iter().map(Sent::size).fold(Sectors::new(0), Add::add)));
        let paced = Paced { by: Pace::ReadAhead, apart, largest, sector_ns: 0 };
        let times = Times::of(sent, commits, paced);
        times.are_read_ahead().then(|| Paced { sector_ns: quartiles(&times.sectors)[1] as u64, ..paced })
    }
}

/// The times of a stream's batches but the first, ns.
#[derive(Debug, Default)]
struct Times {
    /// From the beginning of the batch before.
    distances: Vec<f64>,
    /// From the completion of all that was sent before, and the end of the commit that it waited for; negative if not all
    /// had completed.
    thinks: Vec<f64>,
    /// Of those that may have been read ahead: their distances as such, and their think times.
    read_ahead: Vec<f64>,
    read_ahead_thinks: Vec<f64>,
    /// How long the program took for each sector that it had left.
    sectors: Vec<f64>,
    /// How many of them a page cache says it has read ahead.
    said_ahead: usize,
}

impl Times {
    fn of(sent: &[Sent], commits: &[Commit], paced: Paced) -> Times {
        let mut times = Times::default();
        let mut batches = Batches::default();
        let mut committed = Timestamp::ZERO;
        let mut before: Option<&Sent> = None;
        for request in sent {
            if let Some(write) = before.filter(|before| before.writes) {
                let next = commits.partition_point(|commit| commit.begin < write.completed);
                let waited = commits.get(next).filter(|commit| commit.end <= request.arrival);
                committed = committed.max(waited.map_or(Timestamp::ZERO, |commit| commit.end));
            }
            let batch = batches.add(paced, request);
            if let Some(batch) = batch.filter(|_| before.is_some()) {
                times.add(request, &batch, batch.done.max(committed));
            }
            before = Some(request);
        }
        times
    }

    /// Adds a batch with the first request that it `sent`. Its program could go on from `free`.
    fn add(&mut self, sent: &Sent, batch: &Batch, free: Timestamp) {
        let since = |event: Timestamp| (i128::from(sent.arrival.as_ns()) - i128::from(event.as_ns())) as f64;
        self.distances.push(since(batch.before));
        self.thinks.push(since(free));
        if batch.place == Some(Place::Later) {
            let distance = since(batch.read_ahead_since());
            self.read_ahead.push(distance);
            self.read_ahead_thinks.push(since(free));
            self.sectors.push(distance / batch.left.count().max(1) as f64);
            self.said_ahead += usize::from(sent.ahead);
        }
    }

    fn are_by_clock(&self) -> bool {
        if self.distances.len() < BATCHES_MIN {
            return false;
        }
        let [_, median, _] = quartiles(&self.distances);
        let regular: Vec<bool> =
            self.distances.iter().map(|distance| (distance - median).abs() < REGULAR_PART * median).collect();
        let count = regular.iter().filter(|is_regular| **is_regular).count();
        if (count as f64) < REGULAR_SHARE_MIN * regular.len() as f64 {
            return false;
        }
        let [distances, thinks] = [&self.distances, &self.thinks].map(|times| deviations(times, &regular));
        mean_amount(&distances) <= DEVIATION_MAX * median
            && mean_amount(&distances) < CLOCK_SHARE_MAX * mean_amount(&thinks)
            && correlation(&distances, 1) <= CLOCK_CORRELATION_MAX
            && correlation(&distances, 2) <= CLOCK_CORRELATION_OF_SECOND_MAX
    }

    fn are_read_ahead(&self) -> bool {
        let range = |values: &[f64]| {
            let [low, _, high] = quartiles(values);
            high - low
        };
        if self.read_ahead.len() < BATCHES_MIN {
            return false;
        }
        let [distances, thinks] = [range(&self.read_ahead), range(&self.read_ahead_thinks)];
        if 2 * self.said_ahead > self.read_ahead.len() {
            thinks >= READ_AHEAD_SHARE_MAX * distances
        } else {
            distances < READ_AHEAD_SHARE_MAX * thinks
        }
    }
}

/// The quartiles of some values.
fn quartiles(values: &[f64]) -> [f64; 3] {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| sorted[sorted.len() * quarter / 4])
}

/// How far values are from the mean of those that count; `None` for the others.
fn deviations(values: &[f64], counts: &[bool]) -> Vec<Option<f64>> {
    let counted = || values.iter().zip(counts).filter(|(_, counts)| **counts).map(|(value, _)| value);
    let mean = counted().sum::<f64>() / counted().count() as f64;
    values.iter().zip(counts).map(|(value, counts)| counts.then_some(value - mean)).collect()
}

fn mean_amount(deviations: &[Option<f64>]) -> f64 {
    let counted = || deviations.iter().flatten();
    counted().map(|deviation| deviation.abs()).sum::<f64>() / counted().count() as f64
}

/// The correlation of a value with the one so many before, over those that both count.
fn correlation(deviations: &[Option<f64>], before: usize) -> f64 {
    let mean = |products: &[f64]| products.iter().sum::<f64>() / products.len().max(1) as f64;
    let squares: Vec<f64> = deviations.iter().flatten().map(|deviation| deviation * deviation).collect();
    let pairs = deviations.iter().zip(deviations.iter().skip(before));
    let products: Vec<f64> = pairs.filter_map(|(one, other)| Some((*one)? * (*other)?)).collect();
    let variance = mean(&squares);
    if variance == 0.0 { 0.0 } else { mean(&products) / variance }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request that takes 10 ns.
    fn sent(arrival: u64, writes: bool) -> Sent {
        Sent {
            arrival: Timestamp::from_ns(arrival),
            completed: Timestamp::from_ns(arrival + 10),
            writes,
            reads: !writes,
            durable: false,
            ahead: false,
            begin: Lba::ZERO,
            end: Lba::ZERO,
        }
    }

    #[test]
    fn correlation_is_that_of_neighbours_that_are_both_regular() {
        let distances = [10.0, 14.0, 10.0, 14.0, 40.0, 14.0, 10.0];
        let of_regular = deviations(&distances, &distances.map(|distance| distance < 20.0));
        assert_eq!(mean_amount(&of_regular), 2.0);
        assert_eq!(correlation(&of_regular, 1), -1.0);
        assert_eq!(correlation(&of_regular, 2), 1.0);
        let in_pairs = [10.0, 10.0, 14.0, 14.0, 10.0, 10.0, 14.0, 14.0];
        assert_eq!(correlation(&deviations(&in_pairs, &[true; 8]), 1), 1.0 / 7.0);
        assert_eq!(correlation(&deviations(&[10.0; 8], &[true; 8]), 1), 0.0);
    }

    /// Batches are 50 ns apart; the largest windows have 8 sectors.
    const PACED: Paced =
        Paced { by: Pace::ReadAhead, apart: Nanos::from_ns(50), largest: Sectors::new(8), sector_ns: 0 };

    #[test]
    fn only_reads_are_read_ahead_and_only_from_the_third_window_of_a_file_on() {
        let sent = |arrival: u64, writes: bool, begin: u64| Sent {
            begin: Lba::new(begin),
            end: Lba::new(begin + 8),
            ..sent(arrival, writes)
        };
        let read_ahead = |sent: &[Sent]| Times::of(sent, &[], PACED).read_ahead;
        let then = |third: Sent| read_ahead(&[sent(0, false, 0), sent(100, false, 8), third]);
        assert_eq!(read_ahead(&[sent(0, false, 0), sent(100, false, 8)]), [0.0; 0]);
        assert_eq!(then(sent(200, false, 16)), [100.0]);
        assert_eq!(then(sent(200, false, 17)), [100.0], "a hole of an eighth");
        assert_eq!(then(sent(200, false, 18)), [0.0; 0]);
        assert_eq!(then(sent(200, false, 15)), [0.0; 0]);
        assert_eq!(then(sent(200, true, 16)), [0.0; 0]);
        // The batch before the last took until 230.
        let late = Sent { completed: Timestamp::from_ns(230), ..sent(0, false, 0) };
        assert_eq!(read_ahead(&[late, sent(100, false, 8), sent(300, false, 16)]), [70.0]);
    }

    #[test]
    fn batch_begins_as_its_place_in_the_file_has_it() {
        let at = Timestamp::from_ns;
        let paced = Paced { sector_ns: 10, ..PACED };
        // The batch before began at 100, and what came before that was done by 130. Four sectors were left then.
        let begins = |place: Place, left: u64, done: u64| {
            let (place, left) = (Some(place), Sectors::new(left));
            let batch = Batch { before: at(100), done: at(done), done_before: at(130), place, left };
            batch.reads_ahead(paced, at(200))
        };
        let ns = Nanos::from_ns;
        assert_eq!(begins(Place::Later, 4, 150), Begins::After(ns(70)));
        assert_eq!(begins(Place::Second, 4, 150), Begins::Freely);
        assert_eq!(begins(Place::First, 4, 150), Begins::Through { ahead: ns(40), rest: ns(30) });
        assert_eq!(begins(Place::First, 4, 180), Begins::Through { ahead: ns(40), rest: ns(20) });
        assert_eq!(begins(Place::First, 9, 150), Begins::Through { ahead: ns(70), rest: ns(0) });
        assert_eq!(begins(Place::First, 4, 200), Begins::Through { ahead: ns(40), rest: ns(0) });
        assert_eq!(begins(Place::First, 4, 201), Begins::Freely, "it did not wait");
        assert_eq!(begins(Place::First, 0, 150), Begins::Freely, "nothing was left");
        // What came before was done first.
        let batch = Batch {
            before: at(140),
            done: at(150),
            done_before: at(130),
            place: Some(Place::Later),
            left: Sectors::new(4),
        };
        assert_eq!(batch.reads_ahead(paced, at(200)), Begins::After(ns(60)));
        assert_eq!(Batch { place: None, ..batch }.reads_ahead(paced, at(200)), Begins::Freely, "a write");
    }

    #[test]
    fn a_write_is_done_with_the_commit_that_it_waited_for() {
        let at = Timestamp::from_ns;
        let commit = |begin: u64, end: u64| Commit { begin: at(begin), logged: at(begin), end: at(end) };
        let thinks = |writes: bool, commits: &[Commit]| {
            Times::of(&[sent(0, writes), sent(100, writes), sent(101, writes)], commits, PACED).thinks
        };
        assert_eq!(thinks(true, &[]), [90.0]);
        assert_eq!(thinks(true, &[commit(20, 60)]), [40.0]);
        assert_eq!(thinks(false, &[commit(20, 60)]), [90.0], "a read waits for no commit");
        assert_eq!(thinks(true, &[commit(20, 160)]), [90.0], "the next request came before its end");
        assert_eq!(thinks(true, &[commit(5, 60)]), [90.0], "it began before the write had completed");
    }
}
