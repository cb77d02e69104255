//! Records the kernel's events on a device while a program replays.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use anyhow::{Result, anyhow, bail};
use capture::block::{BlockDevice, CaptureOptions, CaptureSummary, Output, Supervisor, record};

/// Size of the kernel's buffer for each CPU: events wait there while a program keeps the CPUs busy.
const BUFFER_KIB: u64 = 32 << 10;

/// A capture that runs.
pub struct Recording {
    stop: Arc<AtomicBool>,
    path: PathBuf,
    thread: JoinHandle<Result<CaptureSummary>>,
}

/// A capture that has ended.
pub struct Recorded {
    /// The trace.
    pub path: PathBuf,
    /// Events that were lost.
    pub lost_events: u64,
}

impl Recording {
    /// Begins to record the device into a trace at `path`, and returns when events are recorded.
    ///
    /// # Errors
    /// The kernel's events cannot be read.
    pub fn begin(device: &BlockDevice, path: PathBuf) -> Result<Recording> {
        let output = Output::File(path.clone());
        let options =
            CaptureOptions { force: true, buffer_kib: BUFFER_KIB, ..CaptureOptions::new(vec![device.clone()], output) };
        let stop = Arc::new(AtomicBool::new(false));
        let (begun, is_begun) = channel();
        let thread_stop = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut command = Command::new("/proc/self/exe");
            command.args(["capture", "supervise"]);
            let supervisor = Supervisor::start(command)?;
            // Nobody listens after the first time.
            Ok(record(&options, supervisor, &thread_stop, &mut |_| {
                let _ = begun.send(());
            })?)
        });
        let recording = Recording { stop, path, thread };
        recording.when_begun(&is_begun)
    }

    fn when_begun(self, is_begun: &Receiver<()>) -> Result<Recording> {
        match is_begun.recv() {
            Ok(()) => Ok(self),
            // The capture has ended before its first sign of life.
            Err(_) => match self.end() {
                Err(error) => Err(error.context("the kernel's events on the device cannot be recorded")),
                Ok(_) => bail!("the capture of the device ended at once"),
            },
        }
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// The capture's.
    pub fn end(self) -> Result<Recorded> {
        self.stop.store(true, Ordering::Relaxed);
        let summary = self.thread.join().map_err(|_| anyhow!("the capture has panicked"))??;
        if let Some(failure) = summary.failure {
            bail!("{failure}");
        }
        Ok(Recorded { path: self.path, lost_events: summary.lost_events })
    }
}
