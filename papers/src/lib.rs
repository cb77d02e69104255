//! The papers whose results are regenerated: their set-ups as replays, and their numbers.

use std::sync::atomic::AtomicU64;

use traces::results::reproduction::Reproduction;
use traces::spec::SpecError;

use replay::ReplayError;
use workloads::guest::OutOfSpace;

pub mod casale2011;
pub mod estimate;
pub mod geist2010;
pub mod kim2015;

/// A paper that is regenerated.
pub struct Paper {
    /// The name on the command line.
    pub name: &'static str,
    /// Authors, year and title.
    pub title: &'static str,
    /// How many jobs it takes for so many seeds, with or without the alternatives, for a progress bar.
    pub jobs: fn(seeds: usize, alternatives: bool) -> u64,
    /// Regenerates it, a job after another or several at a time; counts the jobs that are done. The
    /// result does not depend on how many threads there are. Alternatives, which only say what other
    /// choices would have given, may be left out.
    pub reproduce: fn(seeds: &[u64], alternatives: bool, done: &AtomicU64) -> Result<Reproduction, ReproduceError>,
}

/// Every paper.
pub const PAPERS: &[Paper] = &[geist2010::PAPER, kim2015::PAPER, casale2011::PAPER];

/// Why a reproduction failed.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// A part is refused.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A drive is refused.
    #[error(transparent)]
    Drive(#[from] drive_models::DriveError),
    /// A replay stopped.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The file set does not fit the disk.
    #[error(transparent)]
    Full(#[from] OutOfSpace),
    /// A workload is refused.
    #[error(transparent)]
    Workload(#[from] workloads::programs::WorkloadError),
    /// A description of workloads is refused.
    #[error(transparent)]
    Description(traces::DescriptionError),
    /// A stack is refused.
    #[error(transparent)]
    Stack(#[from] replay::stack::StackError),
    /// A drive cannot be measured.
    #[error(transparent)]
    Reads(#[from] drive_models::calibration::ReadsError),
}
