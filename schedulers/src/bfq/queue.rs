//! A queue of requests, of one process or several, and what a process keeps while its queue is
//! merged into another.

use super::clock::{Clock, LONG_AGO};
use super::requests::Fifo;
use super::service::NONE;

/// How long a queue takes to send its next request once the last has completed: a mean that forgets,
/// in 1/256 samples.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ThinkTime {
    /// When the last request completed, in ns.
    pub(super) last_end: i64,
    pub(super) total: i64,
    pub(super) samples: i64,
    /// In ns.
    pub(super) mean: i64,
}

/// One queue. Times are in jiffies unless said otherwise, service in sectors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    pub(super) entity: u32,
    /// Its process, if it is one alone.
    pub(super) process: u32,
    /// How many processes send to it, or will once a merge is complete.
    pub(super) process_refs: u32,
    /// How many processes may be merged into it for having begun with its process.
    pub(super) stable_refs: u32,
    /// How many requests are in it or sent from it.
    pub(super) allocated: u32,
    /// Whether the record is free to be used again.
    pub(super) free: bool,

    pub(super) just_created: bool,
    /// Scheduled for service: has requests, or is waited for.
    pub(super) busy: bool,
    /// The class under which it is counted as busy.
    pub(super) busy_class: usize,
    /// In service, empty, and waited for.
    pub(super) wait_request: bool,
    /// Expired while empty: its next request may recover what it missed.
    pub(super) non_blocking_wait: bool,
    /// The age of its requests was looked at in this turn.
    pub(super) fifo_checked: bool,
    pub(super) short_think_time: bool,
    pub(super) sync: bool,
    pub(super) io_bound: bool,
    pub(super) in_large_burst: bool,
    pub(super) in_burst_list: bool,
    /// Several processes send to it.
    pub(super) shared: bool,
    /// It is to be taken apart again.
    pub(super) to_split: bool,
    pub(super) softrt_update: bool,
    /// Counted among those of its group that have requests waiting or sent.
    pub(super) pending: bool,

    pub(super) fifo: Fifo,
    /// The request that goes next.
    pub(super) next_request: u32,
    /// Requests waiting: async, sync.
    pub(super) queued: [u32; 2],
    /// Requests sent and not completed.
    pub(super) dispatched: u32,

    pub(super) max_budget: i64,
    /// End of its turn; or, once it is empty, when it became so.
    pub(super) budget_timeout: i64,
    pub(super) service_from_backlogged: i64,
    pub(super) first_io_time: i64,
    pub(super) creation_time: i64,

    pub(super) seek_history: u32,
    pub(super) last_request_end: u64,
    pub(super) think_time: ThinkTime,
    /// In ns, as the next.
    pub(super) io_start_time: i64,
    pub(super) total_idle_time: u64,

    pub(super) wr_cur_max_time: i64,
    pub(super) last_wr_start_finish: i64,
    pub(super) wr_start_at_switch_to_srt: i64,
    pub(super) service_from_wr: i64,
    pub(super) soft_rt_next_start: i64,
    pub(super) last_idle_backlogged: i64,

    pub(super) inject_limit: u32,
    /// Least time from arrival to completion of a request that nothing was injected before, in ns.
    pub(super) last_service_time: i64,
    pub(super) decrease_time: i64,

    /// The queue whose completions make this one's process send.
    pub(super) waker: u32,
    pub(super) tentative_waker: u32,
    pub(super) waker_detections: u32,
    /// In ns.
    pub(super) waker_detection_started: i64,
    /// The queues it wakes, the one that became busy last first.
    pub(super) woken_first: u32,
    pub(super) woken_next: u32,

    /// The queue it is to be merged into.
    pub(super) new_queue: u32,
    pub(super) split_time: i64,
    /// Its sector among the positions of its group's queues.
    pub(super) position: Option<u64>,
}

impl Queue {
    /// A new queue. `max_budget` as for a new one; `idle_class` needs no think time.
    pub(super) fn new(clock: &Clock, entity: u32, sync: bool, max_budget: i64) -> Queue {
        Queue {
            entity,
            process: NONE,
            process_refs: 0,
            stable_refs: 0,
            allocated: 0,
            free: false,
            just_created: sync,
            busy: false,
            busy_class: 0,
            wait_request: false,
            non_blocking_wait: false,
            fifo_checked: false,
            short_think_time: sync,
            sync,
            io_bound: true,
            in_large_burst: false,
            in_burst_list: false,
            shared: false,
            to_split: false,
            softrt_update: false,
            pending: false,
            fifo: Fifo::default(),
            next_request: NONE,
            queued: [0; 2],
            dispatched: 0,
            max_budget,
            budget_timeout: LONG_AGO,
            service_from_backlogged: 0,
            first_io_time: 0,
            creation_time: clock.jiffy,
            // The first request is almost certainly a seek.
            seek_history: 1,
            last_request_end: 0,
            think_time: ThinkTime { last_end: clock.ns + 1, ..ThinkTime::default() },
            io_start_time: clock.ns,
            total_idle_time: 0,
            wr_cur_max_time: 0,
            last_wr_start_finish: clock.jiffy,
            wr_start_at_switch_to_srt: LONG_AGO,
            service_from_wr: 0,
            soft_rt_next_start: clock.jiffy,
            last_idle_backlogged: 0,
            inject_limit: 0,
            last_service_time: 0,
            decrease_time: clock.jiffy,
            waker: NONE,
            tentative_waker: NONE,
            waker_detections: 0,
            waker_detection_started: 0,
            woken_first: NONE,
            woken_next: NONE,
            new_queue: NONE,
            split_time: LONG_AGO,
            position: None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queued[0] + self.queued[1] == 0
    }

    /// Whether more than 19 of its last 32 requests were seeks.
    pub(super) fn is_seeky(&self) -> bool {
        self.seek_history.count_ones() > 19
    }

    /// Whether all of its last 32 requests were.
    pub(super) fn is_totally_seeky(&self) -> bool {
        self.seek_history == u32::MAX
    }
}

/// What a queue was like when it was merged, to be restored when it is split.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Saved {
    pub(super) weight: i64,
    pub(super) wr_coeff: i64,
    pub(super) wr_cur_max_time: i64,
    pub(super) last_wr_start_finish: i64,
    pub(super) wr_start_at_switch_to_srt: i64,
    pub(super) service_from_wr: i64,
    pub(super) think_time: ThinkTime,
    pub(super) short_think_time: bool,
    pub(super) io_bound: bool,
    pub(super) io_start_time: i64,
    pub(super) total_idle_time: u64,
    pub(super) in_large_burst: bool,
    pub(super) in_burst_list: bool,
    pub(super) last_service_time: i64,
    pub(super) inject_limit: u32,
    pub(super) decrease_time: i64,
}

/// A process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    pub(super) group: u32,
    /// Class from zero (real time) to two (idle), and level.
    pub(super) class: usize,
    pub(super) level: u8,
    /// Its queues: async, sync.
    pub(super) queues: [u32; 2],
    /// How many of its requests wait or are sent.
    pub(super) requests: u32,
    /// The queue it may be merged into for having begun with that one's process.
    pub(super) stable_merge: u32,
    pub(super) stably_merged: bool,
    pub(super) saved: Saved,
}
