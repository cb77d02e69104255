//! Scheduler comparisons whose figures must come out: scenarios in TOML files, run by `cargo bench`.
//!
//! The benchmark of a project with a scheduler of its own is a file of five lines:
//!
//! ```no_run
//! # extern crate schedulers as iocast_schedulers;
//! use iocast_schedulers::Registry;
//!
//! fn main() -> std::process::ExitCode {
//!     iocast_bench::main(&Registry::builtin(), concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios"))
//! }
//! ```
//!
//! with `.with(&my_scheduler::ENTRY)` behind `builtin()`. `iocast bench init` writes such a project.
//!
//! The modules `capture`, `closed_loop`, `cost` and `decisions` are what our own benchmarks of the engine share.

// The names that a project of its own uses for them, as the template does.
extern crate schedulers as iocast_schedulers;
extern crate traces as iocast_traces;

pub mod baseline;
#[doc(hidden)]
pub mod capture;
#[doc(hidden)]
pub mod closed_loop;
pub mod command_line;
#[doc(hidden)]
pub mod cost;
#[doc(hidden)]
pub mod decisions;
pub mod markdown;
pub mod outcome;
pub mod scenario;
pub mod template;
pub mod trackers;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use schedulers::Registry;
use traces::whole_file::write_whole;
use traces::{DescriptionError, WriteError};

use baseline::{Baseline, BaselineError};
use command_line::{CommandLineError, Options};
use outcome::Outcome;
use scenario::{Scenario, ScenarioError};

/// Why scenarios could not be run.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The arguments are not accepted.
    #[error(transparent)]
    CommandLine(#[from] CommandLineError),
    /// A scenario is not accepted.
    #[error(transparent)]
    Scenario(#[from] DescriptionError),
    /// A replay came to no end.
    #[error(transparent)]
    Replay(#[from] ScenarioError),
    /// A baseline cannot be used.
    #[error(transparent)]
    Baseline(#[from] BaselineError),
    /// A result cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The folder of the scenarios cannot be read, or the summary cannot be written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
    /// The folder holds no scenario.
    #[error("{}: there is no scenario here, no file that ends in .toml", .0.display())]
    Empty(PathBuf),
}

/// The `main` of a benchmark: runs the scenarios in the folder `scenarios`, whose schedulers are among `known`, as the
/// command line asks.
pub fn main(known: &Registry, scenarios: impl AsRef<Path>) -> ExitCode {
    let summary = env::var_os("GITHUB_STEP_SUMMARY").map(PathBuf::from);
    match run(known, scenarios.as_ref(), env::args().skip(1), summary.as_deref(), &baseline::folder()) {
        Ok((text, passed)) => {
            print!("{text}");
            if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the scenarios that `arguments` ask for: what is to be printed, and whether all is as expected. The tables are
/// appended to the file `summary`, and baselines are in the folder `baselines`.
///
/// # Errors
/// Arguments, scenarios and baselines that are not accepted; a file that cannot be read or written.
pub fn run(
    known: &Registry,
    folder: &Path,
    arguments: impl IntoIterator<Item = String>,
    summary: Option<&Path>,
    baselines: &Path,
) -> Result<(String, bool), BenchError> {
    let options = Options::parse(arguments)?;
    if options.help {
        return Ok((command_line::help(), true));
    }
    let all = files(folder)?;
    let names: Vec<String> = all.iter().map(|path| name(path)).collect();
    options.check_filters(&names)?;
    if options.list {
        return Ok((names.into_iter().filter(|name| options.chooses(name)).map(|name| name + "\n").collect(), true));
    }
    let old = options.baseline.as_deref().map(|name| Ok::<_, BenchError>((name, Baseline::read(baselines, name)?)));
    let old = old.transpose()?;
    let chosen = all.iter().zip(&names).filter(|(_, name)| options.chooses(name));
    // All are read before the first is replayed, so that a mistake in the last is said at once.
    let scenarios = chosen.map(|(path, _)| Scenario::read(path, known)).collect::<Result<Vec<_>, _>>()?;
    let outcomes =
        scenarios.into_iter().map(|scenario| Outcome::of(scenario, known)).collect::<Result<Vec<Outcome>, _>>()?;
    let mut text = markdown::run(&outcomes, old.as_ref().map(|(name, baseline)| (*name, baseline)));
    if let Some(path) = summary {
        append(path, &text).map_err(|error| BenchError::Io { path: path.to_owned(), error })?;
    }
    if let Some(path) = &options.json {
        write_whole(path, trackers::json(&outcomes).as_bytes())?;
    }
    if let Some(name) = &options.save_baseline {
        let path = Baseline::save(baselines, name, &outcomes)?;
        text.push_str(&format!("Baseline {name} is {}\n", path.display()));
    }
    Ok((text, outcomes.iter().all(Outcome::passed)))
}

fn append(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().append(true).create(true).open(path)?.write_all(text.as_bytes())
}

fn name(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The scenarios of a folder, by name, with paths as short as they can be from where the program runs.
fn files(folder: &Path) -> Result<Vec<PathBuf>, BenchError> {
    let here = env::current_dir().unwrap_or_default();
    let folder = folder.strip_prefix(&here).unwrap_or(folder);
    let fail = |error| BenchError::Io { path: folder.to_owned(), error };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() { Err(BenchError::Empty(folder.to_owned())) } else { Ok(files) }
}
