//! The arguments of `iocast capture`.

mod iscsi;
mod scrub;

use std::path::PathBuf;

use clap::{Args, Subcommand};

pub use iscsi::{DigestsArgument, Engine, Iscsi};
pub use scrub::Scrub;

#[derive(Debug, Subcommand)]
pub enum Capture {
    /// Make a trace of iSCSI on the wire: of an interface, or of a file that tcpdump, dumpcap or Wireshark wrote
    ///
    /// Walks from PDU to PDU by the lengths in their headers and pairs each SCSI command with its status. Payload is passed
    /// by and never stored. What the capture lost is counted and never made up.
    Iscsi(Iscsi),
    /// Run virtual machines alone and together after a plan, and record what they do
    Lab(Lab),
    /// Take the users' data out of a capture of iSCSI, and leave every header
    ///
    /// Every byte of data becomes zero, so that the result is small once compressed. Logins become zero too, with their
    /// names and passwords. Packets that are not iSCSI are left out.
    Scrub(Scrub),
}

#[derive(Debug, Args)]
pub struct Lab {
    /// The plan
    #[arg(value_name = "PLAN.toml")]
    pub plan: PathBuf,
}
