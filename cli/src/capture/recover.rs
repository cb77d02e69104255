//! `iocast capture recover`: a trace whose recording was killed, completed in place.

use anyhow::Result;
use traces::formats::parquet;

use crate::arguments::capture::Recover;
use crate::output::print;

pub fn run(arguments: &Recover) -> Result<()> {
    let path = arguments.file.display();
    match parquet::recover(&arguments.file)? {
        None => print(&format!("{path} is complete already\n")),
        Some(found) => print(&format!(
            "{path} is complete with {} requests; {} bytes of a row group that was being written were cut off\n",
            found.rows, found.torn_bytes
        )),
    }
}
