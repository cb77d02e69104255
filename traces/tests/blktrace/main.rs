//! The blktrace reader against real captures, a model of the block layer, and bad input.

#![allow(clippy::unwrap_used)] // In a test, also outside its functions, it is a failure with its place.

mod golden;
mod model;
mod refuse;
mod rules;
mod text;
mod writer;
