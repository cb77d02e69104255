//! The arguments of `iocast capture`, a file per kind of capture.

mod lab;

use clap::Subcommand;

pub use lab::Lab;

#[derive(Debug, Subcommand)]
pub enum Capture {
    /// Run virtual machines alone and together on one modelled drive, and record what they do
    ///
    /// QEMU guests with Debian's kernel run fio jobs on disks that `iocast serve` serves. Each is recorded by blktrace inside,
    /// by the served drive's log, and over iSCSI on the wire. All of it happens in namespaces of its own: nothing leaves the
    /// machine, and nothing is left running. What guests boot is built of Debian packages on first use.
    Lab(Lab),
}
