//! `--throttle`: the device stands for a modelled disk, and runs k times slower than it.

use std::str::FromStr;

use anyhow::{Context, Result, ensure};
use drive_models::Throttle;
use drive_models::throttle::{FoundScale, Procedure, Report, ThrottleScale, ThrottleSettings, find_k};
use replay::live::{DeviceDrive, LiveDevice, ServiceTimes, Throttled, broken_by_throttle};
use traces::results::live::{ThrottleFigures, ThrottleSearch, ThrottledService};
use traces::spec::{Spec, did_you_mean};

use crate::error::UsageError;

/// The model whose drives a throttle imitates: Geist et al. 2010 know the real disk as a line.
const MODEL: &str = "linear";

/// How fast a k that is looked for rises with a late completion, and the most runs that look for it. Devices pause now
/// and then for many times their usual service time, which takes more steps than the throttle's defaults have.
const FIND: (&str, u32) = ("k=1,k_min=1,raise=1.25", 6);
/// The most runs before the one that counts: those that look for k, and those in which it was too small.
const BEFORE_MAX: usize = 12;

/// How k comes about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KRule {
    /// It stays as given.
    Fixed(String),
    /// It begins at 1 and adapts while the replay is measured.
    Dynamic,
    /// Runs before the measured one find it.
    Find,
}

impl FromStr for KRule {
    type Err = UsageError;

    fn from_str(text: &str) -> Result<KRule, UsageError> {
        let rule = match text {
            "dynamic" => KRule::Dynamic,
            "find" => KRule::Find,
            number => KRule::Fixed(number.to_owned()),
        };
        rule.settings().map(|_| rule.clone()).map_err(|error| {
            let hint = did_you_mean(text, ["dynamic", "find"].into_iter());
            UsageError(format!("{error}; or dynamic, or find{hint}"))
        })
    }
}

impl KRule {
    fn settings(&self) -> Result<ThrottleSettings> {
        let tunables = match self {
            KRule::Fixed(k) => format!("k={k}"),
            // A k below 1 is for who asks for it: the device would run faster than the disk that it stands for.
            KRule::Dynamic => "k=1,k_min=1".to_owned(),
            KRule::Find => FIND.0.to_owned(),
        };
        let spec: Spec = format!("throttle:{tunables}").parse()?;
        let throttle = drive_models::build_throttle(&spec)?.context("the drive `throttle` is a throttle")?;
        Ok(throttle.settings().on_slowed_clock())
    }

    fn name(&self) -> &'static str {
        match self {
            KRule::Fixed(_) => "fixed",
            KRule::Dynamic => "dynamic",
            KRule::Find => "found",
        }
    }
}

/// A throttle before its first run.
#[derive(Clone, Debug)]
pub struct Throttling {
    drive: Spec,
    rule: KRule,
    settings: ThrottleSettings,
}

/// A device behind a throttle.
pub type ThrottledDevice = Throttle<DeviceDrive<Box<dyn LiveDevice>>>;

impl Throttling {
    /// Stands for `drive`, with a k by `rule`.
    ///
    /// # Errors
    /// An unknown drive, or one that is not a line over seek distance.
    pub fn new(drive: &str, rule: &KRule) -> Result<Throttling> {
        let drive: Spec = drive.parse().map_err(UsageError::from_display)?;
        let built = drive_models::build(&drive).map_err(UsageError::from_display)?;
        ensure!(
            built.model.name == MODEL,
            UsageError(format!(
                "--throttle {drive}: its model is {}; a throttle stands for a drive of the model {MODEL}, such as \
                 cheetah-15k4 or linear:a=4ms,b=5ms",
                built.model.name
            ))
        );
        let settings = rule.settings()?.of_line(&built.settings);
        Ok(Throttling { drive, rule: rule.clone(), settings })
    }

    /// The settings, for the provenance of a result.
    pub fn options(&self) -> [(String, String); 2] {
        let k = match &self.rule {
            KRule::Fixed(k) => k,
            KRule::Dynamic => "dynamic",
            KRule::Find => "find",
        };
        [("throttle".to_owned(), self.drive.without_folders().to_string()), ("k".to_owned(), k.to_owned())]
    }

    /// Lets `run` replay on the device of `open`: once, or several times if k is to be found. `run` is told whether the
    /// run is the measured one. If too many of its completions are late with a found k, it is made again with a larger
    /// one, if `gives_up` lets go of it.
    ///
    /// # Errors
    /// The first of `open`, `run` and `gives_up`.
    pub fn measure<T>(
        &self,
        mut open: impl FnMut() -> Result<Box<dyn LiveDevice>>,
        mut run: impl FnMut(Throttled<'_, Box<dyn LiveDevice>>, bool) -> Result<T>,
        mut gives_up: impl FnMut(&mut T) -> Result<bool>,
    ) -> Result<FoundScale<T>> {
        let mut disk = || open().map(DeviceDrive::new);
        if self.rule == KRule::Dynamic {
            let mut throttle = Throttle::new(disk()?, &self.settings.dynamic_from(self.settings.k));
            let measured = run(Throttled::new(&mut throttle), true)?;
            let report = throttle.into_report();
            return Ok(FoundScale { k: report.k, searches: Vec::new(), measured, report });
        }
        let runs = if self.rule == KRule::Find { FIND.1 } else { 0 };
        let mut run = |throttle: &mut ThrottledDevice| {
            let is_measured = !throttle.settings().dynamic;
            run(Throttled::new(throttle), is_measured)
        };
        let mut found = find_k(&self.settings, Procedure { runs, ..Procedure::default() }, &mut disk, &mut run)?;
        while self.rule == KRule::Find
            && found.searches.len() < BEFORE_MAX
            && broken_by_throttle(&found.report).is_some()
            && gives_up(&mut found.measured)?
        {
            let FoundScale { k, mut searches, report, .. } = found;
            searches.push(report);
            let larger = self.settings.raised_from(k);
            let again = find_k(&larger, Procedure { runs: 0, ..Procedure::default() }, &mut disk, &mut run)?;
            found = FoundScale { searches, ..again };
        }
        Ok(found)
    }

    /// The figures of a measured replay, and of the searches before it.
    pub fn figures(&self, report: &Report, searches: &[Report], times: [ServiceTimes; 2]) -> ThrottleFigures {
        let [all, stable] = times.map(service);
        ThrottleFigures {
            drive: self.drive.without_folders().to_string(),
            rule: self.rule.name().to_owned(),
            k: decimal(report.k),
            k_changes: report.changes.len() as u64 + report.forgotten,
            completions: report.completions,
            late_completions: report.late,
            late_max_ns: report.lateness_max,
            held_max: report.held_max,
            all,
            since_k_is_stable: stable,
            searches: searches.iter().map(search).collect(),
        }
    }
}

fn search(report: &Report) -> ThrottleSearch {
    let k = decimal(report.stable_k(Procedure::default().last));
    ThrottleSearch { k, completions: report.completions, late_completions: report.late }
}

fn decimal(k: ThrottleScale) -> f64 {
    k.millionths() as f64 / 1e6
}

fn service(times: ServiceTimes) -> ThrottledService {
    let mean = |sum: u128| (times.requests > 0).then(|| sum as f64 / times.requests as f64);
    ThrottledService {
        requests: times.requests,
        modelled_mean_ns: mean(times.modelled_ns),
        achieved_mean_ns: mean(times.achieved_ns),
    }
}
