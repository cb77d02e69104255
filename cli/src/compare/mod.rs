//! `iocast compare`: one replay per scheduler, side by side.

mod tables;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::{Context, Result, ensure};
use rayon::prelude::*;
use replay::overload::{Overload, Verdict};
use replay::sources::{Asap, Closed, Open, TimeWindow, TraceRead, Workload};
use replay::{DecisionLog, Ended, Engine, Metrics, Source, Stage};
use traces::results::{Comparison, Part, Provenance, Run, SCHEMA_VERSION, Status};
use traces::spec::{Settings, Spec, parse_list};
use traces::trace::ReadOptions;

use crate::arguments::{Compare, OutputFormat, Pacing, UsageError};
use crate::output;
use crate::progress::Progress;
use crate::vms::{self, Vm};

/// What all replays of a comparison have in common.
struct Setup<'a> {
    arguments: &'a Compare,
    drive: Spec,
    vms: Vec<Vm>,
    options: ReadOptions,
    window: TimeWindow,
}

type Log = DecisionLog<BufWriter<File>>;

/// What watches each replay.
type Watching = ((Metrics, Overload), Option<Log>);

/// A scheduler to be replayed, and what it is called in the results: its name, or all that was given
/// where the same name is there twice.
struct Candidate {
    label: String,
    spec: Spec,
}

/// One finished replay.
struct Replayed {
    run: Run,
    read: Vec<TraceRead>,
}

pub fn run(arguments: &Compare) -> Result<()> {
    let schedulers = schedulers(&arguments.schedulers)?;
    let baseline = baseline(arguments.baseline.as_deref(), &schedulers)?;
    let drive: Spec = arguments.drive.parse().map_err(UsageError::from_display)?;
    let built = drive_models::build(&drive).map_err(UsageError::from_display)?;
    let (options, window) = (arguments.reading.options(), arguments.window.checked()?);
    let mapping = arguments.map.mapping();
    let capacity = built.drive.capacity();
    let vms = vms::gather(&arguments.traces, &arguments.vms, &options, mapping, window, capacity)?;
    if let Some(folder) = &arguments.decision_log {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let warnings = vms::overlaps(&vms);
    let setup = Setup { arguments, drive, vms, options, window };
    let replayed = setup.replay_all(&schedulers)?;
    ensure!(
        replayed.iter().all(|replayed| replayed.read.iter().any(|read| read.requests > 0)),
        "no request lies in the window that --from, --to and --limit leave"
    );
    let comparison = setup.compare(replayed, &built, baseline, warnings);
    for warning in &comparison.provenance.warnings {
        eprintln!("iocast: warning: {warning}");
    }
    match arguments.output_format {
        OutputFormat::Json => output::print_json(&comparison),
        format => output::print(&tables::render(&comparison, format)),
    }
}

fn schedulers(list: &str) -> Result<Vec<Candidate>> {
    let specs = if list == "all" {
        let spec = |entry: &schedulers::Entry| Spec { name: entry.name.to_owned(), given: Vec::new() };
        schedulers::SCHEDULERS.iter().map(spec).collect()
    } else {
        parse_list(list).map_err(UsageError::from_display)?
    };
    let mut candidates: Vec<Candidate> = Vec::new();
    for spec in &specs {
        // Built once here, so that a wrong name or tunable is said before anything is read.
        schedulers::build(spec).map_err(UsageError::from_display)?;
        let shared = specs.iter().filter(|other| other.name == spec.name).count() > 1;
        let label = if shared { spec.to_string() } else { spec.name.clone() };
        ensure!(
            candidates.iter().all(|candidate| candidate.label != label),
            UsageError(format!("scheduler `{label}` is named twice"))
        );
        candidates.push(Candidate { label, spec: spec.clone() });
    }
    Ok(candidates)
}

/// The label of the scheduler that the others are set against.
fn baseline(given: Option<&str>, candidates: &[Candidate]) -> Result<Option<String>> {
    let find =
        |name: &str| candidates.iter().find(|candidate| candidate.label == name || candidate.spec.to_string() == name);
    let Some(name) = given else { return Ok(find("deadline").map(|candidate| candidate.label.clone())) };
    let labels: Vec<&str> = candidates.iter().map(|candidate| candidate.label.as_str()).collect();
    let unknown =
        || UsageError(format!("the baseline `{name}` is none of the schedulers compared: {}", labels.join(", ")));
    Ok(Some(find(name).ok_or_else(unknown)?.label.clone()))
}

impl Setup<'_> {
    /// All replays, several at a time. Their order and their bytes do not depend on how many.
    fn replay_all(&self, schedulers: &[Candidate]) -> Result<Vec<Replayed>> {
        let bytes: u64 = self.vms.iter().map(|vm| vm.bytes).sum();
        let progress = Progress::new("replaying", bytes * schedulers.len() as u64, schedulers.len());
        let replays = schedulers.par_iter().enumerate();
        replays.map(|(index, candidate)| self.replay(index, candidate, progress.counter(index))).collect()
    }

    fn replay(&self, index: usize, candidate: &Candidate, progress: Arc<AtomicU64>) -> Result<Replayed> {
        let scheduler = schedulers::build(&candidate.spec).map_err(UsageError::from_display)?;
        let part = part(&candidate.label, scheduler.entry.name, &scheduler.settings);
        let stage = Stage::new(scheduler.scheduler, self.arguments.stage.limits());
        let drive = drive_models::build(&self.drive)?.drive;
        let traces = self.vms.iter().map(|vm| vm.open(&self.options)).collect::<Result<_>>()?;
        let workload = Workload::new(traces, self.window, drive.capacity()).with_progress(progress);
        let log = self.decision_log(index, &candidate.spec.name)?;
        let observer = ((Metrics::new(self.arguments.per_vm), Overload::default()), log);
        let max_queue = self.arguments.stage.max_queue as usize;
        match self.arguments.pacing {
            Pacing::Recorded => {
                let ended = Engine::new(Open::recorded(workload), stage, drive, observer).max_outstanding(max_queue);
                self.finish(part, ended.run()?, Open::workload)
            }
            Pacing::Scaled(factor) => {
                let source = Open::scaled(workload, factor);
                let ended = Engine::new(source, stage, drive, observer).max_outstanding(max_queue);
                self.finish(part, ended.run()?, Open::workload)
            }
            Pacing::Asap(outstanding) => {
                let source = Asap::new(workload, outstanding);
                let ended = Engine::new(source, stage, drive, observer).max_outstanding(max_queue);
                self.finish(part, ended.run()?, Asap::workload)
            }
            Pacing::Closed => {
                let ended =
                    Engine::new(Closed::new(workload), stage, drive, observer).max_outstanding(max_queue).run()?;
                let (late, incomplete) = (ended.source.late(), ended.source.incomplete());
                let held_back = ended.outcome.held_back;
                let mut replayed = self.finish(part, ended, Closed::workload)?;
                replayed.run.notes.extend(closed_notes(if held_back { 0 } else { late }, incomplete));
                Ok(replayed)
            }
        }
    }

    fn decision_log(&self, index: usize, scheduler: &str) -> Result<Option<Log>> {
        let Some(folder) = &self.arguments.decision_log else { return Ok(None) };
        let path = folder.join(format!("{index}-{scheduler}.tsv"));
        let file = File::create(&path).with_context(|| path.display().to_string())?;
        Ok(Some(DecisionLog::new(BufWriter::new(file))))
    }

    fn finish<S: Source>(
        &self,
        scheduler: Part,
        ended: Ended<S, Watching>,
        workload: fn(&S) -> &Workload,
    ) -> Result<Replayed> {
        let Ended { outcome, source, observer: ((metrics, overload), log) } = ended;
        if let Some(log) = log {
            log.finish().with_context(|| format!("the decision log of {}", scheduler.name))?;
        }
        let verdict = overload.verdict();
        let open = matches!(self.arguments.pacing, Pacing::Recorded | Pacing::Scaled(_));
        let status = match why_overloaded(verdict, outcome.held_back) {
            Some(reason) if open => Status::Overloaded { reason, remedy: REMEDY.to_owned() },
            _ => Status::Comparable,
        };
        let names: Vec<String> = self.vms.iter().map(|vm| vm.name.clone()).collect();
        let mut run = metrics.run(scheduler, status, &names);
        run.offered_load = verdict.offered_load.filter(|_| open);
        if !open && outcome.held_back {
            run.notes.push(format!("arrivals were held back by --max-queue {}", self.arguments.stage.max_queue));
        }
        Ok(Replayed { run, read: workload(&source).read() })
    }

    fn compare(
        &self,
        replayed: Vec<Replayed>,
        drive: &drive_models::Built,
        baseline: Option<String>,
        mut warnings: Vec<String>,
    ) -> Comparison {
        let read = replayed.first().map_or(&[][..], |replayed| &replayed.read);
        let traces: Vec<_> = self.vms.iter().zip(read).map(|(vm, read)| vm.provenance(read)).collect();
        warnings.extend(trace_warnings(&traces));
        let provenance = Provenance {
            program: format!("iocast {}", env!("CARGO_PKG_VERSION")),
            warnings,
            traces,
            drive: drive_part(drive),
            options: self.effective_options(),
        };
        let mut runs: Vec<Run> = replayed.into_iter().map(|replayed| replayed.run).collect();
        if let Some(base) = runs.iter().find(|run| Some(&run.scheduler.name) == baseline.as_ref()).cloned() {
            for run in &mut runs {
                run.ratio = replay::figures::ratio(run, &base);
            }
        }
        Comparison { schema_version: SCHEMA_VERSION, provenance, baseline, runs }
    }

    fn effective_options(&self) -> BTreeMap<String, String> {
        let Compare { stage, reading, pacing, .. } = self.arguments;
        let limits = stage.limits();
        let pacing = match pacing {
            Pacing::Recorded => "recorded".to_owned(),
            Pacing::Scaled(f) => format!("scaled={}/{}", f.numerator, f.denominator),
            Pacing::Asap(outstanding) => format!("asap={outstanding}"),
            Pacing::Closed => "closed".to_owned(),
        };
        let or_all = |value: Option<String>| value.unwrap_or_else(|| "all".to_owned());
        [
            ("pacing", pacing),
            ("map", self.arguments.map.to_string()),
            ("max_segments", limits.max_segments.to_string()),
            ("arrivals", format!("{:?}", reading.at).to_lowercase()),
            ("from", self.window.from.to_string()),
            ("to", or_all(self.window.to.map(|to| to.to_string()))),
            ("limit", or_all(self.window.limit.map(|limit| limit.to_string()))),
            ("lenient", reading.lenient.to_string()),
            ("depth", limits.depth.to_string()),
            ("write_depth", limits.write_depth.min(limits.depth).to_string()),
            ("look_ahead", u8::from(limits.look_ahead).to_string()),
            ("merge", if limits.merge { "on" } else { "off" }.to_owned()),
            ("max_request_sectors", limits.max_sectors.to_string()),
            ("max_queue", stage.max_queue.to_string()),
            ("seed", "none: nothing is random".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
}

const REMEDY: &str = "replay closed (--pacing closed), slow the arrivals down (--pacing scaled=F), \
                      or choose a faster drive";

/// Why an open loop's figures may not be compared, if they may not.
fn why_overloaded(verdict: Verdict, held_back: bool) -> Option<String> {
    let load = verdict.offered_load.unwrap_or(0.0);
    let reasons = [
        (load >= 1.0, format!("the offered load is {load:.2}")),
        (verdict.growing, "the backlog kept growing".to_owned()),
        (held_back, "arrivals were held back by --max-queue".to_owned()),
    ];
    let said: Vec<String> = reasons.into_iter().filter_map(|(holds, reason)| holds.then_some(reason)).collect();
    (!said.is_empty()).then(|| said.join(", "))
}

/// What a reader of a closed replay's figures should know.
fn closed_notes(late: u64, (incomplete, requests): (u64, u64)) -> Vec<String> {
    let mut notes = Vec::new();
    if late > 0 {
        notes.push(format!(
            "{late} arrivals came later than their think time, as their stream had drifted more than {} requests from \
             the others",
            replay::sources::closed::BUFFERED_MAX
        ));
    }
    // A few are always outstanding when a capture ends.
    if incomplete * 100 > requests {
        notes.push(format!(
            "{incomplete} of {requests} requests have no completion time: nobody is taken to have waited for them, so \
             this replay is more open than closed"
        ));
    }
    notes
}

fn part(name: &str, model: &str, settings: &Settings) -> Part {
    let settings = settings.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Part { name: name.to_owned(), model: model.to_owned(), settings }
}

/// The drive with its tunables and what it is made of, if it is made of drives.
fn drive_part(drive: &drive_models::Built) -> Part {
    let mut part = part(&drive.name, drive.model.name, &drive.settings);
    let parts = drive.description.named_parts();
    part.settings.extend(parts.iter().map(|(name, spec, _)| ((*name).to_owned(), spec.to_string())));
    part
}

fn trace_warnings(traces: &[traces::results::TraceProvenance]) -> Vec<String> {
    let mut warnings = Vec::new();
    for trace in traces {
        let path = Path::new(&trace.path).display();
        if let Some(who) = trace.layer.ordered_by() {
            warnings.push(format!(
                "{path} was taken at layer {}: {who} has already ordered and merged these requests, so a scheduler \
                 replayed on them has less to choose from than the real one had",
                trace.layer
            ));
        }
        if trace.losses.total() > 0 {
            warnings.push(format!(
                "{path}: {} events were lost by the capture and {} records were skipped",
                trace.losses.lost_events,
                trace.losses.total() - trace.losses.lost_events
            ));
        }
    }
    warnings
}
