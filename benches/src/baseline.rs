//! Baselines: the figures of a run, kept under a name below cargo's target folder, for comparison with a later run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use serde::{Deserialize, Serialize};
use traces::WriteError;
use traces::spec::nearest;
use traces::whole_file::write_whole;

use crate::outcome::Outcome;
use crate::scenario::figures::Measured;

/// The figures of a run by scenario, scheduler and figure, each with a value for each seed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    schema_version: u32,
    scenarios: BTreeMap<String, BTreeMap<String, BTreeMap<String, Vec<u64>>>>,
}

/// The version of the file.
const SCHEMA_VERSION: u32 = 1;

/// Why a baseline cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// The name could leave the folder.
    #[error("`{0}` is no name for a baseline: letters, digits, `-`, `_` and `.` make one, a letter or digit first")]
    Name(String),
    /// There is none of this name.
    #[error(
        "there is no baseline `{name}` in {}{}; save it first with --save-baseline {name}, on the version to compare \
         with",
        folder.display(),
        if near.is_empty() { String::new() } else { format!(" (did you mean {}?)", near.join(", ")) }
    )]
    Missing {
        /// The name.
        name: String,
        /// Where baselines are kept.
        folder: PathBuf,
        /// Similar names.
        near: Vec<String>,
    },
    /// The file is not one of ours.
    #[error("{}: this is no baseline of this version ({problem}); save it again with --save-baseline", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The file cannot be read, or the folder cannot be made.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// The file that marks cargo's target folder.
const MARK: &str = "CACHEDIR.TAG";

/// Where baselines are kept: `iocast-bench` in cargo's target folder, in which this program lies; elsewhere in
/// `CARGO_TARGET_DIR`, or in `target`.
pub fn folder() -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    let built_in = program.ancestors().skip(1).find(|folder| folder.join(MARK).is_file()).map(Path::to_owned);
    let named = || env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    built_in.or_else(named).unwrap_or_else(|| PathBuf::from("target")).join("iocast-bench")
}

fn path(folder: &Path, name: &str) -> Result<PathBuf, BaselineError> {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) || !name.chars().all(is_safe) {
        return Err(BaselineError::Name(name.to_owned()));
    }
    Ok(folder.join(format!("{name}.json")))
}

impl Baseline {
    /// The baseline of this name in `folder`.
    ///
    /// # Errors
    /// No such baseline, with similar names; a file that cannot be read.
    pub fn read(folder: &Path, name: &str) -> Result<Baseline, BaselineError> {
        let path = path(folder, name)?;
        let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                let (known, folder) = (names(folder), folder.to_owned());
                let near = nearest(name, known.iter().map(String::as_str));
                BaselineError::Missing { name: name.to_owned(), folder, near }
            }
            _ => BaselineError::Io { path: path.clone(), error },
        })?;
        let malformed = |problem: String| BaselineError::Malformed { path: path.clone(), problem };
        let read: Baseline = serde_json::from_str(&text).map_err(|error| malformed(error.to_string()))?;
        match read.schema_version {
            SCHEMA_VERSION => Ok(read),
            other => Err(malformed(format!("version {other}, not {SCHEMA_VERSION}"))),
        }
    }

    /// Keeps the figures of these scenarios under this name. Those of other scenarios stay as they were.
    ///
    /// # Errors
    /// A baseline of this name that cannot be read; a file that cannot be written.
    pub fn save(folder: &Path, name: &str, outcomes: &[Outcome]) -> Result<PathBuf, BaselineError> {
        let path = path(folder, name)?;
        let mut baseline = match Baseline::read(folder, name) {
            Err(BaselineError::Missing { .. }) => Baseline::default(),
            read => read?,
        };
        baseline.schema_version = SCHEMA_VERSION;
        for outcome in outcomes {
            let of_one = |figures: &Vec<Measured>| {
                figures.iter().map(|measured| (measured.name.clone(), measured.by_seed.clone())).collect()
            };
            let candidates = outcome.scenario.schedulers.iter().map(|candidate| candidate.name.clone());
            let figures = candidates.zip(outcome.measured.iter().map(of_one)).collect();
            baseline.scenarios.insert(outcome.scenario.name.clone(), figures);
        }
        fs::create_dir_all(folder).map_err(|error| BaselineError::Io { path: folder.to_owned(), error })?;
        let mut text = serde_json::to_string_pretty(&baseline).expect("maps with texts as keys are JSON");
        text.push('\n');
        write_whole(&path, text.as_bytes())?;
        Ok(path)
    }

    /// The values of a figure, one for each seed; `None` if the baseline has none.
    pub fn values(&self, scenario: &str, scheduler: &str, figure: &str) -> Option<&[u64]> {
        self.scenarios.get(scenario)?.get(scheduler)?.get(figure).map(Vec::as_slice)
    }
}

/// The names of all baselines in a folder; none if it cannot be read.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let name = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_suffix(".json").map(str::to_owned);
    let mut names: Vec<String> = entries.filter_map(name).collect();
    names.sort();
    names
}
