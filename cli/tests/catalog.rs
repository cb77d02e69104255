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
/// A second of a trace's clock.
const SECOND: u64 = 1_000_000_000;
const DAY_S: u64 = 86_400;

/// Requests of a server: the second after [`BEFORE_MIDNIGHT`], and the disk. Disk 0 reads, the others write.
fn requests(path: &Path, host: &str, requests: impl IntoIterator<Item = (u64, u64)>) -> String {
    let line = |(second, disk): (u64, u64)| {
        let (time, kind) = (BEFORE_MIDNIGHT + second * 10_000_000, if disk == 0 { "Read" } else { "Write" });
        format!("{time},{host},{disk},{kind},{},4096,1000\n", second * 8192)
    };
    fs::write(path, requests.into_iter().map(line).collect::<String>()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Two disks of a server over midnight: a request of each every second, then one two days later. The second disk begins
/// a second later.
fn msr(folder: &Path, host: &str) -> String {
    let seconds = [0, 1, 2, 3, 172_800];
    let both = seconds.into_iter().flat_map(|second| [(second, 0), (second + 1, 1)]);
    requests(&folder.join("left.csv"), host, both)
}

/// The arrivals of a trace of a catalogue in seconds, by its own clock.
fn arrivals(path: &Path) -> Vec<u64> {
    let csv = path.with_extension("csv");
    stdout(&["convert", path.to_str().unwrap(), csv.to_str().unwrap(), "--force"]);
    let text = fs::read_to_string(&csv).unwrap();
    fs::remove_file(csv).unwrap();
    let of = |line: &str| line.split(',').next().unwrap().parse::<u64>().unwrap();
    text.lines().skip(1).map(of).inspect(|time| assert_eq!(time % SECOND, 0)).map(|time| time / SECOND).collect()
}

/// All that stands in a catalogue, by the files' paths in it.
fn content(catalog: &str) -> BTreeMap<String, Vec<u8>> {
    let bytes = |path: &String| fs::read(Path::new(catalog).join(path)).unwrap();
    files(Path::new(catalog)).into_iter().map(|path| (path.clone(), bytes(&path))).collect()
}

/// Refuses names in the paths and bytes of a catalogue.
fn assert_holds_none(catalog: &str, names: &[&str]) {
    for (path, bytes) in content(catalog) {
        for name in names {
            let is_in = bytes.windows(name.len()).any(|bytes| bytes == name.as_bytes());
            assert!(!path.contains(name) && !is_in, "{name} in {path}");
        }
    }
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
    assert!(code == 2 && said.contains("reads each trace several times"), "{said}");
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
        // Both clocks begin with the first request of the trace.
        let one = json(&["stat", &format!("{catalog}/{path}")]);
        assert_eq!(one["trace"]["clock"]["zero_unix_ns"], Value::Null);
        let later = u64::from(!one["arrivals"]["write"].is_null());
        let expected = [0, 1, 2, 3, 172_800].map(|second| second + later);
        assert_eq!(arrivals(&Path::new(&catalog).join(path)), expected);
    }
    assert_holds_none(&catalog, &["secretive", "hidden", "left", "2026"]);
    let (code, said) =
        failure(&["convert", &trace, "--catalog", &catalog, "--anonymise", &key, "--date", "2026-11-22"]);
    assert!(code == 2 && said.contains("cannot be used with"), "{said}");
}

#[test]
fn names_of_the_command_line_are_pseudonyms_in_an_anonymous_catalogue() {
    let folder = Folder::new();
    let (trace, mail) = (msr(folder.0.path(), "secretive"), sample("mail.parquet"));
    let (catalog, key) = (folder.name("fleet"), folder.name("key"));
    fs::write(&key, "0123456789abcdef").unwrap();
    let notes = ["host=hidden", "hostname=covert", "device=unseen", "vm=veiled", "kernel=6.1-of-mine"];
    let notes = notes.iter().flat_map(|note| ["--provenance", note]);
    let arguments = ["convert", &trace, &mail, "--catalog", &catalog, "--anonymise", &key];
    stdout(&arguments.into_iter().chain(notes).collect::<Vec<_>>());
    assert_eq!(files(Path::new(&catalog)).len(), 3);
    assert_holds_none(&catalog, &["hidden", "covert", "unseen", "veiled", "secretive", "mail"]);
    for (path, bytes) in content(&catalog) {
        // The folders' names are those of the metadata; other notes are written as they are given.
        let text = String::from_utf8_lossy(&bytes);
        let (host, _) = path.strip_prefix("host=").unwrap().split_once('/').unwrap();
        assert!(host.starts_with("host-") && text.contains(host) && text.contains("6.1-of-mine"), "{path}");
    }
}

#[test]
fn a_key_from_standard_input_serves_all_traces() {
    let folder = Folder::new();
    let (mail, web, key) = (sample("mail.parquet"), sample("web.parquet"), folder.name("key"));
    fs::write(&key, "0123456789abcdef").unwrap();
    let convert = |key: &str, catalog: &str| {
        let mut command = iocast();
        command.args(["convert", &mail, &web, "--catalog", catalog, "--limit", "99", "--anonymise", key]);
        command.write_stdin("0123456789abcdef").assert().success();
        content(catalog)
    };
    let of_file = convert(&key, &folder.name("file"));
    assert_eq!(of_file.len(), 2);
    assert_eq!(convert("-", &folder.name("input")), of_file);
}

#[test]
fn only_days_with_requests_are_files() {
    let folder = Folder::new();
    let catalog = folder.name("fleet");
    let thirty_years = 10_958 * DAY_S;
    let sparse = requests(&folder.path("sparse.csv"), "h", [(0, 0), (5, 0), (thirty_years, 0)]);
    stdout(&["convert", &sparse, "--catalog", &catalog]);
    let days = ["2026-11-22", "2026-11-23", "2056-11-22"].map(|day| {
        let device = "host=__HIVE_DEFAULT_PARTITION__/device=h.0";
        format!("{device}/date={day}/sparse.parquet")
    });
    let hosts: Vec<String> = files(Path::new(&catalog));
    assert_eq!(hosts, days);

    let daily = requests(&folder.path("daily.csv"), "h", (0..=10_000).map(|day| (day * DAY_S, 0)));
    let (_, said) = failure(&["convert", &daily, "--catalog", &folder.name("daily")]);
    assert!(said.contains("daily.csv: it would become more than 10000 files"), "{said}");
    assert!(!folder.path("daily").exists());
}

#[test]
fn no_partition_has_an_empty_name() {
    let scratch = tempfile::tempdir().unwrap();
    let catalog = scratch.path().join("fleet").display().to_string();
    let mail = sample("mail.parquet");
    let convert = ["convert", &mail, "--catalog", &catalog];
    for option in ["--host", "--device-name"] {
        let (code, error) = failure(&[&convert[..], &[option, ""]].concat());
        assert!(code == 2 && error.contains("a value is required"), "{error}");
    }
    let given = ["--provenance", "host=", "--provenance", "device=", "--host", "one", "--device-name", "sda"];
    stdout(&[&convert[..], &given].concat());
    assert!(scratch.path().join("fleet/host=one/device=sda").is_dir());
}

#[test]
fn a_name_that_is_too_long_is_found_before_anything_is_written() {
    let folder = Folder::new();
    let catalog = folder.name("fleet");
    // Each `+` is three letters of a name.
    let long = requests(&folder.path(&format!("{}.csv", "+".repeat(83))), "h", [(0, 0)]);
    let (_, said) = failure(&["convert", &msr(folder.0.path(), "h"), &long, "--catalog", &catalog]);
    assert!(said.contains("++.csv: ") && said.contains("257 bytes") && said.contains("rename"), "{said}");
    assert!(!Path::new(&catalog).exists());
    let fits = requests(&folder.path(&format!("{}.csv", "+".repeat(82))), "h", [(0, 0)]);
    stdout(&["convert", &fits, "--catalog", &catalog]);
    assert_eq!(files(Path::new(&catalog)).len(), 1);
}

#[test]
fn more_devices_than_are_written_in_one_pass_are_all_written() {
    let folder = Folder::new();
    let catalog = folder.name("fleet");
    let both = (0..33).map(|disk| (disk, disk)).chain((0..33).map(|disk| (100 + disk, disk)));
    let trace = requests(&folder.path("many.csv"), "h", both);
    stdout(&["convert", &trace, "--catalog", &catalog, "--host", "h"]);
    for disk in 0..33 {
        let paths = ["2026-11-22", "2026-11-23"].map(|day| format!("host=h/device=h.{disk}/date={day}/many.parquet"));
        let paths = paths.map(|path| Path::new(&catalog).join(path));
        let found: Vec<u64> = paths.iter().filter(|path| path.exists()).flat_map(|path| arrivals(path)).collect();
        assert_eq!(found, [disk, 100 + disk]);
    }
    let sums = json(&["stat", "--catalog", &catalog]);
    assert_eq!((&sums["total"]["requests"], &sums["total"]["traces"]), (&66.into(), &35.into()));

    // The first request is of the last device, which is written last, and all clocks begin with it.
    let (anonymous, key) = (folder.name("anonymous"), folder.name("key"));
    fs::write(&key, "0123456789abcdef").unwrap();
    stdout(&["convert", &trace, "--catalog", &anonymous, "--anonymise", &key, "--start", "32s"]);
    let mut found: Vec<Vec<u64>> =
        files(Path::new(&anonymous)).iter().map(|path| arrivals(&Path::new(&anonymous).join(path))).collect();
    found.sort();
    let expected: Vec<Vec<u64>> = [vec![0, 100]].into_iter().chain((0..32).map(|disk| vec![68 + disk])).collect();
    assert_eq!(found, expected);
}

#[test]
fn what_has_no_effect_is_said() {
    let folder = Folder::new();
    let catalog = folder.name("fleet");
    let trace = msr(folder.0.path(), "h");
    let output = iocast().args(["convert", &trace, "--catalog", &catalog, "--start", "90h"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("left.csv: no request lies in the window of --start, --end and --limit"), "{said}");
    assert!(!Path::new(&catalog).exists());
    stdout(&["convert", &trace, "--catalog", &catalog]);
    let (code, said) = failure(&["stat", "--catalog", &catalog, "--top", "5"]);
    assert!(code == 2 && said.contains("'--catalog' cannot be used with '--top <N>'"), "{said}");
    // A folder of this host is no part of the result.
    assert_eq!(json(&["stat", "--catalog", &catalog])["catalog"], "fleet");
    let page = folder.name("page.html");
    stdout(&["stat", "--catalog", &catalog, "--report", &page]);
    let text = stdout(&["stat", "--catalog", &catalog, "--date", "2026-11-24", "--device", "h.0"]);
    for text in [fs::read_to_string(&page).unwrap(), text.clone()] {
        assert!(text.contains("fleet") && !text.contains(&catalog), "{text}");
    }
    assert!(text.contains("fleet: 1 trace in 1 partition\n"), "{text}");
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
