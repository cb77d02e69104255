//! The replays of a scenario: one for each scheduler and seed.

use drive_models::BuiltDrive;
use replay::host::Single;
use replay::metrics::Class;
use replay::sources::{AddressMap, MergedTraces, OneDevice, VmTrace, paced};
use replay::{ActiveTime, Engine, Metrics, Overload, ReplayError, Source, Stage};
use schedulers::Registry;
use traces::spec::SpecError;
use traces::trace::ReadOptions;
use traces::{ReadError, formats};
use workloads::plan::{GuestPlan, GuestSettings, PlanError};

use super::figures::{Measured, measured};
use super::{Candidate, Load, Scenario, Scheduling, Trace};

/// Why a replay of a scenario came to no end.
#[derive(Debug, thiserror::Error)]
#[error("scenario {name}, scheduler {scheduler}: {problem}")]
pub struct ScenarioError {
    /// The scenario.
    pub name: String,
    /// The scheduler.
    pub scheduler: String,
    /// What is wrong.
    pub problem: Box<ReplayProblem>,
}

/// What went wrong in a replay.
#[derive(Debug, thiserror::Error)]
pub enum ReplayProblem {
    /// A trace cannot be read.
    #[error(transparent)]
    Trace(#[from] ReadError),
    /// A guest cannot be run.
    #[error(transparent)]
    Guest(#[from] PlanError),
    /// The drive or a scheduler cannot be built.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The drive's profile is not accepted any more.
    #[error("{0}")]
    Drive(String),
    /// No request was replayed.
    #[error("no request was replayed; check `from`, `to` and `limit`")]
    Nothing,
    /// The drive cannot serve the arrivals, so that response times depend on the length of the replay.
    #[error("the drive is overloaded: {0}; replay it closed, scaled or on a faster drive")]
    Overloaded(String),
    /// The replay itself: a trace out of order, an address beyond the drive, a scheduler at fault.
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

impl Scenario {
    /// The figures of each scheduler, in the file's order.
    ///
    /// # Errors
    /// A trace that cannot be read or does not fit the drive; a scheduler at fault.
    pub fn measure(&self, known: &Registry) -> Result<Vec<Vec<Measured>>, ScenarioError> {
        let of_one = |candidate: &Candidate| {
            let replays = self.seeds.iter().map(|&seed| self.replay(candidate, seed, known));
            let fail = |problem| {
                let (name, scheduler) = (self.name.clone(), candidate.name.clone());
                ScenarioError { name, scheduler, problem: Box::new(problem) }
            };
            Ok(measured(&replays.collect::<Result<Vec<Metrics>, _>>().map_err(fail)?, &self.vms))
        };
        self.schedulers.iter().map(of_one).collect()
    }

    fn replay(&self, candidate: &Candidate, seed: u64, known: &Registry) -> Result<Metrics, ReplayProblem> {
        let built = drive_models::build(&candidate.drive).map_err(|error| ReplayProblem::Drive(error.to_string()))?;
        let capacity = built.drive.capacity();
        match &self.load {
            Load::Traces { traces, pacing, window } => {
                let traces = traces.iter().map(open).collect::<Result<_, _>>()?;
                let source = paced(MergedTraces::new(traces, *window, capacity), *pacing);
                let (metrics, why_overloaded) = self.serve(source, built, candidate, known)?;
                match why_overloaded.filter(|_| pacing.is_open()) {
                    Some(why) => Err(ReplayProblem::Overloaded(why)),
                    None => Ok(metrics),
                }
            }
            Load::Guests { named, settings, until } => {
                let plan = GuestPlan::new(named, GuestSettings { seed, ..*settings }, *until, capacity)?;
                Ok(self.serve(plan.source()?, built, candidate, known)?.0)
            }
        }
    }

    /// The metrics, and why the drive would be overloaded if arrivals did not wait for it.
    fn serve<S: Source>(
        &self,
        source: S,
        built: BuiltDrive,
        candidate: &Candidate,
        known: &Registry,
    ) -> Result<(Metrics, Option<String>), ReplayProblem> {
        let metrics = match self.vms.len() {
            1 => Metrics::new(),
            vms => Metrics::per_vm(ActiveTime::of_all(vms)),
        };
        let observers = (metrics, Overload::default());
        let ((metrics, overload), outcome) = match &candidate.scheduling {
            Scheduling::Stage(limits) => {
                let stage = Stage::new(known.build(&candidate.scheduler)?.scheduler, *limits);
                let ended = Engine::on(source, Single::new(stage, built.drive), observers).run()?;
                (ended.observer, ended.outcome)
            }
            Scheduling::Stack(stack, layer) => {
                let stack = stack.clone().with_scheduler_among(*layer, &candidate.scheduler, known)?;
                let host = stack.build_among(built.drive, known).watching(*layer);
                let ended = Engine::on(source, host, observers).run()?;
                (ended.observer, ended.outcome)
            }
        };
        let is_empty = [Class::Read, Class::Write].iter().all(|&class| metrics.total(class).response.count() == 0);
        if is_empty {
            return Err(ReplayProblem::Nothing);
        }
        Ok((metrics, overload.verdict().why(outcome.held_back.then_some("the bound on outstanding arrivals"))))
    }
}

fn open(trace: &Trace) -> Result<VmTrace, ReadError> {
    let Trace { name, path, place } = trace;
    let reader = OneDevice::new(path, formats::open(path, &ReadOptions::default())?);
    Ok(VmTrace {
        name: name.clone(),
        path: path.clone(),
        reader: Box::new(reader),
        map: AddressMap::Shift { place: *place },
    })
}
