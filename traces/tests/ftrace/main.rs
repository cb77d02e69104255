//! The `ftrace` reader against real captures, lines as kernels of all ages print them, and bad input.

#![allow(clippy::unwrap_used)] // In a test, also outside its functions, it is a failure with its place.

mod golden;
mod refuse;
mod rules;
mod whole;
