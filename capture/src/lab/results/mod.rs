//! Measures the figures of a run from its captures, and their means over repetitions.

use std::collections::BTreeMap;
use std::path::Path;

use traces::align::{Sample, align};
use traces::error::ReadError;
use traces::formats::open;
use traces::results::SCHEMA_VERSION;
use traces::results::alignment::AlignmentFigures;
use traces::results::lab::{LabFigures, LabMean, LabOperation, LabResults, LabRun, LabVm};
use traces::statistics::mean_and_half_width;
use traces::trace::{ArrivalPoint, ReadOptions};
use traces::{Nanos, Operation, Record, Timestamp};

use super::plan::{Accelerator, LabGroup, Plan, Transport};
use super::{LabError, filebench};

/// The unit of processor times in /proc, in nanoseconds: USER_HZ is 100 on every architecture of the lab's guests.
const PROC_TICK_NS: u64 = 10_000_000;

/// Measures the captures in `folder`. The workloads were started at `begun_unix_ns` by the host's clock.
///
/// # Errors
/// A capture cannot be read, or a guest has left no clock readings.
pub fn measure(
    plan: &Plan,
    group: &LabGroup,
    repetition: u32,
    folder: &Path,
    begun_unix_ns: i64,
) -> Result<LabRun, LabError> {
    let mut vms = Vec::new();
    for &member in &group.members {
        let vm = &plan.vms[member];
        let guest_began = guest_began_unix_ns(&folder.join(&vm.name).join("clocks.txt"))?;
        let guest = records(&folder.join(format!("{}.parquet", vm.name)), None)?;
        let drive = records(&folder.join("lun.parquet"), Some(&vm.name))?;
        let left = folder.join(&vm.name);
        let blktrace = left.join(format!("{}.blktrace.0", vm.name));
        let wire = match vm.disk {
            Transport::Iscsi => {
                let wire = records(&folder.join("wire.parquet"), Some(&vm.initiator()))?;
                Some(agreement(&wire, &issued(&blktrace)?, &blktrace)?)
            }
            Transport::Virtio | Transport::VirtioScsi => None,
        };
        let (mut tracefs, mut recorder_cpu_ns) = (None, BTreeMap::new());
        if plan.guest.tracefs {
            let second = left.join(format!("{}.tracefs.parquet", vm.name));
            tracefs = Some(agreement(&records(&blktrace, None)?, &records(&second, None)?, &second)?);
            recorder_cpu_ns = costs(&left.join("costs.txt"))?;
        }
        let began_late_ns = began_late(&guest, guest_began, &drive, begun_unix_ns);
        let printed = left.join(format!("{}.filebench.txt", vm.name));
        let filebench = vm.filebench.as_ref().map(|_| filebench::summary(&printed)).transpose()?;
        let (guest, drive) =
            (measured_figures(&guest, plan, guest_began), measured_figures(&drive, plan, begun_unix_ns));
        vms.push(LabVm {
            vm: vm.name.clone(),
            guest,
            drive,
            wire,
            tracefs,
            recorder_cpu_ns,
            began_late_ns,
            host_wait_share: None,
            filebench,
        });
    }
    check_together(plan, folder, &vms)?;
    let place = format!("runs/{}/{repetition}", group.name);
    Ok(LabRun { group: group.name.clone(), repetition, folder: place, begun_unix_ns, vms })
}

/// The most by which a guest's measured part may begin before or after the host's, in nanoseconds. Starting a program
/// takes a second or two under TCG, at most.
const BEGAN_LATE_MAX_NS: u64 = 3_000_000_000;

/// How much later than the host's signal a guest's measured part began, by the drive's clock. The guest's clock stands
/// still when the guest does, so that it cannot tell. The requests that both saw can, of which those suffice that were
/// not merged.
fn began_late(guest: &TraceRecords, guest_began: i64, drive: &TraceRecords, begun: i64) -> Option<i64> {
    let (_, figures) = align(&samples(&drive.records), &samples(&guest.records)).ok()?;
    let on_drive = (guest_began - guest.zero_unix_ns).checked_add(figures.offset_ns)?;
    Some(on_drive - (begun - drive.zero_unix_ns))
}

/// Refuses a run in which the measured part of a guest lies elsewhere than the host's: the VMs did not run together,
/// or the guest's figures are of another time than the drive's.
fn check_together(plan: &Plan, folder: &Path, vms: &[LabVm]) -> Result<(), LabError> {
    let apart = |vm: &&LabVm| vm.began_late_ns.is_some_and(|late| late.unsigned_abs() > BEGAN_LATE_MAX_NS);
    let Some(vm) = vms.iter().find(apart) else { return Ok(()) };
    Err(LabError::Host(format!(
        "{}: the guest {} began its measured part {:.1} s from the host's signal, by the drive's clock, so that this run of \
         {} s is no truth; delete this folder and repeat the run (--resume) with less other load on the host",
        folder.display(),
        vm.vm,
        vm.began_late_ns.unwrap_or(0) as f64 / 1e9,
        plan.seconds - plan.warm_up_seconds
    )))
}

/// Differences between the guest's bytes and the drive's up to this size, or up to this share, are tolerated: requests
/// in flight when the measurement began and ended.
const DOUBT_BYTES_MIN: u64 = 1 << 20;
/// See [`DOUBT_BYTES_MIN`]: the share of the larger of the two.
const DOUBT_SHARE_MIN: f64 = 0.05;

/// A VM that waits for a processor of the host for a larger share of a run takes longer than its drive makes it. Set by
/// judgement: VMs alone wait for 3 to 5 % of it, two busy ones beside a fast drive on two processors for 20 to 35 %.
const HOST_WAIT_SHARE_MAX: f64 = 0.1;

/// Reasons to doubt a run: VMs whose guest counted other amounts of data than the drive, which stood still or lost
/// records, so that the run should be repeated; and VMs that waited for the host's processors.
pub fn doubts(run: &LabRun) -> Vec<String> {
    let mut doubts = Vec::new();
    for vm in &run.vms {
        if let Some(share) = vm.host_wait_share.filter(|share| *share > HOST_WAIT_SHARE_MAX) {
            doubts.push(format!(
                "{}: {}'s threads waited for processors of the host for {:.0} % of the run, so that it was slower than \
                 its drive made it; use a host with more processors, or fewer VMs at once",
                run.folder,
                vm.vm,
                100.0 * share
            ));
        }
        let kinds = [("read", &vm.guest.reads, &vm.drive.reads), ("written", &vm.guest.writes, &vm.drive.writes)];
        for (done, guest, drive) in kinds {
            let apart = guest.bytes.abs_diff(drive.bytes);
            if apart > DOUBT_BYTES_MIN && apart as f64 > DOUBT_SHARE_MIN * guest.bytes.max(drive.bytes) as f64 {
                doubts.push(format!(
                    "{}: {} has {done} {} bytes by its guest and {} by the drive in the measured seconds; delete the folder \
                     and repeat the run (--resume) with less other load on the host",
                    run.folder, vm.vm, guest.bytes, drive.bytes
                ));
            }
        }
    }
    doubts
}

/// The runs with their means over repetitions.
pub fn summarise(plan: &Plan, kernel: &str, accelerator: Accelerator, runs: Vec<LabRun>) -> LabResults {
    let mut summary = Vec::new();
    for group in plan.groups() {
        for &member in &group.members {
            let name = &plan.vms[member].name;
            let seen = || {
                runs.iter().filter(|run| run.group == group.name).flat_map(|run| &run.vms).filter(|vm| vm.vm == *name)
            };
            for (place, figures) in [
                ("guest", seen().map(|vm| &vm.guest).collect::<Vec<_>>()),
                ("drive", seen().map(|vm| &vm.drive).collect()),
            ] {
                summary.extend(means(&group.name, name, place, &figures));
            }
        }
    }
    LabResults {
        schema_version: SCHEMA_VERSION,
        program: traces::program_version(),
        drive: plan.lun.drive.clone(),
        kernel: kernel.to_owned(),
        accelerator: if accelerator == Accelerator::Kvm { "kvm" } else { "tcg" }.to_owned(),
        measured_seconds: plan.seconds - plan.warm_up_seconds,
        planned_runs: plan.groups().len() as u32 * plan.repetitions,
        runs,
        summary,
    }
}

/// A figure of a VM in a run: its name, and the function that reads it.
type MeanFigure = (&'static str, fn(&LabFigures) -> f64);

fn means(group: &str, vm: &str, seen: &str, figures: &[&LabFigures]) -> Vec<LabMean> {
    let take: [MeanFigure; 4] = [
        ("read_iops", |figures| figures.reads.iops),
        ("read_response_ns", |figures| figures.reads.mean_response_ns),
        ("write_iops", |figures| figures.writes.iops),
        ("write_response_ns", |figures| figures.writes.mean_response_ns),
    ];
    let mean_of = |(figure, value): MeanFigure| {
        let values: Vec<f64> = figures.iter().map(|figures| value(figures)).collect();
        let (mean, half) = mean_and_half_width(&values);
        let [group, vm, seen, figure] = [group, vm, seen, figure].map(str::to_owned);
        LabMean { group, vm, seen, figure, mean, ci95: half.map(|half| [mean - half, mean + half]) }
    };
    if figures.is_empty() { Vec::new() } else { take.into_iter().map(mean_of).collect() }
}

/// The records of a trace on its clock.
struct TraceRecords {
    records: Vec<Record>,
    /// The wall-clock time of timestamp zero, in nanoseconds since 1970.
    zero_unix_ns: i64,
}

/// The records of a trace, or of one of its VMs.
fn records(path: &Path, vm: Option<&str>) -> Result<TraceRecords, ReadError> {
    read(path, vm, ArrivalPoint::Queued)
}

/// The requests that a guest's capture recorded as issued, after merging, in that order.
fn issued(capture: &Path) -> Result<TraceRecords, ReadError> {
    read(capture, None, ArrivalPoint::Issued)
}

fn read(path: &Path, vm: Option<&str>, arrivals: ArrivalPoint) -> Result<TraceRecords, ReadError> {
    let mut reader = open(path, &ReadOptions { arrivals, ..ReadOptions::default() })?;
    let mut records = Vec::new();
    while let Some(record) = reader.next()? {
        records.push(record);
    }
    if let Some(name) = vm {
        let names = &reader.meta().vms;
        // If an initiator has several logical units, the wire trace appends their numbers.
        let is_it =
            |found: &String| found.split_once("/lun").map_or(found.as_str(), |(initiator, _)| initiator) == name;
        records.retain(|record| names.get(usize::from(record.request.vm.0)).is_some_and(is_it));
    }
    Ok(TraceRecords { records, zero_unix_ns: reader.meta().clock.zero_unix_ns.unwrap_or(0) })
}

/// When the workload began by the guest's own clock, in nanoseconds since 1970, from the line `begin
/// SECONDS.NANOSECONDS UPTIME`.
fn guest_began_unix_ns(clocks: &Path) -> Result<i64, LabError> {
    let text = traces::read_text(clocks).map_err(LabError::io(clocks))?;
    let reading = text.lines().find_map(|line| line.strip_prefix("begin ")?.split_whitespace().next());
    let parsed = reading.and_then(|reading| {
        let (seconds, fraction) = reading.split_once('.')?;
        let fraction = format!("{fraction:0<9}").get(..9)?.parse::<i64>().ok()?;
        seconds.parse::<i64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction)
    });
    parsed.ok_or_else(|| LabError::Host(format!("{}: no line \"begin SECONDS.NANOSECONDS\"", clocks.display())))
}

/// Figures of the reads and writes that arrived within the measured seconds of a workload that began at
/// `began_unix_ns`.
fn measured_figures(recorded: &TraceRecords, plan: &Plan, began_unix_ns: i64) -> LabFigures {
    let began = Timestamp::from_ns(u64::try_from(began_unix_ns - recorded.zero_unix_ns).unwrap_or(0));
    let at = |seconds: u32| began.saturating_add(Nanos::from_s(seconds.into()));
    let (begin, end) = (at(plan.warm_up_seconds), at(plan.seconds));
    let seconds = plan.seconds - plan.warm_up_seconds;
    let of = |operation| measured(&recorded.records, operation, begin, end, seconds);
    LabFigures { reads: of(Operation::Read), writes: of(Operation::Write) }
}

fn measured(records: &[Record], operation: Operation, begin: Timestamp, end: Timestamp, seconds: u32) -> LabOperation {
    let (mut requests, mut sectors, mut response, mut device, mut issued) = (0_u64, 0_u64, 0_u64, 0_u64, 0_u64);
    for record in records {
        let request = &record.request;
        let within = (begin..end).contains(&request.arrival) && request.operation == operation;
        let Some(time) = record.response_time().filter(|_| within && request.sectors().count() > 0) else { continue };
        requests += 1;
        sectors += request.sectors().count();
        response += time.as_ns();
        if let Some(time) = record.observed.device_time() {
            device += time.as_ns();
            issued += 1;
        }
    }
    let mean = |sum: u64, count: u64| if count == 0 { 0.0 } else { sum as f64 / count as f64 };
    LabOperation {
        requests,
        bytes: sectors * 512,
        iops: requests as f64 / f64::from(seconds),
        mean_response_ns: mean(response, requests),
        mean_device_ns: (issued > 0).then(|| mean(device, issued)),
    }
}

/// Aligns the requests of `input` with those of `reference`.
fn agreement(reference: &TraceRecords, input: &TraceRecords, named: &Path) -> Result<AlignmentFigures, LabError> {
    let aligned = align(&samples(&reference.records), &samples(&input.records));
    let (_, figures) = aligned.map_err(|error| LabError::Host(format!("{}: {error}", named.display())))?;
    Ok(figures)
}

/// Processor time by program, from lines `PROGRAM USER KERNEL` in ticks.
fn costs(path: &Path) -> Result<BTreeMap<String, u64>, LabError> {
    let text = traces::read_text(path).map_err(LabError::io(path))?;
    let cost = |line: &str| {
        let mut words = line.split_whitespace();
        let program = words.next()?.to_owned();
        let ticks: u64 = words.map(|word| word.parse::<u64>().unwrap_or(0)).sum();
        Some((program, ticks * PROC_TICK_NS))
    };
    Ok(text.lines().filter_map(cost).collect())
}

/// The reads and writes of `records` in the order of their issue.
fn samples(records: &[Record]) -> Vec<Sample> {
    let data = |record: &&Record| matches!(record.request.operation, Operation::Read | Operation::Write);
    records.iter().filter(data).filter_map(Sample::of).collect()
}

#[cfg(test)]
mod tests;
