//! `iocast sweep` and `iocast worker`.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

#[path = "../parquet_table/mod.rs"]
mod parquet_table;
mod plan;
#[path = "../program/mod.rs"]
mod program;
mod refused;
mod results;
#[path = "../scratch/mod.rs"]
mod scratch;
mod together;
mod worker;
