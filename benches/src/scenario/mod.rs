//! A scheduler comparison with stored expectations: a question, traces or workloads, a drive, schedulers, and the
//! figures that a deterministic replay must give. A changed figure is a changed decision or a changed model: either a
//! mistake or a reason to state a new expectation.

pub mod figures;

mod expected;
mod file;
mod replayed;

use std::path::PathBuf;

use replay::Limits;
use replay::sources::{Pacing, TimeWindow};
use replay::stack::StackSpec;
use traces::Sectors;
use traces::spec::Spec;
use workloads::Until;
use workloads::plan::{GuestSettings, Named};

pub use replayed::ScenarioError;

/// A scenario, checked: all that it names exists.
#[derive(Debug)]
pub struct Scenario {
    /// Its name: the file's, without the ending.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// What is asked, as a sentence.
    pub question: String,
    /// The seeds of the workloads, each with a replay of its own.
    pub seeds: Vec<u64>,
    /// The schedulers and what is expected of them.
    pub schedulers: Vec<Candidate>,
    /// What must hold between schedulers.
    pub bounds: Vec<Bound>,
    /// Names of the VMs, in the order of their numbers.
    vms: Vec<String>,
    load: Load,
}

/// What is replayed.
#[derive(Debug)]
enum Load {
    Traces { traces: Vec<Trace>, pacing: Pacing, window: TimeWindow },
    Guests { named: Vec<Named>, settings: GuestSettings, until: Until },
}

/// A VM's trace.
#[derive(Debug)]
struct Trace {
    name: String,
    path: PathBuf,
    place: Sectors,
}

/// Where the compared schedulers stand.
#[derive(Clone, Debug)]
enum Scheduling {
    /// In one stage above the drive.
    Stage(Limits),
    /// In this layer of a stack.
    Stack(StackSpec, usize),
}

/// A scheduler and the figures expected of it.
#[derive(Debug)]
pub struct Candidate {
    /// The scheduler as the file names it, with the drive behind it if it has one of its own.
    pub name: String,
    /// The scheduler as it is set for the drive, with paths from where the program runs.
    scheduler: Spec,
    drive: Spec,
    scheduling: Scheduling,
    /// How far a figure may be from the expected one, in thousandths of a percent.
    pub tolerance: u64,
    /// The expected figures, in the order of their lines.
    pub figures: Vec<ExpectedFigure>,
    /// Why they are what they are; empty if none is expected.
    pub reason: String,
}

/// An expected figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedFigure {
    /// Its name, behind that of a VM and a dot if it is of one VM.
    pub name: String,
    /// Its value for each seed.
    pub by_seed: Vec<u64>,
    /// Its line in the file, from 1.
    pub line: usize,
}

/// What must hold of a scheduler's figure: a limit in the figure's unit, or in multiples of another scheduler's.
#[derive(Clone, Debug)]
pub struct Bound {
    /// The name of the scheduler.
    pub scheduler: String,
    /// The figure, behind the name of a VM and a dot if it is of one VM.
    pub figure: String,
    /// The limit.
    pub limit: Limit,
    /// The name of the scheduler whose figure it is divided by.
    pub of: Option<String>,
    /// Why it must hold.
    pub reason: String,
    /// The line of the limit in the file, from 1.
    pub line: usize,
}

/// The side on which a figure must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Not above.
    AtMost(f64),
    /// Not below.
    AtLeast(f64),
}
