//! `iocast capture recover`: completes in place a trace whose capture or server was killed.

use anyhow::Result;
use traces::formats::parquet;

use crate::arguments::capture::Recover;
use crate::output::print;

pub fn run(arguments: &Recover) -> Result<()> {
    let path = arguments.file.display();
    if let Some(requests) = serve::log::recovery::recover(&arguments.file)? {
        return print(&format!("{path} is complete with {requests} requests\n"));
    }
    match parquet::recover(&arguments.file)? {
        None => print(&format!("{path} is complete already\n")),
        Some(found) => print(&format!(
            "{path} is complete with {} requests; {} bytes of an unfinished row group were cut off\n",
            found.rows, found.torn_bytes
        )),
    }
}
