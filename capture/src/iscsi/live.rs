//! Captures packets of an interface by Wireshark's dumpcap, which writes pcapng into a pipe. Only dumpcap needs the
//! permission to capture. Payload never reaches a disk.

use std::io::{self, Read};
use std::process::{Child, ChildStderr, Stdio};
use std::thread::JoinHandle;

use super::backlog::Backlog;
use super::interface;
use crate::programs;
use crate::silence::{Reading, Silence, counted};

const PROGRAM: &str = "dumpcap";
/// dumpcap's buffer for packets, in MiB.
const BUFFER_MIB: u32 = 64;

/// Why packets cannot be captured.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The program is not installed.
    #[error("{PROGRAM} is not installed; `iocast doctor --for capture iscsi` names its package")]
    NotInstalled,
    /// The program cannot be run.
    #[error("{PROGRAM} cannot be run: {0}")]
    NotRun(io::Error),
    /// The program has failed.
    #[error("{PROGRAM} cannot capture on {interface}: {stderr}{}", remedy(stderr))]
    Failed {
        /// The interface.
        interface: String,
        /// The program's message.
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
    ports: Vec<u16>,
    child: Child,
    stderr: Option<JoinHandle<String>>,
    /// The kernel's count of packets at the beginning.
    before: Reading,
}

impl LiveCapture {
    /// Captures TCP packets of these ports on `interface`, `snaplen` bytes of each. The output is pcapng.
    ///
    /// # Errors
    /// The program is missing or cannot be run.
    pub fn begin(interface: &str, ports: &[u16], snaplen: u32) -> Result<(LiveCapture, Backlog), LiveError> {
        let wanted: Vec<String> = ports.iter().map(|port| format!("tcp port {port}")).collect();
        // A filter matches the outermost header only. It is repeated for frames with one and with two VLAN tags.
        let filter = format!("({0}) or (vlan and (({0}) or (vlan and ({0}))))", wanted.join(" or "));
        let mut command = programs::command(PROGRAM);
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
            return Err(LiveError::NotRun(io::Error::other("its pipes are missing")));
        };
        let capture = LiveCapture {
            interface: interface.to_owned(),
            ports: ports.to_vec(),
            child,
            stderr: Some(read_stderr(errors)),
            before: interface::packets(interface),
        };
        Ok((capture, Backlog::new(output)))
    }

    /// What it means if no packet has been captured.
    pub fn silence(&self) -> Silence {
        let counted = counted(&self.before, &interface::packets(&self.interface));
        Silence::of_interface(&self.interface, &self.ports, &counted)
    }

    /// The process id.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the program ends, after its output has ended.
    ///
    /// # Errors
    /// The program failed.
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
        // After `finish` the program has ended already; otherwise its output has no reader.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks a capturing program to end; a program that has ended is not an error. Uses SIGTERM, because a shell starts
/// background programs with SIGINT ignored.
pub fn interrupt(process: u32) {
    let process = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(process) = process {
        // It may have ended already.
        let _ = rustix::process::kill_process(process, rustix::process::Signal::TERM);
    }
}

/// Collects a program's standard error in a thread.
pub(super) fn read_stderr(mut errors: ChildStderr) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        // A read error ends the text.
        let _ = errors.read_to_string(&mut text);
        text
    })
}
