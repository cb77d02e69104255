//! The priority of the thread that serves. On a busy host it decides how late replies are.

use std::process::{Command, Stdio};

use rustix::process::setpriority_process;
use rustix::thread::gettid;

/// Above all ordinary processes, and below the kernel's own real-time threads.
const FIFO_PRIORITY: &str = "10";
const NICE: i32 = -10;

/// A scheduling priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// `SCHED_FIFO`, priority 10.
    Realtime,
    /// A nice value of -10.
    Nice,
    /// The priority of ordinary processes.
    Normal,
}

/// A priority that is not permitted.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotPermitted(&'static str);

const NO_FIFO: &str = "SCHED_FIFO is not permitted (it takes root or CAP_SYS_NICE, and chrt of Debian's util-linux)";
const NO_NICE: &str = "a nice value of -10 is not permitted (it takes root or CAP_SYS_NICE)";

/// Gives the calling thread the priority `asked`, or the highest that is permitted. Returns a note if that is lower
/// than [`Urgency::Realtime`].
///
/// # Errors
/// The priority `asked` is not permitted.
pub fn take(asked: Option<Urgency>) -> Result<Option<String>, NotPermitted> {
    let late = "on a busy host replies will be later";
    match asked {
        Some(Urgency::Realtime) if !take_fifo() => Err(NotPermitted(NO_FIFO)),
        Some(Urgency::Nice) if !take_nice() => Err(NotPermitted(NO_NICE)),
        Some(_) => Ok(None),
        None if take_fifo() => Ok(None),
        None if take_nice() => Ok(Some(format!("{NO_FIFO}; the server runs at nice -10; {late}"))),
        None => Ok(Some(format!("{NO_FIFO}, nor is a nice value of -10; {late}"))),
    }
}

/// The threads that this one starts do not inherit the priority.
fn take_fifo() -> bool {
    let thread = gettid().as_raw_nonzero().to_string();
    let mut chrt = Command::new("chrt");
    chrt.args(["--reset-on-fork", "--fifo", "--pid", FIFO_PRIORITY, &thread]);
    let status = chrt.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Linux takes the nice value of the calling thread for that of the calling process.
fn take_nice() -> bool {
    setpriority_process(None, NICE).is_ok()
}
