//! `iocast compare` on the command line: figures, order of arguments, warnings and errors.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod program;

use std::path::PathBuf;

use program::{failure, iocast, json, sample, stdout};
use serde_json::Value;

/// Number of rows of `mail.parquet`, and number of reads among them, as pyarrow counts them.
const MAIL_RECORDS: u64 = 39_664;
const MAIL_READS: u64 = 11_771;
/// Its flushes.
const MAIL_FLUSHES: u64 = 4_431;

#[test]
fn two_schedulers_are_compared_with_figures_ratios_and_provenance() {
    let (mail, schedulers) = (sample("mail.parquet"), "fifo,sstf,cscan,deadline,cats");
    let result = json(&["compare", &mail, "--schedulers", schedulers, "--drive", "cheetah-15k4", "--pacing", "closed"]);
    assert_eq!(result["schema_version"], 1);
    assert_eq!(result["baseline"], "deadline");
    assert_eq!(result["provenance"]["drives"][0]["settings"]["a"], "4.25ms");
    assert_eq!(result["provenance"]["traces"][0]["sha256"].as_str().unwrap().len(), 64);
    let runs = result["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 5);
    for run in runs {
        assert_eq!(run["status"], "comparable");
        assert_eq!(run["read"]["requests"], MAIL_READS);
        let total = run["read"]["requests"].as_u64().unwrap() + run["write"]["requests"].as_u64().unwrap();
        assert_eq!(run["all"]["requests"].as_u64().unwrap(), total);
        assert_eq!(run["other"]["requests"], MAIL_FLUSHES);
        // Every request of the trace once, but for commits of the journal, which are counted.
        let commits = |what: &str| run["journal_commits"][what].as_u64().unwrap();
        let expected = MAIL_RECORDS - commits("requests_left_out") + commits("requests_repeated");
        assert_eq!(total + MAIL_FLUSHES, expected);
        assert!(commits("recorded") > 1000 && commits("left_out") < 300, "{}", run["journal_commits"]);
        let differs = 100 * (commits("requests_left_out") + commits("requests_repeated")) > MAIL_RECORDS;
        let said = run["notes"].as_array().unwrap().iter().any(|note| note.as_str().unwrap().contains("commits of"));
        assert_eq!(said, differs, "{}", run["notes"]);
        let p50 = run["all"]["response_percentiles_ns"]["p50"].as_u64().unwrap();
        assert!(p50 <= run["all"]["response_percentiles_ns"]["p99.99"].as_u64().unwrap());
        assert!(run["all"]["device_time"]["variance_ns2"].as_f64().unwrap() > 0.0);
    }
    let named = |name: &str| runs.iter().find(|run| run["scheduler"]["name"] == name).unwrap();
    assert_eq!(named("deadline")["ratio"]["response_time_mean"], 1.0);
    // README.md states of CATS: reads take two thirds of the time, writes twice the time.
    let of = |name: &str, class: &str| named(name)[class]["response_time"]["mean_ns"].as_f64().unwrap();
    let ratio = |class: &str| of("cats", class) / of("deadline", class);
    assert!((0.6..0.7).contains(&ratio("read")), "{}", ratio("read"));
    assert!((2.0..2.2).contains(&ratio("write")), "{}", ratio("write"));
}

#[test]
fn the_same_inputs_give_the_same_bytes_for_any_number_of_threads() {
    let mail = sample("mail.parquet");
    let run = |threads: &str| {
        let mut command = iocast();
        command.args(["compare", &mail, "--pacing", "closed", "--limit", "5000", "--output-format", "json"]);
        let output = command.env("RAYON_NUM_THREADS", threads).output().unwrap();
        assert!(output.status.success());
        output.stdout
    };
    let one = run("1");
    assert!(!one.is_empty());
    assert_eq!(one, run("2"));
    assert_eq!(one, run("7"));
}

#[test]
fn overloaded_replay_is_marked_not_comparable() {
    // Recorded on a disk that was twenty times as fast.
    let mail = sample("fast-disk/mail.parquet");
    let result = json(&["compare", &mail, "--schedulers", "fifo,deadline"]);
    for run in result["runs"].as_array().unwrap() {
        assert_eq!(run["status"], "overloaded");
        assert!(run["offered_load"].as_f64().unwrap() > 1.0 && run["remedy"].is_string());
        assert!(run["ratio"].is_null());
    }
    let text = stdout(&["compare", &mail, "--schedulers", "fifo,deadline"]).replace('\n', " ");
    assert!(text.contains("│ fifo !") && text.contains(" fifo (the offered load is "), "{text}");
    assert_eq!(text.matches("replay closed (--pacing closed)").count(), 1, "an overload is said once: {text}");
    assert!(!text.contains("is best"), "overloaded replays are not compared: {text}");
    // Slowed down twenty times the same drive keeps up.
    let slow = json(&["compare", &mail, "--schedulers", "fifo", "--pacing", "scaled=20"]);
    assert_eq!(slow["runs"][0]["status"], "comparable");
}

#[test]
fn each_vm_is_replayed_at_its_place() {
    let (mail, web) = (format!("mail={}", sample("mail.parquet")), format!("web={}@32g", sample("web.parquet")));
    let arguments = ["compare", "--vm", &mail, "--vm", &web, "--pacing", "closed", "--per-vm", "--limit", "4000"];
    let result = json(&[&arguments[..], &["--schedulers", "deadline", "--until", "last"]].concat());
    let run = &result["runs"][0];
    let vms = run["vms"].as_array().unwrap();
    assert_eq!(vms.iter().map(|vm| vm["vm"].as_str().unwrap()).collect::<Vec<_>>(), ["mail", "web"]);
    let requests = |vm: &Value| vm["all"]["requests"].as_u64().unwrap();
    assert_eq!(vms.iter().map(requests).sum::<u64>(), run["all"]["requests"].as_u64().unwrap());
    assert_eq!(result["provenance"]["traces"][1]["addresses"], "shifted by 67108864 sectors");
    // Requests of one VM behind those of the other travel the 32 GiB between them.
    assert!(run["all"]["seek_distance_mean_sectors"].as_f64().unwrap() > 1e6);
}

#[test]
fn overlapping_vms_cause_a_warning() {
    let (mail, web) = (format!("a={}@0", sample("mail.parquet")), format!("b={}@0", sample("web.parquet")));
    let arguments = ["compare", "--vm", &mail, "--vm", &web, "--pacing", "closed", "--limit", "100"];
    let output = iocast().args(arguments).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && error.contains("VMs a (sectors 0 to") && error.contains("overlap"), "{error}");
}

#[test]
fn vm_without_a_place_goes_to_the_first_gap_that_holds_it() {
    // The second one's place leaves no capacity at the beginning.
    let web = format!("web={}@1m", sample("web.parquet"));
    let arguments = ["compare", &sample("mail.parquet"), "--vm", &web, "--pacing", "closed", "--limit", "100"];
    let result = json(&arguments);
    let traces = result["provenance"]["traces"].as_array().unwrap();
    assert_eq!(traces[1]["addresses"], "shifted by 2048 sectors");
    let mail: u64 = traces[0]["addresses"].as_str().unwrap().split(' ').nth(2).unwrap().parse().unwrap();
    assert!(mail > 2048, "{mail}");
}

#[test]
fn schedulers_of_one_name_get_full_labels_and_an_unknown_baseline_is_refused() {
    let mail = sample("mail.parquet");
    let arguments = ["compare", &mail, "--pacing", "closed", "--limit", "500", "--schedulers"];
    let list = "deadline, deadline:fifo_batch=1";
    let result = json(&[&arguments[..], &[list, "--baseline", "deadline:fifo_batch=1"]].concat());
    let names: Vec<&str> =
        result["runs"].as_array().unwrap().iter().map(|run| run["scheduler"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["deadline", "deadline:fifo_batch=1"]);
    assert_eq!(result["baseline"], "deadline:fifo_batch=1");
    assert_eq!(result["runs"][1]["ratio"]["throughput"], 1.0);
    for (extra, expected) in [
        (
            ["fifo,sstf", "--baseline", "deadline"],
            "the baseline `deadline` is not among the schedulers compared: fifo, sstf",
        ),
        (["fifo,fifo", "--baseline", "fifo"], "scheduler `fifo` is named twice"),
    ] {
        let (code, message) = failure(&[&arguments[..], &extra[..]].concat());
        assert!(code == 2 && message.contains(expected), "{message}");
    }
    assert!(json(&[&arguments[..], &["fifo"]].concat())["baseline"].is_null());
}

#[test]
fn an_empty_window_is_an_error() {
    for window in [["--from", "1h"], ["--limit", "0"]] {
        let mail = sample("mail.parquet");
        let (code, message) = failure(&[&["compare", &mail, "--pacing", "closed"][..], &window].concat());
        assert!(code == 1 && message.contains("no request lies in the window"), "{message}");
    }
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.parquet").display().to_string();
    stdout(&["convert", &sample("mail.parquet"), &empty, "--start", "500s"]);
    let (code, message) = failure(&["compare", &empty]);
    assert!(code == 1 && message.contains("the traces hold no request"), "{message}");
}

#[test]
fn held_back_arrivals_are_reported_under_every_pacing() {
    let mail = sample("mail.parquet");
    let notes = |pacing: &str| {
        let arguments = ["compare", &mail, "--schedulers", "fifo", "--max-queue", "4", "--limit", "3000", "--pacing"];
        json(&[&arguments[..], &[pacing]].concat())["runs"][0].clone()
    };
    for pacing in ["closed", "asap=32"] {
        let run = notes(pacing);
        assert_eq!(run["notes"][0], "arrivals were held back by --max-queue 4", "{pacing}");
        assert_eq!(run["status"], "comparable");
    }
    assert!(notes("recorded")["reason"].as_str().unwrap().contains("held back by --max-queue"));
    assert!(notes("asap=3")["notes"].as_array().unwrap().is_empty());
}

#[test]
fn simultaneous_requests_are_no_overload() {
    let result = json(&["compare", &sample("mail.parquet"), "--limit", "1"]);
    assert_eq!(result["runs"][0]["status"], "comparable");
    assert!(result["runs"][0]["offered_load"].is_null());
}

#[test]
fn closed_pacing_notes_requests_without_completion() {
    let folder = tempfile::tempdir().unwrap();
    let load = |name: &str, completes: fn(u64) -> bool| {
        let path = folder.path().join(name);
        let mut text = String::from("start ; sector ; length ; op ; replay_delay=0 ; replay_duration=0\n");
        for index in 0..1500u64 {
            let duration = if completes(index) { "0.001" } else { "0.0" };
            text.push_str(&format!("{index}.0 ; {} ; 8 ; R ; 0.0 ; {duration}\n", index * 8));
        }
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let some = load("some.load", |index| index % 2 == 0);
    let result = json(&["compare", &some, "--pacing", "closed", "--schedulers", "fifo"]);
    let note = result["runs"][0]["notes"][0].as_str().unwrap();
    assert!(note.starts_with("750 of 1500 requests have no completion time"), "{note}");
    let (_, message) = failure(&["compare", &load("none.load", |_| false), "--pacing", "closed"]);
    assert!(message.contains("none of its first 1500 requests has a completion time"), "{message}");
    // One that completes late in the trace does not make its VM one without completions.
    let late = load("late.load", |index| index > 700);
    json(&["compare", &late, "--pacing", "closed", "--limit", "800", "--schedulers", "fifo"]);
}

#[test]
fn closed_pacing_notes_that_a_faster_drive_has_used_up_the_trace() {
    let note = |drive: &str| {
        let arguments =
            ["compare", &sample("web.parquet"), "--pacing", "closed", "--schedulers", "none", "--drive", drive];
        let notes = json(&arguments)["runs"][0]["notes"].clone();
        let of = |note: &Value| {
            note.as_str().filter(|note| note.contains("had sent all its requests after")).map(str::to_owned)
        };
        notes.as_array().unwrap().iter().find_map(of)
    };
    let on_ssd = note("sata-ssd").unwrap();
    assert!(
        on_ssd.contains("web.parquet: the first of its processes had sent all its requests after 2")
            && on_ssd.contains(" s, 6"),
        "{on_ssd}"
    );
    assert_eq!(note("cheetah-15k4-mechanical"), None);
}

#[test]
fn vms_without_a_place_are_put_behind_one_another() {
    let arguments = ["compare", &sample("mail.parquet"), &sample("web.parquet"), "--pacing", "closed"];
    let result = json(&[&arguments[..], &["--schedulers", "fifo", "--limit", "1000"]].concat());
    let addresses = |vm: usize| result["provenance"]["traces"][vm]["addresses"].as_str().unwrap().to_owned();
    assert_eq!(addresses(0), "shifted by 0 sectors");
    let place: u64 = addresses(1).split_whitespace().nth(2).unwrap().parse().unwrap();
    assert!(place > 0 && place.is_multiple_of(2048));
}

#[test]
fn addresses_beyond_the_drive_are_an_error_unless_mapped() {
    let mail = sample("mail.parquet");
    let small = ["compare", &mail, "--drive", "linear:capacity=100m", "--pacing", "closed", "--schedulers", "fifo"];
    let (code, message) = failure(&small);
    assert_eq!(code, 1);
    assert!(message.contains("beyond the drive's 204800") && message.contains("--map wrap|scale|remap"), "{message}");
    for map in ["wrap", "scale"] {
        let result = json(&[&small[..], &["--map", map]].concat());
        assert_eq!(result["runs"][0]["read"]["requests"], MAIL_READS);
    }
    let (code, message) = failure(&[&small[..], &["--map", "remap"]].concat());
    assert_eq!(code, 2);
    assert!(message.contains("the VMs' footprints need"), "{message}");
}

#[test]
fn window_and_limit_select_a_part_of_the_trace() {
    let mail = sample("mail.parquet");
    let requests = |extra: &[&str]| {
        let arguments = ["compare", &mail, "--pacing", "closed", "--schedulers", "fifo"];
        json(&[&arguments[..], extra].concat())["provenance"]["traces"][0]["requests"].as_u64().unwrap()
    };
    let all = requests(&[]);
    assert_eq!(all, MAIL_RECORDS);
    assert_eq!(requests(&["--from", "5s"]) + requests(&["--to", "5s"]), all);
    assert_eq!(requests(&["--limit", "17"]), 17);
    let (code, message) = failure(&["compare", &mail, "--from", "5s", "--to", "5s"]);
    assert_eq!((code, message.as_str()), (2, "iocast: --end must be later than --start\n"));
}

#[test]
fn issued_requests_are_replayed_with_a_warning() {
    let stem: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "traces", "tests", "data", "blktrace"].iter().collect();
    let capture = std::fs::read_dir(&stem).unwrap().map(|entry| entry.unwrap().path());
    let capture = capture.filter(|path| path.to_string_lossy().contains("mail")).min().unwrap();
    let capture = capture.display().to_string();
    let arguments = ["compare", &capture, "--lenient", "--pacing", "closed", "--schedulers", "fifo"];
    let output = iocast().args(arguments).args(["--at", "issued", "--output-format", "json"]).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{error}");
    assert!(error.contains("layer guest-issued: the guest's scheduler has already ordered"), "{error}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["provenance"]["traces"][0]["layer"], "guest-issued");
    assert_eq!(result["provenance"]["warnings"].as_array().unwrap().len(), 1);
    let (code, message) = failure(&["compare", &sample("mail.parquet"), "--at", "issued"]);
    assert!(code == 1 && message.contains("so --at issued has no meaning"), "{message}");
}

#[test]
fn decision_log_holds_every_decision() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("decisions");
    let result = json(&[
        "compare",
        &sample("mail.parquet"),
        "--pacing",
        "closed",
        "--limit",
        "500",
        "--schedulers",
        "fifo,sstf",
        "--decision-log",
        log.to_str().unwrap(),
    ]);
    for (run, file) in ["0-fifo.tsv", "1-sstf.tsv"].iter().enumerate() {
        let text = std::fs::read_to_string(log.join(file)).unwrap();
        let times: Vec<u64> =
            text.lines().skip(1).map(|line| line.split('\t').next().unwrap().parse().unwrap()).collect();
        // One for each request that the drive was given; the others were merged with these.
        assert_eq!(Some(times.len() as u64), result["runs"][run]["all"]["device_requests"].as_u64());
        assert!(times.len() > 100 && times.is_sorted());
    }
}

#[test]
fn files_in_the_folders_of_a_comparison_are_overwritten_with_force_only() {
    let folder = tempfile::tempdir().unwrap();
    let mail = sample("mail.parquet");
    let compare = ["compare", &mail, "--pacing", "closed", "--limit", "100", "--schedulers", "fifo,sstf"];
    for (option, file) in [("--decision-log", "1-sstf.tsv"), ("--series", "1-sstf.parquet")] {
        let path = folder.path().join(file);
        std::fs::write(&path, "kept").unwrap();
        let arguments = [&compare[..], &[option, folder.path().to_str().unwrap()]].concat();
        let (code, message) = failure(&arguments);
        let named = message.contains(file) && message.contains("--force") && message.contains(option);
        assert!(code == 1 && named, "{message}");
        assert_eq!(std::fs::read(&path).unwrap(), b"kept");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else was written");
        stdout(&[&arguments[..], &["--force"]].concat());
        assert_ne!(std::fs::read(&path).unwrap(), b"kept");
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }
    let (code, message) = failure(&[&compare[..], &["--decision-log", &mail]].concat());
    assert!(code == 2 && message.contains("mail.parquet is no folder"), "{message}");
    let (code, message) = failure(&[&compare[..], &["--force"]].concat());
    assert!(code == 2 && message.contains("--decision-log"), "--force needs a file to write: {message}");
}

#[test]
fn drives_are_compared_side_by_side() {
    let arguments = ["compare", &sample("web.parquet"), "--pacing", "closed", "--limit", "1000", "--schedulers"];
    let drives = ["deadline,cats", "--drive", "cheetah-15k4", "--drive", "nvme-ssd"];
    let result = json(&[&arguments[..], &drives].concat());
    let runs = result["runs"].as_array().unwrap();
    let names: Vec<&str> = runs.iter().map(|run| run["scheduler"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["cheetah-15k4 deadline", "cheetah-15k4 cats", "nvme-ssd deadline", "nvme-ssd cats"]);
    assert_eq!(result["baseline"], "cheetah-15k4 deadline");
    assert_eq!(result["provenance"]["drives"][1]["name"], "nvme-ssd");
    for (run, drive) in [(&runs[1], "cheetah-15k4"), (&runs[3], "nvme-ssd")] {
        let mut alone = json(&[&arguments[..], &["deadline,cats", "--drive", drive]].concat())["runs"][1].take();
        alone["scheduler"]["name"] = run["scheduler"]["name"].clone();
        alone["ratio"] = run["ratio"].clone();
        assert_eq!(&alone, run, "a drive beside others gives the figures that it gives alone");
    }
    let (code, message) = failure(&[&arguments[..], &["fifo", "--drive", "fixed", "--drive", "fixed"]].concat());
    assert!(code == 2 && message.contains("`fixed` is named twice"), "{message}");
}

#[test]
fn figures_of_vms_are_over_the_time_in_which_all_are_active() {
    let folder = tempfile::tempdir().unwrap();
    let trace = |name: &str, seconds: u64| {
        let path = folder.path().join(name);
        let mut text = String::from("start ; sector ; length ; op ; replay_delay=0 ; replay_duration=0\n");
        for nth in 0..seconds * 10 {
            text.push_str(&format!("{}.{} ; {} ; 8 ; R ; 0.0 ; 0.001\n", nth / 10, nth % 10, nth * 8));
        }
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (web, mail) = (format!("web={}", trace("web.load", 20)), format!("mail={}", trace("mail.load", 60)));
    let arguments = ["compare", "--vm", &web, "--vm", &mail, "--schedulers", "fifo", "--drive", "fixed", "--per-vm"];
    let iops = |result: &Value, vm: usize| result["runs"][0]["vms"][vm]["all"]["iops"].as_f64().unwrap();
    for pacing in ["recorded", "closed"] {
        let first = json(&[&arguments[..], &["--pacing", pacing]].concat());
        let last = json(&[&arguments[..], &["--pacing", pacing, "--until", "last"]].concat());
        // Ten requests per second each, for 20 and 60 s.
        for (result, web, mail) in [(&first, 10.0, 10.0), (&last, 10.0 / 3.0, 10.0)] {
            assert!((iops(result, 0) - web).abs() < 0.1, "{pacing}: {}", iops(result, 0));
            assert!((iops(result, 1) - mail).abs() < 0.1, "{pacing}: {}", iops(result, 1));
        }
        let ends = |vm: usize| first["runs"][0]["vms"][vm]["end_ns"].as_u64().unwrap() / 1_000_000_000;
        assert_eq!([ends(0), ends(1)], [19, 59], "each VM's own end is given");
        assert_eq!(first["runs"][0]["all"], last["runs"][0]["all"], "the whole run is measured as before");
    }
    let text = stdout(&arguments);
    assert!(text.contains("until the first VM had no more arrivals") && text.contains("VM ends"), "{text}");
    // Jain's index is 1 while both are served alike, and less if web's idle time counts.
    let fairness = |until: &str| {
        let stack = [&arguments[..], &["--stack", "disk=fifo", "--until", until]].concat();
        let arguments: Vec<&str> = stack.into_iter().filter(|word| !["--schedulers", "fifo"].contains(word)).collect();
        json(&arguments)["runs"][0]["stack"]["fairness"]["jain"].as_f64().unwrap()
    };
    assert!(fairness("first") > 0.999 && fairness("last") < 0.85, "{} {}", fairness("first"), fairness("last"));
}

#[test]
fn malformed_trace_ends_with_code_1_and_its_file_and_place() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let mail = std::fs::read(sample("mail.parquet")).unwrap();
    let cases = [
        (write("empty", b""), "empty: the input is empty"),
        (write("noise", b"\x00\x01\x02 not a trace"), "noise: no known trace format starts like this; name it with"),
        (write("half.parquet", &mail[..mail.len() / 2]), "half.parquet at byte"),
        (folder.path().display().to_string(), "this is a directory, not a trace"),
        (folder.path().join("absent").display().to_string(), "absent: No such file or directory"),
    ];
    for (path, expected) in cases {
        let (code, message) = failure(&["compare", &path]);
        assert_eq!(code, 1);
        assert!(message.contains(expected), "{message}");
    }
}
