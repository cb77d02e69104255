//! The peak rate of the device, estimated from the requests sent in windows of about a second
//! (`bfq_update_peak_rate`). The largest budget and the time for which an interactive queue is raised follow from it.
//! Linux 6.18, block/bfq-iosched.c.

use traces::{Nanos, Timestamp};

use super::Bfq;
use super::clock::{Clock, Jiffies};
use super::idle::THINK_TIME_MIN;
use super::requests::Waiting;

/// Fixed-point shift of a rate in sectors per microsecond (`BFQ_RATE_SHIFT`).
const RATE_SHIFT: u32 = 16;
/// The number of requests that a window needs (`BFQ_RATE_MIN_SAMPLES`).
const SAMPLES_MIN: u64 = 32;
/// The size of the largest request is reset after this number of requests (`bfq_update_peak_rate`).
const LARGEST_OF: u64 = 32;
/// The length that a window needs (`BFQ_RATE_MIN_INTERVAL`).
const INTERVAL_MIN: Nanos = Nanos::from_ms(300);
/// The intended length of a window (`BFQ_RATE_REF_INTERVAL`).
const REFERENCE_INTERVAL: Nanos = Nanos::from_s(1);
/// A pause of this length in which no request is in flight ends a window.
const PAUSE: Nanos = Nanos::from_ms(100);
/// A larger rate is a measuring error, in fixed point: 20 sectors per microsecond.
const RATE_MAX: u64 = 20 << RATE_SHIFT;
/// A request that is served at less than this rate ends a window, in fixed point: 1/1024 sector per microsecond.
const RATE_SLOW: u64 = 1 << (RATE_SHIFT - 10);
/// The rates of the reference devices in fixed point, flash and rotational (`ref_rate`).
const REFERENCE_RATE: [u64; 2] = [33_000, 14_000];
/// The time in which they load a large application (`ref_wr_duration`).
const REFERENCE_LOADING: [Nanos; 2] = [Nanos::from_ms(2500), Nanos::from_ms(7000)];
/// The bounds of that time on the device at hand (`bfq_wr_duration`).
const LOADING_MIN: Nanos = Nanos::from_s(3);
const LOADING_MAX: Nanos = Nanos::from_s(25);

/// The requests sent in the current window.
#[derive(Clone, Copy, Debug)]
struct Window {
    first_dispatch: Timestamp,
    last_dispatch: Timestamp,
    /// The time from the first request to the last (`delta_from_first`).
    since_first: Nanos,
    samples: u64,
    /// The number of requests that were sequential.
    sequential: u64,
    sectors: u64,
    /// The size of the largest request, in sectors (`last_rq_max_size`).
    largest: u64,
}

impl Window {
    fn new(now: Timestamp, request: &Waiting) -> Window {
        let sectors = u64::from(request.sectors);
        Window {
            first_dispatch: now,
            last_dispatch: now,
            since_first: Nanos::ZERO,
            samples: 1,
            sequential: 0,
            sectors,
            largest: sectors,
        }
    }

    fn add(&mut self, now: Timestamp, request: &Waiting, sequential: bool) {
        let sectors = u64::from(request.sectors);
        self.samples += 1;
        self.sequential += u64::from(sequential);
        self.sectors += sectors;
        self.largest = if self.samples.is_multiple_of(LARGEST_OF) { sectors } else { self.largest.max(sectors) };
        self.since_first = now.since(self.first_dispatch);
    }
}

/// The estimator.
#[derive(Clone, Debug)]
pub(super) struct PeakRate {
    /// In sectors per microsecond, in fixed point.
    rate: u64,
    window: Option<Window>,
    pub(super) last_completion: Option<Timestamp>,
    /// The end of the request sent last; zero is nowhere (`last_position`).
    pub(super) last_position: u64,
}

impl PeakRate {
    pub(super) fn new(rotational: bool) -> PeakRate {
        let rate = REFERENCE_RATE[usize::from(rotational)] * 2 / 3;
        PeakRate { rate, window: None, last_completion: None, last_position: 0 }
    }

    /// How long the device takes to load a large application.
    pub(super) fn loading_time(&self, clock: &Clock, rotational: bool) -> Jiffies {
        let device = usize::from(rotational);
        let work = clock.jiffies(REFERENCE_LOADING[device]).count() * REFERENCE_RATE[device];
        Jiffies::new(work / self.rate).clamp(clock.jiffies(LOADING_MIN), clock.jiffies(LOADING_MAX))
    }

    /// Whether the last request completed less than `span` ago.
    pub(super) fn completed_within(&self, now: Timestamp, span: Nanos) -> bool {
        self.last_completion.is_some_and(|last| now.since(last) < span)
    }

    /// Updates the estimate from a window that was long and sequential enough (`bfq_update_rate_reset`). True if the
    /// estimate has changed.
    fn learn(&mut self, window: &Window) -> bool {
        if window.samples < SAMPLES_MIN || window.since_first < INTERVAL_MIN {
            return false;
        }
        let to_completion = self.last_completion.map_or(Nanos::ZERO, |end| end.saturating_since(window.first_dispatch));
        let length = window.since_first.max(to_completion);
        let measured = (window.sectors << RATE_SHIFT) / (length.as_ns() / 1000);
        let is_sequential = window.sequential >= (3 * window.samples) >> 2;
        if (!is_sequential && measured <= self.rate) || measured > RATE_MAX {
            return false;
        }
        // The longer and the more sequential the window, the more it weighs.
        let weight = 9 * window.sequential / window.samples;
        let weight = 8.min(weight * length.as_ns() / REFERENCE_INTERVAL.as_ns());
        let divisor = 10 - weight;
        self.rate = (self.rate * (divisor - 1) / divisor + measured / divisor).max(1);
        true
    }
}

impl Bfq {
    /// Closes the window. The next one begins with `request`, or with the request sent next.
    fn close_window(&mut self, request: Option<&Waiting>) {
        if let Some(window) = self.peak_rate.window
            && self.peak_rate.learn(&window)
        {
            self.follow_peak_rate();
        }
        self.peak_rate.window = request.map(|request| Window::new(self.clock.now, request));
    }

    /// Sets the largest budget to the sectors that a queue uses up within its time at the peak rate
    /// (`update_thr_responsiveness_params`).
    fn follow_peak_rate(&mut self) {
        if self.tunables.user_max_budget == 0 {
            let budget = (self.peak_rate.rate * 1000 * self.tunables.timeout_ms) >> RATE_SHIFT;
            self.budgets.max = budget.min(i32::MAX as u64);
        }
    }

    /// A request is sent.
    pub(super) fn observe_dispatch(&mut self, request: &Waiting) {
        let now = self.clock.now;
        let in_flight = self.load.in_flight;
        let flows = in_flight > 0 || self.peak_rate.completed_within(now, THINK_TIME_MIN);
        let seeks = self.is_seek(self.peak_rate.last_position, request.sector, request.sectors);
        match &mut self.peak_rate.window {
            None => self.peak_rate.window = Some(Window::new(now, request)),
            Some(window) if in_flight == 0 && now.since(window.last_dispatch) > PAUSE => {
                self.close_window(Some(request));
            }
            Some(window) => {
                window.add(now, request, flows && !seeks);
                window.last_dispatch = now;
                if window.since_first >= REFERENCE_INTERVAL {
                    self.close_window(Some(request));
                }
            }
        }
        self.peak_rate.last_position = request.end();
        if self.is_in_service(request.queue) {
            self.in_service.last_position = request.end();
        }
    }

    /// A request has completed: one that took long for its size ends the window (`bfq_completed_request`).
    pub(super) fn observe_completion(&mut self) {
        let now = self.clock.now;
        if let Some(window) = &self.peak_rate.window {
            let is_slow = self.peak_rate.last_completion.is_none_or(|last| {
                let us = now.since(last).as_ns() / 1000;
                us > THINK_TIME_MIN.as_ns() / 1000 && (window.largest << RATE_SHIFT) / us < RATE_SLOW
            });
            if is_slow {
                self.close_window(None);
            }
        }
        self.peak_rate.last_completion = Some(now);
    }
}
