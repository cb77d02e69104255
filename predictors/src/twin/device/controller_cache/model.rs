//! A drive model: a controller's cache in front of a device.
//!
//! For each request the cache answers with the probability and the times that were measured ([`ControllerCache`]). All
//! other requests go to the device. The cache answers any number of requests side by side. Its contents are not
//! modelled; where a read cache is followed address by address, the device behind holds it ([`CachedDevice::holds`]).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use drive_models::array::Array;
use drive_models::{Completion, DriveModel};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::{Nanos, Operation, Request, RequestId, Sectors, Timestamp};

use super::fit::{ControllerCache, SEQUENTIAL_READ, kind};
use crate::twin::device::latest_reads::LatestReads;

/// A device behind a controller's cache.
pub(crate) trait CachedDevice: DriveModel {
    /// Whether the device's own read cache has all that `request` reads, or is reading it.
    fn holds(&self, _request: &Request) -> bool {
        false
    }

    /// Notes that the controller's cache has taken the write `request`.
    fn written(&mut self, _request: &Request) {}
}

impl CachedDevice for Array {
    fn holds(&self, request: &Request) -> bool {
        self.holds(request)
    }

    fn written(&mut self, request: &Request) {
        self.written(request);
    }
}

/// The device and the cache before it.
pub(crate) struct WithControllerCache<D> {
    device: D,
    /// By VM.
    controller_caches: Vec<ControllerCache>,
    /// By VM.
    latest: Vec<LatestReads>,
    /// Whether the device has a read cache of its own. Then it serves all sequential reads and all reads that it holds.
    read_cache: bool,
    random: Xoshiro256PlusPlus,
    /// Requests that the cache answers: completion, sequence number and id.
    answered: BinaryHeap<Reverse<(Timestamp, u64, RequestId)>>,
    started: Vec<Timestamp>,
    sequence: u64,
}

impl<D: CachedDevice> WithControllerCache<D> {
    /// `device` behind a cache, which has a state for each VM.
    pub(crate) fn new(
        device: D,
        controller_caches: Vec<ControllerCache>,
        read_cache: bool,
        seed: u64,
    ) -> WithControllerCache<D> {
        WithControllerCache {
            device,
            latest: vec![LatestReads::default(); controller_caches.len()],
            controller_caches,
            read_cache,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            answered: BinaryHeap::new(),
            started: Vec::new(),
            sequence: 0,
        }
    }

    /// The time in seconds in which the cache answers a request; `None` if the device has to serve it.
    fn answer(&mut self, request: &Request) -> Option<f64> {
        let vm = usize::from(request.vm.0);
        let kind = kind(request.operation, request.lba, request.end(), &mut self.latest[vm]);
        let read = request.operation == Operation::Read;
        if self.read_cache && read && (kind == SEQUENTIAL_READ || self.device.holds(request)) {
            return None;
        }
        let answer = self.controller_caches[vm].answer(kind, &mut self.random);
        if request.operation == Operation::Write && answer.is_some() {
            self.device.written(request);
        }
        answer
    }
}

impl<D: CachedDevice> DriveModel for WithControllerCache<D> {
    fn capacity(&self) -> Sectors {
        self.device.capacity()
    }

    fn accepts(&self, _request: &Request) -> bool {
        true
    }

    fn submit(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        let Some(seconds) = self.answer(request) else { return self.device.submit(now, id, request) };
        if id.index() >= self.started.len() {
            self.started.resize(id.index() + 1, Timestamp::ZERO);
        }
        self.started[id.index()] = now;
        self.sequence += 1;
        let finished = now.saturating_add(Nanos::from_ns((seconds * 1e9) as u64));
        self.answered.push(Reverse((finished, self.sequence, id)));
    }

    fn next_event(&self) -> Option<Timestamp> {
        let answered = self.answered.peek().map(|Reverse((finished, ..))| *finished);
        [answered, self.device.next_event()].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Timestamp, completions: &mut Vec<Completion>) {
        self.device.advance(now, completions);
        while let Some(&Reverse((finished, _, id))) = self.answered.peek() {
            if finished > now {
                break;
            }
            self.answered.pop();
            let started = self.started[id.index()];
            completions.push(Completion { id, started, finished, seek: Sectors::ZERO, hit: true });
        }
    }

    drive_models::forward_properties!(device);
}

#[cfg(test)]
mod tests {
    use traces::{Lba, Operation};

    use super::*;
    use crate::isolated_trace::{IsolatedTrace, TracedRequest};
    use crate::twin::device::controller_cache::CacheTiming;

    /// A cache that answers every write in 200 us and no read; reads take 5 ms.
    fn controller_cache() -> ControllerCache {
        let mut trace = IsolatedTrace::default();
        for n in 0..2000 {
            let (operation, took) = if n % 2 == 0 { (Operation::Write, 200) } else { (Operation::Read, 5000) };
            let lba = Lba::new(n * 7919 % 2000 * 1000);
            trace.requests.push(TracedRequest { lba, ..TracedRequest::sent(operation, 0, n * 10_000, took) });
        }
        let traces = [trace];
        let cache = CacheTiming::of(&traces).unwrap();
        ControllerCache::of(&traces[0], Some(&cache), None).0
    }

    /// A drive that takes 5 ms and holds the sectors below 1000 and all written addresses.
    struct Fixed(Box<dyn DriveModel>, Vec<Lba>);

    impl DriveModel for Fixed {
        fn capacity(&self) -> Sectors {
            self.0.capacity()
        }

        fn accepts(&self, request: &Request) -> bool {
            self.0.accepts(request)
        }

        fn submit(&mut self, now: Timestamp, id: RequestId, request: &Request) {
            self.0.submit(now, id, request);
        }

        fn next_event(&self) -> Option<Timestamp> {
            self.0.next_event()
        }

        fn advance(&mut self, now: Timestamp, completions: &mut Vec<Completion>) {
            self.0.advance(now, completions);
        }

        drive_models::forward_properties!(0);
    }

    impl CachedDevice for Fixed {
        fn holds(&self, request: &Request) -> bool {
            request.lba < Lba::new(1000) || self.1.contains(&request.lba)
        }

        fn written(&mut self, request: &Request) {
            self.1.push(request.lba);
        }
    }

    fn fixed() -> Fixed {
        Fixed(drive_models::build(&"fixed:service=5ms".parse().unwrap()).unwrap().drive, Vec::new())
    }

    #[test]
    fn reads_that_the_device_holds_or_that_are_sequential_go_to_a_device_with_a_read_cache() {
        // A cache that answers every read in 200 us.
        let mut trace = IsolatedTrace::default();
        for n in 0..2000 {
            let (operation, took) = if n % 2 == 0 { (Operation::Read, 200) } else { (Operation::Write, 5000) };
            let lba = Lba::new(n * 7919 % 2000 * 1000);
            trace.requests.push(TracedRequest { lba, ..TracedRequest::sent(operation, 0, n * 10_000, took) });
        }
        let cache = CacheTiming::of(std::slice::from_ref(&trace)).unwrap();
        let controller_cache = ControllerCache::of(&trace, Some(&cache), None).0;
        let answered = |read_cache: bool| {
            let mut cached = WithControllerCache::new(fixed(), vec![controller_cache.clone()], read_cache, 1);
            let mut read = |lba: u64| {
                let request = Request::new(Timestamp::ZERO, Operation::Read, Lba::new(lba), Sectors::new(8));
                cached.answer(&request).is_some()
            };
            // A read that the device holds, one that it does not hold, and one that continues the second.
            [read(0), read(500_000), read(500_008)]
        };
        assert_eq!(answered(true), [false, true, false]);
        assert_eq!(answered(false)[..2], [true, true]);
    }

    #[test]
    fn device_is_notified_of_writes_that_the_cache_answers() {
        let mut cached = WithControllerCache::new(fixed(), vec![controller_cache()], true, 1);
        let write = Request::new(Timestamp::ZERO, Operation::Write, Lba::new(70_000), Sectors::new(8));
        cached.submit(Timestamp::ZERO, RequestId(0), &write);
        assert_eq!(cached.device.1, [Lba::new(70_000)]);
    }

    #[test]
    fn cached_writes_complete_before_reads_that_wait_for_the_device() {
        let mut cached = WithControllerCache::new(fixed(), vec![controller_cache()], false, 1);
        let us = |us: u64| Timestamp::from_ns(us * 1000);
        let request = |n: u32| {
            let operation = if n < 3 { Operation::Read } else { Operation::Write };
            Request::new(us(0), operation, Lba::new(u64::from(n) * 100_000), Sectors::new(8))
        };
        (0..5).for_each(|n| cached.submit(us(u64::from(n) * 10), RequestId(n), &request(n)));
        let mut completions = Vec::new();
        while let Some(at) = cached.next_event() {
            cached.advance(at, &mut completions);
        }
        let done: Vec<(u32, Timestamp, bool)> =
            completions.iter().map(|done| (done.id.0, done.finished, done.hit)).collect();
        let expected = [(3, 230, true), (4, 240, true), (0, 5000, false), (1, 10_000, false), (2, 15_000, false)];
        assert_eq!(done, expected.map(|(id, at, hit)| (id, us(at), hit)));
        assert!(completions.iter().all(|done| done.id.0 < 3 || done.started == us(u64::from(done.id.0) * 10)));
    }
}
