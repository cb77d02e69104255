//! Histograms of a block device's requests by second and VM, as a capture that is always on writes them: one line of
//! JSON each ([`SecondOfVm`](crate::results::histograms::SecondOfVm)).
//!
//! A file may be one of several pieces (`NAME.0001.jsonl`, `NAME.0002.jsonl`); read by the name without a number they
//! are one capture (`pieces.rs`). `reader.rs` reads and checks the lines, `summary.rs` merges them.

mod buckets;
mod pieces;
mod reader;
mod summary;

pub use buckets::{ERROR_SHARE, LogHistogram};
pub use pieces::{files, is_named_like_one, pieces};
pub use reader::{LineReader, recognises};
pub use summary::{Summary, summarise};
