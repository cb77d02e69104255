//! What virtual machines get of a device they share, forecast from measurements of each alone.
//!
//! [`profile::Measure`] makes an [`traces::results::isolation::IsolationProfile`] of a capture. A [`Predictor`] takes two or more of
//! them and says what each machine will get; [`PREDICTORS`] are all there are. [`papers`] regenerates the tables of the paper
//! that the oldest of them is from.

#![forbid(unsafe_code)]

pub mod baselines;
pub mod casale;
pub mod check;
pub mod errors;
pub mod hol;
mod isolated_trace;
pub mod place;
mod predict_error;
pub mod predictor;
pub mod profile;
pub mod qpn_closed;
pub mod registry;
pub mod residual;
mod solve;
pub mod synthetic;
pub mod twin;

pub use isolated_trace::{IsolatedTrace, IsolatedTraceBuilder};
pub use predictor::{
    Consolidation, Corrector, Entry, Isolated, Method, OperationForecast, Outcomes, PredictError, Predictor, Spread,
    VmForecast,
};
pub use registry::{PREDICTORS, build, find};
