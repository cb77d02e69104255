//! Requests of one operation, as a screen sums them up.

use traces::histograms::LogHistogram;

/// The number, data and times of some requests.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    pub count: u64,
    pub bytes: u64,
    sum_ns: u64,
    max_ns: u64,
    pub times: LogHistogram,
}

impl Requests {
    /// Counts one.
    #[inline]
    pub fn add(&mut self, bytes: u64, ns: u64) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
        self.times.add(ns);
    }

    /// Requests of which the sums are known.
    pub fn of(count: u64, bytes: u64, sum_ns: u64, max_ns: u64, times: LogHistogram) -> Requests {
        Requests { count, bytes, sum_ns, max_ns, times }
    }

    /// Counts all that `other` has counted.
    pub fn merge(&mut self, other: &Requests) {
        self.count += other.count;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.times.merge(&other.times);
    }

    /// A percentile in hundredths of a percent; `None` without a request.
    pub fn percentile(&self, hundredths: u32) -> Option<f64> {
        // The middle of the highest bucket may lie above the largest time.
        self.times.percentile(hundredths).map(|ns| ns.min(self.max_ns) as f64)
    }

    /// The mean time; `None` without a request.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }

    /// The longest time; `None` without a request.
    pub fn max_ns(&self) -> Option<f64> {
        (self.count > 0).then_some(self.max_ns as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_merged_requests() {
        let (mut all, mut others) = (Requests::default(), Requests::default());
        assert_eq!((all.mean_ns(), all.percentile(5_000), all.max_ns()), (None, None, None));
        all.add(4096, 10);
        others.add(512, 30);
        others.add(512, 17);
        all.merge(&others);
        assert_eq!((all.count, all.bytes, all.mean_ns(), all.max_ns()), (3, 5_120, Some(19.0), Some(30.0)));
        assert_eq!((all.percentile(5_000), all.percentile(9_900)), (Some(17.0), Some(30.0)));
    }
}
