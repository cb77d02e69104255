//! `iocast bench init`: the project that it writes.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod program;

use std::fs;
use std::path::{Path, PathBuf};

use program::{failure, json, sample, stdout};

fn root() -> PathBuf {
    fs::canonicalize("..").unwrap()
}

fn example() -> PathBuf {
    root().join("examples/my-scheduler")
}

fn read(folder: &Path, file: &str) -> String {
    fs::read_to_string(folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The texts of the project, apart from the manifest and the scenario.
const SAME: [&str; 4] =
    [".github/workflows/scheduler-comparison.yml", ".gitignore", "benches/compare.rs", "src/lib.rs"];

#[test]
fn the_example_is_what_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let mine = folder.path().join("mine");
    let checkout = root().display().to_string();
    let arguments = ["bench", "init", mine.to_str().unwrap(), "--traces", &sample("mail.parquet"), "--end", "30s"];
    let said = stdout(&[&arguments[..], &["--iocast", ".."]].concat());
    assert!(said.contains("mine/scenarios/mail.toml") && said.contains("&& cargo bench"), "{said}");
    for file in SAME {
        assert_eq!(read(&mine, file), read(&example(), file), "{file}");
    }
    assert_eq!(read(&mine, "Cargo.toml"), read(&example(), "Cargo.toml").replace("../..", &checkout));
    let trace = |folder: &Path| fs::read(folder.join("traces/mail.parquet")).unwrap();
    assert!(trace(&mine) == trace(&example()));
    // The reasons of the example are written by hand.
    let explained = |line: &&str| !line.starts_with("reason = ") && !line.starts_with("question = ");
    let scenario = |folder: &Path| {
        let text = read(folder, "scenarios/mail.toml");
        text.lines().filter(explained).map(str::to_owned).collect::<Vec<String>>()
    };
    assert_eq!(scenario(&mine), scenario(&example()));
}

#[test]
fn published_packages_are_named_with_their_version() {
    let folder = tempfile::tempdir().unwrap();
    let mine = folder.path().join("mine");
    let traces = [sample("web.parquet"), format!("{}@32g", sample("mail.parquet"))];
    let schedulers = "cats,bfq:rotational=off";
    let arguments = ["bench", "init", mine.to_str().unwrap(), "--traces", &traces[0], &traces[1], "--end", "3s"];
    stdout(&[&arguments[..], &["--schedulers", schedulers]].concat());
    let manifest = read(&mine, "Cargo.toml");
    let version = env!("CARGO_PKG_VERSION");
    for package in ["iocast-schedulers", "iocast-traces", "iocast-bench"] {
        let wanted = format!("{package} = {{ git = \"https://github.com/iocast/iocast\", version = \"{version}\" }}\n");
        assert!(manifest.contains(&wanted), "{manifest}");
    }
    let scenario = read(&mine, "scenarios/web.toml");
    for wanted in [
        "trace = \"../traces/web.parquet\"\n",
        "trace = \"../traces/mail.parquet\"\nplace = \"34359738368\"\n",
        "spec = \"bfq:rotational=off\"\n",
        "scheduler = \"my-scheduler\"\nfigure = \"read_response_p99_ns\"\nat_most = ",
        "of = \"cats\"\n",
    ] {
        assert!(scenario.contains(wanted), "{wanted}{scenario}");
    }
    // The figures are those of a comparison.
    let [web, mail] = &traces;
    let compare = ["compare", web, mail, "--pacing", "closed", "--end", "3s", "--schedulers", "cats"];
    let run = &json(&compare)["runs"][0];
    for (figure, found) in [
        ("span_ns", &run["span_ns"]),
        ("requests", &run["all"]["requests"]),
        ("read_response_p99_ns", &run["read"]["response_percentiles_ns"]["p99"]),
    ] {
        assert!(scenario.contains(&format!("{figure} = {found}\n")), "{figure}: {found}");
    }
}

#[test]
fn what_exists_is_kept_and_mistakes_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mine = folder.path().join("mine");
    let trace = sample("web.parquet");
    let begin = ["bench", "init", mine.to_str().unwrap(), "--traces", &trace, "--end", "2s"];
    for (wrong, code, wanted) in [
        (&["--schedulers", "fiffo"][..], 2, "did you mean fifo"),
        (&["--drive", "cheeta-15k4"], 2, "cheetah-15k4"),
        (&["--pacing", "fast"], 2, "--pacing fast: expected recorded"),
        (&["--iocast", "."], 2, "it has no schedulers/Cargo.toml"),
        (&["--drive", "my.toml"], 2, "my.toml: name its whole path, from / on"),
        (&["--schedulers", "plugin:./my.so"], 2, "./my.so: name its whole path, from / on"),
        (&["--traces", "missing.parquet"], 1, "missing.parquet"),
    ] {
        let arguments = match wrong[0] {
            "--traces" => [&begin[..3], wrong].concat(),
            _ => [&begin[..], wrong].concat(),
        };
        let (found, said) = failure(&arguments);
        assert_eq!(found, code, "{said}");
        assert!(said.contains(wanted), "{said}");
        assert!(!mine.exists(), "{wrong:?} left something");
    }
    stdout(&begin);
    fs::write(mine.join("src/lib.rs"), "mine").unwrap();
    let (code, said) = failure(&begin);
    assert!(code == 1 && said.contains("exists; overwrite it with --force, or choose another folder"), "{said}");
    assert_eq!(read(&mine, "src/lib.rs"), "mine");
    fs::write(mine.join("src/other.rs"), "kept").unwrap();
    let shorter = [&begin[..begin.len() - 1], &["1s", "--force"]].concat();
    let said = stdout(&shorter);
    assert!(said.contains("As they were: ") && said.contains("mine/src/lib.rs"), "{said}");
    assert_eq!([read(&mine, "src/lib.rs"), read(&mine, "src/other.rs")], ["mine", "kept"]);
    assert!(read(&mine, "scenarios/web.toml").contains("to = \"1s\""));
    fs::remove_file(mine.join("src/lib.rs")).unwrap();
    stdout(&shorter);
    assert_eq!(read(&mine, "src/lib.rs"), read(&example(), "src/lib.rs"));
}
