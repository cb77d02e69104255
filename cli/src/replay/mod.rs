//! `iocast replay`: replays traces on a real device, and reports how faithful the replay was.

pub mod device;
pub mod engines;
mod holders;
mod reads_only;
mod run_trace;
pub mod tables;
pub mod throttle;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use anyhow::{Context, Result, bail, ensure};
use replay::live::{
    DeviceDrive, End, LONGEST_REQUEST, LiveDevice, LiveDrive, LiveEnded, LiveEngine, MonotonicClock, Throttled,
    broken_by_throttle,
};
use replay::metrics::Class;
use replay::observer::Completed;
use replay::overload::{Overload, Verdict};
use replay::sources::{MergedTraces, Pacing, RecordedResponses, ReplaySource, TimeWindow, paced};
use replay::{Metrics, Stage, figures};
use signal_hook::consts::{SIGINT, SIGTERM};
use traces::origin::without_folders;
use traces::results::live::{Ending, LiveFigures, RecordedTimes, ThrottleFigures};
use traces::results::{Comparison, Part, Provenance, Run, SCHEMA_VERSION, Status};
use traces::spec::Spec;
use traces::trace::{Clock as TraceClock, ReadOptions};
use traces::{Sectors, TraceMeta};

use crate::arguments::{Backend, DEVICE_QUEUE_DEPTH, Replay, Replaying, Window};
use crate::compare::{self, MAX_QUEUE, REMEDY, options};
use crate::error::{Interrupted, UsageError};
use crate::needs::{self, uses};
use crate::output;
use crate::output_format::OutputFormat;
use crate::picture::PictureFiles;
use crate::progress::Progress;
use crate::report::page;
use crate::vms::{self, Vm};
use device::Opened;
use reads_only::ReadsOnly;
use run_trace::{CLOCK, RunTrace};
use throttle::Throttling;

const NOTHING_GIVEN: &str = "there is nothing to replay; give traces (iocast replay web.parquet --device /dev/sdb)";

/// A replay before its start.
struct Plan<'a> {
    arguments: &'a Replay,
    vms: Vec<Vm>,
    options: ReadOptions,
    window: TimeWindow,
    scheduler: Spec,
    throttling: Option<Throttling>,
    stop: Arc<AtomicBool>,
}

/// The content of the traces, as far as they are replayed.
struct Survey {
    requests: u64,
    /// Requests that are left out since nothing but reads is allowed.
    left_out: u64,
    /// The size of the device.
    capacity: Sectors,
}

/// The observers of a replay.
type Observers = ((Metrics, Overload), (Option<RunTrace>, Completed));
type Ended<Drv = ()> = LiveEnded<Box<dyn ReplaySource>, Observers, Drv>;

/// A replay that was measured.
struct Measured {
    ended: Ended,
    about: About,
    throttle: Option<ThrottleFigures>,
    /// Why the throttle makes the replay not faithful, if it does.
    broken_by_throttle: Option<String>,
}

pub fn run(arguments: &Replay) -> Result<()> {
    let scheduler: Spec = arguments.scheduler.parse().map_err(UsageError::from_display)?;
    let built = schedulers::build(&scheduler).map_err(UsageError::from_display)?;
    let part = compare::part(&scheduler.to_string(), built.entry.name, &built.settings);
    let throttling = arguments.throttle.as_deref().map(|drive| Throttling::new(drive, &arguments.k)).transpose()?;
    let limits = arguments.replaying.stage.limits(DEVICE_QUEUE_DEPTH);
    let too_long = "--max-request is at most 8m on a device, since every request in flight needs memory";
    ensure!(limits.max_sectors <= LONGEST_REQUEST, UsageError(too_long.to_owned()));
    ensure!(!arguments.traces.is_empty() || !arguments.vms.is_empty(), UsageError(NOTHING_GIVEN.to_owned()));
    if let Some(path) = arguments.output.as_deref().filter(|path| path.exists() && !arguments.force) {
        bail!("{} exists; overwrite it with --force, or choose another name with --output", path.display());
    }
    let (reading, window) = (arguments.replaying.reading.options(), arguments.replaying.window.checked()?);
    if !arguments.engines.is_empty() {
        engines::check(&arguments.engines, arguments.replaying.pacing, &arguments.target)?;
    }
    if arguments.backend == Backend::IoUring {
        needs::check(&[uses::REPLAY_IO_URING])?;
    }
    let opened = Opened::new(&arguments.into())?;
    let named = vms::name_all(&arguments.traces, &arguments.vms)?;
    let vms = vms::gather(named, &reading, arguments.replaying.map.mapping(), window, opened.device.capacity())?;
    let stop = Arc::new(AtomicBool::new(false));
    let plan = Plan { arguments, vms, options: reading, window, scheduler, throttling, stop: Arc::clone(&stop) };
    let survey = plan.survey(&opened)?;
    let files = PictureFiles::planned(&arguments.picture())?;
    let report = arguments.report.planned(arguments.force)?;
    let output = plan.begin_output()?;
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot watch for interrupts")?;
    }
    if !arguments.engines.is_empty() {
        // The programs open the device themselves.
        drop(opened);
        return engines::run(&plan, &survey, &arguments.engines);
    }
    let measured = plan.measure(&survey, opened, output)?;
    let end = measured.ended.end;
    let (comparison, output) = plan.result(part, &survey, measured);
    if let Some(output) = output {
        let meta = plan.meta(output.format(), &comparison);
        output.finish(meta)?;
    }
    for warning in &comparison.provenance.warnings {
        eprintln!("iocast: warning: {warning}");
    }
    let mut written = Vec::new();
    if let Some(files) = files {
        compare::picture::write(&comparison, &[], &files, &mut written)?;
    }
    report.write(|| Ok(page(&comparison)), &mut written)?;
    match arguments.output_format {
        OutputFormat::Json => output::print_json(&comparison)?,
        format => {
            let text = tables::render(&comparison, format, arguments.details);
            output::print(&format!("{text}{}", output::written(&written, format)))?;
        }
    }
    plan.complete(end)
}

/// The properties of an open device that the result names.
struct About {
    drive: Part,
    backend: &'static str,
    backend_reason: Option<String>,
    direct: bool,
    widened: Arc<AtomicU64>,
    warnings: Vec<String>,
}

impl About {
    fn of(opened: &Opened) -> About {
        let settings = [
            ("backend", opened.backend.to_owned()),
            ("direct", opened.direct.to_string()),
            ("block_sectors", opened.block.to_string()),
            ("capacity_sectors", opened.device.capacity().to_string()),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value)).into();
        About {
            drive: Part { name: String::new(), model: "device".to_owned(), settings },
            backend: opened.backend,
            backend_reason: opened.backend_reason.clone(),
            direct: opened.direct,
            widened: opened.widened(),
            warnings: opened.warnings.clone(),
        }
    }
}

impl Plan<'_> {
    /// The requests to replay, and a counter of those that are left out.
    fn merged(&self, capacity: Sectors) -> Result<(MergedTraces, Arc<AtomicU64>)> {
        let left_out = Arc::new(AtomicU64::new(0));
        let mut traces = Vec::new();
        for vm in &self.vms {
            let mut trace = vm.open(&self.options)?;
            if !self.arguments.allow_writes {
                trace.reader = Box::new(ReadsOnly { reader: trace.reader, left_out: Arc::clone(&left_out) });
            }
            traces.push(trace);
        }
        Ok((MergedTraces::new(traces, self.window, capacity), left_out))
    }

    /// Reads the traces once, so that an address beyond the device is an error before the first request is sent.
    fn survey(&self, opened: &Opened) -> Result<Survey> {
        let progress = Progress::new("reading", self.vms.iter().map(|vm| vm.bytes).sum(), 1);
        let (merged, left_out) = self.merged(opened.device.capacity())?;
        let mut merged = merged.with_progress(progress.counter(0));
        let mut requests = 0;
        while merged.take()?.is_some() {
            requests += 1;
        }
        let left_out = device::count(&left_out);
        let nothing = match (left_out, self.window == TimeWindow::default()) {
            (0, true) => "the traces hold no request",
            (0, false) => Window::IS_EMPTY,
            (_, _) => "the traces hold no reads; --allow-writes sends their writes too, and destroys the device's data",
        };
        ensure!(requests > 0, nothing);
        Ok(Survey { requests, left_out, capacity: opened.device.capacity() })
    }

    /// Begins the trace of the replay, if one is wanted.
    fn begin_output(&self) -> Result<Option<RunTrace>> {
        self.arguments.output.as_deref().map(|path| RunTrace::begin(path, self.names())).transpose()
    }

    /// Replays on the device, or on what the throttle makes of it.
    fn measure(&self, survey: &Survey, opened: Opened, output: Option<RunTrace>) -> Result<Measured> {
        let mut about = About::of(&opened);
        let Some(throttling) = &self.throttling else {
            let (_, ended) = self.replay("replaying", survey, DeviceDrive::new(opened.device), output)?.split();
            return Ok(Measured { ended, about, throttle: None, broken_by_throttle: None });
        };
        let (mut first, mut output) = (Some(opened), Some(output));
        let open = || {
            let opened = first.take().map_or_else(|| Opened::new(&self.arguments.into()), Ok)?;
            about = About::of(&opened);
            Ok(opened.device)
        };
        let run = |drive: Throttled<'_, Box<dyn LiveDevice>>, is_measured: bool| {
            let (verb, output) = if is_measured {
                // A replay that is made again writes its trace anew.
                ("replaying", output.take().map_or_else(|| self.begin_output(), Ok)?)
            } else {
                ("looking for k", None)
            };
            let (drive, ended) = self.replay(verb, survey, drive, output)?.split();
            if !is_measured {
                self.complete(ended.end)?;
            }
            Ok((ended, [drive.all(), drive.stable()]))
        };
        let gives_up = |(ended, _): &mut (Ended, _)| {
            let output = ended.observer.1.0.take_if(|_| ended.end == End::Complete);
            output.map_or(Ok(()), RunTrace::give_up).map(|()| ended.end == End::Complete)
        };
        let found = throttling.measure(open, run, gives_up)?;
        let (ended, times) = found.measured;
        let throttle = Some(throttling.figures(&found.report, &found.searches, times));
        Ok(Measured { ended, about, throttle, broken_by_throttle: broken_by_throttle(&found.report) })
    }

    fn replay<Drv: LiveDrive>(
        &self,
        verb: &'static str,
        survey: &Survey,
        drive: Drv,
        output: Option<RunTrace>,
    ) -> Result<Ended<Drv>> {
        let scheduler = schedulers::build(&self.scheduler).map_err(UsageError::from_display)?.scheduler;
        let stage = Stage::new(scheduler, self.arguments.replaying.stage.limits(DEVICE_QUEUE_DEPTH));
        let progress = Progress::requests(verb, Some(survey.requests), 1);
        let (merged, _) = self.merged(drive.capacity())?;
        let source = paced(merged.with_recorded_responses(), self.arguments.replaying.pacing);
        let metrics = if self.arguments.replaying.per_vm {
            Metrics::per_vm(self.arguments.replaying.until.active_time(self.vms.len()))
        } else {
            Metrics::new()
        };
        let observers = ((metrics, Overload::default()), (output, Completed(progress.counter(0))));
        let engine = LiveEngine::new(source, stage, drive, observers, MonotonicClock::new())
            .max_outstanding(self.arguments.replaying.stage.max_queue as usize)
            .on_error(self.arguments.on_error.into())
            .stop(Arc::clone(&self.stop));
        engine.run().with_context(|| self.arguments.target.display().to_string())
    }

    /// An error unless the replay is complete.
    fn complete(&self, end: End) -> Result<()> {
        match end {
            End::Complete => Ok(()),
            End::Interrupted => Err(Interrupted.into()),
            End::Failed => bail!("a request failed, and --on-error stop ended the replay"),
            End::DeviceGone => bail!("{} has disappeared, which ended the replay", self.arguments.target.display()),
        }
    }

    /// The result, and the trace of the replay if one is written.
    fn result(&self, part: Part, survey: &Survey, measured: Measured) -> (Comparison, Option<RunTrace>) {
        let live = self.live_figures(survey, &measured);
        let Measured { ended, about, .. } = measured;
        let held_back = ended.held_back > 0;
        let ((metrics, overload), (output, _)) = ended.observer;
        let open = self.arguments.replaying.pacing.is_open();
        // A device serves several requests at once, so that its service times say nothing of its load.
        let verdict = Verdict { offered_load: None, ..overload.verdict() };
        let status = match verdict.why(held_back.then_some(MAX_QUEUE)) {
            Some(reason) if open => Status::Overloaded { reason, remedy: REMEDY.to_owned() },
            _ => Status::Comparable,
        };
        let names = self.names();
        let mut run: Run = metrics.run(part, status, &names);
        let name = without_folders(&self.arguments.target.to_string_lossy()).to_owned();
        run.drive.clone_from(&name);
        // Every arrival is a little late on a device; the issue-time error says by how much.
        let late_is_known = true;
        run.journal_commits = ended.source.journal_commits();
        run.notes.extend(ended.source.notes(late_is_known));
        let entry = schedulers::registry::find(&self.scheduler.name);
        run.rules = figures::rules(entry.map_or(&[][..], |entry| entry.rules), [&ended.sent_by_rule[..]]);
        run.live = Some(live);
        let read = ended.source.read();
        let traces: Vec<_> = self.vms.iter().zip(&read).map(|(vm, read)| vm.provenance(read)).collect();
        let mut warnings = about.warnings;
        warnings.extend(vms::overlaps(&self.vms));
        warnings.extend(compare::trace_warnings(&traces));
        let provenance = Provenance {
            program: traces::program_version(),
            warnings,
            traces,
            workloads: Vec::new(),
            drives: vec![Part { name, ..about.drive }],
            options: self.effective_options(),
        };
        (Comparison { schema_version: SCHEMA_VERSION, provenance, baseline: None, runs: vec![run] }, output)
    }

    fn live_figures(&self, survey: &Survey, measured: &Measured) -> LiveFigures {
        let Measured { ended, about, throttle, broken_by_throttle } = measured;
        let timed = !matches!(self.arguments.replaying.pacing, Pacing::Asap(_));
        let mut broken = if timed { ended.broken_bounds(survey.requests) } else { Vec::new() };
        broken.extend(broken_by_throttle.clone());
        let nothing = RecordedResponses::default();
        let recorded = ended.source.traces().and_then(MergedTraces::recorded_responses).unwrap_or(&nothing);
        LiveFigures {
            target: without_folders(&self.arguments.target.to_string_lossy()).to_owned(),
            backend: about.backend.to_owned(),
            backend_reason: about.backend_reason.clone(),
            direct: about.direct,
            ending: match ended.end {
                End::Complete => Ending::Complete,
                End::Interrupted => Ending::Interrupted,
                End::Failed => Ending::Failed,
                End::DeviceGone => Ending::DeviceGone,
            },
            asked_requests: survey.requests,
            unfinished_requests: ended.unfinished as u64,
            left_out_requests: survey.left_out,
            widened_requests: device::count(&about.widened),
            failed_requests: ended.failures.iter().map(|(failure, count)| (failure.name(), *count)).collect(),
            punctuality: timed.then(|| ended.punctuality_figures()),
            faithful: (timed || throttle.is_some()).then_some(broken.is_empty()),
            not_faithful_because: broken,
            recorded: RecordedTimes {
                read: recorded.of(Class::Read).figures(),
                write: recorded.of(Class::Write).figures(),
                other: recorded.of(Class::Other).figures(),
            },
            throttle: throttle.clone(),
        }
    }

    fn effective_options(&self) -> std::collections::BTreeMap<String, String> {
        let Replaying { pacing, map, reading, stage, .. } = &self.arguments.replaying;
        let limits = stage.limits(DEVICE_QUEUE_DEPTH);
        let mut options = options::of_replay(*pacing, *map, reading, self.window, limits, stage.max_queue);
        options.insert("allow_writes".to_owned(), self.arguments.allow_writes.to_string());
        options.insert("on_error".to_owned(), format!("{:?}", self.arguments.on_error).to_lowercase());
        options.insert("seed".to_owned(), self.arguments.seed.to_string());
        if let Some(throttling) = &self.throttling {
            options.extend(throttling.options());
        }
        if self.arguments.replaying.per_vm {
            options.insert("vms_measured_until".to_owned(), options::measured_until(self.arguments.replaying.until));
        }
        options
    }

    /// The names of the VMs.
    fn names(&self) -> Vec<String> {
        self.vms.iter().map(|vm| vm.name.clone()).collect()
    }

    /// The metadata of the trace of the replay.
    fn meta(&self, format: &str, comparison: &Comparison) -> TraceMeta {
        let traces = &comparison.provenance.traces;
        let layer = traces.first().map_or(traces::Layer::GuestQueue, |trace| trace.layer);
        let mut meta = TraceMeta::new(format, layer, CLOCK);
        meta.clock = TraceClock { name: CLOCK.to_owned(), zero_unix_ns: None };
        meta.vms = self.names();
        let mut add = |key: &str, value: String| meta.provenance.insert(key.to_owned(), value);
        add("captured_by", format!("{} replay", comparison.provenance.program));
        add("lost_events", "0".to_owned());
        for run in &comparison.runs {
            add("device", run.drive.clone());
            add("scheduler", run.scheduler.name.clone());
            if let Some(live) = &run.live {
                add("backend", live.backend.clone());
                add("unfinished_requests", live.unfinished_requests.to_string());
                add("failed_requests", live.failed_requests.values().sum::<u64>().to_string());
            }
        }
        for (name, value) in &comparison.provenance.options {
            add(&format!("option.{name}"), value.clone());
        }
        for trace in traces {
            add(&format!("replayed.{}", trace.vm), format!("{} (sha256 {})", file_name(&trace.path), trace.sha256));
        }
        meta
    }
}

fn file_name(path: &str) -> String {
    Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned()
}
