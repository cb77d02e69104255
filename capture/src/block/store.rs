//! Writes records in a separate thread, in complete row groups, so that a slow disk does not delay reading the kernel's
//! buffers.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use traces::error::WriteProblem;
use traces::formats::parquet::{GrowingWriter, recover};
use traces::{Record, TraceMeta, WriteError};

use super::error::CaptureError;
use super::options::CaptureOptions;
use super::output::{Output, OutputSink, rotated_path};

/// The most messages that wait to be written. Beyond them the kernel's buffers fill; the kernel counts the events that
/// they drop.
const QUEUED_MESSAGES_MAX: usize = 64;
/// The longest time that rows wait for their row group.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(5);
/// A long capture writes larger row groups: after this many groups by time, the interval doubles.
const GROUPS_PER_DOUBLING: u32 = 1024;
/// The most doublings.
const DOUBLINGS_MAX: u32 = 4;

/// When a new file begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotate {
    /// When the file has this many bytes.
    Bytes(u64),
    /// When the file has this age.
    Time(Duration),
}

enum StoreMessage {
    Records(Vec<Record>),
    Meta(Box<TraceMeta>),
    End(Box<TraceMeta>),
}

#[derive(Default)]
struct StoreShared {
    bytes: AtomicU64,
    failure: Mutex<Option<String>>,
    files: Mutex<Vec<PathBuf>>,
}

/// The handle that accepts records.
pub(super) struct TraceStore {
    sender: SyncSender<StoreMessage>,
    shared: Arc<StoreShared>,
    thread: JoinHandle<()>,
}

/// The result of a store.
pub(super) struct StoreOutcome {
    pub(super) bytes: u64,
    pub(super) files: Vec<PathBuf>,
    pub(super) failure: Option<String>,
}

impl TraceStore {
    /// Opens the output and begins a trace.
    pub(super) fn begin(options: &CaptureOptions, meta: TraceMeta) -> Result<TraceStore, CaptureError> {
        let shared = Arc::new(StoreShared::default());
        let mut pieces = TraceFiles {
            output: options.output.clone(),
            rotate: options.rotate,
            keep: options.keep,
            force: options.force,
            meta,
            number: 0,
            finished_bytes: 0,
            shared: Arc::clone(&shared),
        };
        let writer = pieces.next()?;
        let (sender, receiver) = sync_channel(QUEUED_MESSAGES_MAX);
        let thread = thread::spawn(move || pieces.run(writer, &receiver));
        Ok(TraceStore { sender, shared, thread })
    }

    /// Adds records. Returns false if the output has failed.
    pub(super) fn records(&self, records: Vec<Record>) -> bool {
        self.sender.send(StoreMessage::Records(records)).is_ok()
    }

    /// Sets the metadata of later checkpoints. Must precede records of VMs that are new in it.
    pub(super) fn meta(&self, meta: TraceMeta) -> bool {
        self.sender.send(StoreMessage::Meta(Box::new(meta))).is_ok()
    }

    /// Bytes written so far.
    pub(super) fn bytes(&self) -> u64 {
        self.shared.bytes.load(Ordering::Relaxed)
    }

    /// Whether the output has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Completes the trace.
    pub(super) fn end(self, meta: TraceMeta) -> StoreOutcome {
        // A failed store has already completed its file as far as possible.
        let _ = self.sender.send(StoreMessage::End(Box::new(meta)));
        drop(self.sender);
        let panicked = self.thread.join().is_err();
        let failure = self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        let failure = failure.or_else(|| panicked.then(|| "the writing thread has panicked".to_owned()));
        let files = std::mem::take(&mut *self.shared.files.lock().unwrap_or_else(PoisonError::into_inner));
        StoreOutcome { bytes: self.shared.bytes.load(Ordering::Relaxed), files, failure }
    }
}

/// One file of the trace, while it is written.
struct TraceFile {
    path: PathBuf,
    writer: GrowingWriter<OutputSink>,
    begun: Instant,
    checkpoint: Instant,
    groups_by_time: u32,
}

/// The writing thread's state.
struct TraceFiles {
    output: Output,
    rotate: Option<Rotate>,
    keep: Option<u32>,
    force: bool,
    meta: TraceMeta,
    number: u32,
    finished_bytes: u64,
    shared: Arc<StoreShared>,
}

impl TraceFiles {
    /// Begins the next file.
    fn next(&mut self) -> Result<TraceFile, CaptureError> {
        self.number += 1;
        let named = self.output.name();
        let path = if self.rotate.is_some() { rotated_path(&named, self.number) } else { named };
        let sink = OutputSink::open(&self.output, &path, self.force)?;
        let writer = GrowingWriter::begin(&path, sink, &self.meta)?;
        if self.output.file().is_some() {
            let mut files = self.shared.files.lock().unwrap_or_else(PoisonError::into_inner);
            files.push(path.clone());
            while self.keep.is_some_and(|most| files.len() > most as usize) {
                let oldest = files.remove(0);
                std::fs::remove_file(&oldest).map_err(|error| CaptureError::io(&oldest, error))?;
            }
        }
        let now = Instant::now();
        Ok(TraceFile { path, writer, begun: now, checkpoint: now, groups_by_time: 0 })
    }

    fn run(mut self, first: TraceFile, receiver: &Receiver<StoreMessage>) {
        let mut file = first;
        loop {
            let step = match receiver.recv_timeout(CHECKPOINT_INTERVAL / 10) {
                Ok(StoreMessage::Records(records)) => self.write(&mut file, &records),
                Ok(StoreMessage::Meta(meta)) => {
                    self.meta = *meta;
                    self.checkpoint_if_due(&mut file)
                }
                Ok(StoreMessage::End(meta)) => {
                    self.meta = *meta;
                    let path = file.path.clone();
                    let finished = self.finish(file);
                    return self.record_failure(finished, &path);
                }
                Err(RecvTimeoutError::Timeout) => self.checkpoint_if_due(&mut file),
                // The capture ended without an end message.
                Err(RecvTimeoutError::Disconnected) => {
                    let path = file.path.clone();
                    let finished = self.finish(file);
                    return self.record_failure(finished, &path);
                }
            };
            self.shared.bytes.store(self.finished_bytes + file.writer.bytes(), Ordering::Relaxed);
            let path = file.path.clone();
            match step.map_err(CaptureError::from).and_then(|()| self.rotated(file)) {
                Ok(next) => file = next,
                Err(error) => return self.record_failure(Err(error), &path),
            }
        }
    }

    fn write(&mut self, file: &mut TraceFile, records: &[Record]) -> Result<(), WriteError> {
        let safe = file.writer.safe_bytes();
        for record in records {
            file.writer.write(record, &self.meta)?;
        }
        if file.writer.safe_bytes() > safe {
            self.sync(file)?;
        }
        self.checkpoint_if_due(file)
    }

    fn checkpoint_if_due(&self, file: &mut TraceFile) -> Result<(), WriteError> {
        let factor = 1 << (file.groups_by_time / GROUPS_PER_DOUBLING).min(DOUBLINGS_MAX);
        if file.writer.waiting() == 0 || file.checkpoint.elapsed() < CHECKPOINT_INTERVAL * factor {
            return Ok(());
        }
        file.writer.checkpoint(&self.meta)?;
        file.groups_by_time += 1;
        self.sync(file)
    }

    fn sync(&self, file: &mut TraceFile) -> Result<(), WriteError> {
        file.checkpoint = Instant::now();
        let synced = file.writer.sink().sync();
        synced.map_err(|error| WriteError::new(&file.path, WriteProblem::Io(error)))
    }

    /// The file to continue with: a new one, if rotation is due.
    fn rotated(&mut self, file: TraceFile) -> Result<TraceFile, CaptureError> {
        let due = match self.rotate {
            None => false,
            Some(Rotate::Bytes(most)) => file.writer.bytes() >= most,
            Some(Rotate::Time(most)) => file.begun.elapsed() >= most,
        };
        if !due {
            return Ok(file);
        }
        self.finish(file)?;
        self.next()
    }

    fn finish(&mut self, file: TraceFile) -> Result<(), CaptureError> {
        let path = file.path;
        let fail = |error| WriteError::new(&path, WriteProblem::Io(error));
        let before = file.writer.bytes();
        let (mut sink, _) = file.writer.finish(&self.meta)?;
        std::io::Write::flush(&mut sink).map_err(fail)?;
        sink.sync().map_err(fail)?;
        let bytes = match &sink {
            OutputSink::File(file) => file.metadata().map_or(before, |metadata| metadata.len()),
            _ => before,
        };
        self.finished_bytes += bytes;
        self.shared.bytes.store(self.finished_bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Records a failure, and completes the file up to its last checkpoint.
    fn record_failure(&self, finished: Result<(), CaptureError>, path: &Path) {
        let Err(error) = finished else { return };
        let mut what = error.to_string();
        if self.output.file().is_some() {
            match recover(path) {
                Ok(Some(found)) => {
                    what += &format!("; {} holds {} requests and is complete", path.display(), found.rows);
                }
                Ok(None) => {}
                Err(error) => what += &format!("; the file can be read without its end ({error})"),
            }
        }
        *self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
    }
}
