//! A VM of the lab that runs FileBench: needs root and what `live_lab.rs` needs. `make test-full` runs it.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::path::Path;
use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

/// One VM that runs a FileBench personality, on a SCSI disk.
const PLAN: &str = r#"
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

fn lab(folder: &Path, path: Option<&str>, arguments: &[&str]) -> Output {
    std::fs::write(folder.join("plan.toml"), PLAN).unwrap();
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

#[test]
fn filebench_lays_out_its_files_before_the_run_and_its_summary_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("small.f"), PERSONALITY).unwrap();
    let without = lab(folder.path(), None, &["-o", "out"]);
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
    let output = lab(folder.path(), Some(&path), &["-o", "out", "--output-format", "json"]);
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
