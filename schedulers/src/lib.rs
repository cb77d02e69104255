//! I/O schedulers as pure policies: which waiting request goes next.
//!
//! A scheduler never reads a clock, does no I/O and uses no global, so the same policy runs in
//! simulation and on a real device. Each policy is one file and one row of [`SCHEDULERS`].

pub mod cost;
pub mod fifo;
pub mod registry;
pub mod scheduler;

pub use cost::{AccessCost, DistanceCost};
pub use registry::{Entry, SCHEDULERS, build};
pub use scheduler::{Dispatch, Room, Scheduler};
