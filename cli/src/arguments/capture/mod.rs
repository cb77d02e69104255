//! The arguments of `iocast capture`, a file per kind of capture.

mod block;
mod cleanup;
mod decisions;
mod iscsi;
mod lab;
mod recover;
mod scrub;

use clap::Subcommand;

pub use block::{Block, VmBy, parse_seconds};
pub use cleanup::Cleanup;
pub use decisions::Decisions;
pub use iscsi::{DigestsArgument, Engine, Iscsi};
pub use lab::{Lab, LabFolders};
pub use recover::Recover;
pub use scrub::Scrub;

#[derive(Debug, Subcommand)]
pub enum Capture {
    /// Record the requests of block devices while they are in use
    ///
    /// Uses the first backend that works, and names it: the program blktrace, the block layer's tracepoints in a
    /// private instance of tracefs, or the kernel's tracer blk. Needs root. Tracing is switched off afterwards even if
    /// the capture is killed. A trace that is cut short is readable except for its last five seconds.
    Block(Block),
    /// Switch off the tracing that killed captures have left on in the kernel
    Cleanup(Cleanup),
    /// Record the decisions of a device's scheduler, for `iocast validate decisions`
    Decisions(Decisions),
    /// Make a trace of iSCSI on the wire: from an interface, or from a file of tcpdump, dumpcap or Wireshark
    ///
    /// Walks from PDU to PDU by the lengths in their headers and pairs each SCSI command with its status. Payload is
    /// skipped and never stored. Losses of the capture are counted; nothing is invented.
    Iscsi(Iscsi),
    /// Run VMs alone and together on one modelled drive, and record their requests
    ///
    /// VMs under QEMU with Debian's kernel run fio jobs on disks that `iocast serve` serves. blktrace records inside
    /// each guest, the served drive keeps a log, and iSCSI is captured on the wire. Everything runs in separate
    /// namespaces: nothing leaves the host, and no process is left behind. The image that VMs boot is built of Debian
    /// packages on first use.
    Lab(Lab),
    /// Complete in place a trace whose capture was killed, or the log of a killed `iocast serve`
    Recover(Recover),
    /// Remove user data from a capture of iSCSI, and keep every header
    ///
    /// Every byte of user data becomes zero, so that the result compresses well. Logins, with their names and
    /// passwords, also become zero. Packets that are not iSCSI are left out.
    Scrub(Scrub),
    /// Switch tracing off if a capture is killed
    #[command(hide = true)]
    Supervise,
}
