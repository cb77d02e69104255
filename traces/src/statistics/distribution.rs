//! Spans of time with their distribution.

use std::collections::BTreeMap;

use super::histogram::Histogram;
use super::spans::Spans;
use crate::results::{Moments, PERCENTILES, SpanFigures};
use crate::units::Nanos;

/// Exact moments, and a histogram to three significant digits.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    spans: Spans,
    histogram: Histogram,
}

impl Distribution {
    /// Counts one.
    #[inline]
    pub fn add(&mut self, span: Nanos) {
        self.spans.add(span);
        self.histogram.add(span.as_ns());
    }

    /// Counts all that `other` has counted.
    pub fn merge(&mut self, other: &Distribution) {
        self.spans.merge(&other.spans);
        self.histogram.merge(&other.histogram);
    }

    /// How many.
    pub const fn count(&self) -> u64 {
        self.spans.count
    }

    /// Mean, variance, least and largest.
    pub fn moments(&self) -> Moments {
        self.spans.moments()
    }

    /// The exact sum in ns.
    pub const fn sum_ns(&self) -> u128 {
        self.spans.sum_ns()
    }

    /// A percentile, given in hundredths of a percent, in ns to three significant digits; `None` if
    /// there is nothing.
    pub fn percentile_ns(&self, hundredths: u32) -> Option<u64> {
        self.ascending_percentiles_ns([hundredths].into_iter()).next()
    }

    /// All that are reported, by name.
    pub fn percentiles_ns(&self) -> BTreeMap<String, u64> {
        let found = self.ascending_percentiles_ns(PERCENTILES.iter().map(|(hundredths, _)| *hundredths));
        PERCENTILES.iter().zip(found).map(|((_, name), ns)| ((*name).to_owned(), ns)).collect()
    }

    /// Percentiles that ascend; none if there is nothing.
    fn ascending_percentiles_ns(&self, hundredths: impl Iterator<Item = u32>) -> impl Iterator<Item = u64> {
        let count = u128::from(self.count());
        let rank = move |hundredths: u32| {
            let rank = count * u128::from(hundredths);
            u64::try_from(rank.div_ceil(10_000)).unwrap_or(u64::MAX).max(1)
        };
        let max = self.spans.moments().max_ns;
        // The histogram answers with the upper end of a bucket, which may lie above the largest.
        self.histogram.of_ranks(hundredths.map(rank)).map_while(move |ns| Some(ns.min(max?)))
    }

    /// Its histogram in ns, to three significant digits, as HdrHistogram's libraries read and merge it (encoding V2, not
    /// compressed).
    pub fn hdr_v2(&self) -> Vec<u8> {
        self.histogram.hdr_v2()
    }

    /// All of it.
    pub fn figures(&self) -> SpanFigures {
        SpanFigures { count: self.count(), moments: self.moments(), percentiles_ns: self.percentiles_ns() }
    }
}
