//! Synthetic setups: consolidations of random VMs, replayed on simulated devices with known drive and dispatch order.
//!
//! Predictors see only the isolated traces, not the drive or the order. The figures of the VMs together are the truth
//! that forecasts are checked against, for as many seeds as needed.
//!
//! A [`Campaign`] runs VMs in every setup: each VM alone, all pairs and some triples. All runs have the same length and
//! seed, so that a VM's processes are the same. The VMs' disks are equal parts of the drive. The setups leave out
//! stacks of several layers: a setup is one scheduler before one drive.

mod tap;
mod vm;

use drive_models::DriveError;
use replay::ReplayError;
use replay::{Engine, Limits, Stage};
use traces::results::isolation::IsolationProfile;
use traces::spec::{Spec, SpecError};
use traces::{Lba, Nanos, Record, Sectors, Timestamp};
use workloads::{Guests, Until};

pub use self::tap::Tap;
use self::vm::VmPlan;
use crate::isolated_trace::IsolatedTrace;

/// A synthetic setup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyntheticSetup {
    /// The drive, named as in `iocast list drives`.
    pub drive: &'static str,
    /// Scheduler in front of the drive.
    pub scheduler: &'static str,
    /// Most requests that the drive has at once.
    pub depth: u32,
    /// The dispatch order that a predictor should identify ([`traces::results::prediction::DevicePolicy`]).
    pub policy: &'static str,
}

impl SyntheticSetup {
    /// The limits of its stage. Without merging, the tap records the requests as the VMs sent them.
    pub fn limits(&self) -> Limits {
        Limits { depth: self.depth, merge: false, ..Limits::default() }
    }
}

/// The setups. They differ in drive, dispatch order, cache and depth, which a predictor has to infer.
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

/// The consolidations that run in each setup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Campaign {
    /// Seed of all random draws.
    pub seed: u64,
    /// Number of VMs in each setup.
    pub vms: usize,
    /// Time that the VMs run.
    pub span: Nanos,
    /// Time at the beginning that all figures leave out.
    pub warm_up: Nanos,
}

impl Default for Campaign {
    /// Six VMs in five setups: 75 pairs, and five triples in each setup.
    fn default() -> Campaign {
        Campaign { seed: 1, vms: 6, span: Nanos::from_s(60), warm_up: Nanos::from_s(5) }
    }
}

/// A VM that ran, as recorded at the setup's tap.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Its isolation profile.
    pub profile: IsolationProfile,
    /// Its requests.
    pub trace: IsolatedTrace,
}

/// The figures of VMs that ran together.
#[derive(Clone, Debug)]
pub struct Truth {
    /// The setup.
    pub setup: SyntheticSetup,
    /// The numbers of the VMs.
    pub members: Vec<usize>,
    /// The profile of each VM together with the others, in the order of `members`.
    pub together: Vec<IsolationProfile>,
}

/// The reason why a setup could not run.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// An error of the drive.
    #[error("{0}")]
    Drive(#[from] DriveError),
    /// An invalid spec of a scheduler, drive or workload.
    #[error("{0}")]
    Spec(#[from] SpecError),
    /// An error of a workload.
    #[error("{0}")]
    Workload(#[from] workloads::programs::WorkloadError),
    /// A VM's disk is too small.
    #[error("{0}")]
    Disk(#[from] workloads::guest::files::OutOfSpace),
    /// An error of the replay.
    #[error("{0}")]
    Replay(#[from] ReplayError),
}

impl Campaign {
    /// The groups of VMs that run together in a setup: all pairs, and five triples at equal distances.
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

    /// The requests of VM `vm` alone in `setup`, in order of arrival. Its disk is the first `share` of the drive, so that
    /// it has the same files in every setup.
    ///
    /// # Errors
    /// The setup cannot run.
    pub fn recorded(&self, setup: SyntheticSetup, vm: usize, share: Sectors) -> Result<Vec<Record>, SetupError> {
        let plan = VmPlan::draw(self.seed, 0, vm, share).at(Lba::ZERO);
        let tap = self.tap(setup, &[plan])?;
        let mut records = tap.between(Timestamp::ZERO, Timestamp::ZERO + self.span);
        records.sort_by_key(|record| record.request.arrival);
        Ok(records)
    }

    /// Runs every VM of `setup` alone. `index` is the number of the setup.
    ///
    /// # Errors
    /// The setup cannot run.
    pub fn alone(&self, setup: SyntheticSetup, index: usize) -> Result<Vec<Ran>, SetupError> {
        (0..self.vms).map(|vm| Ok(self.run(setup, index, &[vm])?.remove(0))).collect()
    }

    /// Runs the VMs `members` of `setup` together. `index` is the number of the setup.
    ///
    /// # Errors
    /// The setup cannot run.
    pub fn together(&self, setup: SyntheticSetup, index: usize, members: &[usize]) -> Result<Truth, SetupError> {
        let ran = self.run(setup, index, members)?;
        let together = ran.into_iter().map(|ran| ran.profile).collect();
        Ok(Truth { setup, members: members.to_vec(), together })
    }

    /// The workloads of VM `vm`, each with its tunables, if its disk has this size.
    pub fn drawn(&self, vm: usize, share: Sectors) -> Vec<String> {
        VmPlan::draw(self.seed, 0, vm, share).workloads
    }

    /// The workloads of `vm` in `setup`, each with its tunables. `index` is the number of the setup.
    ///
    /// # Errors
    /// The drive cannot be built.
    pub fn workloads(&self, setup: SyntheticSetup, index: usize, vm: usize) -> Result<Vec<String>, SetupError> {
        let drive = drive_models::build(&spec(setup.drive)?)?.drive;
        Ok(VmPlan::draw(self.seed, index, vm, self.share(drive.capacity())).workloads)
    }

    /// The size of a VM's part of a drive.
    fn share(&self, capacity: Sectors) -> Sectors {
        Sectors::new(capacity.count() / self.vms as u64 / ALIGNMENT * ALIGNMENT)
    }

    /// The name of a VM.
    pub fn name(setup: usize, vm: usize) -> String {
        format!("setup{}-vm{}", setup + 1, vm + 1)
    }

    fn run(&self, setup: SyntheticSetup, index: usize, members: &[usize]) -> Result<Vec<Ran>, SetupError> {
        let capacity = drive_models::build(&spec(setup.drive)?)?.drive.capacity();
        let share = self.share(capacity);
        let plans: Vec<VmPlan> = members.iter().map(|&vm| VmPlan::draw(self.seed, index, vm, share)).collect();
        let tap = self.tap(setup, &plans)?;
        let from = Timestamp::ZERO + self.warm_up;
        let names = members.iter().map(|&vm| Self::name(index, vm));
        Ok(tap.ran(names, from, Timestamp::ZERO + self.span, capacity))
    }

    /// Runs these VMs.
    fn tap(&self, setup: SyntheticSetup, plans: &[VmPlan]) -> Result<Tap, SetupError> {
        let drive = drive_models::build(&spec(setup.drive)?)?.drive;
        let scheduler = schedulers::build(&spec(setup.scheduler)?)?.scheduler;
        let guests = plans.iter().map(VmPlan::boot).collect::<Result<Vec<_>, SetupError>>()?;
        let until = Until { requests: None, time: Some(Timestamp::ZERO + self.span) };
        let watcher = Tap::new(plans.len());
        let stage = Stage::new(scheduler, setup.limits());
        Ok(Engine::new(Guests::new(guests, until), stage, drive, watcher).run()?.observer)
    }
}

/// Most triples in each setup.
const TRIPLES: usize = 5;
/// Places are multiples of this number of sectors: 1 MiB.
const ALIGNMENT: u64 = 2048;

fn spec(text: &str) -> Result<Spec, SpecError> {
    text.parse()
}
