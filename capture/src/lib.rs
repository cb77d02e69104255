//! Live captures of block I/O: of block devices, from the kernel (`block`), and of iSCSI, from the packets on the wire
//! (`iscsi`). A lab of VMs (`lab`) uses both.
#![warn(missing_docs)]

pub mod block;
pub mod iscsi;
pub mod lab;
pub mod programs;
pub mod scratch;
mod silence;

pub use silence::{Reading, Silence};
