//! Batches and dispersion of the requests of one operation, at their issue.
//!
//! A batch is a run of requests of one operation with short pauses. Dispersion is the variance divided by the mean of
//! the request counts in windows of equal length; it is 1 for a Poisson process. The last window is left out, since the
//! trace may end within it.

use traces::Nanos;
use traces::results::isolation::{BatchFigures, Dispersion};

/// The longest pause within a batch. Requests of one system call or of one flush of dirty data are issued microseconds
/// apart.
const BATCH_PAUSE_MAX: Nanos = Nanos::from_ms(1);

/// Lengths of the windows in which requests are counted.
const WINDOWS: [Nanos; 4] = [Nanos::from_ms(10), Nanos::from_ms(100), Nanos::from_ms(1000), Nanos::from_ms(10_000)];

/// Windows of one length, one after another.
#[derive(Default)]
struct Windows {
    /// Number of the current window.
    window: u64,
    /// Requests in the current window.
    count: u64,
    /// Sum of the request counts of the complete windows.
    sum: u128,
    /// Sum of the squares of these counts.
    squares: u128,
}

impl Windows {
    fn add(&mut self, window: u64) {
        if window != self.window {
            self.sum += u128::from(self.count);
            self.squares += u128::from(self.count).pow(2);
            (self.window, self.count) = (window, 0);
        }
        self.count += 1;
    }

    /// Variance divided by mean over the complete windows. Empty windows count, although they add nothing to the sums.
    fn index(&self) -> Option<f64> {
        let (windows, sum) = (self.window as f64, self.sum as f64);
        let mean = sum / windows;
        (self.window > 1 && self.sum > 0).then(|| (self.squares as f64 / windows - mean * mean) / mean)
    }
}

/// Counts the requests of one operation in order of issue.
#[derive(Default)]
pub(super) struct Arrivals {
    last: Nanos,
    batch: u64,
    batches: u64,
    requests: u64,
    squares: u128,
    max: u64,
    windows: [Windows; WINDOWS.len()],
}

impl Arrivals {
    /// Adds a request that is issued at time `at` after the first of the trace. `follows` states whether the request
    /// before it had the same operation.
    pub(super) fn add(&mut self, at: Nanos, follows: bool) {
        if !(follows && at.saturating_sub(self.last) <= BATCH_PAUSE_MAX) {
            self.end_batch();
        }
        self.batch += 1;
        self.last = at;
        for (windows, length) in self.windows.iter_mut().zip(WINDOWS) {
            windows.add(at.as_ns() / length.as_ns());
        }
    }

    fn end_batch(&mut self) {
        if self.batch > 0 {
            self.batches += 1;
            self.requests += self.batch;
            self.squares += u128::from(self.batch).pow(2);
            self.max = self.max.max(self.batch);
            self.batch = 0;
        }
    }

    pub(super) fn figures(mut self) -> (BatchFigures, Vec<Dispersion>) {
        self.end_batch();
        let batches = self.batches.max(1) as f64;
        let figures = BatchFigures {
            count: self.batches,
            mean: self.requests as f64 / batches,
            mean_square: self.squares as f64 / batches,
            max: self.max,
        };
        let of_window =
            |(windows, length): (&Windows, Nanos)| Some(Dispersion { window_ns: length, index: windows.index()? });
        (figures, self.windows.iter().zip(WINDOWS).filter_map(of_window).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_ends_with_a_long_pause_or_another_operation() {
        let mut arrivals = Arrivals::default();
        for (us, follows) in [(0, false), (1000, true), (2001, true), (2002, false), (2003, true), (2004, true)] {
            arrivals.add(Nanos::from_us(us), follows);
        }
        let (batches, _) = arrivals.figures();
        assert_eq!((batches.count, batches.max), (3, 3));
        assert_eq!((batches.mean, batches.mean_square), (2.0, (4.0 + 1.0 + 9.0) / 3.0));
    }

    #[test]
    fn dispersion_counts_empty_windows_and_leaves_out_the_incomplete_last() {
        let mut arrivals = Arrivals::default();
        // Windows of 10 ms: 2, 0, 0, 4, and an incomplete one.
        for ms in [0, 5, 30, 31, 32, 39, 40, 41, 42] {
            arrivals.add(Nanos::from_ms(ms), true);
        }
        let (_, dispersion) = arrivals.figures();
        let variance = (4.0 + 16.0) / 4.0 - 1.5 * 1.5;
        assert_eq!(dispersion, [Dispersion { window_ns: Nanos::from_ms(10), index: variance / 1.5 }]);
    }
}
