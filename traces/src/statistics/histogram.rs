//! A histogram of whole numbers to three significant digits, in as many steps per number as a
//! capture of tens of millions of events per second allows.
//!
//! Numbers below 2,048 are exact. Above, each doubling is cut into 1,024 equal buckets, as in
//! Gil Tene's HdrHistogram, which the tests compare it with.

/// Bits of a number that are kept.
const KEPT_BITS: u32 = 11;
/// Buckets per doubling.
const PER_DOUBLING: usize = 1 << (KEPT_BITS - 1);

/// Counts whole numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Histogram {
    /// Grows with the largest number; at most 56 thousand buckets.
    counts: Vec<u64>,
}

#[inline(always)]
fn bucket(value: u64) -> usize {
    let shift = (u64::BITS - (value | ((1 << KEPT_BITS) - 1)).leading_zeros()) - KEPT_BITS;
    shift as usize * PER_DOUBLING + (value >> shift) as usize
}

/// The largest number that goes into a bucket.
fn largest(bucket: usize) -> u64 {
    if bucket < 2 * PER_DOUBLING {
        return bucket as u64;
    }
    let shift = bucket / PER_DOUBLING - 1;
    let kept = (bucket - shift * PER_DOUBLING) as u64;
    (kept << shift) + ((1 << shift) - 1)
}

impl Histogram {
    /// Counts one.
    #[inline(always)]
    pub(super) fn add(&mut self, value: u64) {
        let bucket = bucket(value);
        match self.counts.get_mut(bucket) {
            Some(count) => *count += 1,
            None => self.grow(bucket),
        }
    }

    #[cold]
    fn grow(&mut self, bucket: usize) {
        self.counts.resize((bucket + 1).next_multiple_of(PER_DOUBLING), 0);
        self.counts[bucket] += 1;
    }

    /// Counts all that `other` has counted.
    pub(super) fn merge(&mut self, other: &Histogram) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
    }

    /// The largest number of the bucket that holds the `rank`th, counted from 1 in increasing order;
    /// zero if there are not as many.
    pub(super) fn of_rank(&self, rank: u64) -> u64 {
        let mut seen = 0;
        let at = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        at.map_or(0, largest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_are_in_order_and_as_wide_as_a_thousandth() {
        let mut before = None;
        for at in 0..bucket(u64::MAX) {
            let value = largest(at);
            assert_eq!(bucket(value), at);
            assert_eq!(bucket(value + 1), at + 1);
            if let Some(before) = before {
                let width: u64 = value - before;
                assert!(width == 1 || width as f64 <= value as f64 / 1_000.0, "{at}: {width} at {value}");
            }
            before = Some(value);
        }
        assert_eq!(largest(bucket(u64::MAX)), u64::MAX);
    }

    proptest! {
        /// The same answers as the published implementation with three digits.
        #[test]
        fn it_answers_as_hdrhistogram_does(
            values in proptest::collection::vec((0u32..40, any::<u64>()).prop_map(|(bits, seed)| seed >> (63 - bits)), 1..300),
            split in any::<prop::sample::Index>(),
        ) {
            let mut theirs = hdrhistogram::Histogram::<u64>::new(3).unwrap();
            let (mut ours, mut rest) = (Histogram::default(), Histogram::default());
            let split = split.index(values.len());
            for (at, value) in values.iter().enumerate() {
                theirs.record(*value).unwrap();
                if at < split { &mut ours } else { &mut rest }.add(*value);
            }
            ours.merge(&rest);
            let mut sorted = values.clone();
            sorted.sort_unstable();
            for (at, value) in sorted.iter().enumerate() {
                prop_assert_eq!(ours.of_rank(at as u64 + 1), theirs.highest_equivalent(*value));
            }
            // Its own ranks come from floating point, so only halves are asked of it.
            prop_assert_eq!(ours.of_rank(values.len().div_ceil(2) as u64), theirs.value_at_quantile(0.5));
        }
    }
}
