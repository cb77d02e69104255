//! Generated workloads, run by a plain guest whose every access takes the same time: what they ask
//! for against what the programs that they follow are documented to do, or do.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod conformance;
mod description;
mod driver;
mod filebench;
mod fio;
mod fio_peer;
mod sequential;
mod surge;
mod table;
mod terasort;
