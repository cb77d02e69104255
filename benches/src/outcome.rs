//! What a scenario's replays say about its expectations.

use std::fmt::Write as _;

use schedulers::Registry;

use crate::scenario::figures::Measured;
use crate::scenario::{Bound, Candidate, ExpectedFigure, Limit, Scenario, ScenarioError};

/// A scenario that has run.
#[derive(Debug)]
pub struct Outcome {
    /// The scenario.
    pub scenario: Scenario,
    /// The figures of each scheduler, in the scenario's order.
    pub measured: Vec<Vec<Measured>>,
    /// What is not as expected, in the order of the file's lines.
    pub misses: Vec<Miss>,
}

/// An expectation that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miss {
    /// What is not as expected, and the reason that was given: the same for all figures of a scheduler.
    pub what: String,
    /// The line of the expectation in the scenario's file, from 1.
    pub line: usize,
    /// What the line states.
    pub was: String,
    /// The line as it would have to be if the change is wanted. None for a bound against a figure of 0.
    pub new_line: Option<String>,
}

impl Outcome {
    /// Runs a scenario.
    ///
    /// # Errors
    /// As [`Scenario::measure`].
    pub fn of(scenario: Scenario, known: &Registry) -> Result<Outcome, ScenarioError> {
        let measured = scenario.measure(known)?;
        let mut misses = Vec::new();
        for (candidate, measured) in scenario.schedulers.iter().zip(&measured) {
            misses.extend(candidate.figures.iter().filter_map(|figure| missed(candidate, figure, measured)));
        }
        for bound in &scenario.bounds {
            misses.extend(Held::of(bound, &scenario, &measured).miss(bound));
        }
        misses.sort_by_key(|miss| miss.line);
        Ok(Outcome { scenario, measured, misses })
    }

    /// Whether everything is as expected.
    pub fn passed(&self) -> bool {
        self.misses.is_empty()
    }

    /// The figures of the scheduler that the scenario names so.
    pub fn figures_of(&self, scheduler: &str) -> Option<&[Measured]> {
        of_scheduler(&self.scenario, &self.measured, scheduler)
    }

    /// What each bound came to, in the scenario's order.
    pub fn bounds(&self) -> impl Iterator<Item = (&Bound, Held)> {
        self.scenario.bounds.iter().map(|bound| (bound, Held::of(bound, &self.scenario, &self.measured)))
    }
}

/// Whether `value` is within the tolerance, in thousandths of a percent of the expected value.
fn is_within(value: u64, expected: u64, tolerance: u64) -> bool {
    u128::from(value.abs_diff(expected)) * 100_000 <= u128::from(expected) * u128::from(tolerance)
}

fn missed(candidate: &Candidate, expected: &ExpectedFigure, measured: &[Measured]) -> Option<Miss> {
    let found = find(measured, &expected.name)?;
    let mut pairs = found.by_seed.iter().zip(&expected.by_seed);
    if pairs.all(|(&value, &expected)| is_within(value, expected, candidate.tolerance)) {
        return None;
    }
    let Candidate { name, reason, .. } = candidate;
    let what = format!("{name} differs from the expected figures, which were explained by: \"{reason}\"");
    let new_line = Some(figure_line(&expected.name, &found.by_seed));
    Some(Miss { what, line: expected.line, was: values(&expected.by_seed), new_line })
}

/// The line of a scenario that states a figure.
pub fn figure_line(name: &str, by_seed: &[u64]) -> String {
    let is_bare = |part: &str| part.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    let key = match name.rsplit_once('.') {
        Some((vm, figure)) if !is_bare(vm) => format!("{vm:?}.{figure}"),
        _ => name.to_owned(),
    };
    format!("{key} = {}", values(by_seed))
}

/// One value, or the list of those of several seeds, as TOML.
fn values(by_seed: &[u64]) -> String {
    match by_seed {
        [value] => value.to_string(),
        several => format!("{several:?}"),
    }
}

fn find<'a>(measured: &'a [Measured], name: &str) -> Option<&'a Measured> {
    measured.iter().find(|measured| measured.name == name)
}

fn of_scheduler<'a>(scenario: &Scenario, measured: &'a [Vec<Measured>], scheduler: &str) -> Option<&'a [Measured]> {
    let at = scenario.schedulers.iter().position(|candidate| candidate.name == scheduler)?;
    measured.get(at).map(Vec::as_slice)
}

/// What a bound came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    /// The figure, in its unit or in multiples of the other scheduler's; the mean over the seeds.
    pub value: f64,
    /// Whether it is within the limit.
    pub holds: bool,
}

impl Held {
    fn of(bound: &Bound, scenario: &Scenario, measured: &[Vec<Measured>]) -> Held {
        let figure = |scheduler: &str| find(of_scheduler(scenario, measured, scheduler)?, &bound.figure);
        let sum = |scheduler: &str| figure(scheduler).map_or(0, Measured::sum) as f64;
        let value = match &bound.of {
            Some(other) => sum(&bound.scheduler) / sum(other),
            None => figure(&bound.scheduler).map_or(0.0, Measured::mean),
        };
        // 0 of 0 is no number, and holds nowhere.
        let holds = match bound.limit {
            Limit::AtMost(most) => value <= most,
            Limit::AtLeast(least) => value >= least,
        };
        Held { value, holds }
    }

    fn miss(self, bound: &Bound) -> Option<Miss> {
        if self.holds {
            return None;
        }
        let places = if bound.of.is_some() { 1000.0 } else { 1.0 };
        let (key, was, limit) = match bound.limit {
            Limit::AtMost(most) => ("at_most", most, (self.value * places).ceil() / places),
            Limit::AtLeast(least) => ("at_least", least, (self.value * places).floor() / places),
        };
        let (says, is, reason) = (bound.says(), shown(self.value), &bound.reason);
        let what = format!("{says} does not hold: it is {is}. It was to hold because: \"{reason}\"");
        // A TOML float has a decimal point.
        let new_line = limit.is_finite().then(|| format!("{key} = {limit:?}"));
        Some(Miss { what, line: bound.line, was: format!("{was:?}"), new_line })
    }
}

impl Bound {
    /// The bound as a phrase.
    pub fn says(&self) -> String {
        let mut text = format!("{} of {} ", self.figure, self.scheduler);
        let (side, limit) = match self.limit {
            Limit::AtMost(most) => ("at most", most),
            Limit::AtLeast(least) => ("at least", least),
        };
        let _ = write!(text, "{side} {limit}");
        if let Some(other) = &self.of {
            let _ = write!(text, " of {other}'s");
        }
        text
    }
}

/// A bound's value with three decimals, or whole if it is large.
pub fn shown(value: f64) -> String {
    if value.abs() >= 1000.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}
