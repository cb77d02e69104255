//! The `trace-pipe-raw` reader against the kernel's own text of the same run, an encoder written
//! from the published layout of the ring buffer, and bad input.

#![allow(clippy::unwrap_used)] // In a test, also outside its functions, it is a failure with its place.

mod encoder;
mod golden;
mod pieces;
mod refuse;
mod rules;
mod whole;
