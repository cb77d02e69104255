//! CPU seconds, wall time and memory of each job at each size, and of its peer.

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use std::{fs, thread};

use iocast_bench::cost;
use serde::{Deserialize, Serialize};

use super::job::Job;
use super::work::{Folder, output};

/// A job is repeated until its runs have taken so much CPU time together, since the kernel counts it in steps of 10 ms.
const CPU_SECONDS_MIN: f64 = 0.3;
/// The most runs.
const RUNS_MAX: u32 = 50;

/// One measured run of all jobs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    pub date: String,
    /// The program's version, the processor, and how many of them there are.
    pub program: String,
    pub processor: String,
    pub processors: usize,
    pub jobs: Vec<Measured>,
}

/// What a job took.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    pub name: String,
    pub title: String,
    pub unit: String,
    pub aim: Option<String>,
    /// By size.
    pub sizes: Vec<AtSize>,
    /// On the input of the largest size.
    pub peer: Option<MeasuredPeer>,
}

/// Means over the runs at a size.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct AtSize {
    pub size: u64,
    /// Requests processed, as the job itself says.
    pub processed: u64,
    pub runs: u32,
    pub cpu_seconds: f64,
    pub wall_seconds: f64,
    pub resident_max_bytes: u64,
}

/// What a peer took.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MeasuredPeer {
    pub name: String,
    pub cpu_seconds: f64,
    pub resident_max_bytes: u64,
}

/// Measures all jobs.
pub fn run(jobs: &[Job], program: &Path, date: &str) -> Result<Results, Box<dyn Error>> {
    let mut folder = Folder::new(program)?;
    let mut measured = Vec::new();
    for job in jobs {
        let mut sizes = Vec::new();
        for size in job.sizes {
            folder.prepare(job, size)?;
            let of = at_size(job, size, &folder)?;
            eprintln!("{}, {size} {}: {:.3} CPU s", job.name, job.unit, of.cpu_seconds);
            sizes.push(of);
        }
        measured.push(Measured {
            name: job.name.clone(),
            title: job.title.clone(),
            unit: job.unit.clone(),
            aim: job.aim.clone(),
            sizes,
            peer: peer(job, &folder)?,
        });
    }
    let version = output(Command::new(program).arg("--version"))?;
    Ok(Results {
        date: date.to_owned(),
        program: String::from_utf8_lossy(&version).trim().to_owned(),
        processor: processor(),
        processors: thread::available_parallelism()?.get(),
        jobs: measured,
    })
}

fn at_size(job: &Job, size: u64, folder: &Folder) -> Result<AtSize, Box<dyn Error>> {
    let command = || folder.command(job, size, &job.command, true);
    // The first run brings the input into memory, and its result is checked.
    let processed = folder.check(job, size, &output(&mut command())?)?;
    let mut of = AtSize { size, processed, runs: 0, cpu_seconds: 0.0, wall_seconds: 0.0, resident_max_bytes: 0 };
    while of.cpu_seconds < CPU_SECONDS_MIN && of.runs < RUNS_MAX {
        let begun = Instant::now();
        let cost = cost::of_program(&mut command())?;
        of.runs += 1;
        of.wall_seconds += begun.elapsed().as_secs_f64();
        of.cpu_seconds += cost.cpu_seconds;
        of.resident_max_bytes = of.resident_max_bytes.max(cost.resident_max_bytes);
    }
    of.cpu_seconds /= f64::from(of.runs);
    of.wall_seconds /= f64::from(of.runs);
    Ok(of)
}

fn peer(job: &Job, folder: &Folder) -> Result<Option<MeasuredPeer>, Box<dyn Error>> {
    let Some(peer) = &job.peer else { return Ok(None) };
    let mut of = MeasuredPeer { name: peer.name.clone(), cpu_seconds: 0.0, resident_max_bytes: 0 };
    for command in &peer.commands {
        let mut command = folder.command(job, job.sizes[2], command, false);
        let cost = cost::of_program(&mut command).map_err(|error| format!("{command:?}: {error}"))?;
        of.cpu_seconds += cost.cpu_seconds;
        of.resident_max_bytes = of.resident_max_bytes.max(cost.resident_max_bytes);
    }
    eprintln!("{}, {}: {:.3} CPU s", job.name, of.name, of.cpu_seconds);
    Ok(Some(of))
}

/// The model name of the first processor.
fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("model name"));
    line.and_then(|line| line.split_once(':')).map_or("unknown", |(_, name)| name.trim()).to_owned()
}
