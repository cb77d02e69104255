//! Measures the jobs of `benches/speed/*.toml`, and holds their instructions against those stored.
//!
//! `make speed` measures CPU seconds, wall time and memory of each job at three sizes, beside its peer, and writes
//! `benches/speed/results/DATE.json`, docs/validation/speed.md and its pictures. It takes some minutes.
//! `make instructions` runs each job at its smallest size under callgrind and compares with
//! `benches/speed/instructions.toml`; it fails where a job takes over 3 % more. `make instructions WHY='…'` stores the
//! counts with their reason. benches/speed/README.md says what the figures can show and what they cannot.
//!
//! Every run is also a test: a job that does not process what it should is an error.

mod instructions;
mod job;
mod measure;
mod page;
mod work;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What the command line asks for.
struct Options {
    /// The program that is measured.
    program: PathBuf,
    /// Whether instructions are counted, and the reason for which new counts are stored.
    instructions: bool,
    why: Option<String>,
    /// The date of the results, such as 2026-11-27.
    date: Option<String>,
    /// A part of the names of the jobs that are wanted.
    only: Option<String>,
}

const USAGE: &str = "jobs PROGRAM (--date YYYY-MM-DD | --instructions [--why TEXT]) [--only TEXT]";

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let options = options(std::env::args().skip(1))?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("speed");
    let mut jobs = job::read_all(&folder)?;
    jobs.retain(|job| options.only.as_ref().is_none_or(|only| job.name.contains(only)));
    if jobs.is_empty() {
        return Err("no job's name contains the text of --only".into());
    }
    let (counts, docs) = (folder.join("instructions.toml"), folder.join("../../docs/validation"));
    if options.instructions {
        let code = instructions::run(&jobs, &options.program, &counts, options.why.as_deref())?;
        if options.why.is_some() {
            page::write(&folder.join("results"), &instructions::stored(&counts)?, &docs)?;
        }
        return Ok(code);
    }
    let Some(date) = &options.date else { return Err(USAGE.into()) };
    let results = measure::run(&jobs, &options.program, date)?;
    println!("\n{}", page::table(&results));
    if options.only.is_some() {
        println!("With --only nothing is stored.");
        return Ok(ExitCode::SUCCESS);
    }
    page::store(&results, &folder.join("results"))?;
    page::write(&folder.join("results"), &instructions::stored(&counts)?, &docs)?;
    Ok(ExitCode::SUCCESS)
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options, Box<dyn Error>> {
    let program = PathBuf::from(arguments.next().ok_or(USAGE)?).canonicalize()?;
    let mut options = Options { program, instructions: false, why: None, date: None, only: None };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--instructions" => options.instructions = true,
            "--why" => options.why = Some(value()?).filter(|why| !why.is_empty()),
            "--date" => options.date = Some(value()?),
            "--only" => options.only = Some(value()?),
            _ => return Err(format!("{argument} is unknown: {USAGE}").into()),
        }
    }
    Ok(options)
}
