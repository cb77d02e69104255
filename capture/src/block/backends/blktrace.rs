//! The program blktrace, whose records of all CPUs are read from its standard output while it runs. Source: blktrace(8)
//! of blktrace 1.3.
//!
//! The kernel delivers its records through relay files of debugfs, which no program can open while the kernel is locked
//! down (kernel_lockdown(7)).

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};
use traces::Losses;
use traces::events::Placed;
use traces::formats::blktrace::{FORMAT, LiveRecords};

use super::tracefs::with_ending;
use super::{Backend, BackendSetup};
use crate::block::clocks::monotonic;
use crate::block::error::CaptureError;
use crate::block::supervisor::Supervisor;

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

pub(super) fn probe(setup: &BackendSetup) -> Result<(), String> {
    probe_at(setup, Path::new("/sys/kernel/security/lockdown"), Path::new(DEBUGFS))
}

fn probe_at(setup: &BackendSetup, lockdown: &Path, debugfs: &Path) -> Result<(), String> {
    if setup.decisions_only {
        return Err("blktrace does not record I/O priorities".to_owned());
    }
    if setup.raw.is_some() && setup.decode {
        return Err("blktrace writes its records to files or to a pipe, not to both".to_owned());
    }
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
    buffer: Vec<u8>,
    raw: Option<PathBuf>,
}

impl Blktrace {
    fn begin(setup: &BackendSetup, program: &str) -> Result<Blktrace, CaptureError> {
        let mut command = Command::new(program);
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
            io::ErrorKind::NotFound => failed("it is not installed: apt install blktrace".to_owned()),
            _ => failed(error.to_string()),
        })?;
        let (out, errors) = (child.stdout.take(), child.stderr.take());
        let errors = errors.ok_or_else(|| failed("no standard error".to_owned()))?;
        let fail = |error: rustix::io::Errno| failed(error.to_string());
        if let Some(out) = &out {
            fcntl_setfl(out, fcntl_getfl(out).map_err(fail)? | OFlags::NONBLOCK).map_err(fail)?;
        }
        let raw = setup.raw.clone();
        let records = LiveRecords::new();
        let mut begun = Blktrace { child, out, errors, records, buffer: vec![0; READ_BUFFER_BYTES], raw };
        begun.check_start()?;
        Ok(begun)
    }

    /// Waits briefly: blktrace fails at once if it cannot trace.
    fn check_start(&mut self) -> Result<(), CaptureError> {
        let from = Instant::now();
        while from.elapsed() < START_CHECK {
            if let Some(status) = self.child.try_wait().map_err(|error| failed(error.to_string()))? {
                let message = self.first_error_line();
                return Err(failed(if message.is_empty() {
                    format!("it ended at once with {status}")
                } else {
                    message
                }));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// The first line of its error output, after it has ended.
    fn first_error_line(&mut self) -> String {
        let mut text = String::new();
        // A read error leaves the text empty.
        let _ = (&mut self.errors).take(4096).read_to_string(&mut text);
        text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned()
    }

    /// Reads the available records. Returns false once the program has closed its output.
    fn read(&mut self) -> Result<bool, CaptureError> {
        let Some(out) = &mut self.out else { return Ok(true) };
        loop {
            match out.read(&mut self.buffer) {
                Ok(0) => return Ok(false),
                Ok(bytes) => self.records.hand(&self.buffer[..bytes]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(failed(error.to_string())),
            }
        }
    }

    fn request_end(&self) {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            // Uses SIGTERM, because a shell starts background programs with SIGINT ignored. It may have ended already.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

fn failed(why: String) -> CaptureError {
    CaptureError::Program { program: PROGRAM, why }
}

impl Backend for Blktrace {
    fn sweep(&mut self, events: &mut Vec<Placed>) -> Result<(), CaptureError> {
        let complete = monotonic().saturating_sub(RECORD_DELAY_MAX_NS);
        let goes_on = self.read()? && self.child.try_wait().map_err(|error| failed(error.to_string()))?.is_none();
        if !goes_on {
            let message = self.first_error_line();
            return Err(failed(format!("it ended before the capture did: {message}")));
        }
        self.records.release(complete, events);
        Ok(())
    }

    fn stop(&mut self, events: &mut Vec<Placed>) -> Result<(), CaptureError> {
        self.request_end();
        let from = Instant::now();
        while self.read()? && self.child.try_wait().map_err(|error| failed(error.to_string()))?.is_none() {
            if from.elapsed() > END_TIMEOUT {
                return Err(failed("it does not end".to_owned()));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        // Its last output.
        self.read()?;
        self.records.release(u64::MAX, events);
        self.child.wait().map(drop).map_err(|error| failed(error.to_string()))
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
        if matches!(self.child.try_wait(), Ok(None)) {
            self.request_end();
            let _ = self.child.wait();
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

    fn setup(decisions_only: bool) -> BackendSetup {
        BackendSetup { devices: Vec::new(), raw: None, decode: true, buffer_kib: 1024, decisions_only }
    }

    #[test]
    fn probe_names_the_obstacle() {
        let folder = tempfile::tempdir().unwrap();
        let (lockdown, debugfs) = (folder.path().join("lockdown"), folder.path().join("block"));
        let probe = || probe_at(&setup(false), &lockdown, &debugfs);
        assert!(probe().unwrap_err().contains("debugfs is not mounted"));
        fs::create_dir(&debugfs).unwrap();
        assert_eq!(probe(), Ok(()));
        fs::write(&lockdown, "[none] integrity confidentiality\n").unwrap();
        assert_eq!(probe(), Ok(()));
        fs::write(&lockdown, "none [integrity] confidentiality\n").unwrap();
        assert!(probe().unwrap_err().contains("locked down [integrity]"));
        assert!(probe_at(&setup(true), Path::new("/x"), &debugfs).is_err());
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
        let mut backend = Blktrace::begin(&setup(false), program.to_str().unwrap()).unwrap();
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
        let program = stand_in(folder.path(), "sleep 0.7; echo no more >&2");
        let mut backend = Blktrace::begin(&setup(false), program.to_str().unwrap()).unwrap();
        let mut tries = (0..100).map(|_| {
            std::thread::sleep(POLL_INTERVAL);
            backend.sweep(&mut Vec::new())
        });
        let error = tries.find_map(Result::err).unwrap().to_string();
        assert_eq!(error, "blktrace: it ended before the capture did: no more");
    }

    #[test]
    fn missing_or_failing_blktrace_is_reported() {
        let why = |program: &str| Blktrace::begin(&setup(false), program).err().unwrap().to_string();
        assert_eq!(why("no-such-program"), "blktrace: it is not installed: apt install blktrace");
        assert!(why("false").contains("it ended at once with exit status: 1"));
    }
}
