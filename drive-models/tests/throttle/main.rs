//! The virtual performance throttle and the virtual disk behind it.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod conservation;
mod control;
mod specs;
mod submission;
mod timing;
mod virtual_disk;
