//! Programs that the lab starts and ends.

use std::fs::File;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::LabError;

/// The interval at which awaited conditions are checked.
pub const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The number of last log lines that a message quotes.
const QUOTED_LINES_MAX: usize = 3;

/// A program that runs beside the lab. Dropping it kills the program.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: String,
    log: PathBuf,
}

impl Process {
    /// Starts `command`, with its output in the file `log`.
    ///
    /// # Errors
    /// The program is not installed, or its log cannot be written.
    pub fn start(command: &mut Command, log: &Path) -> Result<Process, LabError> {
        let name = name_of(command);
        let file = File::create(log).map_err(LabError::io(log))?;
        let both = file.try_clone().map_err(LabError::io(log))?;
        command.stdin(Stdio::null()).stdout(file).stderr(both);
        let child = command.spawn().map_err(|error| cannot_start(&name, error))?;
        Ok(Process { child, name, log: log.to_owned() })
    }

    /// The exit status, if the program has ended.
    ///
    /// # Errors
    /// The operating system reports an error.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, LabError> {
        self.child.try_wait().map_err(LabError::io(&self.log))
    }

    /// Checks that the program still runs.
    ///
    /// # Errors
    /// The program has ended; the error quotes the end of its log.
    pub fn check(&mut self) -> Result<(), LabError> {
        match self.ended()? {
            None => Ok(()),
            Some(status) => Err(self.failed(&format!("ended with {status}"))),
        }
    }

    /// Waits until `ready` holds, for at most `timeout`, while the program runs.
    ///
    /// # Errors
    /// The program has ended, or was not ready in time.
    pub fn wait_until(&mut self, timeout: Duration, mut ready: impl FnMut() -> bool) -> Result<(), LabError> {
        let begun = Instant::now();
        while !ready() {
            self.check()?;
            if begun.elapsed() > timeout {
                return Err(self.failed(&format!("was not ready within {} s", timeout.as_secs())));
            }
            sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Asks the program to end, and kills it after `timeout`. Uses SIGTERM, because a shell starts background programs
    /// with SIGINT ignored.
    ///
    /// # Errors
    /// The program was killed, so its output may be incomplete.
    pub fn end(mut self, timeout: Duration) -> Result<ExitStatus, LabError> {
        self.signal(Signal::TERM);
        let begun = Instant::now();
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if begun.elapsed() > timeout {
                self.kill();
                return Err(self.failed(&format!("did not end within {} s of being told to", timeout.as_secs())));
            }
            sleep(POLL_INTERVAL);
        }
    }

    /// How long its threads have waited for a processor of the host, in all. `None` where the kernel does not count it
    /// (`CONFIG_SCHED_INFO`).
    pub fn waited(&self) -> Option<Duration> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).ok()?;
        let waited = tasks.map(|task| {
            let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
            waited_ns(&text)
        });
        waited.sum::<Option<u64>>().map(Duration::from_nanos)
    }

    /// Kills the program.
    pub fn kill(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// An error about the program that quotes the end of its log.
    pub fn failed(&self, problem: &str) -> LabError {
        let text =
            std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines[lines.len().saturating_sub(QUOTED_LINES_MAX)..].join("; ");
        LabError::Process { name: self.name.clone(), problem: problem.to_owned(), log: self.log.clone(), last }
    }

    fn signal(&mut self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may have ended already, which the caller sees next.
            let _ = kill_process(pid, signal);
        }
    }
}

/// The time that a thread has waited, from its `schedstat`: time that it ran, time that it waited, times that it was let
/// run.
fn waited_ns(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().nth(1)?.parse().ok()
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.kill();
        }
    }
}

/// Runs `command` to its end. Returns its standard output.
///
/// # Errors
/// The program is not installed, or fails (the error quotes its output).
pub fn run(command: &mut Command) -> Result<String, LabError> {
    let name = name_of(command);
    let output = command.stdin(Stdio::null()).output().map_err(|error| cannot_start(&name, error))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(printed);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let quoted = if errors.trim().is_empty() { printed.trim() } else { errors.trim() }.to_owned();
    Err(LabError::Command { name, status: output.status, output: quoted })
}

/// The program's name: of the program after `--` where another one starts it (`setpriv`).
fn name_of(command: &Command) -> String {
    let started = command.get_args().skip_while(|&argument| argument != "--").nth(1);
    let program = Path::new(started.unwrap_or(command.get_program()));
    program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn cannot_start(name: &str, error: Error) -> LabError {
    match error.kind() {
        ErrorKind::NotFound => LabError::Missing { program: name.to_owned() },
        _ => LabError::Io { path: PathBuf::from(name), source: error },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_program_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let started = Process::start(&mut Command::new("no-such-program"), &folder.path().join("log"));
        let message = started.unwrap_err().to_string();
        assert_eq!(message, "no-such-program is not installed; `iocast doctor --for capture lab` names its package");
        assert_eq!(run(&mut Command::new("no-such-program")).unwrap_err().to_string(), message);
    }

    #[test]
    fn output_of_a_program_that_ends_early_is_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut command = Command::new("sh");
        let mut process = Process::start(command.args(["-c", "echo one; echo two >&2; exit 3"]), &log).unwrap();
        let error = process.wait_until(Duration::from_secs(20), || false).unwrap_err().to_string();
        assert!(error.starts_with("sh ended with exit status: 3: one; two ("), "{error}");
        assert!(run(Command::new("sh").args(["-c", "echo bad >&2; exit 1"])).unwrap_err().to_string().contains("bad"));
        assert_eq!(run(Command::new("sh").args(["-c", "echo good"])).unwrap(), "good\n");
    }

    #[test]
    fn process_ends_on_request_on_timeout_and_on_drop() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let start = |script: &str| Process::start(Command::new("sh").args(["-c", script]), &log).unwrap();
        let mut obeys = start("trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done");
        obeys.wait_until(Duration::from_secs(20), || std::fs::read_to_string(&log).unwrap().contains("up")).unwrap();
        assert_eq!(obeys.end(Duration::from_secs(20)).unwrap().code(), Some(7));
        let mut deaf = start("trap '' TERM; echo up; while :; do sleep 0.01; done");
        deaf.wait_until(Duration::from_secs(20), || std::fs::read_to_string(&log).unwrap().contains("up")).unwrap();
        assert!(deaf.end(Duration::from_millis(100)).unwrap_err().to_string().contains("did not end within"));
        assert_eq!([waited_ns("12 345 6\n"), waited_ns("12"), waited_ns("a b c")], [Some(345), None, None]);
        let dropped = start("sleep 1000");
        assert!(dropped.waited().is_some_and(|waited| waited < Duration::from_secs(100)), "this kernel counts it");
        let folder_of = PathBuf::from(format!("/proc/{}", dropped.child.id()));
        assert!(folder_of.exists());
        drop(dropped);
        assert!(!folder_of.exists());
    }
}
