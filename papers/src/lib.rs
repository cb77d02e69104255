//! Regenerates the results of published papers: their experiments as replays, beside the numbers that they print.

use std::sync::atomic::AtomicU64;

use traces::results::reproduction::Reproduction;
use traces::spec::SpecError;

use replay::ReplayError;
use workloads::guest::OutOfSpace;

pub mod casale2011;
pub mod estimate;
pub mod geist2010;
pub mod kim2015;
pub mod noorshams2014;
pub mod ranking;
pub mod rules;

/// A paper whose results are regenerated.
pub struct Paper {
    /// The name on the command line.
    pub name: &'static str,
    /// Authors, year and title.
    pub title: &'static str,
    /// Number of jobs for a number of seeds, with or without alternatives, for a progress bar.
    pub jobs: fn(seeds: usize, alternatives: bool) -> u64,
    /// Regenerates the results in one or several threads, and counts the completed jobs. The result does not depend on
    /// the number of threads. Alternatives may be left out; they only show the results of other choices.
    pub reproduce: fn(seeds: &[u64], alternatives: bool, done: &AtomicU64) -> Result<Reproduction, ReproduceError>,
}

/// Every paper.
pub const PAPERS: &[Paper] = &[geist2010::PAPER, kim2015::PAPER, casale2011::PAPER, noorshams2014::PAPER];

/// The reason why a reproduction failed.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// An invalid spec of a part.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// An error of a drive.
    #[error(transparent)]
    Drive(#[from] drive_models::DriveError),
    /// An error of a replay.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The file set does not fit the disk.
    #[error(transparent)]
    Full(#[from] OutOfSpace),
    /// A guest cannot have its files and processes.
    #[error(transparent)]
    Guest(#[from] workloads::programs::description::PopulateError),
    /// An error of a workload.
    #[error(transparent)]
    Workload(#[from] workloads::programs::WorkloadError),
    /// An error of a description of workloads.
    #[error(transparent)]
    Description(traces::DescriptionError),
    /// An error of a stack.
    #[error(transparent)]
    Stack(#[from] replay::stack::StackError),
    /// An error of a replay on a virtual disk.
    #[error(transparent)]
    Live(#[from] replay::live::LiveError),
    /// A virtual disk cannot be measured.
    #[error("{0}")]
    VirtualDisk(String),
    /// A model that is to be calibrated does not fit what was measured.
    #[error("response times do not grow with the number of threads, so that the model cannot be calibrated")]
    NotCalibrated,
    /// A model has no solution.
    #[error(transparent)]
    Predict(#[from] predictors::PredictError),
    /// It was asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// An error in the measurement of a drive.
    #[error(transparent)]
    Reads(#[from] drive_models::calibration::ReadsError),
}
