//! How response times go with those before them.

use std::collections::VecDeque;

use traces::Nanos;

const LAGS: usize = 10;

/// Response times in the order of completion. All sums are exact.
#[derive(Default)]
pub(super) struct Responses {
    count: u64,
    sum: u128,
    squares: u128,
    /// Of products with the one so many before.
    products: [u128; LAGS],
    /// The first and the last few.
    head: Vec<u64>,
    tail: VecDeque<u64>,
}

impl Responses {
    pub(super) fn add(&mut self, response: Nanos) {
        // An hour and more is one hour, so that a hundred million of their squares have a sum.
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

    /// At lags 1, 2, … as far as there are requests; empty where nothing varies.
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
            // Those with one so many before them, and those with one so many behind.
            let ends = (2 * self.sum - early - late) as f64;
            (self.products[lag - 1] as f64 - mean * ends + (count - lag as f64) * mean * mean) / deviations
        };
        (1..=LAGS).take_while(|&lag| (lag as u64) < self.count).map(of_lag).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the definition.
    fn slow(values: &[u64], lag: usize) -> f64 {
        let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
        let of = |index: usize| values[index] as f64 - mean;
        let all: f64 = (0..values.len()).map(|index| of(index) * of(index)).sum();
        (lag..values.len()).map(|index| of(index) * of(index - lag)).sum::<f64>() / all
    }

    #[test]
    fn autocorrelation_is_that_of_its_definition() {
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
    fn what_does_not_vary_has_none() {
        let mut responses = Responses::default();
        for _ in 0..50 {
            responses.add(Nanos::from_ms(5));
        }
        assert!(responses.autocorrelation().is_empty());
        assert!(Responses::default().autocorrelation().is_empty());
    }
}
