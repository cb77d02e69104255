//! The table of all forecasting methods: predictors and correctors. The command line and the conformance tests take
//! them from here.

use traces::spec::{Spec, SpecError, nearest};

use crate::predictor::{Entry, Method};
use crate::{baselines, casale, hol, qpn_closed, residual, twin};

/// Every method. The last three are baselines, which any other has to beat.
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

/// Builds the method that `spec` names.
///
/// # Errors
/// An unknown name or tunable with the nearest ones; a value that is not accepted.
pub fn build(spec: &Spec) -> Result<Method, SpecError> {
    find(&spec.name)?.build(spec)
}
