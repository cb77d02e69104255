//! `iocast capture lab`: runs VMs alone and together after a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use capture::lab::{self, Accelerator, GuestImage, Lab, LabError, LabProgress, Plan, PlannedLun, Transport};
use report::page::{Axis, Ranged, Ranges, RangesRow, Section};
use traces::results::lab::{LabMean, LabOperation, LabResults};

use crate::document::{Block, Document, present};
use crate::error::{Interrupted, UsageError};
use crate::needs::{self, Use, uses};
use crate::output::Table;
use crate::quiet;

pub fn run(arguments: &crate::arguments::Lab) -> Result<()> {
    let report = arguments.report.planned()?;
    let plan = Plan::read(&arguments.plan).map_err(UsageError::from_display)?;
    let folder = arguments.folders.output.clone().unwrap_or_else(|| arguments.plan.with_extension(""));
    let needed = [uses::CAPTURE_LAB, uses::CAPTURE_LAB_IMAGE];
    let host = enter(&plan, &folder, arguments.folders.resume, arguments.folders.cache.as_deref(), needed)?;
    let lab = Lab {
        plan,
        plan_text: traces::read_text(&arguments.plan)?,
        plan_folder: arguments.plan.parent().map(Path::to_path_buf).unwrap_or_default(),
        folder: std::path::absolute(&folder)?,
        image: host.image,
        iocast: std::env::current_exe()?,
    };
    let results = make(&lab, &mut Steps, &host.stop)?;
    present(&results, &document(&results), arguments.output_format, &report, Vec::new())
}

/// The host within the lab's namespaces.
pub struct LabHost {
    /// The image that VMs boot.
    pub image: GuestImage,
    /// Set by the signals that end the lab.
    pub stop: Arc<AtomicBool>,
}

/// Checks the host and the folder of the results for a plan, builds the image that VMs boot, and enters the lab's
/// namespaces. `needed` are the uses of every run, and of a run that builds the image.
///
/// # Errors
/// The folder exists and the runs do not continue in it; there is no such drive or scheduler, or the drive is smaller than
/// the LUN; the host lacks something; the image cannot be built.
pub fn enter(plan: &Plan, folder: &Path, resume: bool, cache: Option<&Path>, needed: [Use; 2]) -> Result<LabHost> {
    ensure!(
        resume || lab::is_entered() || !folder.exists(),
        UsageError(format!("{} exists: --resume continues in it, --output names another folder", folder.display()))
    );
    check_lun(&plan.lun)?;
    let cache = cache.map_or_else(self::cache, |cache| Ok(cache.to_owned()))?;
    // Outside, the host was checked with the same arguments.
    if !lab::is_entered() {
        check_host(plan, &cache, folder, needed)?;
    }
    if quiet::shows_progress() && !GuestImage::is_built(&cache) {
        eprintln!("building the image that VMs boot from Debian packages, about half a minute");
    }
    // Inside the lab's own network no packages can be downloaded.
    let image = GuestImage::build(&cache)?;
    lab::enter()?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot watch for interrupts")?;
    }
    Ok(LabHost { image, stop })
}

/// Checks that the drive and the scheduler of the LUN exist, and that the drive is large enough.
fn check_lun(lun: &PlannedLun) -> Result<()> {
    if let Some(scheduler) = &lun.scheduler {
        let spec = scheduler.parse().map_err(UsageError::from_display)?;
        schedulers::build(&spec).map_err(UsageError::from_display)?;
    }
    let spec = lun.drive.parse().map_err(UsageError::from_display)?;
    let capacity = drive_models::build(&spec).map_err(UsageError::from_display)?.drive.capacity().bytes();
    ensure!(
        lun.size <= capacity,
        UsageError(format!(
            "lun.size is {} bytes, but {} has only {capacity}; choose a smaller size or a larger drive (:capacity=SIZE \
             where the drive has that tunable)",
            lun.size, lun.drive
        ))
    );
    Ok(())
}

/// Makes the runs of a lab, and warns of doubtful ones.
///
/// # Errors
/// A run fails or is interrupted, or the results cannot be written.
pub fn make(lab: &Lab, progress: &mut dyn LabProgress, stop: &AtomicBool) -> Result<LabResults> {
    let results = lab::run(lab, progress, stop).map_err(|error| match error {
        LabError::Interrupted => Interrupted.into(),
        error => anyhow::Error::from(error),
    })?;
    for doubt in results.runs.iter().flat_map(lab::doubts) {
        eprintln!("iocast: warning: {doubt}");
    }
    Ok(results)
}

/// Checks that the host has all that the plan needs, before anything is built.
fn check_host(plan: &Plan, cache: &Path, folder: &Path, [every, image]: [Use; 2]) -> Result<()> {
    let runs = [
        (true, every),
        (!GuestImage::is_built(cache), image),
        (plan.vms.iter().any(|vm| vm.disk != Transport::Virtio), uses::CAPTURE_LAB_FILE),
        (plan.vms.iter().any(|vm| vm.disk == Transport::Iscsi), uses::CAPTURE_LAB_ISCSI),
        (plan.guest.accelerator == Accelerator::Kvm, uses::CAPTURE_LAB_KVM),
        (plan.vms.iter().any(|vm| vm.filebench.is_some()), uses::CAPTURE_LAB_FILEBENCH),
    ];
    needs::check(&runs.iter().filter(|(is, _)| *is).map(|(_, one)| *one).collect::<Vec<_>>())?;
    let most = plan.groups().iter().map(|group| group.members.len()).max().unwrap_or(0);
    let memory = plan.guest.memory.saturating_mul(most as u64);
    needs::require_memory(
        &format!("{most} VMs at once"),
        memory,
        "lower memory in [guest], or the number of VMs together",
    )?;
    // Each VM's prepared disk, and their copies on the drive's image. They are sparse.
    let disks = plan.vms.iter().map(|vm| vm.size).sum::<u64>().saturating_mul(2);
    if let Some(doubt) = needs::space_doubt("the VMs' disks and the drive's image", folder, disks) {
        eprintln!("iocast: warning: {doubt}");
    }
    Ok(())
}

/// The folder that keeps the image that VMs boot.
fn cache() -> Result<PathBuf> {
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || named("HOME").map(|home| home.join(".cache"));
    let base = named("XDG_CACHE_HOME").or_else(home);
    Ok(base.ok_or_else(|| anyhow!("HOME is not set; name a folder with --cache"))?.join("iocast"))
}

/// Prints a line for each step, on a terminal.
struct Steps;

impl LabProgress for Steps {
    fn begins(&mut self, what: &str, step: usize, steps: usize, left: Duration) {
        if quiet::shows_progress() {
            let minutes = left.as_secs() / 60;
            eprintln!("{step}/{steps} {what}, about {minutes} min {} s left", left.as_secs() % 60);
        }
    }
}

/// A lab's results as a document.
pub fn document(results: &LabResults) -> Document {
    let runs = results.runs.iter().flat_map(|run| run.vms.iter().map(move |vm| (run, vm)));
    let rows = runs.flat_map(|(run, vm)| {
        [("guest", &vm.guest), ("drive", &vm.drive)].map(|(seen, figures)| {
            let mut row = [&run.group, &vm.vm].map(String::clone).to_vec();
            row.extend([run.repetition.to_string(), seen.to_owned()]);
            row.extend(operation(&figures.reads).into_iter().chain(operation(&figures.writes)));
            row.push(match (&vm.wire, seen) {
                (Some(wire), "guest") => format!("{} of {}", wire.longest_run, wire.input_requests),
                _ => String::new(),
            });
            row
        })
    });
    let header = ["run", "VM", "rep.", "seen by", "reads/s", "read ms", "writes/s", "write ms", "on the wire"];
    let mut tables = vec![Table {
        title: format!(
            "{} s measured on {}, guest kernel {} under {}; response times from queueing (guest) or \
             arrival (drive) to completion",
            results.measured_seconds, results.drive, results.kernel, results.accelerator
        ),
        header: header.map(str::to_owned).to_vec(),
        rows: rows.collect(),
        text_columns: 4,
    }];
    if results.summary.iter().any(|mean| mean.ci95.is_some()) {
        tables.insert(0, means(&results.summary));
    }
    let times = guest_times(results);
    let sentences = missing(results).into_iter().chain(in_short(&times));
    Document {
        title: format!("VMs alone and together on {}", results.drive),
        blocks: sentences.map(Block::Sentence).chain(tables.into_iter().map(Block::Table)).collect(),
        charts: charts(&times),
        program: results.program.clone(),
    }
}

/// Says how much of its plan a lab lacks, if it was stopped.
pub fn missing(results: &LabResults) -> Option<String> {
    let (missing, planned) = (results.missing_runs(), results.planned_runs);
    (missing > 0).then(|| format!("This lab lacks {missing} of the {planned} runs of its plan; --resume makes them."))
}

/// What there is of each VM and operation, by who else ran.
type ByOthers<'a, T> = BTreeMap<(&'a str, &'a str), BTreeMap<Vec<&'a str>, T>>;

/// Mean response times in the guests in ms, over the repetitions.
fn guest_times(results: &LabResults) -> ByOthers<'_, f64> {
    let mut all: ByOthers<'_, Vec<f64>> = BTreeMap::new();
    for (run, vm) in results.runs.iter().flat_map(|run| run.vms.iter().map(move |vm| (run, vm))) {
        let others: Vec<&str> = run.vms.iter().map(|other| other.vm.as_str()).filter(|other| *other != vm.vm).collect();
        for (name, of) in [("reads", &vm.guest.reads), ("writes", &vm.guest.writes)] {
            if of.requests > 0 {
                let times = all.entry((&vm.vm, name)).or_default().entry(others.clone()).or_default();
                times.push(of.mean_response_ns / 1e6);
            }
        }
    }
    let mean = |times: Vec<f64>| times.iter().sum::<f64>() / times.len() as f64;
    let means = |times: BTreeMap<Vec<_>, Vec<f64>>| times.into_iter().map(|(others, of)| (others, mean(of))).collect();
    all.into_iter().map(|(of, times)| (of, means(times))).collect()
}

/// How much longer reads take beside others; `None` unless VMs ran alone and together.
fn in_short(times: &ByOthers<'_, f64>) -> Option<String> {
    let of_vm = |(&(vm, operation), times): (&(&str, &str), &BTreeMap<Vec<&str>, f64>)| {
        let alone = *times.get(&Vec::new())?;
        let beside = times.iter().filter(|(others, _)| !others.is_empty()).map(|(_, time)| time / alone);
        let ends = beside.fold(None, |ends: Option<[f64; 2]>, ratio| {
            Some(ends.map_or([ratio; 2], |[low, high]| [low.min(ratio), high.max(ratio)]))
        });
        let [low, high] = ends.filter(|_| operation == "reads")?.map(|ratio| format!("{ratio:.1}"));
        Some(if low == high { format!("{vm}'s {low}") } else { format!("{vm}'s {low} to {high}") })
    };
    let said: Vec<String> = times.iter().filter_map(of_vm).collect();
    (!said.is_empty())
        .then(|| format!("Beside other VMs, reads take so many times as long as alone: {}.", said.join(", ")))
}

/// Response times in the guests, of each VM alone and beside others.
fn charts(times: &ByOthers<'_, f64>) -> Vec<Section> {
    let kinds: BTreeSet<&Vec<&str>> = times.values().flat_map(BTreeMap::keys).collect();
    let rows = times.iter().map(|((vm, operation), of_others)| RangesRow {
        name: format!("{vm}: {operation}"),
        values: kinds
            .iter()
            .map(|others| of_others.get(*others).map(|&value| Ranged { value, interval: None }))
            .collect(),
    });
    let beside = |others: &&Vec<&str>| match &others[..] {
        [] => "alone".to_owned(),
        others => format!("beside {}", others.join(", ")),
    };
    let ranges = Ranges { kinds: kinds.iter().map(beside).collect(), rows: rows.collect() };
    let about = "Means in the guests over the repetitions, of each VM alone and beside others.";
    let charts = ranges.charts("Response times", about, &Axis::powers("response time, ms"));
    vec![Section { heading: "Alone and together".to_owned(), charts, ..Section::default() }]
}

fn operation(figures: &LabOperation) -> [String; 2] {
    [format!("{:.1}", figures.iops), format!("{:.2}", figures.mean_response_ns / 1e6)]
}

/// Means over repetitions with half the width of their intervals, a row for each VM of a group.
fn means(summary: &[LabMean]) -> Table {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for of_place in summary.chunks(4) {
        let Some(first) = of_place.first() else { continue };
        let mut row = [&first.group, &first.vm, &first.seen].map(String::clone).to_vec();
        row.extend(of_place.iter().map(|mean| {
            let scale = if mean.figure.ends_with("_ns") { 1e6 } else { 1.0 };
            let half = mean.ci95.map_or(0.0, |[_, high]| high - mean.mean);
            format!("{:.2} ± {:.2}", mean.mean / scale, half / scale)
        }));
        rows.push(row);
    }
    Table {
        title: "Means over the repetitions ± half of their 95 % confidence intervals (Student's t)".to_owned(),
        header: ["run", "VM", "seen by", "reads/s", "read ms", "writes/s", "write ms"].map(str::to_owned).to_vec(),
        rows,
        text_columns: 3,
    }
}
