//! What happened in a run over time: counts in intervals, for pictures. Its size does not depend on that of the run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::units::{Lba, Nanos, Sectors};

/// The most intervals of a history, and the most rows of a grid.
pub const STEPS_MAX: usize = 256;

/// The numbers of response times in each doubling ([`response_number`]).
const PER_DOUBLING: u32 = 8;

/// The course of a run, in intervals of equal length from the first arrival on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// The length of an interval.
    pub interval_ns: Nanos,
    /// Arrivals outstanding: their mean in each interval.
    pub outstanding_mean: Vec<f64>,
    /// The most at any time of each interval.
    pub outstanding_max: Vec<u64>,
    /// Reads.
    pub read: ClassHistory,
    /// Writes.
    pub write: ClassHistory,
    /// What each VM was served, in the order of their numbers.
    pub vms: Vec<VmHistory>,
    /// Device requests by the distance that the head moved: none, then by powers of two. Element `n` counts 2^(n-1)
    /// sectors to less than 2^n.
    pub seeks: Vec<u64>,
    /// A short part, request by request.
    #[serde(default)]
    pub close_up: CloseUp,
}

/// At most a second of a run, and at most some hundred requests that the device served in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloseUp {
    /// When it begins, from the first arrival on.
    pub begin_ns: Nanos,
    /// The requests, in the order in which the device began to serve them.
    pub requests: Vec<ShownRequest>,
}

/// A request of the device. Times are from the first arrival on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownRequest {
    /// The number of its VM in [`History::vms`].
    pub vm: usize,
    /// Whether it is a write.
    pub is_write: bool,
    /// Its first sector.
    pub lba: Lba,
    /// Its length.
    pub sectors: Sectors,
    /// When it arrived; in a trace, when it was issued to the device.
    pub arrived_ns: Nanos,
    /// When the device began to serve it.
    pub started_ns: Nanos,
    /// When the device completed it.
    pub finished_ns: Nanos,
}

/// Reads or writes over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassHistory {
    /// Completed arrivals by interval and response time; its values are those of [`response_number`].
    pub responses: Grid,
    /// Arrivals by how many of their class they found outstanding; the last element counts those that found more, too.
    pub found: Vec<u64>,
    /// The same of the other class: by how many writes a read found, and how many reads a write.
    #[serde(default)]
    pub found_other: Vec<u64>,
}

/// One VM over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VmHistory {
    /// Its name.
    pub vm: String,
    /// Reads and writes completed in each interval.
    pub requests: Vec<u64>,
    /// Bytes that they asked for.
    pub bytes: Vec<u64>,
    /// For how long the device served its requests in each interval, in ns. A device that serves several requests at
    /// once serves longer than the interval.
    #[serde(default)]
    pub served_ns: Vec<u64>,
    /// Completed reads by interval and first sector.
    pub reads: Grid,
    /// Completed writes by interval and first sector.
    pub writes: Grid,
}

/// Counts by interval and value. A row stands for `row_size` values: row `r` for those from `r * row_size` on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Grid {
    /// Values in a row.
    pub row_size: u64,
    /// For each interval the rows that count anything, in ascending order, each with its count. As JSON a text for each
    /// interval, such as `5:1 6:100`.
    #[serde(with = "columns")]
    pub columns: Vec<Vec<(u64, u64)>>,
}

/// The columns of a grid as texts, a tenth of the size of lists.
mod columns {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Rows and counts of a file are below these, far above those of any run: sums of them stay within 64 bits.
    const ROWS_END: u64 = 1 << 60;
    const COUNTS_END: u64 = 1 << 40;

    pub(super) fn serialize<S: Serializer>(columns: &[Vec<(u64, u64)>], serializer: S) -> Result<S::Ok, S::Error> {
        let text = |column: &Vec<(u64, u64)>| {
            column.iter().map(|(row, count)| format!("{row}:{count}")).collect::<Vec<String>>().join(" ")
        };
        serializer.collect_seq(columns.iter().map(text))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Vec<(u64, u64)>>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        texts.iter().map(|text| column(text)).collect()
    }

    fn column<E: Error>(text: &str) -> Result<Vec<(u64, u64)>, E> {
        let mut pairs: Vec<(u64, u64)> = Vec::new();
        for text in text.split_whitespace() {
            let next = text.split_once(':').and_then(|(row, count)| Some((row.parse().ok()?, count.parse().ok()?)));
            let next = next.filter(|&(row, count)| row < ROWS_END && count < COUNTS_END);
            let next = next.ok_or_else(|| E::custom(format!("`{text}` is no row and count, as in 5:1")))?;
            if pairs.last().is_some_and(|before| before.0 >= next.0) {
                return Err(E::custom(format!("the row of `{text}` is not above the one before")));
            }
            pairs.push(next);
        }
        Ok(pairs)
    }
}

impl Grid {
    /// The first and the last row that count anything.
    pub fn rows(&self) -> Option<(u64, u64)> {
        let first = self.columns.iter().filter_map(|column| column.first()).map(|(row, _)| *row).min()?;
        let last = self.columns.iter().filter_map(|column| column.last()).map(|(row, _)| *row).max()?;
        Some((first, last))
    }

    /// The least value of a row.
    pub fn value_of(&self, row: u64) -> u64 {
        row.saturating_mul(self.row_size)
    }
}

/// The counts of these intervals by row, in ascending order.
pub fn by_row(columns: &[Vec<(u64, u64)>]) -> Vec<(u64, u64)> {
    let mut all: BTreeMap<u64, u64> = BTreeMap::new();
    for (row, count) in columns.iter().flatten() {
        *all.entry(*row).or_default() += count;
    }
    all.into_iter().collect()
}

/// A response time as a grid counts it: eight numbers for each doubling, at even distances.
pub fn response_number(response: Nanos) -> u64 {
    let ns = response.as_ns().max(u64::from(PER_DOUBLING));
    let doubling = ns.ilog2();
    let eighth = (ns >> (doubling - PER_DOUBLING.ilog2())) % u64::from(PER_DOUBLING);
    u64::from(doubling * PER_DOUBLING) + eighth
}

/// The least response time with a number, in ns.
pub fn response_of(number: u64) -> f64 {
    let (doubling, eighth) = (number / u64::from(PER_DOUBLING), number % u64::from(PER_DOUBLING));
    (1_u64 << doubling.min(63)) as f64 * (1.0 + eighth as f64 / f64::from(PER_DOUBLING))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_texts_that_give_the_same_grid() {
        let grid = Grid { row_size: 8, columns: vec![vec![(5, 1), (6, 100)], vec![], vec![((1 << 60) - 1, 2)]] };
        let text = serde_json::to_string(&grid).unwrap();
        assert_eq!(text, r#"{"row_size":8,"columns":["5:1 6:100","","1152921504606846975:2"]}"#);
        assert_eq!(serde_json::from_str::<Grid>(&text).unwrap(), grid);
        for wrong in ["5", "5:", "a:1", "5:1:2", "-1:1", "1152921504606846976:1", "5:1099511627776"] {
            let error = serde_json::from_str::<Grid>(&text.replace("5:1", wrong)).unwrap_err().to_string();
            assert!(error.contains("is no row and count"), "{wrong}: {error}");
        }
        for wrong in ["6:1", "7:1"] {
            let error = serde_json::from_str::<Grid>(&text.replace("5:1", wrong)).unwrap_err().to_string();
            assert!(error.contains("the row of `6:100` is not above the one before"), "{wrong}: {error}");
        }
    }

    #[test]
    fn numbers_of_responses_ascend_and_are_at_most_an_eighth_apart() {
        let mut before = response_number(Nanos::ZERO);
        for ns in (0..4000).chain((12..63).flat_map(|bits| [0, 1, 2, 3].map(|part| (4 + part) << (bits - 2)))) {
            let number = response_number(Nanos::from_ns(ns));
            assert!(number == before || number == before + 1 || ns > 4000, "{ns}");
            before = number;
            if ns >= 8 {
                let [low, high] = [number, number + 1].map(response_of);
                assert!(low <= ns as f64 && (ns as f64) < high && high <= low * 1.126, "{ns}: {low} to {high}");
            }
        }
        assert_eq!(response_number(Nanos::from_ns(u64::MAX)), 511);
    }
}
