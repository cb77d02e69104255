//! The device as it was fitted ([`super::fit`]), serving.

use std::ops::Range;

use drive_models::WriteCache;
use drive_models::single_server::{Service, ServiceModel};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use schedulers::AccessCost;
use traces::{Flags, Lba, Nanos, Operation, Request, Sectors, Timestamp};

use crate::twin::device::disk::destage::{Destaging, Empties};
use crate::twin::device::disk::fit::FittedDisk;
use crate::twin::device::disk::regression::NEAR;
use crate::twin::device::disk::samples::nanos;
use crate::twin::device::latest_reads::LatestReads;

/// Such a device.
#[derive(Clone, Debug)]
pub(crate) struct DiskModel {
    fitted: FittedDisk,
    /// Which of the recordings the first machine's is.
    first: usize,
    random: Xoshiro256PlusPlus,
    /// Where the latest request ended.
    position: Lba,
    destaging: Destaging,
    idle_since: Timestamp,
    /// By machine.
    latest: Vec<LatestReads>,
}

impl DiskModel {
    pub(crate) fn new(fitted: FittedDisk, vms: Range<usize>, seed: u64) -> DiskModel {
        let destaging = Destaging::new(fitted.empties.unwrap_or(Empties::WhenIdle));
        DiskModel {
            fitted,
            first: vms.start,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            position: Lba::ZERO,
            destaging,
            idle_since: Timestamp::ZERO,
            latest: vec![LatestReads::default(); vms.len()],
        }
    }

    /// What the line says of a request that the arm sets out for at `started`, and what its place on the platter adds if there is a turn;
    /// seconds.
    fn positioned(&self, started: Timestamp, request: &Request) -> (f64, Option<f64>) {
        let operation = if self.acknowledges(request) { 1 } else { self.arm_as(request) };
        let line = &self.fitted.line;
        let far = &self.fitted.drawn(self.first + usize::from(request.vm.0)).far;
        let seconds = line.time(operation, request.sectors().count() as f64, self.distance(request));
        let placed = line.turn.and_then(|turn| far[operation].at(place(request.lba, started, seconds, turn)));
        (seconds, placed)
    }

    /// Whether the cache has a write as soon as it is there.
    fn acknowledges(&self, request: &Request) -> bool {
        let durable = request.flags.contains(Flags::FUA);
        self.fitted.empties.is_some() && request.operation == Operation::Write && !durable
    }

    /// As which operation the arm serves a request: what has to be on the platter takes there what a read takes.
    fn arm_as(&self, request: &Request) -> usize {
        if self.fitted.empties.is_some() { 0 } else { request.operation as usize }
    }

    /// From where the arm is, or from the request before for what moves no arm.
    fn distance(&self, request: &Request) -> u64 {
        let from = if self.acknowledges(request) { self.position } else { self.destaging.arm };
        from.distance(request.lba).count()
    }

    /// Seconds, and whether it was a hit.
    fn time(&mut self, started: Timestamp, request: &Request) -> (f64, bool) {
        let (line, placed) = self.positioned(started, request);
        let operation = if self.acknowledges(request) { 1 } else { self.arm_as(request) };
        let distance = self.distance(request);
        let DiskModel { fitted, random, idle_since, latest, first, .. } = self;
        let drawn = fitted.drawn(*first + usize::from(request.vm.0));
        let follows =
            request.operation == Operation::Read && latest[usize::from(request.vm.0)].followed_by(request.lba);
        let chance = traces::random::unit(random.next_u64());
        if follows
            && chance < drawn.hits(started <= *idle_since)
            && let Some(time) = drawn.hits.draw(random)
        {
            return ((time + fitted.hit_sector * request.sectors().count() as f64).max(0.0), true);
        }
        if request.operation == Operation::Write && operation == 0 {
            return ((line + drawn.durable.draw(random).unwrap_or(0.0)).max(0.0), false);
        }
        let near = &drawn.near[operation][usize::from(started <= *idle_since)];
        let residual = match distance {
            0..NEAR => near.draw(random),
            _ if follows && distance <= drawn.behind_most => drawn.behind.draw(random),
            _ => None,
        };
        let residual = residual.or(placed).or_else(|| drawn.far[operation].draw(random));
        ((line + residual.unwrap_or(0.0)).max(fitted.least), false)
    }

    /// Puts on the platter what the arm has time for before `until`.
    fn destage(&mut self, until: Timestamp) {
        while let Some((run, at)) = self.destaging.oldest()
            && at < until
        {
            let distance = self.destaging.arm.distance(run.start).count();
            let DiskModel { fitted, random, first, .. } = self;
            let near = &fitted.drawn(*first + usize::from(run.vm.0)).destaged;
            let near = if distance < NEAR { near.draw(random) } else { None };
            let seconds = near.unwrap_or_else(|| {
                let residual = fitted.all.far[0].draw(random).unwrap_or(0.0);
                (fitted.line.destage(run.sectors(), distance) + residual).max(fitted.least)
            });
            self.destaging.put(at, nanos(seconds));
        }
    }

    /// A write that the cache has as soon as it is there.
    fn acknowledge(&mut self, started: Timestamp, request: &Request) -> Service {
        let (seconds, _) = self.time(started, request);
        let time = nanos(seconds);
        self.idle_since = started.saturating_add(time);
        self.destaging.take(request.vm, request.lba, request.end(), self.idle_since);
        self.position = request.end();
        Service { time, seek: Sectors::ZERO, hit: true }
    }
}

/// Which share of a turn away a place is when the arm, which sets out at `started`, has come there. Nobody knows how places lie around
/// the platter, but each always lies where it lies.
fn place(lba: Lba, started: Timestamp, positioning: f64, turn: f64) -> f64 {
    let around = traces::random::unit(lba.sector().wrapping_mul(0x9E37_79B9_7F4A_7C15));
    (around - (started.saturating_since(Timestamp::ZERO).as_s_f64() + positioning) / turn).rem_euclid(1.0)
}

impl AccessCost for DiskModel {
    fn access(&self, now: Timestamp, request: &Request) -> Nanos {
        let (line, placed) = self.positioned(now, request);
        Nanos::from_ns(((line + placed.unwrap_or(0.0)).max(self.fitted.least) * 1e9) as u64)
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
        if self.acknowledges(request) {
            return self.acknowledge(started, request);
        }
        if request.operation == Operation::Write {
            // What is to be on the platter goes there behind all that was written before.
            self.destage(Timestamp::from_ns(u64::MAX));
        }
        let from = started.max(self.destaging.free);
        let (seconds, hit) = self.time(from, request);
        if request.operation == Operation::Read {
            self.latest[usize::from(request.vm.0)].add(request.end());
        }
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

    /// So that it is told which writes are to be durable. Flushes never come here.
    fn write_cache(&self) -> WriteCache {
        WriteCache::Volatile { fua: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::twin::device::disk::fit::tests::{behind_a_cache, known, streams, trace};
    use crate::twin::device::disk::regression::FEW;
    use crate::twin::device::disk::{fit, with_cache};
    use crate::twin::device::empirical::EmpiricalTimes;

    #[test]
    fn the_device_takes_as_long_as_it_did() {
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
    fn streams_hide_neither_the_turn_nor_what_random_reads_take() {
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
        // A stream beside another takes what it took; behind a read at the other end of the drive, what any read takes there.
        assert!((near / 3e-3 - 1.0).abs() < 0.15, "{near}");
        assert!(random > 8e-3 && (far / random - 1.0).abs() < 0.05, "{far} {random}");
    }

    #[test]
    fn a_place_comes_by_once_in_a_turn() {
        let lba = Lba::new(123_456);
        let at = |ms: f64| place(lba, Timestamp::from_ns((ms * 1e6) as u64), 1e-3, 8e-3);
        let away = at(0.0);
        assert!((0.0..1.0).contains(&away));
        // What waits a quarter of a turn is a quarter nearer, or has to wait for the next.
        assert!(((away - 0.25).rem_euclid(1.0) - at(2.0)).abs() < 1e-6 && (away - at(8.0)).abs() < 1e-6);
        let places: Vec<f64> = (0..1000).map(|n| place(Lba::new(n * 8), Timestamp::ZERO, 0.0, 8e-3)).collect();
        let below = |share: f64| places.iter().filter(|place| **place < share).count();
        assert!((200..300).contains(&below(0.25)) && (700..800).contains(&below(0.75)));
    }

    #[test]
    fn what_the_arm_does_behind_a_cache_is_told_from_reads() {
        let drive = known();
        let seek = |distance: u64| drive.cost().between(Lba::ZERO, Lba::new(distance), Sectors::ZERO).as_s_f64();
        for empties in [Empties::AfterReads, Empties::WhenIdle] {
            let traces = [behind_a_cache(empties)];
            let plain = fit(&traces, drive.capacity()).unwrap();
            let cached = with_cache(&traces, &plain).unwrap();
            assert_eq!(cached.empties, Some(empties));
            let off = |fitted: &FittedDisk| fitted.line.time(0, 8.0, 500_000) / (4e-3 + seek(500_000)) - 1.0;
            assert!(off(&cached).abs() < 0.1, "{empties:?} {}", off(&cached));
            // A run takes what a read takes.
            assert!(cached.line.settle.abs() < 5e-4, "{empties:?} {}", cached.line.settle);
            let plainly = off(&plain);
            assert!(empties == Empties::WhenIdle || plainly > 0.25, "{plainly}");
            // Alone it takes as long as it did.
            let mut device = DiskModel::new(cached, 0..1, 1);
            let [mut simulated, mut measured] = [0.0; 2];
            let mut now = Timestamp::ZERO;
            for pair in traces[0].requests.windows(2) {
                let took = device.serve(now, &pair[0].request(traces::VmId(0), now)).time;
                simulated += took.as_s_f64();
                measured += pair[0].completed.since(pair[0].issued).as_s_f64();
                now = now.saturating_add(took + pair[1].issued.since(pair[0].completed));
            }
            assert!((simulated / measured - 1.0).abs() < 0.07, "{empties:?} {simulated} {measured}");
        }
        assert!(with_cache(&[trace(0.1)], &fit(&[trace(0.1)], drive.capacity()).unwrap()).is_none());
    }

    #[test]
    fn reads_wait_for_what_another_machine_has_written() {
        let drive = known();
        let traces = [behind_a_cache(Empties::AfterReads)];
        let plain = fit(&traces, drive.capacity()).unwrap();
        let mut device = DiskModel::new(with_cache(&traces, &plain).unwrap().of_all(), 0..2, 1);
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
        // There and back again.
        assert!(behind > 2.5 * alone, "{alone} {behind}");
        // What is to be on the platter waits for all that was written before.
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
    fn behind_a_cache_times_are_drawn_as_they_were_seen() {
        let drive = known();
        let traces = [behind_a_cache(Empties::AfterReads)];
        let plain = fit(&traces, drive.capacity()).unwrap();
        let fitted = with_cache(&traces, &plain).unwrap().of_all();
        let always = |seconds: f64| EmpiricalTimes::of(vec![seconds; FEW]);
        // What each of three requests takes, one after the other.
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
        // A write next to where the arm is comes to the platter before one that is to be there.
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
        // What the drive has read ahead waits for no arm, but takes its sectors' time.
        let mut hits = fitted;
        let sectors = 8.0 * hits.hit_sector;
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
