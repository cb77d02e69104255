//! `iocast capture`: live I/O recorded. One file per kind of capture.

mod lab;

use anyhow::Result;

use crate::arguments::Capture;

pub fn run(arguments: &Capture) -> Result<()> {
    match arguments {
        Capture::Lab(arguments) => lab::run(arguments),
    }
}
