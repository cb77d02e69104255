//! Detects an open loop whose load the drive cannot sustain.
//!
//! A run counts as overloaded if one of two signs is present:
//! 1. The offered load (all service times over the span of the arrivals) is at least 1.
//! 2. The backlog keeps growing. The span is divided into four quarters. The mean number of outstanding requests of
//!    each quarter is at least 1.3 times that of the quarter before; it is at least 8 in the second quarter and at
//!    least 32 in the last. The bound on the second quarter excludes a burst at the end of a quiet run. (A backlog that
//!    grows linearly from zero has quarters as 1:3:5:7.)
//!
//! The response times of an overloaded run depend on its length more than on the scheduler. Requests that all arrive at
//! once are a batch and not a load.

use traces::{Request, RequestId, Timestamp};

use crate::observer::{Observer, Served};

const BINS: usize = 128;
/// The least mean backlog, in requests, of the second and the last quarter of a growing backlog.
const BACKLOG_MIN: [u128; 2] = [8, 32];

/// Watches the backlog of an open loop in bounded memory.
#[derive(Clone, Debug)]
pub struct Overload {
    /// Outstanding arrivals times nanoseconds, per bin of `width` nanoseconds.
    area: [u128; BINS],
    width: u64,
    outstanding: u128,
    at: u64,
    first_arrival: Option<Timestamp>,
    last_arrival: Timestamp,
    service_ns: u128,
}

impl Default for Overload {
    fn default() -> Overload {
        Overload {
            area: [0; BINS],
            width: 1_000_000,
            outstanding: 0,
            at: 0,
            first_arrival: None,
            last_arrival: Timestamp::ZERO,
            service_ns: 0,
        }
    }
}

/// The signs of overload that [`Overload`] has found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// The sum of the service times over the span of the arrivals; absent if all arrived at once.
    pub offered_load: Option<f64>,
    /// Whether the backlog kept growing.
    pub growing: bool,
}

impl Verdict {
    /// Whether one of the two signs is present.
    pub fn overloaded(&self) -> bool {
        self.offered_load.is_some_and(|load| load >= 1.0) || self.growing
    }

    /// Why the run is overloaded, in words; `None` if it is not. `held_back_by`: the bound by which arrivals were held
    /// back, if they were.
    pub fn why(&self, held_back_by: Option<&str>) -> Option<String> {
        let load = self.offered_load.filter(|&load| load >= 1.0);
        let reasons = [
            load.map(|load| format!("the offered load is {load:.2}")),
            self.growing.then(|| "the backlog kept growing".to_owned()),
            held_back_by.map(|bound| format!("arrivals were held back by {bound}")),
        ];
        let said: Vec<String> = reasons.into_iter().flatten().collect();
        (!said.is_empty()).then(|| said.join(", "))
    }
}

impl Overload {
    /// The verdict over the whole run.
    pub fn verdict(&self) -> Verdict {
        let first = self.first_arrival.unwrap_or_default();
        let span = self.last_arrival.saturating_since(first).as_ns();
        let offered_load = (span > 0).then(|| self.service_ns as f64 / span as f64);
        Verdict { offered_load, growing: self.growing(first, span) }
    }

    fn growing(&self, first: Timestamp, span: u64) -> bool {
        let bins = (first.as_ns() / self.width) as usize..(self.last_arrival.as_ns() / self.width) as usize;
        if bins.len() < 4 || span == 0 {
            return false;
        }
        let quarter = |index: usize| -> u128 {
            let from = bins.start + bins.len() * index / 4;
            let to = bins.start + bins.len() * (index + 1) / 4;
            self.area[from..to].iter().sum::<u128>() / (to - from) as u128
        };
        let quarters = [0, 1, 2, 3].map(quarter);
        let rises = quarters.windows(2).all(|pair| pair[1] * 10 >= pair[0] * 13);
        let least = BACKLOG_MIN.map(|requests| requests * u128::from(self.width));
        rises && quarters[1] >= least[0] && quarters[3] >= least[1]
    }

    fn change(&mut self, now: Timestamp) {
        let now = now.as_ns();
        while now / self.width >= BINS as u64 {
            for bin in 0..BINS / 2 {
                self.area[bin] = self.area[2 * bin] + self.area[2 * bin + 1];
            }
            self.area[BINS / 2..].fill(0);
            self.width *= 2;
        }
        while self.at < now {
            let bin = self.at / self.width;
            // The last bin may end behind the last time that can be expressed.
            let until = now.min((bin + 1).saturating_mul(self.width));
            self.area[bin as usize] += self.outstanding * u128::from(until - self.at);
            self.at = until;
        }
    }
}

impl Observer for Overload {
    fn arrived(&mut self, now: Timestamp, _id: RequestId, request: &Request) {
        self.change(now);
        self.first_arrival.get_or_insert(request.arrival);
        self.last_arrival = request.arrival;
        self.outstanding += 1;
    }

    fn served(&mut self, served: &Served) {
        self.service_ns += u128::from(served.finished.since(served.started).as_ns());
    }

    fn completed(&mut self, now: Timestamp, _id: RequestId, _request: &Request) {
        self.change(now);
        self.outstanding -= 1;
    }
}

#[cfg(test)]
mod tests {
    use traces::{Lba, Nanos, Operation, Sectors};

    use super::*;

    /// Arrivals every `gap`, served one after another in `service`.
    fn run(requests: u64, gap: u64, service: u64) -> Verdict {
        let mut overload = Overload::default();
        let mut events = Vec::new();
        let mut free = 0;
        for index in 0..requests {
            let arrival = index * gap;
            free = free.max(arrival) + service;
            events.push((arrival, 1, arrival));
            events.push((free, 0, arrival));
        }
        events.sort_unstable();
        for (now, arrives, arrival) in events {
            let time = Timestamp::from_ns(now);
            let request = Request::new(Timestamp::from_ns(arrival), Operation::Read, Lba::ZERO, Sectors::new(8));
            if arrives == 1 {
                overload.arrived(time, RequestId(0), &request);
                let started = time;
                let finished = time + Nanos::from_ns(service);
                let (id, seek, hit) = (RequestId(0), Sectors::ZERO, false);
                overload.served(&Served { id, request, dispatched: time, issued: time, started, finished, seek, hit });
            } else {
                overload.completed(time, RequestId(0), &request);
            }
        }
        overload.verdict()
    }

    #[test]
    fn a_load_that_is_sustained_is_not_overload() {
        let verdict = run(10_000, 1_000_000, 900_000);
        assert!(!verdict.overloaded() && (verdict.offered_load.unwrap() - 0.9).abs() < 0.001, "{verdict:?}");
    }

    #[test]
    fn a_load_above_one_is_overload_and_its_backlog_grows() {
        let verdict = run(10_000, 1_000_000, 1_100_000);
        assert!(verdict.overloaded() && verdict.growing, "{verdict:?}");
    }

    #[test]
    fn a_growing_backlog_alone_is_overload() {
        // An idling scheduler: the drive works half of the time and the queue grows all the same.
        let mut overload = Overload::default();
        for index in 0..1000u64 {
            let request =
                Request::new(Timestamp::from_ns(index * 1_000_000), Operation::Read, Lba::ZERO, Sectors::new(8));
            overload.arrived(request.arrival, RequestId(0), &request);
            if index % 2 == 0 {
                overload.completed(request.arrival, RequestId(0), &request);
            }
        }
        let verdict = overload.verdict();
        assert!(verdict.offered_load == Some(0.0) && verdict.growing && verdict.overloaded(), "{verdict:?}");
    }

    #[test]
    fn a_burst_at_the_end_of_a_quiet_run_is_not_a_growing_backlog() {
        let mut overload = Overload::default();
        let mut arrive = |ns: u64, stays: bool| {
            let request = Request::new(Timestamp::from_ns(ns), Operation::Read, Lba::ZERO, Sectors::new(8));
            overload.arrived(request.arrival, RequestId(0), &request);
            if !stays {
                overload.completed(Timestamp::from_ns(ns + 1_000_000 + ns / 100), RequestId(0), &request);
            }
        };
        for quiet in 0..30 {
            arrive(quiet * 100_000_000, false);
        }
        for burst in 0..1000 {
            arrive(3_500_000_000 + burst, true);
        }
        arrive(4_000_000_000, true);
        assert!(!overload.verdict().growing);
    }

    #[test]
    fn joining_bins_keeps_the_sum_of_the_backlog() {
        let mut overload = Overload::default();
        let request = Request::new(Timestamp::ZERO, Operation::Read, Lba::ZERO, Sectors::new(8));
        let mut area = 0u128;
        let mut now = 0;
        for (outstanding, step) in (0u64..600).map(|index| (u128::from(index), 1_000_000 + index * 77_777)) {
            area += outstanding * u128::from(step);
            now += step;
            overload.arrived(Timestamp::from_ns(now), RequestId(0), &request);
        }
        // The first arrival comes after nothing was outstanding, so the sums agree.
        assert_eq!(overload.area.iter().sum::<u128>(), area);
        assert!(overload.width > 1_000_000, "bins were joined");
    }

    #[test]
    fn times_up_to_the_last_are_counted() {
        let mut overload = Overload::default();
        let request = Request::new(Timestamp::ZERO, Operation::Read, Lba::ZERO, Sectors::new(8));
        overload.arrived(Timestamp::ZERO, RequestId(0), &request);
        overload.completed(Timestamp::MAX, RequestId(0), &request);
        assert_eq!(overload.area.iter().sum::<u128>(), u128::from(u64::MAX));
    }

    #[test]
    fn a_burst_that_drains_is_not_a_growing_backlog() {
        let mut overload = Overload::default();
        let request = |ns| Request::new(Timestamp::from_ns(ns), Operation::Read, Lba::ZERO, Sectors::new(8));
        for index in 0..500 {
            overload.arrived(Timestamp::from_ns(index), RequestId(0), &request(index));
        }
        for index in 0..500 {
            overload.completed(Timestamp::from_ns(1_000_000 * (index + 1)), RequestId(0), &request(index));
        }
        overload.arrived(Timestamp::from_ns(2_000_000_000), RequestId(0), &request(2_000_000_000));
        assert!(!overload.verdict().growing);
    }
}
