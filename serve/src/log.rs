//! The server's own log: every request as a trace, written beside the serving.
//!
//! Records come in the order of completion and are written in that of arrival, so that as many are held back as
//! are in flight. The channel is bounded: where the disk is slower than the load, clients wait for the log.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use traces::formats::{Created, FORMATS};
use traces::trace::{TraceWriter, WriteOptions};
use traces::{Record, TraceMeta, WriteError, WriteProblem};

/// Records on their way to the file, about 6 MB.
const ON_THE_WAY: usize = 1 << 16;

/// A log that is being written.
pub struct Log {
    sender: SyncSender<Message>,
    thread: JoinHandle<Result<u64, WriteError>>,
    format: &'static str,
}

enum Message {
    /// With how many arrived before it.
    Record(u64, Record),
    Finish(Box<TraceMeta>),
}

/// The formats of logs: both can express every request.
const LOGS: [&str; 2] = ["parquet", "csv"];

/// A format that a log is written in.
#[derive(Clone, Copy, Debug)]
pub struct LogFormat {
    name: &'static str,
    create: fn(&Path, &WriteOptions) -> Created,
}

/// The format that a log of this name has: that of its ending.
///
/// # Errors
/// Another ending than theirs.
pub fn format_of(path: &Path) -> Result<LogFormat, WriteError> {
    let ending = path.extension().map(|ending| ending.to_string_lossy().into_owned()).unwrap_or_default();
    let formats = FORMATS.iter().filter(|format| LOGS.contains(&format.name));
    let mut of_ending = formats.filter(|format| format.extensions.contains(&ending.as_str()));
    of_ending.find_map(|format| Some(LogFormat { name: format.name, create: format.create? })).ok_or_else(|| {
        let what = "a log ends in .parquet, which keeps names and provenance, or in .csv";
        WriteError::new(path, WriteProblem::Encoding(what.to_owned()))
    })
}

impl Log {
    /// Begins a log; nothing stands at `path` before it is finished.
    ///
    /// # Errors
    /// [`format_of`]'s and the writer's.
    pub fn begin(path: &Path) -> Result<Log, WriteError> {
        let LogFormat { name, create } = format_of(path)?;
        let (sender, receiver) = sync_channel(ON_THE_WAY);
        let (tell, told) = sync_channel(1);
        let (path, io_path) = (path.to_owned(), path.to_owned());
        let write = move || match create(&path, &WriteOptions::default()) {
            Ok(writer) => {
                let _ = tell.send(Ok(()));
                written(&path, writer, &receiver)
            }
            Err(error) => {
                let _ = tell.send(Err(error));
                Ok(0)
            }
        };
        let spawned = std::thread::Builder::new().name("log".to_owned()).spawn(write);
        let thread = spawned.map_err(|error| WriteError::new(&io_path, WriteProblem::Io(error)))?;
        told.recv().unwrap_or_else(|_| Err(gone(&io_path)))?;
        Ok(Log { sender, thread, format: name })
    }

    /// The name of its format.
    pub fn format(&self) -> &'static str {
        self.format
    }

    /// Where records go to.
    pub fn entry(&self) -> LogEntry {
        LogEntry(self.sender.clone())
    }

    /// Completes the file; how many requests it holds.
    ///
    /// # Errors
    /// The first thing that went wrong since it began.
    pub fn finish(self, path: &Path, meta: TraceMeta) -> Result<u64, WriteError> {
        // If nobody receives any more, the thread says why.
        let _ = self.sender.send(Message::Finish(Box::new(meta)));
        self.thread.join().unwrap_or_else(|_| Err(gone(path)))
    }
}

/// Where records of requests go to.
#[derive(Clone)]
pub struct LogEntry(SyncSender<Message>);

impl LogEntry {
    /// Hands over a record of the request before which `number` others arrived. Each number comes once.
    pub fn put(&self, number: u64, record: Record) {
        // A log that has failed is told when it is finished.
        let _ = self.0.send(Message::Record(number, record));
    }
}

fn gone(path: &Path) -> WriteError {
    WriteError::new(path, WriteProblem::Encoding("whoever wrote it has panicked".to_owned()))
}

fn written(path: &Path, mut writer: Box<dyn TraceWriter>, receiver: &Receiver<Message>) -> Result<u64, WriteError> {
    let mut early: BTreeMap<u64, Record> = BTreeMap::new();
    let mut next = 0;
    loop {
        match receiver.recv() {
            Ok(Message::Record(number, record)) => {
                early.insert(number, record);
                while let Some(record) = early.remove(&next) {
                    writer.write(&record)?;
                    next += 1;
                }
            }
            Ok(Message::Finish(meta)) => {
                // Those that were in flight at the end leave gaps.
                for record in early.values() {
                    writer.write(record)?;
                }
                return Ok(writer.finish(&meta)?.extent.map_or(0, |extent| extent.records));
            }
            Err(_) => return Err(gone(path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_the_format_of_its_ending() {
        for name in LOGS {
            assert_eq!(format_of(Path::new("requests").with_extension(name).as_path()).unwrap().name, name);
        }
        for other in ["requests.txt", "requests", "requests.csv.zst", "requests.blkreplay"] {
            assert!(format_of(Path::new(other)).unwrap_err().to_string().contains("a log ends in .parquet"), "{other}");
        }
    }
}
