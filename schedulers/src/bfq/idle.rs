//! Think time, seekiness, and whether to keep the device idle for the next request of an empty
//! queue in service.

use super::Bfq;
use super::service::{IDLE, NONE};

/// In ns: a think time below this is none, and a seeky queue is not waited for longer.
pub(super) const THINK_TIME_MIN: i64 = 2_000_000;
/// In ns: how long a raised queue is waited for at least.
const RAISED_IDLE_MIN: i64 = 20_000_000;
/// In sectors: a greater distance is a seek.
const SEEK_DISTANCE: u64 = 8 * 100;
/// In sectors: a seek to so large a request costs flash nothing.
pub(super) const LARGE_ON_FLASH: u32 = 2 * 32;
/// More requests in flight than this are queueing, if seen in so many samples.
const QUEUEING_DEPTH: u32 = 3;
const QUEUEING_SAMPLES: u32 = 32;

impl Bfq {
    /// Whether a request at `sector` is a seek from `last`; zero is nowhere.
    pub(super) fn is_seek(&self, last: u64, sector: u64, sectors: u32) -> bool {
        let far = last != 0 && sector.abs_diff(last) > SEEK_DISTANCE;
        far && (self.tunables.rotational || sectors < LARGE_ON_FLASH)
    }

    /// Whether queues that share the device are to get different shares of it, and this one does not
    /// get the least.
    pub(super) fn is_asymmetric(&self, queue: u32) -> bool {
        let classes = self.busy_queues.iter().filter(|&&busy| busy > 0).count();
        classes > 1
            || self.service.groups_pending > 1
            || self.service.weights_differ(self.queues[queue as usize].entity)
    }

    pub(super) fn busy_total(&self) -> u32 {
        self.busy_queues.iter().sum()
    }

    /// A request arrives: how long has its queue had nothing to do? The first of a new queue counts as
    /// the longest time: while a task's plug is flushed the clock stands still (`blk_time_get_ns`), and
    /// the end of the queue's last request is set to just after now (`bfq_init_bfqq`).
    pub(super) fn update_think_time(&mut self, queue: u32) {
        let slice_idle = self.tunables.slice_idle;
        let of = &mut self.queues[queue as usize];
        if of.dispatched > 0 || of.busy {
            return;
        }
        let longest = 2 * slice_idle;
        let elapsed = self.clock.ns - of.think_time.last_end;
        let elapsed = if elapsed < 0 { longest } else { elapsed.min(longest) };
        let mean = &mut of.think_time;
        mean.samples = (7 * mean.samples + 256) / 8;
        mean.total = (7 * mean.total + 256 * elapsed) / 8;
        mean.mean = (mean.total + 128) / mean.samples;
    }

    /// Decides whether a queue's think time is short enough to wait for it.
    pub(super) fn update_short_think_time(&mut self, queue: u32) {
        let of = self.queues[queue as usize];
        let class = self.entity(queue).class;
        let just_split = of.split_time + self.tunables.wr_min_idle_time >= self.clock.jiffy;
        if !of.sync || class == IDLE || self.tunables.slice_idle == 0 || just_split {
            return;
        }
        let short = of.think_time.samples <= 80 || of.think_time.mean <= self.tunables.slice_idle >> 1;
        self.queues[queue as usize].short_think_time = short;
        let settled = self.clock.is_reached(of.decrease_time + self.clock.jiffies_of_ms(100));
        if short != of.short_think_time && of.last_service_time == 0 && (settled || !short) {
            self.reset_inject_limit(queue);
        }
    }

    /// Notes whether a request of this queue is a seek from its last. A soft real-time queue does not
    /// only seek.
    pub(super) fn update_seek_history(&mut self, queue: u32, sector: u64, sectors: u32) {
        let seek = self.is_seek(self.queues[queue as usize].last_request_end, sector, sectors);
        let of = &mut self.queues[queue as usize];
        of.seek_history = of.seek_history << 1 | u32::from(seek);
        let soft_rt = of.wr_cur_max_time == self.tunables.wr_rt_max_time;
        if soft_rt && of.is_totally_seeky() && self.entity(queue).wr_coeff > 1 {
            self.end_soft_rt(queue);
        }
    }

    /// Notes for how much of the last while a queue had requests: an I/O-bound one for four fifths. The
    /// kernel's sums have no sign and wrap around: a new queue has been idle for -1 ns.
    pub(super) fn update_io_intensity(&mut self, queue: u32) {
        let now = self.clock.ns;
        // The request that arrives is counted already.
        let of = &mut self.queues[queue as usize];
        let total = now - of.io_start_time;
        if of.queued[0] + of.queued[1] == 1 && of.dispatched == 0 {
            // A clock of microseconds may show none.
            let elapsed = now - of.think_time.last_end;
            of.total_idle_time = of.total_idle_time.wrapping_add_signed(if elapsed == 0 { 1 } else { elapsed });
        }
        if of.just_created {
            return;
        }
        of.io_bound = of.total_idle_time.wrapping_mul(5) <= total.max(0) as u64;
        if total > 200_000_000 {
            of.io_start_time = now - (total >> 1);
            of.total_idle_time >>= 1;
        }
    }

    /// Whether idling for this queue raises throughput and harms no raised queue.
    pub(super) fn idling_raises_throughput(&self, queue: u32) -> bool {
        let of = &self.queues[queue as usize];
        if of.process_refs == 0 {
            return false;
        }
        let streams = !of.is_seeky() && of.io_bound && of.short_think_time;
        let rotational = self.tunables.rotational;
        let queues = self.queueing != Some(false);
        let raises = (rotational && !queues) || ((rotational || !queues) && streams);
        raises && self.raised_busy == 0
    }

    /// Whether idling for this queue is needed for it to get its share.
    pub(super) fn idling_keeps_guarantees(&self, queue: u32) -> bool {
        let of = &self.queues[queue as usize];
        if of.process_refs == 0 {
            return false;
        }
        let busy = self.busy_total();
        (self.entity(queue).wr_coeff > 1 && (self.raised_busy < busy || self.in_driver >= of.dispatched + 4))
            || self.is_asymmetric(queue)
            || busy == 1
    }

    /// Whether to idle for this queue if it is empty.
    pub(super) fn better_to_idle(&self, queue: u32) -> bool {
        let of = &self.queues[queue as usize];
        if of.process_refs == 0 {
            return false;
        }
        if self.tunables.strict_guarantees {
            return true;
        }
        if self.tunables.slice_idle == 0 || !of.sync || self.entity(queue).class == IDLE {
            return false;
        }
        self.idling_raises_throughput(queue) || self.idling_keeps_guarantees(queue)
    }

    pub(super) fn must_idle(&self, queue: u32) -> bool {
        self.queues[queue as usize].is_empty() && self.better_to_idle(queue)
    }

    /// Begins to idle for the queue in service.
    pub(super) fn start_idling(&mut self) {
        let queue = self.in_service;
        let raised = self.entity(queue).wr_coeff > 1;
        let mut span = self.tunables.slice_idle;
        if self.queues[queue as usize].is_seeky() && !raised && !self.is_asymmetric(queue) {
            span = span.min(THINK_TIME_MIN);
        } else if raised {
            span = span.max(RAISED_IDLE_MIN);
        }
        self.queues[queue as usize].wait_request = true;
        self.last_idling_start = self.clock.ns;
        self.idle_until = Some(self.clock.ns + span);
    }

    pub(super) fn stop_idling(&mut self, queue: u32) {
        self.queues[queue as usize].wait_request = false;
        self.idle_until = None;
    }

    /// Finds out whether the device holds several requests at once.
    pub(super) fn update_queueing(&mut self) {
        self.most_in_driver = self.most_in_driver.max(self.in_driver);
        if self.queueing == Some(true) || self.in_driver + self.waiting_in_queues <= QUEUEING_DEPTH {
            return;
        }
        if self.in_service != NONE {
            let of = &self.queues[self.in_service as usize];
            let has = of.dispatched + of.queued[0] + of.queued[1];
            if of.short_think_time && has < QUEUEING_DEPTH && self.in_driver < QUEUEING_DEPTH {
                return;
            }
        }
        self.queueing_samples += 1;
        if self.queueing_samples <= QUEUEING_SAMPLES {
            return;
        }
        self.queueing = Some(self.most_in_driver > QUEUEING_DEPTH);
        self.most_in_driver = 0;
        self.queueing_samples = 0;
        self.flash_with_queueing = !self.tunables.rotational && self.queueing == Some(true);
    }
}

#[cfg(test)]
mod tests {
    use traces::spec::Settings;
    use traces::{Lba, Operation, Request, RequestId, Sectors, Timestamp};

    use super::*;
    use crate::scheduler::Scheduler;

    /// No decision shows it alone: a queue that is waited for has no think times, and where it is not,
    /// those of a few requests hardly matter. A mean of 2 × 8 ms, rounded as the kernel rounds it.
    #[test]
    fn the_first_think_time_of_a_queue_is_the_longest_and_no_idle_time() {
        let settings = Settings::resolve(&"bfq".parse().unwrap(), super::super::ENTRY.tunables).unwrap();
        let mut bfq = Bfq::new(&settings);
        let now = Timestamp::from_ns(5_000_000_000);
        bfq.insert(now, RequestId(0), &Request::new(now, Operation::Read, Lba::ZERO, Sectors::new(8)));
        let queue = bfq.queues.last().unwrap();
        assert_eq!((queue.think_time.samples, queue.think_time.mean), (32, (32 * 16_000_000 + 128) / 32));
        assert_eq!(queue.total_idle_time, u64::MAX, "-1 ns");
    }
}
