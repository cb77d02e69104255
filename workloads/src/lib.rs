//! Workloads that are generated, not recorded: programs run in guests with a file system, a journal and a page cache, and their
//! block I/O enters a replay through the source [`Guests`].
//!
//! A [`guest::Program`] is one process. It is asked for its next [`guest::Step`] when the step before is done, so that a slower drive
//! delays requests instead of piling them up. [`programs`] lists the programs; [`surge`] is the web server of Barford and Crovella 1998.

#![forbid(unsafe_code)]

pub mod guest;
pub mod programs;
pub mod running;
pub mod surge;

pub use running::{Guest, GuestError, Guests, Until};
