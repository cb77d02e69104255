//! Faults at every system call that touches a file: each command runs once for each call, which then fails, is
//! interrupted, or is the last one before a kill. A result is whole and the same, or it is absent and an error names
//! the file.
//!
//! Needs Debian's strace and gcc, and permission to trace own processes.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod commands;
#[path = "../served/mod.rs"]
mod served;
mod server;
mod short;
mod strace;
#[path = "../wire/mod.rs"]
mod wire;

use std::collections::BTreeMap;
use std::path::Path;

/// The files of a folder.
type Files = BTreeMap<String, Vec<u8>>;

fn files(folder: &Path) -> Files {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    files.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())).collect()
}

fn write(folder: &Path, files: &Files) {
    files.iter().for_each(|(name, bytes)| std::fs::write(folder.join(name), bytes).unwrap());
}

/// Fails with the first of the problems that were found in so many runs.
fn judge(what: &str, runs: usize, problems: &[String]) {
    println!("{what}: {runs} runs");
    let first = problems.iter().take(12).map(String::as_str).collect::<Vec<&str>>();
    assert!(problems.is_empty(), "{what}: {} of {runs} runs\n{}", problems.len(), first.join("\n"));
}
