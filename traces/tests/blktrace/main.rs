//! The blktrace reader against real captures, a model of the block layer, and bad input.

mod golden;
mod model;
mod refuse;
mod rules;
mod writer;
