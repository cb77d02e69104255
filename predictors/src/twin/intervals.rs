//! The intervals of the twin's forecasts.
//!
//! A forecast is less certain the further it is from the trace. Two distances count, each as a logarithm. One is how
//! much a figure changes when the VMs run together, the other how much the simulation of the VM alone misses the trace.
//! The spread is the standard deviation of the figure's logarithm. Its square is the sum of four squares: a constant,
//! both distances, and a term for concurrent devices.
//!
//! The widths were chosen on synthetic setups ([`crate::synthetic`]) of seed 101, whose VMs are others than those that
//! the forecasts are judged on. `docs/VALIDATION.md` states how many truths lie within the intervals.

use crate::predictor::{OperationForecast, Spread};

/// Spread of a figure that does not change and is simulated exactly alone. Chosen on seed 101.
const SPREAD_UNCHANGED: f64 = 0.1;
/// Spread added, in squares, for each unit of the logarithm of the change. Chosen on seed 101.
const SPREAD_PER_LOG_CHANGE: f64 = 0.2;
/// Spread added, in squares, for each unit of the logarithm of the error alone. Chosen on seed 101.
const SPREAD_PER_LOG_ERROR_ALONE: f64 = 1.0;
/// Spread added, in squares, on a device fitted as one that serves several requests at once. Chosen on seed 101.
const SPREAD_CONCURRENT: f64 = 0.35;

/// The spread of a forecast, from the figures simulated `together`, `simulated` alone and `measured` alone.
pub(crate) fn spread(
    together: &OperationForecast,
    simulated: &OperationForecast,
    measured: &OperationForecast,
    concurrent: bool,
) -> Option<Spread> {
    let of_figure = |figure: fn(&OperationForecast) -> Option<f64>| {
        let log = |one: &OperationForecast, other: &OperationForecast| {
            let (one, other) = (figure(one)?, figure(other)?);
            (one > 0.0 && other > 0.0).then(|| libm::log(one / other))
        };
        let (change, error_alone) = (log(together, simulated)?, log(simulated, measured)?);
        let device = if concurrent { SPREAD_CONCURRENT } else { 0.0 };
        let squares =
            [SPREAD_UNCHANGED, SPREAD_PER_LOG_CHANGE * change, SPREAD_PER_LOG_ERROR_ALONE * error_alone, device]
                .map(|deviation| deviation * deviation);
        Some(squares.iter().sum::<f64>().sqrt())
    };
    Some(Spread {
        iops: of_figure(|forecast| forecast.iops)?,
        response: of_figure(|forecast| forecast.response_ns)?,
        p99: of_figure(|forecast| forecast.percentile("p99")),
    })
}

#[cfg(test)]
mod tests {
    use traces::results::prediction::FORECAST_PERCENTILES;

    use super::*;

    fn forecast(iops: f64, response_ns: f64) -> OperationForecast {
        OperationForecast { iops: Some(iops), response_ns: Some(response_ns), ..OperationForecast::default() }
    }

    #[test]
    fn spread_grows_with_the_change_the_error_alone_and_concurrent_devices() {
        let of = |together: f64, simulated: f64, measured: f64| {
            spread(&forecast(100.0, together), &forecast(100.0, simulated), &forecast(100.0, measured), false).unwrap()
        };
        let unchanged = Spread { iops: SPREAD_UNCHANGED, response: SPREAD_UNCHANGED, p99: None };
        assert_eq!(of(5.0, 5.0, 5.0), unchanged);
        assert!(of(10.0, 5.0, 5.0).response > 1.5 * SPREAD_UNCHANGED);
        assert_eq!(of(10.0, 5.0, 5.0), of(2.5, 5.0, 5.0));
        assert!(of(5.0, 5.0, 10.0).response > 2.0 * SPREAD_UNCHANGED);
        assert!(spread(&forecast(1.0, 0.0), &forecast(1.0, 1.0), &forecast(1.0, 1.0), false).is_none());
        let p99 = |ns: f64| {
            let percentiles_ns = FORECAST_PERCENTILES.map(|(_, name)| (name == "p99").then_some(ns));
            OperationForecast { percentiles_ns, ..forecast(1.0, 1.0) }
        };
        let changed = spread(&p99(20.0), &p99(5.0), &p99(5.0), false).unwrap();
        assert!(changed.p99.unwrap() > 2.0 * SPREAD_UNCHANGED && changed.response == SPREAD_UNCHANGED);
        let certain = forecast(1.0, 1.0);
        assert!(spread(&certain, &certain, &certain, true).unwrap().iops > 3.0 * SPREAD_UNCHANGED);
    }
}
