//! A lab of virtual machines: QEMU guests run workloads on disks that lie on one modelled drive, first each alone, then
//! together, recorded by blktrace inside, on the wire outside, and at the drive.
//!
//! A [`Plan`] says who runs what. [`GuestImage`] is what the guests boot, built of Debian packages (`image`); `guest` is one
//! of them running, `storage` the drive with whatever stands between it and the guests. [`run`] makes all runs of a plan
//! and leaves everything in one folder.

mod filebench;
mod image;
mod plan;
mod process;
mod results;
mod run;
mod sandbox;
mod storage;
mod vm;
mod workload;

use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use traces::described::DescriptionError;
use traces::error::ReadError;

pub use image::GuestImage;
pub use plan::{Accelerator, LabGroup, Plan, PlannedLun, PlannedVm, Together, TogetherName, Transport};
pub use results::doubts;
pub use run::{Lab, LabProgress, check_programs, check_rights, run};
pub use sandbox::{enter, is_entered};
pub use workload::WORKLOADS;

/// Why a lab could not do what its plan asks.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The plan is wrong.
    #[error(transparent)]
    Plan(#[from] DescriptionError),
    /// A program is not installed.
    #[error("{program} is missing: install the Debian package {package}")]
    Missing {
        /// The program.
        program: String,
        /// The package that has it.
        package: &'static str,
    },
    /// A program that runs beside the lab ended or did not answer.
    #[error("{name} {problem}: {last} ({})", log.display())]
    Process {
        /// The program.
        name: String,
        /// What happened.
        problem: String,
        /// Where all that it printed is.
        log: PathBuf,
        /// The last lines of it.
        last: String,
    },
    /// A command failed.
    #[error("{name} ended with {status}: {said}")]
    Command {
        /// The program.
        name: String,
        /// How it ended.
        status: ExitStatus,
        /// What it printed.
        said: String,
    },
    /// A guest did not do what it should.
    #[error("guest {vm}: {problem}; its console is in {}", console.display())]
    Vm {
        /// Which.
        vm: String,
        /// What happened.
        problem: String,
        /// What its kernel printed.
        console: PathBuf,
    },
    /// Something the lab needs cannot be had here.
    #[error("{0}")]
    Host(String),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A recorded trace cannot be read.
    #[error(transparent)]
    Trace(#[from] ReadError),
    /// The user stopped it.
    #[error("interrupted")]
    Interrupted,
}

impl LabError {
    /// For `map_err` of what happens to the file at `path`.
    fn io(path: &Path) -> impl FnOnce(std::io::Error) -> LabError + use<> {
        let path = path.to_owned();
        move |source| LabError::Io { path, source }
    }
}
