//! Which of the requests that were asked for arrived, and when.
//!
//! An asked request is matched with the first arrival of the same operation and first sector that no other has taken. The
//! zero of the asked times is set so that no request arrives early and the one that is least late arrives on time: where
//! an engine sets its zero is not known.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};
use replay::live::Punctuality;
use traces::statistics::Distribution;
use traces::trace::{ReadOptions, TraceReader};
use traces::{Lba, Nanos, Operation, Record, Timestamp};

use crate::error::Interrupted;

/// The most asked requests that wait for their arrival. An engine that reorders over a longer distance misses some; one
/// that loses as many in a row misses all that follow.
const WAITING_MAX: usize = 1 << 16;

/// The requests of one engine that arrived, and when.
#[derive(Default)]
pub struct Matching {
    /// How late they arrived.
    pub punctuality: Punctuality,
    /// Asked requests that arrived.
    pub arrived: u64,
    /// Asked requests that did not.
    pub missing: u64,
    /// Arrivals that were not asked for.
    pub others: u64,
    /// From the first to the last that arrived.
    pub span: Nanos,
    /// From issue to completion.
    pub device_time: Distribution,
}

impl Matching {
    /// Matches the requests of the trace `asked` with the arrivals that the kernel saw.
    ///
    /// # Errors
    /// A trace that cannot be read.
    pub fn of(asked: &Path, seen: &Path, stop: &AtomicBool) -> Result<Matching> {
        // In ns: how much later the arrivals are than the times that were asked for.
        let mut least = None;
        Pairs::new(asked, seen)?.for_each(stop, |due, record| {
            let late = record.request.arrival.as_ns() as i128 - i128::from(due.as_ns());
            least = Some(least.map_or(late, |least: i128| least.min(late)));
        })?;
        let shift = least.unwrap_or_default();
        let mut matching = Matching::default();
        let mut first = None;
        let counts = Pairs::new(asked, seen)?.for_each(stop, |due, record| {
            let arrival = record.request.arrival;
            let on_time = Timestamp::from_ns(u64::try_from(i128::from(due.as_ns()) + shift).unwrap_or(0));
            matching.punctuality.add(on_time, arrival, false);
            let first = *first.get_or_insert(arrival);
            matching.span = matching.span.max(arrival.saturating_since(first));
            if let (Some(issued), Some(completed)) = (record.observed.issued, record.observed.completed) {
                matching.device_time.add(completed.saturating_since(issued));
            }
        })?;
        (matching.arrived, matching.missing, matching.others) = counts;
        Ok(matching)
    }
}

type Key = (Operation, Lba);

/// Reads what was asked for and what was seen side by side.
struct Pairs {
    asked: Box<dyn TraceReader>,
    seen: Box<dyn TraceReader>,
    /// The times of the asked requests that wait for their arrival.
    waiting: HashMap<Key, VecDeque<(u64, Timestamp)>>,
    /// The same in the order in which they were asked for. Those that have arrived are skipped.
    order: VecDeque<(u64, Key)>,
    asked_so_far: u64,
    waiting_requests: usize,
}

impl Pairs {
    fn new(asked: &Path, seen: &Path) -> Result<Pairs> {
        let open = |path| traces::formats::open(path, &ReadOptions::default());
        Ok(Pairs {
            asked: open(asked)?,
            seen: open(seen)?,
            waiting: HashMap::new(),
            order: VecDeque::new(),
            asked_so_far: 0,
            waiting_requests: 0,
        })
    }

    /// Calls `pair` for each pair, in the order of arrivals. Returns the numbers of pairs, of asked requests and of
    /// arrivals without a partner.
    fn for_each(mut self, stop: &AtomicBool, mut pair: impl FnMut(Timestamp, &Record)) -> Result<(u64, u64, u64)> {
        let (mut pairs, mut others) = (0, 0);
        self.read_ahead()?;
        while let Some(record) = self.seen.next()? {
            ensure!(!stop.load(Ordering::Relaxed), Interrupted);
            let key = (record.request.operation, record.request.lba);
            match self.take(&key) {
                Some(due) => {
                    pairs += 1;
                    pair(due, &record);
                    self.read_ahead()?;
                }
                None => others += 1,
            }
        }
        while self.asked.next()?.is_some() {
            self.asked_so_far += 1;
        }
        Ok((pairs, self.asked_so_far - pairs, others))
    }

    /// Reads asked requests until enough are known. Behind one that is lost, as many as that may arrive before it makes
    /// way.
    fn read_ahead(&mut self) -> Result<()> {
        loop {
            self.forget_arrived();
            if self.order.len() >= 2 * WAITING_MAX {
                self.forget_oldest();
            } else if self.waiting_requests >= WAITING_MAX {
                return Ok(());
            } else {
                let Some(record) = self.asked.next()? else { return Ok(()) };
                let key = (record.request.operation, record.request.lba);
                self.waiting.entry(key).or_default().push_back((self.asked_so_far, record.request.arrival));
                self.order.push_back((self.asked_so_far, key));
                self.asked_so_far += 1;
                self.waiting_requests += 1;
            }
        }
    }

    /// Takes an asked request of this kind that waits, the oldest.
    fn take(&mut self, key: &Key) -> Option<Timestamp> {
        let waiting = self.waiting.get_mut(key)?;
        let (_, due) = waiting.pop_front()?;
        if waiting.is_empty() {
            self.waiting.remove(key);
        }
        self.waiting_requests -= 1;
        Some(due)
    }

    /// Drops those from the front of the order that wait no longer.
    fn forget_arrived(&mut self) {
        while let Some((number, key)) = self.order.front() {
            let oldest = self.waiting.get(key).and_then(VecDeque::front);
            if oldest.is_some_and(|(oldest, _)| oldest <= number) {
                return;
            }
            self.order.pop_front();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, key)) = self.order.pop_front() {
            self.take(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use tempfile::TempDir;

    use super::*;

    /// A trace of lines `arrival in µs, first sector`, of reads that complete 100 µs later.
    fn trace(folder: &TempDir, name: &str, lines: impl IntoIterator<Item = (u64, u64)>) -> PathBuf {
        let mut text = "arrival_ns,operation,lba_sectors,sectors,flags,priority,vm,stream,cpu,inserted_ns,issued_ns,\
                        completed_ns,error\n"
            .to_owned();
        for (arrival, lba) in lines {
            let (issued, completed) = (arrival * 1000 + 10, arrival * 1000 + 100_010);
            text.push_str(&format!("{},read,{lba},8,,0,0,1,0,,{issued},{completed},0\n", arrival * 1000));
        }
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn matched(
        asked: impl IntoIterator<Item = (u64, u64)>,
        seen: impl IntoIterator<Item = (u64, u64)>,
    ) -> (Matching, Vec<Option<u64>>) {
        let folder = tempfile::tempdir().unwrap();
        let (asked, seen) = (trace(&folder, "asked.csv", asked), trace(&folder, "seen.csv", seen));
        let matching = Matching::of(&asked, &seen, &AtomicBool::new(false)).unwrap();
        let late = [5_000, 10_000].map(|hundredths| matching.punctuality.error.percentile_ns(hundredths)).to_vec();
        (matching, late)
    }

    #[test]
    fn the_least_late_request_is_on_time_and_the_others_are_as_much_later() {
        // Later by 1000, 1000, 1007, 998 and 1200 µs.
        let asked = [(0, 0), (100, 8), (200, 0), (300, 8), (400, 64)];
        let seen = [(1000, 0), (1100, 8), (1207, 0), (1298, 8), (1600, 64)];
        let (matching, late) = matched(asked, seen);
        assert_eq!((matching.arrived, matching.missing, matching.others), (5, 0, 0));
        assert_eq!(late, [Some(2_000), Some(202_000)]);
        assert_eq!(matching.span, Nanos::from_us(600));
        assert_eq!(matching.device_time.moments().mean_ns, Some(100_000.0));
        // Asked times may be later than those that were seen: clocks differ.
        let later = asked.map(|(arrival, lba)| (arrival + 5000, lba));
        assert_eq!(matched(later, seen).1, late);
    }

    #[test]
    fn requests_that_never_arrive_are_missing_and_strange_arrivals_are_others() {
        let asked = [(0, 0), (100, 8), (200, 16), (300, 24)];
        let (matching, late) = matched(asked, [(0, 0), (50, 4000), (210, 16), (220, 16), (300, 24)]);
        assert_eq!((matching.arrived, matching.missing, matching.others), (3, 1, 2));
        assert_eq!(late, [Some(0), Some(10_000)]);
        let (matching, _) = matched(asked, []);
        assert_eq!((matching.arrived, matching.missing), (0, 4));
    }

    #[test]
    fn what_waits_is_bounded_and_lost_requests_make_way() {
        let count = 3 * WAITING_MAX as u64;
        let asked = || (0..count).map(|number| (number * 10, number * 8));
        // Nearly a third never arrives.
        let lost = count / 3 - 1;
        let (matching, late) = matched(asked(), asked().skip(lost as usize));
        assert_eq!((matching.arrived, matching.missing, matching.others), (count - lost, lost, 0));
        assert_eq!(late, [Some(0), Some(0)]);
        // Pairs far apart in the order, within the bound.
        let swapped = asked().map(|(arrival, lba)| (arrival, ((lba / 8) ^ 0x3fff) * 8));
        assert_eq!(matched(asked(), swapped).0.arrived, count);
    }
}
