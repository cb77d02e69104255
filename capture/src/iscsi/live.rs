//! Packets of an interface, through Wireshark's dumpcap, which writes pcapng into a pipe. Only that program needs to be
//! allowed to capture; payload never reaches a disk.

use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::JoinHandle;

use super::backlog::Backlog;

/// The program, and the Debian package that it is in.
const PROGRAM: &str = "dumpcap";
const PACKAGE: &str = "wireshark-common";
/// Memory for packets that wait to be read.
const BUFFER_MIB: u32 = 64;

/// Why nothing can be captured.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The program is not installed.
    #[error("{PROGRAM} is not installed; it is in the Debian package {PACKAGE}")]
    NotInstalled,
    /// The program cannot be run.
    #[error("{PROGRAM} cannot be run: {0}")]
    NotRun(io::Error),
    /// The program has failed.
    #[error("{PROGRAM} cannot capture on {interface}: {stderr}{}", remedy(stderr))]
    Failed {
        /// On what.
        interface: String,
        /// What it stderr.
        stderr: String,
    },
}

fn remedy(stderr: &str) -> &'static str {
    if stderr.contains("ermission") || stderr.contains("perform this operation") {
        "; capturing needs root, or the capability CAP_NET_RAW (setcap cap_net_raw,cap_net_admin+eip on dumpcap)"
    } else if stderr.contains("No such device") {
        "; `ip link` names the interfaces"
    } else {
        ""
    }
}

/// A running capture.
pub struct LiveCapture {
    interface: String,
    child: Child,
    stderr: Option<JoinHandle<String>>,
}

impl LiveCapture {
    /// Captures TCP of these ports on `interface`, `snaplen` bytes of each packet. What comes out is pcapng.
    ///
    /// # Errors
    /// The program is missing or cannot be run.
    pub fn begin(interface: &str, ports: &[u16], snaplen: u32) -> Result<(LiveCapture, Backlog), LiveError> {
        let wanted: Vec<String> = ports.iter().map(|port| format!("tcp port {port}")).collect();
        // A filter looks at the outer header only, so frames with one tag, and with two, are asked for
        // once more.
        let filter = format!("({0}) or (vlan and (({0}) or (vlan and ({0}))))", wanted.join(" or "));
        let mut command = Command::new(found(PROGRAM));
        command.args(["-q", "-n", "-i", interface, "-f", &filter, "-w", "-"]);
        command.args(["-s", &snaplen.to_string(), "-B", &BUFFER_MIB.to_string()]);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(|error| {
                match error.kind() {
                    io::ErrorKind::NotFound => LiveError::NotInstalled,
                    _ => LiveError::NotRun(error),
                }
            })?;
        let (Some(output), Some(errors)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(LiveError::NotRun(io::Error::other("it has no pipes")));
        };
        Ok((
            LiveCapture { interface: interface.to_owned(), child, stderr: Some(read_stderr(errors)) },
            Backlog::new(output),
        ))
    }

    /// Number of the process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end, after its output has ended.
    ///
    /// # Errors
    /// It has failed.
    pub fn finish(mut self) -> Result<(), LiveError> {
        let status = self.child.wait().map_err(LiveError::NotRun)?;
        let stderr = self.stderr.take().and_then(|stderr| stderr.join().ok()).unwrap_or_default();
        if status.success() {
            return Ok(());
        }
        let lines = stderr.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("Capturing on"));
        let stderr: Vec<&str> = lines.take(2).map(str::trim).collect();
        Err(LiveError::Failed { interface: self.interface.clone(), stderr: stderr.join(" ") })
    }
}

impl Drop for LiveCapture {
    fn drop(&mut self) {
        // Already at an end after `finish`; else nobody reads what it would write.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks a capturing program to end; one that has ended already is left alone. Not by an interrupt, which is ignored by whatever
/// a shell started in the background.
pub fn interrupt(process: u32) {
    let process = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(process) = process {
        // It may have ended by itself.
        let _ = rustix::process::kill_process(process, rustix::process::Signal::TERM);
    }
}

/// Takes in all that a program says.
pub(super) fn read_stderr(mut errors: ChildStderr) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        // What cannot be read is not stderr.
        let _ = errors.read_to_string(&mut text);
        text
    })
}

/// The program by its path: it lies where only administrators look.
pub(super) fn found(program: &str) -> PathBuf {
    let there = ["/usr/bin", "/usr/sbin", "/usr/local/bin"].map(|folder| PathBuf::from(folder).join(program));
    there.into_iter().find(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(program))
}
