//! The drive model of the fitted disk ([`super::fit`]).
//!
//! The model draws the class and the residual of each request as the fit describes, and destages the write cache
//! between requests. The rotational position of an address is not known, but each address always gets the same one.
//! Schedulers that order by position (`satf`) therefore find a consistent platter.

use std::ops::Range;

use drive_models::WriteCache;
use drive_models::single_server::{Service, ServiceModel};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use schedulers::AccessCost;
use traces::{Flags, Lba, Nanos, Operation, Request, Sectors, Timestamp};

use crate::twin::device::disk::destage::{DestagePolicy, Destaging};
use crate::twin::device::disk::fit::FittedDisk;
use crate::twin::device::disk::line::NEAR_SECTORS_BOUND;
use crate::twin::device::disk::read_ahead::{Expected, Streams};
use crate::twin::device::disk::samples::nanos;

/// A disk that serves one request at a time with fitted times.
#[derive(Clone, Debug)]
pub(crate) struct DiskModel {
    fitted: FittedDisk,
    /// The number of the first VM's trace.
    first: usize,
    random: Xoshiro256PlusPlus,
    /// The end of the latest request.
    position: Lba,
    destaging: Destaging,
    idle_since: Timestamp,
    /// By VM.
    streams: Vec<Streams>,
}

impl DiskModel {
    /// The disk serving `vms`, by the numbers of their traces.
    pub(crate) fn new(fitted: FittedDisk, vms: Range<usize>, seed: u64) -> DiskModel {
        let destaging = Destaging::new(fitted.destage_policy.unwrap_or(DestagePolicy::WhenIdle));
        DiskModel {
            fitted,
            first: vms.start,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            position: Lba::ZERO,
            destaging,
            idle_since: Timestamp::ZERO,
            streams: vec![Streams::default(); vms.len()],
        }
    }

    /// The line's time of a request that the arm starts for at `started`, and the residual of its place on the platter
    /// if the turn is known; seconds.
    fn positioned(&self, started: Timestamp, request: &Request) -> (f64, Option<f64>) {
        let operation = if self.acknowledges(request) { 1 } else { self.arm_as(request) };
        let line = &self.fitted.line;
        let far = &self.fitted.residuals(self.first + usize::from(request.vm.0)).far;
        let seconds = line.time(operation, request.sectors().count() as f64, self.distance(request));
        let placed = line.turn.and_then(|turn| far[operation].at(place(request.lba, started, seconds, turn)));
        (seconds, placed)
    }

    /// Whether the write cache acknowledges a request.
    fn acknowledges(&self, request: &Request) -> bool {
        let durable = request.flags.contains(Flags::FUA);
        self.fitted.destage_policy.is_some() && request.operation == Operation::Write && !durable
    }

    /// The operation whose times a request of the arm has. Behind a write cache, durable writes take there what reads
    /// take.
    fn arm_as(&self, request: &Request) -> usize {
        if self.fitted.destage_policy.is_some() { 0 } else { request.operation as usize }
    }

    /// The seek distance from the arm, or from the request before if no arm moves.
    fn distance(&self, request: &Request) -> u64 {
        let from = if self.acknowledges(request) { self.position } else { self.destaging.arm };
        from.distance(request.lba).count()
    }

    /// Draws the service time of a request in seconds, and whether it was a hit.
    fn time(&mut self, started: Timestamp, request: &Request) -> (f64, bool) {
        let (line, placed) = self.positioned(started, request);
        let operation = if self.acknowledges(request) { 1 } else { self.arm_as(request) };
        let distance = self.distance(request);
        let DiskModel { fitted, random, idle_since, streams, first, .. } = self;
        let residuals = fitted.residuals(*first + usize::from(request.vm.0));
        let read_ahead = fitted.read_ahead.as_ref();
        let streams = &mut streams[usize::from(request.vm.0)];
        let expected = match request.operation {
            Operation::Read => streams.begin(read_ahead, request.lba, request.sectors()),
            _ => None,
        };
        let sequential = expected.is_some();
        let expected =
            if read_ahead.is_some() { expected } else { expected.map(|_| Expected::hit_if(started > *idle_since)) };
        let chance = traces::random::unit(random.next_u64());
        if expected.is_some_and(|expected| chance < residuals.hit_probability(expected))
            && let Some(time) = residuals.hits.draw(random)
        {
            return ((time + fitted.hit_sector_s * request.sectors().count() as f64).max(0.0), true);
        }
        if request.operation == Operation::Write && operation == 0 {
            return ((line + residuals.durable.draw(random).unwrap_or(0.0)).max(0.0), false);
        }
        let near = &residuals.near[operation][usize::from(started <= *idle_since)];
        let residual = match distance {
            0..NEAR_SECTORS_BOUND => near.draw(random),
            _ if sequential && distance <= residuals.sequential_distance_max => residuals.sequential.draw(random),
            _ => None,
        };
        let residual = residual.or(placed).or_else(|| residuals.far[operation].draw(random));
        ((line + residual.unwrap_or(0.0)).max(fitted.shortest), false)
    }

    /// Destages the runs that the arm starts for before `until`.
    fn destage(&mut self, until: Timestamp) {
        while let Some((run, at)) = self.destaging.oldest()
            && at < until
        {
            let distance = self.destaging.arm.distance(run.start).count();
            let DiskModel { fitted, random, first, .. } = self;
            let near = &fitted.residuals(*first + usize::from(run.vm.0)).destaged;
            let near = if distance < NEAR_SECTORS_BOUND { near.draw(random) } else { None };
            let seconds = near.unwrap_or_else(|| {
                let residual = fitted.all.far[0].draw(random).unwrap_or(0.0);
                (fitted.line.destage(run.sectors(), distance) + residual).max(fitted.shortest)
            });
            self.destaging.destaged(at, nanos(seconds));
        }
    }

    /// Lets the streams of all VMs know of a request that the arm or the read cache has served.
    fn follow_streams(&mut self, request: &Request) {
        self.streams.iter_mut().for_each(Streams::interrupt);
        if request.operation == Operation::Read {
            self.streams[usize::from(request.vm.0)].end(request.end());
        }
    }

    /// Serves a write from the write cache.
    fn acknowledge(&mut self, started: Timestamp, request: &Request) -> Service {
        let (seconds, _) = self.time(started, request);
        let time = nanos(seconds);
        self.idle_since = started.saturating_add(time);
        self.destaging.add(request.vm, request.lba, request.end(), self.idle_since);
        self.position = request.end();
        Service { time, seek: Sectors::ZERO, hit: true }
    }
}

/// The share of a turn that remains until an address passes the head, when the arm, which starts at `started`, has been
/// positioned. The angle of an address is a hash of it: unknown in reality, but always the same.
fn place(lba: Lba, started: Timestamp, positioning: f64, turn: f64) -> f64 {
    let around = traces::random::unit(lba.sector().wrapping_mul(0x9E37_79B9_7F4A_7C15));
    (around - (started.saturating_since(Timestamp::ZERO).as_s_f64() + positioning) / turn).rem_euclid(1.0)
}

impl AccessCost for DiskModel {
    fn access(&self, now: Timestamp, request: &Request) -> Nanos {
        let (line, placed) = self.positioned(now, request);
        Nanos::from_ns(((line + placed.unwrap_or(0.0)).max(self.fitted.shortest) * 1e9) as u64)
    }

    fn position(&self) -> Lba {
        self.destaging.arm
    }

    fn capacity(&self) -> Sectors {
        self.fitted.line.capacity
    }

    fn between(&self, from: Lba, to: Lba, sectors: Sectors) -> Nanos {
        let seconds = self.fitted.line.time(0, sectors.count() as f64, from.distance(to).count());
        Nanos::from_ns((seconds.max(0.0) * 1e9) as u64)
    }
}

impl ServiceModel for DiskModel {
    fn serve(&mut self, started: Timestamp, request: &Request) -> Service {
        self.destage(started);
        if let Some(read_ahead) = &self.fitted.read_ahead {
            let pause = started.saturating_since(self.idle_since).as_s_f64();
            self.streams.iter_mut().for_each(|streams| streams.pause(read_ahead, pause));
        }
        if self.acknowledges(request) {
            self.follow_streams(request);
            return self.acknowledge(started, request);
        }
        if request.operation == Operation::Write {
            // A durable write is served after all cached writes are destaged.
            self.destage(Timestamp::from_ns(u64::MAX));
        }
        let from = started.max(self.destaging.free);
        let (seconds, hit) = self.time(from, request);
        self.follow_streams(request);
        let from = if hit { started } else { from };
        let done = from.saturating_add(nanos(seconds));
        self.idle_since = done;
        if hit {
            return Service { time: done.saturating_since(started), seek: Sectors::ZERO, hit };
        }
        let seek = self.destaging.arm.distance(request.lba);
        self.position = request.end();
        self.destaging.served(request.end(), done);
        Service { time: done.saturating_since(started), seek, hit }
    }

    /// A volatile cache with FUA, so that the stage marks durable writes. Flushes never reach this model.
    fn write_cache(&self) -> WriteCache {
        WriteCache::Volatile { fua: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::twin::device::disk::fit::tests::{behind_a_cache, known, streams, trace};
    use crate::twin::device::disk::regression::SAMPLES_MIN;
    use crate::twin::device::disk::{fit, with_cache};
    use crate::twin::device::empirical::EmpiricalTimes;

    #[test]
    fn simulated_trace_takes_as_long_as_the_measured_one() {
        let trace = trace(0.3);
        let fitted = fit(std::slice::from_ref(&trace), known().capacity()).unwrap();
        assert!(fitted.delay < Nanos::from_us(300), "{}", fitted.delay);
        let mut device = DiskModel::new(fitted, 0..1, 1);
        let mut now = Timestamp::ZERO;
        for request in &trace.requests {
            now = now.saturating_add(device.serve(now, &request.request(traces::VmId(0), now)).time);
        }
        let measured = trace.requests.last().unwrap().completed;
        let ratio = now.as_ns() as f64 / measured.as_ns() as f64;
        assert!((ratio - 1.0).abs() < 0.02, "{ratio}");
    }

    #[test]
    fn turn_and_random_reads_are_recovered_from_a_trace_with_many_streams() {
        let drive = known();
        let fitted = fit(&[streams(1500)], drive.capacity()).unwrap();
        let turn = fitted.line.turn.unwrap();
        assert!((turn / 6e-3 - 1.0).abs() < 0.1, "{turn}");
        let mut device = DiskModel::new(fitted, 0..1, 1);
        let mut mean = |lba: &dyn Fn(u64) -> u64, from: &dyn Fn(u64) -> u64| {
            let (mut sum, mut now) = (0.0, Timestamp::ZERO);
            for n in 0..1000 {
                let read =
                    |lba: u64, sectors: u64| Request::new(now, Operation::Read, Lba::new(lba), Sectors::new(sectors));
                let before = device.serve(now, &read(from(n), 8)).time;
                let took = device.serve(now.saturating_add(before), &read(lba(n), 64)).time;
                sum += took.as_s_f64();
                now = now.saturating_add(before + took + Nanos::from_us(n * 7));
            }
            sum / 1000.0
        };
        let there = |n: u64| 16_000_000 + n * 800;
        let (near, far) = (mean(&|n| n * 64, &|n| 200_000 + n * 64), mean(&|n| n * 64 + 64_000, &there));
        let random = mean(&|n| 1_000_000 + n * 7919 % 400_000 / 8 * 8, &there);
        // A stream beside another takes the measured 3 ms. Behind a read at the other end of the drive it takes what a
        // random read takes.
        assert!((near / 3e-3 - 1.0).abs() < 0.15, "{near}");
        assert!(random > 8e-3 && (far / random - 1.0).abs() < 0.05, "{far} {random}");
    }

    #[test]
    fn address_passes_the_head_once_in_a_turn() {
        let lba = Lba::new(123_456);
        let at = |ms: f64| place(lba, Timestamp::from_ns((ms * 1e6) as u64), 1e-3, 8e-3);
        let away = at(0.0);
        assert!((0.0..1.0).contains(&away));
        // After a quarter of a turn the address is a quarter nearer, or passes in the next turn.
        assert!(((away - 0.25).rem_euclid(1.0) - at(2.0)).abs() < 1e-6 && (away - at(8.0)).abs() < 1e-6);
        let places: Vec<f64> = (0..1000).map(|n| place(Lba::new(n * 8), Timestamp::ZERO, 0.0, 8e-3)).collect();
        let below = |share: f64| places.iter().filter(|place| **place < share).count();
        assert!((200..300).contains(&below(0.25)) && (700..800).contains(&below(0.75)));
    }

    #[test]
    fn destage_policy_and_read_times_are_recovered_from_reads_behind_writes() {
        let drive = known();
        let seek = |distance: u64| drive.cost().between(Lba::ZERO, Lba::new(distance), Sectors::ZERO).as_s_f64();
        for policy in [DestagePolicy::AfterReads, DestagePolicy::WhenIdle] {
            let traces = [behind_a_cache(policy)];
            let plain = fit(&traces, drive.capacity()).unwrap();
            let cached = with_cache(&traces, &plain).unwrap();
            assert_eq!(cached.destage_policy, Some(policy));
            let off = |fitted: &FittedDisk| fitted.line.time(0, 8.0, 500_000) / (4e-3 + seek(500_000)) - 1.0;
            assert!(off(&cached).abs() < 0.1, "{policy:?} {}", off(&cached));
            // A run takes as long as a read.
            assert!(cached.line.settle.abs() < 5e-4, "{policy:?} {}", cached.line.settle);
            let plainly = off(&plain);
            assert!(policy == DestagePolicy::WhenIdle || plainly > 0.25, "{plainly}");
            // The simulated trace takes as long as the measured one.
            let mut device = DiskModel::new(cached, 0..1, 1);
            let [mut simulated, mut measured] = [0.0; 2];
            let mut now = Timestamp::ZERO;
            for pair in traces[0].requests.windows(2) {
                let took = device.serve(now, &pair[0].request(traces::VmId(0), now)).time;
                simulated += took.as_s_f64();
                measured += pair[0].completed.since(pair[0].issued).as_s_f64();
                now = now.saturating_add(took + pair[1].issued.since(pair[0].completed));
            }
            assert!((simulated / measured - 1.0).abs() < 0.07, "{policy:?} {simulated} {measured}");
        }
        assert!(with_cache(&[trace(0.1)], &fit(&[trace(0.1)], drive.capacity()).unwrap()).is_none());
    }

    #[test]
    fn reads_and_durable_writes_wait_for_destaging_of_another_vms_writes() {
        let drive = known();
        let traces = [behind_a_cache(DestagePolicy::AfterReads)];
        let plain = fit(&traces, drive.capacity()).unwrap();
        let mut device = DiskModel::new(with_cache(&traces, &plain).unwrap().for_any_vm(), 0..2, 1);
        let far = drive.capacity().count() / 10 * 9;
        let mut now = Timestamp::ZERO;
        let mut serve = |operation: Operation, vm: u16, lba: u64, flags: Flags| {
            let mut request = Request::new(now, operation, Lba::new(lba / 8 * 8), Sectors::new(8));
            (request.vm, request.flags) = (traces::VmId(vm), flags);
            let took = device.serve(now, &request).time.as_s_f64();
            now = now.saturating_add(nanos(took));
            took
        };
        let place = |n: u64| n.wrapping_mul(0x9E37_79B9) % (drive.capacity().count() / 10);
        let mut mean = |written: bool| {
            let mut sum = 0.0;
            for n in 0..1000 {
                if written {
                    let took = serve(Operation::Write, 1, far + place(n + 7), Flags::empty());
                    assert!(took < 2e-3, "{took}");
                }
                sum += serve(Operation::Read, 0, place(2 * n), Flags::empty());
            }
            sum / 1000.0
        };
        let (alone, behind) = (mean(false), mean(true));
        // The arm goes to the other VM's address and back.
        assert!(behind > 2.5 * alone, "{alone} {behind}");
        // A durable write waits until all earlier writes are destaged.
        let durable = |serve: &mut dyn FnMut(Operation, u16, u64, Flags) -> f64, writes: u64| {
            for n in 0..writes {
                serve(Operation::Write, 1, far + place(3 * n + 1), Flags::empty());
            }
            serve(Operation::Write, 0, place(5), Flags::FUA)
        };
        durable(&mut serve, 0);
        let (few, many) = (durable(&mut serve, 1), durable(&mut serve, 12));
        assert!(many > few + 20e-3, "{few} {many}");
    }

    #[test]
    fn durable_near_destaged_and_hit_times_are_drawn_from_their_own_residuals() {
        let drive = known();
        let traces = [behind_a_cache(DestagePolicy::AfterReads)];
        let plain = fit(&traces, drive.capacity()).unwrap();
        let fitted = with_cache(&traces, &plain).unwrap().for_any_vm();
        let always = |seconds: f64| EmpiricalTimes::of(vec![seconds; SAMPLES_MIN]);
        // The times of three requests, one after another.
        let took = |fitted: &FittedDisk, requests: [(Operation, u64, Flags); 3]| {
            let mut device = DiskModel::new(fitted.clone(), 0..1, 1);
            let mut now = Timestamp::from_ns(1_000_000_000);
            requests.map(|(operation, lba, flags)| {
                let mut request = Request::new(now, operation, Lba::new(lba), Sectors::new(8));
                request.flags = flags;
                let took = device.serve(now, &request).time;
                now = now.saturating_add(took);
                took.as_s_f64()
            })
        };
        let (read, write, none) = (Operation::Read, Operation::Write, Flags::empty());
        // A near write is destaged before the durable write.
        let mut near = fitted.clone();
        let requests = [(read, 100_000, none), (write, 100_100, none), (write, 100_300, Flags::FUA)];
        let last = |fitted: &FittedDisk| took(fitted, requests)[2];
        near.all.durable = always(0.0);
        near.all.destaged = always(1e-3);
        let soon = last(&near);
        near.all.destaged = always(41e-3);
        assert!((last(&near) - soon - 40e-3).abs() < 1e-3, "{soon}");
        near.all.durable = always(30e-3);
        assert!((last(&near) - soon - 70e-3).abs() < 1e-3, "{soon}");
        // A hit does not wait for the arm, but takes the transfer time of its sectors.
        let mut hits = fitted;
        let sectors = 8.0 * hits.hit_sector_s;
        assert!(sectors > 0.0);
        (hits.all.hits, hits.all.hit_share, hits.all.destaged) = (always(1e-4), [Some(1.0); 2], always(50e-3));
        let mut device = DiskModel::new(hits, 0..1, 1);
        let mut now = Timestamp::from_ns(1_000_000_000);
        let mut hit = 0.0;
        for (operation, lba) in [(read, 100_000), (write, 100_100), (write, 100_200), (read, 100_008)] {
            let took = device.serve(now, &Request::new(now, operation, Lba::new(lba), Sectors::new(8))).time;
            now = now.saturating_add(took);
            hit = took.as_s_f64();
        }
        assert!((hit - 1e-4 - sectors).abs() < 1e-9 && device.destaging.free > now, "{hit}");
    }
}
