//! Workloads that are generated and not recorded. Programs run in guests with a file system, a journal and a page
//! cache. Their block I/O enters a replay through the source [`Guests`].
//!
//! A [`guest::Program`] is one process. It is asked for its next [`guest::Step`] when the step before is complete, so a
//! slower drive delays requests and they do not pile up. [`plan`] places guests that a user names on a
//! drive. [`programs`] lists the programs; [`surge`] is the web server of Barford and Crovella 1998.

#![forbid(unsafe_code)]

pub mod guest;
pub mod plan;
pub mod programs;
pub mod running;
pub mod surge;

pub use running::{Guest, GuestError, Guests, Occurrences, Until};
