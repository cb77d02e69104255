//! Names, lists, help and messages of the command line.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod program;

use std::path::PathBuf;

use program::{failure, iocast, json, sample, stdout};
use serde_json::Value;

#[test]
fn unknown_names_end_with_code_2_and_similar_names() {
    let mail = sample("mail.parquet");
    for (arguments, expected) in [
        (
            &["compare", &mail, "--schedulers", "dedline"][..],
            "unknown scheduler `dedline`; did you mean deadline, mq-deadline?",
        ),
        (&["compare", &mail, "--drive", "cheetah"], "unknown drive `cheetah`; did you mean cheetah-"),
        (&["compare", &mail, "--drive", "tape"], "unknown drive `tape`; `iocast list drives` names them all"),
        (&["compare", &mail, "--schedulers", "deadline:fifo_batch=x"], "deadline:fifo_batch=`x` is not a whole number"),
        (&["compare", &mail, "--pacing", "fast"], "expected recorded, scaled=F, asap, asap=N or closed\n"),
        (&["compare", &mail, "--pacing", "close"], "asap=N or closed; did you mean closed?"),
        (&["compare", &mail, "--pacing", "scale=2"], "did you mean scaled=F?"),
        (&["compare", &mail, "--map", "remapp"], "a similar value exists: 'remap'"),
        (&["compare", &mail, "--layer", "wir"], "hypervisor, wire; did you mean wire?"),
        (&["compare", &mail, "--time-unit", "uss"], "did you mean us"),
        (&["compare", &mail, "--address-unit", "sector"], "did you mean sectors?"),
        (&["compare", &mail, "--stack", "xen-cfq", "--in", "gest"], "did you mean guest?"),
        (&["replay", &mail, "--device", "x", "--engine", "fioo"], "arguments for it after `=`; did you mean fio?"),
        (&["replay", &mail, "--device", "x", "--throttle", "cheetah-15k4", "--k", "fnd"], "did you mean find?"),
        (&["diff", "a", "b", "--threshold", "ay"], "-5% (downwards) or any; did you mean any?"),
        (&["calibrate", &mail, "--models", "liner"], "flash; did you mean linear?"),
        (&["validate", "guest", "plan.toml", "--schedulers", "none,kybr"], "kyber; did you mean kyber?"),
        (&["compare", &mail, &mail], "two VMs are named `mail`"),
        (&["compare", "-"], "`iocast convert - trace.parquet` stores it first"),
    ] {
        let (code, message) = failure(arguments);
        assert_eq!(code, 2, "{arguments:?}");
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
}

#[test]
fn lists_come_from_the_registries() {
    for (what, names) in [
        ("schedulers", &["fifo", "sstf", "scan", "look", "cscan", "deadline", "table", "gsw", "cats"][..]),
        ("drives", &["cheetah-15k4", "linear", "fixed"]),
        ("formats", &["blktrace", "blkreplay", "disksim-validate", "vscsi", "parquet"]),
    ] {
        let listed: Value = serde_json::from_str(&stdout(&["list", what, "--output-format", "json"])).unwrap();
        let listed: Vec<&str> = listed.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
        for name in names {
            assert!(listed.contains(name), "{name} is not among {listed:?}");
        }
        assert!(stdout(&["list", what]).contains(names[0]));
    }
}

#[test]
fn compare_without_input_names_its_three_kinds_of_input() {
    let (code, message) = failure(&["compare"]);
    assert_eq!(code, 2);
    for word in ["iocast compare web.parquet", "--vm web=web.parquet", "--workload"] {
        assert!(message.contains(word), "{word} is missing: {message}");
    }
}

#[test]
fn missing_file_is_answered_by_files_with_similar_names() {
    let samples: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "traces", "samples"].iter().collect();
    for (command, given, meant) in [
        ("compare", "web", "did you mean web.parquet?"),
        ("stat", "mails", "did you mean mail.parquet?"),
        ("stat", "lab-virtio/nothing-alike-at-all", "(os error 2)\n"),
    ] {
        let output = iocast().current_dir(&samples).args([command, given]).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains(given) && message.ends_with(meant) || message.contains(meant), "{message}");
    }
}

#[test]
fn list_shows_one_part_by_its_name() {
    let text = stdout(&["list", "schedulers", "cats"]);
    assert!(text.contains("cats:read_delay=") && !text.contains("deadline:"), "{text}");
    let alias = stdout(&["list", "schedulers", "clook"]);
    assert!(
        alias.starts_with("clook is another name of the scheduler cscan.\n") && alias.contains("│ cscan"),
        "{alias}"
    );
    assert!(!stdout(&["list", "schedulers", "cscan"]).starts_with("cscan is"));
    assert!(text.contains("predicted hit") && !stdout(&["list", "schedulers", "cscan"]).contains("Rules"), "{text}");
    assert_eq!(json(&["list", "schedulers", "deadline"])[0]["rules"][3]["name"], "expired");
    assert_eq!(json(&["list", "schedulers", "clook"])[0]["aliases"], serde_json::json!(["clook"]));
    let drive = stdout(&["list", "drives", "cheetah-15k4"]);
    assert!(drive.contains("cheetah-15k4:a=4.25ms"), "the values of the profile: {drive}");
    assert_eq!(json(&["list", "formats", "blktrace"]).as_array().unwrap().len(), 1);
    let (code, message) = failure(&["list", "drives", "cheetah"]);
    assert!(code == 2 && message.contains("did you mean cheetah-"), "{message}");
}

#[test]
fn tables_in_a_pipe_are_at_most_120_columns_wide() {
    for what in ["schedulers", "drives", "stacks", "predictors", "workloads", "formats", "papers"] {
        let text = stdout(&["list", what]);
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 120, "list {what}: {widest}");
    }
}

#[test]
fn columns_states_the_width_where_there_is_no_terminal() {
    let widest = |columns: &str| {
        let text = iocast().env("COLUMNS", columns).args(["list", "schedulers"]).output().unwrap().stdout;
        String::from_utf8(text).unwrap().lines().map(|line| line.chars().count()).max().unwrap()
    };
    assert!((50..=60).contains(&widest("60")), "{}", widest("60"));
    assert!((150..=200).contains(&widest("200")), "{}", widest("200"));
    for no_width in ["0", "", "wide", "-80", "70000"] {
        assert!((100..=120).contains(&widest(no_width)), "{no_width}: {}", widest(no_width));
    }
}

#[test]
fn drives_have_a_line_each() {
    let text = stdout(&["list", "drives"]);
    let names = json(&["list", "drives"]);
    for entry in names.as_array().unwrap() {
        let begin = format!("│ {} ", entry["name"].as_str().unwrap());
        let lines: Vec<&str> = text.lines().skip_while(|line| !line.starts_with(&begin)).collect();
        assert!(!lines[1].starts_with("│  "), "{begin} has a second line: {text}");
    }
    assert!(
        text.contains("│ cheetah-15k4            ┆ linear     ┆ 68.4 GiB ┆ Seagate Cheetah 15K.4, 73.4 GB"),
        "{text}"
    );
    assert!(!text.contains("fitted to the measurements") && text.contains("drives --details"), "{text}");
    let details = stdout(&["list", "drives", "--details", "--output-format", "markdown"]);
    assert!(details.contains("fitted to the measurements") && details.contains("raid:level=5"), "{details}");
    let rules = stdout(&["list", "schedulers", "--details"]);
    assert!(rules.contains("│ cats          ┆ predicted hit"), "{rules}");
    let (code, message) = failure(&["list", "stacks", "--details"]);
    assert!(code == 2 && message.contains("no effect on stacks"), "{message}");
}

#[test]
fn quiet_leaves_warnings_and_errors_only() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("mail.csv");
    let said = |more: &[&str]| {
        let mut command = iocast();
        command.args(["convert", &sample("mail.parquet")]).arg(&output).args(["--force", "--limit", "9"]).args(more);
        String::from_utf8(command.assert().success().get_output().stderr.clone()).unwrap()
    };
    assert!(said(&[]).contains("9 requests as csv"));
    assert_eq!(said(&["--quiet"]), "");
    assert_eq!(said(&["-q"]), "");
    assert_eq!(
        said(&["-q", "--start", "1h"]),
        "iocast: warning: ../traces/samples/mail.parquet: no request lies in the window of --start, --end and --limit\n"
    );
    assert!(failure(&["-q", "stat", "nowhere"]).1.contains("nowhere"));
}

/// What a command line prints, with standard output and standard error on a terminal.
fn on_terminal(line: &str, environment: &[(&str, &str)]) -> String {
    let mut command = std::process::Command::new("script");
    let program = assert_cmd::cargo::cargo_bin!("iocast");
    command.args(["--quiet", "--return", "--command", &format!("{} {line}", program.display()), "/dev/null"]);
    command.env("TERM", "xterm").env_remove("NO_COLOR").envs(environment.iter().copied());
    String::from_utf8(command.stdin(std::process::Stdio::null()).output().unwrap().stdout).unwrap()
}

#[test]
fn progress_is_shown_on_a_terminal_unless_quiet() {
    // Long enough for the bar to be drawn once.
    let line = "validate scheduler fifo --sequences 5000";
    assert!(on_terminal(line, &[]).contains("checking"));
    let quiet = on_terminal(&format!("{line} -q"), &[]);
    assert!(!quiet.contains("checking") && quiet.contains("fifo"), "{quiet}");
}

#[test]
fn no_color_is_honoured() {
    let escape = "\u{1b}[";
    assert!(on_terminal("compare --pacing fast", &[]).contains(escape), "errors have colours on a terminal");
    let plain = on_terminal("compare --pacing fast", &[("NO_COLOR", "1")]);
    assert!(!plain.contains(escape) && plain.contains("expected recorded"), "{plain}");
}

#[test]
fn help_has_groups_and_examples() {
    let help = stdout(&["help", "compare"]);
    for heading in ["Results:", "How traces are read:", "Queue in front of the drive:", "Examples:"] {
        assert!(help.lines().any(|line| line == heading), "{heading} is missing");
    }
    assert_eq!(help.matches("\n  iocast compare ").count(), 3);
}

#[test]
fn option_without_effect_is_refused_with_what_it_needs() {
    for (arguments, said) in [
        (
            &["compare", "mail.parquet", "--pacing", "closed", "--seed", "7"][..],
            "--seed has no effect without --workload",
        ),
        (&["compare", "mail.parquet", "--guest-cache", "1g"], "--guest-cache has no effect without --workload"),
        (&["compare", "mail.parquet", "--interval", "5s"], "--interval has no effect without --series or --stack"),
        (
            &["compare", "mail.parquet", "--until", "last"],
            "--until has no effect without --per-vm or --series or --stack",
        ),
        (&["compare", "mail.parquet", "--size", "900x700"], "--size has no effect without --output"),
        (&["stat", "mail.parquet", "--interval", "5s"], "--interval has no effect without --series"),
    ] {
        let (code, message) = program::failure(arguments);
        assert!(code == 2 && message.contains(said), "{arguments:?}: {message}");
    }
}

#[test]
fn exit_code_is_the_same_if_nobody_reads_standard_error() {
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("iocast"));
    let mut child = command.args(["stat", "nowhere.parquet"]).stderr(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn output_that_cannot_be_printed_is_an_error_that_says_so() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("iocast"));
    let output = command.args(["list", "papers"]).stdout(full).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.starts_with("iocast: standard output: No space left on device"), "{said}");
}
