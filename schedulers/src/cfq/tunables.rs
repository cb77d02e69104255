//! The tunables under the kernel's names, for each of the two versions.

use traces::Nanos;
use traces::spec::{Settings, Tunable, Unit};

/// Which kernel's rules apply where they differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// One service tree; cooperators take turns.
    Linux2_6_30,
    /// Groups with weights, service trees by kind of load, cooperators share a queue.
    Linux3_5,
}

/// A day: the longest time a tunable may be set to, so that sums of times and products of
/// priorities stay far from the largest number.
const TIME_MAX: u64 = 86_400_000_000_000;
/// A millisecond: the least the kernel accepts where a time may not be zero.
const TIME_MIN: u64 = 1_000_000;
/// The largest count the kernel accepts (`UINT_MAX`).
const COUNT_MAX: u64 = u32::MAX as u64;

const FIFO_EXPIRE_SYNC: Tunable =
    Tunable::new("fifo_expire_sync", Unit::Time, "125ms", "age at which a sync request goes first in its slice")
        .within(TIME_MIN, TIME_MAX);
const FIFO_EXPIRE_ASYNC: Tunable =
    Tunable::new("fifo_expire_async", Unit::Time, "250ms", "age at which an async request goes first in its slice")
        .within(TIME_MIN, TIME_MAX);
const BACK_SEEK_MAX: Tunable =
    Tunable::new("back_seek_max", Unit::Bytes, "16m", "longest backward distance of a request that may be chosen");
const BACK_SEEK_PENALTY: Tunable =
    Tunable::new("back_seek_penalty", Unit::Count, "2", "cost of a backward distance relative to a forward one")
        .within(1, COUNT_MAX);
const SLICE_SYNC: Tunable =
    Tunable::new("slice_sync", Unit::Time, "100ms", "slice of a sync queue of level 4").within(TIME_MIN, TIME_MAX);
const SLICE_ASYNC: Tunable =
    Tunable::new("slice_async", Unit::Time, "40ms", "slice of an async queue of level 4").within(TIME_MIN, TIME_MAX);
const SLICE_ASYNC_RQ: Tunable = Tunable::new(
    "slice_async_rq",
    Unit::Count,
    "2",
    "scales the number of requests in an async slice: 2 x this x (8 - level)",
)
.within(1, COUNT_MAX);
const SLICE_IDLE: Tunable =
    Tunable::new("slice_idle", Unit::Time, "8ms", "longest wait for a queue's next request; 0ns: none")
        .within(0, TIME_MAX);
const ROTATIONAL: Tunable = Tunable::new(
    "rotational",
    Unit::Switch,
    "on",
    "whether the device seeks; a queueing device that does not seek gets no idling",
);
const NOIDLE_WRITES: Tunable = Tunable::new(
    "noidle_writes",
    Unit::Switch,
    "off",
    "whether sync writes are marked so that cfq does not wait after them (fsync: on, O_DIRECT: off)",
);

const fn quantum(default: &'static str) -> Tunable {
    Tunable::new("quantum", Unit::Count, default, "most requests of a queue at the device while other queues wait")
        .within(1, COUNT_MAX)
}

/// The tunables as of Linux 2.6.30.
pub(super) const TUNABLES_2_6_30: &[Tunable] = &[
    quantum("4"),
    FIFO_EXPIRE_SYNC,
    FIFO_EXPIRE_ASYNC,
    BACK_SEEK_MAX,
    BACK_SEEK_PENALTY,
    SLICE_SYNC,
    SLICE_ASYNC,
    SLICE_ASYNC_RQ,
    SLICE_IDLE,
    ROTATIONAL,
    NOIDLE_WRITES,
];

/// The tunables as of Linux 3.5.
pub(super) const TUNABLES_3_5: &[Tunable] = &[
    quantum("8"),
    FIFO_EXPIRE_SYNC,
    FIFO_EXPIRE_ASYNC,
    BACK_SEEK_MAX,
    BACK_SEEK_PENALTY,
    SLICE_SYNC,
    SLICE_ASYNC,
    SLICE_ASYNC_RQ,
    SLICE_IDLE,
    Tunable::new("group_idle", Unit::Time, "8ms", "longest wait for a group's next request; 0ns: none")
        .within(0, TIME_MAX),
    Tunable::new(
        "low_latency",
        Unit::Switch,
        "on",
        "whether slices shrink so that every queue gets one within target_latency",
    ),
    Tunable::new("target_latency", Unit::Time, "300ms", "time in which every group and queue should get a slice")
        .within(TIME_MIN, TIME_MAX),
    Tunable::new("weights", Unit::Counts, "500", "weight of each VM's group; the group of all async requests has 1000")
        .within(10, 1000),
    ROTATIONAL,
    NOIDLE_WRITES,
];

/// The weight of the group of all async requests (twice the default weight).
const WEIGHT_ROOT: u64 = 1000;

/// The tunables' values. Times are in ns and distances in sectors.
#[derive(Debug)]
pub(super) struct Parameters {
    pub(super) version: Version,
    pub(super) quantum: u64,
    /// By whether the queue is sync.
    pub(super) fifo_expire: [Nanos; 2],
    pub(super) back_seek_max: u64,
    pub(super) back_seek_penalty: u64,
    /// By whether the queue is sync.
    pub(super) slice: [u64; 2],
    pub(super) slice_async_rq: u64,
    pub(super) slice_idle: u64,
    pub(super) group_idle: u64,
    pub(super) low_latency: bool,
    pub(super) target_latency: u64,
    /// Of each VM's group, the last for all that follow.
    weights: Vec<u64>,
    pub(super) rotational: bool,
    pub(super) noidle_writes: bool,
}

impl Parameters {
    /// From settings resolved against [`TUNABLES_2_6_30`].
    pub(super) fn of_2_6_30(settings: &Settings) -> Parameters {
        Parameters {
            version: Version::Linux2_6_30,
            quantum: settings.count("quantum"),
            fifo_expire: [settings.nanos("fifo_expire_async"), settings.nanos("fifo_expire_sync")],
            back_seek_max: settings.bytes("back_seek_max") / traces::SECTOR_BYTES,
            back_seek_penalty: settings.count("back_seek_penalty"),
            slice: [settings.nanos("slice_async").as_ns(), settings.nanos("slice_sync").as_ns()],
            slice_async_rq: settings.count("slice_async_rq"),
            slice_idle: settings.nanos("slice_idle").as_ns(),
            group_idle: 0,
            low_latency: false,
            target_latency: 0,
            weights: Vec::new(),
            rotational: settings.switch("rotational"),
            noidle_writes: settings.switch("noidle_writes"),
        }
    }

    /// From settings resolved against [`TUNABLES_3_5`].
    pub(super) fn of_3_5(settings: &Settings) -> Parameters {
        Parameters {
            version: Version::Linux3_5,
            group_idle: settings.nanos("group_idle").as_ns(),
            low_latency: settings.switch("low_latency"),
            target_latency: settings.nanos("target_latency").as_ns(),
            weights: settings.counts("weights"),
            ..Parameters::of_2_6_30(settings)
        }
    }

    /// The weight of a group: the first is that of async requests, behind it are the VMs'.
    pub(super) fn weight_of_group(&self, group: usize) -> u64 {
        let Some(vm) = group.checked_sub(1) else { return WEIGHT_ROOT };
        self.weights.get(vm).or(self.weights.last()).copied().unwrap_or(WEIGHT_ROOT)
    }
}
