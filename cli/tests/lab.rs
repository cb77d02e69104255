//! The lab with real VMs: needs root, QEMU and the other programs that the Makefile's `tools` installs. The first run
//! downloads the packages of the image that VMs boot. `make test-full` runs it; `live_lab.rs` has what boots no VM.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod lab_folder;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lab_folder::{PLAN, lab, lab_of};
use serde_json::Value;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Processes that run in `folder` or mention it: their places in /proc and command lines.
fn processes_about(folder: &Path) -> Vec<(PathBuf, String)> {
    let about = |process: PathBuf| {
        let line = String::from_utf8_lossy(&std::fs::read(process.join("cmdline")).ok()?).replace('\0', " ");
        let within = std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder));
        (within || line.contains(&folder.display().to_string())).then_some((process, line))
    };
    std::fs::read_dir("/proc").unwrap().filter_map(|entry| about(entry.ok()?.path())).collect()
}

/// Collects the last status of every QEMU that runs in `folder`, until `ended`.
fn statuses_of_qemu(folder: &Path, ended: &AtomicBool) -> BTreeMap<PathBuf, String> {
    let mut statuses = BTreeMap::new();
    while !ended.load(Ordering::Relaxed) {
        for (process, line) in processes_about(folder) {
            let status = std::fs::read_to_string(process.join("status")).unwrap_or_default();
            if line.starts_with("qemu-system-x86_64 ") && !status.is_empty() {
                statuses.insert(process, status);
            }
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    statuses
}

/// QEMU is nobody, can do nothing that only root can, and calls only what its filter lets it.
fn is_unprivileged(status: &str) -> bool {
    let lines: Vec<Vec<&str>> = status.lines().map(|line| line.split_whitespace().collect()).collect();
    let of = |name: &str| lines.iter().find(|words| words.first() == Some(&name)).map(|words| words[1..].to_vec());
    let none = Some(vec!["0000000000000000"]);
    ["Uid:", "Gid:"].iter().all(|id| of(id) == Some(vec!["65534"; 4]))
        && ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"].iter().all(|set| of(set) == none)
        && of("NoNewPrivs:") == Some(vec!["1"])
        && of("Seccomp:") == Some(vec!["2"])
}

#[test]
fn guest_wire_and_drive_record_the_same_requests() {
    let folder = tempfile::tempdir().unwrap();
    let ended = AtomicBool::new(false);
    let (output, statuses) = std::thread::scope(|scope| {
        let watch = scope.spawn(|| statuses_of_qemu(folder.path(), &ended));
        let output = lab(folder.path(), None, &["-o", "out", "--output-format", "json"]);
        ended.store(true, Ordering::Relaxed);
        (output, watch.join().unwrap())
    });
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(statuses.len() >= 4 && statuses.values().all(|status| is_unprivileged(status)), "{statuses:?}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let stored: Value = serde_json::from_slice(&std::fs::read(folder.path().join("out/lab.json")).unwrap()).unwrap();
    assert_eq!(found, stored);
    let runs = found["runs"].as_array().unwrap();
    let groups: Vec<&str> = runs.iter().map(|run| run["group"].as_str().unwrap()).collect();
    assert_eq!(groups, ["alone-mail", "alone-web", "together-mail-web"]);
    for (run, vm) in runs.iter().flat_map(|run| run["vms"].as_array().unwrap().iter().map(move |vm| (run, vm))) {
        // The drive served about as many requests as the guest sent, and never took longer than the guest measured.
        for operation in ["reads", "writes"] {
            let (guest, drive) = (&vm["guest"][operation], &vm["drive"][operation]);
            assert!(number(&guest["requests"]) > 50.0, "{operation} of {vm}");
            let served = number(&drive["requests"]) / number(&guest["requests"]);
            assert!((0.5..=1.1).contains(&served), "{operation}: {served} of the guest's requests in {run}");
            assert!(number(&drive["mean_response_ns"]) < number(&guest["mean_response_ns"]), "{operation} of {vm}");
        }
        // A read of the Cheetah takes milliseconds.
        assert!(number(&vm["drive"]["reads"]["mean_response_ns"]) > 2e6, "{vm}");
        // Tracepoints, recorded by iocast in the guest, and blktrace agree on requests and times. blktrace began some
        // seconds before.
        let tracefs = &vm["tracefs"];
        let requests = number(&tracefs["input_requests"]);
        assert!(requests > 100.0 && tracefs["longest_run"] == tracefs["input_requests"], "{tracefs}");
        assert!(number(&tracefs["unmatched_reference"]) < 0.05 * requests, "{tracefs}");
        assert!(number(&tracefs["residual_p95_ns"]) < 1e6, "{tracefs}");
        assert!(vm["recorder_cpu_ns"]["iocast"].is_u64() && vm["recorder_cpu_ns"]["blktrace"].is_u64(), "{vm}");
        let wire = &vm["wire"];
        if vm["vm"] == "mail" {
            // All requests that the guest issued are on the wire in the same order without others between, and take
            // longer in the guest.
            let issued = number(&wire["input_requests"]);
            assert!(issued > 100.0 && wire["longest_run"] == wire["input_requests"], "{wire}");
            assert!(number(&wire["nested"]) > 0.95 * issued, "{wire}");
        } else {
            assert!(wire.is_null());
        }
    }
    // Together both VMs wait longer at the drive than alone.
    let response = |run: usize, vm: usize| number(&runs[run]["vms"][vm]["drive"]["reads"]["mean_response_ns"]);
    assert!(response(2, 0) > 1.2 * response(0, 0), "{} against {}", response(2, 0), response(0, 0));
    assert!(response(2, 1) > 1.2 * response(1, 0), "{} against {}", response(2, 1), response(1, 0));
    // All files exist, and no process is left.
    for file in [
        "mail.parquet",
        "web.parquet",
        "lun.parquet",
        "lun.json",
        "wire.parquet",
        "mail/mail.fio.json",
        "web/console.txt",
    ] {
        assert!(folder.path().join("out/runs/together-mail-web/1").join(file).is_file(), "{file}");
    }
    for vm in ["mail", "web"] {
        read_back_what_it_wrote(&folder.path().join(format!("out/runs/together-mail-web/1/{vm}/{vm}.fio.json")));
    }
    assert_eq!(processes_about(folder.path()), Vec::new());
    // Resuming repeats no run: it ends at once with the same results.
    let on = lab(folder.path(), None, &["-o", "out", "--resume", "--output-format", "json"]);
    assert_eq!(on.stdout, output.stdout);
    // It does not resume under another plan.
    let kept = folder.path().join("out/plan.toml");
    std::fs::write(&kept, PLAN.replace("seconds = 10", "seconds = 11")).unwrap();
    let other = lab(folder.path(), None, &["-o", "out", "--resume"]);
    let said = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(other.status.code() == Some(1) && said.contains("is not this plan: name another folder"), "{said}");
    // An existing folder needs --resume.
    let again = lab(folder.path(), None, &["-o", "out"]);
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(again.status.code() == Some(2) && said.contains("out exists: --resume continues in it"), "{said}");
}

/// fio found its data again, over NBD (iSCSI's target reads the disk from there) and over vhost-user.
fn read_back_what_it_wrote(report: &Path) {
    // fio's notes on its options come before the report.
    let text = std::fs::read_to_string(report).unwrap();
    let report: Value = serde_json::from_str(&text[text.find("\n{").map_or(0, |at| at + 1)..]).unwrap();
    let jobs = report["jobs"].as_array().unwrap();
    assert!(jobs.iter().all(|job| job["error"] == 0), "{report}");
    let verified = jobs.iter().find(|job| job["jobname"] == "verify").unwrap();
    assert!(number(&verified["read"]["total_ios"]) > 50.0, "{verified}");
}

/// One VM that runs a FileBench personality, on a SCSI disk.
const FILEBENCH_PLAN: &str = r#"
seconds = 6
[lun]
drive = "cheetah-15k4"
size = "1g"
[guest]
accelerator = "tcg"
[[vm]]
name = "mail"
filebench = "small.f"
disk = "virtio-scsi"
size = "128m"
"#;
const PERSONALITY: &str = "set $dir=/mnt\ndefine fileset name=files,path=$dir,entries=20\nrun ${RUNTIME}\n";
/// Stands in for FileBench, of which Debian has no package. It creates twenty files of 64 KB, runs the personality's
/// `system` command, writes until the time is over, and prints a summary as FileBench 1.5 does.
const STAND_IN: &str = r#"#!/bin/sh
[ "$1" = -f ] || exit 2
dir=$(sed -n 's/^set $dir=//p' "$2")
for file in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do
  dd if=/dev/zero of="$dir/$file" bs=64k count=1 conv=fsync 2>/dev/null
done
sh -c "$(sed -n 's/^system "\(.*\)"$/\1/p' "$2")"
end=$(($(date +%s) + $(sed -n 's/^run //p' "$2")))
done=0
while [ "$(date +%s)" -lt "$end" ]; do
  dd if=/dev/zero of="$dir/$((done % 20))" bs=16k count=1 conv=notrunc,fsync 2>/dev/null
  done=$((done + 1))
done
echo "7.010: IO Summary: $done ops $((done / 6)).000 ops/s 0/$((done / 6)) rd/wr   0.3mb/s 50.500ms/op"
"#;

#[test]
fn filebench_lays_out_its_files_before_the_run_and_its_summary_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("small.f"), PERSONALITY).unwrap();
    let without = lab_of(FILEBENCH_PLAN, folder.path(), None, &["-o", "out"]);
    let said = String::from_utf8_lossy(&without.stderr).into_owned();
    assert!(
        said.contains("lacks:\n  filebench: not installed: Debian has no package of it; build it from its sources"),
        "{said}"
    );
    assert!(without.status.code() == Some(1) && !folder.path().join("out").exists());
    let programs = folder.path().join("bin");
    std::fs::create_dir(&programs).unwrap();
    std::fs::write(programs.join("filebench"), STAND_IN).unwrap();
    std::fs::set_permissions(programs.join("filebench"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let output =
        lab_of(FILEBENCH_PLAN, folder.path(), Some(Path::new(&path)), &["-o", "out", "--output-format", "json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let vm = &found["runs"][0]["vms"][0];
    let run = folder.path().join("out/runs/alone-mail/1");
    let printed = std::fs::read_to_string(run.join("mail/mail.filebench.txt")).unwrap();
    let operations: f64 = printed.split_whitespace().nth(3).unwrap().parse().unwrap();
    assert!(operations > 5.0 && number(&vm["filebench"]["operations"]) == operations, "{printed}: {vm}");
    assert_eq!(
        (number(&vm["filebench"]["bytes_per_s"]), number(&vm["filebench"]["mean_latency_ns"])),
        (314_572.8, 5.05e7)
    );
    // Each operation is on the disk when it is complete.
    let written = number(&vm["guest"]["writes"]["bytes"]);
    assert!(written >= (operations - 1.0) * 16384.0, "{written} bytes of {operations} writes");
    // The drive also received the writes of the layout, which no figure includes.
    let mut drive = traces::formats::open(&run.join("lun.parquet"), &traces::trace::ReadOptions::default()).unwrap();
    let mut sectors = 0;
    while let Some(record) = drive.next().unwrap() {
        sectors +=
            if record.request.operation == traces::Operation::Write { record.request.sectors().count() } else { 0 };
    }
    let beside = sectors as f64 * 512.0 - number(&vm["drive"]["writes"]["bytes"]);
    assert!(beside >= 20.0 * 65536.0, "{beside} bytes were written outside the run");
}
