//! The process beside a capture that switches tracing off should the capture be killed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use capture::block::supervise;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

pub fn run() -> Result<()> {
    // Whoever stops the capture must not stop this: it ends when the pipe does.
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false))).context("cannot ignore signals")?;
    }
    for path in supervise(io::stdin().lock())? {
        eprintln!("iocast: the capture was killed; {} is switched off", path.display());
    }
    Ok(())
}
