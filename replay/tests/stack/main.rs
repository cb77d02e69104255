//! Tests of stacks: layers of stages above one drive.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod equal;
#[path = "../listed/mod.rs"]
mod listed;
#[path = "../loads/mod.rs"]
mod loads;
mod oracle;
mod published;
#[path = "../requests/mod.rs"]
mod requests;
mod stacks;
mod support;
mod tree;
