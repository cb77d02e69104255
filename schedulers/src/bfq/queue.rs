//! A queue of requests, of one process or of several. Linux 6.18, `struct bfq_queue` and `struct bfq_iocq_bfqq_data`;
//! the names of the kernel's fields are given where ours differ.

use traces::RequestId;

use super::access::{IoIntensity, Seeks, ThinkTime};
use super::burst::BurstMembership;
use super::clock::{Clock, Jiffy};
use super::ids::{EntityId, ProcessId, QueueId};
use super::inject::InjectionLimit;
use super::raise::{Raising, SoftRealTime};
use super::requests::Fifo;
use super::rules::NEW_TURN;
use super::waker::Wakers;

/// Index of the async requests in arrays by kind.
pub(super) const ASYNC: usize = 0;
/// Index of the sync requests.
pub(super) const SYNC: usize = 1;

/// The turn of a queue: its time in service until it expires.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// The budget of a turn in sectors (`max_budget`).
    pub(super) max_budget: u64,
    /// The end of the turn; once the queue is empty, the time at which it became so. `None` before the first turn.
    pub(super) budget_timeout: Option<Jiffy>,
    /// The age of the oldest request was checked in this turn (`fifo_expire`).
    pub(super) fifo_checked: bool,
    /// In service, empty, and the device idles for it (`wait_request`).
    pub(super) wait_request: bool,
    /// Expired while empty: the next request may recover the missed service (`non_blocking_wait_rq`).
    pub(super) non_blocking_wait: bool,
    /// The rule by which its next request goes, unless that has expired.
    pub(super) rule: usize,
    /// The request that was chosen to be next because it had expired.
    pub(super) expired: Option<RequestId>,
}

/// The period since the queue last began to have requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backlog {
    /// Its begin (`last_idle_bklogged`).
    pub(super) since: Jiffy,
    /// The service received in it, in sectors (`service_from_backlogged`).
    pub(super) service: u64,
    /// When the first service was received (`first_IO_time`).
    pub(super) first_service: Jiffy,
}

/// The merging of a queue with others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Merging {
    /// The queue that this one is to be merged into (`new_bfqq`).
    pub(super) into: Option<QueueId>,
    /// Several processes send to the queue (`coop`).
    pub(super) shared: bool,
    /// The queue is to be split again (`split_coop`).
    pub(super) to_split: bool,
    /// When the queue was last split off another.
    pub(super) split_time: Option<Jiffy>,
}

/// One queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    pub(super) entity: EntityId,
    pub(super) sync: bool,
    /// The process that sends to the queue, if it is a single one (`bic`).
    pub(super) process: Option<ProcessId>,
    /// The number of processes that send to the queue, or will once a merge is complete.
    pub(super) process_refs: u32,
    /// The number of processes that may be merged into the queue because they began together (`stable_ref`).
    pub(super) stable_refs: u32,
    /// The number of requests that wait in the queue or are in flight from it (`allocated`).
    pub(super) allocated: u32,
    /// The record is not in use.
    pub(super) free: bool,

    pub(super) created: Jiffy,
    pub(super) just_created: bool,
    /// The queue has requests, or is waited for.
    pub(super) busy: bool,
    /// Counted among the queues of its group with requests waiting or in flight.
    pub(super) pending: bool,

    pub(super) fifo: Fifo,
    /// The request that goes next.
    pub(super) next_request: Option<RequestId>,
    /// The number of waiting requests by kind.
    pub(super) queued: [u32; 2],
    /// The number of requests in flight.
    pub(super) dispatched: u32,
    /// The sector under which the queue is listed among the positions of its group.
    pub(super) position: Option<u64>,

    pub(super) turn: Turn,
    pub(super) backlog: Backlog,
    pub(super) seeks: Seeks,
    pub(super) think_time: ThinkTime,
    pub(super) intensity: IoIntensity,
    pub(super) raising: Raising,
    pub(super) soft_rt: SoftRealTime,
    pub(super) burst: BurstMembership,
    pub(super) injection: InjectionLimit,
    pub(super) wakers: Wakers,
    pub(super) merging: Merging,
}

impl Queue {
    /// The state of a new queue (`bfq_init_bfqq`).
    pub(super) fn new(clock: &Clock, entity: EntityId, sync: bool, max_budget: u64) -> Queue {
        Queue {
            entity,
            sync,
            process: None,
            process_refs: 0,
            stable_refs: 0,
            allocated: 0,
            free: false,
            created: clock.jiffy,
            just_created: sync,
            busy: false,
            pending: false,
            fifo: Fifo::default(),
            next_request: None,
            queued: [0; 2],
            dispatched: 0,
            position: None,
            turn: Turn {
                max_budget,
                budget_timeout: None,
                fifo_checked: false,
                wait_request: false,
                non_blocking_wait: false,
                rule: NEW_TURN,
                expired: None,
            },
            backlog: Backlog { since: Jiffy::ZERO, service: 0, first_service: Jiffy::ZERO },
            seeks: Seeks::new(),
            think_time: ThinkTime::new(clock, sync),
            intensity: IoIntensity::new(clock),
            raising: Raising::new(clock),
            soft_rt: SoftRealTime::new(clock),
            burst: BurstMembership::default(),
            injection: InjectionLimit::new(clock),
            wakers: Wakers::default(),
            merging: Merging { into: None, shared: false, to_split: false, split_time: None },
        }
    }

    pub(super) fn waiting(&self) -> u32 {
        self.queued[ASYNC] + self.queued[SYNC]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting() == 0
    }

    pub(super) fn is_busy(&self) -> bool {
        self.busy
    }

    pub(super) fn is_seeky(&self) -> bool {
        self.seeks.are_most()
    }
}
