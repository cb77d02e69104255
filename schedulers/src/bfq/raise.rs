//! Weight raising: a queue that begins after a rest (interactive), or sends little at regular times
//! (soft real-time), gets many times its weight for a while.

use super::Bfq;
use super::clock::LONG_AGO;

/// A soft real-time queue's factor over an interactive one's.
const SOFT_RT_FACTOR: i64 = 100;
/// Sectors after which an interactive queue is no longer taken for one: more than the largest
/// application needs to start.
const MAX_RAISED_SERVICE: i64 = 120_000;
/// Only queues of the default weight are raised.
pub(super) const DEFAULT_WEIGHT: i64 = 40;
/// In jiffies: what a soft real-time queue rests longer than the device would idle for it.
const SOFT_RT_MARGIN: i64 = 4;

/// What an arriving request says about its queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signs {
    pub(super) deserves: bool,
    pub(super) interactive: bool,
    pub(super) soft_rt: bool,
    pub(super) in_burst: bool,
}

impl Bfq {
    /// Sets the factor of a queue's weight and keeps count of the raised ones.
    pub(super) fn set_raising(&mut self, queue: u32, coefficient: i64) {
        let busy = self.queues[queue as usize].busy;
        let entity = self.entity_mut(queue);
        let before = std::mem::replace(&mut entity.wr_coeff, coefficient);
        entity.weight_changed = true;
        if busy {
            self.raised_busy -= u32::from(before > 1);
            self.raised_busy += u32::from(coefficient > 1);
        }
    }

    /// Ends the raising of a queue.
    pub(super) fn end_raising(&mut self, queue: u32) {
        let jiffy = self.clock.jiffy;
        let of = &mut self.queues[queue as usize];
        if of.wr_cur_max_time != self.tunables.wr_rt_max_time {
            of.soft_rt_next_start = jiffy;
        }
        of.wr_cur_max_time = 0;
        of.last_wr_start_finish = jiffy;
        self.set_raising(queue, 1);
    }

    /// From soft real-time back to interactive.
    pub(super) fn back_to_interactive(&mut self, queue: u32) {
        let time = self.raising_time();
        self.set_raising(queue, self.tunables.wr_coeff);
        let of = &mut self.queues[queue as usize];
        of.wr_cur_max_time = time;
        of.last_wr_start_finish = of.wr_start_at_switch_to_srt;
    }

    /// Ends soft real-time raising; an interactive one that it interrupted goes on.
    pub(super) fn end_soft_rt(&mut self, queue: u32) {
        if self.clock.is_past(self.queues[queue as usize].wr_start_at_switch_to_srt + self.raising_time()) {
            self.end_raising(queue);
        } else {
            self.back_to_interactive(queue);
        }
    }

    /// A queue becomes busy: raises it, or changes how it is raised.
    pub(super) fn raise_on_arrival(&mut self, queue: u32, before: i64, signs: Signs) {
        let (jiffy, factor) = (self.clock.jiffy, self.tunables.wr_coeff);
        let raising_time = self.raising_time();
        let rt_time = self.tunables.wr_rt_max_time;
        let least = self.min_budget();
        let mut coefficient = self.entity(queue).wr_coeff;
        let of = &mut self.queues[queue as usize];
        if before == 1 && signs.deserves {
            if signs.interactive {
                of.service_from_wr = 0;
                coefficient = factor;
                of.wr_cur_max_time = raising_time;
            } else {
                of.wr_start_at_switch_to_srt = LONG_AGO;
                coefficient = factor * SOFT_RT_FACTOR;
                of.wr_cur_max_time = rt_time;
            }
            let entity = self.entity_mut(queue);
            entity.budget = entity.budget.min(2 * least);
        } else if before > 1 {
            if signs.interactive {
                coefficient = factor;
                of.wr_cur_max_time = raising_time;
            } else if signs.in_burst {
                coefficient = 1;
            } else if signs.soft_rt {
                if of.wr_cur_max_time != rt_time {
                    of.wr_start_at_switch_to_srt = of.last_wr_start_finish;
                    of.wr_cur_max_time = rt_time;
                    coefficient = factor * SOFT_RT_FACTOR;
                }
                of.last_wr_start_finish = jiffy;
            }
        }
        if coefficient != before {
            self.set_raising(queue, coefficient);
        }
    }

    /// An async queue that was long without requests is raised, too.
    pub(super) fn raise_async(&mut self, queue: u32) {
        self.queues[queue as usize].wr_cur_max_time = self.raising_time();
        self.set_raising(queue, self.tunables.wr_coeff);
    }

    /// A request of the queue in service was sent: ends its raising when its time or service is up.
    pub(super) fn update_raising(&mut self, queue: u32) {
        let rt_time = self.tunables.wr_rt_max_time;
        if self.entity(queue).wr_coeff > 1 {
            let of = &self.queues[queue as usize];
            if of.in_large_burst {
                self.end_raising(queue);
            } else if self.clock.is_past(of.last_wr_start_finish + of.wr_cur_max_time) {
                if of.wr_cur_max_time == rt_time {
                    self.end_soft_rt(queue);
                } else {
                    self.end_raising(queue);
                }
            }
            let of = &self.queues[queue as usize];
            let spent = of.wr_cur_max_time != rt_time && of.service_from_wr > MAX_RAISED_SERVICE;
            if spent && self.entity(queue).wr_coeff > 1 {
                self.end_raising(queue);
            }
        }
        let entity = self.entity(queue);
        if (entity.weight > entity.orig_weight) != (entity.wr_coeff > 1) {
            self.service.update_weight(self.queues[queue as usize].entity, false);
        }
    }

    /// A soft real-time queue comes into service: the time it was not served does not count.
    pub(super) fn extend_soft_rt(&mut self, queue: u32) {
        let raised = self.entity(queue).wr_coeff > 1;
        let (jiffy, rt_time) = (self.clock.jiffy, self.tunables.wr_rt_max_time);
        let of = &mut self.queues[queue as usize];
        if raised && of.last_wr_start_finish < jiffy && of.wr_cur_max_time == rt_time && of.budget_timeout < jiffy {
            if of.budget_timeout > of.last_wr_start_finish {
                of.last_wr_start_finish += jiffy - of.budget_timeout;
            } else {
                of.last_wr_start_finish = jiffy;
            }
        }
    }

    /// The time before which a queue may not send again if it is soft real-time.
    pub(super) fn next_soft_rt_start(&self, queue: u32) -> i64 {
        let of = &self.queues[queue as usize];
        let second = self.clock.jiffies_of_ms(1000);
        let by_rate = of.last_idle_backlogged
            + second.saturating_mul(of.service_from_backlogged) / self.tunables.wr_max_softrt_rate.max(1);
        let after_idling = self.clock.jiffy + self.tunables.slice_idle / self.clock.tick() + SOFT_RT_MARGIN;
        of.soft_rt_next_start.max(by_rate).max(after_idling)
    }
}
