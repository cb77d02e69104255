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

/// The methods that specs may name: ours, and those of whoever makes it.
///
/// ```
/// use iocast_predictors::registry::Registry;
/// use iocast_predictors::{Consolidation, Entry, Isolated, Method, PredictError, Predictor};
///
/// /// Says nothing about anything.
/// struct Silent;
///
/// impl Predictor for Silent {
///     fn predict(&self, _alone: Isolated<'_>) -> Result<Consolidation, PredictError> {
///         Ok(Consolidation::default())
///     }
/// }
///
/// static ENTRY: Entry = Entry {
///     name: "silent",
///     summary: "no forecast",
///     origin: "",
///     tunables: &[],
///     needs_traces: false,
///     baseline: true,
///     build: |_settings| Ok(Method::Predictor(Box::new(Silent))),
/// };
/// let registry = Registry::builtin().with(&ENTRY);
/// assert!(registry.build(&"silent".parse()?)?.predictor().is_some());
/// assert!(registry.build(&"casale".parse()?).is_ok());
/// assert!(registry.find("silend").err().unwrap().to_string().contains("did you mean silent?"));
/// # Ok::<(), traces::spec::SpecError>(())
/// ```
#[derive(Clone)]
pub struct Registry {
    entries: Vec<&'static Entry>,
}

impl Registry {
    /// The methods of this crate.
    pub fn builtin() -> Registry {
        Registry { entries: PREDICTORS.iter().collect() }
    }

    /// The same with one more.
    ///
    /// # Panics
    /// If there is a method of this name.
    #[must_use]
    pub fn with(mut self, entry: &'static Entry) -> Registry {
        assert!(self.find(entry.name).is_err(), "there is a predictor named {} already", entry.name);
        self.entries.push(entry);
        self
    }

    /// All rows.
    pub fn entries(&self) -> &[&'static Entry] {
        &self.entries
    }

    /// The row with this name.
    ///
    /// # Errors
    /// [`SpecError::UnknownName`] with the nearest names.
    pub fn find(&self, name: &str) -> Result<&'static Entry, SpecError> {
        self.entries.iter().copied().find(|entry| entry.name == name).ok_or_else(|| SpecError::UnknownName {
            kind: "predictor",
            name: name.to_owned(),
            near: nearest(name, self.entries.iter().map(|entry| entry.name)),
        })
    }

    /// Builds the method that `spec` names.
    ///
    /// # Errors
    /// An unknown name or tunable with the nearest ones; a value that is not accepted.
    pub fn build(&self, spec: &Spec) -> Result<Method, SpecError> {
        self.find(&spec.name)?.build(spec)
    }
}

/// As [`Registry::find`], among the methods of this crate.
///
/// # Errors
/// As [`Registry::find`].
pub fn find(name: &str) -> Result<&'static Entry, SpecError> {
    Registry::builtin().find(name)
}

/// As [`Registry::build`], among the methods of this crate.
///
/// # Errors
/// As [`Registry::build`].
pub fn build(spec: &Spec) -> Result<Method, SpecError> {
    Registry::builtin().build(spec)
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
