//! Requests that a process collects before it inserts them together.

use std::collections::BTreeMap;

/// What one process has collected.
#[derive(Clone, Copy, Debug, Default)]
struct Plug {
    /// Requests allocated and not inserted.
    collected: u32,
    /// It has begun to insert them.
    inserts: bool,
}

/// What each process has collected (Linux 6.18, `block/blk-mq.c`, `blk_mq_dispatch_list`: the scheduler is
/// asked once all of a plug is inserted). Allocations that are inserted by nobody, as of flushes, are
/// forgotten with the next allocation.
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

    /// A process inserts a request. Whether it has more of them.
    pub(super) fn insert(&mut self, process: u32) -> bool {
        let Some(plug) = self.processes.get_mut(&process) else { return false };
        plug.inserts = true;
        plug.collected = plug.collected.saturating_sub(1);
        plug.collected > 0
    }
}
