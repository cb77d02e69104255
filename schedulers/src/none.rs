//! What Linux calls no scheduler: requests go in the order in which they arrive. Linux 6.18,
//! `block/blk-mq-sched.c` and `block/blk-mq.c` with no elevator attached. Leaves out the software
//! queues of the CPUs, which the kernel empties in turn while the device is busy, so that there two
//! CPUs may overtake each other; and issuing from the submitting task, past every queue, while it is
//! not: here a request that arrives alone goes at once, too.
//!
//! A head that the capacity does not allow holds up what is behind it, and a request that comes back
//! unserved goes to the head.

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
    build,
};

fn build(_settings: &Settings) -> Box<dyn Scheduler> {
    Box::new(Fifo::default())
}
