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
fn figures_cover_arrivals_after_the_warm_up_only() {
    let records = vec![
        record(0, Operation::Read, 100),
        record(2, Operation::Read, 4),
        record(3, Operation::Read, 8),
        record(3, Operation::Write, 3),
        record(6, Operation::Read, 100),
    ];
    // The trace's zero is at 90 s. Its first record comes 5 s later, when the workload begins.
    let recorded = TraceRecords { records, zero_unix_ns: 90_000_000_000 };
    let found = measured_figures(&recorded, &plan(2, 6), 95_000_000_000);
    assert_eq!((found.reads.requests, found.reads.bytes, found.reads.iops), (2, 2 * 16 * 512, 0.5));
    assert_eq!((found.reads.mean_response_ns, found.reads.mean_device_ns), (6e6, Some(5e6)));
    assert_eq!((found.writes.requests, found.writes.mean_response_ns), (1, 3e6));
    let early = measured_figures(&recorded, &plan(0, 1), 95_000_000_000);
    assert_eq!((early.reads.requests, early.reads.mean_response_ns), (1, 100e6));
    assert_eq!(measured_figures(&recorded, &plan(2, 6), 195_000_000_000), LabFigures::default());
}

#[test]
fn incomplete_and_empty_requests_do_not_count() {
    let mut unanswered = record(0, Operation::Read, 4);
    unanswered.observed.completed = None;
    let mut empty = record(1, Operation::Write, 4);
    empty.request.set_sectors(Sectors::ZERO);
    let mut merged = record(2, Operation::Read, 9);
    merged.observed.issued = None;
    let records = vec![unanswered, empty, merged, record(3, Operation::Read, 3)];
    let found = measured_figures(&TraceRecords { records, zero_unix_ns: 0 }, &plan(0, 4), 5_000_000_000);
    assert_eq!((found.reads.requests, found.reads.bytes, found.reads.iops), (2, 2 * 16 * 512, 0.5));
    // One of the two has no recorded issue.
    assert_eq!((found.reads.mean_response_ns, found.reads.mean_device_ns), (6e6, Some(2e6)));
    assert_eq!(found.writes, LabOperation::default());
}

/// Stores a trace of VMs with these names, whose zero is at `zero_s` seconds since 1970.
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
fn guest_figures_use_the_guests_clock_and_drive_figures_the_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let of = |vm, second, ms| {
        let mut record = record(second, Operation::Read, ms);
        record.request.vm = VmId(vm);
        record
    };
    // The workload begins 5 s after each trace's zero: at 1000 s of the host's clock, at 1050 s of the guest's.
    store(&folder.path().join("a.parquet"), 1045, &["a"], &[of(0, 1, 9), of(0, 2, 4), of(0, 3, 8), of(0, 6, 9)]);
    let served = [of(0, 2, 9), of(1, 2, 2), of(2, 3, 6), of(0, 4, 9), of(1, 5, 1), of(1, 6, 9)];
    store(&folder.path().join("lun.parquet"), 995, &["b", "a", "a/lun2"], &served);
    std::fs::create_dir(folder.path().join("a")).unwrap();
    std::fs::write(folder.path().join("a/clocks.txt"), "begin 1050.0 7.1\n").unwrap();
    let group = LabGroup { name: "alone-a".to_owned(), members: vec![0] };
    let run = measure(&plan(2, 6), &group, 3, folder.path(), 1_000_000_000_000).unwrap();
    assert_eq!((run.group.as_str(), run.repetition, run.folder.as_str()), ("alone-a", 3, "runs/alone-a/3"));
    assert_eq!((run.begun_unix_ns, run.vms.len(), run.vms[0].vm.as_str()), (1_000_000_000_000, 1, "a"));
    let LabVm { guest, drive, wire, tracefs, .. } = &run.vms[0];
    assert_eq!((guest.reads.requests, guest.reads.mean_response_ns), (2, 6e6));
    assert_eq!((drive.reads.requests, drive.reads.mean_response_ns), (3, 3e6));
    assert_eq!((wire, tracefs), (&None, &None));
}

#[test]
fn processor_time_is_converted_from_ticks_of_10_ms() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("costs.txt");
    std::fs::write(&path, "blktrace 3 4\n\niocast 10 0\n").unwrap();
    let expected = [("blktrace".to_owned(), 70_000_000), ("iocast".to_owned(), 100_000_000)];
    assert_eq!(costs(&path).unwrap(), BTreeMap::from(expected));
}

#[test]
fn workload_begin_is_parsed_from_the_guests_clock() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clocks.txt");
    std::fs::write(&path, "begin 1795301484.25 24.48\nend 1795301496.000000001 36.48\n").unwrap();
    assert_eq!(guest_began_unix_ns(&path).unwrap(), 1_795_301_484_250_000_000);
    std::fs::write(&path, "begin 1795301484.%N 24.48\n").unwrap();
    assert!(guest_began_unix_ns(&path).unwrap_err().to_string().contains("no line \"begin"));
}

/// A run in which each VM has four figures by its guest, and ten times those by the drive.
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
        LabVm { vm: name.to_owned(), guest, drive, wire: None, tracefs: None, recorder_cpu_ns, ..LabVm::default() }
    };
    let vms = vms.iter().map(vm).collect();
    LabRun { group: group.to_owned(), repetition, folder: String::new(), begun_unix_ns: 0, vms }
}

#[test]
fn means_cover_the_repetitions_of_a_group() {
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
fn each_vm_of_each_group_has_its_own_means() {
    let text = "seconds = 6\ntogether = \"all\"\n[lun]\ndrive = \"x\"\nsize = \"1g\"\n".to_owned()
        + &["a", "b"]
            .map(|name| format!("[[vm]]\nname = {name:?}\nworkload = \"mail\"\ndisk = \"virtio\"\nsize = \"64m\"\n"))
            .concat();
    let plan: Plan = toml::from_str(&text).unwrap();
    // Some of the runs alone are missing.
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
            expected.extend(names.iter().enumerate().map(|(place, &figure)| (group, vm, seen, figure, mean(place))));
        }
    }
    assert_eq!(found, expected);
}

#[test]
fn run_is_doubted_if_guest_and_drive_bytes_differ() {
    let moved = |reads: u64, writes: u64| LabFigures {
        reads: LabOperation { bytes: reads, ..LabOperation::default() },
        writes: LabOperation { bytes: writes, ..LabOperation::default() },
    };
    let of = |guest: [u64; 2], drive: [u64; 2]| {
        let vm = LabVm {
            vm: "web".to_owned(),
            guest: moved(guest[0], guest[1]),
            drive: moved(drive[0], drive[1]),
            ..LabVm::default()
        };
        let place = "runs/together-mail-web/3".to_owned();
        doubts(&LabRun { group: String::new(), repetition: 3, folder: place, begun_unix_ns: 0, vms: vec![vm] })
    };
    assert!(of([100 << 20, 1 << 20], [96 << 20, 0]).is_empty());
    let message = of([100 << 20, 9 << 20], [50 << 20, 9 << 20]);
    assert_eq!(message.len(), 1);
    assert!(
        message[0].starts_with("runs/together-mail-web/3: web has read 104857600 bytes by its guest and 52428800 by"),
        "{message:?}"
    );
    assert_eq!(of([0, 40 << 20], [0, 44 << 20]).len(), 1);
}

#[test]
fn run_is_doubted_if_a_vm_waited_for_the_hosts_processors() {
    let of = |share: Option<f64>| {
        let vm = LabVm { vm: "web".to_owned(), host_wait_share: share, ..LabVm::default() };
        doubts(&LabRun { folder: "runs/x/1".to_owned(), vms: vec![vm], ..LabRun::default() })
    };
    assert!(of(None).is_empty() && of(Some(0.1)).is_empty());
    let message = of(Some(0.24));
    assert_eq!(message.len(), 1);
    assert!(
        message[0].starts_with("runs/x/1: web's threads waited for processors of the host for 24 % of the run"),
        "{message:?}"
    );
}

/// Requests of a guest at these seconds of its clock, each at an address of its own.
fn spread(seconds: impl Iterator<Item = u64>) -> Vec<Record> {
    let one = |(at, second): (u64, u64)| {
        let mut record = record(second, Operation::Read, 4);
        record.request.lba = Lba::new(at * 1000);
        record
    };
    (0..).zip(seconds).map(one).collect()
}

#[test]
fn a_guest_that_stood_still_before_it_began_is_refused() {
    // The guest's clock is an hour ahead. It stood still for 20 s after the host's signal, which its clock missed.
    let hour = 3_600_000_000_000;
    let guest = |late: u64| {
        let on_drive = TraceRecords { records: spread((0..40).map(|at| at + late)), zero_unix_ns: 100_000_000_000 };
        let in_guest = TraceRecords { records: spread(0..40), zero_unix_ns: 100_000_000_000 + hour };
        // Both workloads begin at the first request, 5 s after the traces' zero.
        began_late(&in_guest, 105_000_000_000 + hour, &on_drive, 105_000_000_000).unwrap()
    };
    assert!(guest(0).unsigned_abs() < 10_000_000, "{}", guest(0));
    assert!(guest(20).abs_diff(20_000_000_000) < 10_000_000, "{}", guest(20));
    let vm = |late: i64| LabVm { vm: "web".to_owned(), began_late_ns: Some(late), ..LabVm::default() };
    let check = |late| check_together(&plan(2, 12), Path::new("runs/x/1"), &[vm(0), vm(late)]);
    assert!(check(2_000_000_000).is_ok());
    let refused = check(20_000_000_000).unwrap_err().to_string();
    assert!(refused.contains("runs/x/1: the guest web began its measured part 20.0 s"), "{refused}");
}
