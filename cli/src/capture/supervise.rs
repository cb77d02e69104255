//! The supervisor process of a capture: it switches tracing off if the capture is killed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use capture::block::supervise;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

pub fn run() -> Result<()> {
    // Signals that stop the capture must not stop the supervisor, which ends with the pipe.
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false))).context("cannot ignore signals")?;
    }
    for path in supervise(io::stdin().lock())? {
        eprintln!("iocast: the capture was killed; {} is switched off", path.display());
    }
    Ok(())
}
