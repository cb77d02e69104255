//! The engine against queueing theory: M/D/1, M/G/1 (Pollaczek–Khinchine), the machine repairman model (M/M/1//N) and
//! the closed system without think time. Seeds are fixed; tolerances are several standard errors wide.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use iocast_replay::ReplayError;
use iocast_replay::metrics::Class;
use iocast_replay::sources::RandomClosed;
use iocast_replay::sources::random::RandomLoad;
use iocast_replay::{Engine, Limits, Metrics, Next, Source, Stage};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use schedulers::fifo::Fifo;
use traces::{Lba, Nanos, Operation, Request, RequestId, Sectors, StreamId, Timestamp};

fn exponential(generator: &mut Xoshiro256PlusPlus, mean: f64) -> f64 {
    -mean * (1.0 - generator.random::<f64>()).ln()
}

/// Poisson arrivals of reads whose lengths a function draws.
struct Poisson<F> {
    generator: Xoshiro256PlusPlus,
    gap_ns: f64,
    left: u64,
    next: Timestamp,
    length: F,
}

impl<F: FnMut(&mut Xoshiro256PlusPlus) -> u64> Source for Poisson<F> {
    fn next(&mut self) -> Result<Next, ReplayError> {
        Ok(if self.left == 0 { Next::Exhausted } else { Next::At(self.next) })
    }
    fn take(&mut self, now: Timestamp, _id: RequestId) -> Result<Request, ReplayError> {
        self.left -= 1;
        self.next += Nanos::from_ns(exponential(&mut self.generator, self.gap_ns) as u64);
        let length = (self.length)(&mut self.generator);
        Ok(Request::new(now, Operation::Read, Lba::ZERO, Sectors::new(length)))
    }
    fn completed(&mut self, _now: Timestamp, _id: RequestId, _request: &Request) {}
}

/// N terminals that think, send a request and wait for it.
struct Terminals {
    generator: Xoshiro256PlusPlus,
    think_ns: f64,
    service_sectors: f64,
    left: u64,
    ready: Vec<Timestamp>,
}

impl Source for Terminals {
    fn next(&mut self) -> Result<Next, ReplayError> {
        if self.left == 0 {
            return Ok(Next::Exhausted);
        }
        Ok(self.ready.iter().min().map_or(Next::Blocked, |&time| Next::At(time)))
    }
    fn take(&mut self, now: Timestamp, _id: RequestId) -> Result<Request, ReplayError> {
        self.left -= 1;
        let first = (0..self.ready.len()).min_by_key(|&index| self.ready[index]).unwrap();
        self.ready.remove(first);
        let sectors = exponential(&mut self.generator, self.service_sectors).round() as u64;
        let mut request = Request::new(now, Operation::Read, Lba::ZERO, Sectors::new(sectors.max(1)));
        request.stream = StreamId(0);
        Ok(request)
    }
    fn completed(&mut self, now: Timestamp, _id: RequestId, _request: &Request) {
        let think = exponential(&mut self.generator, self.think_ns);
        self.ready.push(now + Nanos::from_ns(think as u64));
    }
}

fn run(source: impl Source, drive: &str) -> Metrics {
    let drive = drive_models::build(&drive.parse().unwrap()).unwrap().drive;
    let limits = Limits { merge: false, max_sectors: Sectors::new(1 << 30), ..Limits::default() };
    Engine::new(source, Stage::new(Fifo::default(), limits), drive, Metrics::new()).run().unwrap().observer
}

fn poisson<F: FnMut(&mut Xoshiro256PlusPlus) -> u64>(gap_ns: f64, length: F) -> Poisson<F> {
    let generator = Xoshiro256PlusPlus::seed_from_u64(7);
    Poisson { generator, gap_ns, left: 1_000_000, next: Timestamp::ZERO, length }
}

fn mean_wait_ns(metrics: &Metrics) -> f64 {
    let reads = metrics.total(Class::Read).figures(metrics.span());
    // With a depth of one the drive begins as soon as a request is issued, so the wait is the response time less the
    // device time.
    reads.response_time.mean_ns.unwrap() - reads.device_time.mean_ns.unwrap()
}

fn assert_close(what: &str, measured: f64, theory: f64, tolerance: f64) {
    assert!((measured / theory - 1.0).abs() < tolerance, "{what}: measured {measured}, theory {theory}");
}

#[test]
fn mean_wait_of_m_d_1_agrees_with_theory() {
    for load in [0.3, 0.6, 0.8] {
        let service = 1e6;
        let metrics = run(poisson(service / load, |_| 8), "fixed:service=1ms");
        assert_close("M/D/1 wait", mean_wait_ns(&metrics), load * service / (2.0 * (1.0 - load)), 0.02);
        assert_close("utilisation", metrics.at_drive.busy_share(metrics.span()), load, 0.01);
    }
}

#[test]
fn mean_wait_of_m_g_1_agrees_with_pollaczek_khinchine() {
    // 1 ms and 128 us a sector; lengths 1 (90 %) or 91 (10 %).
    let drive = "linear:cache=off,a=1ms,b=0,per_byte_ps=250000";
    for load in [0.3, 0.6, 0.8] {
        let (short, long) = (1e6 + 128e3, 1e6 + 91.0 * 128e3);
        let mean = 0.9 * short + 0.1 * long;
        let second = 0.9 * short * short + 0.1 * long * long;
        let metrics = run(poisson(mean / load, |g| if g.random_range(0..10) == 0 { 91 } else { 1 }), drive);
        let theory = (load / mean) * second / (2.0 * (1.0 - load));
        assert_close("M/G/1 wait", mean_wait_ns(&metrics), theory, 0.03);
    }
}

#[test]
fn throughput_of_the_machine_repairman_model_agrees_with_theory() {
    // Exponential service of mean 1.024 ms: 1.024 us a sector, on average 1,000 sectors.
    let (drive, service_ms) = ("linear:cache=off,a=0,b=0,per_byte_ps=2000", 1.024);
    for (terminals, think_ms) in [(1u32, 1.0), (4, 5.0), (10, 8.0)] {
        let source = Terminals {
            generator: Xoshiro256PlusPlus::seed_from_u64(11),
            think_ns: think_ms * 1e6,
            service_sectors: 1000.0,
            left: 500_000,
            ready: vec![Timestamp::ZERO; terminals as usize],
        };
        let metrics = run(source, drive);
        let reads = metrics.total(Class::Read).figures(metrics.span());
        // p0 = 1 / sum over n of N!/(N-n)! (s/z)^n; throughput = (1 - p0)/s.
        let (mut term, mut sum) = (1.0, 1.0);
        for n in 0..terminals {
            term *= f64::from(terminals - n) * service_ms / think_ms;
            sum += term;
        }
        let throughput = (1.0 - 1.0 / sum) * 1000.0 / service_ms;
        assert_close("repairman's throughput", reads.iops, throughput, 0.01);
        let response = (f64::from(terminals) / throughput) * 1e9 - think_ms * 1e6;
        assert_close("repairman's response", reads.response_time.mean_ns.unwrap(), response, 0.01);
    }
}

#[test]
fn drive_is_always_busy_without_think_time() {
    let load = RandomLoad {
        requests: 10_000,
        outstanding: 32,
        sectors: Sectors::new(8),
        sectors_max: Sectors::new(8),
        capacity: Sectors::new(1 << 20),
        reads_percent: 70,
        seed: 3,
    };
    let metrics = run(RandomClosed::new(load), "fixed:service=1ms");
    assert_eq!(metrics.span(), Nanos::from_ms(10_000));
    let steady = metrics.total(Class::Read).figures(metrics.span());
    assert_close("closed response", steady.response_time.mean_ns.unwrap(), 32e6, 0.002);
    assert_eq!(metrics.outstanding.max(), 32);
}
