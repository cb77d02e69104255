//! `--virtual-disk`: real disks below the throttle of Geist et al. 2010, beside the simulated columns.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, ensure};
use papers::geist2010::{self, virtual_disk};
use papers::{Paper, ReproduceError};
use replay::live::LiveDevice;
use signal_hook::consts::{SIGINT, SIGTERM};
use traces::results::reproduction::Reproduction;

use crate::arguments::Backend;
use crate::error::{Interrupted, UsageError};
use crate::progress::Progress;
use crate::replay::device::{Opened, Opening};

/// The throttle sends one request at a time, and the stage looks one ahead.
const DEPTH: u32 = 2;

/// Opens the virtual disks for reads.
///
/// # Errors
/// A paper without a virtual disk, or a disk that cannot be used.
pub fn open(paper: &Paper, paths: &[PathBuf]) -> Result<Vec<Box<dyn LiveDevice>>> {
    ensure!(
        paths.is_empty() || paper.name == geist2010::PAPER.name,
        UsageError(format!("--virtual-disk: {} has no virtual disk", paper.name))
    );
    let open = |path: &PathBuf| {
        let opening = Opening { path, allow_writes: false, backend: Backend::Auto, depth: DEPTH, seed: 0 };
        let Opened { device, warnings, .. } = Opened::new(&opening)?;
        for warning in warnings {
            eprintln!("iocast: warning: {warning}");
        }
        virtual_disk::check(&*device).with_context(|| path.display().to_string())?;
        Ok(device)
    };
    paths.iter().map(open).collect()
}

/// Measures the columns of the VM on `disks`, if there are any, and adds them.
///
/// # Errors
/// A disk fails, or the measurement is interrupted.
pub fn add(mut disks: Vec<Box<dyn LiveDevice>>, seed: u64, reproduction: &mut Reproduction) -> Result<()> {
    if disks.is_empty() {
        return Ok(());
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot watch for interrupts")?;
    }
    let progress = Progress::requests("measuring virtual disks", Some(virtual_disk::ARRIVALS), 1);
    match virtual_disk::add(reproduction, seed, &mut disks, &progress.counter(0), &stop) {
        Err(ReproduceError::Interrupted) => Err(Interrupted.into()),
        other => other.context("measuring virtual disks"),
    }
}
