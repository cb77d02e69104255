//! A device that serves several requests at once, or in an order that nobody knows: an array, flash, a drive that sorts.
//!
//! What a request waits for cannot be told apart from what it is served for there, but how long both take together can be told from what is
//! under way. The response time of a request of n sectors that finds r reads and w writes at the device is taken for
//! a + b n + c r + d w + e, with a, b, c and d by operation, from all machines together, and e drawn from what the line leaves over
//! for the requests of its machine and operation. As the queue grows, throughput goes towards 1 / c: further than anything that was
//! recorded, the line goes on.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use drive_models::{Completion, DriveModel, WriteCache};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use schedulers::{AccessCost, DistanceCost};
use traces::{Lba, Nanos, Operation, Request, RequestId, Sectors, Timestamp};

use crate::isolated_trace::{IsolatedTrace, TracedRequest, each_issued};
use crate::solve::solve;
use crate::twin::device::controller_cache::CachedDevice;
use crate::twin::device::controller_cache::{CacheTiming, ControllerCache};
use crate::twin::device::empirical::EmpiricalTimes;

const OPERATIONS: usize = Operation::MOVING_DATA;
/// 1, sectors, reads found, writes found.
const UNKNOWNS: usize = 2 + OPERATIONS;

/// What was fitted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FittedConcurrent {
    capacity: Sectors,
    /// Seconds, by operation.
    lines: [[f64; UNKNOWNS]; OPERATIONS],
    /// By machine and operation.
    residuals: Vec<[EmpiricalTimes; OPERATIONS]>,
    /// How many requests it has at once.
    pub(crate) depth: u32,
    /// What its cache answers, by machine.
    pub(crate) controller_caches: Vec<ControllerCache>,
    /// No request takes less, by operation; seconds.
    least: [f64; OPERATIONS],
}

/// A response time with what it depends on.
struct Sample {
    operation: usize,
    row: [f64; UNKNOWNS],
    seconds: f64,
}

fn row(sectors: u32, found: [u32; OPERATIONS]) -> [f64; UNKNOWNS] {
    [1.0, f64::from(sectors), f64::from(found[0]), f64::from(found[1])]
}

fn times(line: &[f64; UNKNOWNS], row: &[f64; UNKNOWNS]) -> f64 {
    line.iter().zip(row).map(|(factor, value)| factor * value).sum()
}

/// The response times of a machine alone, of what no cache answers.
fn samples(requests: &[Vec<TracedRequest>; 2]) -> Vec<Sample> {
    let mut samples = Vec::new();
    each_issued(requests.iter().flatten(), |request, in_flight| {
        let mut found = [0u32; OPERATIONS];
        in_flight.values().for_each(|other| found[other.operation as usize] += 1);
        let seconds = request.completed.saturating_since(request.issued).as_s_f64();
        samples.push(Sample { operation: request.operation as usize, row: row(request.sectors, found), seconds });
    });
    samples
}

/// Least squares; what more requests under way would make shorter is taken for chance.
fn line(samples: &[&Sample]) -> Option<[f64; UNKNOWNS]> {
    let mut left_out = [false; UNKNOWNS];
    loop {
        let mut square = [[0.0; UNKNOWNS]; UNKNOWNS];
        let mut right = [0.0; UNKNOWNS];
        for sample in samples {
            let row: [f64; UNKNOWNS] =
                std::array::from_fn(|index| if left_out[index] { 0.0 } else { sample.row[index] });
            for (index, value) in row.iter().enumerate() {
                right[index] += value * sample.seconds;
                row.iter().zip(&mut square[index]).for_each(|(other, sum)| *sum += value * other);
            }
        }
        let found = solve(square, right)?;
        let Some(negative) = (1..UNKNOWNS).find(|&index| found[index] < 0.0) else { return Some(found) };
        left_out[negative] = true;
    }
}

/// Fits `traces` of one device; nothing if a figure is not finite.
pub(crate) fn fit(traces: &[IsolatedTrace], capacity: Sectors) -> Option<FittedConcurrent> {
    let cache = CacheTiming::of(traces);
    let (controller_caches, others): (Vec<ControllerCache>, Vec<[Vec<TracedRequest>; 2]>) =
        traces.iter().map(|trace| ControllerCache::of(trace, cache.as_ref(), None)).unzip();
    let vms: Vec<Vec<Sample>> = others.iter().map(samples).collect();
    let of = |operation: usize| vms.iter().flatten().filter(move |sample| sample.operation == operation);
    let mut lines = [[0.0; UNKNOWNS]; OPERATIONS];
    let mut least = [0.0; OPERATIONS];
    for operation in 0..OPERATIONS {
        lines[operation] = line(&of(operation).collect::<Vec<&Sample>>())?;
        least[operation] = of(operation).map(|sample| sample.seconds).reduce(f64::min).unwrap_or(0.0);
    }
    let residuals = |samples: &Vec<Sample>| {
        std::array::from_fn(|operation| {
            let own = samples.iter().filter(|sample| sample.operation == operation);
            EmpiricalTimes::of(own.map(|sample| sample.seconds - times(&lines[operation], &sample.row)).collect())
        })
    };
    let depth = cache.map_or(u32::MAX, |cache| cache.depth);
    Some(FittedConcurrent {
        capacity,
        lines,
        residuals: vms.iter().map(residuals).collect(),
        least,
        depth,
        controller_caches,
    })
}

/// What is done when, in which order it came, and of which operation it is.
type UnderWay = Reverse<(Timestamp, u64, RequestId, usize)>;

/// The device as it was fitted, serving.
pub(crate) struct ConcurrentModel {
    lines: FittedConcurrent,
    cost: DistanceCost,
    random: Xoshiro256PlusPlus,
    found: [u32; OPERATIONS],
    in_flight: BinaryHeap<UnderWay>,
    started: Vec<Timestamp>,
    sequence: u64,
}

impl ConcurrentModel {
    /// For some of the machines.
    pub(crate) fn new(lines: &FittedConcurrent, vms: Range<usize>, seed: u64) -> ConcurrentModel {
        let lines = FittedConcurrent { residuals: lines.residuals[vms].to_vec(), ..lines.clone() };
        ConcurrentModel {
            cost: DistanceCost { position: Lba::ZERO, capacity: lines.capacity },
            lines,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            found: [0; OPERATIONS],
            in_flight: BinaryHeap::new(),
            started: Vec::new(),
            sequence: 0,
        }
    }
}

impl CachedDevice for ConcurrentModel {}

impl DriveModel for ConcurrentModel {
    fn capacity(&self) -> Sectors {
        self.lines.capacity
    }

    fn accepts(&self, _request: &Request) -> bool {
        true
    }

    fn submit(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        let operation = request.operation as usize;
        let sectors = u32::try_from(request.sectors().count()).unwrap_or(u32::MAX);
        let mean = times(&self.lines.lines[operation], &row(sectors, self.found));
        let own = &self.lines.residuals[usize::from(request.vm.0)][operation];
        let seconds = (mean + own.draw(&mut self.random).unwrap_or(0.0)).max(self.lines.least[operation]);
        if id.index() >= self.started.len() {
            self.started.resize(id.index() + 1, Timestamp::ZERO);
        }
        self.started[id.index()] = now;
        self.sequence += 1;
        self.found[operation] += 1;
        let finished = now.saturating_add(Nanos::from_ns((seconds * 1e9) as u64));
        self.in_flight.push(Reverse((finished, self.sequence, id, operation)));
    }

    fn next_event(&self) -> Option<Timestamp> {
        self.in_flight.peek().map(|Reverse((finished, ..))| *finished)
    }

    fn advance(&mut self, now: Timestamp, completions: &mut Vec<Completion>) {
        while let Some(&Reverse((finished, _, id, operation))) = self.in_flight.peek() {
            if finished > now {
                break;
            }
            self.in_flight.pop();
            self.found[operation] -= 1;
            let started = self.started[id.index()];
            completions.push(Completion { id, started, finished, seek: Sectors::ZERO, hit: false });
        }
    }

    fn cost(&self) -> &dyn AccessCost {
        &self.cost
    }

    fn write_cache(&self) -> WriteCache {
        WriteCache::Through
    }

    fn discards(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests whose response time is 2 ms, 10 us a sector, 1 ms for each read and 0.5 ms for each write that they find.
    fn trace() -> IsolatedTrace {
        let mut requests: Vec<TracedRequest> = Vec::new();
        for n in 0u64..2000 {
            let at = n * 3_000_000 + n * n % 977 * 2000;
            let finds = |operation: Operation| {
                let other = |other: &&TracedRequest| {
                    let here = other.issued.as_ns() <= at && other.completed.as_ns() > at;
                    other.operation == operation && here
                };
                requests.iter().rev().take(64).filter(other).count() as u64
            };
            let sectors = 8 + n % 5 * 8;
            let took =
                2_000_000 + 10_000 * sectors + 1_000_000 * finds(Operation::Read) + 500_000 * finds(Operation::Write);
            let operation = if n % 7 < 3 { Operation::Write } else { Operation::Read };
            let sent = TracedRequest::sent(operation, 0, at / 1000, took / 1000);
            requests.push(TracedRequest { sectors: sectors as u32, ..sent });
        }
        requests.sort_by_key(|request| request.arrival);
        IsolatedTrace { requests, ..IsolatedTrace::default() }
    }

    #[test]
    fn what_responses_depend_on_is_found_and_drawn_again() {
        let lines = fit(&[trace()], Sectors::new(1 << 30)).unwrap();
        for line in lines.lines {
            for (found, set) in line.into_iter().zip([2e-3, 1e-5, 1e-3, 5e-4]) {
                assert!((found / set - 1.0).abs() < 0.02, "{line:?}");
            }
        }
        let mut device = ConcurrentModel::new(&lines, 0..1, 1);
        let mut completions = Vec::new();
        for id in 0..40 {
            let request = Request::new(Timestamp::ZERO, Operation::Read, Lba::new(u64::from(id) * 8), Sectors::new(16));
            device.submit(Timestamp::ZERO, RequestId(id), &request);
        }
        device.advance(Timestamp::from_ns(u64::MAX), &mut completions);
        // The last finds 39 reads, more than were ever recorded.
        let last = completions.iter().find(|completion| completion.id == RequestId(39)).unwrap();
        assert!((last.finished.as_ns() as f64 / (2e6 + 16e4 + 39e6) - 1.0).abs() < 0.03, "{last:?}");
        assert_eq!((completions.len(), device.next_event()), (40, None));
        // Afterwards nobody is found.
        let request = Request::new(Timestamp::ZERO, Operation::Read, Lba::ZERO, Sectors::new(16));
        device.submit(Timestamp::ZERO, RequestId(0), &request);
        let alone = device.next_event().unwrap().as_ns() as f64;
        assert!((alone / (2e6 + 16e4) - 1.0).abs() < 0.1, "{alone}");
    }
}
