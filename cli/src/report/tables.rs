//! Tables of requests, which the program `iocast-tables` makes. It is not a part of this one, since the library that it
//! links takes longer to compile than all the rest.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context, Result};

use crate::arguments::{Report, Table};
use crate::needs::{TABLES, companion, uses};

/// Becomes `iocast-tables`, as git becomes its subcommands.
///
/// # Errors
/// The program is not installed, or cannot be run.
pub fn run(arguments: &Report) -> Result<()> {
    let program = companion(TABLES, uses::REPORT_TABLES)?;
    let error = Command::new(&program).args(passed(arguments)).exec();
    Err(error).with_context(|| program.display().to_string())
}

/// The same arguments for the other program.
fn passed(arguments: &Report) -> Vec<OsString> {
    let Report { inputs, output, table: Table { table, by, sql, quantile }, force, .. } = arguments;
    let texts = [("--table", table), ("--by", by), ("--sql", sql), ("--quantile", quantile)];
    let mut passed: Vec<OsString> = Vec::new();
    for (option, value) in texts.into_iter().filter_map(|(option, value)| Some((option, value.as_ref()?))) {
        // In one word, so that a value that begins with a hyphen is none of its options.
        passed.push(format!("{option}={value}").into());
    }
    if let Some(path) = output {
        let mut option = OsString::from("--output=");
        option.push(path);
        passed.push(option);
    }
    if *force {
        passed.push("--force".into());
    }
    passed.push("--".into());
    passed.extend(inputs.iter().map(Into::into));
    passed
}

impl Table {
    /// Whether a table is asked for.
    pub fn is_wanted(&self) -> bool {
        self.table.is_some() || self.by.is_some() || self.sql.is_some()
    }
}
