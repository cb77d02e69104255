//! One queue: the sync requests of a process, or the async requests of a priority.

use traces::{Priority, RequestId, Timestamp};

use super::waiting::Waiting;
use crate::decayed_mean::DecayedMean;

/// Priority classes, in the order in which they are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    RealTime,
    #[default]
    BestEffort,
    Idle,
}

/// Kinds of load, each with its service tree (Linux 3.5): async requests, sync requests that are not worth idling for,
/// and those that are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    Async,
    SyncNoidle,
    Sync,
}

impl Kind {
    pub(super) const ALL: [Kind; 3] = [Kind::Async, Kind::SyncNoidle, Kind::Sync];
}

/// How many priority levels a class has.
pub(super) const LEVELS: usize = 8;
/// The level of a process whose priority was not set (`IOPRIO_NORM`).
const LEVEL_DEFAULT: u8 = 4;
/// How many queues there are of async requests: one per level of real time and best effort, and
/// one of the idle class.
pub(super) const ASYNC_QUEUES: usize = 2 * LEVELS + 1;

/// Class and level; a priority that was not set is best effort 4, and the idle class has level 7.
pub(super) fn class_and_level(priority: Priority) -> (Class, u8) {
    match priority.class() {
        1 => (Class::RealTime, priority.level()),
        2 => (Class::BestEffort, priority.level()),
        3 => (Class::Idle, 7),
        _ => (Class::BestEffort, LEVEL_DEFAULT),
    }
}

/// The number of the queue of a priority's async requests.
pub(super) fn async_queue(priority: Priority) -> usize {
    match class_and_level(priority) {
        (Class::RealTime, level) => usize::from(level),
        (Class::BestEffort, level) => LEVELS + usize::from(level),
        (Class::Idle, _) => 2 * LEVELS,
    }
}

/// How long a process, a group or the queues of a service tree think between a completion and the
/// next request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ThinkTime {
    pub(super) last_end: Timestamp,
    pub(super) mean: DecayedMean,
}

impl ThinkTime {
    /// A request came: it was thought about since the last completion, at most two idle waits.
    pub(super) fn arrived(&mut self, now: Timestamp, idle: u64) {
        self.mean.add_time(now.saturating_since(self.last_end).as_ns().min(2 * idle));
    }

    /// Whether a wait of `idle` ns is expected to be in vain.
    pub(super) fn is_longer_than(&self, idle: u64) -> bool {
        self.mean.is_valid() && self.mean.mean() > idle
    }
}

/// The facts of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Process {
    /// The queue of its sync requests, by number.
    pub(super) queue: Option<usize>,
    pub(super) think: ThinkTime,
    /// Seek distance in sectors (Linux 2.6.30).
    pub(super) seek: DecayedMean,
    /// The end of its last request, 0 if there was none (Linux 2.6.30).
    pub(super) last_end: u64,
}

/// The queue. The rules that set its marks explain them.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) waiting: Waiting,
    /// Which goes next if none has expired.
    pub(super) next: Option<RequestId>,
    pub(super) is_sync: bool,
    pub(super) priority: Priority,
    pub(super) class: Class,
    pub(super) level: u8,
    pub(super) group: usize,

    /// Whether it takes turns (`on_rr`).
    pub(super) is_busy: bool,
    /// The service tree of its group that it is in, and its place there.
    pub(super) tree: Option<usize>,
    pub(super) key: i64,
    /// The tree by next sector that it is in.
    pub(super) close_tree: Option<usize>,

    /// When it became active.
    pub(super) active_since: Timestamp,
    /// When its slice began: with the first completion.
    pub(super) slice_start: Option<Timestamp>,
    pub(super) slice_end: Timestamp,
    /// ns.
    pub(super) slice_allocated: u64,
    /// The rest of its last slice, negative if it was overrun; ns.
    pub(super) slice_left: i64,
    /// Requests sent in this slice.
    pub(super) slice_sent: u64,
    /// No request of this slice has completed: the slice has no end yet.
    pub(super) slice_is_new: bool,
    pub(super) fifo_was_checked: bool,

    /// The device idles for its next request (`wait_request`).
    pub(super) awaited: bool,
    pub(super) must_dispatch: bool,
    /// The slice was prolonged to see the group's next request (`wait_busy`).
    pub(super) prolonged: bool,
    /// Whether idling for it is worth while (`idle_window`).
    pub(super) idle_window: bool,
    /// It has had four requests waiting at once, so idling need not be in vain if it seeks (`deep`).
    pub(super) deep: bool,
    /// 2.6.30: it took over as a cooperator. 3.5: several processes share it.
    pub(super) cooperates: bool,
    /// The processes that share it are to part (`split_coop`).
    pub(super) to_be_split: bool,
    /// The queue that its processes are to share from their next request on.
    pub(super) merge_into: Option<usize>,

    /// Requests sent and not completed.
    pub(super) in_flight: u64,
    /// Waiting requests that are metadata.
    pub(super) meta_waiting: u64,
    /// Requests that wait or are in flight, and processes that use it or are about to.
    pub(super) requests: u64,
    pub(super) users: u64,
    /// A bit for each of the last 32 requests, set if it was a seek (Linux 3.5).
    pub(super) seek_history: u32,
    /// The end of its last request, 0 if there was none (Linux 3.5).
    pub(super) last_end: u64,
}

impl Queue {
    pub(super) fn new(is_sync: bool, priority: Priority, group: usize) -> Queue {
        let (class, level) = class_and_level(priority);
        Queue {
            is_sync,
            priority,
            class,
            level,
            group,
            idle_window: is_sync && class != Class::Idle,
            ..Queue::default()
        }
    }

    /// Whether its slice has ended.
    pub(super) fn slice_used(&self, now: Timestamp) -> bool {
        !self.slice_is_new && now >= self.slice_end
    }

    /// The rest of its slice; ns.
    pub(super) fn slice_rest(&self, now: Timestamp) -> u64 {
        self.slice_end.saturating_since(now).as_ns()
    }

    /// Whether more than four of its last 32 requests were seeks (Linux 3.5, `CFQQ_SEEKY`).
    pub(super) fn is_seeky(&self) -> bool {
        self.seek_history.count_ones() > 32 / 8
    }

    /// Which service tree it belongs into, by kind of load.
    pub(super) fn kind(&self) -> Kind {
        match (self.is_sync, self.idle_window) {
            (false, _) => Kind::Async,
            (true, false) => Kind::SyncNoidle,
            (true, true) => Kind::Sync,
        }
    }
}

/// The priority of the async queue with this number.
pub(super) fn priority_of_async_queue(number: usize) -> Priority {
    let (class, level) = if number < LEVELS {
        (1, number)
    } else if number < 2 * LEVELS {
        (2, number - LEVELS)
    } else {
        (3, 7)
    };
    Priority::new(class, level as u8).unwrap_or_default()
}
