//! Guests as a source of requests: which requests arrive, and when.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod alone;
mod direct;
mod memory;
mod support;
