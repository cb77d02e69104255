//! Live captures of block I/O: of block devices, from the kernel (`block`); of iSCSI, from the packets on the wire
//! (`iscsi`); and of a lab of VMs, which uses both (`lab`).
#![warn(missing_docs)]

pub mod block;
pub mod iscsi;
pub mod lab;
mod silence;

pub use silence::{Reading, Silence};
