//! Histograms of residence times, with buckets at most 1/128 wide of their lower bound.

/// Bits of the fraction that a bucket keeps.
const KEPT_BITS: u32 = 7;
const DROPPED_BITS: u32 = f64::MANTISSA_DIGITS - 1 - KEPT_BITS;

/// Counts times from 0 on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    zeros: u64,
    /// Number of the first bucket in `counts`. A bucket is named by the upper bits of its numbers.
    first: usize,
    counts: Vec<u64>,
}

impl Histogram {
    /// Counts a time.
    pub(super) fn add(&mut self, time: f64) {
        if time > 0.0 {
            self.add_many((time.to_bits() >> DROPPED_BITS) as usize, 1);
        } else {
            self.zeros += 1;
        }
    }

    fn add_many(&mut self, bucket: usize, often: u64) {
        if self.counts.is_empty() {
            self.first = bucket;
        } else if bucket < self.first {
            let more = self.first - bucket;
            self.counts.splice(0..0, std::iter::repeat_n(0, more));
            self.first = bucket;
        }
        let at = bucket - self.first;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += often;
    }

    /// Adds the counts of another histogram.
    pub(super) fn merge(&mut self, other: &Histogram) {
        self.zeros += other.zeros;
        for (at, often) in other.counts.iter().enumerate().filter(|(_, often)| **often > 0) {
            self.add_many(other.first + at, *often);
        }
    }

    /// How many times were counted.
    pub fn count(&self) -> u64 {
        self.zeros + self.counts.iter().sum::<u64>()
    }

    /// Buckets that are not empty: lower bound, upper bound (time units) and count, in order.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, f64, u64)> + '_ {
        let bound = |bucket: usize| f64::from_bits((bucket as u64) << DROPPED_BITS);
        let zeros = (self.zeros > 0).then_some((0.0, 0.0, self.zeros));
        let rest = self.counts.iter().enumerate().filter(|(_, often)| **often > 0);
        zeros
            .into_iter()
            .chain(rest.map(move |(at, often)| (bound(self.first + at), bound(self.first + at + 1), *often)))
    }

    /// The upper bound of the bucket that holds the share `share` (0 to 1) of all times; `None` if there are none.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let rank = ((share * self.count() as f64).ceil() as u64).max(1);
        let mut below = 0;
        self.buckets().find_map(|(_, upper, often)| {
            below += often;
            (below >= rank).then_some(upper)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

    use super::*;

    #[test]
    fn quantiles_lie_within_a_bucket_of_the_truth_and_merging_is_adding() {
        let (mut low, mut high, mut both) = (Histogram::default(), Histogram::default(), Histogram::default());
        for number in 0..=1000 {
            both.add(f64::from(number));
            if number % 2 == 0 { low.add(f64::from(number)) } else { high.add(f64::from(number)) }
        }
        high.merge(&low);
        assert_eq!(high, both);
        let median = both.quantile(0.5).unwrap();
        assert!((500.0..504.0).contains(&median), "{median}");
        assert_eq!((both.count(), both.quantile(0.0)), (1001, Some(0.0)));
        assert_eq!(Histogram::default().quantile(0.5), None);
    }
}
