//! The script that records the suite, with a program in place of iocast that notes how it is called.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use iocast_capture::lab::Plan;

fn suite() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("lab/suite")
}

fn record(folder: &Path, program: &Path, drives: &[&str]) -> Output {
    let script = suite().join("record.sh");
    Command::new(script).arg(folder).args(drives).env("IOCAST", program).output().unwrap()
}

#[test]
fn drives_are_recorded_one_after_another_with_the_same_disks() {
    let folder = tempfile::tempdir().unwrap();
    let (program, results) = (folder.path().join("noted"), folder.path().join("results"));
    // It prepares a disk where there is none, as a lab does.
    let text =
        "#!/bin/sh\necho \"$@\" >>\"$0.calls\"\n[ -f \"$5/prepare/mail.img\" ] || echo new >\"$5/prepare/mail.img\"\n";
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    // The second call continues what the first began.
    for _ in 0..2 {
        let output = record(&results, &program, &["slow", "ssd"]);
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    }
    let call = |drive: &str| {
        let (plan, to) = (suite().join(drive).with_extension("toml"), results.join(drive));
        format!("capture lab {} --output {} --resume", plan.display(), to.display())
    };
    let calls = fs::read_to_string(folder.path().join("noted.calls")).unwrap();
    assert_eq!(calls.lines().collect::<Vec<_>>(), [call("slow"), call("ssd"), call("slow"), call("ssd")]);
    let disk = |drive: &str| fs::metadata(results.join(drive).join("prepare/mail.img")).unwrap().ino();
    assert_eq!(disk("slow"), disk("ssd"));

    let output = record(&results, &program, &["disk", "tape"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(2) && said.contains("there is no plan") && said.contains("tape.toml"),
        "{said}"
    );
    assert!(!results.join("disk").exists());
    let output = record(&results, &folder.path().join("nowhere"), &["disk"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("nowhere is not installed; IOCAST names"), "{said}");
    assert!(!results.join("disk").exists());
}

#[test]
fn plans_prepare_the_same_disks() {
    let read = |drive: &str| Plan::read(&suite().join(drive).with_extension("toml")).unwrap();
    // What a prepared disk depends on: the seed, and each VM's place, name, job and size.
    let disks = |plan: &Plan| {
        let vms = plan.vms.iter().map(|vm| (vm.name.clone(), vm.workload.clone(), vm.size)).collect::<Vec<_>>();
        (plan.seed, plan.seconds, plan.guest.memory, vms)
    };
    for drive in ["array", "slow", "ssd"] {
        assert_eq!(disks(&read(drive)), disks(&read("disk")), "{drive}");
    }
}
