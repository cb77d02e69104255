//! The figures of a run from its captures, and over repetitions.

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

use super::plan::{Accelerator, Group, Plan, Transport};
use super::{LabError, filebench};

/// The unit in which /proc has processor times, in nanoseconds: USER_HZ is 100 on every architecture QEMU's guests have here.
const TICK_NS: u64 = 10_000_000;

/// Measures what the captures in `folder` hold. The workloads were told to begin at `begun_unix_ns` by the host's clock.
///
/// # Errors
/// A capture cannot be read, or a guest has left no clock readings.
pub fn measure(
    plan: &Plan,
    group: &Group,
    repetition: u32,
    folder: &Path,
    begun_unix_ns: i64,
) -> Result<LabRun, LabError> {
    let mut vms = Vec::new();
    for &member in &group.members {
        let vm = &plan.vms[member];
        let guest_began = began(&folder.join(&vm.name).join("clocks.txt"))?;
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
        let printed = left.join(format!("{}.filebench.txt", vm.name));
        let filebench = vm.filebench.as_ref().map(|_| filebench::summary(&printed)).transpose()?;
        let (guest, drive) = (figures(&guest, plan, guest_began), figures(&drive, plan, begun_unix_ns));
        vms.push(LabVm { vm: vm.name.clone(), guest, drive, wire, tracefs, recorder_cpu_ns, filebench });
    }
    let place = format!("runs/{}/{repetition}", group.name);
    Ok(LabRun { group: group.name.clone(), repetition, folder: place, begun_unix_ns, vms })
}

/// The guest's bytes and the drive's may differ by so much: what was under way when the measured seconds began and ended.
const SEEN_ALIKE: (u64, f64) = (1 << 20, 0.05);

/// What speaks against a run: machines whose guest saw other data move than the drive. One of them stood still then, or lost
/// records, and the run is to be made again.
pub fn doubts(run: &LabRun) -> Vec<String> {
    let mut doubts = Vec::new();
    for vm in &run.vms {
        let kinds = [("read", &vm.guest.reads, &vm.drive.reads), ("written", &vm.guest.writes, &vm.drive.writes)];
        for (done, guest, drive) in kinds {
            let apart = guest.bytes.abs_diff(drive.bytes);
            if apart > SEEN_ALIKE.0 && apart as f64 > SEEN_ALIKE.1 * guest.bytes.max(drive.bytes) as f64 {
                doubts.push(format!(
                    "{}: {} has {done} {} bytes by its guest and {} by the drive in the measured seconds; delete the folder and make \
                     the run again (--resume), with less else to do for the host",
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
        runs,
        summary,
    }
}

/// A figure of a machine in a run.
type Taken = (&'static str, fn(&LabFigures) -> f64);

fn means(group: &str, vm: &str, seen: &str, figures: &[&LabFigures]) -> Vec<LabMean> {
    let take: [Taken; 4] = [
        ("read_iops", |figures| figures.reads.iops),
        ("read_response_ns", |figures| figures.reads.mean_response_ns),
        ("write_iops", |figures| figures.writes.iops),
        ("write_response_ns", |figures| figures.writes.mean_response_ns),
    ];
    let mean_of = |(figure, value): Taken| {
        let values: Vec<f64> = figures.iter().map(|figures| value(figures)).collect();
        let (mean, half) = mean_and_half_width(&values);
        let [group, vm, seen, figure] = [group, vm, seen, figure].map(str::to_owned);
        LabMean { group, vm, seen, figure, mean, ci95: half.map(|half| [mean - half, mean + half]) }
    };
    if figures.is_empty() { Vec::new() } else { take.into_iter().map(mean_of).collect() }
}

/// The records of a trace on its clock.
struct Recorded {
    records: Vec<Record>,
    /// The wall-clock time of timestamp zero, in nanoseconds since 1970.
    zero_unix_ns: i64,
}

/// The records of a trace, of one of its VMs if one is named.
fn records(path: &Path, vm: Option<&str>) -> Result<Recorded, ReadError> {
    read(path, vm, ArrivalPoint::Queued)
}

/// The requests that a guest's capture saw issued, as they were after merging, in that order.
fn issued(capture: &Path) -> Result<Recorded, ReadError> {
    read(capture, None, ArrivalPoint::Issued)
}

fn read(path: &Path, vm: Option<&str>, arrivals: ArrivalPoint) -> Result<Recorded, ReadError> {
    let mut reader = open(path, &ReadOptions { arrivals, ..ReadOptions::default() })?;
    let mut records = Vec::new();
    while let Some(record) = reader.next()? {
        records.push(record);
    }
    if let Some(name) = vm {
        let names = &reader.meta().vms;
        // Of an initiator with several logical units the wire tells each apart by its number.
        let is_it =
            |found: &String| found.split_once("/lun").map_or(found.as_str(), |(initiator, _)| initiator) == name;
        records.retain(|record| names.get(usize::from(record.request.vm.0)).is_some_and(is_it));
    }
    Ok(Recorded { records, zero_unix_ns: reader.meta().clock.zero_unix_ns.unwrap_or(0) })
}

/// When the workload began by the guest's own clock, in nanoseconds since 1970: `begin SECONDS.NANOSECONDS UPTIME`.
fn began(clocks: &Path) -> Result<i64, LabError> {
    let text = std::fs::read_to_string(clocks).map_err(LabError::io(clocks))?;
    let reading = text.lines().find_map(|line| line.strip_prefix("begin ")?.split_whitespace().next());
    let parsed = reading.and_then(|reading| {
        let (seconds, fraction) = reading.split_once('.')?;
        let fraction = format!("{fraction:0<9}").get(..9)?.parse::<i64>().ok()?;
        seconds.parse::<i64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction)
    });
    parsed.ok_or_else(|| LabError::Host(format!("{}: no line \"begin SECONDS.NANOSECONDS\"", clocks.display())))
}

/// Reads and writes that arrived within the measured seconds of a workload that began at `began_unix_ns`.
fn figures(recorded: &Recorded, plan: &Plan, began_unix_ns: i64) -> LabFigures {
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

/// How the requests of `input` are found in `reference`.
fn agreement(reference: &Recorded, input: &Recorded, named: &Path) -> Result<AlignmentFigures, LabError> {
    let aligned = align(&samples(&reference.records), &samples(&input.records));
    let (_, figures) = aligned.map_err(|error| LabError::Host(format!("{}: {error}", named.display())))?;
    Ok(figures)
}

/// Processor time by program: `PROGRAM USER KERNEL`, in ticks.
fn costs(path: &Path) -> Result<BTreeMap<String, u64>, LabError> {
    let text = std::fs::read_to_string(path).map_err(LabError::io(path))?;
    let cost = |line: &str| {
        let mut words = line.split_whitespace();
        let program = words.next()?.to_owned();
        let ticks: u64 = words.map(|word| word.parse::<u64>().unwrap_or(0)).sum();
        Some((program, ticks * TICK_NS))
    };
    Ok(text.lines().filter_map(cost).collect())
}

/// The reads and writes of `records` in the order of their issue.
fn samples(records: &[Record]) -> Vec<Sample> {
    let data = |record: &&Record| matches!(record.request.operation, Operation::Read | Operation::Write);
    records.iter().filter(data).filter_map(Sample::of).collect()
}

#[cfg(test)]
mod tests {
    use traces::formats::FORMATS;
    use traces::trace::WriteOptions;
    use traces::{Layer, Lba, Observed, Request, Sectors, TraceMeta, VmId};

    use super::*;

    fn plan(warm_up: u32, seconds: u32) -> Plan {
        let text = format!(
            "seconds = {seconds}\nwarm_up_seconds = {warm_up}\n[lun]\ndrive = \"x\"\nsize = \"1g\"\n\
             [[vm]]\nname = \"a\"\nworkload = \"mail\"\ndisk = \"virtio\"\nsize = \"64m\"\n"
        );
        toml::from_str(&text).unwrap()
    }

    fn record(second: u64, operation: Operation, response_ms: u64) -> Record {
        let arrival = Timestamp::from_ns(5_000_000_000 + second * 1_000_000_000);
        let request = Request::new(arrival, operation, Lba::new(8), Sectors::new(16));
        let after = |ms| Some(arrival.saturating_add(Nanos::from_ms(ms)));
        let observed = Observed { inserted: None, issued: after(1), completed: after(response_ms), error: 0 };
        Record { request, observed }
    }

    #[test]
    fn figures_are_of_what_arrived_after_the_warm_up() {
        let records = vec![
            record(0, Operation::Read, 100),
            record(2, Operation::Read, 4),
            record(3, Operation::Read, 8),
            record(3, Operation::Write, 3),
            record(6, Operation::Read, 100),
        ];
        // The trace's zero is at 90 s, its first record 5 s later, when the workload begins.
        let recorded = Recorded { records, zero_unix_ns: 90_000_000_000 };
        let found = figures(&recorded, &plan(2, 6), 95_000_000_000);
        assert_eq!((found.reads.requests, found.reads.bytes, found.reads.iops), (2, 2 * 16 * 512, 0.5));
        assert_eq!((found.reads.mean_response_ns, found.reads.mean_device_ns), (6e6, Some(5e6)));
        assert_eq!((found.writes.requests, found.writes.mean_response_ns), (1, 3e6));
        let early = figures(&recorded, &plan(0, 1), 95_000_000_000);
        assert_eq!((early.reads.requests, early.reads.mean_response_ns), (1, 100e6));
        assert_eq!(figures(&recorded, &plan(2, 6), 195_000_000_000), LabFigures::default());
    }

    #[test]
    fn what_did_not_complete_or_moved_nothing_does_not_count() {
        let mut unanswered = record(0, Operation::Read, 4);
        unanswered.observed.completed = None;
        let mut empty = record(1, Operation::Write, 4);
        empty.request.set_sectors(Sectors::ZERO);
        let mut merged = record(2, Operation::Read, 9);
        merged.observed.issued = None;
        let records = vec![unanswered, empty, merged, record(3, Operation::Read, 3)];
        let found = figures(&Recorded { records, zero_unix_ns: 0 }, &plan(0, 4), 5_000_000_000);
        assert_eq!((found.reads.requests, found.reads.bytes, found.reads.iops), (2, 2 * 16 * 512, 0.5));
        // One of the two was not seen being issued.
        assert_eq!((found.reads.mean_response_ns, found.reads.mean_device_ns), (6e6, Some(2e6)));
        assert_eq!(found.writes, LabOperation::default());
    }

    /// A trace of VMs with these names, whose zero is at so many seconds of 1970.
    fn store(path: &Path, zero_s: i64, vms: &[&str], records: &[Record]) {
        let parquet = FORMATS.iter().find(|format| format.name == "parquet").unwrap();
        let mut writer = (parquet.create.unwrap())(path, &WriteOptions::default()).unwrap();
        for record in records {
            writer.write(record).unwrap();
        }
        let mut meta = TraceMeta::new("parquet", Layer::GuestQueue, "realtime");
        meta.vms = vms.iter().map(|&name| name.to_owned()).collect();
        meta.clock.zero_unix_ns = Some(zero_s * 1_000_000_000);
        writer.finish(&meta).unwrap();
    }

    #[test]
    fn guests_are_measured_by_their_clock_and_the_drive_by_the_hosts() {
        let folder = tempfile::tempdir().unwrap();
        let of = |vm, second, ms| {
            let mut record = record(second, Operation::Read, ms);
            record.request.vm = VmId(vm);
            record
        };
        // The workload begins 5 s behind each trace's zero: at 1000 s of the host's clock, at 1050 s of the guest's.
        store(&folder.path().join("a.parquet"), 1045, &["a"], &[of(0, 1, 9), of(0, 2, 4), of(0, 3, 8), of(0, 6, 9)]);
        let served = [of(0, 2, 9), of(1, 2, 2), of(2, 3, 6), of(0, 4, 9), of(1, 5, 1), of(1, 6, 9)];
        store(&folder.path().join("lun.parquet"), 995, &["b", "a", "a/lun2"], &served);
        std::fs::create_dir(folder.path().join("a")).unwrap();
        std::fs::write(folder.path().join("a/clocks.txt"), "begin 1050.0 7.1\n").unwrap();
        let group = Group { name: "alone-a".to_owned(), members: vec![0] };
        let run = measure(&plan(2, 6), &group, 3, folder.path(), 1_000_000_000_000).unwrap();
        assert_eq!((run.group.as_str(), run.repetition, run.folder.as_str()), ("alone-a", 3, "runs/alone-a/3"));
        assert_eq!((run.begun_unix_ns, run.vms.len(), run.vms[0].vm.as_str()), (1_000_000_000_000, 1, "a"));
        let LabVm { guest, drive, wire, tracefs, .. } = &run.vms[0];
        assert_eq!((guest.reads.requests, guest.reads.mean_response_ns), (2, 6e6));
        assert_eq!((drive.reads.requests, drive.reads.mean_response_ns), (3, 3e6));
        assert_eq!((wire, tracefs), (&None, &None));
    }

    #[test]
    fn processor_time_is_told_in_ticks_of_a_hundredth() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("costs.txt");
        std::fs::write(&path, "blktrace 3 4\n\niocast 10 0\n").unwrap();
        let expected = [("blktrace".to_owned(), 70_000_000), ("iocast".to_owned(), 100_000_000)];
        assert_eq!(costs(&path).unwrap(), BTreeMap::from(expected));
    }

    #[test]
    fn a_guest_says_when_it_began() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clocks.txt");
        std::fs::write(&path, "begin 1795301484.25 24.48\nend 1795301496.000000001 36.48\n").unwrap();
        assert_eq!(began(&path).unwrap(), 1_795_301_484_250_000_000);
        std::fs::write(&path, "begin 1795301484.%N 24.48\n").unwrap();
        assert!(began(&path).unwrap_err().to_string().contains("no line \"begin"));
    }

    /// A run in which each machine has four figures as its guest saw it, and the same times ten as the drive did.
    fn run(group: &str, repetition: u32, vms: &[(&str, [f64; 4])]) -> LabRun {
        let of = |[iops, mean_response_ns]: [f64; 2], times: f64| LabOperation {
            iops: iops * times,
            mean_response_ns: mean_response_ns * times,
            ..Default::default()
        };
        let vm = |&(name, [a, b, c, d]): &(&str, [f64; 4])| {
            let at = |times| LabFigures { reads: of([a, b], times), writes: of([c, d], times) };
            let (guest, drive) = (at(1.0), at(10.0));
            let recorder_cpu_ns = BTreeMap::new();
            LabVm { vm: name.to_owned(), guest, drive, wire: None, tracefs: None, recorder_cpu_ns, filebench: None }
        };
        let vms = vms.iter().map(vm).collect();
        LabRun { group: group.to_owned(), repetition, folder: String::new(), begun_unix_ns: 0, vms }
    }

    #[test]
    fn means_are_over_the_repetitions_of_a_group() {
        let runs = [2.0, 4.0, 9.0].map(|iops| run("alone-a", 1, &[("a", [iops, 1.0, 1.0, 1.0])]));
        let results = summarise(&plan(2, 6), "6.1", Accelerator::Tcg, runs.to_vec());
        let found = &results.summary[0];
        assert_eq!((found.seen.as_str(), found.figure.as_str(), found.mean), ("guest", "read_iops", 5.0));
        let (half, [low, high]) = (4.303 * 3.605_551 / 3.0_f64.sqrt(), found.ci95.unwrap());
        assert!((low - (5.0 - half)).abs() < 1e-4 && (high - (5.0 + half)).abs() < 1e-4);
        assert_eq!(results.summary.len(), 8);
        assert_eq!((results.measured_seconds, results.accelerator.as_str()), (4, "tcg"));
        let once = summarise(&plan(0, 6), "6.1", Accelerator::Kvm, vec![run("alone-a", 1, &[("a", [1.0; 4])])]);
        assert_eq!((once.summary[0].ci95, once.accelerator.as_str()), (None, "kvm"));
    }

    #[test]
    fn each_machine_of_each_group_has_means_of_its_own() {
        let text = "seconds = 6\ntogether = \"all\"\n[lun]\ndrive = \"x\"\nsize = \"1g\"\n".to_owned()
            + &["a", "b"]
                .map(|name| {
                    format!("[[vm]]\nname = {name:?}\nworkload = \"mail\"\ndisk = \"virtio\"\nsize = \"64m\"\n")
                })
                .concat();
        let plan: Plan = toml::from_str(&text).unwrap();
        // The machines alone were not all made.
        let runs = vec![
            run("alone-a", 1, &[("a", [1.0, 2.0, 3.0, 4.0])]),
            run("together-a-b", 1, &[("a", [11.0, 12.0, 13.0, 14.0]), ("b", [21.0, 22.0, 23.0, 24.0])]),
            run("together-a-b", 2, &[("a", [13.0, 14.0, 15.0, 16.0]), ("b", [23.0, 24.0, 25.0, 26.0])]),
        ];
        let summary = summarise(&plan, "6.1", Accelerator::Tcg, runs).summary;
        let found: Vec<(&str, &str, &str, &str, f64)> = summary
            .iter()
            .map(|one| (one.group.as_str(), one.vm.as_str(), one.seen.as_str(), one.figure.as_str(), one.mean))
            .collect();
        let mut expected = Vec::new();
        for (group, vm, first) in [("alone-a", "a", 1.0), ("together-a-b", "a", 12.0), ("together-a-b", "b", 22.0)] {
            for (seen, times) in [("guest", 1.0), ("drive", 10.0)] {
                let names = ["read_iops", "read_response_ns", "write_iops", "write_response_ns"];
                let mean = |place: usize| (first + place as f64) * times;
                expected
                    .extend(names.iter().enumerate().map(|(place, &figure)| (group, vm, seen, figure, mean(place))));
            }
        }
        assert_eq!(found, expected);
    }

    #[test]
    fn a_run_is_doubted_whose_guest_and_drive_saw_other_data_move() {
        let moved = |reads: u64, writes: u64| LabFigures {
            reads: LabOperation { bytes: reads, ..LabOperation::default() },
            writes: LabOperation { bytes: writes, ..LabOperation::default() },
        };
        let of = |guest: [u64; 2], drive: [u64; 2]| {
            let vm = LabVm {
                vm: "web".to_owned(),
                guest: moved(guest[0], guest[1]),
                drive: moved(drive[0], drive[1]),
                wire: None,
                tracefs: None,
                recorder_cpu_ns: BTreeMap::new(),
                filebench: None,
            };
            let place = "runs/together-mail-web/3".to_owned();
            doubts(&LabRun { group: String::new(), repetition: 3, folder: place, begun_unix_ns: 0, vms: vec![vm] })
        };
        assert!(of([100 << 20, 1 << 20], [96 << 20, 0]).is_empty());
        let said = of([100 << 20, 9 << 20], [50 << 20, 9 << 20]);
        assert_eq!(said.len(), 1);
        assert!(
            said[0].starts_with("runs/together-mail-web/3: web has read 104857600 bytes by its guest and 52428800 by"),
            "{said:?}"
        );
        assert_eq!(of([0, 40 << 20], [0, 44 << 20]).len(), 1);
    }
}
