//! iSCSI taken apart: generated conversations whose truth is known, and files that are not as they should be.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod conversation;
mod deception;
mod decoys;
mod files;
mod losses;
mod oracle;
mod scrub;
mod shapes;
mod whole;
