//! A histogram of whole numbers that is small enough to be stored every second.
//!
//! Numbers below 32 are exact. Above, each doubling is cut into 16 equal buckets, as in Gil Tene's HdrHistogram. A
//! bucket is at most a sixteenth as wide as its least number, and a percentile is given as its middle. The relative
//! error is therefore at most [`ERROR_SHARE`].

/// Bits of a number that are kept.
const KEPT_BITS: u32 = 5;
/// Buckets per doubling.
const PER_DOUBLING: usize = 1 << (KEPT_BITS - 1);
/// The number of buckets of all numbers of 64 bits.
#[cfg(test)]
const BUCKETS: usize = (u64::BITS - KEPT_BITS + 2) as usize * PER_DOUBLING;

/// The most by which a percentile differs from the exact one, as a share of it: half a bucket.
pub const ERROR_SHARE: f64 = 1.0 / 32.0;

/// The bucket of a number.
#[inline]
fn bucket(value: u64) -> usize {
    let shift = (u64::BITS - (value | ((1 << KEPT_BITS) - 1)).leading_zeros()) - KEPT_BITS;
    shift as usize * PER_DOUBLING + (value >> shift) as usize
}

/// The least number of a bucket, and how many follow it there.
fn range(bucket: usize) -> (u64, u64) {
    if bucket < 2 * PER_DOUBLING {
        return (bucket as u64, 0);
    }
    let shift = bucket / PER_DOUBLING - 1;
    (((bucket - shift * PER_DOUBLING) as u64) << shift, (1 << shift) - 1)
}

/// Counts whole numbers.
#[derive(Clone, Debug, Default)]
pub struct LogHistogram {
    /// By bucket, a doubling in each row. Only rows that were hit take memory, so that a file with thousands of VMs
    /// cannot take much.
    rows: Vec<Option<Box<[u64; PER_DOUBLING]>>>,
}

impl LogHistogram {
    /// Counts one.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.add_at(bucket(value), 1);
    }

    #[inline]
    fn add_at(&mut self, bucket: usize, often: u64) {
        let (row, column) = (bucket / PER_DOUBLING, bucket % PER_DOUBLING);
        if row >= self.rows.len() {
            self.rows.resize(row + 1, None);
        }
        let count = &mut self.rows[row].get_or_insert_default()[column];
        *count = count.saturating_add(often);
    }

    /// Counts nothing from now on, and keeps the memory.
    pub fn clear(&mut self) {
        self.rows.iter_mut().flatten().for_each(|row| row.fill(0));
    }

    /// The buckets that were hit, in order, and how often.
    fn hit(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let rows = self.rows.iter().enumerate().filter_map(|(row, counts)| Some((row, counts.as_ref()?)));
        let all = rows.flat_map(|(row, counts)| (row * PER_DOUBLING..).zip(counts.iter().copied()));
        all.filter(|(_, often)| *often > 0)
    }

    /// Counts all that `other` has counted.
    pub fn merge(&mut self, other: &LogHistogram) {
        other.hit().for_each(|(bucket, often)| self.add_at(bucket, often));
    }

    /// How many numbers were counted.
    pub fn count(&self) -> u64 {
        self.hit().fold(0, |sum, (_, often)| sum.saturating_add(often))
    }

    /// The least number of each bucket that was hit, in order, and how often.
    pub fn stored(&self) -> Vec<(u64, u64)> {
        self.hit().map(|(bucket, often)| (range(bucket).0, often)).collect()
    }

    /// Counts what was [`stored`](LogHistogram::stored).
    ///
    /// # Errors
    /// The number that is the least of no bucket, comes after a larger one, or was counted zero times.
    pub fn add_stored(&mut self, stored: &[(u64, u64)]) -> Result<(), u64> {
        let mut before = None;
        for &(least, often) in stored {
            let at = bucket(least);
            if range(at).0 != least || often == 0 || before.is_some_and(|before| before >= at) {
                return Err(least);
            }
            self.add_at(at, often);
            before = Some(at);
        }
        Ok(())
    }

    /// A percentile, given in hundredths of a percent: the middle of the bucket that holds it. `None` if nothing was
    /// counted.
    pub fn percentile(&self, hundredths: u32) -> Option<u64> {
        let rank = (u128::from(self.count()) * u128::from(hundredths)).div_ceil(10_000).max(1);
        let mut seen = 0;
        let (at, _) = self.hit().find(|(_, often)| {
            seen += u128::from(*often);
            seen >= rank
        })?;
        let (least, more) = range(at);
        Some(least + more / 2)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_follow_one_another_and_are_as_wide_as_a_sixteenth() {
        for at in 0..BUCKETS {
            let (least, more) = range(at);
            assert_eq!((bucket(least), bucket(least + more)), (at, at));
            assert!(more == 0 || (more + 1) * 16 <= least, "{least} and {more} more");
            if at + 1 < BUCKETS {
                assert_eq!(range(at + 1).0, least + more + 1);
            }
        }
        let (least, more) = range(BUCKETS - 1);
        assert_eq!(least + more, u64::MAX);
    }

    #[test]
    fn only_what_can_have_been_stored_is_taken() {
        let mut histogram = LogHistogram::default();
        [0, 31, 32, 33, 1_000_000, u64::MAX].into_iter().for_each(|value| histogram.add(value));
        let stored = histogram.stored();
        assert_eq!(stored[..4], [(0, 1), (31, 1), (32, 2), (983_040, 1)]);
        let mut again = LogHistogram::default();
        again.add_stored(&stored).unwrap();
        assert_eq!(again.stored(), stored);
        for (bad, at) in [(&[(33, 1)][..], 33), (&[(5, 1), (4, 1)], 4), (&[(5, 1), (5, 1)], 5), (&[(5, 0)], 5)] {
            assert_eq!(LogHistogram::default().add_stored(bad), Err(at));
        }
        let mut most = LogHistogram::default();
        most.add_stored(&[(7, u64::MAX)]).unwrap();
        most.add(7);
        assert_eq!((most.count(), most.percentile(9_999)), (u64::MAX, Some(7)));
    }

    #[test]
    fn without_a_number_there_is_no_percentile() {
        let mut histogram = LogHistogram::default();
        assert_eq!(histogram.percentile(5_000), None);
        histogram.add(40);
        histogram.clear();
        assert_eq!((histogram.percentile(5_000), histogram.count()), (None, 0));
    }

    proptest! {
        /// Against the exact percentiles of sorted numbers, over two histograms that are merged.
        #[test]
        fn percentiles_are_within_the_stated_error(
            values in proptest::collection::vec(
                (0u32..63, any::<u64>()).prop_map(|(bits, seed)| seed >> (63 - bits)),
                1..400,
            ),
            hundredths in 1u32..=10_000,
        ) {
            let (mut all, mut rest) = (LogHistogram::default(), LogHistogram::default());
            for (at, value) in values.iter().enumerate() {
                if at % 3 == 0 { &mut all } else { &mut rest }.add(*value);
            }
            all.merge(&rest);
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let rank = (values.len() * hundredths as usize).div_ceil(10_000).max(1);
            let (exact, found) = (sorted[rank - 1], all.percentile(hundredths).unwrap());
            prop_assert!(exact.abs_diff(found) as f64 <= exact as f64 * ERROR_SHARE, "{} for {}", found, exact);
            prop_assert_eq!(all.count(), values.len() as u64);
        }
    }
}
