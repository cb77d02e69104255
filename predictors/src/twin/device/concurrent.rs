//! A device that serves several requests at once or in an unknown order: an array without visible members, flash, a
//! drive that sorts.
//!
//! For such a device an isolated trace does not separate waiting from service. It does show the device time as a
//! function of the requests in flight. A request of n sectors that finds r reads and w writes in flight at the device
//! takes
//!
//! > a + b n + c r + d w + e.
//!
//! a, b, c and d are fitted for each operation by least squares over the traces of all VMs. Coefficients b, c and d are
//! never negative. The residual e is drawn from those of the VM's own requests of the same operation. Requests that the
//! controller's cache answers are left out of the fit; [`super::controller_cache`] models them.
//!
//! As the queue grows, throughput goes towards 1 / c. Beyond the longest recorded queue the line is extrapolated.
//! Addresses are not modelled, so VMs that seek between one another's data cost no more than one VM alone.

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
use crate::twin::device::controller_cache::{CacheTiming, CachedDevice, ControllerCache};
use crate::twin::device::empirical::EmpiricalTimes;

const OPERATIONS: usize = Operation::MOVING_DATA;
/// The number of coefficients: those of 1, sectors, reads found and writes found.
const COEFFICIENTS: usize = 2 + OPERATIONS;

/// The fitted device.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FittedConcurrent {
    capacity: Sectors,
    /// Coefficients in seconds, by operation.
    lines: [[f64; COEFFICIENTS]; OPERATIONS],
    /// The residuals of device times, by VM and operation.
    residuals: Vec<[EmpiricalTimes; OPERATIONS]>,
    /// The most requests that the controller accepts at once.
    pub(crate) depth: u32,
    /// The requests that the controller's cache answers, by VM.
    pub(crate) controller_caches: Vec<ControllerCache>,
    /// The shortest measured time, by operation, below which no simulated request takes; seconds.
    shortest: [f64; OPERATIONS],
}

/// A measured device time with the values that it depends on.
struct Sample {
    operation: usize,
    /// The values that the coefficients multiply.
    row: [f64; COEFFICIENTS],
    seconds: f64,
}

fn row(sectors: u32, found: [u32; OPERATIONS]) -> [f64; COEFFICIENTS] {
    [1.0, f64::from(sectors), f64::from(found[0]), f64::from(found[1])]
}

fn times(line: &[f64; COEFFICIENTS], row: &[f64; COEFFICIENTS]) -> f64 {
    line.iter().zip(row).map(|(factor, value)| factor * value).sum()
}

/// The device times of a VM's `requests` that no cache answers.
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

/// Fits one operation by least squares. A negative coefficient, by which more load would shorten times, counts as
/// chance and is set to 0.
fn line(samples: &[&Sample]) -> Option<[f64; COEFFICIENTS]> {
    let mut left_out = [false; COEFFICIENTS];
    loop {
        let mut square = [[0.0; COEFFICIENTS]; COEFFICIENTS];
        let mut right = [0.0; COEFFICIENTS];
        for sample in samples {
            let row: [f64; COEFFICIENTS] =
                std::array::from_fn(|index| if left_out[index] { 0.0 } else { sample.row[index] });
            for (index, value) in row.iter().enumerate() {
                right[index] += value * sample.seconds;
                row.iter().zip(&mut square[index]).for_each(|(other, sum)| *sum += value * other);
            }
        }
        let found = solve(square, right)?;
        let Some(negative) = (1..COEFFICIENTS).find(|&index| found[index] < 0.0) else { return Some(found) };
        left_out[negative] = true;
    }
}

/// Fits the device of `traces`; `None` if a coefficient is not finite.
pub(crate) fn fit(traces: &[IsolatedTrace], capacity: Sectors) -> Option<FittedConcurrent> {
    let cache = CacheTiming::of(traces);
    let (controller_caches, others): (Vec<ControllerCache>, Vec<[Vec<TracedRequest>; 2]>) =
        traces.iter().map(|trace| ControllerCache::of(trace, cache.as_ref(), None)).unzip();
    let vms: Vec<Vec<Sample>> = others.iter().map(samples).collect();
    let of = |operation: usize| vms.iter().flatten().filter(move |sample| sample.operation == operation);
    let mut lines = [[0.0; COEFFICIENTS]; OPERATIONS];
    let mut shortest = [0.0; OPERATIONS];
    for operation in 0..OPERATIONS {
        lines[operation] = line(&of(operation).collect::<Vec<&Sample>>())?;
        shortest[operation] = of(operation).map(|sample| sample.seconds).reduce(f64::min).unwrap_or(0.0);
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
        shortest,
        depth,
        controller_caches,
    })
}

/// A request in flight: completion, sequence number, id and operation.
type InFlight = Reverse<(Timestamp, u64, RequestId, usize)>;

/// The drive model of the fitted device.
pub(crate) struct ConcurrentModel {
    fitted: FittedConcurrent,
    cost: DistanceCost,
    random: Xoshiro256PlusPlus,
    /// Requests in flight, by operation.
    found: [u32; OPERATIONS],
    in_flight: BinaryHeap<InFlight>,
    started: Vec<Timestamp>,
    sequence: u64,
}

impl ConcurrentModel {
    /// Serves the `vms`, by the numbers of their traces.
    pub(crate) fn new(fitted: &FittedConcurrent, vms: Range<usize>, seed: u64) -> ConcurrentModel {
        let fitted = FittedConcurrent { residuals: fitted.residuals[vms].to_vec(), ..fitted.clone() };
        ConcurrentModel {
            cost: DistanceCost { position: Lba::ZERO, capacity: fitted.capacity },
            fitted,
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
        self.fitted.capacity
    }

    fn accepts(&self, _request: &Request) -> bool {
        true
    }

    fn submit(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        let operation = request.operation as usize;
        let sectors = u32::try_from(request.sectors().count()).unwrap_or(u32::MAX);
        let mean = times(&self.fitted.lines[operation], &row(sectors, self.found));
        let own = &self.fitted.residuals[usize::from(request.vm.0)][operation];
        let seconds = (mean + own.draw(&mut self.random).unwrap_or(0.0)).max(self.fitted.shortest[operation]);
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

    /// Requests that take 2 ms, 10 us for each sector, 1 ms for each read and 0.5 ms for each write that they find in
    /// flight.
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
    fn coefficients_are_recovered_and_the_model_reproduces_them_beyond_the_recorded_queue() {
        let fitted = fit(&[trace()], Sectors::new(1 << 30)).unwrap();
        for line in fitted.lines {
            for (found, set) in line.into_iter().zip([2e-3, 1e-5, 1e-3, 5e-4]) {
                assert!((found / set - 1.0).abs() < 0.02, "{line:?}");
            }
        }
        let mut device = ConcurrentModel::new(&fitted, 0..1, 1);
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
        // Afterwards a request finds the device idle.
        let request = Request::new(Timestamp::ZERO, Operation::Read, Lba::ZERO, Sectors::new(16));
        device.submit(Timestamp::ZERO, RequestId(0), &request);
        let alone = device.next_event().unwrap().as_ns() as f64;
        assert!((alone / (2e6 + 16e4) - 1.0).abs() < 0.1, "{alone}");
    }
}
