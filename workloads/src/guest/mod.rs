//! Guests: virtual machines whose processes generate their requests. A [`Program`] says what a
//! process does, [`Files`] where its files lie.

pub mod files;
pub mod journal;
pub mod memory;
pub mod metadata;
pub mod page_cache;
pub mod program;
pub mod read_ahead;

mod allocator;
pub(crate) mod transfer;

pub use files::{Extent, FileId, Files, OutOfSpace};
pub use program::{Access, Event, Program, Step};
