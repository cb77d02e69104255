//! Figures 2 and 3 of Casale et al. 2011: the arrival queue at the storage, for reads and writes apart, as a
//! distribution and within one second; and what the paper says of them in words.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use traces::results::reproduction::{Claim, Evidence, Series, Verdict};
use traces::{Nanos, Operation, Record, Timestamp};

const KINDS: [&str; 2] = ["reads", "writes"];
/// Longest queue that is shown; longer ones count as this long.
const MOST: usize = 64;
const SECOND: Nanos = Nanos::from_s(1);
/// Connections between the VMM and the storage, of which a quarter is "a small fraction".
const CONNECTIONS: usize = 32;
/// Share of the arrivals from which on "a significant number" is meant.
const SIGNIFICANT: f64 = 0.01;

/// The place of a claim that our VMM is told to keep.
pub(super) const INPUT: &str = "Figure 2, an input";

/// An arrival at the storage.
struct Arrival {
    at: Timestamp,
    /// 0 for a read, 1 for a write.
    kind: usize,
    /// The reads and the writes that it finds.
    finds: [usize; 2],
}

/// Every arrival with what it finds. Requests without a completion are left out.
pub(super) struct Queues(Vec<Arrival>);

impl Queues {
    /// From the requests of all VMs at the storage, in any order.
    pub(super) fn of(records: &[Record]) -> Queues {
        let moves_data = |record: &&Record| (record.request.operation as usize) < Operation::MOVING_DATA;
        let times = |record: &Record| {
            let issued = record.observed.issued.unwrap_or(record.request.arrival);
            Some((issued, record.observed.completed?, record.request.operation as usize))
        };
        let mut issued: Vec<(Timestamp, Timestamp, usize)> =
            records.iter().filter(moves_data).filter_map(times).collect();
        issued.sort();
        let mut under_way: BinaryHeap<Reverse<(Timestamp, usize)>> = BinaryHeap::new();
        let mut finds = [0usize; 2];
        let mut arrivals = Vec::with_capacity(issued.len());
        for (at, completed, kind) in issued {
            while let Some(&Reverse((done, of))) = under_way.peek()
                && done <= at
            {
                under_way.pop();
                finds[of] -= 1;
            }
            arrivals.push(Arrival { at, kind, finds });
            finds[kind] += 1;
            under_way.push(Reverse((completed, kind)));
        }
        Queues(arrivals)
    }

    /// The share of the arrivals of a kind for which a condition holds.
    fn share(&self, kind: usize, holds: impl Fn([usize; 2]) -> bool) -> f64 {
        let of_kind = || self.0.iter().filter(|arrival| arrival.kind == kind);
        of_kind().filter(|arrival| holds(arrival.finds)).count() as f64 / of_kind().count() as f64
    }

    /// The lines of both figures.
    pub(super) fn figures(&self, source: &str) -> Vec<Series> {
        let mut all = Vec::new();
        for figure in [2, 3] {
            for (kind, of_kind) in KINDS.iter().enumerate() {
                for (of, found) in KINDS.iter().enumerate() {
                    let points = if figure == 2 { self.distribution(kind, of) } else { self.one_second(kind, of) };
                    let [x, y] = match figure {
                        2 => ["requests found", "share of arrivals"],
                        _ => ["time in a second, ms", "requests found"],
                    };
                    all.push(Series {
                        figure: format!("{figure}, {source}"),
                        scheduler: None,
                        name: format!("{of_kind} find {found}"),
                        x: x.to_owned(),
                        y: y.to_owned(),
                        points,
                    });
                }
            }
        }
        all.retain(|series| !series.points.is_empty());
        all
    }

    /// The share of the arrivals of a kind by the number of requests of a kind that they find.
    fn distribution(&self, kind: usize, of: usize) -> Vec<[f64; 2]> {
        let found = || self.0.iter().filter(|arrival| arrival.kind == kind).map(|arrival| arrival.finds[of].min(MOST));
        let Some(most) = found().max() else { return Vec::new() };
        let mut times = vec![0u64; most + 1];
        found().for_each(|found| times[found] += 1);
        let all = found().count() as f64;
        times.iter().enumerate().map(|(found, &times)| [found as f64, times as f64 / all]).collect()
    }

    /// Every arrival of a kind within one second. The paper chose its second at random; here it is the middle one.
    fn one_second(&self, kind: usize, of: usize) -> Vec<[f64; 2]> {
        let (Some(first), Some(last)) = (self.0.first(), self.0.last()) else { return Vec::new() };
        let seconds = last.at.since(first.at).as_ns() / SECOND.as_ns();
        let begin = first.at + Nanos::from_ns(seconds / 2 * SECOND.as_ns());
        let within = |arrival: &&Arrival| arrival.kind == kind && arrival.at >= begin && arrival.at < begin + SECOND;
        let point = |arrival: &Arrival| [arrival.at.since(begin).as_ms_f64(), arrival.finds[of] as f64];
        self.0.iter().filter(within).map(point).collect()
    }

    /// The share of the arrivals of a kind that stand in a row of at least some arrivals of that kind.
    fn in_rows_of(&self, kind: usize, least: usize) -> f64 {
        let rows = self.0.chunk_by(|one, next| one.kind == next.kind).filter(|row| row[0].kind == kind);
        let (mut long, mut all) = (0, 0);
        for row in rows {
            all += row.len();
            long += if row.len() >= least { row.len() } else { 0 };
        }
        long as f64 / all as f64
    }

    /// What the paper says about the figures, and how these arrivals stand to it.
    pub(super) fn claims(&self, source: &str, evidence: Evidence) -> Vec<Claim> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let quarter = CONNECTIONS / 4;
        let claim = |figure: u32, says: &str, ours: String, holds: bool| Claim {
            place: format!("Figure {figure}, {source}"),
            says: says.to_owned(),
            ours,
            verdict: Verdict::of(usize::from(holds), 1),
            evidence,
        };
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let majority = |figure, says, words: &str, share: f64| {
            claim(figure, says, format!("{} {words}", percent(share)), share > 0.5)
        };
        let significant = |figure, says, words: &str, share: f64| {
            claim(figure, says, format!("{} {words}", percent(share)), (SIGNIFICANT..0.5).contains(&share))
        };
        let most_writes = self.0.iter().map(|arrival| arrival.finds[1]).max().unwrap_or(0);
        vec![
            majority(
                2,
                "a majority of arriving reads find only reads",
                "of reads find no write, an empty queue included",
                self.share(0, |[_, writes]| writes == 0),
            ),
            majority(
                2,
                "mostly only a small fraction of the 32 connections is used",
                "of reads find 8 requests or fewer",
                self.share(0, |[reads, writes]| reads + writes <= quarter),
            ),
            significant(
                2,
                "in a significant number of instances all connections are in use",
                "of reads find 31 requests or more",
                self.share(0, |[reads, writes]| reads + writes >= CONNECTIONS - 1),
            ),
            significant(
                2,
                "in a significant number of cases the queue holds 16 writes",
                "of reads find 16 writes",
                self.share(0, |[_, writes]| writes >= CONNECTIONS / 2),
            ),
            majority(
                2,
                "most arriving writes find few reads, rarely more than 5 to 10",
                "of writes find 10 reads or fewer",
                self.share(1, |[reads, _]| reads <= 10),
            ),
            majority(
                2,
                "arriving writes find other writes, from 1 to 16",
                "of writes find 1 to 16 writes",
                self.share(1, |[_, writes]| (1..=16).contains(&writes)),
            ),
            significant(
                2,
                "there are noticeable frequencies of writes that find large queues of reads",
                "of writes find more than 16 reads",
                self.share(1, |[reads, _]| reads > CONNECTIONS / 2),
            ),
            Claim {
                place: INPUT.to_owned(),
                ..claim(
                    2,
                    "at most 16 writes are batched to the storage",
                    format!("at most {most_writes} are found; the VMM batches no more"),
                    most_writes <= 16,
                )
            },
            self.bursts(source, evidence),
            claim(
                3,
                "a burst is largely of reads or of writes",
                format!(
                    "{} of reads arrive in rows of 5 reads or more, which is judged; {} of writes in rows of 5 writes or more",
                    percent(self.in_rows_of(0, 5)),
                    percent(self.in_rows_of(1, 5))
                ),
                self.in_rows_of(0, 5) > 0.5,
            ),
        ]
    }

    /// The share of the reads that find as many reads as the paper's bursts have, the number found most often, and the
    /// share that finds it.
    fn found_by_reads(&self) -> [f64; 3] {
        let most = self.distribution(0, 0).into_iter().max_by(|[_, one], [_, other]| one.total_cmp(other));
        let [number, its_share] = most.unwrap_or_default();
        [self.share(0, |[reads, _]| (5..CONNECTIONS).contains(&reads)), number, its_share]
    }

    /// What the claim about the sizes of bursts does not test, in words.
    pub(super) fn sizes_of_bursts(&self) -> Option<String> {
        let [within, number, _] = self.found_by_reads();
        (!self.0.is_empty()).then(|| {
            format!(
                "Sizes of bursts are not measured: the reads that a read finds stand for them. {:.0} % of reads find fewer \
                 than 5 or more than 31, and the number found most often is {number}; the paper's bursts have 5 to 32.",
                (1.0 - within) * 100.0
            )
        })
    }

    /// Read bursts. A queue that is always equally full has none, so that no number may be found by half of the reads.
    fn bursts(&self, source: &str, evidence: Evidence) -> Claim {
        let [within, number, its_share] = self.found_by_reads();
        Claim {
            place: format!("Figure 3, {source}"),
            says: "read bursts have 5 to 32 requests".to_owned(),
            ours: format!(
                "{:.1} % of reads find 5 to 31 reads; {:.1} % find the most frequent number, {number}",
                within * 100.0,
                its_share * 100.0
            ),
            verdict: Verdict::of(usize::from(within > 0.5 && its_share < 0.5), 1),
            evidence,
        }
    }
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

    const READ: Operation = Operation::Read;
    const WRITE: Operation = Operation::Write;

    #[test]
    fn an_arrival_finds_what_is_issued_and_not_complete() {
        let records = [
            record(0, 10, READ),
            record(2, 100, WRITE),
            record(5, 10, READ),
            // Issued when the first completes.
            record(10, 1, READ),
            record(1500, 1, WRITE),
            Record { observed: Observed::default(), ..record(3, 0, READ) },
        ];
        let series = Queues::of(&records).figures("replayed");
        let points = |figure: &str, name: &str| {
            series.iter().find(|series| series.figure == figure && series.name == name).unwrap().points.clone()
        };
        assert_eq!(points("2, replayed", "reads find reads"), [[0.0, 1.0 / 3.0], [1.0, 2.0 / 3.0]]);
        assert_eq!(points("2, replayed", "reads find writes"), [[0.0, 1.0 / 3.0], [1.0, 2.0 / 3.0]]);
        assert_eq!(points("2, replayed", "writes find reads"), [[0.0, 0.5], [1.0, 0.5]]);
        // The second in the middle of 1.5 s is the first one: request by request, not its mean.
        assert_eq!(points("3, replayed", "reads find reads"), [[0.0, 0.0], [5.0, 1.0], [10.0, 1.0]]);
        assert_eq!(points("3, replayed", "writes find reads"), [[2.0, 1.0]]);
        assert!(
            Queues::of(&[]).figures("replayed").is_empty()
                && Queues::of(&[]).claims("replayed", Evidence::Forecast).is_empty()
        );
    }

    #[test]
    fn claims_hold_for_bursts_and_not_for_a_queue_that_is_always_full() {
        // Bursts of 20 reads, and batches of 16 writes between them.
        let bursts = (0..40).flat_map(|burst| {
            let reads = (0..20).map(move |_| record(burst * 100, 30, READ));
            reads.chain((0..17).map(move |_| record(burst * 100 + 50, 20, WRITE)))
        });
        let verdicts = |records: &[Record]| -> Vec<bool> {
            Queues::of(records)
                .claims("replayed", Evidence::Forecast)
                .iter()
                .map(|claim| claim.verdict == Verdict::Holds)
                .collect()
        };
        let found = verdicts(&bursts.collect::<Vec<_>>());
        // No reads find 31 requests or 16 writes; all else is as the paper says, but that 8 of 20 reads find 8 or fewer.
        assert_eq!(found, [true, false, false, false, true, true, false, true, true, true]);
        // 32 reads under way at all times, and a write now and then.
        let full = (0..2000).map(|nth| record(nth, 32, if nth % 50 == 0 { WRITE } else { READ }));
        let found = verdicts(&full.collect::<Vec<_>>());
        assert!(!found[1] && !found[2] && !found[4] && !found[8], "{found:?}");
    }
}
