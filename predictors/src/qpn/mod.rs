//! The queueing Petri net of Noorshams, Rostami, Kounev, Reussner 2014, with think times: predictors `qpn` and
//! `qpn-refined`.
//!
//! In the net (`queueing/nets/noorshams2014.toml`), clients of reads and writes share one storage. Its scheduler picks
//! a waiting read with weight w_r and a waiting write with weight w_w. `qpn` is the published model: mean service times
//! μ_r and μ_w are constants, and w_r / w_w is a function of the thread ratio t_r / t_w ([`mixes::WeightLine`]). Service
//! times of `qpn-refined` depend on the mix, and weights on both thread counts ([`mixes::Surface`]).
//!
//! Both can be calibrated as in the paper, from response times at a few thread counts on the storage itself
//! ([`storage`]; `iocast calibrate qpn`). Without them, `qpn` takes what it needs from the VMs alone. Service times solve
//! p_i μ_r + (1 - p_i) μ_w = B_i / X_i over the VMs. VM i keeps the device busy for the share B_i of the time, X_i is its
//! throughput, and p_i its share of reads. Each VM's weights are those that give its own response times.
//!
//! Clients without think time are solved in closed form, others by simulation with a fixed seed ([`net`]). `clients.rs`
//! finds the number and the think times of a VM's clients.

mod clients;
pub mod mixes;
pub mod net;
pub mod storage;

use traces::spec::{Settings, SpecError, TimesAt, Tunable, Unit};

use self::clients::Clients;
use self::mixes::{MeasuredMix, WeightLine, log_ratio};
use self::net::Group;
use self::storage::{Mixing, Storage, service_of_responses, shape};
use crate::predictor::{
    Consolidation, Entry, Isolated, Method, OperationForecast, PredictError, Predictor, VmForecast,
};

/// Tunables of both predictors.
const TUNABLES: &[Tunable] = &[
    Tunable::new("read_service", Unit::Time, "0ns", "mean service time of a read; 0 to fit it"),
    Tunable::new("write_service", Unit::Time, "0ns", "mean service time of a write; 0 to fit it"),
    Tunable::new(
        "read_deviation",
        Unit::Time,
        "0ns",
        "standard deviation of the response of single reads; 0 if unknown",
    ),
    Tunable::new("write_deviation", Unit::Time, "0ns", "standard deviation of a single write's response; 0 if unknown"),
    Tunable::new(
        "read_responses",
        Unit::TimesAt(1),
        "none",
        "mean response times of reads alone by threads; they give the service time of reads",
    )
    .within(1, u64::MAX),
    Tunable::new(
        "write_responses",
        Unit::TimesAt(1),
        "none",
        "mean response times of writes alone by threads; they give the service time of writes",
    )
    .within(1, u64::MAX),
    Tunable::new(
        "mixed_responses",
        Unit::TimesAt(2),
        "none",
        "mean response times of reads and writes by reading and writing threads; they give the weights",
    )
    .within(1, u64::MAX),
];

/// The registry's row of the published model.
pub const ENTRY: Entry = Entry {
    name: "qpn",
    summary: "clients that think, wait for weighted reads and writes, and are served one after another",
    origin: "Noorshams et al. 2014, queueing Petri net",
    tunables: TUNABLES,
    needs_traces: false,
    baseline: false,
    build: |settings: &Settings| {
        Ok(Method::Predictor(Box::new(Qpn { given: Given::of(&ENTRY, settings)?, model: Model::Published })))
    },
};

/// The registry's row of the refined model.
pub const REFINED: Entry = Entry {
    name: "qpn-refined",
    summary: "the same with service times that depend on the mix; needs response times of the storage",
    origin: "Noorshams et al. 2014, with service times by mix",
    tunables: TUNABLES,
    needs_traces: false,
    baseline: false,
    build: |settings: &Settings| {
        let given = Given::of(&REFINED, settings)?;
        let storage = match given.service {
            [Some(reads), Some(writes)] if !given.mixes.is_empty() => {
                let service = [reads, writes];
                let made = Storage::refined(service, given.shape(service, &[]), &given.mixes);
                let refused = |expected| refused(&REFINED, settings, "mixed_responses", expected);
                Some(Box::new(made.map_err(refused)?))
            }
            _ => None,
        };
        Ok(Method::Predictor(Box::new(Qpn { given, model: Model::Refined(storage) })))
    },
};

fn refused(entry: &Entry, settings: &Settings, name: &str, expected: String) -> SpecError {
    let value = settings.word(name).to_owned();
    SpecError::Value { part: entry.name.to_owned(), name: name.to_owned(), value, expected }
}

/// What the tunables say of the storage.
struct Given {
    /// Service times of reads and writes, seconds.
    service: [Option<f64>; 2],
    /// Standard deviations of response times of single requests, seconds.
    deviation: [Option<f64>; 2],
    /// Weights measured on the storage itself; empty to take them from the VMs alone.
    mixes: Vec<MeasuredMix>,
}

impl Given {
    fn of(entry: &Entry, settings: &Settings) -> Result<Given, SpecError> {
        let seconds = |name: &str| Some(settings.nanos(name).as_ns() as f64 / 1e9).filter(|seconds| *seconds > 0.0);
        let service = |service: &str, responses: &str| {
            let points = settings.times_at(responses, 1);
            let refused = |expected: String| Err(refused(entry, settings, responses, expected));
            match (seconds(service), points.is_empty()) {
                (Some(_), false) => refused(format!("not given beside {service}: give one of them")),
                (given, true) => Ok(given),
                (None, false) => {
                    let points: Vec<(f64, f64)> =
                        points.iter().map(|point| (point.counts[0] as f64, time(point, 0))).collect();
                    let found = service_of_responses(&points);
                    let grows =
                        "response times of threads that wait for one another, which grow with the number of threads";
                    found.map_or_else(|| refused(grows.to_owned()), |service| Ok(Some(service)))
                }
            }
        };
        let mix = |point: &TimesAt| MeasuredMix {
            threads: [0, 1].map(|kind| point.counts[kind] as f64),
            responses: [0, 1].map(|kind| time(point, kind)),
        };
        Ok(Given {
            service: [service("read_service", "read_responses")?, service("write_service", "write_responses")?],
            deviation: ["read_deviation", "write_deviation"].map(seconds),
            mixes: settings.times_at("mixed_responses", 2).iter().map(mix).collect(),
        })
    }

    /// The shape of each kind's service times, by the given deviation or by the VMs alone.
    fn shape(&self, service: [f64; 2], vms: &[Clients]) -> [f64; 2] {
        [0, 1].map(|kind| {
            let measured = || vms.iter().filter_map(|vm| vm.variation(kind));
            let rate: f64 = measured().map(|(_, rate)| rate).sum();
            let squared = measured().map(|(variation, rate)| variation * rate).sum::<f64>() / rate;
            let of_vms = (rate > 0.0).then(|| service[kind] * libm::sqrt(squared));
            let deviation = self.deviation[kind].or(of_vms);
            shape(service[kind], deviation)
        })
    }
}

/// The time of one kind at a point, seconds.
fn time(point: &TimesAt, kind: usize) -> f64 {
    point.times[kind].as_ns() as f64 / 1e9
}

enum Model {
    /// Calibrated when the VMs are known.
    Published,
    /// The storage; `None` if it was not calibrated.
    Refined(Option<Box<Storage>>),
}

struct Qpn {
    given: Given,
    model: Model,
}

impl Predictor for Qpn {
    fn predict(&self, Isolated { profiles: alone, .. }: Isolated<'_>) -> Result<Consolidation, PredictError> {
        let vms: Vec<Clients> = alone.iter().map(Clients::of).collect();
        let storage = match &self.model {
            Model::Published => self.given.storage(&vms)?,
            Model::Refined(Some(storage)) => (**storage).clone(),
            Model::Refined(None) => {
                return Err(PredictError::DoesNotHold(
                    "qpn-refined needs response times of the storage at several thread counts: read_responses, \
                     write_responses and mixed_responses, which `iocast calibrate qpn` measures"
                        .to_owned(),
                ));
            }
        };
        let simulated = vms.iter().any(Clients::think);
        let groups: Vec<Vec<Group>> = vms.iter().map(|vm| if simulated { vm.whole() } else { vm.groups() }).collect();
        let mut served = storage.serve(&groups.concat())?.into_iter();
        let forecast = |groups: &Vec<Group>| {
            let mut vm = VmForecast::default();
            for (group, served) in groups.iter().zip(&mut served) {
                let forecast = OperationForecast::of_means(Some(served.rate), Some(served.response * 1e9));
                *[&mut vm.reads, &mut vm.writes][group.kind] = forecast;
            }
            vm
        };
        let forecasts = groups.iter().map(forecast).collect();
        Ok(Consolidation { vms: forecasts, notes: vec![note(&storage, &groups)], ..Consolidation::default() })
    }
}

fn note(storage: &Storage, groups: &[Vec<Group>]) -> String {
    let [read_ms, write_ms] = storage.service.map(|seconds| seconds * 1e3);
    let groups = || groups.iter().flatten();
    let clients =
        [0, 1].map(|kind| groups().filter(|group| group.kind == kind).map(|group| group.clients).sum::<f64>());
    let think = if groups().all(|group| group.think == 0.0) { "never think" } else { "think" };
    format!(
        "a read takes {read_ms:.3} ms and a write {write_ms:.3} ms; {:.1} clients read and {:.1} write, and {think}",
        clients[0], clients[1]
    )
}

impl Given {
    /// The published model, with what is not given taken from the VMs alone.
    fn storage(&self, vms: &[Clients]) -> Result<Storage, PredictError> {
        let service = self.service(vms)?;
        let shape = self.shape(service, vms);
        if !self.mixes.is_empty() {
            return Ok(Storage::published(service, shape, &self.mixes));
        }
        let mut points = Vec::new();
        for vm in vms {
            if let [reads, writes] = vm.groups()[..] {
                let log_weight = if vm.think() {
                    Storage::log_weight_of(service, shape, [reads, writes], vm.responses)?
                } else {
                    Some(log_ratio(vm.rates))
                };
                points.extend(log_weight.map(|weight| [log_ratio([reads.clients, writes.clients]), weight]));
            }
        }
        Ok(Storage { service, shape, mixing: Mixing::Published(WeightLine::through(&points).bounded()) })
    }

    /// μ_r and μ_w, seconds: as given, or by least squares over the VMs.
    fn service(&self, vms: &[Clients]) -> Result<[f64; 2], PredictError> {
        let mut normal = [[0.0; 3]; 2];
        for vm in vms {
            let shares = [vm.share_of_reads(), 1.0 - vm.share_of_reads()];
            for (row, share) in normal.iter_mut().zip(shares) {
                row[0] += share * shares[0];
                row[1] += share * shares[1];
                row[2] += share * vm.busy / vm.rate();
            }
        }
        let [[a, b, c], [_, d, e]] = normal;
        let determinant = a * d - b * b;
        // VMs with the same mix determine the cycle but not its parts. Both operations then get the same service time.
        let same_mix = determinant < 1e-6 * (a + d) * (a + d);
        let alike = (c + e) / (a + 2.0 * b + d);
        let fitted =
            if same_mix { [alike, alike] } else { [(c * d - b * e) / determinant, (a * e - b * c) / determinant] };
        let service = match self.service {
            [None, None] => fitted,
            [Some(reads), None] => [reads, rest(vms, 1, reads)],
            [None, Some(writes)] => [rest(vms, 0, writes), writes],
            [Some(reads), Some(writes)] => [reads, writes],
        };
        if service.iter().all(|seconds| *seconds > 0.0) {
            return Ok(service);
        }
        Err(PredictError::DoesNotHold(format!(
            "service times come out as {:.3} ms for reads and {:.3} ms for writes: one mean for all reads and one for \
             all writes does not describe the profiles; give other service times with read_responses and write_responses, \
             or with read_service and write_service",
            service[0] * 1e3,
            service[1] * 1e3
        )))
    }
}

/// Service time of `kind`, seconds, by least squares over the VMs if the other kind takes `given`. Without a VM that
/// has requests of the kind it is `given`, too.
fn rest(vms: &[Clients], kind: usize, given: f64) -> f64 {
    let (mut along, mut spread) = (0.0, 0.0);
    for vm in vms {
        let reads = vm.share_of_reads();
        let share = if kind == 0 { reads } else { 1.0 - reads };
        along += share * (vm.busy / vm.rate() - (1.0 - share) * given);
        spread += share * share;
    }
    if spread > 0.0 { along / spread } else { given }
}
