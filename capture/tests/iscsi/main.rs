//! iSCSI taken apart: generated conversations whose truth is known, and files that are not as they should be.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod against_tshark;
mod complete_captures;
mod conversation;
mod decoys;
mod decoys_rejected;
mod files;
mod incomplete_captures;
mod scrub;
mod session;
