//! A folder of `iocast validate guest` as its runs would leave it: one process that reads a page, thinks 1 ms and reads
//! the next.

use std::fs;
use std::path::Path;

/// The plan: 10 s, of which 2 are not measured, on a drive that takes 4 ms for each read.
pub const PLAN: &str = r#"
seconds = 10
warm_up_seconds = 2
repetitions = 2
[lun]
drive = "linear:a=4ms,b=0ns,cache=off"
size = "1g"
[guest]
queue_depth = 4
scheduler = "none"
[[vm]]
name = "a"
workload = "oltp"
disk = "virtio"
size = "64m"
"#;

/// Writes the runs of a lab: in each, reads every `period_ms` for `seconds`, and how late the drive was at p99.
pub fn lab(folder: &Path, name: &str, runs: &[(u64, u64, u64)]) {
    let lab = folder.join(name);
    let mut listed = Vec::new();
    for (repetition, (period_ms, seconds, late_ns)) in (1..).zip(runs) {
        let run = lab.join(format!("runs/alone-a/{repetition}"));
        fs::create_dir_all(run.join("a")).unwrap();
        let mut trace = "arrival_ns,operation,lba_sectors,sectors,flags,priority,vm,stream,cpu,inserted_ns,issued_ns,\
                         completed_ns,error\n"
            .to_owned();
        for number in 0..seconds * 1000 / period_ms {
            let arrival = 7_000_000_000 + number * period_ms * 1_000_000;
            let completed = arrival + (period_ms - 1) * 1_000_000;
            let lba = number * 7_919 % 16_384 * 8;
            trace.push_str(&format!("{arrival},read,{lba},8,sync,0,0,9,0,,{arrival},{completed},0\n"));
        }
        // A reader goes by the content, not by the name.
        fs::write(run.join("a.parquet"), trace).unwrap();
        fs::write(run.join("a/queue.txt"), "scheduler [none] bfq\nrotational 1\n").unwrap();
        fs::write(run.join("lun.json"), format!(r#"{{"lateness": {{"percentiles_ns": {{"p99": {late_ns}}}}}}}"#))
            .unwrap();
        listed.push(format!(
            r#"{{"group": "alone-a", "repetition": {repetition}, "folder": "", "begun_unix_ns": 0, "vms": []}}"#
        ));
    }
    let results = format!(
        r#"{{"schema_version": 1, "program": "iocast", "drive": "x", "kernel": "6.1", "accelerator": "tcg",
            "measured_seconds": 8, "runs": [{}], "summary": []}}"#,
        listed.join(", ")
    );
    fs::write(lab.join("lab.json"), results).unwrap();
    let seconds = if name == "capture" { "seconds = 20" } else { "seconds = 10" };
    fs::write(lab.join("plan.toml"), PLAN.replace("seconds = 10", seconds)).unwrap();
}

/// The captures and two schedulers: under bfq each read took 9 ms.
pub fn folder(path: &Path) {
    fs::create_dir_all(path).unwrap();
    fs::write(path.join("plan.toml"), PLAN).unwrap();
    lab(path, "capture", &[(5, 20, 50_000)]);
    lab(path, "none", &[(5, 10, 50_000), (5, 10, 50_000)]);
    lab(path, "bfq", &[(10, 10, 50_000), (10, 10, 50_000)]);
}
