//! Refuses an input in which nothing could be read: to skip every line of it is no result.

use std::path::{Path, PathBuf};

use crate::error::{Place, Problem, ReadError};
use crate::record::Record;
use crate::trace::{Losses, TraceMeta, TraceReader};

/// Checks at the end of the trace at `path` that it was not skipped as a whole; `requests` is how many were read.
///
/// # Errors
/// No request was read, and something was skipped or lost.
pub fn check_something_read(path: &Path, requests: u64, losses: &Losses) -> Result<(), ReadError> {
    if requests > 0 || losses.total() == 0 {
        return Ok(());
    }
    let mut why: Vec<String> =
        losses.skipped.iter().map(|(reason, count)| format!("{count} skipped: {reason}")).collect();
    if losses.lost_events > 0 {
        why.push(format!("{} events lost", losses.lost_events));
    }
    let what = format!("no request of it could be read ({})", why.join(", "));
    Err(ReadError::new(path, Place::Whole, Problem::Malformed(what)).remedy("--input-format names another format"))
}

/// Passes a trace's records on, and checks at its end that there was one.
pub(super) struct SomethingRead {
    path: PathBuf,
    reader: Box<dyn TraceReader>,
    requests: u64,
}

impl SomethingRead {
    pub(super) fn new(path: &Path, reader: Box<dyn TraceReader>) -> SomethingRead {
        SomethingRead { path: path.to_owned(), reader, requests: 0 }
    }
}

impl TraceReader for SomethingRead {
    fn meta(&self) -> &TraceMeta {
        self.reader.meta()
    }

    fn next(&mut self) -> Result<Option<Record>, ReadError> {
        let record = self.reader.next()?;
        match record {
            Some(_) => self.requests += 1,
            None => check_something_read(&self.path, self.requests, self.reader.losses())?,
        }
        Ok(record)
    }

    fn losses(&self) -> &Losses {
        self.reader.losses()
    }

    fn position_bytes(&self) -> u64 {
        self.reader.position_bytes()
    }
}
