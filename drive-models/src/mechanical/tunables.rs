//! The tunables of a mechanical drive: spindle, overheads, bus and buffer.

use traces::spec::{Tunable, Unit};

use super::rotation::Rotation;

/// Longest overhead that is taken for one.
const OVERHEAD_NS_MAX: u64 = 1_000_000_000;

/// The name of the order in which segments are filled.
pub(super) const FIFO: &str = "fifo";

/// The tunables of [`super::MODEL`].
pub(super) const TUNABLES: &[Tunable] = &[
    Tunable::new("period_ps", Unit::Count, "3995342000", "one turn of the platter in picoseconds")
        .within(Rotation::PERIOD_PS_MIN, Rotation::PERIOD_PS_MAX),
    Tunable::new("phase", Unit::Time, "0ms", "how far into a turn the platter is at time zero")
        .within(0, OVERHEAD_NS_MAX),
    Tunable::new("read_overhead", Unit::Time, "200us", "command processing before the arm moves for a read")
        .within(0, OVERHEAD_NS_MAX),
    Tunable::new("write_overhead", Unit::Time, "200us", "the same for a write").within(0, OVERHEAD_NS_MAX),
    Tunable::new(
        "read_after_read",
        Unit::Time,
        "0ms",
        "how much longer read_overhead is when the request before was a read",
    )
    .within(0, OVERHEAD_NS_MAX),
    Tunable::new(
        "write_after_read",
        Unit::Time,
        "0ms",
        "how much longer write_overhead is when the request before was a read",
    )
    .within(0, OVERHEAD_NS_MAX),
    Tunable::new("head_switch", Unit::Time, "500us", "time to another head of the same cylinder")
        .within(0, OVERHEAD_NS_MAX),
    Tunable::new("write_settle", Unit::Time, "0ms", "how much longer a write settles after a seek or head switch")
        .within(0, OVERHEAD_NS_MAX),
    Tunable::new("bus_byte_ps", Unit::Count, "2500", "bus transfer in picoseconds per byte (2500 = 400 MB/s)")
        .within(0, 1_000_000_000),
    Tunable::new(
        "read_watermark",
        Unit::Decimal,
        "0",
        "share of a read that has come in when it begins to go over the bus",
    )
    .within(0, 1000),
    Tunable::new(
        "write_watermark",
        Unit::Decimal,
        "0",
        "share of a write that has come over the bus when it may go to the medium",
    )
    .within(0, 1000),
    Tunable::new("read_completion", Unit::Time, "0ms", "from the last byte on the bus to a read's completion")
        .within(0, OVERHEAD_NS_MAX),
    Tunable::new("write_completion", Unit::Time, "0ms", "from the end on the medium to a write's completion")
        .within(0, OVERHEAD_NS_MAX),
    Tunable::new("segments", Unit::Count, "0", "segments of the buffer that hold reads; 0 switches the read cache off")
        .within(0, 4096),
    Tunable::new("segment_sectors", Unit::Count, "256", "sectors a segment holds").within(1, 1 << 20),
    Tunable::new(
        "segment_replacement",
        Unit::Choice(&["lru", FIFO]),
        "lru",
        "which segment a read from the medium takes: the one used least recently or the one filled first",
    ),
    Tunable::new(
        "read_ahead_sectors",
        Unit::Count,
        "0",
        "sectors that are read on behind a read while nothing else is to be done",
    )
    .within(0, 1 << 20),
    Tunable::new(
        "read_ahead_least",
        Unit::Count,
        "0",
        "how many of them are read on even while another request waits (SCSI caching page: minimum pre-fetch)",
    )
    .within(0, 1 << 20),
    Tunable::new("read_ahead_on_hit", Unit::Switch, "on", "whether a hit has read-ahead go on as far behind it"),
    Tunable::new(
        "read_ahead_needs_sequence",
        Unit::Switch,
        "off",
        "whether a read from the medium has read-ahead go on behind it only where it begins at the end of the one before",
    ),
    Tunable::new(
        "read_ahead_within_track",
        Unit::Switch,
        "off",
        "whether read-ahead stops at the end of the read's last track",
    ),
    Tunable::new(
        "read_whole_track",
        Unit::Switch,
        "off",
        "whether the sectors before a read on its first track are read too, as they come round",
    ),
    Tunable::new(
        "keeps_read",
        Unit::Switch,
        "on",
        "whether sectors that were sent stay in the buffer, and those before them",
    ),
    Tunable::new("read_hits_written", Unit::Switch, "off", "whether reads find data that were written"),
    Tunable::new("read_hit", Unit::Time, "500us", "service time of a read from the buffer without the bus")
        .within(0, OVERHEAD_NS_MAX),
    Tunable::new(
        "read_hit_sequential",
        Unit::Time,
        "500us",
        "the same where the read goes on where the request before, a read, ended",
    )
    .within(0, OVERHEAD_NS_MAX),
    Tunable::new(
        "write_cache",
        Unit::Choice(&["through", "back"]),
        "through",
        "whether a write completes on the medium or in the buffer",
    ),
    Tunable::new("write_hit", Unit::Time, "500us", "service time of a write into the buffer without the bus")
        .within(0, OVERHEAD_NS_MAX),
    Tunable::new(
        "write_hit_sequential",
        Unit::Time,
        "500us",
        "the same where the write goes on where the request before, a write, ended",
    )
    .within(0, OVERHEAD_NS_MAX),
    Tunable::new(
        "sequential_pause",
        Unit::Time,
        "1000s",
        "longest pause after which a request still counts as going on",
    )
    .within(0, 1_000_000_000_000),
    Tunable::new("dirty_runs", Unit::Count, "16", "most runs of written sectors that wait for the medium")
        .within(1, 4096),
    Tunable::new("dirty_sectors", Unit::Count, "1024", "most sectors that wait for the medium").within(1, 1 << 24),
    Tunable::new("destage_delay", Unit::Time, "0ms", "how long a written run waits before it goes to the medium")
        .within(0, 1_000_000_000_000),
];
