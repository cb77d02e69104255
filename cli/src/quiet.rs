//! `--quiet`: neither progress nor notes on standard error, but warnings and errors.

use std::io::{IsTerminal, stderr};
use std::sync::atomic::{AtomicBool, Ordering};

static QUIET: AtomicBool = AtomicBool::new(false);

/// Takes over `--quiet`, before a subcommand begins.
pub fn set(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// Whether notes are left out.
pub fn is_set() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Whether progress is shown: where standard error is a terminal.
pub fn shows_progress() -> bool {
    !is_set() && stderr().is_terminal()
}
