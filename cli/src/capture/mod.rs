//! `iocast capture`: live I/O recorded. One file per kind of capture.

mod iscsi;
mod lab;
mod scrub;

use anyhow::Result;

use crate::arguments::Capture;

pub fn run(arguments: &Capture) -> Result<()> {
    match arguments {
        Capture::Iscsi(arguments) => iscsi::run(arguments),
        Capture::Lab(arguments) => lab::run(arguments),
        Capture::Scrub(arguments) => scrub::run(arguments),
    }
}
