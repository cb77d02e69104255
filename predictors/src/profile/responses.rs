//! The autocorrelation of response times in order of completion, at lags from 1 to 10.

use std::collections::VecDeque;

use traces::Nanos;

/// The longest lag.
const LAGS: usize = 10;

/// Sums over response times in order of completion. All sums are exact.
#[derive(Default)]
pub(super) struct Responses {
    count: u64,
    sum: u128,
    squares: u128,
    /// By lag: sum of the products of response times that are this lag apart.
    products: [u128; LAGS],
    /// The first response times, up to the longest lag.
    head: Vec<u64>,
    /// The last response times, up to the longest lag.
    tail: VecDeque<u64>,
}

impl Responses {
    pub(super) fn add(&mut self, response: Nanos) {
        // Capped at one hour, so that the sum of a hundred million squares does not overflow.
        let value = response.as_ns().min(3_600_000_000_000);
        for (product, before) in self.products.iter_mut().zip(self.tail.iter().rev()) {
            *product += u128::from(value) * u128::from(*before);
        }
        self.count += 1;
        self.sum += u128::from(value);
        self.squares += u128::from(value).pow(2);
        if self.head.len() < LAGS {
            self.head.push(value);
        }
        if self.tail.len() == LAGS {
            self.tail.pop_front();
        }
        self.tail.push_back(value);
    }

    /// The autocorrelation at lags 1, 2, …, as far as there are requests; empty if the response times do not vary.
    pub(super) fn autocorrelation(&self) -> Vec<f64> {
        let count = self.count as f64;
        let mean = self.sum as f64 / count;
        let deviations = self.squares as f64 - self.sum as f64 * mean;
        if self.count < 2 || deviations <= 0.0 || self.head.iter().chain(&self.tail).all(|value| *value as f64 == mean)
        {
            return Vec::new();
        }
        let of_lag = |lag: usize| {
            let early: u128 = self.head.iter().take(lag).map(|&value| u128::from(value)).sum();
            let late: u128 = self.tail.iter().rev().take(lag).map(|&value| u128::from(value)).sum();
            // Sum over both factors of all pairs: all values but the last `lag`, and all but the first `lag`.
            let ends = (2 * self.sum - early - late) as f64;
            (self.products[lag - 1] as f64 - mean * ends + (count - lag as f64) * mean * mean) / deviations
        };
        (1..=LAGS).take_while(|&lag| (lag as u64) < self.count).map(of_lag).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The autocorrelation by its definition.
    fn slow(values: &[u64], lag: usize) -> f64 {
        let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
        let of = |index: usize| values[index] as f64 - mean;
        let all: f64 = (0..values.len()).map(|index| of(index) * of(index)).sum();
        (lag..values.len()).map(|index| of(index) * of(index - lag)).sum::<f64>() / all
    }

    #[test]
    fn autocorrelation_equals_its_definition() {
        let values: Vec<u64> = (0..200u64).map(|index| 1000 + index * index % 97 + 50 * (index % 3)).collect();
        let mut responses = Responses::default();
        for &value in &values {
            responses.add(Nanos::from_ns(value));
        }
        let measured = responses.autocorrelation();
        assert_eq!(measured.len(), LAGS);
        for (lag, measured) in (1..).zip(measured) {
            assert!((measured - slow(&values, lag)).abs() < 1e-9, "lag {lag}: {measured} {}", slow(&values, lag));
        }
    }

    #[test]
    fn constant_response_times_have_no_autocorrelation() {
        let mut responses = Responses::default();
        for _ in 0..50 {
            responses.add(Nanos::from_ms(5));
        }
        assert!(responses.autocorrelation().is_empty());
        assert!(Responses::default().autocorrelation().is_empty());
    }
}
