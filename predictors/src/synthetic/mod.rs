//! Consolidations replayed: machines drawn at random, alone and together in a synthetic setup whose drive and order are known to nobody
//! but the setup. What machines get together there is a truth to hold forecasts against, as often as one likes.
//!
//! A [`Campaign`] is setups times machines. Every machine runs alone in its setup, every two and some three run together, each for the same
//! time with the same seed, so that its processes do the same. Places on the drive are equal shares of it.

mod tap;
mod vm;

use drive_models::DriveError;
use replay::ReplayError;
use replay::{Engine, Limits, Stage};
use traces::results::isolation::IsolationProfile;
use traces::spec::{Spec, SpecError};
use traces::{Nanos, Sectors, Timestamp};
use workloads::{Guests, Until};

pub use self::tap::Tap;
use self::vm::VmPlan;
use crate::isolated_trace::IsolatedTrace;

/// A synthetic setup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyntheticSetup {
    /// Its drive, as `iocast list drives` has them.
    pub drive: &'static str,
    /// Who decides what waits in front of it.
    pub scheduler: &'static str,
    /// How many requests the drive has at once.
    pub depth: u32,
    /// What a predictor is to tell of its order ([`traces::results::prediction::DevicePolicy`]).
    pub policy: &'static str,
}

/// Setups that differ in what a predictor has to find out: the drive, the order, the cache, how much goes on at once.
pub const SYNTHETIC_SETUPS: &[SyntheticSetup] = &[
    SyntheticSetup { drive: "cheetah-9lp", scheduler: "fifo", depth: 1, policy: "fcfs" },
    SyntheticSetup { drive: "atlas-10k", scheduler: "read-priority", depth: 1, policy: "read-priority" },
    SyntheticSetup {
        drive: "cheetah-15k4-mechanical",
        scheduler: "read-priority:drain_at=8,drain_to=2",
        depth: 1,
        policy: "read-priority-drain",
    },
    SyntheticSetup { drive: "ds8700-raid5-7", scheduler: "fifo", depth: 32, policy: "unknown" },
    SyntheticSetup { drive: "barracuda", scheduler: "weighted:reads=3,writes=1", depth: 1, policy: "weighted" },
];

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Campaign {
    /// Of everything that is drawn.
    pub seed: u64,
    /// Machines of each setup.
    pub vms: usize,
    /// How long everybody runs.
    pub span: Nanos,
    /// Left out of every figure at the beginning.
    pub warm_up: Nanos,
}

impl Default for Campaign {
    /// Six machines in five setups make 75 pairs, and five triples of each setup.
    fn default() -> Campaign {
        Campaign { seed: 1, vms: 6, span: Nanos::from_s(60), warm_up: Nanos::from_s(5) }
    }
}

/// A machine that ran, by what was seen at the setup's tap.
#[derive(Clone, Debug)]
pub struct Ran {
    /// What it did and got.
    pub profile: IsolationProfile,
    /// Request by request.
    pub trace: IsolatedTrace,
}

/// Machines alone and together.
#[derive(Clone, Debug)]
pub struct Truth {
    /// The setup.
    pub setup: SyntheticSetup,
    /// Who, by number.
    pub members: Vec<usize>,
    /// What each got, in the order of `members`.
    pub together: Vec<IsolationProfile>,
}

/// Why a setup could not run.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// Its drive.
    #[error("{0}")]
    Drive(#[from] DriveError),
    /// Its scheduler, or a workload.
    #[error("{0}")]
    Spec(#[from] SpecError),
    /// A workload.
    #[error("{0}")]
    Workload(#[from] workloads::programs::WorkloadError),
    /// A disk is too small.
    #[error("{0}")]
    Disk(#[from] workloads::guest::files::OutOfSpace),
    /// The run.
    #[error("{0}")]
    Replay(#[from] ReplayError),
}

impl Campaign {
    /// The groups of a setup that run together: all pairs, and of its triples every so many that five are left.
    pub fn groups(&self) -> Vec<Vec<usize>> {
        let vms = 0..self.vms;
        let after = |first: usize| first + 1..self.vms;
        let pairs = vms.clone().flat_map(|first| after(first).map(move |second| vec![first, second]));
        let triples = vms.flat_map(|first| {
            after(first).flat_map(move |second| after(second).map(move |third| vec![first, second, third]))
        });
        let triples: Vec<Vec<usize>> = triples.collect();
        let step = triples.len().div_ceil(TRIPLES).max(1);
        pairs.chain(triples.into_iter().step_by(step)).collect()
    }

    /// Every machine of `setup`, the `index`th, alone.
    ///
    /// # Errors
    /// What the setup says.
    pub fn alone(&self, setup: SyntheticSetup, index: usize) -> Result<Vec<Ran>, SetupError> {
        (0..self.vms).map(|vm| Ok(self.run(setup, index, &[vm])?.remove(0))).collect()
    }

    /// `members` of `setup`, the `index`th, together.
    ///
    /// # Errors
    /// What the setup says.
    pub fn together(&self, setup: SyntheticSetup, index: usize, members: &[usize]) -> Result<Truth, SetupError> {
        let ran = self.run(setup, index, members)?;
        let together = ran.into_iter().map(|ran| ran.profile).collect();
        Ok(Truth { setup, members: members.to_vec(), together })
    }

    /// What `vm` of `setup`, the `index`th, runs: kinds of processes with their settings.
    ///
    /// # Errors
    /// Its drive.
    pub fn workloads(&self, setup: SyntheticSetup, index: usize, vm: usize) -> Result<Vec<String>, SetupError> {
        let drive = drive_models::build(&spec(setup.drive)?)?.drive;
        Ok(VmPlan::draw(self.seed, index, vm, self.share(drive.capacity())).workloads)
    }

    /// Each machine's part of a drive.
    fn share(&self, capacity: Sectors) -> Sectors {
        Sectors::new(capacity.count() / self.vms as u64 / ALIGNMENT * ALIGNMENT)
    }

    /// The name of a machine.
    pub fn name(setup: usize, vm: usize) -> String {
        format!("room{}-vm{}", setup + 1, vm + 1)
    }

    fn run(&self, setup: SyntheticSetup, index: usize, members: &[usize]) -> Result<Vec<Ran>, SetupError> {
        let drive = drive_models::build(&spec(setup.drive)?)?.drive;
        let scheduler = schedulers::build(&spec(setup.scheduler)?)?.scheduler;
        let share = self.share(drive.capacity());
        let plans: Vec<VmPlan> = members.iter().map(|&vm| VmPlan::draw(self.seed, index, vm, share)).collect();
        let guests = plans.iter().map(VmPlan::boot).collect::<Result<Vec<_>, SetupError>>()?;
        let until = Until { requests: None, time: Some(Timestamp::ZERO + self.span) };
        // What the tap shows has not been merged, since nothing waits before it.
        let limits = Limits { depth: setup.depth, merge: false, ..Limits::default() };
        let capacity = drive.capacity();
        let watcher = Tap::new(members.len());
        let ended = Engine::new(Guests::new(guests, until), Stage::new(scheduler, limits), drive, watcher).run()?;
        let from = Timestamp::ZERO + self.warm_up;
        let names = members.iter().map(|&vm| Self::name(index, vm));
        Ok(ended.observer.ran(names, from, Timestamp::ZERO + self.span, capacity))
    }
}

/// Triples of each setup.
const TRIPLES: usize = 5;
/// Places are multiples of 1 MiB.
const ALIGNMENT: u64 = 2048;

fn spec(text: &str) -> Result<Spec, SpecError> {
    text.parse()
}
