//! Signals that end a command that writes files as a whole.

use std::thread;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use traces::whole_file::remove_unfinished;

use crate::screen;

/// From now on, a signal that ends the program first removes unfinished outputs, and gives back the terminal. For commands that do not handle
/// signals themselves.
///
/// # Errors
/// Signals cannot be watched.
pub fn remove_unfinished_outputs() -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot watch for interrupts")?;
    thread::spawn(move || {
        for signal in signals.forever() {
            remove_unfinished();
            screen::restore();
            // Ends the program as if it had not watched. A failure leaves it running, and the next signal retries.
            let _ = emulate_default_handler(signal);
        }
    });
    Ok(())
}
