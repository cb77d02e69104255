//! The arguments of `iocast capture`, a file per kind of capture.

mod block;
mod cleanup;
mod decisions;
mod iscsi;
mod lab;
mod recover;
mod scrub;

use clap::Subcommand;

pub use block::{Block, VmBy};
pub use cleanup::Cleanup;
pub use decisions::Decisions;
pub use iscsi::{DigestsArgument, Engine, Iscsi};
pub use lab::Lab;
pub use recover::Recover;
pub use scrub::Scrub;

#[derive(Debug, Subcommand)]
pub enum Capture {
    /// Record the requests of block devices while they are in use
    ///
    /// Uses the first backend that works, and says which: the program blktrace, the block layer's tracepoints in a private
    /// instance of tracefs, the kernel's tracer blk. Needs root. What is switched on in the kernel is switched off again
    /// whatever happens; a trace that is cut short is readable up to its last five seconds.
    Block(Block),
    /// Remove what captures that were killed have left on in the kernel
    Cleanup(Cleanup),
    /// Record what a device's scheduler decides, for `iocast validate decisions`
    Decisions(Decisions),
    /// Make a trace of iSCSI on the wire: of an interface, or of a file that tcpdump, dumpcap or Wireshark wrote
    ///
    /// Walks from PDU to PDU by the lengths in their headers and pairs each SCSI command with its status. Payload is passed
    /// by and never stored. What the capture lost is counted and never made up.
    Iscsi(Iscsi),
    /// Run virtual machines alone and together on one modelled drive, and record what they do
    ///
    /// QEMU guests with Debian's kernel run fio jobs on disks that `iocast serve` serves. Each is recorded by blktrace inside,
    /// by the served drive's log, and over iSCSI on the wire. All of it happens in namespaces of its own: nothing leaves the
    /// machine, and nothing is left running. What guests boot is built of Debian packages on first use.
    Lab(Lab),
    /// Complete a trace whose recording was killed, in place
    Recover(Recover),
    /// Take the users' data out of a capture of iSCSI, and leave every header
    ///
    /// Every byte of data becomes zero, so that the result is small once compressed. Logins become zero too, with their
    /// names and passwords. Packets that are not iSCSI are left out.
    Scrub(Scrub),
    /// Switch tracing off after a capture that was killed
    #[command(hide = true)]
    Supervise,
}
