//! `iocast validate guest` with real VMs: needs root, QEMU and the other programs that the Makefile's `tools` installs.
//! `make test-full` runs it.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::path::Path;
use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

const PLAN: &str = r#"
seconds = 6
warm_up_seconds = 2
repetitions = 2
[lun]
drive = "cheetah-15k4-mechanical"
size = "1g"
[guest]
accelerator = "tcg"
queue_depth = 2
[[vm]]
name = "reads"
workload = "reads.fio"
disk = "virtio"
size = "128m"
"#;
const JOB: &str = "
[reads]
ioengine=psync
directory=.
time_based=1
runtime=${RUNTIME}
randseed=${SEED}
allrandrepeat=1
filename=pages
size=64m
rw=randread
direct=1
bs=4k
numjobs=3
";

fn validate(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(cargo_bin("iocast"));
    command.current_dir(folder).args(["validate", "guest"]).args(arguments).args(["--output-format", "json"]);
    command.arg("--cache").arg(concat!(env!("CARGO_TARGET_TMPDIR"), "/lab")).output().unwrap()
}

#[test]
fn runs_under_two_kernel_schedulers_stand_beside_the_simulation_of_one_capture() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("plan.toml"), PLAN).unwrap();
    std::fs::write(folder.path().join("reads.fio"), JOB).unwrap();
    let output = validate(folder.path(), &["plan.toml", "--schedulers", "none,kyber", "-o", "out"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let out = folder.path().join("out");
    for (lab, scheduler) in [("capture", "none"), ("none", "none"), ("kyber", "kyber")] {
        let queue = std::fs::read_to_string(out.join(lab).join("runs/alone-reads/1/reads/queue.txt")).unwrap();
        assert!(queue.contains(&format!("[{scheduler}]")), "{lab}: {queue}");
    }
    // Random reads of a drive that is never idle: 2 to 10 ms each, whoever chooses.
    let rate = &found["vms"][0]["figures"][1];
    assert_eq!(rate["figure"], "requests_per_s");
    for of in rate["schedulers"].as_array().unwrap() {
        let measured: Vec<f64> =
            of["measured"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
        assert!(measured.len() == 2 && measured.iter().all(|rate| (100.0..500.0).contains(rate)), "{of}");
        let simulated = of["simulated"].as_f64().unwrap() / of["measured_mean"].as_f64().unwrap();
        assert!((0.7..1.4).contains(&simulated), "{of}");
    }
    // The capture is no run of the comparison, and it is twice as long.
    let records = |path: &str| {
        let mut reader = traces::formats::open(&out.join(path), &traces::trace::ReadOptions::default()).unwrap();
        let mut count = 0;
        while reader.next().unwrap().is_some() {
            count += 1;
        }
        count
    };
    let captured = records("capture/runs/alone-reads/1/reads.parquet");
    assert!(captured * 2 > 3 * records("none/runs/alone-reads/1/reads.parquet"), "{captured}");
    // The folder alone, and a run that continues in it, give the same result without another VM.
    assert_eq!(validate(folder.path(), &["out"]).stdout, output.stdout);
    let resumed = validate(folder.path(), &["plan.toml", "--schedulers", "none,kyber", "-o", "out", "--resume"]);
    assert_eq!(resumed.stdout, output.stdout, "{}", String::from_utf8_lossy(&resumed.stderr));
    let again = validate(folder.path(), &["plan.toml", "-o", "out"]);
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(again.status.code() == Some(2) && said.contains("out exists: --resume continues in it"), "{said}");
}
