//! A lab of VMs under QEMU. They run workloads on disks that lie on one modelled drive, first each alone, then
//! together. blktrace records inside each guest, dumpcap on the wire outside, and the served drive's log at the drive.
//!
//! A [`Plan`] defines the VMs, their workloads and the groups that run together. [`GuestImage`] is the kernel and
//! initramfs that VMs boot, built of Debian packages (`image`). `vm` runs one VM, `qemu` without privileges; `carrier`
//! takes its job in and its results out; `storage` serves the drive and connects the VMs to it. [`run`] makes all runs of a plan and keeps the results in one folder.

mod carrier;
mod filebench;
mod image;
mod plan;
mod process;
mod qemu;
mod results;
mod run;
mod sandbox;
mod storage;
mod vm;
mod workload;

use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use traces::described::DescriptionError;
use traces::error::{ReadError, WriteError};

pub use image::GuestImage;
pub use plan::{Accelerator, LabGroup, Plan, PlannedLun, PlannedVm, Together, TogetherName, Transport, alone};
pub use qemu::KvmAccess;
pub use results::doubts;
pub use run::{Lab, LabProgress, RESULTS_FILE, run};
pub use sandbox::{check_namespaces, enter, is_entered};
pub use workload::WORKLOADS;

/// Why a lab could not carry out its plan.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The plan is not valid.
    #[error(transparent)]
    Plan(#[from] DescriptionError),
    /// A program is not installed.
    #[error("{program} is not installed; `iocast doctor --for capture lab` names its package")]
    Missing {
        /// The program.
        program: String,
    },
    /// A program that runs beside the lab ended or did not answer.
    #[error("{name} {problem}: {last} ({})", log.display())]
    Process {
        /// The program.
        name: String,
        /// The problem.
        problem: String,
        /// The file with its output.
        log: PathBuf,
        /// The last lines of its output.
        last: String,
    },
    /// A command failed.
    #[error("{name} ended with {status}: {output}")]
    Command {
        /// The program.
        name: String,
        /// Its exit status.
        status: ExitStatus,
        /// Its output.
        output: String,
    },
    /// A VM failed.
    #[error("VM {vm}: {problem}; its console output is in {}", console.display())]
    Vm {
        /// The VM.
        vm: String,
        /// The problem.
        problem: String,
        /// The file with its kernel's console output.
        console: PathBuf,
    },
    /// The host lacks something that the lab needs.
    #[error("{0}")]
    Host(String),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The VM.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// A recorded trace cannot be read.
    #[error(transparent)]
    Trace(#[from] ReadError),
    /// A result cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The user stopped the lab.
    #[error("interrupted")]
    Interrupted,
}

impl LabError {
    /// A function for `map_err` that names the file at `path`.
    fn io(path: &Path) -> impl FnOnce(std::io::Error) -> LabError + use<> {
        let path = path.to_owned();
        move |source| LabError::Io { path, source }
    }
}
