//! `iocast compare --watch`: what it shows while replays run, on a terminal and elsewhere.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod program;

use std::io::{Read as _, Write as _};
use std::process::{Command, ExitStatus, Stdio};

use program::{iocast, json, sample, stdout};

const ENTERED: &str = "\u{1b}[?1049h";
const LEFT: &str = "\u{1b}[?1049l";

#[test]
fn without_a_terminal_each_replay_has_lines_and_the_result_is_the_same() {
    let mail = sample("mail.parquet");
    let arguments = ["compare", &mail, "--schedulers", "fifo,cats", "--pacing", "closed", "--limit", "4000"];
    let watched = iocast().args(arguments).arg("--watch").output().unwrap();
    assert!(watched.status.success());
    assert_eq!(String::from_utf8(watched.stdout).unwrap(), stdout(&arguments));
    let said = String::from_utf8(watched.stderr).unwrap();
    let result = json(&arguments);
    for (run, name) in result["runs"].as_array().unwrap().iter().zip(["fifo", "cats"]) {
        let last = said.lines().rfind(|line| line.starts_with(&format!("iocast: {name}: "))).unwrap();
        let mean_ms = run["read"]["response_time"]["mean_ns"].as_f64().unwrap() / 1e6;
        let decimals = if mean_ms < 10.0 {
            2
        } else if mean_ms < 100.0 {
            1
        } else {
            0
        };
        assert!(last.contains(": ended, ") && last.ends_with(", 0 outstanding"), "{last}");
        assert!(last.contains(&format!("reads mean {mean_ms:.decimals$}ms, ")), "{last}: {mean_ms} ms");
    }
}

#[test]
fn quiet_is_quiet() {
    let mail = sample("mail.parquet");
    let arguments = ["compare", &mail, "--schedulers", "fifo", "--pacing", "closed", "--limit", "400", "--watch", "-q"];
    let output = iocast().args(arguments).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Runs the program on a terminal of the usual size. `keys` are typed when the screen is there.
fn on_terminal(name: &str, arguments: &str, keys: &str) -> (String, ExitStatus) {
    let program = assert_cmd::cargo::cargo_bin!("iocast");
    let line = format!("stty rows 24 columns 80; TERM={name} exec {} {arguments}", program.display());
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
    let mut script = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // The end of the input would end the terminal.
    let mut keyboard = script.stdin.take().unwrap();
    let (mut screen, mut shown) = (script.stdout.take().unwrap(), Vec::new());
    let mut some = [0; 4096];
    let mut left = Some(keys).filter(|keys| !keys.is_empty());
    loop {
        let read = screen.read(&mut some).unwrap();
        if read == 0 {
            break;
        }
        shown.extend_from_slice(&some[..read]);
        if left.is_some() && String::from_utf8_lossy(&shown).contains("simulated") {
            keyboard.write_all(left.take().unwrap().as_bytes()).unwrap();
        }
    }
    (String::from_utf8_lossy(&shown).into_owned(), script.wait().unwrap())
}

#[test]
fn on_a_terminal_a_screen_comes_and_goes_before_the_result() {
    let line =
        format!("compare {} --schedulers fifo,cats --pacing closed --limit 4000 --watch", sample("mail.parquet"));
    let (shown, status) = on_terminal("xterm", &line, "");
    assert!(status.success(), "{shown}");
    let (before, result) = shown.split_once(LEFT).unwrap();
    assert!(before.contains(ENTERED) && before.contains("Ctrl-C"), "{before}");
    assert!(result.contains("cats") && !result.contains(ENTERED), "{result}");
    // On a terminal that cannot move its cursor, there are lines.
    let (shown, status) = on_terminal("dumb", &line, "");
    assert!(status.success(), "{shown}");
    assert!(!shown.contains(ENTERED) && shown.contains("iocast: cats: ended"), "{shown}");
}

#[test]
fn keys_leave_the_screen_or_end_the_program() {
    let job = "compare --workload webserver --workload varmail --end 400s --schedulers sstf --watch";
    let (shown, status) = on_terminal("xterm", job, "q");
    assert!(status.success(), "{shown}");
    let (_, result) = shown.split_once(LEFT).unwrap();
    assert!(result.contains("sstf"), "{result}");
    let longer = job.replace("400s", "40000s");
    let (shown, status) = on_terminal("xterm", &longer, "\u{3}");
    assert_eq!(status.code(), Some(130), "{shown}");
    assert!(shown.contains(LEFT), "{shown}");
}
