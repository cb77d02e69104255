//! Guests as a source: when their requests arrive, and which.

mod direct;
mod memory;
mod support;
