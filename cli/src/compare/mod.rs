//! `iocast compare`: one replay per scheduler, side by side.

mod candidates;
mod guests;
mod layout;
mod load;
mod tables;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::{Context, Result, ensure};
use rayon::prelude::*;
use replay::host::Single;
use replay::overload::{Overload, Verdict};
use replay::sources::{Asap, Closed, Open, TimeWindow, TraceRead};
use replay::stack::Shares;
use replay::{DecisionLog, Ended, Engine, Host, Metrics, Source, Stage};
use traces::results::stack::VmSeriesWriter;
use traces::results::{Comparison, Fairness, Part, Provenance, Run, SCHEMA_VERSION, Status};
use traces::spec::{Settings, Spec};
use traces::trace::ReadOptions;

use candidates::{Candidate, Column};
use load::{Advance, Load, Requests};

use crate::arguments::{Compare, Pacing};
use crate::error::UsageError;
use crate::output;
use crate::output_format::OutputFormat;

/// What all replays of a comparison have in common.
struct Setup<'a> {
    arguments: &'a Compare,
    drive: Spec,
    load: Load,
    options: ReadOptions,
    window: TimeWindow,
}

type Log = DecisionLog<BufWriter<File>>;

/// What watches each replay.
type Watching = ((Metrics, Overload), ((Option<Log>, Option<Shares>), Option<Advance>));

/// A replay that is about to begin.
struct Start<'a> {
    part: Part,
    requests: Requests<'a>,
    observer: Watching,
}

/// One finished replay.
struct Replayed {
    run: Run,
    read: Vec<TraceRead>,
    fairness: Option<Fairness>,
}

pub fn run(arguments: &Compare) -> Result<()> {
    let candidates = candidates::of(arguments)?;
    let baseline = candidates::baseline(arguments.baseline.as_deref(), &candidates)?;
    let drive: Spec = arguments.drive.parse().map_err(UsageError::from_display)?;
    let built = drive_models::build(&drive).map_err(UsageError::from_display)?;
    let (options, window) = (arguments.reading.options(), arguments.window.checked()?);
    let load = Load::gather(arguments, &options, window, built.drive.capacity())?;
    for folder in [&arguments.decision_log, &arguments.stack.series].into_iter().flatten() {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let setup = Setup { arguments, drive, load, options, window };
    let replayed = setup.replay_all(&candidates)?;
    let requests = |run: &Run| run.all.requests + run.other.requests;
    ensure!(replayed.iter().all(|replayed| requests(&replayed.run) > 0), setup.load.nothing());
    let comparison = setup.compare(replayed, &built, baseline)?;
    for warning in &comparison.provenance.warnings {
        eprintln!("iocast: warning: {warning}");
    }
    match arguments.output_format {
        OutputFormat::Json => output::print_json(&comparison),
        format => output::print(&tables::render(&comparison, format)),
    }
}

impl Setup<'_> {
    /// All replays, several at a time. Their order and their bytes do not depend on how many.
    fn replay_all(&self, candidates: &[Candidate]) -> Result<Vec<Replayed>> {
        let progress = self.load.progress(candidates.len());
        let replays = candidates.par_iter().enumerate();
        replays.map(|(index, candidate)| self.replay(index, candidate, progress.counter(index))).collect()
    }

    fn replay(&self, index: usize, candidate: &Candidate, progress: Arc<AtomicU64>) -> Result<Replayed> {
        let part = candidate.part()?;
        let drive = drive_models::build(&self.drive)?.drive;
        let (requests, advance) = self.load.open(&self.options, self.window, drive.capacity(), progress)?;
        let (log, shares) = (self.decision_log(index, candidate)?, self.shares(index, candidate)?);
        let metrics = (Metrics::new(self.arguments.per_vm), Overload::default());
        let start = Start { part, requests, observer: (metrics, ((log, shares), advance)) };
        match &candidate.column {
            Column::Scheduler(spec) => {
                let scheduler = schedulers::build(spec).map_err(UsageError::from_display)?.scheduler;
                let stage = Stage::new(scheduler, self.arguments.stage.limits());
                Ok(self.replay_on(Single::new(stage, drive), start)?.0)
            }
            Column::Stack { stack, layer, .. } => {
                let (mut replayed, built) = self.replay_on(stack.build(drive).watching(*layer), start)?;
                replayed.run.stack = Some(stack.figures(&built, replayed.fairness.unwrap_or_default()));
                Ok(replayed)
            }
        }
    }

    /// Replays on any host, and gives it back.
    fn replay_on<H: Host>(&self, host: H, start: Start) -> Result<(Replayed, H)> {
        let Start { part, requests, observer } = start;
        let max_queue = self.arguments.stage.max_queue as usize;
        let workload = match requests {
            Requests::Traces(workload) => workload,
            Requests::Generated(generated, source) => {
                let ended = Engine::on(*source, host, observer).max_outstanding(max_queue).run()?;
                let notes = generated.notes(&ended.source);
                let (mut replayed, host) = self.finish(part, ended, |_| Vec::new())?;
                replayed.run.notes.extend(notes);
                return Ok((replayed, host));
            }
        };
        match self.arguments.pacing {
            Pacing::Recorded => {
                let engine = Engine::on(Open::recorded(workload), host, observer).max_outstanding(max_queue);
                self.finish(part, engine.run()?, |source| source.workload().read())
            }
            Pacing::Scaled(factor) => {
                let engine = Engine::on(Open::scaled(workload, factor), host, observer).max_outstanding(max_queue);
                self.finish(part, engine.run()?, |source| source.workload().read())
            }
            Pacing::Asap(outstanding) => {
                let engine = Engine::on(Asap::new(workload, outstanding), host, observer).max_outstanding(max_queue);
                self.finish(part, engine.run()?, |source| source.workload().read())
            }
            Pacing::Closed => {
                let ended = Engine::on(Closed::new(workload), host, observer).max_outstanding(max_queue).run()?;
                let (late, incomplete) = (ended.source.late(), ended.source.incomplete());
                let held_back = ended.outcome.held_back;
                let (mut replayed, host) = self.finish(part, ended, |source| source.workload().read())?;
                replayed.run.notes.extend(closed_notes(if held_back { 0 } else { late }, incomplete));
                Ok((replayed, host))
            }
        }
    }

    fn decision_log(&self, index: usize, candidate: &Candidate) -> Result<Option<Log>> {
        let Some(folder) = &self.arguments.decision_log else { return Ok(None) };
        let path = folder.join(format!("{}.tsv", candidate.file_stem(index)));
        let file = File::create(&path).with_context(|| path.display().to_string())?;
        Ok(Some(DecisionLog::new(BufWriter::new(file))))
    }

    /// Who is served how much, if anybody wants to know, with its file if there is to be one.
    fn shares(&self, index: usize, candidate: &Candidate) -> Result<Option<Shares>> {
        let stack = &self.arguments.stack;
        if !stack.watches_shares() {
            return Ok(None);
        }
        let create = |folder: &PathBuf| {
            let path = folder.join(format!("{}.parquet", candidate.file_stem(index)));
            VmSeriesWriter::create(&path, stack.interval)
        };
        Ok(Some(Shares::new(stack.interval, stack.series.as_ref().map(create).transpose()?)))
    }

    fn finish<S: Source, H>(
        &self,
        scheduler: Part,
        ended: Ended<S, Watching, H>,
        read: fn(&S) -> Vec<TraceRead>,
    ) -> Result<(Replayed, H)> {
        let Ended { outcome, source, observer: ((metrics, overload), ((log, shares), _)), host } = ended;
        if let Some(log) = log {
            log.finish().with_context(|| format!("the decision log of {}", scheduler.name))?;
        }
        let fairness = shares.map(Shares::finish).transpose()?;
        let verdict = overload.verdict();
        let open = matches!(self.load, Load::Traces(_))
            && matches!(self.arguments.pacing, Pacing::Recorded | Pacing::Scaled(_));
        let status = match why_overloaded(verdict, outcome.held_back) {
            Some(reason) if open => Status::Overloaded { reason, remedy: REMEDY.to_owned() },
            _ => Status::Comparable,
        };
        let mut run = metrics.run(scheduler, status, &self.load.names());
        run.offered_load = verdict.offered_load.filter(|_| open);
        if !open && outcome.held_back {
            run.notes.push(format!("arrivals were held back by --max-queue {}", self.arguments.stage.max_queue));
        }
        Ok((Replayed { run, read: read(&source), fairness }, host))
    }

    fn compare(
        &self,
        replayed: Vec<Replayed>,
        drive: &drive_models::Built,
        baseline: Option<String>,
    ) -> Result<Comparison> {
        let read = replayed.first().map_or(&[][..], |replayed| &replayed.read);
        let (traces, workloads) = match &self.load {
            Load::Traces(vms) => (vms.iter().zip(read).map(|(vm, read)| vm.provenance(read)).collect(), Vec::new()),
            Load::Generated(generated) => (Vec::new(), generated.provenance()?),
        };
        let mut warnings = self.load.warnings();
        warnings.extend(trace_warnings(&traces));
        let provenance = Provenance {
            program: traces::program_version(),
            warnings,
            traces,
            workloads,
            drive: drive_part(drive),
            options: self.effective_options(),
        };
        let mut runs: Vec<Run> = replayed.into_iter().map(|replayed| replayed.run).collect();
        if let Some(base) = runs.iter().find(|run| Some(&run.scheduler.name) == baseline.as_ref()).cloned() {
            for run in &mut runs {
                run.ratio = replay::figures::ratio(run, &base);
            }
        }
        Ok(Comparison { schema_version: SCHEMA_VERSION, provenance, baseline, runs })
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
        let mut options: BTreeMap<String, String> = [
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
        .into();
        if !self.arguments.stack.stacks.is_empty() {
            // A room's layers have these each for themselves.
            options.retain(|name, _| !OF_ONE_STAGE.contains(&name.as_str()));
            options.insert("interval".to_owned(), self.arguments.stack.interval.to_string());
        }
        if let Load::Generated(_) = self.load {
            options.retain(|name, _| !OF_TRACES.contains(&name.as_str()));
            options.insert("seed".to_owned(), self.arguments.generated.seed.to_string());
        }
        options
    }
}

/// The options of the one stage there is without a stack.
const OF_ONE_STAGE: &[&str] = &["max_segments", "depth", "write_depth", "look_ahead", "merge", "max_request_sectors"];

/// The options that only traces have.
const OF_TRACES: &[&str] = &["pacing", "map", "arrivals", "from", "lenient"];

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
