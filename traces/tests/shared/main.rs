//! Tests over real traces that are not part of this project. `make test-shared` runs them; `IOCAST_SHARED_DATA` names
//! the folder of the traces.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod blkparse;
mod blktrace;
mod formats;
mod ftrace;
#[path = "../peers/mod.rs"]
mod peers;
mod stat;
#[path = "../support/mod.rs"]
mod support;
mod writers;

use std::path::PathBuf;

/// The folder of the traces.
fn root() -> PathBuf {
    std::env::var_os("IOCAST_SHARED_DATA").expect("set IOCAST_SHARED_DATA to the folder of the shared data").into()
}
