//! What the running process, or another program, has cost: from `/proc` (proc(5)).

use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, io, thread};

/// CPU seconds (user and system) of this process, to the kernel's tick of 10 ms; `None` where
/// there is no `/proc`.
pub fn cpu_seconds() -> Option<f64> {
    own_ticks([11, 12])
}

/// The same of all programs that this process has started and that have ended.
pub fn children_cpu_seconds() -> Option<f64> {
    own_ticks([13, 14])
}

/// The sum of two fields of this process's stat, counted behind its name, in seconds.
fn own_ticks(wanted: [usize; 2]) -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The command's name, in parentheses, may hold anything; the fields after it are numbers.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: Option<u64> = wanted.iter().map(|at| fields.get(*at)?.parse::<u64>().ok()).sum();
    Some(ticks? as f64 / 100.0)
}

/// The most memory this process has had resident, in bytes.
pub fn resident_max_bytes() -> Option<u64> {
    resident(&fs::read_to_string("/proc/self/status").ok()?)
}

/// What a program has cost that ran to its end.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// CPU seconds, user and system, to the kernel's tick of 10 ms.
    pub cpu_seconds: f64,
    /// The most memory it had resident, looked at every few milliseconds.
    pub resident_max_bytes: u64,
}

/// Runs a program and measures it, as `/proc` shows it before its end is acknowledged.
///
/// # Errors
/// A program that cannot be started or fails.
pub fn of_program(command: &mut Command) -> io::Result<Cost> {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let folder = format!("/proc/{}", child.id());
    let mut resident_max_bytes = 0;
    // Once it has ended it is a zombie (Z) until it is waited for, and its times can still be read.
    let ticks = loop {
        let stat = fs::read_to_string(format!("{folder}/stat"))?;
        let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        if let Some(bytes) = fs::read_to_string(format!("{folder}/status")).ok().as_deref().and_then(resident) {
            resident_max_bytes = bytes;
        }
        if fields.first() == Some(&"Z") {
            let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
            break number(11) + number(12);
        }
        thread::sleep(Duration::from_millis(3));
    };
    let status = child.wait()?;
    if !status.success() {
        return Err(io::Error::other(format!("{command:?} ended with {status}")));
    }
    Ok(Cost { cpu_seconds: ticks as f64 / 100.0, resident_max_bytes })
}

fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
}
