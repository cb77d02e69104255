//! The limits of a stage.

use traces::Sectors;

/// The limits of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most requests in flight below the stage, at least 1.
    pub depth: u32,
    /// The most requests among them that are not reads, at least 1.
    pub write_depth: u32,
    /// Whether the stage takes the next request from the scheduler before the layer below has capacity for it. The
    /// request then waits in the stage, as in Linux, which asks the scheduler before the device.
    pub look_ahead: bool,
    /// Whether adjacent waiting requests are merged.
    pub merge: bool,
    /// The longest read or write that merging makes; longer ones are split (`queue/max_sectors_kb`, 1,280 KiB by
    /// default since Linux 4.0). Discards move no data and are not split.
    pub max_sectors: Sectors,
    /// The most arrivals that are merged into one request (`queue/max_segments`; an arrival is at least one segment).
    pub max_segments: u32,
    /// Whether flushes are sequenced even if completed writes below are durable: a guest does not know that of its disk.
    pub always_flushes: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            depth: 1,
            write_depth: u32::MAX,
            look_ahead: false,
            merge: true,
            max_sectors: Sectors::new(2560),
            max_segments: 128,
            always_flushes: false,
        }
    }
}
