//! The analysis of iSCSI captures: generated conversations whose truth is known, and damaged files.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod against_tshark;
mod complete_captures;
mod conversation;
mod decoys;
mod decoys_rejected;
mod files;
mod incomplete_captures;
mod scrub;
mod scrub_damaged;
mod session;
