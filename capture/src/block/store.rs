//! Stores records by a thread of its own, in complete pieces, so that a slow disk does not keep the kernel's
//! buffers from being read.

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
use super::output::{Output, OutputSink, rotated_path};

/// What can wait to be written: more is left to the kernel's buffers, which count what they drop.
const QUEUED_MESSAGES_MAX: usize = 64;
/// The longest that rows wait for their row group.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(5);
/// A capture that lasts writes larger row groups: so many by time, then they wait twice as long.
const GROUPS_PER_DOUBLING: u32 = 1024;
/// At most so often.
const DOUBLINGS_MAX: u32 = 4;

/// When a new file is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotate {
    /// When it has so many bytes.
    Bytes(u64),
    /// When it is so old.
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

/// The store's end that records are given to.
pub(super) struct TraceStore {
    sender: SyncSender<StoreMessage>,
    shared: Arc<StoreShared>,
    thread: JoinHandle<()>,
}

/// What came of a store.
pub(super) struct StoreOutcome {
    pub(super) bytes: u64,
    pub(super) files: Vec<PathBuf>,
    pub(super) failure: Option<String>,
}

impl TraceStore {
    /// Opens the output and begins a trace.
    pub(super) fn begin(
        output: &Output,
        rotate: Option<Rotate>,
        force: bool,
        meta: TraceMeta,
    ) -> Result<TraceStore, CaptureError> {
        let shared = Arc::new(StoreShared::default());
        let mut pieces = TraceFiles {
            output: output.clone(),
            rotate,
            force,
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

    /// Gives records; false if the output has failed.
    pub(super) fn records(&self, records: Vec<Record>) -> bool {
        self.sender.send(StoreMessage::Records(records)).is_ok()
    }

    /// Gives metadata for the checkpoints to come, before records of VMs that are new in it.
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
        // One that has failed has completed what it could.
        let _ = self.sender.send(StoreMessage::End(Box::new(meta)));
        drop(self.sender);
        let panicked = self.thread.join().is_err();
        let failure = self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        let failure = failure.or_else(|| panicked.then(|| "the writing thread gave up".to_owned()));
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

/// The thread's side.
struct TraceFiles {
    output: Output,
    rotate: Option<Rotate>,
    force: bool,
    meta: TraceMeta,
    number: u32,
    finished_bytes: u64,
    shared: Arc<StoreShared>,
}

impl TraceFiles {
    /// Begins the next piece.
    fn next(&mut self) -> Result<TraceFile, CaptureError> {
        self.number += 1;
        let named = self.output.name();
        let path = if self.rotate.is_some() { rotated_path(&named, self.number) } else { named };
        let sink = OutputSink::open(&self.output, &path, self.force)?;
        let writer = GrowingWriter::begin(&path, sink, &self.meta)?;
        if self.output.file().is_some() {
            self.shared.files.lock().unwrap_or_else(PoisonError::into_inner).push(path.clone());
        }
        let now = Instant::now();
        Ok(TraceFile { path, writer, begun: now, checkpoint: now, groups_by_time: 0 })
    }

    fn run(mut self, first: TraceFile, receiver: &Receiver<StoreMessage>) {
        let mut piece = first;
        loop {
            let step = match receiver.recv_timeout(CHECKPOINT_INTERVAL / 10) {
                Ok(StoreMessage::Records(records)) => self.write(&mut piece, &records),
                Ok(StoreMessage::Meta(meta)) => {
                    self.meta = *meta;
                    self.checkpoint_if_due(&mut piece)
                }
                Ok(StoreMessage::End(meta)) => {
                    self.meta = *meta;
                    let path = piece.path.clone();
                    let finished = self.finish(piece);
                    return self.give_up(finished, &path);
                }
                Err(RecvTimeoutError::Timeout) => self.checkpoint_if_due(&mut piece),
                // The capture gave up without an end.
                Err(RecvTimeoutError::Disconnected) => {
                    let path = piece.path.clone();
                    let finished = self.finish(piece);
                    return self.give_up(finished, &path);
                }
            };
            self.shared.bytes.store(self.finished_bytes + piece.writer.bytes(), Ordering::Relaxed);
            let path = piece.path.clone();
            match step.map_err(CaptureError::from).and_then(|()| self.rotated(piece)) {
                Ok(next) => piece = next,
                Err(error) => return self.give_up(Err(error), &path),
            }
        }
    }

    fn write(&mut self, piece: &mut TraceFile, records: &[Record]) -> Result<(), WriteError> {
        let safe = piece.writer.safe_bytes();
        for record in records {
            piece.writer.write(record, &self.meta)?;
        }
        if piece.writer.safe_bytes() > safe {
            self.sync(piece)?;
        }
        self.checkpoint_if_due(piece)
    }

    fn checkpoint_if_due(&self, piece: &mut TraceFile) -> Result<(), WriteError> {
        let pace = 1 << (piece.groups_by_time / GROUPS_PER_DOUBLING).min(DOUBLINGS_MAX);
        if piece.writer.waiting() == 0 || piece.checkpoint.elapsed() < CHECKPOINT_INTERVAL * pace {
            return Ok(());
        }
        piece.writer.checkpoint(&self.meta)?;
        piece.groups_by_time += 1;
        self.sync(piece)
    }

    fn sync(&self, piece: &mut TraceFile) -> Result<(), WriteError> {
        piece.checkpoint = Instant::now();
        let synced = piece.writer.sink().sync();
        synced.map_err(|error| WriteError::new(&piece.path, WriteProblem::Io(error)))
    }

    /// The piece to go on with: a new one, if it is time.
    fn rotated(&mut self, piece: TraceFile) -> Result<TraceFile, CaptureError> {
        let due = match self.rotate {
            None => false,
            Some(Rotate::Bytes(most)) => piece.writer.bytes() >= most,
            Some(Rotate::Time(most)) => piece.begun.elapsed() >= most,
        };
        if !due {
            return Ok(piece);
        }
        self.finish(piece)?;
        self.next()
    }

    fn finish(&mut self, piece: TraceFile) -> Result<(), CaptureError> {
        let path = piece.path;
        let fail = |error| WriteError::new(&path, WriteProblem::Io(error));
        let before = piece.writer.bytes();
        let (mut sink, _) = piece.writer.finish(&self.meta)?;
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

    /// Notes a failure, and completes the file with what has a checkpoint.
    fn give_up(&self, finished: Result<(), CaptureError>, path: &Path) {
        let Err(error) = finished else { return };
        let mut what = error.to_string();
        if self.output.file().is_some() {
            match recover(path) {
                Ok(Some(found)) => {
                    what += &format!("; {} holds {} requests and is complete", path.display(), found.rows);
                }
                Ok(None) => {}
                Err(error) => what += &format!("; it is read without its end ({error})"),
            }
        }
        *self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
    }
}
