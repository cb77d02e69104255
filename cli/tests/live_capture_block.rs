//! Captures of loop devices on this host's kernel. Need root, tracefs and fio.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod live;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use live::{Loop, Running, TRACEFS, errors, fio, instances, iocast, is_of, need, ran, read, run, until};
use traces::{Operation, Record};

/// The kernel has one tracer for all tests.
static TRACER: Mutex<()> = Mutex::new(());

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn live_records_equal_those_of_the_raw_pages_read_afterwards() {
    let (device, folder) = (Loop::new(256), tempfile::tempdir().unwrap());
    device.set("scheduler", "mq-deadline");
    let (trace, raw) = (folder.path().join("live.parquet"), folder.path().join("raw"));
    let capture = Running::begin(&["capture", "block", device.str(), "-o", text(&trace), "--raw-too", text(&raw)]);
    // Also through the page cache, so that requests merge and flushes occur.
    let buffered = ["--direct=0", "--fsync=32", "--rw=write", "--numjobs=2", "--rate_iops=2000"];
    assert!(fio(&device, 2, &["--rate_iops=5000"]).status().unwrap().success());
    assert!(fio(&device, 2, &buffered).status().unwrap().success());
    let ended = capture.interrupt();
    assert_eq!(ended.status.code(), Some(0), "{}", errors(&ended));
    let (live, live_losses, live_meta) = read(&trace, None);
    let (offline, losses, meta) = read(&raw, None);
    assert!(live.len() > 10_000, "{} records", live.len());
    assert_eq!(live.len(), offline.len());
    assert!(live == offline, "the first that differs is {:?}", live.iter().zip(&offline).find(|(a, b)| a != b));
    assert!(live.iter().any(|record| record.request.operation == Operation::Flush));
    assert_eq!((live_losses.lost_events, losses.lost_events), (0, 0));
    assert_eq!(live_meta.streams, meta.streams);
    let merges = "trace-pipe-raw.merges";
    assert_eq!(live_meta.provenance.get(merges), meta.provenance.get(merges));
    assert!(live_meta.clock.zero_unix_ns.is_some());
    // The start, and the end.
    assert_eq!(live_meta.provenance["capture.clock_readings"].matches("monotonic_ns").count(), 2);
    let event = &live_meta.provenance["trace-pipe-raw.format.block_rq_issue"];
    assert!(event.contains("name: block_rq_issue") && event.contains("field:sector_t sector"), "{event}");
}

/// The `Q` events in the text of a trace: sector, sectors, letters, and time in microseconds.
fn queued(trace: &str) -> Vec<(u64, u64, String, f64)> {
    let lines = trace.lines().filter(|line| line.contains("block_bio_queue:"));
    let mut found: Vec<_> = lines
        .map(|line| {
            let (head, rest) = line.split_once(": block_bio_queue: ").unwrap();
            let seconds: f64 = head.rsplit(' ').next().unwrap().parse().unwrap();
            // 7,0 WS 8 + 8 [fio]
            let words: Vec<&str> = rest.split_whitespace().collect();
            (words[2].parse().unwrap(), words[4].parse().unwrap(), words[1].to_owned(), seconds * 1e6)
        })
        .collect();
    found.sort_by(|a, b| (a.0, a.3).partial_cmp(&(b.0, b.3)).unwrap());
    found
}

#[test]
fn records_match_the_text_of_another_instance_request_by_request() {
    let (device, folder) = (Loop::new(256), tempfile::tempdir().unwrap());
    let trace = folder.path().join("live.parquet");
    let other = Path::new(TRACEFS).join(format!("instances/test-{}", std::process::id()));
    fs::create_dir(&other).unwrap();
    let set = |name: &str, value: &str| fs::write(other.join(name), value).unwrap();
    set("trace_clock", "mono");
    // A new instance inherits the settings of the top.
    set("options/context-info", "1");
    set("options/bin", "0");
    set("buffer_size_kb", "32768");
    let number = fs::read_to_string(format!("/sys/block/{}/dev", device.name())).unwrap();
    let (major, minor) = number.trim().split_once(':').unwrap();
    let number = major.parse::<u64>().unwrap() << 20 | minor.parse::<u64>().unwrap();
    set("events/block/block_bio_queue/filter", &format!("dev == {number}"));
    let capture = Running::begin(&["capture", "block", device.str(), "-o", text(&trace)]);
    set("events/block/block_bio_queue/enable", "1");
    assert!(fio(&device, 2, &["--rate_iops=4000", "--norandommap=0"]).status().unwrap().success());
    set("events/block/block_bio_queue/enable", "0");
    let text = fs::read_to_string(other.join("trace")).unwrap();
    fs::remove_dir(&other).unwrap();
    capture.interrupt();
    let (mut records, _, meta) = read(&trace, None);
    let zero: f64 = meta.provenance["capture.zero_trace_ns"].parse().unwrap();
    records.sort_by_key(|record| (record.request.lba, record.request.arrival));
    let expected = queued(&text);
    assert!(expected.len() > 10_000);
    assert_eq!(records.len(), expected.len());
    for (record, (sector, sectors, letters, micros)) in records.iter().zip(&expected) {
        let request = &record.request;
        assert_eq!((request.lba.sector(), request.sectors().count()), (*sector, *sectors));
        assert_eq!(request.operation == Operation::Write, letters.starts_with('W'), "{letters}");
        // Each instance takes its own timestamp; an interrupt may come between.
        let apart = (zero + request.arrival.as_ns() as f64) / 1e3 - micros;
        assert!(apart.abs() < 5_000.0, "{apart} µs apart");
    }
}

#[test]
fn no_event_is_lost_at_a_high_rate() {
    let (device, folder) = (Loop::new(256), tempfile::tempdir().unwrap());
    device.set("scheduler", "none");
    let trace = folder.path().join("fast.parquet");
    let capture = Running::begin(&["capture", "block", device.str(), "-o", text(&trace), "--output-format", "json"]);
    let fast = ["--rw=randread", "--bs=512", "--iodepth=64", "--iodepth_batch=16", "--iodepth_batch_complete_min=8"];
    let jobs = ["--numjobs=2", "--rate_iops=50000", "--gtod_reduce=1"];
    assert!(fio(&device, 5, &[&fast[..], &jobs[..]].concat()).status().unwrap().success());
    let ended = capture.interrupt();
    let summary: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    let requests = summary["requests"].as_u64().unwrap();
    eprintln!("{requests} requests in 5 s, {} CPU s per million events", summary["cpu_s_per_million_events"]);
    assert_eq!(summary["lost_events"], 0);
    // fio's rate depends on the other tests that run.
    assert!(requests > 20_000, "{requests}");
    let (records, losses, _) = read(&trace, None);
    assert_eq!((records.len() as u64, losses.total()), (requests, 0));
    assert!(records.iter().all(|record| record.observed.completed.is_some()));
}

#[test]
fn bios_on_partitions_are_requests_of_the_disk() {
    let (device, folder) = (Loop::new(64), tempfile::tempdir().unwrap());
    let second = format!("{}p2", device.str());
    run("addpart", &[device.str(), "1", "2048", "32768"]);
    run("addpart", &[device.str(), "2", "40960", "32768"]);
    until("there are partitions", || Path::new(&second).exists());
    let (trace, raw) = (folder.path().join("x.parquet"), folder.path().join("raw"));
    let capture = Running::begin(&["capture", "block", device.str(), "-o", text(&trace), "--raw-too", text(&raw)]);
    run("dd", &[&format!("if={second}"), "of=/dev/null", "bs=4k", "count=50", "iflag=direct"]);
    capture.interrupt();
    for path in [&trace, &raw] {
        let (records, losses, _) = read(path, None);
        let on_it = records.iter().filter(|record| record.request.lba.sector() >= 40_960);
        let whole: Vec<&Record> = on_it.filter(|record| record.observed.completed.is_some()).collect();
        assert_eq!(whole.len(), 50, "{}", path.display());
        assert!(losses.unmatched.is_empty(), "{:?}", losses.unmatched);
    }
    let refused = ran(&["capture", "block", &second, "-w", "1"]);
    assert!(errors(&refused).contains("this is a partition; its requests are those of its disk"));
}

#[test]
fn several_devices_make_one_trace_with_a_vm_each() {
    let (first, second, folder) = (Loop::new(64), Loop::new(64), tempfile::tempdir().unwrap());
    let trace = folder.path().join("x.parquet");
    let capture = Running::begin(&["capture", "block", first.str(), second.str(), "-o", text(&trace)]);
    let mut loads = [&first, &second].map(|device| fio(device, 1, &["--rate_iops=1000"]).spawn().unwrap());
    loads.iter_mut().for_each(|load| assert!(load.wait().unwrap().success()));
    capture.interrupt();
    let (records, losses, meta) = read(&trace, None);
    assert_eq!(meta.vms, [first.name(), second.name()]);
    assert_eq!(losses.total(), 0);
    let mut by_vm = BTreeMap::<u16, usize>::new();
    records.iter().for_each(|record| *by_vm.entry(record.request.vm.0).or_default() += 1);
    assert!(by_vm[&0] > 500 && by_vm[&1] > 500, "{by_vm:?}");
    let (only, _, _) = read(&trace, Some(&second.name()));
    assert_eq!(only.len(), by_vm[&1]);
}

#[test]
fn killed_capture_leaves_a_readable_trace_and_no_tracing() {
    let (device, folder) = (Loop::new(64), tempfile::tempdir().unwrap());
    let trace = folder.path().join("killed.parquet");
    let capture = Running::begin(&["capture", "block", device.str(), "-o", text(&trace)]);
    let mut load = fio(&device, 9, &["--rate_iops=2000"]).spawn().unwrap();
    thread::sleep(Duration::from_secs(7));
    capture.signal("KILL");
    let pid = capture.pid();
    until("the supervisor has removed the instance", || !instances().iter().any(|path| is_of(path, pid)));
    let (records, losses, _) = read(&trace, None);
    assert!(records.len() > 5_000, "{}", records.len());
    assert!(losses.skipped.keys().any(|reason| reason.contains("recording was stopped")), "{losses:?}");
    let stat = ran(&["stat", text(&trace)]);
    assert!(stat.status.success() && errors(&stat).contains("iocast capture recover"), "{}", errors(&stat));
    assert!(ran(&["capture", "recover", text(&trace)]).status.success());
    let (completed, losses, _) = read(&trace, None);
    assert_eq!((completed == records, losses.total()), (true, 0));
    load.wait().unwrap();
}

#[test]
fn vanished_device_ends_the_capture_with_a_complete_trace() {
    let (device, folder) = (Loop::new(64), tempfile::tempdir().unwrap());
    let trace = folder.path().join("x.parquet");
    let capture = Running::begin(&["capture", "block", device.str(), "-w", "30", "-o", text(&trace)]);
    assert!(fio(&device, 1, &["--rate_iops=500"]).status().unwrap().success());
    device.detach();
    // A new device with the same number makes no difference.
    let other = folder.path().join("other");
    fs::File::create(&other).unwrap().set_len(64 << 20).unwrap();
    if !Command::new("losetup").arg(&device.path).arg(&other).status().unwrap().success() {
        // Another test has taken the number, which serves the purpose; the device now belongs to that test.
        std::mem::forget(device);
    }
    let output = capture.wait();
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains("has vanished; the trace holds the requests until then"), "{}", errors(&output));
    assert!(read(&trace, None).0.len() > 500);
}

#[test]
fn trace_on_the_traced_device_is_refused_unless_allowed() {
    let (device, folder) = (Loop::new(64), tempfile::tempdir().unwrap());
    let mounted = folder.path().join("m");
    fs::create_dir(&mounted).unwrap();
    run("mkfs.ext4", &["-q", device.str()]);
    run("mount", &[device.str(), text(&mounted)]);
    let image = mounted.join("image");
    fs::File::create(&image).unwrap().set_len(8 << 20).unwrap();
    let inner = run("losetup", &["-f", "--show", text(&image)]);
    run("mkfs.ext4", &["-q", inner.trim()]);
    let deeper = folder.path().join("deeper");
    fs::create_dir(&deeper).unwrap();
    run("mount", &[inner.trim(), text(&deeper)]);
    let capture = |path: &Path, more: &[&str]| {
        ran(&[&["capture", "block", device.str(), "-w", "1", "--min-free", "0", "-o", text(path)], more].concat())
    };
    let direct = capture(&mounted.join("x.parquet"), &[]);
    let through_a_file = capture(&deeper.join("x.parquet"), &[]);
    let allowed = capture(&mounted.join("x.parquet"), &["--allow-self-capture"]);
    run("umount", &[text(&deeper)]);
    run("losetup", &["-d", inner.trim()]);
    run("umount", &[text(&mounted)]);
    for refused in [direct, through_a_file] {
        assert_eq!(refused.status.code(), Some(1));
        assert!(errors(&refused).contains("is traced: every write of the trace would be traced, too"));
    }
    assert!(allowed.status.success(), "{}", errors(&allowed));
}

#[test]
fn trace_can_be_written_to_pipe_and_socket() {
    let (device, folder) = (Loop::new(64), tempfile::tempdir().unwrap());
    let mut load = fio(&device, 6, &["--rate_iops=500"]).spawn().unwrap();
    let piped = ran(&["capture", "block", device.str(), "-w", "2", "-o", "-"]);
    let file = folder.path().join("piped.parquet");
    fs::write(&file, &piped.stdout).unwrap();
    assert!(read(&file, None).0.len() > 50);
    let socket = folder.path().join("socket");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let to = format!("unix:{}", socket.display());
    let sender = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut stream, &mut bytes).unwrap();
        bytes
    });
    assert!(ran(&["capture", "block", device.str(), "-w", "1", "-o", &to]).status.success());
    fs::write(&file, sender.join().unwrap()).unwrap();
    assert!(read(&file, None).0.len() > 50);
    load.wait().unwrap();
}

#[test]
fn requests_are_attributed_by_process_and_the_rest_is_unattributed() {
    let (device, folder) = (Loop::new(64), tempfile::tempdir().unwrap());
    let trace = folder.path().join("x.parquet");
    let capture = Running::begin(&[
        "capture",
        "block",
        device.str(),
        "--vm-by",
        "process",
        "-o",
        text(&trace),
        "--output-format",
        "json",
    ]);
    // A program under qemu's name, with libvirt's arguments.
    need("fio", "fio");
    let mut guest = Command::new("fio");
    guest.arg0("/usr/bin/qemu-system-x86_64").args(["-name", "guest=web,debug-threads=on", "--filename"]);
    guest.args([device.str(), "--direct=1", "--rw=randread", "--bs=4k", "--thread"]);
    // It must still run when it is identified, a tenth of a second after its first request.
    guest.args(["--rate_iops=500", "--runtime=1", "--time_based"]);
    let output = guest.output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    // Kernel threads write the page cache back.
    run("dd", &["if=/dev/zero", &format!("of={}", device.str()), "bs=64k", "count=64"]);
    run("sync", &[]);
    let output = capture.interrupt();
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let (records, _, meta) = read(&trace, None);
    let web = meta.vms.iter().position(|name| name == "web").unwrap();
    assert!(records.iter().filter(|record| usize::from(record.request.vm.0) == web).count() > 300);
    let files =
        |of: &str| serde_json::from_str::<Vec<String>>(&meta.provenance[&format!("capture.files.{of}")]).unwrap();
    assert_eq!(files("web"), [device.str()]);
    assert_eq!(files(&device.name()), [text(&device.folder.path().join("image"))]);
    let share = summary["unattributed_share"].as_f64().unwrap();
    assert!((0.0..0.9).contains(&share), "{summary}");
}

#[test]
fn kernels_tracer_is_refused_when_busy_and_restored_after_use() {
    let _one = TRACER.lock().unwrap();
    let (device, folder) = (Loop::new(64), tempfile::tempdir().unwrap());
    let trace = folder.path().join("x.parquet");
    let arguments = ["capture", "block", device.str(), "-w", "2", "--backend", "blk-tracer", "-o", text(&trace)];
    let tracer = Path::new(TRACEFS).join("current_tracer");
    let now = || fs::read_to_string(&tracer).unwrap().trim().to_owned();
    assert_eq!(now(), "nop", "another program uses the kernel's tracer");
    fs::write(&tracer, "blk").unwrap();
    let refused = ran(&arguments);
    fs::write(&tracer, "nop").unwrap();
    assert!(errors(&refused).contains("the tracer `blk` is in use by another program"), "{}", errors(&refused));
    let options = ["trace_clock", "options/bin", "options/context-info", "options/blk_classic", "options/overwrite"];
    let settings = || options.map(|name| fs::read_to_string(Path::new(TRACEFS).join(name)).unwrap());
    let before = settings();
    let mut load = fio(&device, 5, &["--rate_iops=1000"]).spawn().unwrap();
    let output = ran(&arguments);
    assert!(output.status.success(), "{}", errors(&output));
    let (records, losses, _) = read(&trace, None);
    assert!(records.len() > 1_500 && losses.total() == 0, "{} {losses:?}", records.len());
    assert!(records[100..records.len() - 100].iter().all(|record| record.observed.completed.is_some()));
    assert_eq!((now(), settings()), ("nop".to_owned(), before.clone()));
    // After a kill the supervisor restores it.
    let mut killed = iocast().args(arguments).arg("--force").spawn().unwrap();
    until("the tracer is on", || now() == "blk");
    killed.kill().unwrap();
    killed.wait().unwrap();
    until("the tracer is off", || now() == "nop" && settings() == before);
    load.wait().unwrap();
}

#[test]
fn cleanup_removes_instances_of_ended_captures_and_keeps_those_of_running_ones() {
    let (device, folder) = (Loop::new(64), tempfile::tempdir().unwrap());
    let left = Path::new(TRACEFS).join("instances/iocast-4194303.1");
    fs::create_dir(&left).unwrap();
    let trace = folder.path().join("x.parquet");
    let capture = Running::begin(&["capture", "block", device.str(), "-o", text(&trace)]);
    let output = ran(&["capture", "cleanup", "--output-format", "json"]);
    assert!(output.status.success(), "{}", errors(&output));
    assert!(!left.exists());
    let lives = |pid: u32| instances().iter().any(|path| is_of(path, pid));
    assert!(lives(capture.pid()));
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |path: &str| said["found"].as_array().unwrap().iter().find(|row| row["path"] == path).cloned();
    assert_eq!(of(text(&left)).unwrap()["removed"], true);
    let pid = capture.pid();
    // An interrupt is the way to end a capture without a time limit, and cuts one with a limit short.
    assert_eq!(capture.interrupt().status.code(), Some(0));
    assert!(!lives(pid));
    let limited = folder.path().join("y.parquet");
    let limited = Running::begin(&["capture", "block", device.str(), "-w", "60", "-o", text(&limited)]);
    assert_eq!(limited.interrupt().status.code(), Some(130));
}

#[test]
fn decisions_are_recorded_with_their_scheduler_and_queue() {
    let (device, folder) = (Loop::new(256), tempfile::tempdir().unwrap());
    device.set("scheduler", "none");
    device.set("nr_requests", "4");
    device.set("scheduler", "mq-deadline");
    let stem = folder.path().join("dd");
    let capture = Running::begin(&["capture", "decisions", device.str(), "-o", text(&stem)]);
    assert!(fio(&device, 2, &["--iodepth=32", "--rate_iops=5000"]).status().unwrap().success());
    let output = capture.interrupt();
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    let queue: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path().join("dd.queue.json")).unwrap()).unwrap();
    assert_eq!(queue["scheduler"], "mq-deadline");
    assert!(queue["tunables"]["fifo_batch"].is_string() && queue["nr_tags"].is_u64(), "{queue}");
    let judged = ran(&["validate", "decisions", text(&stem), "--scheduler", "mq-deadline", "--output-format", "json"]);
    assert!(judged.status.success(), "{}", errors(&judged));
    let judged: serde_json::Value = serde_json::from_slice(&judged.stdout).unwrap();
    eprintln!("{} of {} decisions agree", judged["agreed"], judged["decisions"]);
    assert!(judged["decisions"].as_u64().unwrap() > 0, "{judged}");
}

#[test]
fn missing_permission_is_reported_with_a_remedy() {
    let (device, folder) = (Loop::new(64), tempfile::tempdir().unwrap());
    need("setpriv", "util-linux");
    let program = iocast().get_program().to_owned();
    // A copy that every user can run.
    let copy = folder.path().join("iocast");
    fs::copy(&program, &copy).unwrap();
    run("chmod", &["-R", "a+rx", text(folder.path())]);
    let mut nobody = Command::new("setpriv");
    nobody.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&copy);
    let output = nobody.args(["capture", "block", device.str(), "-w", "1", "-o", "-"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains("run as root, or with CAP_DAC_OVERRIDE and CAP_SYS_ADMIN"), "{}", errors(&output));
    let script = format!("umount -a -t tracefs; exec {} capture block {} -w 1 -o -", text(&copy), device.str());
    let output = Command::new("unshare").args(["--mount", "sh", "-c", &script]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains("tracefs is not mounted: mount -t tracefs"), "{}", errors(&output));
    let output = ran(&["capture", "block", "/dev/null", "-w", "1"]);
    assert!(errors(&output).contains("/dev/null: this is no block device"), "{}", errors(&output));
}
