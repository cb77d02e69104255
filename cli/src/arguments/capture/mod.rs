//! The arguments of `iocast capture`, a file per kind of capture.

mod iscsi;
mod lab;
mod scrub;

use clap::Subcommand;

pub use iscsi::{DigestsArgument, Engine, Iscsi};
pub use lab::Lab;
pub use scrub::Scrub;

#[derive(Debug, Subcommand)]
pub enum Capture {
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
    /// Take the users' data out of a capture of iSCSI, and leave every header
    ///
    /// Every byte of data becomes zero, so that the result is small once compressed. Logins become zero too, with their
    /// names and passwords. Packets that are not iSCSI are left out.
    Scrub(Scrub),
}
