//! `iocast validate cross`: a VM's capture on one device, replayed closed on another, against its capture there.

mod figures;
mod split;
mod synthetic;
pub mod tables;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, ensure};
use capture::lab::Plan;
use predictors::synthetic::Campaign;
use rayon::prelude::*;
use traces::results::SCHEMA_VERSION;
use traces::results::cross::{CrossCase, CrossFigure, CrossLeftOut, CrossValidation};
use traces::results::lab::LabResults;
use traces::{Nanos, Record, SECTOR_BYTES, Sectors, Timestamp};

use self::figures::{NAMES, Run, summary};
use self::split::Split;
use crate::arguments::ValidateCross;
use crate::document::present;
use crate::error::UsageError;
use crate::progress::Progress;
use crate::validate::guest_queue::{Behind, GuestQueue, SentBy, Way, simulate};
use crate::validate::guest_requests;

/// A replay must last so long to be measured. A process that is much faster on the other device uses up its requests.
const REPLAYED_MIN: Nanos = Nanos::from_s(5);

pub fn run(arguments: &ValidateCross) -> Result<()> {
    let report = arguments.report.planned()?;
    let labs = arguments.labs.iter().map(|folder| AloneLab::read(folder)).collect::<Result<Vec<_>>>()?;
    for (index, lab) in labs.iter().enumerate() {
        let is_twice = labs[..index].iter().any(|other| other.name == lab.name);
        ensure!(!is_twice, UsageError(format!("two labs have the name {}; rename a folder", lab.name)));
    }
    let split = arguments.split.as_deref().map(Split::read).transpose()?;
    let part = arguments.part.as_deref();
    let (cases, left_out) = if arguments.synthetic {
        let vms = usize::from(arguments.vms);
        synthetic::cases(&Campaign { seed: arguments.seed, vms, ..Campaign::default() }, arguments.by)?
    } else {
        measured(&labs, split.as_ref(), part, arguments.by)?
    };
    let result = CrossValidation {
        schema_version: SCHEMA_VERSION,
        program: traces::program_version(),
        by: arguments.by.name().to_owned(),
        part: part.map(str::to_owned),
        summary: summary(&cases),
        cases,
        left_out,
    };
    present(&result, &tables::document(&result), arguments.output_format, &report, Vec::new())
}

/// A lab, with its VMs alone.
struct AloneLab {
    folder: PathBuf,
    /// The name of its folder.
    name: String,
    plan: Plan,
    results: LabResults,
}

impl AloneLab {
    fn read(folder: &Path) -> Result<AloneLab> {
        let path = folder.join("lab.json");
        let text = traces::read_text(&path).with_context(|| {
            format!("{}: cannot be read; name a folder of results that iocast capture lab wrote", path.display())
        })?;
        let results =
            serde_json::from_str(&text).with_context(|| format!("{}: is no result of a lab", path.display()))?;
        let plan = Plan::read_kept(&folder.join("plan.toml"))?;
        let whole = std::path::absolute(folder)?;
        let name = whole.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(AloneLab { folder: folder.to_owned(), name, plan, results })
    }

    /// What a VM runs: the name of its job without folder and ending.
    fn workload(&self, vm: usize) -> String {
        let planned = &self.plan.vms[vm];
        let named = planned.workload.as_deref().or(planned.filebench.as_deref()).unwrap_or_default();
        Path::new(named).file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The capture of a VM alone.
    fn capture(&self, vm: usize, repetition: u32) -> PathBuf {
        let name = &self.plan.vms[vm].name;
        self.folder.join(format!("runs/alone-{name}/{repetition}/{name}.parquet"))
    }

    /// The repetitions in which a VM ran alone.
    fn repetitions(&self, vm: usize) -> Vec<u32> {
        let group = format!("alone-{}", self.plan.vms[vm].name);
        self.results.runs.iter().filter(|run| run.group == group).map(|run| run.repetition).collect()
    }

    /// What reads take between guest and drive: a line through the mean times and sizes of the VMs alone, without those
    /// of this name.
    fn way(&self, without: &str) -> Way {
        let alone = self.results.runs.iter().filter(|run| run.vms.len() == 1).flat_map(|run| &run.vms);
        let points = alone.filter(|vm| vm.vm != without && vm.drive.reads.requests > 0).filter_map(|vm| {
            let size = vm.drive.reads.bytes as f64 / vm.drive.reads.requests as f64;
            Some((size, vm.guest.reads.mean_device_ns? - vm.drive.reads.mean_response_ns))
        });
        way_through(&points.collect::<Vec<(f64, f64)>>())
    }

    /// The scheduler of the guests' kernel.
    fn scheduler(&self) -> Result<&str> {
        self.plan.guest.scheduler.as_deref().with_context(|| {
            format!("{}: its plan leaves the guests' scheduler to the kernel; name it in a plan", self.folder.display())
        })
    }

    fn behind(&self, vm: usize) -> Behind {
        Behind {
            drive: self.plan.lun.drive.clone(),
            scheduler: self.plan.lun.scheduler.clone().unwrap_or_else(|| "fifo".to_owned()),
            place: Sectors::new(self.plan.place(vm) / SECTOR_BYTES),
            way: self.way(&self.plan.vms[vm].name),
        }
    }

    /// The part of a run that is measured.
    fn window(&self) -> (Timestamp, Timestamp) {
        let at = |seconds: u32| Timestamp::ZERO.saturating_add(Nanos::from_s(seconds.into()));
        (at(self.plan.warm_up_seconds), at(self.plan.seconds))
    }

    fn records(&self, vm: usize, repetition: u32) -> Result<Vec<Record>> {
        guest_requests::read(&self.capture(vm, repetition), Nanos::from_s(self.plan.seconds.into()))
    }
}

/// The line by least squares through points of bytes and ns. Neither part of it is negative.
fn way_through(points: &[(f64, f64)]) -> Way {
    let count = points.len().max(1) as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (size, time) = (mean(|point| point.0), mean(|point| point.1));
    let both: f64 = points.iter().map(|(x, y)| (x - size) * (y - time)).sum();
    let spread: f64 = points.iter().map(|(x, _)| (x - size).powi(2)).sum();
    let ns_per_byte = if spread > 0.0 { (both / spread).max(0.0).min(time.max(0.0) / size) } else { 0.0 };
    let delay = (time - ns_per_byte * size).max(0.0);
    let bandwidth = if ns_per_byte > 0.0 { (1e9 / ns_per_byte).round() as u64 } else { 0 };
    Way { delay: Nanos::from_ns(delay.round() as u64), bandwidth }
}

/// A case before it is run.
struct Planned<'a> {
    from: &'a AloneLab,
    to: &'a AloneLab,
    /// The VM in each lab.
    vms: [usize; 2],
    repetition: u32,
}

/// The cases of labs, of a part or all.
fn measured(
    labs: &[AloneLab],
    split: Option<&Split>,
    part: Option<&str>,
    by: SentBy,
) -> Result<(Vec<CrossCase>, Vec<CrossLeftOut>)> {
    let (planned, mut left_out) = planned(labs, split, part)?;
    ensure!(
        !planned.is_empty(),
        UsageError("no VM ran the same workload alone in two of the labs (in the part that is asked for)".to_owned())
    );
    let progress = Progress::jobs("replaying", planned.len() as u64);
    let done = progress.counter(0);
    let run = |case: &Planned<'_>| {
        let found = case.run(by);
        done.fetch_add(1, Ordering::Relaxed);
        found
    };
    let found: Vec<Result<CrossCase, CrossLeftOut>> = planned.par_iter().map(run).collect::<Result<_>>()?;
    drop(progress);
    let mut cases = Vec::new();
    for case in found {
        match case {
            Ok(case) => cases.push(case),
            Err(why) => left_out.push(why),
        }
    }
    Ok((cases, left_out))
}

/// All cases of a part, and pairs of runs that cannot be compared.
fn planned<'a>(
    labs: &'a [AloneLab],
    split: Option<&Split>,
    part: Option<&str>,
) -> Result<(Vec<Planned<'a>>, Vec<CrossLeftOut>)> {
    let (mut planned, mut left_out) = (Vec::new(), Vec::new());
    for from in labs {
        for to in labs.iter().filter(|to| to.name != from.name) {
            for (vm, name) in from.plan.vms.iter().enumerate().map(|(index, vm)| (index, &vm.name)) {
                let Some(there) = to.plan.vms.iter().position(|other| other.name == *name) else { continue };
                let case = split.map(|split| split.part(&from.workload(vm), [&from.name, &to.name])).transpose()?;
                if part.is_some() && case != part {
                    continue;
                }
                if let Some(why) = unlike(from, vm, to, there) {
                    let (from, to) = (from.name.clone(), to.name.clone());
                    left_out.push(CrossLeftOut { vm: name.clone(), from, to, why });
                    continue;
                }
                let repetitions = from.repetitions(vm);
                let both = to.repetitions(there).into_iter().filter(|repetition| repetitions.contains(repetition));
                planned.extend(both.map(|repetition| Planned { from, to, vms: [vm, there], repetition }));
            }
        }
    }
    Ok((planned, left_out))
}

/// Why a VM of two labs does not do the same in both.
fn unlike(from: &AloneLab, vm: usize, to: &AloneLab, there: usize) -> Option<String> {
    let (one, other) = (&from.plan, &to.plan);
    let differ = |what: &str, a: String, b: String| (a != b).then(|| format!("{what} differs: {a} and {b}"));
    differ("the workload", from.workload(vm), to.workload(there))
        .or_else(|| differ("the seed", one.seed.to_string(), other.seed.to_string()))
        .or_else(|| differ("the guests' memory", one.guest.memory.to_string(), other.guest.memory.to_string()))
        .or_else(|| differ("the disk's size", one.vms[vm].size.to_string(), other.vms[there].size.to_string()))
}

impl Planned<'_> {
    /// Replays and compares.
    fn run(&self, by: SentBy) -> Result<Result<CrossCase, CrossLeftOut>> {
        let (from, to, [vm, there]) = (self.from, self.to, self.vms);
        let name = from.plan.vms[vm].name.clone();
        let captured = from.records(vm, self.repetition)?;
        let truth = to.records(there, self.repetition)?;
        let behind = to.behind(there);
        let queue = GuestQueue { depth: to.plan.guest.queue_depth, is_rotational: true };
        let (begin, end) = to.window();
        let path = from.capture(vm, self.repetition);
        let replayed = simulate(&captured, &path, to.scheduler()?, queue, &behind, (by, end))?;
        let until = replayed.used_up.map_or(end, |used_up| used_up.min(end));
        let span = until.saturating_since(begin);
        if span < REPLAYED_MIN {
            let why = used_up_early(begin, until);
            return Ok(Err(CrossLeftOut { vm: name, from: from.name.clone(), to: to.name.clone(), why }));
        }
        let (first, last) = from.window();
        let runs = [
            Run::captured(&captured).figures(first, last),
            Run { done: replayed.done, at_device: replayed.served }.figures(begin, until),
            Run::captured(&truth).figures(begin, end),
        ];
        let found = CrossCase {
            vm: name,
            workload: from.workload(vm),
            from: from.name.clone(),
            to: to.name.clone(),
            repetition: self.repetition,
            stack: replayed.stack,
            drive: behind.drive,
            replayed_ns: span.as_ns(),
            ..CrossCase::default()
        };
        Ok(Ok(case(found, runs)))
    }
}

/// A case with its figures: as captured, as replayed, and the truth.
fn case(case: CrossCase, runs: [[Option<f64>; NAMES.len()]; 3]) -> CrossCase {
    let figure = |at: usize| {
        let [captured, replayed, truth] = [&runs[0], &runs[1], &runs[2]].map(|run| run[at]);
        CrossFigure { captured, replayed, truth }
    };
    let figures = NAMES.iter().enumerate().map(|(at, name)| ((*name).to_owned(), figure(at))).collect();
    CrossCase { figures, ..case }
}

fn used_up_early(begin: Timestamp, until: Timestamp) -> String {
    format!(
        "the VM is so much faster there that a process used up its captured requests after {:.1} s, of which {:.0} are \
         warm-up",
        until.as_ns() as f64 / 1e9,
        begin.as_ns() as f64 / 1e9
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_is_the_line_through_times_and_sizes() {
        let way = way_through(&[(4_000.0, 1_400_000.0), (8_000.0, 1_800_000.0), (100_000.0, 11_000_000.0)]);
        assert_eq!((way.delay, way.bandwidth), (Nanos::from_us(1_000), 10_000_000));
        // Large requests cannot be faster, and times are not negative.
        assert_eq!(
            way_through(&[(4_000.0, 900_000.0), (64_000.0, 700_000.0)]),
            Way { delay: Nanos::from_us(800), bandwidth: 0 }
        );
        assert_eq!(way_through(&[(4_000.0, -5.0)]), Way::default());
        assert_eq!(way_through(&[]), Way::default());
    }
}
