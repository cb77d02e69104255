//! How the groups of VMs of a placement are forecast: replayed on a LUN's drive, by the twin, or by a formula.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use predictors::place::{Forecasts, Task};
use predictors::{Isolated, IsolatedTrace, PREDICTORS, PredictError, Predictor, VmForecast};
use traces::Sectors;
use traces::results::isolation::IsolationProfile;
use traces::spec::Spec;

use super::plan::{Plan, Source, Vm};
use super::replay;
use crate::error::UsageError;
use crate::storage::Storage;

/// The predictor of groups for which there are only profiles. It forecasts every figure that a plan can limit.
const OF_PROFILES: &str = "casale";
/// The predictor of groups on the device of the traces.
const OF_TRACES: &str = "twin";
/// The name in plans of replays in place of forecasts.
const REPLAY: &str = "replay";
/// Most groups that are replayed or simulated; that takes a few minutes. If there are more, a formula chooses a first
/// assignment, and only groups near it are replayed or simulated.
const GROUPS_MAX: usize = 512;

/// The way in which groups on one kind of LUN are forecast.
pub enum Method {
    /// Replayed on the LUN's drive.
    Replay,
    /// Simulated by a predictor that needs traces.
    Traces(Box<dyn Predictor>),
    /// By a formula, from profiles.
    Profiles(Box<dyn Predictor>),
}

/// LUNs of equal storage, and the VMs alone there.
pub struct Kind<'a> {
    pub storage: Option<&'a Storage>,
    pub method: Method,
    pub profiles: Vec<IsolationProfile>,
    /// Empty unless the method needs them.
    pub traces: Vec<IsolatedTrace>,
}

/// The names of the methods in a plan, for a result.
pub fn named(plan: &Plan) -> Result<String, UsageError> {
    let mut names = Vec::new();
    for lun in &plan.luns {
        let name = name(plan, lun.storage.as_ref());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names.join(", "))
}

fn name<'a>(plan: &'a Plan, storage: Option<&Storage>) -> &'a str {
    match (&plan.predictor, storage) {
        (Some(name), _) => name,
        (None, Some(_)) => REPLAY,
        (None, None) if captures(plan) => OF_TRACES,
        (None, None) => OF_PROFILES,
    }
}

fn captures(plan: &Plan) -> bool {
    plan.vms.iter().all(|vm| matches!(vm.source(), Ok(Source::Capture(_))))
}

/// The method for LUNs of `storage`.
///
/// # Errors
/// A predictor that does not exist or cannot place VMs; one that needs a drive or traces that the plan does not name.
pub fn method(plan: &Plan, storage: Option<&Storage>) -> Result<Method, String> {
    let name = name(plan, storage);
    if name == REPLAY {
        return match storage {
            Some(_) => Ok(Method::Replay),
            None => {
                Err("predictor = \"replay\" needs a drive for every LUN; name the drives, or place with twin"
                    .to_owned())
            }
        };
    }
    let spec: Spec = name.parse().map_err(|problem: traces::spec::SpecError| problem.to_string())?;
    let entry = predictors::find(&spec.name).map_err(|problem| problem.to_string())?;
    let built = entry.build(&spec).map_err(|problem| problem.to_string())?;
    let Some(predictor) = built.predictor() else { return Err(learns(&spec.name)) };
    match (entry.needs_traces, captures(plan)) {
        (true, false) => Err(format!(
            "predictor = {name:?} needs the capture of every VM, and one is given as a profile; leave the predictor out"
        )),
        (true, true) => Ok(Method::Traces(predictor)),
        (false, _) => Ok(Method::Profiles(predictor)),
    }
}

/// Explains that a method that learns cannot place VMs, and names those that can.
fn learns(name: &str) -> String {
    let others: Vec<&str> = PREDICTORS.iter().filter(|entry| !entry.needs_traces).map(|entry| entry.name).collect();
    format!(
        "{name} learns from known consolidations, which a plan does not hold; place with replay, twin or a predictor \
         that uses profiles ({})",
        others.join(", ")
    )
}

/// The forecasts made so far, by kind of LUN and VMs.
type Known = BTreeMap<(usize, Vec<usize>), Result<Vec<VmForecast>, PredictError>>;

/// Forecasts the groups of VMs on every LUN.
pub struct Groups<'a> {
    plan: &'a Plan,
    /// By LUN: its kind.
    pub kind_of: Vec<usize>,
    pub kinds: Vec<Kind<'a>>,
    /// The sectors that each VM takes up.
    pub takes: Vec<Sectors>,
    /// For searches among too many groups.
    formula: Box<dyn Predictor>,
    /// Whether the search uses the formula.
    pub too_many: bool,
    known: RefCell<Known>,
    /// How many groups have been forecast.
    tried: Arc<AtomicU64>,
}

impl<'a> Groups<'a> {
    /// # Errors
    /// The formula cannot be built.
    pub fn new(plan: &'a Plan, kind_of: Vec<usize>, kinds: Vec<Kind<'a>>, takes: Vec<Sectors>) -> Result<Groups<'a>> {
        let tried = Arc::default();
        let formula = predictors::build(&OF_PROFILES.parse()?)?.predictor();
        let formula = formula.ok_or_else(|| UsageError(learns(OF_PROFILES)))?;
        let slow = kinds.iter().filter(|kind| !matches!(kind.method, Method::Profiles(_))).count();
        let vms = u32::try_from(plan.vms.len()).unwrap_or(u32::MAX);
        let groups = 2usize.checked_pow(vms).and_then(|groups| groups.checked_mul(slow));
        let too_many = slow > 0 && groups.is_none_or(|groups| groups > GROUPS_MAX);
        Ok(Groups { plan, kind_of, kinds, takes, formula, too_many, known: RefCell::default(), tried })
    }

    /// Counts the groups that are forecast from now on in `tried`.
    pub fn counted(self, tried: Arc<AtomicU64>) -> Groups<'a> {
        Groups { tried, ..self }
    }

    /// How the search forecasts: by formula if all LUNs have one, or if there are too many groups.
    pub fn of_search<'f>(&'f self, each: &'f predictors::place::GroupForecast<'f>) -> Forecasts<'f> {
        let formulas = self.kinds.iter().all(|kind| matches!(kind.method, Method::Profiles(_)));
        match self.kinds.first().map(|kind| &kind.method) {
            _ if self.too_many => Forecasts::Profiles(&*self.formula),
            Some(Method::Profiles(predictor)) if formulas => Forecasts::Profiles(&**predictor),
            _ => Forecasts::Groups(each),
        }
    }

    /// The forecast of a group on a LUN.
    pub fn forecast(&self, lun: usize, members: &[usize]) -> Result<Vec<VmForecast>, PredictError> {
        let key = (self.kind_of[lun], members.to_vec());
        if let Some(known) = self.known.borrow().get(&key) {
            return known.clone();
        }
        if self.known.borrow().len() >= GROUPS_MAX {
            return Err(PredictError::DoesNotHold(format!("{GROUPS_MAX} other groups have been tried")));
        }
        let forecast = self.made(&self.kinds[self.kind_of[lun]], members);
        self.known.borrow_mut().insert(key, forecast.clone());
        self.tried.fetch_add(1, Ordering::Relaxed);
        forecast
    }

    fn made(&self, kind: &Kind<'_>, members: &[usize]) -> Result<Vec<VmForecast>, PredictError> {
        let profiles: Vec<IsolationProfile> = members.iter().map(|&vm| kind.profiles[vm].clone()).collect();
        match (&kind.method, kind.storage) {
            (Method::Replay, Some(storage)) => {
                let vms: Vec<&Vm> = members.iter().map(|&vm| &self.plan.vms[vm]).collect();
                let (ran, _) = replay(self.plan, storage, &vms)
                    .map_err(|error| PredictError::DoesNotHold(format!("{error:#}")))?;
                Ok(ran.iter().map(|ran| VmForecast::measured(&ran.profile)).collect())
            }
            (Method::Traces(predictor), _) => {
                let traces = self.beside(kind, members);
                Ok(predictor.predict(Isolated { profiles: &profiles, traces: &traces })?.vms)
            }
            (Method::Profiles(predictor), _) => Ok(predictor.predict(Isolated::of_profiles(&profiles))?.vms),
            (Method::Replay, None) => Err(PredictError::DoesNotHold("there is no drive to replay on".to_owned())),
        }
    }

    /// The traces of `members` with their disks one behind the other, and those of all other VMs.
    fn beside(&self, kind: &Kind<'_>, members: &[usize]) -> Vec<IsolatedTrace> {
        let others = (0..kind.traces.len()).filter(|other| !members.contains(other));
        let mut place = Sectors::ZERO;
        let mut traces = Vec::new();
        for vm in members.iter().copied().chain(others) {
            traces.push(kind.traces[vm].moved(place));
            place = Sectors::new(place.count().saturating_add(self.takes[vm].count()));
        }
        traces
    }

    /// The name of the method of the search, if `methods` are those of the plan.
    pub fn searched_by<'n>(&self, methods: &'n str) -> &'n str {
        if self.too_many { OF_PROFILES } else { methods }
    }

    /// What the user has to know about the forecasts.
    pub fn note(&self) -> Option<String> {
        self.too_many.then(|| {
            format!(
                "{} VMs make more than {GROUPS_MAX} groups; {OF_PROFILES} chose a first assignment (and forecast the \
                 pairs of the matrices), and {} groups near it were replayed or simulated",
                self.plan.vms.len(),
                self.known.borrow().len()
            )
        })
    }
}

/// The task with another way of forecasting.
pub fn with<'t>(task: &Task<'_>, forecasts: Forecasts<'t>) -> Task<'t> {
    Task {
        limits: task.limits.clone(),
        alone: task.alone.clone(),
        drive_capacity: task.drive_capacity.clone(),
        takes: task.takes.clone(),
        separate: task.separate.clone(),
        forecasts,
        seed: task.seed,
    }
}
