//! How sure the twin is.
//!
//! It is off by more the further it goes from what was recorded: by how much a figure changes together, and by how much the twin misses
//! the machine alone. How much more was seen in machine rooms ([`crate::replayed`], seed 101) whose machines are other ones than
//! those that its forecasts are judged on; `docs/validation/forecasts.md` has how many truths lie within what is stated.

use crate::predictor::{OperationForecast, Spread};

/// Standard deviation of the logarithm of a figure that does not change together.
const UNCHANGED: f64 = 0.1;
/// What is added (in squares) for each unit of the logarithm of what it changes by.
const BY_CHANGE: f64 = 0.2;
/// And for each of what it misses alone.
const BY_MISS: f64 = 1.0;
/// And on a device that may serve several at once.
const SEVERAL: f64 = 0.35;

/// Of what the twin plays `together` and alone, where that was `recorded`.
pub(super) fn of(
    together: &OperationForecast,
    played: &OperationForecast,
    recorded: &OperationForecast,
    several: bool,
) -> Option<Spread> {
    let of = |figure: fn(&OperationForecast) -> Option<f64>| {
        let log = |one: &OperationForecast, other: &OperationForecast| {
            let (one, other) = (figure(one)?, figure(other)?);
            (one > 0.0 && other > 0.0).then(|| libm::log(one / other))
        };
        let (change, miss) = (log(together, played)?, log(played, recorded)?);
        let device = if several { SEVERAL } else { 0.0 };
        let squares = [UNCHANGED, BY_CHANGE * change, BY_MISS * miss, device].map(|deviation| deviation * deviation);
        Some(squares.iter().sum::<f64>().sqrt())
    };
    Some(Spread { iops: of(|forecast| forecast.iops)?, response: of(|forecast| forecast.response_ns)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forecast(iops: f64, response_ns: f64) -> OperationForecast {
        OperationForecast { iops: Some(iops), response_ns: Some(response_ns), ..OperationForecast::default() }
    }

    #[test]
    fn what_changes_and_what_is_missed_alone_make_it_less_sure() {
        let spread = |together: f64, played: f64, recorded: f64| {
            of(&forecast(100.0, together), &forecast(100.0, played), &forecast(100.0, recorded), false).unwrap()
        };
        assert_eq!(spread(5.0, 5.0, 5.0), Spread { iops: UNCHANGED, response: UNCHANGED });
        assert!(spread(10.0, 5.0, 5.0).response > 1.5 * UNCHANGED);
        assert_eq!(spread(10.0, 5.0, 5.0), spread(2.5, 5.0, 5.0));
        assert!(spread(5.0, 5.0, 10.0).response > 2.0 * UNCHANGED);
        assert!(of(&forecast(1.0, 0.0), &forecast(1.0, 1.0), &forecast(1.0, 1.0), false).is_none());
        let certain = forecast(1.0, 1.0);
        assert!(of(&certain, &certain, &certain, true).unwrap().iops > 3.0 * UNCHANGED);
    }
}
