//! The device's peak rate, estimated from the requests sent in windows of about a second, and what
//! follows from it: the largest budget and how long an interactive queue is raised.

use super::Bfq;
use super::clock::LONG_AGO;
use super::idle::THINK_TIME_MIN;
use super::requests::Waiting;

/// Fixed-point shift of a rate in sectors per microsecond.
const RATE_SHIFT: u32 = 16;
const MIN_SAMPLES: u64 = 32;
/// In ns: least and intended length of a window.
const MIN_INTERVAL: i64 = 300_000_000;
const REFERENCE_INTERVAL: i64 = 1_000_000_000;
/// Rates of the reference devices, flash and rotational.
const REFERENCE_RATE: [u64; 2] = [33_000, 14_000];
/// How long it takes them to start a large application, in milliseconds.
const REFERENCE_RAISING_MS: [i64; 2] = [2500, 7000];
/// In milliseconds: the bounds of that on the device at hand.
const RAISING_MS: (i64, i64) = (3000, 25_000);

/// The estimator.
#[derive(Clone, Debug)]
pub(super) struct PeakRate {
    /// Sectors per microsecond, in fixed point.
    rate: u64,
    samples: u64,
    sequential: u64,
    sectors: u64,
    largest: u64,
    first_dispatch: i64,
    last_dispatch: i64,
    since_first: i64,
    pub(super) last_completion: i64,
    /// The end of what was sent last.
    pub(super) last_position: u64,
}

impl PeakRate {
    pub(super) fn new(rotational: bool) -> PeakRate {
        PeakRate {
            rate: REFERENCE_RATE[usize::from(rotational)] * 2 / 3,
            samples: 0,
            sequential: 0,
            sectors: 0,
            largest: 0,
            first_dispatch: LONG_AGO,
            last_dispatch: LONG_AGO,
            since_first: 0,
            last_completion: LONG_AGO,
            last_position: 0,
        }
    }
}

impl Bfq {
    /// How long an interactive queue is raised, in jiffies.
    pub(super) fn raising_time(&self) -> i64 {
        if self.tunables.wr_max_time > 0 {
            return self.tunables.wr_max_time;
        }
        let device = usize::from(self.tunables.rotational);
        let work = REFERENCE_RATE[device] as i64 * self.clock.jiffies_of_ms(REFERENCE_RAISING_MS[device]);
        let bounds = (self.clock.jiffies_of_ms(RAISING_MS.0), self.clock.jiffies_of_ms(RAISING_MS.1));
        (work / self.peak_rate.rate as i64).clamp(bounds.0, bounds.1)
    }

    /// Begins a window with this request, or with the next.
    fn restart_window(&mut self, request: Option<&Waiting>) {
        let rate = &mut self.peak_rate;
        match request {
            Some(request) => {
                (rate.first_dispatch, rate.last_dispatch) = (self.clock.ns, self.clock.ns);
                (rate.samples, rate.sequential) = (1, 0);
                rate.sectors = u64::from(request.sectors);
                rate.largest = rate.sectors;
            }
            None => rate.samples = 0,
        }
    }

    /// Closes a window: what it says goes into the estimate if it was long and sequential enough.
    fn close_window(&mut self, request: Option<&Waiting>) {
        let rate = &mut self.peak_rate;
        if rate.samples >= MIN_SAMPLES && rate.since_first >= MIN_INTERVAL {
            rate.since_first = rate.since_first.max(rate.last_completion - rate.first_dispatch);
            let us = (rate.since_first / 1000) as u64;
            let measured = (rate.sectors << RATE_SHIFT) / us;
            let sequential = rate.sequential >= (3 * rate.samples) >> 2;
            if (sequential || measured > rate.rate) && measured <= 20 << RATE_SHIFT {
                let weight = 9 * rate.sequential / rate.samples;
                let weight = 8.min(weight * rate.since_first as u64 / REFERENCE_INTERVAL as u64);
                let divisor = 10 - weight;
                rate.rate = (rate.rate * (divisor - 1) / divisor + measured / divisor).max(1);
                self.follow_peak_rate();
            }
        }
        self.restart_window(request);
    }

    /// The budget that a queue served at the peak rate uses up within its time.
    fn follow_peak_rate(&mut self) {
        if self.tunables.user_max_budget == 0 {
            let budget = (self.peak_rate.rate * 1000 * self.tunables.timeout_ms as u64) >> RATE_SHIFT;
            self.current_max_budget = budget.min(i32::MAX as u64) as i64;
        }
    }

    /// A request is sent.
    pub(super) fn observe_dispatch(&mut self, request: &Waiting) {
        let now = self.clock.ns;
        if self.peak_rate.samples == 0 {
            self.restart_window(Some(request));
        } else if now - self.peak_rate.last_dispatch > 100_000_000 && self.in_driver == 0 {
            self.close_window(Some(request));
        } else {
            let flows = self.in_driver > 0 || now - self.peak_rate.last_completion < THINK_TIME_MIN;
            let seeks = self.is_seek(self.peak_rate.last_position, request.sector, request.sectors);
            let rate = &mut self.peak_rate;
            rate.samples += 1;
            rate.sequential += u64::from(flows && !seeks);
            let sectors = u64::from(request.sectors);
            rate.sectors += sectors;
            rate.largest = if rate.samples.is_multiple_of(32) { sectors } else { rate.largest.max(sectors) };
            rate.since_first = now - rate.first_dispatch;
            if rate.since_first >= REFERENCE_INTERVAL {
                self.close_window(Some(request));
            }
        }
        self.peak_rate.last_position = request.sector.saturating_add(u64::from(request.sectors));
        if request.queue == self.in_service {
            self.in_service_last_position = self.peak_rate.last_position;
        }
        self.peak_rate.last_dispatch = now;
    }

    /// A request has completed: one that took long for its size ends the window.
    pub(super) fn observe_completion(&mut self) {
        let now = self.clock.ns;
        let since = (now - self.peak_rate.last_completion) / 1000;
        let slow = |since: i64| (self.peak_rate.largest << RATE_SHIFT) / (since as u64) < 1 << (RATE_SHIFT - 10);
        if since > THINK_TIME_MIN / 1000 && slow(since) {
            self.close_window(None);
        }
        self.peak_rate.last_completion = now;
    }
}
