//! A device behind the throttle of Geist, Jones and Westall 2010 ([`drive_models::throttle`]): its completions are held
//! until the modelled disk would have completed them.
//!
//! A throttle on a slowed clock ([`ThrottleSettings::on_slowed_clock`]) slows the clock of the replay by its k. Arrivals,
//! think times, the scheduler's timers and all figures are then in the modelled disk's scale.
//!
//! [`ThrottleSettings::on_slowed_clock`]: drive_models::throttle::ThrottleSettings::on_slowed_clock

use drive_models::throttle::{Throttle, ThrottleScale};
use drive_models::{Completion, DriveModel, forward_properties};
use traces::{Request, RequestId, Sectors, Timestamp};

use super::device::{DeviceDrive, LiveDevice, LiveDrive};

/// Service times as the modelled disk has them, and as they came about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceTimes {
    /// Requests.
    pub requests: u64,
    /// The sum of the modelled service times, ns.
    pub modelled_ns: u128,
    /// The sum of the times from the begin of the modelled service to the completion that the replay saw, ns.
    pub achieved_ns: u128,
}

/// A throttled device, with the service times that it achieves.
pub struct Throttled<'a, D> {
    throttle: &'a mut Throttle<DeviceDrive<D>>,
    all: ServiceTimes,
    stable: ServiceTimes,
    /// The k for which `stable` counts.
    k: ThrottleScale,
}

impl<'a, D: LiveDevice> Throttled<'a, D> {
    /// The device behind `throttle`.
    pub fn new(throttle: &'a mut Throttle<DeviceDrive<D>>) -> Throttled<'a, D> {
        let k = throttle.report().k;
        Throttled { throttle, all: ServiceTimes::default(), stable: ServiceTimes::default(), k }
    }

    /// The service times of the whole replay.
    pub fn all(&self) -> ServiceTimes {
        self.all
    }

    /// The service times since k changed for the last time.
    pub fn stable(&self) -> ServiceTimes {
        self.stable
    }

    fn count(&mut self, completion: &Completion) {
        let k = self.throttle.report().k;
        if k != self.k {
            (self.k, self.stable) = (k, ServiceTimes::default());
        }
        let (started, target) = self.throttle.target_of(completion.id);
        for times in [&mut self.all, &mut self.stable] {
            times.requests += 1;
            times.modelled_ns += u128::from(target.since(started).as_ns());
            times.achieved_ns += u128::from(completion.finished.since(started).as_ns());
        }
    }
}

impl<D: LiveDevice> DriveModel for Throttled<'_, D> {
    fn capacity(&self) -> Sectors {
        self.throttle.capacity()
    }

    fn accepts(&self, request: &Request) -> bool {
        self.throttle.accepts(request)
    }

    fn submit(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.throttle.submit(now, id, request);
    }

    fn next_event(&self) -> Option<Timestamp> {
        self.throttle.next_event()
    }

    /// Completions are seen now, however late that is.
    fn advance(&mut self, now: Timestamp, completions: &mut Vec<Completion>) {
        let before = completions.len();
        self.throttle.advance(now, completions);
        for completion in &mut completions[before..] {
            completion.finished = now;
            self.count(completion);
        }
    }

    forward_properties!(throttle);
}

impl<D: LiveDevice> LiveDrive for Throttled<'_, D> {
    type Device = D;

    fn device(&mut self) -> &mut DeviceDrive<D> {
        self.throttle.disk_mut()
    }

    fn clock_scale(&self) -> ThrottleScale {
        self.throttle.clock_scale()
    }
}

#[cfg(test)]
mod tests {
    use traces::{Lba, Nanos, Operation};

    use super::*;
    use crate::live::NullDevice;

    #[test]
    fn a_completion_that_is_seen_late_took_that_much_longer() {
        let spec = "throttle:k=1,cache=off,b=0".parse().unwrap();
        let settings = drive_models::build_throttle(&spec).unwrap().unwrap().settings().on_slowed_clock();
        let mut throttle = Throttle::new(DeviceDrive::new(NullDevice::new(Sectors::new(1000))), &settings);
        let mut throttled = Throttled::new(&mut throttle);
        let (mut completions, access) = (Vec::new(), Nanos::from_us(4250));
        let request = Request::new(Timestamp::ZERO, Operation::Read, Lba::ZERO, Sectors::new(8));
        throttled.submit(Timestamp::ZERO, RequestId(0), &request);
        assert!(throttled.device().poll());
        throttled.advance(Timestamp::ZERO, &mut completions);
        assert_eq!((completions.len(), throttled.next_event()), (0, Some(Timestamp::ZERO + access)));
        let seen = Timestamp::ZERO + access + Nanos::from_us(70);
        throttled.advance(seen, &mut completions);
        assert_eq!((completions.len(), completions[0].finished), (1, seen));
        let expected = ServiceTimes { requests: 1, modelled_ns: 4_250_000, achieved_ns: 4_320_000 };
        assert_eq!((throttled.all(), throttled.stable()), (expected, expected));
    }
}
