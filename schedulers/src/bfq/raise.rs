//! Weight raising: a queue that begins after a rest (interactive), or that sends little at regular times (soft
//! real-time), gets a multiple of its weight for a while. Linux 6.18, block/bfq-iosched.c.

use traces::Nanos;

use super::Bfq;
use super::clock::{Clock, Jiffies, Jiffy};
use super::ids::QueueId;

/// The factor of a soft real-time queue over that of an interactive queue (`BFQ_SOFTRT_WEIGHT_FACTOR`).
const SOFT_RT_FACTOR: u64 = 100;
/// An interactive queue is raised for no more service, in sectors: more than the largest application needs to start
/// (`max_service_from_wr`).
const MAX_RAISED_SERVICE: u64 = 120_000;
/// Only queues of the default weight are raised.
pub(super) const DEFAULT_WEIGHT: u64 = 40;
/// A soft real-time queue rests so much longer than the device would idle for it (`bfq_bfqq_softrt_next_start`).
const SOFT_RT_MARGIN: Jiffies = Jiffies::new(4);
const SECOND: Nanos = Nanos::from_s(1);

/// How long and how much a queue is raised; its entity has the factor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raising {
    /// The longest time of raising (`wr_cur_max_time`).
    pub(super) max_time: Jiffies,
    /// When raising last started or ended (`last_wr_start_finish`).
    pub(super) last_start_finish: Jiffy,
    /// When the interactive raising started that soft real-time raising interrupted (`wr_start_at_switch_to_srt`).
    pub(super) interactive_start: Option<Jiffy>,
    /// The service received while raised, in sectors (`service_from_wr`).
    pub(super) service: u64,
}

impl Raising {
    pub(super) fn new(clock: &Clock) -> Raising {
        Raising { max_time: Jiffies::ZERO, last_start_finish: clock.jiffy, interactive_start: None, service: 0 }
    }
}

impl Default for Raising {
    /// All zero, as memory that the kernel allocates: the interactive raising started at the clock's zero.
    fn default() -> Self {
        Raising {
            max_time: Jiffies::ZERO,
            last_start_finish: Jiffy::ZERO,
            interactive_start: Some(Jiffy::ZERO),
            service: 0,
        }
    }
}

/// The detection of soft real-time queues.
#[derive(Clone, Copy, Debug)]
pub(super) struct SoftRealTime {
    /// A soft real-time queue does not send again before this time (`soft_rt_next_start`).
    pub(super) next_start: Jiffy,
    /// That time must be computed once the last request in flight completes (`softrt_update`).
    pub(super) update_on_completion: bool,
}

impl SoftRealTime {
    pub(super) fn new(clock: &Clock) -> SoftRealTime {
        SoftRealTime { next_start: clock.jiffy, update_on_completion: false }
    }
}

/// The signs by which an arriving request decides on the raising of its queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signs {
    /// The queue may be raised (`wr_or_deserves_wr`).
    pub(super) deserves: bool,
    pub(super) interactive: bool,
    pub(super) soft_rt: bool,
    pub(super) in_burst: bool,
}

impl Bfq {
    /// How long an interactive queue is raised: as long as the device needs to load a large application
    /// (`bfq_wr_duration`).
    pub(super) fn raising_time(&self) -> Jiffies {
        if self.tunables.wr_max_time > Jiffies::ZERO {
            return self.tunables.wr_max_time;
        }
        self.peak_rate.loading_time(&self.clock, self.tunables.rotational)
    }

    /// Sets the factor of a queue's weight and counts the raised queues.
    pub(super) fn set_raising(&mut self, queue: QueueId, factor: u64) {
        let entity = self.entity_mut(queue);
        let was_raised = entity.is_raised();
        entity.raising = factor;
        entity.weight_changed = true;
        let is_raised = entity.is_raised();
        if self.queues[queue].is_busy() {
            self.load.raised_busy -= u32::from(was_raised);
            self.load.raised_busy += u32::from(is_raised);
        }
    }

    /// Ends the raising of a queue (`bfq_bfqq_end_wr`).
    pub(super) fn end_raising(&mut self, queue: QueueId) {
        let jiffy = self.clock.jiffy;
        let state = &mut self.queues[queue];
        if state.raising.max_time != self.tunables.wr_rt_max_time {
            state.soft_rt.next_start = jiffy;
        }
        state.raising.max_time = Jiffies::ZERO;
        state.raising.last_start_finish = jiffy;
        self.set_raising(queue, 1);
    }

    /// The start of the interactive raising that soft real-time raising interrupted, unless its time is over.
    pub(super) fn interrupted_raising(&self, queue: QueueId) -> Option<Jiffy> {
        let start = self.queues[queue].raising.interactive_start;
        start.filter(|&start| !self.clock.is_longer_ago(start, self.raising_time()))
    }

    /// Returns from soft real-time to the interactive raising that started at `start`
    /// (`switch_back_to_interactive_wr`).
    pub(super) fn back_to_interactive(&mut self, queue: QueueId, start: Jiffy) {
        let time = self.raising_time();
        self.set_raising(queue, self.tunables.wr_coeff);
        let raising = &mut self.queues[queue].raising;
        raising.max_time = time;
        raising.last_start_finish = start;
    }

    /// Ends soft real-time raising; the interactive raising that it interrupted goes on.
    pub(super) fn end_soft_rt(&mut self, queue: QueueId) {
        match self.interrupted_raising(queue) {
            Some(start) => self.back_to_interactive(queue, start),
            None => self.end_raising(queue),
        }
    }

    /// A queue becomes busy: raises it, or changes how it is raised (`bfq_update_bfqq_wr_on_rq_arrival`). `before` is
    /// the factor before the request arrived.
    pub(super) fn raise_on_arrival(&mut self, queue: QueueId, before: u64, signs: Signs) {
        let interactive_factor = self.tunables.wr_coeff;
        let soft_rt_factor = interactive_factor * SOFT_RT_FACTOR;
        let raising_time = self.raising_time();
        let soft_rt_time = self.tunables.wr_rt_max_time;
        let small_budget = 2 * self.min_budget();
        let mut factor = self.entity(queue).raising;
        let raising = &mut self.queues[queue].raising;
        if before == 1 && signs.deserves {
            if signs.interactive {
                raising.service = 0;
                factor = interactive_factor;
                raising.max_time = raising_time;
            } else {
                raising.interactive_start = None;
                factor = soft_rt_factor;
                raising.max_time = soft_rt_time;
            }
            let entity = self.entity_mut(queue);
            entity.budget = entity.budget.min(small_budget);
        } else if before > 1 {
            if signs.interactive {
                factor = interactive_factor;
                raising.max_time = raising_time;
            } else if signs.in_burst {
                factor = 1;
            } else if signs.soft_rt {
                if raising.max_time != soft_rt_time {
                    raising.interactive_start = Some(raising.last_start_finish);
                    raising.max_time = soft_rt_time;
                    factor = soft_rt_factor;
                }
                raising.last_start_finish = self.clock.jiffy;
            }
        }
        if factor != before {
            self.set_raising(queue, factor);
        }
    }

    /// Raises an async queue that had no request for long (`bfq_add_request`).
    pub(super) fn raise_async(&mut self, queue: QueueId) {
        self.queues[queue].raising.max_time = self.raising_time();
        self.set_raising(queue, self.tunables.wr_coeff);
    }

    /// A request of the queue in service was sent: ends the raising whose time or service is used up
    /// (`bfq_update_wr_data`).
    pub(super) fn update_raising(&mut self, queue: QueueId) {
        let soft_rt_time = self.tunables.wr_rt_max_time;
        if self.entity(queue).is_raised() {
            let state = &self.queues[queue];
            if state.burst.in_large {
                self.end_raising(queue);
            } else if self.clock.is_longer_ago(state.raising.last_start_finish, state.raising.max_time) {
                if state.raising.max_time == soft_rt_time {
                    self.end_soft_rt(queue);
                } else {
                    self.end_raising(queue);
                }
            }
            let raising = &self.queues[queue].raising;
            let spent = raising.max_time != soft_rt_time && raising.service > MAX_RAISED_SERVICE;
            if spent && self.entity(queue).is_raised() {
                self.end_raising(queue);
            }
        }
        let entity = self.entity(queue);
        if (entity.weight > entity.orig_weight) != entity.is_raised() {
            self.service.update_weight(self.queues[queue].entity, false);
        }
    }

    /// A soft real-time queue comes into service: its raising lasts longer by the time without service
    /// (`__bfq_set_in_service_queue`).
    pub(super) fn extend_soft_rt(&mut self, queue: QueueId) {
        let raised = self.entity(queue).is_raised();
        let jiffy = self.clock.jiffy;
        let state = &mut self.queues[queue];
        let raising = &mut state.raising;
        let idle_since = state.turn.budget_timeout;
        let is_soft_rt = raised && raising.max_time == self.tunables.wr_rt_max_time;
        if is_soft_rt && raising.last_start_finish < jiffy && idle_since < Some(jiffy) {
            match idle_since {
                Some(since) if since > raising.last_start_finish => {
                    raising.last_start_finish += jiffy.saturating_since(since);
                }
                _ => raising.last_start_finish = jiffy,
            }
        }
    }

    /// The time before which a queue does not send again if it is soft real-time (`bfq_bfqq_softrt_next_start`).
    pub(super) fn next_soft_rt_start(&self, queue: QueueId) -> Jiffy {
        let state = &self.queues[queue];
        let by_rate = self.clock.jiffies(SECOND).count().saturating_mul(state.backlog.service)
            / self.tunables.wr_max_softrt_rate.max(1);
        let after_idling = self.clock.jiffy + self.clock.whole_jiffies(self.tunables.slice_idle) + SOFT_RT_MARGIN;
        state.soft_rt.next_start.max(state.backlog.since + Jiffies::new(by_rate)).max(after_idling)
    }
}
