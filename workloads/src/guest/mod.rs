//! Guests: the inside of VMs, whose processes generate their requests. A [`Program`] defines the steps of a process,
//! [`Files`] the places of its files.

pub mod files;
pub mod journal;
pub mod memory;
pub mod metadata;
pub mod page_cache;
mod page_index;
pub mod program;
pub mod read_ahead;

mod allocator;
pub(crate) mod transfer;

pub use files::{Extent, FileId, Files, OutOfSpace};
pub use program::{Access, Event, Program, Step};
