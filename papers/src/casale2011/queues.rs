//! Figures 2 and 3 of Casale et al. 2011: the arrival queue at the storage, for reads and writes apart, as a
//! distribution and second by second.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use traces::results::reproduction::Series;
use traces::{Nanos, Operation, Record, Timestamp};

const KINDS: [&str; 2] = ["reads", "writes"];
/// Longest queue that is shown; longer ones count as this long.
const MOST: usize = 64;
const SECOND: Nanos = Nanos::from_s(1);

/// The requests of one kind that arrivals of one kind find.
#[derive(Clone, Default)]
struct Found {
    /// By number of requests found: the arrivals.
    times: Vec<u64>,
    /// By second: the arrivals, and the sum of requests that they found.
    seconds: Vec<(u64, u64)>,
}

impl Found {
    fn add(&mut self, second: usize, found: usize) {
        let shown = found.min(MOST);
        if shown >= self.times.len() {
            self.times.resize(shown + 1, 0);
        }
        self.times[shown] += 1;
        if second >= self.seconds.len() {
            self.seconds.resize(second + 1, (0, 0));
        }
        let (arrivals, sum) = &mut self.seconds[second];
        *arrivals += 1;
        *sum += found as u64;
    }
}

/// The figures from the requests of all VMs at the storage, in any order. Requests without a completion are left out.
pub(super) fn figures(source: &str, records: &[Record]) -> Vec<Series> {
    let moves_data = |record: &&Record| (record.request.operation as usize) < Operation::MOVING_DATA;
    let times = |record: &Record| {
        let issued = record.observed.issued.unwrap_or(record.request.arrival);
        Some((issued, record.observed.completed?, record.request.operation as usize))
    };
    let mut arrivals: Vec<(Timestamp, Timestamp, usize)> =
        records.iter().filter(moves_data).filter_map(times).collect();
    arrivals.sort();
    let first = arrivals.first().map_or(Timestamp::ZERO, |(issued, ..)| *issued);
    let mut under_way: BinaryHeap<Reverse<(Timestamp, usize)>> = BinaryHeap::new();
    let mut counts = [0usize; 2];
    let mut found: [[Found; 2]; 2] = Default::default();
    for (issued, completed, kind) in arrivals {
        while let Some(&Reverse((done, of))) = under_way.peek()
            && done <= issued
        {
            under_way.pop();
            counts[of] -= 1;
        }
        let second = (issued.since(first).as_ns() / SECOND.as_ns()) as usize;
        for (of, count) in counts.into_iter().enumerate() {
            found[kind][of].add(second, count);
        }
        counts[kind] += 1;
        under_way.push(Reverse((completed, kind)));
    }
    series(source, &found)
}

fn series(source: &str, found: &[[Found; 2]; 2]) -> Vec<Series> {
    let mut histograms = Vec::new();
    let mut over_time = Vec::new();
    for (kind, by_kind) in found.iter().enumerate() {
        for (of, found) in by_kind.iter().enumerate() {
            let name = format!("{} find {}", KINDS[kind], KINDS[of]);
            let all = found.times.iter().sum::<u64>() as f64;
            let share = |(count, times): (usize, &u64)| [count as f64, *times as f64 / all];
            let mean = |(second, (arrivals, sum)): (usize, &(u64, u64))| {
                (*arrivals > 0).then(|| [second as f64, *sum as f64 / *arrivals as f64])
            };
            histograms.push(Series {
                figure: format!("2, {source}"),
                scheduler: None,
                name: name.clone(),
                x: "requests found".to_owned(),
                y: "share of arrivals".to_owned(),
                points: found.times.iter().enumerate().map(share).collect(),
            });
            over_time.push(Series {
                figure: format!("3, {source}"),
                scheduler: None,
                name,
                x: "time, s".to_owned(),
                y: "requests found, mean of each second".to_owned(),
                points: found.seconds.iter().enumerate().filter_map(mean).collect(),
            });
        }
    }
    histograms.into_iter().chain(over_time).filter(|series| !series.points.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use traces::{Lba, Observed, Request, Sectors};

    use super::*;

    fn record(issued_ms: u64, took_ms: u64, operation: Operation) -> Record {
        let at = Timestamp::ZERO + Nanos::from_ms(issued_ms);
        let observed =
            Observed { issued: Some(at), completed: Some(at + Nanos::from_ms(took_ms)), ..Observed::default() };
        Record { request: Request::new(at, operation, Lba::ZERO, Sectors::new(8)), observed }
    }

    #[test]
    fn an_arrival_finds_what_is_issued_and_not_complete() {
        let (read, write) = (Operation::Read, Operation::Write);
        let records = [
            record(0, 10, read),
            record(2, 100, write),
            record(5, 10, read),
            // Issued when the first completes.
            record(10, 1, read),
            record(1500, 1, write),
            Record { observed: Observed::default(), ..record(3, 0, read) },
        ];
        let series = figures("replayed", &records);
        let points = |figure: &str, name: &str| {
            series.iter().find(|series| series.figure == figure && series.name == name).unwrap().points.clone()
        };
        assert_eq!(points("2, replayed", "reads find reads"), [[0.0, 1.0 / 3.0], [1.0, 2.0 / 3.0]]);
        assert_eq!(points("2, replayed", "reads find writes"), [[0.0, 1.0 / 3.0], [1.0, 2.0 / 3.0]]);
        assert_eq!(points("2, replayed", "writes find reads"), [[0.0, 0.5], [1.0, 0.5]]);
        assert_eq!(points("3, replayed", "writes find reads"), [[0.0, 1.0], [1.0, 0.0]]);
        assert!(figures("replayed", &[]).is_empty());
    }
}
