//! The one error of every reader: which file, which place in it, what is wrong, and what to do.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::spec::nearest;

/// A place in an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The input as a whole.
    Whole,
    /// Offset in bytes of the (decompressed) input.
    Byte(u64),
    /// Line, counted from 1.
    Line(u64),
    /// Row, counted from 0, of a columnar file.
    Row(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Whole => Ok(()),
            Place::Byte(offset) => write!(f, " at byte {offset}"),
            Place::Line(line) => write!(f, " at line {line}"),
            Place::Row(row) => write!(f, " at row {row}"),
        }
    }
}

/// What is wrong with an input.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// There is nothing in it.
    #[error("the input is empty")]
    Empty,
    /// A folder was named.
    #[error("this is a directory, not a trace")]
    Directory,
    /// No reader recognises it.
    #[error("no known trace format starts like this")]
    UnknownFormat,
    /// It ends in the middle of something.
    #[error("the input ends in the middle of {0}")]
    Truncated(String),
    /// It is of a version that is not read.
    #[error("unsupported version: {0}")]
    Version(String),
    /// A value is not what the format says.
    #[error("{0}")]
    Malformed(String),
    /// Records come in another order than the format says, by more than is tolerated.
    #[error("out of order: {0}")]
    OutOfOrder(String),
    /// The capture itself lost events.
    #[error("{0}")]
    Lost(String),
    /// The trace lacks what was asked for.
    #[error("{0}")]
    Missing(String),
    /// Another one that reads the same trace at the same time has failed ([`crate::shared`]).
    #[error("another replay has failed")]
    Stopped,
}

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}{place}: {problem}{}", path.display(), remedy.as_ref().map(|r| format!("; {r}")).unwrap_or_default())]
pub struct ReadError {
    /// The input, `-` for standard input.
    pub path: PathBuf,
    /// Where in it.
    pub place: Place,
    /// What is wrong.
    pub problem: Problem,
    /// What would help, if anything is known to.
    pub remedy: Option<String>,
}

impl ReadError {
    /// An error without a remedy.
    pub fn new(path: &Path, place: Place, problem: Problem) -> ReadError {
        ReadError { path: path.to_owned(), place, problem, remedy: None }
    }

    /// Malformed input: `what` says what was found and what was expected.
    pub fn malformed(path: &Path, place: Place, what: impl Into<String>) -> ReadError {
        ReadError::new(path, place, Problem::Malformed(what.into()))
    }

    /// An input that ends early; an I/O error that says so becomes [`Problem::Truncated`].
    pub fn io(path: &Path, place: Place, error: io::Error) -> ReadError {
        let near = if error.kind() == io::ErrorKind::NotFound { similar(path) } else { Vec::new() };
        let problem = match error.kind() {
            io::ErrorKind::UnexpectedEof => Problem::Truncated("compressed data".to_owned()),
            io::ErrorKind::IsADirectory => Problem::Directory,
            _ => Problem::Io(error),
        };
        let error = ReadError::new(path, place, problem);
        if near.is_empty() { error } else { error.remedy(format!("did you mean {}?", near.join(", "))) }
    }

    /// The same error with what would help.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> ReadError {
        self.remedy = Some(remedy.into());
        self
    }
}

/// The files beside a missing one whose names are like its name, at most three.
fn similar(missing: &Path) -> Vec<String> {
    let Some(name) = missing.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let folder = missing.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let names = entries.take(FILES_MAX).filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut visible: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    visible.sort();
    let mut near = nearest(name, visible.iter().map(String::as_str));
    // `mails` is near `mail.parquet`, though the whole names are far apart.
    let stem = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let stems = nearest(&stem(name), visible.iter().map(|name| name.split('.').next().unwrap_or_default()));
    near.extend(visible.iter().filter(|name| stems.contains(&stem(name))).cloned());
    let mut named: Vec<String> = Vec::new();
    for name in near {
        let path = missing.with_file_name(name).display().to_string();
        if !named.contains(&path) {
            named.push(path);
        }
    }
    named.truncate(3);
    named
}

/// The most files of a folder whose names are compared.
const FILES_MAX: usize = 10_000;

/// What kept a trace from being written.
#[derive(Debug, thiserror::Error)]
pub enum WriteProblem {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Records were given in another order than that of their arrival.
    #[error("out of order: {0}")]
    OutOfOrder(String),
    /// The format's encoder failed.
    #[error("{0}")]
    Encoding(String),
    /// The output cannot be a file that is made as a whole.
    #[error("{0}; name a file")]
    NotAFile(&'static str),
    /// A file has appeared under the output's name, and is kept. The contents are under this name.
    #[error("this file appeared in the meantime and is not overwritten; the result is in {}", .0.display())]
    Appeared(PathBuf),
    /// Another process has written other contents under the output's name. They are kept.
    #[error(
        "another process has written other contents there in the meantime; remove the file, and repeat the command"
    )]
    Differs,
    /// A record that the format has no way to say.
    #[error("record {record}: {format} cannot express {what}; --lossy leaves such records out and counts them")]
    Inexpressible {
        /// The format's name.
        format: &'static str,
        /// The record, counted from 0.
        record: u64,
        /// What cannot be expressed, in the plural.
        what: &'static str,
    },
    /// Several devices, each with addresses of its own, in a format that has one.
    #[error(
        "the trace holds several devices, each with its own address space, and a {0} trace holds one; \
         choose one of them with --device NAME"
    )]
    SeveralDevices(&'static str),
}

/// Why a trace cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {problem}", path.display())]
pub struct WriteError {
    /// The output.
    pub path: PathBuf,
    /// What is wrong.
    pub problem: WriteProblem,
}

impl WriteError {
    /// An error about the output `path`.
    pub fn new(path: &Path, problem: WriteProblem) -> WriteError {
        WriteError { path: path.to_owned(), problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_names_file_place_problem_and_remedy() {
        let error = ReadError::malformed(Path::new("web.load"), Place::Line(7), "expected 6 fields, found 3");
        assert_eq!(error.to_string(), "web.load at line 7: expected 6 fields, found 3");
        let error = error.remedy("--lenient skips such lines");
        assert_eq!(error.to_string(), "web.load at line 7: expected 6 fields, found 3; --lenient skips such lines");
    }
}
