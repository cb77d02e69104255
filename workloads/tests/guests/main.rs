//! Guests as a source: when their requests arrive, and which.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod direct;
mod memory;
mod support;
