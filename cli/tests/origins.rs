//! Results, logs and traces name the files that they come from without the folders of the host.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod program;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use program::{iocast, sample};

/// Copies of a sample and of a drive's profile in a folder whose name must not be told.
fn private_files(folder: &Path) -> [String; 2] {
    let path = |name: &str| folder.join(name).display().to_string();
    let (trace, profile) = (path("mail.parquet"), path("disk.toml"));
    fs::copy(sample("mail.parquet"), &trace).unwrap();
    fs::copy("../drive-models/profiles/cheetah-9lp.toml", &profile).unwrap();
    [trace, profile]
}

#[test]
fn results_name_files_without_folders() {
    let folder = tempfile::Builder::new().prefix("alices-secret-").tempdir().unwrap();
    let [trace, profile] = private_files(folder.path());
    let throttle = format!("throttle:virtual={profile},k=2");
    let short = ["--output-format=json", "--end=2s"];
    for arguments in [
        &["stat", &trace, short[0]][..],
        &["compare", &trace, "--drive", &profile, "--schedulers", "fifo", short[0], short[1]],
        &["compare", &trace, "--drive", &throttle, "--schedulers", "fifo", short[0], short[1]],
        &["predict", &trace, &format!("other={trace}"), "--predictors", "isolation", short[0]],
        &["validate", "closed", &trace, "--drive", &profile, short[0]],
        &["calibrate", "--drive", &profile, "--reads", "500", "--models", "fixed", short[0]],
    ] {
        // A calibration writes its files where it runs.
        let assert = iocast().args(arguments).current_dir(folder.path()).assert().success();
        let result = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
        assert!(!result.contains("alices-secret"), "{arguments:?}: {result}");
        assert!(result.contains("mail.parquet") || result.contains("disk.toml"), "{arguments:?}: {result}");
    }
}

#[test]
fn the_log_and_the_report_of_a_served_drive_name_its_image_without_folders() {
    let folder = tempfile::Builder::new().prefix("alices-secret-").tempdir().unwrap();
    let [_, profile] = private_files(folder.path());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (log, report) = (path("lun.parquet"), path("lun.json"));
    let mut server = std::process::Command::new(env!("CARGO_BIN_EXE_iocast"))
        .args(["serve", "--drive", &profile, "--image", &path("lun.img"), "--create", "8m"])
        .args(["--listen", &format!("unix:{}", path("socket")), "--log", &log, "--report", &report])
        .args(["--urgency", "normal"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(server.stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("serving")));
    // Safe: the process is a child that has not been waited for.
    rustix::process::kill_process(rustix::process::Pid::from_child(&server), rustix::process::Signal::TERM).unwrap();
    said.for_each(drop);
    assert!(server.wait().unwrap().success());
    let (report, log) = (fs::read_to_string(report).unwrap(), fs::read(log).unwrap());
    let log = String::from_utf8_lossy(&log);
    for text in [&*report, &*log] {
        assert!(text.contains("lun.img") && text.contains("disk.toml"), "{text}");
        assert!(!text.contains("alices-secret"), "{text}");
    }
    let statistics = iocast().args(["stat", &path("lun.parquet")]).output().unwrap();
    assert!(statistics.status.success(), "{}", String::from_utf8_lossy(&statistics.stderr));
}
