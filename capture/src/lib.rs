//! Live captures of block I/O: what a machine's kernel tells of its devices (`block`), what initiators and targets say on
//! the wire (`iscsi`), and a lab of virtual machines that makes both (`lab`).
#![warn(missing_docs)]

pub mod block;
pub mod iscsi;
pub mod lab;
