//! `iocast compare`: replays traces or runs guests once per scheduler or stack, and compares the figures.

pub mod answer;
mod candidates;
mod details;
mod load;
mod observers;
pub mod one;
pub mod options;
mod per_request;
pub mod picture;
mod rules;
mod source;
pub mod tables;
mod together;
mod watch;
mod workloads;

use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::{Context, Result, ensure};
use drive_models::BuiltDrive;
use rayon::prelude::*;
use replay::host::Single;
use replay::overload::Overload;
use replay::rotational::asks_rotation;
use replay::sources::{ReplaySource, TimeWindow, TraceRead};
use replay::stack::Shares;
use replay::{
    DecisionLog, Ended, Engine, HistoryRecorder, Host, Limits, Metrics, ReplayError, RequestRows, Stage, figures,
};
use schedulers::Registry;
use schedulers::Scheduler as _;
use schedulers::plugin::{keep, leave_kept};
use traces::results::requests::WrittenPart;
use traces::results::stack::VmSeriesWriter;
use traces::results::{Comparison, Fairness, Part, Provenance, Run, SCHEMA_VERSION, Status};
use traces::shared::SharedReader;
use traces::spec::{Settings, Spec};
use traces::trace::ReadOptions;
use traces::whole_file::WholeFile;

use candidates::Candidate;
use load::Load;
use observers::{Log, Observers};
use per_request::PerRequest;
use tables::More;
use together::replay_together;
use watch::{Watch, Watched};

use crate::arguments::Compare;
use crate::error::UsageError;
use crate::files::refuse_existing;
use crate::interrupts::remove_unfinished_outputs;
use crate::output;
use crate::output_format::OutputFormat;
use crate::picture::PictureFiles;
use crate::progress::Progress;
use crate::report::page;
use crate::scheduling::Scheduling;

/// The bound by which arrivals are held back.
pub const MAX_QUEUE: &str = "--max-queue";

/// The settings that all replays on one drive share.
struct Setup<'a> {
    arguments: &'a Compare,
    drive: Spec,
    /// The drive as the result describes it.
    part: Part,
    load: Load,
    options: ReadOptions,
    window: TimeWindow,
    /// The limits of its stage, if there is no stack.
    limits: Limits,
}

/// A replay that is about to begin.
struct Start<'a> {
    part: Part,
    source: Box<dyn ReplaySource + 'a>,
    observers: Observers,
}

/// One finished replay.
struct Replayed {
    run: Run,
    read: Vec<TraceRead>,
    fairness: Option<Fairness>,
    /// Its rows of the table of requests.
    rows: Option<WrittenPart>,
    /// What was measured.
    metrics: Metrics,
}

pub fn run(arguments: &Compare) -> Result<()> {
    let drives: Vec<Spec> = arguments
        .drives
        .iter()
        .map(|drive| drive.parse().map_err(UsageError::from_display))
        .collect::<Result<_, _>>()?;
    let candidates = candidates::of(arguments, &drives)?;
    let baseline = candidates::baseline(arguments.baseline.as_deref(), &candidates)?;
    let setups: Vec<Setup<'_>> = drives.into_iter().map(|drive| Setup::new(arguments, drive)).collect::<Result<_>>()?;
    create_folders(arguments, &candidates)?;
    if arguments.stack.series.is_some()
        || arguments.report.is_written()
        || arguments.per_request.is_some()
        || arguments.watch
    {
        remove_unfinished_outputs()?;
    }
    let files = PictureFiles::planned(&arguments.picture)?;
    let report = arguments.report.planned(arguments.picture.force)?;
    let Setup { load, options, window, .. } = &setups[0];
    let per_request = PerRequest::planned(arguments, load, options, *window)?;
    let mut replayed = replay_all(&setups, &candidates, per_request.as_ref())?;
    let requests = |run: &Run| run.all.requests + run.other.requests;
    ensure!(replayed.iter().all(|replayed| requests(&replayed.run) > 0), setups[0].load.nothing(setups[0].window));
    if let Some(table) = per_request {
        table.join(replayed.iter_mut().filter_map(|replayed| replayed.rows.take()))?;
    }
    let mut comparison = compare(&setups, replayed, baseline)?;
    for warning in &comparison.provenance.warnings {
        eprintln!("iocast: warning: {warning}");
    }
    let stacks = candidates::stacks(arguments)?;
    let mut written = files_of_replays(arguments, &candidates);
    if let Some(files) = files {
        picture::write(&comparison, &stacks, &files, &mut written)?;
    }
    report.write(|| Ok(page(&comparison)), &mut written)?;
    if !arguments.history {
        comparison.runs.iter_mut().for_each(|run| run.history = None);
    }
    match arguments.output_format {
        OutputFormat::Json => output::print_json(&comparison),
        format => {
            let more = More { details: arguments.details, rules: arguments.mechanisms };
            let text = tables::render(&comparison, &stacks, format, more);
            output::print(&format!("{text}{}", output::written(&written, format)))
        }
    }
}

/// The folders that the command line names for files of each replay, with their endings and what to give instead if such
/// a file exists.
fn folders(arguments: &Compare) -> impl Iterator<Item = (&PathBuf, &'static str, &'static str)> {
    [
        (&arguments.decision_log, LOG_ENDING, "another --decision-log"),
        (&arguments.stack.series, SERIES_ENDING, "another --series"),
    ]
    .into_iter()
    .filter_map(|(folder, ending, alternative)| Some((folder.as_ref()?, ending, alternative)))
}

/// The paths of the files with this `ending` that the replays write into `folder`.
fn paths<'a>(
    candidates: &'a [Candidate],
    folder: &'a Path,
    ending: &'a str,
) -> impl Iterator<Item = PathBuf> + use<'a> {
    candidates.iter().enumerate().map(move |(index, candidate)| candidate.file(folder, index, ending))
}

/// The names of the files that the replays wrote.
fn files_of_replays(arguments: &Compare, candidates: &[Candidate]) -> Vec<String> {
    let each = folders(arguments).flat_map(|(folder, ending, _)| paths(candidates, folder, ending));
    arguments.per_request.iter().cloned().chain(each).map(|path| path.display().to_string()).collect()
}

/// Creates the folders of the files that each replay writes, in which no such file may lie without `--force`.
fn create_folders(arguments: &Compare, candidates: &[Candidate]) -> Result<()> {
    for (folder, ending, alternative) in folders(arguments) {
        let is_other = folder.exists() && !folder.is_dir();
        ensure!(!is_other, UsageError(format!("{} is no folder; it gets a file per column", folder.display())));
        if !arguments.picture.force {
            refuse_existing(&paths(candidates, folder, ending).collect::<Vec<PathBuf>>(), alternative)?;
        }
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    Ok(())
}

/// Runs all replays, several at a time. The number of threads changes neither their order nor their bytes. Schedulers
/// of libraries run last, so that the others' runs are there if one crashes.
fn replay_all(
    setups: &[Setup<'_>],
    candidates: &[Candidate],
    per_request: Option<&PerRequest>,
) -> Result<Vec<Replayed>> {
    let is_watched = setups[0].arguments.watch;
    let load = &setups[0].load;
    let progress = if is_watched { Progress::unseen(candidates.len()) } else { load.progress(candidates.len()) };
    let watch = is_watched.then(|| Watch::begin(replays(setups, candidates, &progress))).transpose()?;
    let replay = |&(index, of): &(usize, &Candidate), readers: Option<Vec<SharedReader>>| {
        let watched = watch.as_ref().map(|watch| watch.observer(index));
        let progress = progress.counter(index);
        Ok((index, setups[of.drive].replay(index, of, per_request, progress, readers, watched)?))
    };
    let (of_libraries, ours): (Vec<_>, Vec<_>) = candidates.iter().enumerate().partition(|(_, of)| of.is_in_library());
    let mut replayed: Vec<(usize, Replayed)> = match setups[0].reads_whole_traces() && ours.len() > 1 {
        true => replay_together(&setups[0], &ours, &replay)?,
        false => ours.par_iter().map(|of| replay(of, None)).collect::<Result<_>>()?,
    };
    if !of_libraries.is_empty() {
        for (_, replayed) in &replayed {
            keep(serde_json::to_vec(&replayed.run)?);
        }
        let replay_and_keep = |of: &(usize, &Candidate)| {
            let (index, replayed) = replay(of, None)?;
            keep(serde_json::to_vec(&replayed.run)?);
            Ok((index, replayed))
        };
        let others: Result<Vec<(usize, Replayed)>> = of_libraries.par_iter().map(replay_and_keep).collect();
        replayed.extend(others.inspect_err(|_| leave_kept())?);
    }
    replayed.sort_by_key(|(index, _)| *index);
    Ok(replayed.into_iter().map(|(_, replayed)| replayed).collect())
}

/// The replays, as they are watched.
fn replays(setups: &[Setup<'_>], candidates: &[Candidate], progress: &Progress) -> watch::Replays {
    let load = &setups[0].load;
    let drives: Vec<&str> = setups.iter().map(|setup| setup.part.name.as_str()).collect();
    let replay = |(index, of): (usize, &Candidate)| watch::Replay {
        name: if drives.len() > 1 { format!("{} on {}", of.label, drives[of.drive]) } else { of.label.clone() },
        done: progress.counter(index),
    };
    watch::Replays {
        what: format!("{} on {}", load.names().join(", "), drives.join(", ")),
        whole: load.whole(),
        vms: load.names(),
        replays: candidates.iter().enumerate().map(replay).collect(),
    }
}

/// The result of all replays.
fn compare(setups: &[Setup<'_>], replayed: Vec<Replayed>, baseline: Option<String>) -> Result<Comparison> {
    let read = replayed.first().map_or(&[][..], |replayed| &replayed.read);
    let (traces, workloads) = match &setups[0].load {
        Load::Traces(vms) => (vms.iter().zip(read).map(|(vm, read)| vm.provenance(read)).collect(), Vec::new()),
        Load::Generated(generated) => (Vec::new(), generated.provenance()?),
    };
    let mut warnings: Vec<String> = Vec::new();
    for warning in setups.iter().flat_map(|setup| setup.load.warnings()).chain(trace_warnings(&traces)) {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    let provenance = Provenance {
        program: traces::program_version(),
        warnings,
        traces,
        workloads,
        drives: setups.iter().map(|setup| setup.part.clone()).collect(),
        options: options::of_all(setups),
    };
    let mut runs: Vec<Run> = replayed.into_iter().map(|replayed| replayed.run).collect();
    if let Some(base) = runs.iter().find(|run| Some(&run.scheduler.name) == baseline.as_ref()).cloned() {
        for run in &mut runs {
            run.ratio = figures::ratio(run, &base);
        }
    }
    Ok(Comparison { schema_version: SCHEMA_VERSION, provenance, baseline, runs })
}

impl<'a> Setup<'a> {
    /// The settings of all replays on `drive`.
    fn new(arguments: &'a Compare, drive: Spec) -> Result<Setup<'a>> {
        let built = drive_models::build(&drive).map_err(UsageError::from_display)?;
        let (options, window) = (arguments.replaying.reading.options(), arguments.replaying.window.checked()?);
        let load = Load::gather(arguments, &options, window, built.drive.capacity())?;
        let part = Part { name: drive.without_folders().to_string(), ..drive_part(&built) };
        let limits = arguments.replaying.stage.limits(built.queue_depth());
        Ok(Setup { arguments, drive, part, load, options, window, limits })
    }

    /// Whether every replay reads its traces to their ends. Else what is known of a trace depends on how far it is read.
    fn reads_whole_traces(&self) -> bool {
        matches!(self.load, Load::Traces(_)) && self.window.to.is_none() && self.window.limit.is_none()
    }

    fn replay(
        &self,
        index: usize,
        candidate: &Candidate,
        per_request: Option<&PerRequest>,
        progress: Arc<AtomicU64>,
        readers: Option<Vec<SharedReader>>,
        watched: Option<Watched>,
    ) -> Result<Replayed> {
        let part = candidate.part()?;
        let BuiltDrive { drive, model, .. } = drive_models::build(&self.drive)?;
        let pacing = self.arguments.replaying.pacing;
        let (source, advance) =
            self.load.open(pacing, &self.options, self.window, drive.capacity(), progress, readers)?;
        let folder = self.arguments.decision_log.as_deref().unwrap_or(Path::new("."));
        let log_path = candidate.file(folder, index, LOG_ENDING);
        let observers = Observers {
            metrics: self.metrics(),
            overload: Overload::default(),
            log: self.decision_log(&log_path)?,
            log_path,
            shares: self.shares(index, candidate)?,
            history: (self.arguments.history || self.arguments.report.is_written()).then(HistoryRecorder::default),
            rows: per_request.map(|table| table.rows(self.arguments, &part.name, &self.part.name)).transpose()?,
            watched,
            advance,
        };
        let start = Start { part, source, observers };
        match &candidate.scheduling {
            Scheduling::Stage { scheduler, limits } => {
                let built = schedulers::build(scheduler).map_err(UsageError::from_display)?;
                let is_set_for_ssds =
                    asks_rotation(scheduler, &Registry::builtin()) && !built.settings.switch("rotational");
                let host = Single::new(Stage::new(built.scheduler, *limits), drive);
                let (mut replayed, host) = self.replay_on(host, start)?;
                replayed.run.rules = figures::rules(built.entry.rules, [host.stage().scheduler().sent_by_rule()]);
                if is_set_for_ssds && model.is_rotational {
                    replayed.run.notes.push(SET_FOR_SSDS.to_owned());
                }
                Ok(replayed)
            }
            Scheduling::Stack(stack) => {
                let (mut replayed, built) = self.replay_on(stack.build(drive).watching(candidate.layer), start)?;
                let figures = stack.figures(&built, replayed.fairness.unwrap_or_default());
                replayed.run.rules.clone_from(&figures.layers[candidate.layer].rules);
                replayed.run.stack = Some(figures);
                Ok(replayed)
            }
        }
    }

    /// Replays on any host, and gives the host back.
    fn replay_on<H: Host>(&self, host: H, start: Start<'_>) -> Result<(Replayed, H)> {
        let Start { part: scheduler, source, observers } = start;
        let engine =
            Engine::on(source, host, observers).max_outstanding(self.arguments.replaying.stage.max_queue as usize);
        let Ended { outcome, source, observer, host } = engine.run().map_err(|error| match error {
            ReplayError::Scheduler(_) | ReplayError::Stuck { .. } => {
                anyhow::Error::new(error).context(scheduler.name.clone())
            }
            other => other.into(),
        })?;
        let Observers { metrics, overload, log, log_path, shares, history, rows, watched, .. } = observer;
        watched.into_iter().for_each(Watched::finish);
        if let Some(log) = log {
            let name = || format!("the decision log {}", log_path.display());
            log.finish().and_then(|out| Ok(out.into_inner()?)).with_context(name)?.finish()?;
        }
        let fairness = shares.map(Shares::finish).transpose()?;
        let rows = rows.map(RequestRows::finish).transpose()?;
        let verdict = overload.verdict();
        let open = matches!(self.load, Load::Traces(_)) && self.arguments.replaying.pacing.is_open();
        let status = match verdict.why(outcome.held_back.then_some(MAX_QUEUE)) {
            Some(reason) if open => Status::Overloaded { reason, remedy: REMEDY.to_owned() },
            _ => Status::Comparable,
        };
        let mut run = metrics.run(scheduler, status, &self.load.names());
        run.drive.clone_from(&self.part.name);
        run.history = history.map(|history| history.finish(&self.load.names()));
        run.offered_load = verdict.offered_load.filter(|_| open);
        if !open && outcome.held_back {
            run.notes
                .push(format!("arrivals were held back by {MAX_QUEUE} {}", self.arguments.replaying.stage.max_queue));
        }
        run.journal_commits = source.journal_commits();
        run.notes.extend(source.notes(outcome.held_back));
        Ok((Replayed { run, read: source.read(), fairness, rows, metrics }, host))
    }

    fn metrics(&self) -> Metrics {
        let vms = self.load.names().len();
        if self.arguments.replaying.per_vm {
            Metrics::per_vm(self.arguments.replaying.until.active_time(vms))
        } else {
            Metrics::new()
        }
    }

    fn decision_log(&self, path: &Path) -> Result<Option<Log>> {
        let wanted = self.arguments.decision_log.is_some();
        let file = wanted.then(|| WholeFile::create(path)).transpose()?;
        Ok(file.map(|file| DecisionLog::new(BufWriter::new(file))))
    }

    /// The observer of each VM's share, if --stack or --series needs one, with the file of --series.
    fn shares(&self, index: usize, candidate: &Candidate) -> Result<Option<Shares>> {
        let stack = &self.arguments.stack;
        if !stack.watches_shares() {
            return Ok(None);
        }
        let create =
            |folder: &PathBuf| VmSeriesWriter::create(&candidate.file(folder, index, SERIES_ENDING), stack.interval);
        let active = self.arguments.replaying.until.active_time(self.load.names().len());
        Ok(Some(Shares::new(stack.interval, active, stack.series.as_ref().map(create).transpose()?)))
    }
}

/// The endings of a decision log and of a series of VMs.
const LOG_ENDING: &str = "tsv";
const SERIES_ENDING: &str = "parquet";

/// A note on bfq before a drive that turns.
const SET_FOR_SSDS: &str = "runs as on an SSD; on this drive Linux has rotational=on";

/// What to do about an open loop that the drive cannot sustain.
pub const REMEDY: &str = "replay closed (--pacing closed), slow the arrivals down (--pacing scaled=F), \
                      or choose a faster drive";

/// A scheduler or drive with its settings, for a result.
pub fn part(name: &str, model: &str, settings: &Settings) -> Part {
    let settings = settings.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Part { name: name.to_owned(), model: model.to_owned(), settings }
}

/// The drive with its tunables and its parts, if it consists of drives.
fn drive_part(drive: &drive_models::BuiltDrive) -> Part {
    let mut part = part(&drive.name, drive.model.name, &drive.settings);
    let parts = drive.description.parts().iter();
    part.settings.extend(parts.map(|part| (part.name.to_owned(), part.spec.without_folders().to_string())));
    part
}

/// Warnings on the traces of a replay.
pub fn trace_warnings(traces: &[traces::results::TraceProvenance]) -> Vec<String> {
    let mut warnings = Vec::new();
    for trace in traces {
        let path = Path::new(&trace.path).display();
        if let Some(orderer) = trace.layer.ordered_by() {
            warnings.push(format!(
                "{path} was recorded at layer {}: {orderer} has already ordered and merged these requests, so a \
                 scheduler under replay has less to choose from than the real one had",
                trace.layer
            ));
        }
        if trace.losses.total() > 0 {
            warnings.push(format!(
                "{path}: the capture lost {} events, and {} records were skipped",
                trace.losses.lost_events,
                trace.losses.total() - trace.losses.lost_events
            ));
        }
        for (kind, count) in &trace.losses.impossible {
            warnings.push(format!("{path}: {count} requests have times in an impossible order: {kind}"));
        }
    }
    warnings
}
