//! The program blktrace, whose records of all CPUs are read from its standard output while it runs. Source: blktrace(8)
//! of blktrace 1.3.
//!
//! The kernel delivers its records through relay files of debugfs, which no program can open while the kernel is locked
//! down (kernel_lockdown(7)). Only securityfs shows the lockdown, and it need not be mounted. The program then complains
//! and goes on without records, so that its standard error decides.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};
use traces::Losses;
use traces::events::Placed;
use traces::formats::blktrace::{FORMAT, LiveRecords};

use super::tracefs::with_ending;
use super::{Backend, BackendSetup, EventsNeeded};
use crate::block::clocks::monotonic;
use crate::block::error::CaptureError;
use crate::block::supervisor::Supervisor;
use crate::programs;

const PROGRAM: &str = "blktrace";
/// The debugfs folder of the kernel's block tracing, which blktrace reads through relay files.
const DEBUGFS: &str = "/sys/kernel/debug/block";
/// The longest delay of a record through relay buffers and the program, in nanoseconds. The program polls every 50 ms
/// when it writes to a pipe.
const RECORD_DELAY_MAX_NS: u64 = 1_000_000_000;
/// The time within which an immediate failure is noticed.
const START_CHECK: Duration = Duration::from_millis(500);
/// The time within which it must end on request.
const END_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const READ_BUFFER_BYTES: usize = 1 << 18;
/// The most bytes of its messages that are read at once.
const MESSAGE_BYTES_MAX: usize = 4096;
const LOCKED_DOWN: &str = "; the kernel may be locked down (secure boot): the backend tracefs works then, too";

pub(super) fn probe(setup: &BackendSetup) -> Result<(), String> {
    probe_at(setup, Path::new("/sys/kernel/security/lockdown"), Path::new(DEBUGFS))
}

fn probe_at(setup: &BackendSetup, lockdown: &Path, debugfs: &Path) -> Result<(), String> {
    match setup.events {
        EventsNeeded::All => {}
        EventsNeeded::Decisions => return Err("blktrace does not record I/O priorities".to_owned()),
        _ => return Err("blktrace records more events than histograms need".to_owned()),
    }
    if setup.rotates {
        return Err("blktrace's files cannot be rotated; --backend tracefs can".to_owned());
    }
    if setup.raw.is_some() && setup.decode {
        return Err("blktrace writes its records to files or to a pipe, not to both".to_owned());
    }
    // Without the file the state is unknown, and the program finds out.
    let state = fs::read_to_string(lockdown).unwrap_or_default();
    if let Some(state) = state.split_whitespace().find(|word| word.starts_with('[') && *word != "[none]") {
        return Err(format!("the kernel is locked down {state}, which forbids its relay files (EPERM)"));
    }
    match fs::read_dir(debugfs) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err("debugfs is not mounted: mount -t debugfs none /sys/kernel/debug".to_owned());
        }
        Err(error) => return Err(CaptureError::io(debugfs, error).to_string()),
    }
    Ok(())
}

pub(super) fn open(setup: &BackendSetup, _supervisor: &mut Supervisor) -> Result<Box<dyn Backend>, CaptureError> {
    Ok(Box::new(Blktrace::begin(setup, PROGRAM)?))
}

struct Blktrace {
    child: Child,
    /// The pipe with its records; `None` for a raw capture, which it writes to files.
    out: Option<ChildStdout>,
    errors: ChildStderr,
    records: LiveRecords,
    /// Bytes of records that were read.
    read_bytes: u64,
    buffer: Vec<u8>,
    raw: Option<PathBuf>,
    /// Its messages while it records.
    notes: Vec<String>,
}

impl Blktrace {
    fn begin(setup: &BackendSetup, program: &str) -> Result<Blktrace, CaptureError> {
        let mut command = programs::command(program);
        for device in &setup.devices {
            command.arg("-d").arg(&device.path);
        }
        // The size of a sub-buffer in KiB, and the number of sub-buffers.
        command.args(["-b", &(setup.buffer_kib / 4).max(64).to_string(), "-n", "4", "-o"]);
        let folder = setup.raw.as_ref().and_then(|stem| stem.parent()).filter(|at| !at.as_os_str().is_empty());
        match &setup.raw {
            Some(stem) => command.arg(stem.file_name().unwrap_or_default()).stdout(Stdio::null()),
            None => command.arg("-").stdout(Stdio::piped()),
        };
        if let Some(folder) = folder {
            command.arg("-D").arg(folder);
        }
        // An interrupt at the terminal ends the capture, which then ends blktrace.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                failed("it is not installed; `iocast doctor --for capture block` names its package".to_owned())
            }
            _ => failed(error.to_string()),
        })?;
        let (out, errors) = (child.stdout.take(), child.stderr.take());
        let errors = errors.ok_or_else(|| failed("no standard error".to_owned()))?;
        let raw = setup.raw.clone();
        let (records, buffer, notes) = (LiveRecords::new(), vec![0; READ_BUFFER_BYTES], Vec::new());
        let mut begun = Blktrace { child, out, errors, records, read_bytes: 0, buffer, raw, notes };
        if let Some(out) = &begun.out {
            set_nonblocking(out)?;
        }
        set_nonblocking(&begun.errors)?;
        begun.check_start()?;
        Ok(begun)
    }

    /// Waits briefly: blktrace complains at once if it cannot trace, and may go on without records.
    fn check_start(&mut self) -> Result<(), CaptureError> {
        let from = Instant::now();
        while from.elapsed() < START_CHECK {
            if let Some(status) = self.ended()? {
                return Err(failed(format!("it ended at once with {status}{}", self.last_words())));
            }
            if let Some(words) = self.new_words() {
                return Err(failed(words));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Its status, if it has ended.
    fn ended(&mut self) -> Result<Option<ExitStatus>, CaptureError> {
        self.child.try_wait().map_err(|error| failed(error.to_string()))
    }

    /// The first line of its new messages, with the remedy.
    fn new_words(&mut self) -> Option<String> {
        let mut text = vec![0; MESSAGE_BYTES_MAX];
        // An error means that there is nothing new.
        let bytes = self.errors.read(&mut text).unwrap_or(0);
        let text = String::from_utf8_lossy(&text[..bytes]).into_owned();
        let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
        let remedy = if line.contains("not permitted") { LOCKED_DOWN } else { "" };
        Some(format!("{line}{remedy}"))
    }

    /// As [`Blktrace::new_words`], behind a message about its end.
    fn last_words(&mut self) -> String {
        self.new_words().map(|words| format!(": {words}")).unwrap_or_default()
    }

    /// Reads the available records. Returns false once the program has closed its output.
    fn read(&mut self) -> Result<bool, CaptureError> {
        let Some(out) = &mut self.out else { return Ok(true) };
        loop {
            match out.read(&mut self.buffer) {
                Ok(0) => return Ok(false),
                Ok(bytes) => {
                    self.read_bytes += bytes as u64;
                    self.records.hand(&self.buffer[..bytes]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(failed(error.to_string())),
            }
        }
    }

    fn request_end(&mut self) {
        if matches!(self.child.try_wait(), Ok(None))
            && let Some(pid) = Pid::from_raw(self.child.id().cast_signed())
        {
            // Uses SIGTERM, because a shell starts background programs with SIGINT ignored. It may have ended already.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

fn set_nonblocking(pipe: impl AsFd) -> Result<(), CaptureError> {
    let set = fcntl_getfl(&pipe).and_then(|flags| fcntl_setfl(&pipe, flags | OFlags::NONBLOCK));
    set.map_err(|error| failed(error.to_string()))
}

fn failed(why: String) -> CaptureError {
    CaptureError::Program { program: PROGRAM, why }
}

impl Backend for Blktrace {
    fn sweep(&mut self, events: &mut Vec<Placed>) -> Result<(), CaptureError> {
        let complete = monotonic().saturating_sub(RECORD_DELAY_MAX_NS);
        let is_open = self.read()?;
        if let Some(status) = self.ended()? {
            return Err(failed(format!("it ended before the capture did, with {status}{}", self.last_words())));
        }
        if !is_open {
            return Err(failed(format!("it closed its output before the capture ended{}", self.last_words())));
        }
        match self.new_words() {
            Some(words) if self.read_bytes == 0 && self.raw_written().0 == 0 => return Err(failed(words)),
            words => self.notes.extend(words.map(|words| format!("warning: {PROGRAM}: {words}"))),
        }
        self.records.release(complete, events);
        Ok(())
    }

    fn stop(&mut self, events: &mut Vec<Placed>) -> Result<(), CaptureError> {
        self.request_end();
        let from = Instant::now();
        while self.read()? && self.ended()?.is_none() {
            if from.elapsed() > END_TIMEOUT {
                return Err(failed("it does not end".to_owned()));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        // Its last output.
        self.read()?;
        self.records.release(u64::MAX, events);
        let status = self.child.wait().map_err(|error| failed(error.to_string()))?;
        if !status.success() && status.signal() != Some(Signal::TERM.as_raw()) {
            return Err(failed(format!("it ended with {status}{}", self.last_words())));
        }
        let words = self.new_words();
        self.notes.extend(words.map(|words| format!("warning: {PROGRAM}: {words}")));
        Ok(())
    }

    fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    fn format(&self) -> (&'static str, String) {
        (FORMAT.name, "monotonic".to_owned())
    }

    fn losses(&self) -> Losses {
        self.records.losses().clone()
    }

    fn names(&self) -> BTreeMap<u32, String> {
        self.records.names().clone()
    }

    fn describe(&self, add: &mut dyn FnMut(&str, String)) {
        self.records.describe(add);
    }

    fn raw_written(&self) -> (u64, u64) {
        let Some(stem) = &self.raw else { return (0, 0) };
        let files = (0..).map(|cpu| with_ending(stem, &format!(".blktrace.{cpu}")));
        let sizes = files.map_while(|file| Some(fs::metadata(file).ok()?.len()));
        (sizes.sum(), 0)
    }
}

impl Drop for Blktrace {
    fn drop(&mut self) {
        self.request_end();
        let from = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if from.elapsed() > END_TIMEOUT {
                // A failure means that it has ended.
                let _ = self.child.kill();
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use traces::trace::ReadOptions;
    use traces::{Record, Sectors};

    use super::*;
    use crate::block::AttributeBy;
    use crate::block::attribution::Attribution;
    use crate::block::device::BlockDevice;
    use crate::block::merge::RecordMerger;

    fn setup(events: EventsNeeded) -> BackendSetup {
        BackendSetup { devices: Vec::new(), raw: None, rotates: false, decode: true, buffer_kib: 1024, events }
    }

    #[test]
    fn probe_names_the_obstacle() {
        let folder = tempfile::tempdir().unwrap();
        let (lockdown, debugfs) = (folder.path().join("lockdown"), folder.path().join("block"));
        let probe = || probe_at(&setup(EventsNeeded::All), &lockdown, &debugfs);
        assert!(probe().unwrap_err().contains("debugfs is not mounted"));
        fs::create_dir(&debugfs).unwrap();
        assert_eq!(probe(), Ok(()));
        fs::write(&lockdown, "[none] integrity confidentiality\n").unwrap();
        assert_eq!(probe(), Ok(()));
        fs::write(&lockdown, "none [integrity] confidentiality\n").unwrap();
        assert!(probe().unwrap_err().contains("locked down [integrity]"));
        assert!(probe_at(&setup(EventsNeeded::Decisions), Path::new("/x"), &debugfs).is_err());
    }

    /// A script in place of blktrace.
    fn stand_in(folder: &Path, script: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let program = folder.join("blktrace");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        program
    }

    #[test]
    fn records_of_the_stream_equal_those_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let data =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces/tests/data/blktrace/virtio-mail.blktrace.0.gz");
        let script = format!("trap 'exit 0' TERM; gzip -dc {}; while :; do sleep 0.05; done", data.display());
        let program = stand_in(folder.path(), &script);
        let mut backend = Blktrace::begin(&setup(EventsNeeded::All), program.to_str().unwrap()).unwrap();
        let mut events = Vec::new();
        backend.sweep(&mut events).unwrap();
        backend.stop(&mut events).unwrap();
        let device = BlockDevice {
            path: PathBuf::new(),
            name: "vdb".to_owned(),
            number: events[0].event.device,
            capacity: Sectors::new(8),
            folder: PathBuf::new(),
            sequence: None,
        };
        let mut merger = RecordMerger::new(&[device], FORMAT.name);
        merger.hand(&events, &mut Attribution::new(AttributeBy::Device, std::iter::empty()));
        let mut live = Vec::new();
        merger.give(true, &mut live).unwrap();
        let mut reader = traces::formats::open(&data, &ReadOptions::default()).unwrap();
        let offline: Vec<(usize, Record)> = std::iter::from_fn(|| Some((0, reader.next().unwrap()?))).collect();
        assert!(offline.len() > 200);
        assert_eq!(live, offline);
        assert_eq!(backend.losses().total(), 0);
        assert_eq!(backend.names(), reader.meta().streams);
    }

    #[test]
    fn blktrace_ending_early_ends_the_capture() {
        let folder = tempfile::tempdir().unwrap();
        let program = stand_in(folder.path(), "sleep 0.7; exit 3");
        let mut backend = Blktrace::begin(&setup(EventsNeeded::All), program.to_str().unwrap()).unwrap();
        let mut tries = (0..100).map(|_| {
            std::thread::sleep(POLL_INTERVAL);
            backend.sweep(&mut Vec::new())
        });
        let error = tries.find_map(Result::err).unwrap().to_string();
        assert_eq!(error, "blktrace: it ended before the capture did, with exit status: 3");
    }

    #[test]
    fn complaint_before_the_first_record_is_a_failure_though_blktrace_runs_on() {
        let folder = tempfile::tempdir().unwrap();
        // As blktrace 1.3 does under lockdown: at once, and after a while.
        let complaint = "echo 'FAILED to start thread on CPU 0: 1/Operation not permitted' >&2";
        let runs_on = "trap 'exit 0' TERM; while :; do sleep 0.05; done";
        let program = stand_in(folder.path(), &format!("{complaint}; {runs_on}"));
        let error = Blktrace::begin(&setup(EventsNeeded::All), program.to_str().unwrap()).err().unwrap().to_string();
        assert!(error.starts_with("blktrace: FAILED to start thread on CPU 0: 1/Operation not permitted; "), "{error}");
        assert!(error.contains("the backend tracefs works then"), "{error}");
        let program = stand_in(folder.path(), &format!("sleep 0.8; {complaint}; {runs_on}"));
        let mut backend = Blktrace::begin(&setup(EventsNeeded::All), program.to_str().unwrap()).unwrap();
        let mut tries = (0..100).map(|_| {
            std::thread::sleep(POLL_INTERVAL);
            backend.sweep(&mut Vec::new())
        });
        assert!(tries.find_map(Result::err).unwrap().to_string().contains("Operation not permitted"));
    }

    #[test]
    fn words_and_status_at_the_end_are_passed_on() {
        let folder = tempfile::tempdir().unwrap();
        let ended = |end: &str| {
            let runs_on = format!("trap '{end}' TERM; while :; do sleep 0.05; done");
            let program = stand_in(folder.path(), &runs_on);
            let mut backend = Blktrace::begin(&setup(EventsNeeded::All), program.to_str().unwrap()).unwrap();
            let stopped = backend.stop(&mut Vec::new());
            (stopped.map_err(|error| error.to_string()), backend.notes())
        };
        assert_eq!(ended("exit 0"), (Ok(()), Vec::new()));
        assert_eq!(
            ended("echo You have 5 dropped events >&2; exit 0"),
            (Ok(()), vec!["warning: blktrace: You have 5 dropped events".to_owned()])
        );
        let (stopped, _) = ended("echo disk full >&2; exit 2");
        assert_eq!(stopped, Err("blktrace: it ended with exit status: 2: disk full".to_owned()));
    }

    #[test]
    fn missing_or_failing_blktrace_is_reported() {
        let why = |program: &str| Blktrace::begin(&setup(EventsNeeded::All), program).err().unwrap().to_string();
        assert_eq!(
            why("no-such-program"),
            "blktrace: it is not installed; `iocast doctor --for capture block` names its package"
        );
        assert!(why("false").contains("it ended at once with exit status: 1"));
    }
}
