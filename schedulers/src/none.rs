//! No scheduler: requests are sent in the order of their arrival, as Linux 6.18 does without an elevator
//! (`block/blk-mq-sched.c` and `block/blk-mq.c`).
//!
//! Left out are:
//!
//! - the software queues of the CPUs: while the device is busy, the kernel empties them in turn, so that requests of
//!   two CPUs may overtake each other;
//! - issuing by the submitting task past all queues while the device is not busy. Here, too, a request that arrives
//!   alone is sent at once.
//!
//! A head for which there is no capacity holds up the requests behind it. A request that comes back unserved goes to
//! the head.

use traces::spec::Settings;

use crate::entry::Entry;
use crate::fifo::Fifo;
use crate::scheduler::Scheduler;

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "none",
    summary: "no scheduler: order of arrival, with merging (Linux blk-mq)",
    origin: "Linux 6.18 block/blk-mq-sched.c without an elevator",
    tunables: &[],
    rules: &[],
    build: &build,
};

fn build(_settings: &Settings) -> Box<dyn Scheduler> {
    Box::new(Fifo::default())
}
