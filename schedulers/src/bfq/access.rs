//! Estimates of how the process of a queue accesses the device: think time, seeks, and the share of time in which it
//! has requests. Linux 6.18, block/bfq-iosched.c.

use traces::{Nanos, Timestamp};

use super::Bfq;
use super::clock::Clock;
use super::entity::Class;
use super::ids::QueueId;

/// A greater distance is a seek, in sectors (`BFQQ_SEEK_THR`).
const SEEK_DISTANCE: u64 = 8 * 100;
/// A seek to a request as large as this costs flash nothing, in sectors (`BFQQ_SECT_THR_NONROT`).
pub(super) const LARGE_ON_FLASH: u32 = 2 * 32;
/// The queue is seeky if more of its last 32 requests were seeks (`BFQQ_SEEKY`).
const SEEKS_MAX: u32 = 19;
/// Samples, in 1/256, from which the mean think time is valid (`bfq_sample_valid`).
const SAMPLES_VALID: u64 = 80;
/// How long after a change of the injection limit it may be reset because the think time changed.
const INJECTION_SETTLED: Nanos = Nanos::from_ms(100);
/// The period over which the share of time with requests is measured.
const INTENSITY_PERIOD: Nanos = Nanos::from_ms(200);

/// The time from the last completion of a queue to its next request, as a decaying mean (`struct bfq_ttime`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ThinkTime {
    /// When the last request completed (`last_end_request`).
    pub(super) last_end: Timestamp,
    /// Sum in ns, and number of samples, both in 1/256.
    total: u64,
    samples: u64,
    mean: Nanos,
    /// The mean is short enough to idle for the queue (`has_short_ttime`).
    pub(super) short: bool,
}

impl ThinkTime {
    /// For a new queue the last completion lies just after now (`bfq_init_bfqq`).
    pub(super) fn new(clock: &Clock, short: bool) -> ThinkTime {
        ThinkTime { last_end: clock.now + Nanos::from_ns(1), short, ..ThinkTime::default() }
    }

    fn add(&mut self, elapsed: Nanos) {
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total + 256 * elapsed.as_ns()) / 8;
        self.mean = Nanos::from_ns((self.total + 128) / self.samples);
    }
}

/// Which of the last 32 requests of a queue were seeks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seeks {
    /// One bit a request, the latest lowest (`seek_history`).
    history: u32,
    /// The end of the last request; zero is nowhere (`last_request_pos`).
    pub(super) last_end: u64,
}

impl Seeks {
    /// The first request is almost certainly a seek.
    pub(super) fn new() -> Seeks {
        Seeks { history: 1, last_end: 0 }
    }

    pub(super) fn are_most(&self) -> bool {
        self.history.count_ones() > SEEKS_MAX
    }

    pub(super) fn are_all(&self) -> bool {
        self.history == u32::MAX
    }
}

/// The share of time in which a queue has requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IoIntensity {
    /// The begin of the period measured (`io_start_time`).
    start: Timestamp,
    /// The part of the period without requests, in ns. As in the kernel, it has no sign and wraps around
    /// (`tot_idle_time`).
    idle_ns: u64,
    /// The queue has requests for four fifths of the time (`IO_bound`).
    pub(super) io_bound: bool,
}

impl IoIntensity {
    pub(super) fn new(clock: &Clock) -> IoIntensity {
        IoIntensity { start: clock.now, idle_ns: 0, io_bound: true }
    }
}

impl Bfq {
    /// Whether a request at `sector` is a seek from `last`; a `last` of zero is nowhere (`BFQ_RQ_SEEKY`).
    pub(super) fn is_seek(&self, last: u64, sector: u64, sectors: u32) -> bool {
        let far = last != 0 && sector.abs_diff(last) > SEEK_DISTANCE;
        far && (self.tunables.rotational || sectors < LARGE_ON_FLASH)
    }

    /// A request arrives: samples how long its queue had no request (`bfq_update_io_thinktime`).
    ///
    /// The first request of a new queue counts as the longest time. The clock stands still while the plug of a task is
    /// flushed (`blk_time_get_ns`). The last completion of a new queue therefore lies after now, and the kernel's
    /// difference has no sign.
    pub(super) fn update_think_time(&mut self, queue: QueueId) {
        let state = &mut self.queues[queue];
        if state.dispatched > 0 || state.is_busy() {
            return;
        }
        let longest = self.tunables.slice_idle * 2;
        let elapsed = self.clock.now.checked_since(state.think_time.last_end);
        state.think_time.add(elapsed.map_or(longest, |elapsed| elapsed.min(longest)));
    }

    /// Decides whether the think time of a queue is short enough to idle for it (`bfq_update_has_short_ttime`).
    pub(super) fn update_short_think_time(&mut self, queue: QueueId) {
        let state = &self.queues[queue];
        let just_split = !self.clock.is_longer_ago(state.merging.split_time, self.tunables.wr_min_idle_time);
        let is_idle_class = self.entity(queue).class == Class::Idle;
        if !state.sync || is_idle_class || self.tunables.slice_idle == Nanos::ZERO || just_split {
            return;
        }
        let half_slice_idle = Nanos::from_ns(self.tunables.slice_idle.as_ns() / 2);
        let was_short = state.think_time.short;
        let short = state.think_time.samples <= SAMPLES_VALID || state.think_time.mean <= half_slice_idle;
        let injection = state.injection;
        self.queues[queue].think_time.short = short;
        if short == was_short || injection.is_measured() {
            return;
        }
        if !short || self.clock.is_as_long_ago(injection.changed, self.clock.jiffies(INJECTION_SETTLED)) {
            self.reset_inject_limit(queue);
        }
    }

    /// Records whether a request is a seek from the last one of its queue (`bfq_update_io_seektime`). A queue that
    /// only seeks is not soft real-time.
    pub(super) fn update_seek_history(&mut self, queue: QueueId, sector: u64, sectors: u32) {
        let seek = self.is_seek(self.queues[queue].seeks.last_end, sector, sectors);
        let state = &mut self.queues[queue];
        state.seeks.history = state.seeks.history << 1 | u32::from(seek);
        let soft_rt = state.raising.max_time == self.tunables.wr_rt_max_time;
        if soft_rt && state.seeks.are_all() && self.entity(queue).is_raised() {
            self.end_soft_rt(queue);
        }
    }

    /// A request has arrived and is counted: measures for which share of the time its queue has requests
    /// (`bfq_update_io_intensity`).
    pub(super) fn update_io_intensity(&mut self, queue: QueueId) {
        let now = self.clock.now;
        let state = &mut self.queues[queue];
        let is_first = state.waiting() == 1 && state.dispatched == 0;
        let intensity = &mut state.intensity;
        let total = now.since(intensity.start);
        if is_first {
            // The difference wraps around: the first request of a new queue adds -1 ns. A time of zero counts as 1 ns,
            // because a clock of microseconds may show none.
            let idle_ns = now.as_ns().wrapping_sub(state.think_time.last_end.as_ns());
            intensity.idle_ns = intensity.idle_ns.wrapping_add(if idle_ns == 0 { 1 } else { idle_ns });
        }
        if state.just_created {
            return;
        }
        intensity.io_bound = intensity.idle_ns.wrapping_mul(5) <= total.as_ns();
        if total > INTENSITY_PERIOD {
            intensity.start = Timestamp::from_ns(now.as_ns() - total.as_ns() / 2);
            intensity.idle_ns /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use traces::spec::Settings;
    use traces::{Lba, Operation, Request, RequestId, Sectors};

    use super::super::ids::Id;
    use super::*;
    use crate::scheduler::Scheduler;

    /// No decision depends on it alone: a queue that is waited for has no think times, and elsewhere the first of
    /// several think times hardly matters. The mean of 2 × 8 ms is rounded as the kernel rounds it.
    #[test]
    fn first_think_time_of_a_queue_is_the_longest_and_its_idle_time_minus_one() {
        let settings = Settings::resolve(&"bfq".parse().unwrap(), super::super::ENTRY.tunables).unwrap();
        let mut bfq = Bfq::new(&settings);
        let now = Timestamp::from_ns(5_000_000_000);
        bfq.insert(now, RequestId(0), &Request::new(now, Operation::Read, Lba::ZERO, Sectors::new(8)));
        let queue = &bfq.queues[QueueId::new(0)];
        let mean = Nanos::from_ns((32 * 16_000_000 + 128) / 32);
        assert_eq!((queue.think_time.samples, queue.think_time.mean), (32, mean));
        assert_eq!(queue.intensity.idle_ns, u64::MAX, "-1 ns");
    }
}
