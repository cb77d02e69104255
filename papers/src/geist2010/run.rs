//! One run of the experiment of Geist et al. 2010: a system, a workload and a scheduler.

use std::sync::Arc;

use drive_models::DriveModel;
use schedulers::Scheduler;
use schedulers::shadow_cache::{ShadowCache, Span};
use traces::results::RuleFigures;
use traces::spec::{Spec, Unit};
use traces::{Lba, Nanos, Operation, Request, RequestId, Sectors, Timestamp};

use super::choices::{Choices, Clock};
use super::numbers::REQUESTS;
use crate::ReproduceError;
use replay::engine::Engine;
use replay::observer::{Observer, Served};
use replay::stage::{Limits, Stage};
use workloads::guest::Program;
use workloads::guest::memory::MemorySettings;
use workloads::surge::{Image, Reader, ReaderSettings};
use workloads::{Guest, Guests, Until};

/// The systems of the paper's columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// The real system with the Cheetah.
    Real,
    /// The VM under the throttle, with all times divided by the throttle's factor.
    Virtual,
}

/// Factor by which the throttled disk is slower.
pub const K: u32 = 8;

/// Number of processes.
pub const PROCESSES: u64 = 50;

/// A request counts as a hit if its service time is below this, ns.
const HIT_NS: u64 = 250_000;

/// The geometry of CATS's shadow cache: segments, sectors in each, prefetch.
pub const GEOMETRY: (usize, u64, u64) = (64, 221, 64);

/// The measured quantities of a run.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Mean and variance of service times (from leaving the scheduler to completion), ms and ms².
    pub service: [f64; 2],
    /// Mean and variance of response times, ms and ms².
    pub response: [f64; 2],
    /// Sectors per millisecond.
    pub throughput: f64,
    /// The share of requests with a service time below 250 µs.
    pub marked_as_hits: f64,
    /// The share of requests that hit the drive's cache.
    pub hits: f64,
    /// The share of the drive's hits that the shadow cache predicted, and the share of its predictions that were hits.
    pub recall_and_precision: [f64; 2],
    /// The share of requests marked as hits that the shadow cache predicted, which is the paper's count.
    pub recall_of_marked: f64,
    /// What each rule of the scheduler sent.
    pub rules: Vec<RuleFigures>,
}

/// Picks a quantity of a run.
pub(super) type Quantity = fn(&Measured) -> f64;

impl Measured {
    /// Converts quantities that were measured with times `k` times those of the real disk to the real disk's scale.
    #[must_use]
    pub fn divided_by(mut self, k: f64) -> Measured {
        for [mean, variance] in [&mut self.service, &mut self.response] {
            *mean /= k;
            *variance /= k * k;
        }
        self.throughput *= k;
        self
    }
}

/// The integer sums for [`Measured`], over the captured requests.
pub(super) struct Capture {
    shadow: ShadowCache,
    /// The number of requests to capture.
    requests: u64,
    /// Whether each outstanding request was predicted to be a hit.
    predicted: Vec<bool>,
    served: u64,
    completed: u64,
    service: [u128; 2],
    response: [u128; 2],
    sectors: u64,
    began: Option<Timestamp>,
    ended: Timestamp,
    marked: u64,
    hits: u64,
    predictions: u64,
    right: u64,
    marked_and_predicted: u64,
}

impl Capture {
    fn new((segments, sectors, prefetch): (usize, u64, u64), requests: u64) -> Capture {
        Capture {
            requests,
            shadow: ShadowCache::new(segments, Sectors::new(sectors), Sectors::new(prefetch)),
            predicted: Vec::new(),
            served: 0,
            completed: 0,
            service: [0; 2],
            response: [0; 2],
            sectors: 0,
            began: None,
            ended: Timestamp::ZERO,
            marked: 0,
            hits: 0,
            predictions: 0,
            right: 0,
            marked_and_predicted: 0,
        }
    }

    pub(super) fn measured(&self) -> Measured {
        // The moments are in ns and ns².
        let moments = |[sum, squares]: [u128; 2], count: u64| {
            let mean = sum as f64 / count as f64;
            [mean / 1e6, (squares as f64 / count as f64 - mean * mean) / 1e12]
        };
        let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        let span = self.ended.saturating_since(self.began.unwrap_or_default());
        Measured {
            service: moments(self.service, self.served),
            response: moments(self.response, self.completed),
            throughput: self.sectors as f64 / span.as_ms_f64(),
            marked_as_hits: share(self.marked, self.served),
            hits: share(self.hits, self.served),
            recall_and_precision: [share(self.right, self.hits), share(self.right, self.predictions)],
            recall_of_marked: share(self.marked_and_predicted, self.marked),
            rules: Vec::new(),
        }
    }
}

impl Observer for Capture {
    fn dispatched(&mut self, _now: Timestamp, id: RequestId, request: &Request) {
        if id.index() >= self.predicted.len() {
            self.predicted.resize(id.index() + 1, false);
        }
        let span = Span { start: request.lba, end: request.end() };
        self.predicted[id.index()] =
            request.operation == Operation::Read && self.shadow.segment_holding(span).is_some();
        self.shadow.sent(span);
    }

    fn served(&mut self, served: &Served) {
        if self.served == self.requests {
            return;
        }
        self.began.get_or_insert(served.dispatched);
        let service = served.finished.since(served.dispatched).as_ns();
        add(&mut self.service, service);
        self.served += 1;
        self.sectors += served.request.sectors().count();
        self.ended = served.finished;
        let (hit, marked, predicted) = (served.hit, service < HIT_NS, self.predicted[served.id.index()]);
        self.hits += u64::from(hit);
        self.marked += u64::from(marked);
        self.predictions += u64::from(predicted);
        self.right += u64::from(hit && predicted);
        self.marked_and_predicted += u64::from(marked && predicted);
    }

    fn completed(&mut self, now: Timestamp, _id: RequestId, request: &Request) {
        if self.completed < self.requests {
            add(&mut self.response, now.since(request.arrival).as_ns());
            self.completed += 1;
        }
    }
}

fn add([sum, squares]: &mut [u128; 2], value: u64) {
    *sum += u128::from(value);
    *squares += u128::from(value) * u128::from(value);
}

/// A file system filled once for all runs of a seed.
pub struct Prepared {
    image: Image,
    ranked: Arc<[workloads::surge::Ranked]>,
    metadata: Option<Arc<workloads::guest::metadata::Metadata>>,
}

impl Prepared {
    /// The image of the file system, and the state that its processes share.
    pub fn new(mut image: Image) -> Prepared {
        let ranked = std::mem::take(&mut image.ranked).into();
        let metadata = image.metadata.take().map(Arc::new);
        Prepared { image, ranked, metadata }
    }
}

/// The spec of a scheduler. Its times are divided by `K` if they follow the clock of a guest whose disk is slowed down.
pub fn scheduler_spec(name: &str, system: System, choices: &Choices) -> Result<Spec, traces::spec::SpecError> {
    let mut spec: Spec = name.parse()?;
    let entry = schedulers::registry::find(name)?;
    if name == "cats" {
        let (segments, sectors, prefetch) = choices.geometry;
        let mut give = |name: &str, value: String| spec.given.push((name.to_owned(), value));
        give("busdriver_reading", choices.busdriver.to_owned());
        give("segments", segments.to_string());
        give("segment_sectors", sectors.to_string());
        give("prefetch_sectors", prefetch.to_string());
    }
    if system == System::Virtual && choices.timers == Clock::Guest {
        for tunable in entry.tunables.iter().filter(|tunable| tunable.unit == Unit::Time) {
            let default = traces::quantity::parse_nanos(tunable.default).unwrap_or(Nanos::ZERO);
            spec.given.push((tunable.name.to_owned(), format!("{}ns", default.as_ns() / u64::from(K))));
        }
    }
    Ok(spec)
}

/// The settings of a workload.
pub struct Setting<'a> {
    /// The file system.
    pub prepared: &'a Prepared,
    /// Whether files are opened with `O_DIRECT`.
    pub direct: bool,
    /// Number of processes.
    pub processes: u64,
    /// Length of sleeps in thousandths of the paper's.
    pub sleep_scale: u32,
    /// The geometry of the shadow cache whose predictions are counted.
    pub geometry: (usize, u64, u64),
    /// Whether the next request leaves the scheduler while the drive serves the one before.
    pub look_ahead: bool,
    /// Seed of the processes.
    pub seed: u64,
    /// The number of requests to capture.
    pub requests: u64,
}

impl<'a> Setting<'a> {
    /// The settings that follow from the inputs of a run, with the paper's number of requests.
    pub fn of(prepared: &'a Prepared, setup: &Setup, direct: bool, seed: u64) -> Setting<'a> {
        let Setup { sleep_scale, geometry, look_ahead, .. } = *setup;
        let (processes, requests) = (PROCESSES, REQUESTS);
        Setting { prepared, direct, processes, sleep_scale, geometry, look_ahead, seed, requests }
    }
}

/// The inputs of a run, apart from the file system, the seed and `O_DIRECT`.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    pub(super) scheduler: Spec,
    drive: String,
    /// Length of sleeps in thousandths of the paper's.
    sleep_scale: u32,
    geometry: (usize, u64, u64),
    look_ahead: bool,
}

/// The inputs of a run that follow from the choices, a system and a scheduler.
///
/// # Errors
/// There is no such scheduler.
pub fn setup(system: System, scheduler: &str, choices: &Choices) -> Result<Setup, traces::spec::SpecError> {
    let slowed = system == System::Virtual && choices.sleeps == Clock::Guest;
    Ok(Setup {
        scheduler: scheduler_spec(scheduler, system, choices)?,
        drive: choices.drive(system),
        sleep_scale: if slowed { 1000 / K } else { 1000 },
        geometry: choices.geometry,
        look_ahead: choices.look_ahead,
    })
}

/// Runs a workload until the paper's number of requests has been captured.
///
/// # Errors
/// An invalid part.
pub fn run(prepared: &Prepared, setup: &Setup, direct: bool, seed: u64) -> Result<Measured, ReproduceError> {
    let drive = drive_models::build(&setup.drive.parse()?)?.drive;
    run_on(&Setting::of(prepared, setup, direct, seed), &setup.scheduler, drive)
}

/// Runs a workload on a given drive under a given scheduler, until the same number of requests.
///
/// # Errors
/// An invalid scheduler.
pub fn run_on<D: DriveModel>(setting: &Setting, scheduler: &Spec, drive: D) -> Result<Measured, ReproduceError> {
    let Parts { source, stage, capture } = Parts::new(setting, scheduler)?;
    let rules = schedulers::registry::find(&scheduler.name)?.rules;
    let ended = Engine::new(source, stage, drive, capture).run()?;
    let rules = replay::figures::rules(rules, [ended.host.stage().scheduler().sent_by_rule()]);
    Ok(Measured { rules, ..ended.observer.measured() })
}

/// The parts of a run apart from the drive.
pub(super) struct Parts {
    pub(super) source: Guests,
    pub(super) stage: Stage<Box<dyn Scheduler>>,
    pub(super) capture: Capture,
}

impl Parts {
    /// The processes of `setting` above `scheduler`.
    ///
    /// # Errors
    /// An invalid scheduler.
    pub(super) fn new(setting: &Setting, scheduler: &Spec) -> Result<Parts, ReproduceError> {
        let Setting { prepared, direct, processes, sleep_scale, geometry, look_ahead, seed, requests } = *setting;
        let scheduler = schedulers::build(scheduler)?.scheduler;
        let settings = ReaderSettings { direct, sleep_scale };
        let reader = |number| {
            let (ranked, metadata) = (prepared.ranked.clone(), prepared.metadata.clone());
            Box::new(Reader::new(ranked, metadata, settings, seed, number)) as Box<dyn Program>
        };
        let guest = Guest {
            name: "web server".to_owned(),
            place: Lba::ZERO,
            files: prepared.image.files.clone(),
            journal: None,
            memory: (!direct || prepared.metadata.is_some()).then(MemorySettings::default),
            programs: (0..processes).map(reader).collect(),
        };
        // One or two requests may be merged into others.
        let until = Until { requests: Some(requests + requests / 10), time: None };
        let limits = Limits { depth: 1, look_ahead, ..Limits::default() };
        Ok(Parts {
            source: Guests::new(vec![guest], until),
            stage: Stage::new(scheduler, limits),
            capture: Capture::new(geometry, requests),
        })
    }
}
