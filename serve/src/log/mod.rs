//! The server's request log: a trace of every request. A separate thread writes it.
//!
//! Records arrive in order of completion and are written in order of arrival. The writer therefore holds back as many
//! records as there are requests in flight. The channel is bounded: if the disk is slower than the load, clients wait
//! for the log.
//!
//! A Parquet log grows by whole row groups. Records that are in none yet are also in the log's tail (`tail.rs`), which
//! is written before the replies are sent. A killed server therefore leaves all that it has served
//! ([`recovery::recover`]).

pub mod recovery;
mod tail;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use rustix::fs::{FlockOperation, flock};
use traces::formats::parquet::GrowingWriter;
use traces::formats::{Created, FORMATS};
use traces::trace::{TraceWriter, WriteOptions};
use traces::{Record, TraceMeta, VmId, WriteError, WriteProblem};

use tail::Tail;

/// The most records that wait for the log thread, about 6 MB.
const QUEUED_RECORDS_MAX: usize = 1 << 16;

/// A log while it is written.
pub struct Log {
    sender: SyncSender<LogMessage>,
    thread: JoinHandle<Result<u64, WriteError>>,
    /// Of a Parquet log.
    tail: Option<Tail>,
}

enum LogMessage {
    /// A record, and the number of requests that arrived before it.
    Record(u64, Record),
    /// A VM's name.
    Vm(VmId, String),
    Finish(Box<TraceMeta>),
}

/// Formats that can express every request: one that grows, and others, which appear when they are complete.
const GROWING_FORMAT: &str = "parquet";
const LOG_FORMATS: [&str; 2] = [GROWING_FORMAT, "csv"];

/// A format that a log can have.
#[derive(Clone, Copy, Debug)]
pub struct LogFormat {
    /// Its name.
    pub name: &'static str,
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
    /// Begins a log. A Parquet log grows at `path`; another file appears there when the log is finished.
    ///
    /// # Errors
    /// No log format has this ending, or the file cannot be created.
    pub fn begin(path: &Path, meta: TraceMeta) -> Result<Log, WriteError> {
        Log::start(path, meta, true)
    }

    /// Begins a log without a tail: a kill loses the records that are in no row group yet.
    ///
    /// # Errors
    /// As [`Log::begin`].
    pub fn without_tail(path: &Path, meta: TraceMeta) -> Result<Log, WriteError> {
        Log::start(path, meta, false)
    }

    fn start(path: &Path, meta: TraceMeta, has_tail: bool) -> Result<Log, WriteError> {
        let format = format_of(path)?;
        // Locked before the tail of an older log goes, which may be another server's.
        let growing = if format.name == GROWING_FORMAT { Some(emptied(path)?) } else { None };
        let tail = if has_tail && growing.is_some() { Some(Tail::begin(path)?) } else { None };
        let (sender, receiver) = sync_channel(QUEUED_RECORDS_MAX);
        let (started_sender, started) = sync_channel(1);
        let (path, io_path) = (path.to_owned(), path.to_owned());
        let write = move || match LogWriter::begin(format, growing, &path, meta) {
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
        Ok(Log { sender, thread, tail })
    }

    /// Adds a VM. It precedes the VM's first record.
    pub fn add_vm(&self, vm: VmId, name: String) {
        let _ = self.sender.send(LogMessage::Vm(vm, name));
    }

    /// Adds the record of the request that `number` others preceded in arrival. Each number is used once.
    /// [`Log::save`] makes it safe.
    pub fn put(&mut self, number: u64, record: Record) {
        if let Some(tail) = &mut self.tail {
            tail.put(number, &record);
        }
        // A failure of the log thread is reported by `finish`.
        let _ = self.sender.send(LogMessage::Record(number, record));
    }

    /// Makes the records so far safe against a kill of the server.
    pub fn save(&mut self) {
        if let Some(tail) = &mut self.tail {
            tail.save();
        }
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

/// Opens a growing log for writing, creates it if asked to, and locks it until it is closed.
///
/// # Errors
/// The operating system's; `WouldBlock` if another process has locked it.
fn lock(path: &Path, create: bool) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create(create).truncate(false).open(path)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

/// The empty file of a growing log.
fn emptied(path: &Path) -> Result<File, WriteError> {
    let emptied = lock(path, true).and_then(|file| file.set_len(0).map(|()| file));
    emptied.map_err(|error| {
        let problem = if error.kind() == io::ErrorKind::WouldBlock {
            WriteProblem::Encoding("another server is writing this log; name another file".to_owned())
        } else {
            WriteProblem::Io(error)
        };
        WriteError::new(path, problem)
    })
}

fn panicked(path: &Path) -> WriteError {
    WriteError::new(path, WriteProblem::Encoding("the log thread has panicked".to_owned()))
}

/// The log thread's file.
enum LogWriter {
    Growing { writer: Box<GrowingWriter<File>>, meta: TraceMeta },
    Whole(Box<dyn TraceWriter>),
}

impl LogWriter {
    fn begin(format: LogFormat, growing: Option<File>, path: &Path, meta: TraceMeta) -> Result<LogWriter, WriteError> {
        let Some(file) = growing else {
            return Ok(LogWriter::Whole((format.create)(path, &WriteOptions::default())?));
        };
        Ok(LogWriter::Growing { writer: Box::new(GrowingWriter::begin(path, file, &meta)?), meta })
    }

    /// Writes a record. Returns whether all records so far are in the file.
    fn write(&mut self, record: &Record) -> Result<bool, WriteError> {
        match self {
            LogWriter::Growing { writer, meta } => {
                writer.write(record, meta)?;
                Ok(writer.waiting() == 0)
            }
            LogWriter::Whole(writer) => writer.write(record).map(|()| false),
        }
    }

    fn add_vm(&mut self, vm: VmId, name: String) {
        if let LogWriter::Growing { meta, .. } = self {
            let index = usize::from(vm.0);
            meta.vms.resize(meta.vms.len().max(index + 1), String::new());
            meta.vms[index] = name;
        }
    }

    /// Completes the file. Returns its number of records.
    fn finish(self, path: &Path, meta: &TraceMeta) -> Result<u64, WriteError> {
        let written = match self {
            LogWriter::Growing { writer, .. } => {
                let (_, written) = writer.finish(meta)?;
                // A tail that stays is removed when the log is recovered, or with the next log.
                let _ = tail::remove_all(path);
                written
            }
            LogWriter::Whole(writer) => writer.finish(meta)?,
        };
        Ok(written.extent.map_or(0, |extent| extent.records))
    }
}

fn write_in_order(path: &Path, mut writer: LogWriter, receiver: &Receiver<LogMessage>) -> Result<u64, WriteError> {
    let mut early: BTreeMap<u64, Record> = BTreeMap::new();
    let mut next = 0;
    loop {
        match receiver.recv() {
            Ok(LogMessage::Record(number, record)) => {
                early.insert(number, record);
                while let Some(record) = early.remove(&next) {
                    next += 1;
                    if writer.write(&record)? {
                        tail::remove_before(path, next);
                    }
                }
            }
            Ok(LogMessage::Vm(vm, name)) => writer.add_vm(vm, name),
            Ok(LogMessage::Finish(meta)) => {
                // Requests in flight at the end leave gaps in the numbers.
                for record in early.values() {
                    writer.write(record)?;
                }
                return writer.finish(path, &meta);
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
