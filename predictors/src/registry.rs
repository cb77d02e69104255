//! The table of all predictors.

use traces::spec::{Settings, Spec, SpecError, Tunable, nearest};

use crate::predictor::Predictor;
use crate::{baselines, casale, hol, qpn_closed, residual, twin};

/// One predictor.
pub struct Entry {
    /// The name on the command line.
    pub name: &'static str,
    /// One line on what it does.
    pub summary: &'static str,
    /// Where it is from.
    pub origin: &'static str,
    /// Its tunables.
    pub tunables: &'static [Tunable],
    /// Makes one from settings resolved against `tunables`.
    pub build: fn(&Settings) -> Result<Box<dyn Predictor>, SpecError>,
}

/// Every predictor; the last three are baselines, which any other has to beat.
pub const PREDICTORS: &[Entry] = &[
    twin::ENTRY,
    residual::ENTRY,
    casale::published::ENTRY,
    casale::refined::ENTRY,
    hol::ENTRY,
    qpn_closed::ENTRY,
    baselines::ISOLATION,
    baselines::CONSTANT,
    baselines::SUM,
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

/// Builds the predictor that `spec` names.
///
/// # Errors
/// An unknown name or tunable with the nearest ones; a value that is not accepted.
pub fn build(spec: &Spec) -> Result<Box<dyn Predictor>, SpecError> {
    let entry = find(&spec.name)?;
    (entry.build)(&Settings::resolve(spec, entry.tunables)?)
}
