//! The log of a server that was killed: its row groups and its tail become one complete file.

use std::path::{Path, PathBuf};

use traces::error::ReadError;
use traces::formats::parquet::{ParquetReader, ParquetWriter, recover as recover_row_groups};
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
    #[error("the tail of {}: {source}", log.display())]
    Tail {
        /// The log.
        log: PathBuf,
        /// The error.
        source: std::io::Error,
    },
}

/// Completes the log at `path` of a server that was killed, with the requests of its tail. `None` if it has no tail;
/// otherwise its number of requests.
///
/// # Errors
/// [`RecoveryError`]. The tail is kept.
pub fn recover(path: &Path) -> Result<Option<u64>, RecoveryError> {
    let _lock = match lock(path, false) {
        Ok(lock) => Some(lock),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            return Err(RecoveryError::Running(path.to_owned()));
        }
        // Reading it says why.
        Err(_) => None,
    };
    let failed = |source| RecoveryError::Tail { log: path.to_owned(), source };
    if !tail::exists(path).map_err(failed)? {
        return Ok(None);
    }
    recover_row_groups(path)?;
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
    tail::remove(path);
    Ok(Some(requests))
}
