//! Consolidations replayed: machines drawn at random, alone and together in a machine room whose drive and order are known to nobody
//! but the room. What machines get together there is a truth to hold forecasts against, as often as one likes.
//!
//! A [`Campaign`] is rooms times machines. Every machine runs alone in its room, every two and some three run together, each for the same
//! time with the same seed, so that its processes do the same. Places on the drive are equal shares of it.

mod door;
mod machine;

use drive_models::DriveError;
use replay::ReplayError;
use replay::{Engine, Limits, Stage};
use traces::results::isolation::IsolationProfile;
use traces::spec::{Spec, SpecError};
use traces::{Nanos, Sectors, Timestamp};
use workloads::{Guests, Until};

pub use self::door::Door;
use self::machine::Plan;
use crate::twin::Recording;

/// A machine room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomPlan {
    /// Its drive, as `iocast list drives` has them.
    pub drive: &'static str,
    /// Who decides what waits in front of it.
    pub scheduler: &'static str,
    /// How many requests the drive has at once.
    pub depth: u32,
    /// What a predictor is to tell of its order ([`traces::results::prediction::DevicePolicy`]).
    pub policy: &'static str,
}

/// Rooms that differ in what a predictor has to find out: the drive, the order, the cache, how much goes on at once.
pub const ROOMS: &[RoomPlan] = &[
    RoomPlan { drive: "cheetah-9lp", scheduler: "fifo", depth: 1, policy: "fcfs" },
    RoomPlan { drive: "atlas-10k", scheduler: "read-priority", depth: 1, policy: "read-priority" },
    RoomPlan {
        drive: "cheetah-15k4-mechanical",
        scheduler: "read-priority:drain_at=8,drain_to=2",
        depth: 1,
        policy: "read-priority-drain",
    },
    RoomPlan { drive: "ds8700-raid5-7", scheduler: "fifo", depth: 32, policy: "unknown" },
    RoomPlan { drive: "barracuda", scheduler: "weighted:reads=3,writes=1", depth: 1, policy: "weighted" },
];

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Campaign {
    /// Of everything that is drawn.
    pub seed: u64,
    /// Machines of each room.
    pub machines: usize,
    /// How long everybody runs.
    pub span: Nanos,
    /// Left out of every figure at the beginning.
    pub warm_up: Nanos,
}

impl Default for Campaign {
    /// Six machines in five rooms make 75 pairs, and five triples of each room.
    fn default() -> Campaign {
        Campaign { seed: 1, machines: 6, span: Nanos::from_s(60), warm_up: Nanos::from_s(5) }
    }
}

/// A machine that ran, by what was seen at the room's door.
#[derive(Clone, Debug)]
pub struct Ran {
    /// What it did and got.
    pub profile: IsolationProfile,
    /// Request by request.
    pub recording: Recording,
}

/// Machines alone and together.
#[derive(Clone, Debug)]
pub struct Truth {
    /// The room.
    pub room: RoomPlan,
    /// Who, by number.
    pub members: Vec<usize>,
    /// What each got, in the order of `members`.
    pub together: Vec<IsolationProfile>,
}

/// Why a room could not run.
#[derive(Debug, thiserror::Error)]
pub enum RoomError {
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
    /// The groups of a room that run together: all pairs, and of its triples every so many that five are left.
    pub fn groups(&self) -> Vec<Vec<usize>> {
        let machines = 0..self.machines;
        let after = |first: usize| first + 1..self.machines;
        let pairs = machines.clone().flat_map(|first| after(first).map(move |second| vec![first, second]));
        let triples = machines.flat_map(|first| {
            after(first).flat_map(move |second| after(second).map(move |third| vec![first, second, third]))
        });
        let triples: Vec<Vec<usize>> = triples.collect();
        let step = triples.len().div_ceil(TRIPLES).max(1);
        pairs.chain(triples.into_iter().step_by(step)).collect()
    }

    /// Every machine of `room`, the `index`th, alone.
    ///
    /// # Errors
    /// What the room says.
    pub fn alone(&self, room: RoomPlan, index: usize) -> Result<Vec<Ran>, RoomError> {
        (0..self.machines).map(|machine| Ok(self.run(room, index, &[machine])?.remove(0))).collect()
    }

    /// `members` of `room`, the `index`th, together.
    ///
    /// # Errors
    /// What the room says.
    pub fn together(&self, room: RoomPlan, index: usize, members: &[usize]) -> Result<Truth, RoomError> {
        let ran = self.run(room, index, members)?;
        let together = ran.into_iter().map(|ran| ran.profile).collect();
        Ok(Truth { room, members: members.to_vec(), together })
    }

    /// What `machine` of `room`, the `index`th, runs: kinds of processes with their settings.
    ///
    /// # Errors
    /// Its drive.
    pub fn workloads(&self, room: RoomPlan, index: usize, machine: usize) -> Result<Vec<String>, RoomError> {
        let drive = drive_models::build(&spec(room.drive)?)?.drive;
        Ok(Plan::draw(self.seed, index, machine, self.share(drive.capacity())).workloads)
    }

    /// Each machine's part of a drive.
    fn share(&self, capacity: Sectors) -> Sectors {
        Sectors::new(capacity.count() / self.machines as u64 / ALIGNMENT * ALIGNMENT)
    }

    /// The name of a machine.
    pub fn name(room: usize, machine: usize) -> String {
        format!("room{}-vm{}", room + 1, machine + 1)
    }

    fn run(&self, room: RoomPlan, index: usize, members: &[usize]) -> Result<Vec<Ran>, RoomError> {
        let drive = drive_models::build(&spec(room.drive)?)?.drive;
        let scheduler = schedulers::build(&spec(room.scheduler)?)?.scheduler;
        let share = self.share(drive.capacity());
        let plans: Vec<Plan> = members.iter().map(|&machine| Plan::draw(self.seed, index, machine, share)).collect();
        let guests = plans.iter().map(Plan::boot).collect::<Result<Vec<_>, RoomError>>()?;
        let until = Until { requests: None, time: Some(Timestamp::ZERO + self.span) };
        // What the door shows has not been merged, since nothing waits before it.
        let limits = Limits { depth: room.depth, merge: false, ..Limits::default() };
        let capacity = drive.capacity();
        let watcher = Door::new(members.len());
        let ended = Engine::new(Guests::new(guests, until), Stage::new(scheduler, limits), drive, watcher).run()?;
        let from = Timestamp::ZERO + self.warm_up;
        let names = members.iter().map(|&machine| Self::name(index, machine));
        Ok(ended.observer.ran(names, from, Timestamp::ZERO + self.span, capacity))
    }
}

/// Triples of each room.
const TRIPLES: usize = 5;
/// Places are multiples of 1 MiB.
const ALIGNMENT: u64 = 2048;

fn spec(text: &str) -> Result<Spec, SpecError> {
    text.parse()
}
