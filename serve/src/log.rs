//! The server's request log: a trace of every request. A separate thread writes it.
//!
//! Records arrive in order of completion and are written in order of arrival. The writer therefore holds back as many
//! records as there are requests in flight. The channel is bounded: if the disk is slower than the load, clients wait
//! for the log.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use traces::formats::{Created, FORMATS};
use traces::trace::{TraceWriter, WriteOptions};
use traces::{Record, TraceMeta, WriteError, WriteProblem};

/// The most records that wait for the log thread, about 6 MB.
const QUEUED_RECORDS_MAX: usize = 1 << 16;

/// A log while it is written.
pub struct Log {
    sender: SyncSender<LogMessage>,
    thread: JoinHandle<Result<u64, WriteError>>,
    format: &'static str,
}

enum LogMessage {
    /// A record, and the number of requests that arrived before it.
    Record(u64, Record),
    Finish(Box<TraceMeta>),
}

/// Formats that can express every request.
const LOG_FORMATS: [&str; 2] = ["parquet", "csv"];

/// A format that a log can have.
#[derive(Clone, Copy, Debug)]
pub struct LogFormat {
    name: &'static str,
    create: fn(&Path, &WriteOptions) -> Created,
}

/// The log format for the ending of `path`.
///
/// # Errors
/// The ending is of no log format.
pub fn format_of(path: &Path) -> Result<LogFormat, WriteError> {
    let ending = path.extension().map(|ending| ending.to_string_lossy().into_owned()).unwrap_or_default();
    let formats = FORMATS.iter().filter(|format| LOG_FORMATS.contains(&format.name));
    let mut of_ending = formats.filter(|format| format.extensions.contains(&ending.as_str()));
    of_ending.find_map(|format| Some(LogFormat { name: format.name, create: format.create? })).ok_or_else(|| {
        let what = "the name of a log ends in .parquet, which keeps names and provenance, or in .csv";
        WriteError::new(path, WriteProblem::Encoding(what.to_owned()))
    })
}

impl Log {
    /// Begins a log. The file appears at `path` only when the log is finished.
    ///
    /// # Errors
    /// No log format has this ending, or the file cannot be created.
    pub fn begin(path: &Path) -> Result<Log, WriteError> {
        let LogFormat { name, create } = format_of(path)?;
        let (sender, receiver) = sync_channel(QUEUED_RECORDS_MAX);
        let (started_sender, started) = sync_channel(1);
        let (path, io_path) = (path.to_owned(), path.to_owned());
        let write = move || match create(&path, &WriteOptions::default()) {
            Ok(writer) => {
                let _ = started_sender.send(Ok(()));
                write_in_order(&path, writer, &receiver)
            }
            Err(error) => {
                let _ = started_sender.send(Err(error));
                Ok(0)
            }
        };
        let spawned = std::thread::Builder::new().name("log".to_owned()).spawn(write);
        let thread = spawned.map_err(|error| WriteError::new(&io_path, WriteProblem::Io(error)))?;
        started.recv().unwrap_or_else(|_| Err(panicked(&io_path)))?;
        Ok(Log { sender, thread, format: name })
    }

    /// The name of the log's format.
    pub fn format(&self) -> &'static str {
        self.format
    }

    /// A handle for adding records.
    pub fn entry(&self) -> LogEntry {
        LogEntry(self.sender.clone())
    }

    /// Completes the file and returns its number of requests.
    ///
    /// # Errors
    /// The first error since the log began.
    pub fn finish(self, path: &Path, meta: TraceMeta) -> Result<u64, WriteError> {
        // If the log thread has ended, joining it gives its error.
        let _ = self.sender.send(LogMessage::Finish(Box::new(meta)));
        self.thread.join().unwrap_or_else(|_| Err(panicked(path)))
    }
}

/// A handle for adding records to the log.
#[derive(Clone)]
pub struct LogEntry(SyncSender<LogMessage>);

impl LogEntry {
    /// Adds the record of the request that `number` others preceded in arrival. Each number is used once.
    pub fn put(&self, number: u64, record: Record) {
        // A failure of the log thread is reported by `finish`.
        let _ = self.0.send(LogMessage::Record(number, record));
    }
}

fn panicked(path: &Path) -> WriteError {
    WriteError::new(path, WriteProblem::Encoding("the log thread has panicked".to_owned()))
}

fn write_in_order(
    path: &Path,
    mut writer: Box<dyn TraceWriter>,
    receiver: &Receiver<LogMessage>,
) -> Result<u64, WriteError> {
    let mut early: BTreeMap<u64, Record> = BTreeMap::new();
    let mut next = 0;
    loop {
        match receiver.recv() {
            Ok(LogMessage::Record(number, record)) => {
                early.insert(number, record);
                while let Some(record) = early.remove(&next) {
                    writer.write(&record)?;
                    next += 1;
                }
            }
            Ok(LogMessage::Finish(meta)) => {
                // Requests in flight at the end leave gaps in the numbers.
                for record in early.values() {
                    writer.write(record)?;
                }
                return Ok(writer.finish(&meta)?.extent.map_or(0, |extent| extent.records));
            }
            Err(_) => return Err(panicked(path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_format_follows_the_file_ending() {
        for name in LOG_FORMATS {
            assert_eq!(format_of(Path::new("requests").with_extension(name).as_path()).unwrap().name, name);
        }
        for other in ["requests.txt", "requests", "requests.csv.zst", "requests.blkreplay"] {
            assert!(format_of(Path::new(other)).unwrap_err().to_string().contains("a log ends in .parquet"), "{other}");
        }
    }
}
