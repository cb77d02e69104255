//! A mean that forgets: each new sample counts an eighth, in the fixed point (1.0 is 256) of
//! `block/as-iosched.c` and `block/cfq-iosched.c`, Linux 2.6.30.

/// A mean with decaying weights: the newest value has the largest.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DecayedMean {
    samples: u64,
    total: u64,
    mean: u64,
}

impl DecayedMean {
    /// Adds a sample; the mean is rounded down after `rounding` has been added to the total.
    fn add(&mut self, value: u64, rounding: impl Fn(u64) -> u64) {
        self.samples = (7 * self.samples + 256) / 8;
        self.total = self.total.saturating_mul(7).saturating_add(value.saturating_mul(256)) / 8;
        self.mean = self.total.saturating_add(rounding(self.samples)) / self.samples;
    }

    /// Adds a think time in ns.
    pub(crate) fn add_time(&mut self, ns: u64) {
        self.add(ns, |_| 128);
    }

    /// Adds a seek distance in sectors, limited against the odd far one. The limit is four times the mean plus 1 GiB (2
    /// × 1024 × 1024 sectors) as long as there are few, and plus 64 MiB later.
    pub(crate) fn add_distance(&mut self, sectors: u64) {
        let allowance = if self.samples <= 60 { 2 * 1024 * 1024 } else { 2 * 1024 * 64 };
        let limit = self.mean.saturating_mul(4).saturating_add(allowance);
        self.add(sectors.min(limit), |samples| samples / 2);
    }

    /// The mean, in the samples' unit.
    pub(crate) fn mean(&self) -> u64 {
        self.mean
    }

    /// Whether nothing was added yet.
    pub(crate) fn is_new(&self) -> bool {
        self.samples == 0
    }

    /// Whether the mean counts as known: after three samples (they then weigh more than 80 of 256).
    pub(crate) fn is_valid(&self) -> bool {
        self.samples > 80
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_known_from_the_third_sample_on() {
        let mut mean = DecayedMean::default();
        assert!(mean.is_new());
        for (n, valid) in [(1, false), (2, false), (3, true), (4, true)] {
            mean.add_time(1000);
            assert_eq!((mean.is_new(), mean.is_valid()), (false, valid), "after {n}");
        }
    }

    #[test]
    fn a_new_sample_counts_an_eighth_once_there_are_many() {
        let mut mean = DecayedMean::default();
        (0..100).for_each(|_| mean.add_time(8000));
        let before = mean.mean();
        assert!((8000..8300).contains(&before), "{before}");
        mean.add_time(0);
        assert_eq!(mean.mean(), (before * 7).div_ceil(8));
    }

    #[test]
    fn a_far_seek_is_limited_by_what_is_known() {
        let mut few = DecayedMean::default();
        few.add_distance(u64::MAX);
        assert_eq!(few.mean(), 2 * 1024 * 1024);
        let mut many = DecayedMean::default();
        (0..4).for_each(|_| many.add_distance(0));
        many.add_distance(u64::MAX);
        assert!(many.mean() <= 2 * 1024 * 64, "{}", many.mean());
        let mut large = DecayedMean::default();
        (0..1000).for_each(|_| large.add_distance(u64::MAX));
    }
}
