//! `iocast capture`: live I/O recorded. One file per kind of capture.

use anyhow::Result;

use crate::arguments::Capture;

pub fn run(arguments: &Capture) -> Result<()> {
    match arguments {
        Capture::Lab(arguments) => anyhow::bail!("{}: no lab yet", arguments.plan.display()),
    }
}
