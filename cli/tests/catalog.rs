//! Catalogues: `convert --catalog` writes them, `stat --catalog` sums them up, plans of sweeps choose traces of them.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod program;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use program::{failure, iocast, json, sample, stdout};
use serde_json::Value;

/// 2026-11-22 23:59:58 UTC in units of 100 ns since 1601.
const BEFORE_MIDNIGHT: u64 = 134_398_655_980_000_000;

/// Two disks of a server over midnight: a request of each every second, then one two days later.
fn msr(folder: &Path, host: &str) -> String {
    let mut text = String::new();
    for second in [0, 1, 2, 3, 172_800] {
        for disk in 0..2 {
            let (time, kind) = (BEFORE_MIDNIGHT + second * 10_000_000, if disk == 0 { "Read" } else { "Write" });
            text.push_str(&format!("{time},{host},{disk},{kind},{},4096,1000\n", second * 8192));
        }
    }
    let path = folder.join("left.csv");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Files below a folder, relative to it.
fn files(folder: &Path) -> Vec<String> {
    let pattern = format!("{}/**/*", glob::Pattern::escape(folder.to_str().unwrap()));
    let found = glob::glob(&pattern).unwrap().flatten().filter(|path| path.is_file());
    found.map(|path| path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned()).collect()
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn name(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }
}

#[test]
fn a_trace_is_split_by_device_and_day_and_no_request_is_lost() {
    let folder = Folder::new();
    let (trace, catalog) = (msr(folder.0.path(), "left"), folder.name("fleet"));
    let converted = ["convert", &trace, "--catalog", &catalog, "--host", "rack/7"];
    stdout(&converted);
    let days = ["2026-11-22", "2026-11-23", "2026-11-24"];
    let expected: Vec<String> = [0, 1]
        .into_iter()
        .flat_map(|disk| days.map(|day| format!("host=rack%2F7/device=left.{disk}/date={day}/left.parquet")))
        .collect();
    assert_eq!(files(Path::new(&catalog)), expected);

    let sums = json(&["stat", "--catalog", &catalog]);
    let whole = json(&["stat", &trace]);
    assert_eq!(sums["total"]["reads"], whole["arrivals"]["read"]["requests"]);
    assert_eq!(sums["total"]["write_bytes"], whole["arrivals"]["write"]["bytes"]);
    assert_eq!((&sums["total"]["requests"], &sums["total"]["traces"]), (&10.into(), &6.into()));
    for (partition, path) in sums["partitions"].as_array().unwrap().iter().zip(&expected) {
        let one = json(&["stat", &format!("{catalog}/{path}")]);
        assert_eq!((&partition["host"], &partition["requests"]), (&"rack/7".into(), &one["trace"]["requests"]));
        for (operation, requests, bytes) in [("read", "reads", "read_bytes"), ("write", "writes", "write_bytes")] {
            // `stat` leaves out operations that do not occur.
            let of = |key: &str| one["arrivals"][operation][key].as_u64().unwrap_or(0);
            assert_eq!((&partition[requests], &partition[bytes]), (&of("requests").into(), &of("bytes").into()));
        }
        // The clock is still that of the whole trace.
        assert_eq!(one["trace"]["clock"], whole["trace"]["clock"]);
        assert_eq!(one["trace"]["vm"], partition["device"]);
    }

    let before = fs::read(Path::new(&catalog).join(&expected[0])).unwrap();
    let (code, said) = failure(&converted);
    assert!(code == 2 && said.contains("exists; --force overwrites it"), "{said}");
    stdout(&[&converted[..], &["--force"]].concat());
    assert_eq!(fs::read(Path::new(&catalog).join(&expected[0])).unwrap(), before);
    // Two traces of one name would be one file.
    let (code, said) = failure(&[&converted[..3], &[&folder.name("other"), &trace]].concat());
    assert!(code == 2 && said.contains("another trace of this command has the same name"), "{said}");
    assert!(!folder.path("other").exists(), "nothing is written before all is checked");
}

#[test]
fn several_samples_are_summed_up_and_filtered() {
    let folder = Folder::new();
    let catalog = folder.name("fleet");
    let samples = ["web", "mail", "file", "oltp"].map(|name| sample(&format!("{name}.parquet")));
    let paths: Vec<&str> = samples.iter().map(String::as_str).collect();
    stdout(&[&["convert"], &paths[..], &["--catalog", &catalog, "--device-name", "vda"]].concat());
    let of = |filter: &[&str]| {
        let sums = json(&[&["stat", "--catalog", &catalog], filter].concat());
        let partitions = sums["partitions"].as_array().unwrap().clone();
        partitions.iter().map(|of| of["host"].as_str().unwrap_or("none").to_owned()).collect::<Vec<String>>()
    };
    assert_eq!(of(&[]), ["file", "mail", "oltp", "web"]);
    assert_eq!(of(&["--host", "?eb"]), ["web"]);
    assert_eq!(of(&["--date", "2026-11-22..", "--host", "[mw]*"]), ["mail", "web"]);
    let (code, said) = failure(&["stat", "--catalog", &catalog, "--date", "..2020-01-01"]);
    assert!(code == 2 && said.contains("no trace of the catalogue passes"), "{said}");
    let (code, said) = failure(&["stat", "--catalog", &catalog, "--start", "1s"]);
    assert!(code == 2 && said.contains("--start, --end and --limit has no effect"), "{said}");
    let (_, said) = failure(&["stat", "--catalog", folder.0.path().to_str().unwrap()]);
    assert!(said.contains("there is no folder host=…/device=…/date=…"), "{said}");

    let text = iocast().args(["stat", "--catalog", &catalog]).env("COLUMNS", "80").output().unwrap().stdout;
    let text = String::from_utf8(text).unwrap();
    let widest = text.lines().filter(|line| !line.contains(&catalog)).map(|line| line.chars().count()).max();
    assert!(widest.unwrap() <= 80 && text.contains("│ web") && text.contains("│ all"), "{text}");
    // The stored result has a report, too.
    fs::write(folder.path("sums.json"), stdout(&["stat", "--catalog", &catalog, "--output-format", "json"])).unwrap();
    stdout(&["report", &folder.name("sums.json"), "-o", &folder.name("sums.html")]);
    assert!(fs::read_to_string(folder.path("sums.html")).unwrap().contains("Requests by host, device and date"));
}

#[test]
fn a_trace_without_a_time_of_day_needs_a_date() {
    let folder = Folder::new();
    let trace = folder.name("..x.load");
    fs::write(&trace, "start ; sector ; length ; op ; replay_delay=0 ; replay_duration=0\n0 ; 8 ; 8 ; R ; 0 ; 0.004\n")
        .unwrap();
    let catalog = folder.name("fleet");
    let (code, said) = failure(&["convert", &trace, "--catalog", &catalog]);
    assert!(code == 2 && said.contains("..x.load") && said.contains("--date YYYY-MM-DD, or --date unknown"), "{said}");
    assert!(!Path::new(&catalog).exists());
    let (code, said) = failure(&["convert", &trace, "--catalog", &catalog, "--date", "2026-02-30"]);
    assert!(code == 2 && said.contains("expected YYYY-MM-DD"), "{said}");
    stdout(&["convert", &trace, "--catalog", &catalog, "--date", "unknown"]);
    stdout(&[
        "convert",
        &trace,
        "--catalog",
        &catalog,
        "--date",
        "2026-02-28",
        "--host",
        "..",
        "--device-name",
        "../a\nb",
    ]);
    let unknown = "__HIVE_DEFAULT_PARTITION__";
    let expected = [
        "host=%2E./device=%2E.%2Fa%0Ab/date=2026-02-28/%2E.x.parquet".to_owned(),
        format!("host={unknown}/device={unknown}/date={unknown}/%2E.x.parquet"),
    ];
    assert_eq!(files(Path::new(&catalog)), expected);
    let sums = json(&["stat", "--catalog", &catalog]);
    let names = |at: usize| ["host", "device", "date"].map(|name| sums["partitions"][at][name].clone());
    assert_eq!(names(0), [Value::Null, Value::Null, Value::Null]);
    assert_eq!(names(1), ["..", "../a\nb", "2026-02-28"].map(Value::from));
    let (code, said) = failure(&["convert", "-", "--catalog", &catalog]);
    assert!(code == 2 && said.contains("reads each trace twice"), "{said}");
}

#[test]
fn an_anonymous_catalogue_holds_no_name_and_no_date() {
    let folder = Folder::new();
    let trace = msr(folder.0.path(), "secretive");
    let (catalog, key) = (folder.name("fleet"), folder.name("key"));
    fs::write(&key, "0123456789abcdef").unwrap();
    stdout(&["convert", &trace, "--catalog", &catalog, "--host", "hidden", "--anonymise", &key]);
    let found = files(Path::new(&catalog));
    assert_eq!(found.len(), 2, "one file for each device, since there are no days: {found:?}");
    for path in &found {
        let parts: Vec<&str> = path.split('/').collect();
        assert!(parts[0].starts_with("host=host-") && parts[1].starts_with("device=vm-"), "{path}");
        assert_eq!(parts[2], "date=__HIVE_DEFAULT_PARTITION__");
        assert!(parts[3].starts_with("converted_from-"), "{path}");
        let bytes = fs::read(Path::new(&catalog).join(path)).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        for name in ["secretive", "hidden", "left", "2026"] {
            assert!(!path.contains(name) && !text.contains(name), "{name} in {path}");
        }
    }
    // Both devices begin with the first request of the trace.
    let one = json(&["stat", &format!("{catalog}/{}", found[1])]);
    assert_eq!(one["trace"]["clock"]["zero_unix_ns"], Value::Null);
    let (code, said) =
        failure(&["convert", &trace, "--catalog", &catalog, "--anonymise", &key, "--date", "2026-11-22"]);
    assert!(code == 2 && said.contains("cannot be used with"), "{said}");
}

#[test]
fn a_sweep_takes_its_traces_from_a_catalogue() {
    let folder = Folder::new();
    let samples = ["web", "mail"].map(|name| sample(&format!("{name}.parquet")));
    stdout(&["convert", &samples[0], &samples[1], "--catalog", &folder.name("fleet"), "--end", "3s"]);
    let plan = |keys: &str| {
        let text = format!("catalog = 'fleet'\n{keys}\nschedulers = ['fifo']\ndrives = ['nvme-ssd']\n");
        fs::write(folder.path("plan.toml"), text).unwrap();
        folder.name("plan.toml")
    };
    let tasks = |keys: &str, out: &str| {
        let summary = json(&["sweep", &plan(keys), "--out", &folder.name(out)]);
        assert_eq!(summary["failed"], 0);
        summary["tasks"].as_u64().unwrap()
    };
    assert_eq!(tasks("", "all"), 2);
    assert_eq!(tasks("host = 'w*'\ndate = '2026-11-01..2026-11-30'", "web"), 1);
    assert_eq!(tasks("except = ['fleet/host=web/**/*']", "mail"), 1);
    let refused = BTreeMap::from([
        ("date = '2020-*'", "line 1: no partition of the catalogue passes"),
        ("date = '2020..'", "line 2: `2020` is no date"),
        ("device = '['", "line 2: no pattern"),
    ]);
    for (keys, says) in refused {
        let (code, said) = failure(&["sweep", &plan(keys), "--out", &folder.name("none")]);
        assert!(code == 2 && said.contains(says), "{said}");
    }
    fs::write(folder.path("plan.toml"), "host = 'x'\ntraces = ['*']\nschedulers = ['fifo']\ndrives = ['nvme-ssd']\n")
        .unwrap();
    let (code, said) = failure(&["sweep", &folder.name("plan.toml"), "--out", &folder.name("none")]);
    assert!(code == 2 && said.contains("line 1: it chooses traces of a `catalog`"), "{said}");
}
