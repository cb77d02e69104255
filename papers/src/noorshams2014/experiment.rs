//! The paper's measurements on a testbed, and the models that are calibrated with them.

use predictors::qpn::mixes::MeasuredMix;
use predictors::qpn::storage::{Storage, service_of_responses, shape};

use super::testbed::{Responses, Threads, VmResponses};

/// Thread counts of the grids.
pub const GRID: [u32; 5] = [10, 20, 30, 40, 50];

/// Thread counts between those of the grid; ours.
pub const BETWEEN: [u32; 4] = [15, 25, 35, 45];

/// What is measured, in this order: VMs with their threads.
pub fn plan() -> Vec<(Part, Vec<Threads>)> {
    let mut plan = Vec::new();
    for kind in [0, 1] {
        for threads in [1].into_iter().chain((10..=100).step_by(10)) {
            let vm = if kind == 0 { [threads, 0] } else { [0, threads] };
            plan.push((Part::Alone(kind), vec![vm]));
        }
    }
    let pairs = |counts: &'static [u32]| counts.iter().flat_map(|&r| counts.iter().map(move |&w| [r, w]));
    plan.extend(pairs(&GRID).map(|threads| (Part::OneVm, vec![threads])));
    plan.extend(pairs(&GRID).map(|[reads, writes]| (Part::TwoVms, vec![[reads, 0], [0, writes]])));
    plan.extend(pairs(&BETWEEN).map(|[reads, writes]| (Part::Between, vec![[reads, 0], [0, writes]])));
    plan
}

/// The part of the experiment that a measurement belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Threads of one kind: 0 for reads, 1 for writes.
    Alone(usize),
    /// Both kinds in one VM: the calibration.
    OneVm,
    /// A VM that reads beside one that writes: the test.
    TwoVms,
    /// The same with thread counts that no calibration has seen; ours.
    Between,
}

/// Mean response times of reads and of writes with so many threads of both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Reading and writing threads, of all VMs.
    pub threads: [f64; 2],
    /// Seconds.
    pub responses: [f64; 2],
}

/// The measurements of one seed.
pub struct Measurements {
    /// Response times of reads and of writes alone by threads: 1, 10, 20, … 100.
    pub alone: [Vec<(f64, Responses)>; 2],
    /// The grid in one VM.
    pub one_vm: Vec<Point>,
    /// The grid in two VMs.
    pub two_vms: Vec<Point>,
    /// Thread counts between those of the grid, in two VMs.
    pub between: Vec<Point>,
}

impl Measurements {
    /// Sorts what was measured by [`plan`].
    pub fn of(measured: &[Vec<VmResponses>]) -> Measurements {
        let plan = plan();
        let each = || plan.iter().zip(measured);
        let alone = |kind: usize| {
            let of = each().filter(|((part, _), _)| *part == Part::Alone(kind));
            of.map(|((_, vms), measured)| (f64::from(vms[0][kind]), measured[0][kind])).collect()
        };
        let points = |wanted: Part| {
            let of = each().filter(|((part, _), _)| *part == wanted);
            of.map(|((_, vms), measured)| {
                let last = vms.len() - 1;
                Point {
                    threads: [f64::from(vms[0][0]), f64::from(vms[last][1])],
                    responses: [measured[0][0].mean, measured[last][1].mean],
                }
            })
            .collect()
        };
        Measurements {
            alone: [alone(0), alone(1)],
            one_vm: points(Part::OneVm),
            two_vms: points(Part::TwoVms),
            between: points(Part::Between),
        }
    }

    /// Mean response times of a kind alone by threads.
    pub fn line(&self, kind: usize) -> Vec<(f64, f64)> {
        self.alone[kind].iter().map(|(threads, responses)| (*threads, responses.mean)).collect()
    }

    fn mixes(&self) -> Vec<MeasuredMix> {
        let mix = |point: &Point| MeasuredMix { threads: point.threads, responses: point.responses };
        self.one_vm.iter().map(mix).collect()
    }
}

/// The models, calibrated with one VM.
pub struct Models {
    /// As published, with f(t_r / t_w).
    pub published: Storage,
    /// As published, with the weights of each mix of the grid by itself.
    pub own_weights: Vec<Storage>,
    /// Service times by mix.
    pub refined: Storage,
    /// The same for each mix of the grid, calibrated without that mix.
    pub refined_without: Vec<Storage>,
}

impl Models {
    /// Calibrates them; `None` if response times do not grow with the threads.
    pub fn calibrated(measured: &Measurements) -> Option<Models> {
        let service = [service_of_responses(&measured.line(0))?, service_of_responses(&measured.line(1))?];
        let deviation = |kind: usize| measured.alone[kind].first().map(|(_, responses)| responses.deviation);
        let shape = [0, 1].map(|kind| shape(service[kind], deviation(kind)));
        let mixes = measured.mixes();
        let own = |mix: &MeasuredMix| Storage::published(service, shape, std::slice::from_ref(mix));
        let refined = |mixes: &[MeasuredMix]| Storage::refined(service, shape, mixes).ok();
        let without = |mix: &MeasuredMix| {
            refined(&mixes.iter().copied().filter(|other| other.threads != mix.threads).collect::<Vec<_>>())
        };
        Some(Models {
            published: Storage::published(service, shape, &mixes),
            own_weights: mixes.iter().map(own).collect(),
            refined: refined(&mixes)?,
            refined_without: mixes.iter().map(without).collect::<Option<_>>()?,
        })
    }
}

/// Relative errors of forecasts at points: (forecast - measured) / measured, of reads and of writes.
pub fn errors<'a>(points: &[Point], model: impl Fn(usize) -> &'a Storage) -> [Vec<f64>; 2] {
    let of = |kind: usize| {
        let error = |(nth, point): (usize, &Point)| {
            let forecast = model(nth).responses(point.threads)[kind].unwrap_or(f64::NAN);
            forecast / point.responses[kind] - 1.0
        };
        points.iter().enumerate().map(error).collect()
    };
    [of(0), of(1)]
}
