//! `iocast capture`: live I/O recorded. One file per kind of capture.

mod block;
mod cleanup;
mod decisions;
mod recover;
mod running;
mod supervise;

use anyhow::Result;

use crate::arguments::Capture;

pub fn run(arguments: &Capture) -> Result<()> {
    match arguments {
        Capture::Block(arguments) => block::run(arguments),
        Capture::Cleanup(arguments) => cleanup::run(arguments),
        Capture::Decisions(arguments) => decisions::run(arguments),
        Capture::Lab(arguments) => anyhow::bail!("{}: no lab yet", arguments.plan.display()),
        Capture::Recover(arguments) => recover::run(arguments),
        Capture::Supervise => supervise::run(),
    }
}
