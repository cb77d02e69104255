//! Machines replayed on a drive, alone and together.

use anyhow::{Result, ensure};
use predictors::Consolidation;
use predictors::replayed::Ran;
use replay::sources::TimeWindow;
use traces::results::prediction::Forecast;

use super::profiles::{Alone, Machine};
use crate::arguments::{Predict, UsageError};
use crate::progress::Progress;
use crate::storage::Storage;
use crate::vms::{self, Vm};

/// Every machine alone on `storage`, and what the first `together` get there together.
///
/// # Errors
/// A profile among them; captures that cannot be read, do not fit or cannot be replayed closed.
pub fn replay(
    machines: &[Machine],
    together: usize,
    storage: &Storage,
    arguments: &Predict,
) -> Result<(Alone, Forecast)> {
    if let Some(profile) = machines.iter().find(|machine| machine.is_profile()) {
        let what = "--drive replays captures, and a profile tells no single requests";
        return Err(UsageError(format!("{}: {what}", profile.named.path.display())).into());
    }
    let options = arguments.reading.options();
    let window = TimeWindow { from: arguments.start, to: arguments.end, limit: None };
    let named = machines.iter().map(|machine| machine.named.clone()).collect();
    let mapping = arguments.replayed_on.map.mapping();
    let vms = vms::gather(named, &options, mapping, window, storage.capacity()?)?;
    for warning in vms::overlaps(&vms) {
        eprintln!("iocast: warning: {warning}");
    }
    let bytes = |vms: &[Vm]| vms.iter().map(|vm| vm.bytes).sum::<u64>();
    let progress = Progress::new("replaying", bytes(&vms) + bytes(&vms[..together]), vms.len() + 1);
    let (mut profiles, mut recordings) = (Vec::new(), Vec::new());
    for (index, vm) in vms.iter().enumerate() {
        let Ran { profile, recording } = storage.replay(&[vm], &options, window, progress.counter(index))?.remove(0);
        let requests = profile.reads.requests + profile.writes.requests;
        ensure!(requests > 0, "{}: nothing of it is left to replay in the window", vm.path.display());
        profiles.push(profile);
        recordings.push(recording);
    }
    let together: Vec<&Vm> = vms[..together].iter().collect();
    let together = storage.replay(&together, &options, window, progress.counter(vms.len()))?;
    let together: Vec<_> = together.into_iter().map(|ran| ran.profile).collect();
    Ok((Alone { profiles, recordings }, Consolidation::measured(&together).forecast()))
}
