//! The table of all forecasting methods: predictors and correctors. The command line and the conformance tests take
//! them from here.

use traces::results::prediction::Outcome;
use traces::spec::{Spec, SpecError, nearest};

use crate::predictor::{Entry, Method, Outcomes};
use crate::{baselines, casale, hol, qpn, residual, twin};

/// Every method. The order is that of [`recommended`]: of their errors in both labs and the synthetic setups, the
/// smallest first (`docs/validation/forecasts.md`). Baselines come last.
pub const PREDICTORS: &[Entry] = &[
    twin::ENTRY,
    residual::ENTRY,
    qpn::ENTRY,
    qpn::REFINED,
    casale::published::ENTRY,
    hol::ENTRY,
    casale::refined::ENTRY,
    baselines::SUM,
    baselines::ISOLATION,
    baselines::CONSTANT,
];

/// The registry row with this name.
///
/// # Errors
/// [`SpecError::UnknownName`] with the nearest names.
pub fn find(name: &str) -> Result<&'static Entry, SpecError> {
    PREDICTORS.iter().find(|entry| entry.name == name).ok_or_else(|| SpecError::UnknownName {
        kind: "predictor",
        name: name.to_owned(),
        near: nearest(name, PREDICTORS.iter().map(|entry| entry.name)),
    })
}

/// Builds the method that `spec` names.
///
/// # Errors
/// An unknown name or tunable with the nearest ones; a value that is not accepted.
pub fn build(spec: &Spec) -> Result<Method, SpecError> {
    find(&spec.name)?.build(spec)
}

/// The place in [`PREDICTORS`] of the method that the spec `named` names, and its row. A method that is no row of the
/// registry comes last.
pub fn ranked(named: &str) -> (usize, Option<&'static Entry>) {
    let name = named.split_once(':').map_or(named, |(name, _)| name);
    let place = PREDICTORS.iter().position(|entry| entry.name == name);
    (place.unwrap_or(PREDICTORS.len()), place.map(|place| &PREDICTORS[place]))
}

/// The method whose forecast to rely on: of those that have a forecast, the first in [`PREDICTORS`]. A method refuses
/// VMs for which its assumptions do not hold, so it is never recommended for them.
pub fn recommended(outcomes: &Outcomes) -> Option<&str> {
    let with = outcomes.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Forecast(_)));
    with.map(|(name, _)| name.as_str()).min_by_key(|name| ranked(name).0)
}

#[cfg(test)]
mod tests {
    use traces::results::prediction::Forecast;

    use super::*;

    #[test]
    fn first_method_with_a_forecast_is_recommended_and_baselines_come_last() {
        let forecast = || Outcome::Forecast(Forecast::default());
        let refused = || Outcome::Refused { refused: "it does not hold".to_owned() };
        let of = |outcomes: Vec<(&str, Outcome)>| -> Outcomes {
            outcomes.into_iter().map(|(name, outcome)| (name.to_owned(), outcome)).collect()
        };
        let all = of(PREDICTORS.iter().map(|entry| (entry.name, forecast())).collect());
        assert_eq!(recommended(&all), Some("twin"));
        let some = of(vec![("sum", forecast()), ("twin", refused()), ("casale:found=own", forecast())]);
        assert_eq!(recommended(&some), Some("casale:found=own"));
        assert_eq!(recommended(&of(vec![("twin", refused())])), None);
        assert!(PREDICTORS.is_sorted_by_key(|entry| entry.baseline));
        assert_eq!(PREDICTORS.iter().filter(|entry| entry.baseline).count(), 3);
    }
}
