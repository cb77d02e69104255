//! Generated workloads on a simple guest in which every access takes the same time. Their accesses are compared with
//! the documented behaviour of the programs that they follow, or with the programs themselves.

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
