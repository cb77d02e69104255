//! The tunables: those of the kernel under their real names, constants of the kernel that are worth changing, and
//! the properties that the kernel reads from the device. Linux 6.18, block/bfq-iosched.c, `bfq_attrs`.

use traces::Nanos;
use traces::spec::{Settings, Tunable, Unit};

use super::clock::{Clock, Jiffies};

const INT_MAX: u64 = i32::MAX as u64;
/// Nanoseconds in a millisecond.
const MS: u64 = 1_000_000;
const SECTORS_PER_KIB: u64 = 2;
/// The least `slice_idle` with strict guarantees.
const STRICT_SLICE_IDLE_MIN: Nanos = Nanos::from_ms(8);

/// All tunables, for the registry.
pub(super) const TUNABLES: &[Tunable] = &[
    Tunable::new("slice_idle", Unit::Time, "8ms", "longest wait for the next request of the queue in service")
        .within(0, INT_MAX * MS),
    Tunable::new("slice_idle_us", Unit::Count, "0", "the same in microseconds; 0 leaves it to slice_idle")
        .within(0, INT_MAX),
    Tunable::new(
        "max_budget",
        Unit::Count,
        "0",
        "most sectors that a queue is served in one turn; 0: derived from the peak rate",
    )
    .within(0, INT_MAX),
    Tunable::new("timeout_sync", Unit::Time, "125ms", "longest turn of a sync or async queue")
        .within(MS, 1000 * INT_MAX),
    Tunable::new("fifo_expire_sync", Unit::Time, "125ms", "age at which a sync request goes first within its queue")
        .within(MS, INT_MAX * MS),
    Tunable::new("fifo_expire_async", Unit::Time, "250ms", "age at which an async request goes first within its queue")
        .within(MS, INT_MAX * MS),
    Tunable::new("back_seek_max", Unit::Count, "16384", "longest backward seek, in KiB").within(0, INT_MAX),
    Tunable::new("back_seek_penalty", Unit::Count, "2", "cost of a backward seek relative to a forward one")
        .within(1, INT_MAX),
    Tunable::new("low_latency", Unit::Switch, "on", "whether interactive and soft real-time queues are favoured"),
    Tunable::new(
        "strict_guarantees",
        Unit::Switch,
        "off",
        "serve one request at a time, and always wait for the queue's next",
    ),
    Tunable::new("wr_coeff", Unit::Count, "30", "factor by which weights are raised").within(1, 1000),
    Tunable::new(
        "wr_max_time",
        Unit::Time,
        "0ns",
        "longest time that an interactive queue's weight is raised; 0: derived from the peak rate",
    ),
    Tunable::new("wr_rt_max_time", Unit::Time, "300ms", "longest time that a soft real-time queue's weight is raised"),
    Tunable::new("wr_min_idle_time", Unit::Time, "2s", "idle time after which a queue counts as interactive"),
    Tunable::new(
        "wr_min_inter_arr_async",
        Unit::Time,
        "500ms",
        "gap between arrivals after which an async queue's weight is raised",
    ),
    Tunable::new("wr_max_softrt_rate", Unit::Count, "7000", "highest rate of a soft real-time queue, in sectors per s")
        .within(0, INT_MAX),
    Tunable::new("large_burst_thresh", Unit::Count, "8", "number of new queues that make a large burst")
        .within(1, INT_MAX),
    Tunable::new("burst_interval", Unit::Time, "180ms", "longest gap between the new queues of a burst"),
    Tunable::new("cgroups", Unit::Switch, "off", "whether each VM has its own cgroup"),
    Tunable::new("weights", Unit::Counts, "100", "weights of the VMs' cgroups, in their order, repeated (bfq.weight)")
        .within(1, 1000),
    Tunable::new("rotational", Unit::Switch, "off", "the device's property queue/rotational"),
    Tunable::new("tick", Unit::Time, "4ms", "length of a jiffy, to which timeouts are rounded (1 s / CONFIG_HZ)")
        .within(1000, 1_000_000_000),
];

/// Longest span of time that a tunable can set, 36 years; sums of it with a time do not overflow.
const LONGEST: Nanos = Nanos::from_ns(u64::MAX / 16);

/// The values of the tunables.
#[derive(Clone, Debug)]
pub(super) struct Tunables {
    pub(super) slice_idle: Nanos,
    /// In sectors; zero follows the peak rate.
    pub(super) user_max_budget: u64,
    pub(super) timeout: Jiffies,
    pub(super) timeout_ms: u64,
    /// By kind: async, sync.
    pub(super) fifo_expire: [Nanos; 2],
    /// In sectors.
    pub(super) back_max: u64,
    pub(super) back_penalty: u64,
    pub(super) low_latency: bool,
    pub(super) strict_guarantees: bool,
    pub(super) wr_coeff: u64,
    pub(super) wr_max_time: Jiffies,
    pub(super) wr_rt_max_time: Jiffies,
    pub(super) wr_min_idle_time: Jiffies,
    pub(super) wr_min_inter_arr_async: Jiffies,
    /// In sectors per second.
    pub(super) wr_max_softrt_rate: u64,
    pub(super) large_burst_thresh: u64,
    pub(super) burst_interval: Jiffies,
    pub(super) cgroups: bool,
    pub(super) weights: Vec<u64>,
    pub(super) rotational: bool,
}

impl Tunables {
    pub(super) fn new(settings: &Settings, clock: &Clock) -> Tunables {
        let span = |name: &str| settings.nanos(name).min(LONGEST);
        let jiffies = |name: &str| clock.jiffies(span(name));
        let strict_guarantees = settings.switch("strict_guarantees");
        let slice_idle = match settings.count("slice_idle_us") {
            0 => span("slice_idle"),
            us => Nanos::from_us(us),
        };
        // The kernel's default is HZ / 8, which is rounded down.
        let timeout = clock.whole_jiffies(span("timeout_sync")).max(Jiffies::new(1));
        Tunables {
            // The kernel raises slice_idle when strict_guarantees is written (`bfq_strict_guarantees_store`).
            slice_idle: if strict_guarantees { slice_idle.max(STRICT_SLICE_IDLE_MIN) } else { slice_idle },
            user_max_budget: settings.count("max_budget"),
            timeout,
            timeout_ms: (clock.nanos(timeout).as_ns() / MS).max(1),
            fifo_expire: [span("fifo_expire_async"), span("fifo_expire_sync")],
            back_max: settings.count("back_seek_max") * SECTORS_PER_KIB,
            back_penalty: settings.count("back_seek_penalty"),
            low_latency: settings.switch("low_latency"),
            strict_guarantees,
            wr_coeff: settings.count("wr_coeff"),
            wr_max_time: jiffies("wr_max_time"),
            wr_rt_max_time: jiffies("wr_rt_max_time"),
            wr_min_idle_time: jiffies("wr_min_idle_time"),
            wr_min_inter_arr_async: jiffies("wr_min_inter_arr_async"),
            wr_max_softrt_rate: settings.count("wr_max_softrt_rate"),
            large_burst_thresh: settings.count("large_burst_thresh"),
            burst_interval: jiffies("burst_interval"),
            cgroups: settings.switch("cgroups"),
            weights: settings.counts("weights"),
            rotational: settings.switch("rotational"),
        }
    }
}
