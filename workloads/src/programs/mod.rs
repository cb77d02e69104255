//! Generated workloads: the processes of a guest, modelled on common benchmarks.
//!
//! [`PROGRAMS`] is the table of all programs. A workload is named by a [`Spec`] (`dd:size=2g,bs=64k`) or is a fio job
//! file (its name ends in `.fio`). [`build`] makes a [`Workload`] of it, which creates the files and the processes of a
//! guest. A [`description`] names the workloads of several guests.
//!
//! A process that uses the page cache takes processor time for every access, so that it cannot run for ever at one
//! point of time.

mod dd;
pub mod description;
mod filebench;
pub mod fio;
mod generators;
mod iozone;
mod surge;
mod terasort;
mod transfer;

use std::path::{Path, PathBuf};

use traces::spec::{Settings, Spec, SpecError, Tunable, nearest};

use crate::guest::files::{Files, OutOfSpace};
use crate::guest::program::Program;
use fio::{JobError, Jobs};

/// The processes of a guest.
pub type Processes = Vec<Box<dyn Program>>;

/// A program in the registry.
pub struct Entry {
    /// The name on the command line and in descriptions.
    pub name: &'static str,
    /// A summary in one line.
    pub summary: &'static str,
    /// The program, version or paper that it follows.
    pub origin: &'static str,
    /// Its tunables, under the names that the original program uses if it has them.
    pub tunables: &'static [Tunable],
    /// The names of its events, beginning with that of `Event(0)`.
    pub events: &'static [&'static str],
    /// Whether its processes end by themselves.
    pub ends: fn(&Settings) -> bool,
    /// How its processes are created.
    pub build: Build,
}

/// How a program is created from settings resolved against its tunables.
#[derive(Clone, Copy)]
pub enum Build {
    /// Creates its files and returns its processes; the number is the seed of its random numbers.
    Processes(fn(&Settings, &mut Files, u64) -> Result<Processes, OutOfSpace>),
    /// Writes an equivalent fio job file.
    Jobs(fn(&Settings) -> String),
}

/// Every program.
pub const PROGRAMS: &[Entry] = &[
    dd::ENTRY,
    iozone::ENTRY,
    fio::ENTRY,
    filebench::VARMAIL,
    filebench::WEBSERVER,
    filebench::FILESERVER,
    surge::ENTRY,
    terasort::ENTRY,
];

/// The registry row with this name.
///
/// # Errors
/// [`SpecError::UnknownName`] with the nearest names.
pub fn find(name: &str) -> Result<&'static Entry, SpecError> {
    PROGRAMS.iter().find(|entry| entry.name == name).ok_or_else(|| SpecError::UnknownName {
        kind: "workload",
        name: name.to_owned(),
        near: nearest(name, PROGRAMS.iter().map(|entry| entry.name)),
    })
}

/// Why a workload was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The name or a tunable is not known, or a value is not accepted.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The fio job file is not accepted.
    #[error(transparent)]
    Jobs(#[from] JobError),
}

/// A workload with all its settings.
#[derive(Debug)]
pub struct Workload {
    /// Its row in the registry.
    pub entry: &'static Entry,
    /// All tunables with defaults filled in; none for a job file.
    pub settings: Settings,
    /// The fio job file that it was read from, if any.
    pub job_file: Option<PathBuf>,
    jobs: Option<Jobs>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The workload that `spec` names: a program with its tunables, or the path of a fio job file
/// (anything that ends in `.fio`).
///
/// # Errors
/// An unknown name or tunable, with similar ones; a value or a job file that is not accepted.
pub fn build(spec: &Spec) -> Result<Workload, WorkloadError> {
    if spec.name.ends_with(".fio") {
        let settings = Settings::resolve(spec, &[])?;
        let jobs = Jobs::read(Path::new(&spec.name))?;
        let job_file = Some(PathBuf::from(&spec.name));
        return Ok(Workload { entry: &fio::ENTRY, settings, job_file, jobs: Some(jobs) });
    }
    let entry = find(&spec.name)?;
    let settings = Settings::resolve(spec, entry.tunables)?;
    let jobs = match entry.build {
        Build::Processes(_) => None,
        Build::Jobs(text) => Some(Jobs::parse(&spec.to_string(), &text(&settings))?),
    };
    Ok(Workload { entry, settings, job_file: None, jobs })
}

/// The workload of a fio job file given as text; `name` is used in messages.
///
/// # Errors
/// A job that is not accepted.
pub fn build_jobs(name: &str, text: &str) -> Result<Workload, JobError> {
    let settings = Settings::resolve(&Spec::default(), &[]).expect("nothing was given");
    Ok(Workload { entry: &fio::ENTRY, settings, job_file: None, jobs: Some(Jobs::parse(name, text)?) })
}

impl Workload {
    /// Creates the files and returns the processes. Equal seeds give equal processes.
    ///
    /// # Errors
    /// The files do not fit the disk.
    pub fn processes(&self, files: &mut Files, seed: u64) -> Result<Processes, OutOfSpace> {
        match (&self.jobs, self.entry.build) {
            (Some(jobs), _) => jobs.processes(files, seed),
            (None, Build::Processes(build)) => build(&self.settings, files, seed),
            (None, Build::Jobs(_)) => unreachable!("its job file is read when the workload is built"),
        }
    }

    /// Whether all its processes end by themselves; other processes must be stopped by the caller.
    pub fn ends(&self) -> bool {
        self.jobs.is_some() || (self.entry.ends)(&self.settings)
    }

    /// The names of its events, beginning with that of `Event(0)`.
    pub fn events(&self) -> Vec<String> {
        match &self.jobs {
            Some(jobs) => jobs.events(),
            None => self.entry.events.iter().map(|&event| event.to_owned()).collect(),
        }
    }
}
