//! `iocast compare --workload` and `iocast list workloads` on the command line.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use assert_cmd::Command;
use serde_json::Value;

/// Every program, small.
const SMALL: &[&str] = &[
    "dd:size=8m",
    "iozone:size=4m,threads=2",
    "fio:size=8m,rw=randrw,iodepth=4",
    "varmail:nfiles=1000",
    "webserver:nfiles=1000",
    "fileserver:nfiles=1000",
    "surge:files=1000,directories=10,processes=5",
    "terasort:data=16m,chunk=4m,io.sort.mb=1m",
];

fn iocast() -> Command {
    let mut command = Command::cargo_bin("iocast").unwrap();
    command.env_remove("RAYON_NUM_THREADS");
    command
}

/// Standard output of a run that succeeds.
fn stdout(arguments: &[&str]) -> String {
    let assert = iocast().args(arguments).assert().success();
    String::from_utf8(assert.get_output().stdout.clone()).unwrap()
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&stdout(&[arguments, &["--output-format=json"]].concat())).unwrap()
}

/// `iocast compare` of workloads under two schedulers.
fn compare(workloads: &[&str], more: &[&str]) -> Value {
    let mut arguments = vec!["compare", "--schedulers", "fifo,deadline"];
    arguments.extend(workloads.iter().flat_map(|workload| ["--workload", workload]));
    json(&[&arguments[..], more].concat())
}

/// Exit code and standard error of a run that fails.
fn failure(arguments: &[&str]) -> (i32, String) {
    let output = iocast().args(arguments).output().unwrap();
    assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?} succeeded");
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

fn requests(figures: &Value) -> u64 {
    figures["all"]["requests"].as_u64().unwrap() + figures["other"]["requests"].as_u64().unwrap()
}

#[test]
fn every_program_runs_and_the_result_names_its_tunables() {
    let listed = json(&["list", "workloads"]);
    let programs: Vec<&Value> = listed.as_array().unwrap().iter().filter(|entry| entry["guests"].is_null()).collect();
    assert_eq!(programs.len(), SMALL.len(), "a row of the registry is not in SMALL");
    for workload in SMALL {
        let name = workload.split(':').next().unwrap();
        let program = programs.iter().find(|entry| entry["name"] == name).unwrap();
        let result = compare(&[workload], &["--limit", "300", "--guest-cache", "1m"]);
        for run in result["runs"].as_array().unwrap() {
            assert!(run["status"] == "comparable" && (1..=300).contains(&requests(run)), "{workload}: {run}");
            assert!(run["offered_load"].is_null(), "arrivals follow completions");
        }
        let provenance = &result["provenance"]["workloads"][0];
        assert_eq!((provenance["vm"].as_str(), provenance["workload"]["name"].as_str()), (Some(name), Some(*workload)));
        let settings = provenance["workload"]["settings"].as_object().unwrap();
        assert_eq!(settings.len(), program["tunables"].as_array().unwrap().len(), "{workload}");
        let (tunable, value) = workload.split_once(':').unwrap().1.split(',').next().unwrap().split_once('=').unwrap();
        assert_eq!(settings[tunable], value);
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_for_any_number_of_threads_and_another_seed_others() {
    let run = |threads: &str, seed: &str| {
        let mut command = iocast();
        command.args(["compare", "--workload", SMALL[6], "--workload", SMALL[3], "--limit", "800", "--per-vm"]);
        command.args(["--seed", seed, "--output-format", "json"]);
        let output = command.env("RAYON_NUM_THREADS", threads).output().unwrap();
        assert!(output.status.success());
        output.stdout
    };
    let one = run("1", "7");
    assert_eq!(one, run("2", "7"));
    let runs = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap()["runs"].clone();
    assert!(runs(&one) != runs(&run("2", "8")));
}

/// The program reads a file of 8 MiB in calls of 1 MiB, and each call makes one request.
#[test]
fn finite_workload_needs_no_end_and_reports_its_end() {
    let result = compare(&["copy=dd:size=8m,direct=on"], &["--guest-cache", "0", "--guest-journal", "off"]);
    for run in result["runs"].as_array().unwrap() {
        assert_eq!((run["read"]["requests"].as_u64(), run["read"]["bytes"].as_u64()), (Some(8), Some(8 << 20)));
        assert_eq!(run["write"]["requests"], 0);
        let span = run["span_ns"].as_u64().unwrap() as f64 / 1e9;
        assert_eq!(run["notes"][0], format!("guest copy: run ends at {span:.3} s"));
    }
    let provenance = &result["provenance"];
    let options = provenance["options"].as_object().unwrap();
    assert_eq!((options["seed"].as_str(), options.get("pacing"), options.get("map")), (Some("1"), None, None));
    let guest = &provenance["workloads"][0];
    assert_eq!((guest["journal"].as_bool(), guest["cache_bytes"].as_u64()), (Some(false), Some(0)));
    assert_eq!(guest["place_sector"], 0);
    assert!(provenance["traces"].as_array().unwrap().is_empty());
}

#[test]
fn endless_workload_stops_at_end_or_limit() {
    let surge = "surge:files=1000,directories=10,processes=5,direct=on";
    let by_requests = compare(&[surge], &["--limit", "250"]);
    assert_eq!(requests(&by_requests["runs"][0]), 250);
    let by_time = compare(&[surge], &["--end", "2s"]);
    let span = by_time["runs"][0]["span_ns"].as_u64().unwrap();
    assert!((1_800_000_000..2_100_000_000).contains(&span), "{span}");
    let slowed = compare(&["surge:files=1000,directories=10,processes=5,direct=on,sleep_scale=20"], &["--end", "2s"]);
    assert!(requests(&slowed["runs"][0]) * 4 < requests(&by_time["runs"][0]));
}

#[test]
fn guests_lie_next_to_each_other_or_at_their_places() {
    let of = |workloads: &[&str], more: &[&str]| {
        let result = compare(workloads, &[&["--limit", "40", "--per-vm"], more].concat());
        let sectors = |guest: &Value| {
            let [place, capacity] = ["place_sector", "capacity_sectors"].map(|name| guest[name].as_u64().unwrap());
            (place, capacity)
        };
        let vms = result["runs"][0]["vms"].as_array().unwrap();
        let names: Vec<&str> = vms.iter().map(|vm| vm["vm"].as_str().unwrap()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(vms.iter().map(requests).sum::<u64>(), requests(&result["runs"][0]));
        let guests = result["provenance"]["workloads"].as_array().unwrap();
        (sectors(&guests[0]), sectors(&guests[1]))
    };
    let both = ["a=dd:size=8m", "b=dd:size=8m"];
    let (a, b) = of(&both, &[]);
    assert_eq!((a.0, b.0, a.1), (0, a.1, b.1));
    assert!(a.1 > 34 << 21, "half of the drive");
    let (a, b) = of(&["a=dd:size=8m@8g", "b=dd:size=8m"], &["--guest-capacity", "1g"]);
    assert_eq!((a, b), ((8 << 21, 1 << 21), (0, 1 << 21)));
}

#[test]
fn guests_run_through_a_stack_with_logs_and_series() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (log, series) = (path("log"), path("series"));
    let arguments = ["--stack", "xen-cfq", "--limit", "200", "--decision-log", &log, "--series", &series];
    let result = compare(&["a=dd:size=8m", "b=dd:size=8m"], &arguments);
    for run in result["runs"].as_array().unwrap() {
        let layers = run["stack"]["layers"].as_array().unwrap();
        assert_eq!(layers[2]["scheduler"], run["scheduler"]["name"]);
        assert!(layers[2]["context_switches"].as_u64().unwrap() > 0);
    }
    for folder in [log, series] {
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().metadata().unwrap().len());
        assert_eq!(files.filter(|&length| length > 0).count(), 2);
    }
}

#[test]
fn result_names_the_guests_of_descriptions_and_job_files() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let job = write("mixed.fio", "[global]\nsize=4m\nbs=4k\ndirect=1\n[a]\nrw=randread\n[b]\nrw=randwrite\n");
    let result = compare(&[&job], &["--limit", "100"]);
    let guest = &result["provenance"]["workloads"][0];
    assert_eq!((guest["vm"].as_str(), guest["workload"]["model"].as_str()), (Some("mixed"), Some("fio")));
    assert_eq!(guest["sha256"]["mixed.fio"].as_str().unwrap().len(), 64);
    let guests = "summary = \"two\"\nsource = \"a test\"\n[[guest]]\nname = \"one\"\nworkload = \"dd:size=4m\"\n\
                  capacity = \"1g\"\ncache = \"0\"\n[[guest]]\nname = \"two\"\nworkload = \"dd:size=4m\"\ncopies = 2\n\
                  capacity = \"2g\"\ncache = \"8m\"\n";
    let description = write("pair.toml", guests);
    let result = compare(&[&format!("{description}@4g"), "three=dd:size=4m"], &["--guest-cache", "16m"]);
    let guests = result["provenance"]["workloads"].as_array().unwrap();
    let of = |name: &str| guests.iter().map(|guest| guest[name].as_u64().unwrap()).collect::<Vec<u64>>();
    assert_eq!(
        of("place_sector"),
        [4 << 21, 5 << 21, 7 << 21],
        "a third of the drive has no room below the description"
    );
    assert_eq!(of("capacity_sectors")[..2], [1 << 21, 2 << 21]);
    assert_eq!((of("cache_bytes"), of("copies")), (vec![0, 8 << 20, 16 << 20], vec![1, 2, 1]));
    let seeds = of("seed");
    assert!(seeds[0] != seeds[1] && seeds[1] != seeds[2]);
    let notes = &result["runs"][0]["notes"];
    assert!(notes[1].as_str().unwrap().contains("run ends (copy 1) at"), "{notes}");
    let preset = compare(&["kim2015-dd-alone"], &["--limit", "50", "--drive", "sata-500"]);
    assert_eq!(preset["provenance"]["workloads"][0]["cache_bytes"], 800 << 20);
}

#[test]
fn table_names_the_workloads() {
    let arguments = ["compare", "--workload", "web=dd:size=8m", "--schedulers", "fifo", "--limit", "30"];
    let text = stdout(&arguments).replace('\n', " ");
    assert!(text.contains(" dd:size=8m, on cheetah-15k4"), "{text}");
    let text = stdout(&[&arguments[..], &["--details"]].concat()).replace('\n', " ");
    assert!(text.contains(" web: dd:size=8m (dd: bs=1m direct=off"), "{text}");
    assert!(text.contains("page cache 65 MiB, journal)") && text.contains("seed=1"), "{text}");
}

#[test]
fn impossible_workloads_are_refused_with_the_remedy() {
    let mail = format!("{}/../traces/samples/mail.parquet", env!("CARGO_MANIFEST_DIR"));
    let cases: &[(&[&str], i32, &str)] = &[
        (&["--workload", "surgee"], 2, "unknown workload `surgee`; did you mean surge?"),
        (&["--workload", "kim2015-ddd"], 2, "did you mean kim2015-dd"),
        (&["--workload", "mainframe"], 2, "`iocast list workloads` names them all"),
        (&["--workload", "dd:sise=1g"], 2, "`dd` has no tunable `sise`; did you mean size?"),
        (&["--workload", "dd:size=big"], 2, "dd:size=`big` is not a size"),
        (&["--workload", "=dd"], 2, "expected [NAME=]WORKLOAD[@PLACE]"),
        (&["--workload", "dd@far"], 2, "--workload dd@far: "),
        (&["--workload", "x=filebench", "--limit", "9"], 2, "`filebench` names its guests itself; leave out `x=`"),
        (&["--workload", "filebench:nfiles=9", "--limit", "9"], 2, "a description of guests and has no tunables"),
        (&["--workload", "absent.toml"], 2, "workload description absent.toml: "),
        (&["--workload", "absent.fio"], 2, "fio job file absent.fio: "),
        (&["--workload", "dd", "--workload", "dd"], 2, "two guests are named `dd`; name them with --workload NAME=dd"),
        (&["--workload", "web=surge"], 2, "guest web: `surge` never ends; set an end with --end TIME"),
        (&["--workload", "dd:size=1m", &mail], 2, "not both"),
        (&["--workload", "dd:size=1m", "--vm", &mail], 2, "not both"),
        (&["--workload", "dd:size=1m", "--pacing", "closed"], 2, "cannot be used with"),
        (&["--workload", "dd:size=1m", "--at", "issued"], 2, "cannot be used with"),
        (&["--workload", "dd:size=1m", "--from", "1s"], 2, "cannot be used with"),
        (&[&mail, "--seed", "2"], 2, "--workload"),
        (&["--workload", "dd:size=1m", "--guest-cache", "4k"], 2, "give at least 256k, or 0 for none"),
        (&["--workload", "dd", "--guest-capacity", "1t"], 2, "no gap for the disk of guest dd"),
        (&["--workload", "kim2015-dd"], 2, "the disk of guest vm0, sectors 0 to 209715200, reaches beyond the drive"),
        (
            &["--workload", "dd", "--guest-capacity", "512m"],
            1,
            "guest dd: `dd`: the file system of 1048576 sectors is full",
        ),
        (&["--workload", "dd:size=1m,operation=write"], 1, "the workloads made no request"),
    ];
    for (arguments, code, expected) in cases {
        let (actual, message) = failure(&[&["compare"], *arguments].concat());
        assert!(actual == *code && message.contains(expected), "{arguments:?}: {actual} {message}");
    }
}

/// The queue is bounded and the guests wait, with the same requests in the end.
#[test]
fn a_bounded_queue_holds_guests_back() {
    let fio = "fio:size=8m,rw=randread,iodepth=16";
    let (free, held) = (compare(&[fio], &[]), compare(&[fio], &["--max-queue", "2"]));
    let (free, held) = (&free["runs"][0], &held["runs"][0]);
    assert_eq!((requests(free), requests(held)), (2048, 2048));
    assert_eq!(
        (free["queue"]["outstanding_max"].as_u64(), held["queue"]["outstanding_max"].as_u64()),
        (Some(16), Some(2))
    );
    assert!(held["notes"].as_array().unwrap().iter().any(|note| note == "arrivals were held back by --max-queue 2"));
}

#[test]
fn the_list_has_programs_descriptions_and_guests() {
    let text = stdout(&["list", "workloads"]);
    for expected in ["surge:sleep_scale=1", "kim2015-terasort", "Guests of the descriptions", "by-name|shuffled"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let listed = json(&["list", "workloads"]);
    let filebench = listed.as_array().unwrap().iter().find(|entry| entry["name"] == "filebench").unwrap();
    assert_eq!(filebench["guests"][0]["program"], "varmail");
    assert_eq!(filebench["guests"][2]["capacity_bytes"], 32_u64 << 30);
}
