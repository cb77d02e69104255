//! The log of a server that was killed: its row groups and its tail become one complete file.

use std::path::{Path, PathBuf};

use traces::error::ReadError;
use traces::formats::parquet::{ParquetReader, ParquetWriter, is_whole};
use traces::trace::{ReadOptions, TraceReader, TraceWriter};
use traces::{StreamId, WriteError};

use super::{lock, tail};
use crate::accounts::connection_name;

/// Why a log cannot be recovered.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    /// The row groups cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The whole file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A server still writes it.
    #[error("{} is being written by a running server; stop it first", .0.display())]
    Running(PathBuf),
    /// The tail cannot be read.
    #[error("the tail of {}: {problem}", log.display())]
    Tail {
        /// The log.
        log: PathBuf,
        /// What the operating system says.
        problem: std::io::Error,
    },
}

/// Completes the log at `path` of a server that was killed, with the requests of its tail. Returns their number
/// together; `None` if the log has no tail, or one that it does not need any more.
///
/// The log is replaced as a whole. A kill in the meantime leaves the old one with its tail, or the new one.
///
/// # Errors
/// [`RecoveryError`]. The tail is kept until the log is complete.
pub fn recover(path: &Path) -> Result<Option<u64>, RecoveryError> {
    let _lock = match lock(path, false) {
        Ok(lock) => Some(lock),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            return Err(RecoveryError::Running(path.to_owned()));
        }
        // Reading it says why.
        Err(_) => None,
    };
    let failed = |problem| RecoveryError::Tail { log: path.to_owned(), problem };
    if !tail::exists(path).map_err(failed)? {
        return Ok(None);
    }
    // A log gets its whole footer with its last record. What the tail has is in it.
    if is_whole(path)? {
        tail::remove_all(path).map_err(failed)?;
        return Ok(None);
    }
    let mut reader = ParquetReader::open(path, &ReadOptions::default())?;
    let mut writer = Box::new(ParquetWriter::create(path)?);
    let mut requests = 0;
    while let Some(record) = reader.next()? {
        writer.write(&record)?;
        requests += 1;
    }
    let mut meta = reader.meta().clone();
    for record in tail::records(path, requests).map_err(failed)? {
        let StreamId(stream) = record.request.stream;
        meta.streams.entry(stream).or_insert_with(|| connection_name(stream));
        // A VM that is missing was named by its connection.
        for vm in meta.vms.len()..=usize::from(record.request.vm.0) {
            meta.vms.push(connection_name(vm as u32));
        }
        writer.write(&record)?;
        requests += 1;
    }
    writer.finish(&meta)?;
    tail::remove_all(path).map_err(failed)?;
    Ok(Some(requests))
}
