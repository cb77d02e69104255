//! Forecasts throughput and response times of virtual machines (VMs) that share a device, from measurements of each VM
//! alone.
//!
//! - [`profile::Measure`] measures an [`traces::results::isolation::IsolationProfile`] from a trace of one VM;
//!   [`IsolatedTraceBuilder`] keeps its single requests.
//! - A [`Predictor`] forecasts the figures of each VM from two or more of them. [`PREDICTORS`] lists all methods.
//!   `twin` is the one that infers and simulates; its `workload` infers what each request waits for.
//! - [`place`] assigns VMs to LUNs by such forecasts.
//! - [`synthetic`] gives forecasts a truth to be checked against; [`errors`] compares both.
//!
//! The package `papers` regenerates the tables of the paper that the oldest predictor (`casale`) comes from.

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
pub mod qpn;
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
pub use registry::{PREDICTORS, build, find, ranked, recommended};
