//! `iocast capture`: live captures, a file for each kind.

mod block;
mod cleanup;
mod decisions;
mod iscsi;
pub mod lab;
mod recover;
pub mod running;
mod scrub;
mod supervise;

use anyhow::Result;

use crate::arguments::Capture;

pub fn run(arguments: &Capture) -> Result<()> {
    match arguments {
        Capture::Block(arguments) => block::run(arguments),
        Capture::Cleanup(arguments) => cleanup::run(arguments),
        Capture::Decisions(arguments) => decisions::run(arguments),
        Capture::Iscsi(arguments) => iscsi::run(arguments),
        Capture::Lab(arguments) => lab::run(arguments),
        Capture::Recover(arguments) => recover::run(arguments),
        Capture::Scrub(arguments) => scrub::run(arguments),
        Capture::Supervise => supervise::run(),
    }
}
