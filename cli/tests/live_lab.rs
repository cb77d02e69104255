//! The lab with real VMs: needs root, QEMU and the other programs that the Makefile's `tools` installs. The first run
//! downloads the packages of the image that VMs boot. `make live` runs it.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

/// Two VMs, one on an iSCSI disk and one on a virtio disk, with files that are prepared quickly.
const PLAN: &str = r#"
seconds = 10
warm_up_seconds = 3
together = "all"
[lun]
drive = "cheetah-15k4"
size = "4g"
[guest]
accelerator = "tcg"
scheduler = "mq-deadline"
memory = "1g"
tracefs = true
[[vm]]
name = "mail"
workload = "small.fio"
disk = "iscsi"
size = "256m"
[[vm]]
name = "web"
workload = "small.fio"
disk = "virtio"
size = "256m"
"#;

/// Reads that bypass the page cache, durable writes, and writes that fio reads again and verifies.
const JOB: &str = "
[global]
ioengine=psync
directory=.
time_based=1
runtime=${RUNTIME}
randseed=${SEED}
allrandrepeat=1
size=48m
[read]
rw=randread
direct=1
bs=4k
numjobs=3
[log]
rw=write
bs=8k
fdatasync=1
thinktime=20000
[verify]
rw=randwrite
direct=1
bs=4k
size=256k
verify=crc32c
verify_backlog=8
verify_fatal=1
";

fn lab(folder: &Path, path: Option<&Path>, arguments: &[&str]) -> Output {
    std::fs::write(folder.join("plan.toml"), PLAN).unwrap();
    std::fs::write(folder.join("small.fio"), JOB).unwrap();
    let mut command = Command::new(cargo_bin("iocast"));
    command.current_dir(folder).args(["capture", "lab", "plan.toml"]).args(arguments);
    command.arg("--cache").arg(concat!(env!("CARGO_TARGET_TMPDIR"), "/lab"));
    if let Some(path) = path {
        command.env("PATH", path);
    }
    command.output().unwrap()
}

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

#[test]
fn all_missing_programs_are_named_with_their_packages_before_any_run() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("bin");
    std::fs::create_dir(&empty).unwrap();
    let output = lab(folder.path(), Some(&empty), &["-o", "out"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.starts_with("iocast: capture lab cannot begin, because this host lacks:\n"), "{said}");
    for (program, package) in [("qemu-system-x86_64", "qemu-system-x86"), ("nbdfuse", "libnbd-bin"), ("tar", "tar")] {
        assert!(said.contains(&format!("\n  {program}: not installed: apt-get install {package}\n")), "{said}");
        let together = said.lines().last().unwrap();
        assert!(together.starts_with("  together: apt-get install ") && together.contains(package), "{said}");
    }
    assert!(output.status.code() == Some(1) && !folder.path().join("out").exists());
}

#[test]
fn iscsi_without_root_reports_the_missing_capabilities() {
    let folder = tempfile::tempdir().unwrap();
    // Readable by the user `nobody`, which runs the program.
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    std::fs::write(folder.path().join("plan.toml"), PLAN).unwrap();
    std::fs::write(folder.path().join("small.fio"), JOB).unwrap();
    std::fs::copy(cargo_bin("iocast"), folder.path().join("iocast")).unwrap();
    // The image is not built for this: the user is checked first.
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "./iocast", "capture", "lab", "plan.toml"]);
    let output = command.current_dir(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("\n  CAP_SYS_ADMIN: an iSCSI target"), "{said}");
    assert!(said.contains("\n  CAP_NET_RAW: packets cannot be captured: run as root"), "{said}");
}
