//! Plants bugs one at a time and looks whether a test goes red: `make mutants`.
//!
//! The list (`schedulers/mutants.txt`) is in blocks, apart by blank lines:
//!
//! ```text
//! sfq.rs hypervisor::sfq_keeps_at_most_its_depth_below
//! - if self.below.count() >= self.depth {
//! + if self.below.count() > self.depth {
//! ? why it is expected to survive, if it is
//! ```
//!
//! A block holds a file below `schedulers/src/`, the test that must go red, old text that occurs once in the file, and
//! new text. The test is a file of `tests/all/` and a function, or `lib::` and a function for a test in the source. More lines
//! with `-` or `+` make texts of several lines. The workspace is copied to a scratch folder and never itself changed. A
//! mutant whose test stays green meets the whole of `cargo test -p iocast-schedulers` before it counts as a survivor. A mutant
//! that does not compile, or whose old text is gone, is an error.
#![allow(clippy::unwrap_used, reason = "a tool for the workspace's own use stops where it fails")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// What has run for so long hangs, which is a bug found.
const HANGS_AFTER: Duration = Duration::from_secs(600);

/// How many of a hundred must be caught.
const CAUGHT_PERCENT_MIN: usize = 95;

struct Mutant {
    file: String,
    test: String,
    old: String,
    new: String,
    reason: Option<String>,
}

#[derive(PartialEq)]
enum Verdict {
    Caught(&'static str),
    Survived,
}

fn parse(list: &str) -> Vec<Mutant> {
    let without_comments: Vec<&str> = list.lines().filter(|line| !line.starts_with('#')).collect();
    let text = without_comments.join("\n");
    let blocks = text.split("\n\n").map(str::trim).filter(|block| !block.is_empty());
    blocks.map(parse_block).collect()
}

fn parse_block(block: &str) -> Mutant {
    let mut lines = block.lines();
    let (file, test) = lines.next().and_then(|head| head.split_once(' ')).expect("a file and a test");
    let (mut old, mut new, mut reason) = (Vec::new(), Vec::new(), None);
    for line in lines {
        match line.split_at_checked(2) {
            Some(("- ", text)) => old.push(text),
            Some(("+ ", text)) => new.push(text),
            Some(("? ", text)) => reason = Some(text.to_owned()),
            _ if line == "+" => new.push(""),
            _ => panic!("`{line}` in the block of {file} {test} is neither old nor new text"),
        }
    }
    assert!(!old.is_empty() && old != new, "{file} {test} changes nothing");
    Mutant { file: file.to_owned(), test: test.to_owned(), old: old.join("\n"), new: new.join("\n"), reason }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (name, kind) = (entry.file_name(), entry.file_type().unwrap());
        if kind.is_dir() && name != "target" && name != ".git" {
            copy(&entry.path(), &to.join(name));
        } else if kind.is_file() {
            fs::copy(entry.path(), to.join(name)).unwrap();
        }
    }
}

/// Cargo in the copy, with a target folder of its own; without debug information, which nobody reads.
fn cargo(scratch: &Path, arguments: &[&str]) -> Command {
    let mut cargo = Command::new(env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    cargo.current_dir(scratch.join("tree")).args(arguments).env("CARGO_TARGET_DIR", scratch.join("target"));
    cargo.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_PROFILE_TEST_DEBUG", "0");
    cargo.env("RUST_BACKTRACE", "0");
    cargo.stdout(Stdio::null()).stderr(Stdio::null());
    cargo
}

/// Whether a command succeeds; `None` if it does not end.
fn succeeds(mut command: Command) -> Option<bool> {
    let (mut child, start) = (command.spawn().unwrap(), Instant::now());
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status.success());
        }
        if start.elapsed() > HANGS_AFTER {
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Cargo's argument for the tests of a place.
fn target(place: &str) -> &'static str {
    if place == "lib" { "--lib" } else { "--test=all" }
}

fn judge(scratch: &Path, mutant: &Mutant, by_all: bool) -> Result<Verdict, String> {
    let (place, name) = mutant.test.split_once("::").ok_or("the test is not of the form file::function")?;
    let target = target(place);
    if succeeds(cargo(scratch, &["test", "-p", "iocast-schedulers", "--no-run", target])) != Some(true) {
        return Err("does not compile".to_owned());
    }
    let test = if place == "lib" { name } else { &mutant.test };
    match succeeds(cargo(scratch, &["test", "-p", "iocast-schedulers", target, test])) {
        None => return Ok(Verdict::Caught("hangs")),
        Some(false) => return Ok(Verdict::Caught("caught")),
        Some(true) if !by_all => return Ok(Verdict::Survived),
        Some(true) => {}
    }
    Ok(match succeeds(cargo(scratch, &["test", "-p", "iocast-schedulers"])) {
        Some(true) => Verdict::Survived,
        Some(false) => Verdict::Caught("caught by another test"),
        None => Verdict::Caught("hangs in another test"),
    })
}

/// Applies a mutant, judges it and takes it back.
fn try_out(scratch: &Path, mutant: &Mutant, by_all: bool) -> Result<Verdict, String> {
    let path = scratch.join("tree/schedulers/src").join(&mutant.file);
    let original = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", mutant.file))?;
    let count = original.matches(&mutant.old).count();
    if count != 1 {
        return Err(format!("the old text occurs {count} times"));
    }
    fs::write(&path, original.replace(&mutant.old, &mutant.new)).unwrap();
    let verdict = judge(scratch, mutant, by_all);
    fs::write(&path, original).unwrap();
    verdict
}

/// Whether every test that is named exists, and all that will be run are green, without a mutant.
fn check_unchanged(scratch: &Path, mutants: &[Mutant], by_all: bool) {
    let mut arguments = vec!["test", "-p", "iocast-schedulers"];
    for mutant in mutants {
        let (place, name) = mutant.test.split_once("::").expect("file::function");
        let file = if place == "lib" { format!("src/{}", mutant.file) } else { format!("tests/all/{place}.rs") };
        let source = fs::read_to_string(scratch.join("tree/schedulers").join(file)).unwrap_or_default();
        assert!(source.contains(&format!("fn {name}(")), "there is no test {}", mutant.test);
        if !by_all && !arguments.contains(&target(place)) {
            arguments.push(target(place));
        }
    }
    // Its output is shown, and it may take as long as it takes: the first time, dependencies are built.
    let mut tests = cargo(scratch, &arguments);
    let status = tests.stdout(Stdio::null()).stderr(Stdio::inherit()).status().unwrap();
    assert!(status.success(), "the tests are red without a mutant");
}

/// `mutants [FILTER]`: only those whose file or test contains FILTER, each only before its own test.
fn main() -> ExitCode {
    let filter = env::args().nth(1).unwrap_or_default();
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let scratch = env::var("CARGO_TARGET_DIR").map_or_else(|_| root.join("target"), PathBuf::from).join("mutants");
    if scratch.join("tree").exists() {
        fs::remove_dir_all(scratch.join("tree")).unwrap();
    }
    copy(&root, &scratch.join("tree"));
    let mut mutants = parse(&fs::read_to_string(root.join("schedulers/mutants.txt")).unwrap());
    mutants.retain(|mutant| format!("{} {}", mutant.file, mutant.test).contains(&filter));
    let by_all = filter.is_empty();
    check_unchanged(&scratch, &mutants, by_all);
    let (mut caught, mut bad) = (0, 0);
    for (index, mutant) in mutants.iter().enumerate() {
        print!("{:3} {} {}: ", index + 1, mutant.file, mutant.test);
        match try_out(&scratch, mutant, by_all) {
            Ok(Verdict::Caught(how)) => {
                caught += 1;
                println!("{how}");
            }
            Ok(Verdict::Survived) => {
                bad += usize::from(mutant.reason.is_none());
                println!(
                    "SURVIVED: {}\n    `{}` became `{}`",
                    mutant.reason.as_deref().unwrap_or("no reason given"),
                    mutant.old,
                    mutant.new
                );
            }
            Err(error) => {
                bad += 1;
                println!("ERROR: {error}: `{}`", mutant.old);
            }
        }
    }
    println!("{caught} of {} caught", mutants.len());
    let enough = caught * 100 >= mutants.len() * CAUGHT_PERCENT_MIN;
    if bad == 0 && enough { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
