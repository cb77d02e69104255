//! Tests of the program over real traces that are not part of this project. `make test-shared` runs them;
//! `IOCAST_SHARED_DATA` names the folder of the traces.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod closed;
mod compare;
mod decisions;
mod drives;
mod iscsi;

use std::path::PathBuf;

/// The folder of the traces.
fn root() -> PathBuf {
    std::env::var_os("IOCAST_SHARED_DATA").expect("set IOCAST_SHARED_DATA to the folder of the shared data").into()
}
