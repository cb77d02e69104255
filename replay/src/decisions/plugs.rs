//! The plugs of processes: requests that a process collects before it inserts them together.

use std::collections::BTreeMap;

/// The collected requests of one process.
#[derive(Clone, Copy, Debug, Default)]
struct Plug {
    /// The number of requests allocated and not inserted.
    collected: u32,
    /// Whether the process has begun to insert them.
    inserts: bool,
}

/// The collected requests of each process. The scheduler is asked once all requests of a plug are inserted (Linux 6.18,
/// `block/blk-mq.c`, `blk_mq_dispatch_list`). Allocations without an insertion, such as those of flushes, are dropped
/// at the next allocation.
#[derive(Debug, Default)]
pub(super) struct Plugs {
    processes: BTreeMap<u32, Plug>,
}

impl Plugs {
    /// A process has allocated a request.
    pub(super) fn allocate(&mut self, process: u32) {
        let plug = self.processes.entry(process).or_default();
        if std::mem::take(&mut plug.inserts) {
            plug.collected = 0;
        }
        plug.collected = plug.collected.saturating_add(1);
    }

    /// A process inserts a request. Returns whether it has collected more.
    pub(super) fn insert(&mut self, process: u32) -> bool {
        let Some(plug) = self.processes.get_mut(&process) else { return false };
        plug.inserts = true;
        plug.collected = plug.collected.saturating_sub(1);
        plug.collected > 0
    }
}
