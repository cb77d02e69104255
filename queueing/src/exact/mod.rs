//! Solutions of models that need no simulation.
//!
//! Exact:
//! - [`closed_form`]: the net of Noorshams et al. 2014 with clients that never think.
//! - [`open`]: one server with open arrivals and general service, first come first served or with priorities.
//! - [`ctmc`]: small nets of exponential times, as a Markov chain.
//! - [`mva`], [`convolution`]: closed networks of several classes in product form ([`network`]).
//!
//! Approximations, which their results say:
//! - [`approximate`]: closed networks of any number of customers.

pub mod approximate;
pub mod closed_form;
pub mod convolution;
pub mod ctmc;
mod lattice;
pub mod mva;
pub mod network;
pub mod open;
mod scaled;
