//! A folder with a plan of the lab and fio's job, and the lab that runs it.

use std::path::Path;
use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;

/// Two VMs, one on an iSCSI disk and one on a virtio disk, with files that are prepared quickly.
pub const PLAN: &str = r#"
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
pub const JOB: &str = "
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

pub fn lab(folder: &Path, path: Option<&Path>, arguments: &[&str]) -> Output {
    lab_of(PLAN, folder, path, arguments)
}

pub fn lab_of(plan: &str, folder: &Path, path: Option<&Path>, arguments: &[&str]) -> Output {
    std::fs::write(folder.join("plan.toml"), plan).unwrap();
    std::fs::write(folder.join("small.fio"), JOB).unwrap();
    let mut command = Command::new(cargo_bin("iocast"));
    command.current_dir(folder).args(["capture", "lab", "plan.toml"]).args(arguments);
    command.arg("--cache").arg(concat!(env!("CARGO_TARGET_TMPDIR"), "/lab"));
    if let Some(path) = path {
        command.env("PATH", path);
    }
    command.output().unwrap()
}
