//! Counts the instructions of each job under callgrind, and holds them against the stored counts.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::thread;

use serde::Deserialize;

use super::job::Job;
use super::work::Folder;

/// How much more a job may take, as a share.
const MORE_MAX: f64 = 0.03;
/// Counts that differ less are left as they are when others are stored.
const SAME: f64 = 0.005;

const HEADER: &str = "\
# Instructions of each job of this folder at its smallest size, counted by callgrind with one thread and the profile
# `long`. `make instructions` fails where a job takes over 3 % more. `make instructions WHY='the reason'` stores new counts.
";

/// A stored count, and why it changed last.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    pub instructions: u64,
    pub why: String,
}

/// The stored counts by job.
pub fn stored(path: &Path) -> Result<BTreeMap<String, Stored>, Box<dyn Error>> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?)
}

/// Counts, and compares or stores.
pub fn run(jobs: &[Job], program: &Path, path: &Path, why: Option<&str>) -> Result<ExitCode, Box<dyn Error>> {
    let mut stored = stored(path)?;
    let counts = count_all(jobs, program)?;
    println!("{:20} {:>15} {:>15} {:>9}", "job", "stored", "now", "change");
    let mut slower = Vec::new();
    for (name, now) in &counts {
        let known = stored.get(name).map(|stored| stored.instructions);
        let change = known.map(|known| *now as f64 / known as f64 - 1.0);
        let shown = |number: Option<u64>| number.map_or("-".to_owned(), |number| number.to_string());
        let percent = change.map_or("-".to_owned(), |change| format!("{:+.2} %", change * 100.0));
        println!("{name:20} {:>15} {now:>15} {percent:>9}", shown(known));
        if change.is_none_or(|change| change > MORE_MAX) {
            slower.push(name.as_str());
        }
        let Some(why) = why else { continue };
        if change.is_none_or(|change| change.abs() > SAME) {
            stored.insert(name.clone(), Stored { instructions: *now, why: why.to_owned() });
        }
    }
    if why.is_some() {
        fs::write(path, text(&stored)?)?;
        println!("stored in {}", path.display());
        return Ok(ExitCode::SUCCESS);
    }
    if slower.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "over {:.0} % more, or not stored: {}. Mend it, or store it with its reason: make instructions WHY='…'",
        MORE_MAX * 100.0,
        slower.join(", ")
    );
    Ok(ExitCode::FAILURE)
}

fn text(stored: &BTreeMap<String, Stored>) -> Result<String, Box<dyn Error>> {
    let mut text = HEADER.to_owned();
    for (name, Stored { instructions, why }) in stored {
        let why = toml::Value::String(why.clone());
        write!(text, "\n[{name}]\ninstructions = {instructions}\nwhy = {why}\n")?;
    }
    Ok(text)
}

/// The instructions of each job; as many jobs at a time as there are processors.
fn count_all(jobs: &[Job], program: &Path) -> Result<BTreeMap<String, u64>, Box<dyn Error>> {
    let mut folder = Folder::new(program)?;
    for job in jobs {
        folder.prepare(job, job.gate)?;
    }
    let (folder, waiting, counts) = (&folder, Mutex::new(jobs.iter()), Mutex::new(BTreeMap::new()));
    let next = || waiting.lock().ok()?.next();
    let work = || -> Result<(), String> {
        while let Some(job) = next() {
            let count = count(job, folder).map_err(|error| format!("{}: {error}", job.name))?;
            counts.lock().map_err(|error| error.to_string())?.insert(job.name.clone(), count);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..thread::available_parallelism()?.get()).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            thread.join().map_err(|_| "a thread panicked")??;
        }
        Ok::<(), Box<dyn Error>>(())
    })?;
    Ok(counts.into_inner()?)
}

fn count(job: &Job, folder: &Folder) -> Result<u64, Box<dyn Error>> {
    let ours = folder.command(job, job.gate, &job.command, true);
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(ours.get_program()).args(ours.get_args());
    command.current_dir(ours.get_current_dir().unwrap_or(Path::new("."))).env("RAYON_NUM_THREADS", "1");
    let ran = command.output().map_err(|error| format!("valgrind: {error}"))?;
    let said = String::from_utf8_lossy(&ran.stderr);
    if !ran.status.success() {
        return Err(said.into());
    }
    folder.check(job, job.gate, &ran.stdout)?;
    let line = said.lines().find_map(|line| line.split_once("Collected : "));
    Ok(line.ok_or("callgrind prints no count")?.1.trim().parse()?)
}
