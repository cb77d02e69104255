//! The papers whose results are regenerated: their set-ups as replays, and their numbers.

pub mod estimate;
pub mod geist2010;
