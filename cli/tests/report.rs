//! `iocast report` and `--report`.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod program;
mod scratch;

use std::fs;

use program::{failure, json, sample, stdout};
use scratch::Scratch;

#[test]
fn a_stored_result_gives_the_report_of_the_command_that_made_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (now, later, stored) = (path("now.html"), path("later.html"), path("result.json"));
    let compare =
        ["compare", &sample("mail.parquet"), "--end", "5s", "--schedulers", "fifo,cats", "--pacing", "closed"];
    let text = stdout(&[&compare[..], &["--report", &now, "--history", "--output-format", "json"]].concat());
    fs::write(&stored, &text).unwrap();
    let said = stdout(&["report", &stored, "-o", &later]);
    assert!(said.contains(&format!("Written: {later}")), "{said}");
    let page = fs::read_to_string(&now).unwrap();
    assert_eq!(page, fs::read_to_string(&later).unwrap());
    for part in ["How long reads take", "p99 of reads over time", "Reads of mail by address", "Rules of the schedulers"]
    {
        assert!(page.contains(part), "{part}");
    }
    // The history changes no figure, and stays out of a result that is not asked for it.
    let without = json(&compare);
    let mut with: serde_json::Value = serde_json::from_str(&text).unwrap();
    for run in with["runs"].as_array_mut().unwrap() {
        let history = run.as_object_mut().unwrap().remove("history").unwrap();
        let responses = history["read"]["responses"]["columns"].as_array().unwrap();
        let counts = responses.iter().flat_map(|column| column.as_str().unwrap().split_whitespace());
        let reads: u64 = counts.map(|pair| pair.split(':').nth(1).unwrap().parse::<u64>().unwrap()).sum();
        assert_eq!(reads, run["read"]["requests"].as_u64().unwrap());
    }
    assert_eq!(with, without);
    fs::write(path("without.json"), without.to_string()).unwrap();
    let said = stdout(&["diff", &path("without.json"), &stored]);
    assert!(said.starts_with("All ") && said.contains("are the same"), "{said}");
    // Each chart is a picture, too.
    let said = stdout(&["report", &stored, "-o", &later, "--force", "--figures", &path("figures")]);
    let mut names: Vec<String> =
        fs::read_dir(path("figures")).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names[..2], ["01-how-long-reads-take.png", "01-how-long-reads-take.svg"]);
    assert_eq!(names.len(), 2 * page.matches("<figure>").count(), "{said}");
    for name in &names {
        assert!(fs::metadata(path(&format!("figures/{name}"))).unwrap().len() < 300_000);
    }
    let (code, said) = failure(&["report", &stored, "-o", &path("other.html"), "--figures", &path("figures")]);
    assert!(code == 1 && said.contains("it is not empty"), "{said}");
    // A result without a history has a report, too, which says what is missing.
    stdout(&["report", &path("without.json"), "-o", &path("short.html")]);
    let short = fs::read_to_string(path("short.html")).unwrap();
    assert!(short.contains("stored without `--history`") && short.contains("cats"), "{short}");
}

#[test]
fn a_replay_on_a_device_names_it_and_says_whether_it_is_faithful() {
    let scratch = Scratch::new();
    let trace = scratch.trace("reads.csv", (0..50).map(|number| (number * 100, "read", number * 16, 8, 300)));
    let (disk, stored, page) = (scratch.str("disk"), scratch.str("result.json"), scratch.str("result.html"));
    let result = stdout(&["replay", &trace, "--device", &disk, "--pacing", "asap=4", "--output-format", "json"]);
    fs::write(&stored, &result).unwrap();
    stdout(&["report", &stored, "-o", &page]);
    let page = fs::read_to_string(page).unwrap();
    let target = serde_json::from_str::<serde_json::Value>(&result).unwrap()["runs"][0]["live"]["target"].clone();
    assert!(page.contains(&format!("<h1>Replay of reads on {}, pacing asap=4", target.as_str().unwrap())), "{page}");
    assert!(page.contains("served 50 reads in ") && page.contains("Requests came as soon as possible"), "{page}");
    assert!(!page.contains("a model of"), "{page}");
}

/// Reads at 500, 900, 100 and 600 wait while 400 is served; they are taken upwards.
const DECISIONS: &str = include_str!("program/decisions.txt");

const PLAN: &str = "predictor = \"casale\"\nend = \"5s\"\n[[lun]]\nname = \"one\"\ndrive = \"cheetah-15k4\"\n\
                    [[vm]]\nname = \"mail\"\ncapture = \"CAPTURE\"\n[[vm]]\nname = \"web\"\ncapture = \"CAPTURE\"\n";

#[test]
fn every_kind_of_result_has_a_report_at_once_or_later() {
    let scratch = Scratch::new();
    let (mail, web) = (sample("mail.parquet"), sample("web.parquet"));
    let write = |name: &str, text: &str| {
        fs::write(scratch.str(name), text).unwrap();
        scratch.str(name)
    };
    let decisions = write("decisions.txt", DECISIONS);
    let times = write("times.trace", "R Hit 1000 8 4000.0 9000.0\nW Hit 9000000 16 7000.0 16000.0\n");
    let plan = write("plan.toml", &PLAN.replace("CAPTURE", fs::canonicalize(&mail).unwrap().to_str().unwrap()));
    let disk = scratch.str("disk");
    let reads = scratch.trace("reads.csv", (0..50).map(|number| (number * 100, "read", number * 16, 8, 300)));
    // Of each the command, and words of its report.
    let cases: [(&[&str], &[&str]); 11] = [
        (
            &["stat", &mail, "--history"],
            &["reads/s in ", "Reads of mail by address", "Waiting and service", "Times between stages"],
        ),
        (
            &["predict", &mail, &web, "--predictors", "casale"],
            &["Together, says casale: mail", "web: reads", "mail with web"],
        ),
        (&["place", &plan], &["mail and web go to one.", "mail on one: reads", "Throughput in %", "class=\"bar\""]),
        (
            &["validate", "closed", &web, "--drive", "cheetah-15k4"],
            &["web.parquet replayed closed on", "queue on arrival"],
        ),
        (
            &["validate", "consolidation", "--replayed", "--vms", "2", "--predictors", "sum"],
            &["Forecasts of ", "Largest errors"],
        ),
        (
            &["validate", "decisions", &decisions, "--scheduler", "fifo"],
            &["Differing decisions (", " differing decisions, "],
        ),
        (&["validate", "decisions", &decisions, "--scheduler", "fifo", "--free"], &["running freely", "model/kernel"]),
        (&["validate", "drive", "cheetah-15k5", &times], &["cheetah-15k5 beside measured times", "half a turn off"]),
        (&["validate", "scheduler", "fifo", "--sequences", "20"], &["fifo keeps all ", "CPU time of a decision"]),
        (&["replay", &reads, "--device", &disk, "--pacing", "asap=4"], &["served 50 reads in ", "as soon as possible"]),
        (
            &["compare", &mail, "--end", "2s", "--schedulers", "fifo", "--history"],
            &["fifo served ", "Waiting and service under fifo"],
        ),
    ];
    for (number, (command, words)) in cases.iter().enumerate() {
        let [now, later, stored] =
            ["now.html", "later.html", "stored.json"].map(|name| scratch.str(&format!("{number}-{name}")));
        let result = stdout(&[command, &["--report", &now, "--output-format", "json"][..]].concat());
        fs::write(&stored, &result).unwrap();
        stdout(&["report", &stored, "-o", &later]);
        let page = fs::read_to_string(&now).unwrap();
        assert!(page == fs::read_to_string(&later).unwrap(), "{command:?}");
        for word in *words {
            assert!(page.contains(word), "{command:?}: {word}: {page}");
        }
        // What a report holds is also what is printed; times of decisions are measured anew.
        if command[1] != "scheduler" && command[0] != "replay" {
            let text = stdout(&[command, &["--report", &now, "--force"][..]].concat());
            assert!(text.contains(&format!("Written: {now}")), "{text}");
            assert!(page == fs::read_to_string(&now).unwrap(), "{command:?}");
        }
        let (code, said) = failure(&[command, &["--report", &now][..]].concat());
        assert!(code == 1 && said.contains("exists; overwrite it with --force"), "{command:?}: {said}");
    }
    let page = scratch.str("lab.html");
    stdout(&["report", &sample("lab-virtio"), "-o", &page]);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("Beside other VMs, reads take so many times") && page.contains("beside oltp"), "{page}");
}

#[test]
fn captures_of_nothing_of_one_request_and_without_completions_have_reports() {
    let scratch = Scratch::new();
    let page = |name: &str, trace: &str| {
        let path = scratch.str(name);
        stdout(&["stat", trace, "--report", &path]);
        fs::read_to_string(path).unwrap()
    };
    let nothing = page("nothing.html", &scratch.trace("nothing.csv", []));
    assert!(nothing.contains("nothing.csv: csv") && !nothing.contains("<figure>"), "{nothing}");
    let one = page("one.html", &scratch.trace("one.csv", [(0, "read", 16, 8, 300)]));
    for part in ["3333 reads/s in 300", "Reads of vm0 by address", "1 requests of the device"] {
        assert!(one.contains(part), "{part}: {one}");
    }
    let whole = scratch.trace("whole.csv", (0..9).map(|at| (at * 100, "read", at * 16, 8, 300)));
    let mut started = String::new();
    for (number, line) in fs::read_to_string(whole).unwrap().lines().enumerate() {
        let (start, end) =
            line.rsplit_once(',').and_then(|(rest, error)| Some((rest.rsplit_once(',')?, error))).unwrap();
        let completed = if number == 0 { start.1 } else { "" };
        started.push_str(&format!("{},{completed},{end}\n", start.0));
    }
    fs::write(scratch.str("started.csv"), started).unwrap();
    let started = page("started.html", &scratch.str("started.csv"));
    assert!(started.contains("Reads of vm0 by address") && !started.contains("How long reads take"), "{started}");
    assert!(!started.contains("NaN"), "{started}");
}

#[test]
fn pictures_of_the_readme_are_what_its_command_makes() {
    let folder = tempfile::tempdir().unwrap();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let readme = fs::read_to_string(format!("{root}/README.md")).unwrap();
    let command = readme.lines().find(|line| line.ends_with("--figures pictures")).unwrap();
    let words: Vec<&str> = command.split_whitespace().skip(1).collect();
    let pictures = folder.path().join("pictures");
    let mut program = program::iocast();
    program.current_dir(format!("{root}/traces/samples"));
    let output = program.args(&words[..words.len() - 1]).arg(&pictures).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let shown: Vec<&str> =
        readme.split("](docs/pictures/").skip(1).map(|rest| rest.split(')').next().unwrap()).collect();
    assert_eq!(shown.len(), 2);
    for name in shown {
        let kept = fs::read(format!("{root}/docs/pictures/{name}")).unwrap();
        assert!(kept == fs::read(pictures.join(name)).unwrap(), "docs/pictures/{name} is not what `{command}` makes");
    }
}

/// Without the program that makes tables; `make test-full` has it, where docs/notebooks.md is run.
#[test]
fn tables_need_another_program_and_options_that_fit() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("table.csv").display().to_string();
    let mail = sample("mail.parquet");
    // A copy that has no companion beside it.
    let alone = folder.path().join("iocast");
    fs::copy(assert_cmd::cargo::cargo_bin("iocast"), &alone).unwrap();
    let arguments = ["report", &mail, "--table", "responses", "-o", &output];
    let said = std::process::Command::new(&alone).args(arguments).env("PATH", "/nowhere").output().unwrap();
    let error = String::from_utf8(said.stderr).unwrap();
    assert!(said.status.code() == Some(1) && error.contains("iocast-tables: not installed: `make tables`"), "{error}");
    // Beside it, it is run with the same arguments.
    let companion = folder.path().join("iocast-tables");
    fs::write(&companion, "#!/bin/sh\nfor word; do echo \"<$word>\"; done\nexit 7\n").unwrap();
    fs::set_permissions(&companion, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let arguments = ["report", &mail, "b.parquet", "--by=vm,process", "--quantile", "0.9", "-o", &output, "--force"];
    let said = std::process::Command::new(&alone).args(arguments).output().unwrap();
    let words =
        format!("<--by=vm,process>\n<--quantile=0.9>\n<--output={output}>\n<--force>\n<-->\n<{mail}>\n<b.parquet>\n");
    assert_eq!((said.status.code(), String::from_utf8(said.stdout).unwrap()), (Some(7), words));
    for (arguments, wanted) in [
        (&["report", &mail, "--table", "vms", "--quantile", "0.9"][..], "cannot be used with"),
        (&["report", &mail, "--quantile", "0.9", "-o", "x.html"], "--by"),
        (&["report", &mail, "--table", "vms", "--sql", "select 1"], "cannot be used with"),
        (&["report", &mail, "--table", "vms", "--figures", "x"], "cannot be used with"),
        (&["report", &mail], "--output"),
        (&["report", &mail, &mail, "-o", &output], "a report is made of one result; several files are for --table"),
    ] {
        let (code, said) = failure(arguments);
        assert!(code == 2 && said.contains(wanted), "{arguments:?}: {said}");
    }
}

#[test]
fn what_is_no_result_and_files_that_exist_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (input, output) = (path("in.json"), path("out.html"));
    for (text, code, wanted) in [
        ("{", 1, "it is no JSON"),
        ("{}", 1, "it is no result of iocast"),
        (
            r#"{"schema_version": 99, "runs": []}"#,
            1,
            "it has version 99 of the results' form, and this program reads 1",
        ),
        (
            r#"{"schema_version": 1}"#,
            2,
            "it is another result than those that have reports: capture lab, compare, place",
        ),
        (r#"{"schema_version": 1, "luns": []}"#, 1, "it is no whole result of `place`: missing field"),
        (r#"{"schema_version": 1, "pairs": [], "alone": null}"#, 1, "it is no whole result of `predict`"),
        (r#"{"schema_version": 1, "runs": [{}]}"#, 1, "missing field"),
        (
            r#"{"schema_version": 1, "stages": {"seeds": [18446744073709551615], "sizes": [[8, 9007199254740993]]}}"#,
            1,
            "in.json: /stages/sizes/0/1 is 9007199254740993, and no count is above 9007199254740992",
        ),
    ] {
        fs::write(&input, text).unwrap();
        let (found, said) = failure(&["report", &input, "-o", &output]);
        assert!(found == code && said.contains(wanted), "{text}: {said}");
        assert!(!std::path::Path::new(&output).exists(), "{text}");
    }
    let (code, said) = failure(&["report", &sample("mail.parquet"), "-o", &output]);
    assert!(code == 2 && said.contains("mail.parquet is a trace; `iocast stat "), "{said}");
    let (code, said) = failure(&["report", &path("none.json"), "-o", &output, "--figures", &input]);
    assert!(code == 2 && said.contains("in.json is no folder"), "{said}");
    let (code, said) = failure(&["report", &path("none.json"), "-o", &output]);
    assert!(code == 1 && said.contains("none.json"), "{said}");
    fs::write(&output, "mine").unwrap();
    let compare = ["compare", &sample("mail.parquet"), "--end", "1s", "--schedulers", "fifo", "--report"];
    let (code, said) = failure(&[&compare[..], &[&output]].concat());
    assert!(code == 1 && said.contains("exists; overwrite it with --force, or choose another file"), "{said}");
    let (code, said) = failure(&[&compare[..], &[&path("no/such/folder.html")]].concat());
    assert!(code == 1 && said.contains("no/such"), "{said}");
    assert_eq!(fs::read_to_string(&output).unwrap(), "mine");
    stdout(&[&compare[..], &[&output, "--force"]].concat());
    assert!(fs::read_to_string(&output).unwrap().starts_with("<!DOCTYPE html>"));
}
