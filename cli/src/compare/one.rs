//! One replay of a comparison: one scheduler or stack on one drive, with nothing beside it.

use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use replay::metrics::Class;
use traces::results::{Provenance, Run};
use traces::spec::Spec;
use traces::statistics::Distribution;

use super::{Setup, candidates, compare};
use crate::arguments::Compare;
use crate::error::UsageError;

/// The result of one replay.
pub struct One {
    /// Its figures, as a comparison has them.
    pub run: Run,
    /// What was replayed on what, with all settings and checksums.
    pub provenance: Provenance,
    /// The response times of reads.
    pub reads: Distribution,
    /// The response times of writes.
    pub writes: Distribution,
}

/// Replays the one column that the arguments name, on this thread.
///
/// # Errors
/// No or several columns; whatever makes `iocast compare` fail.
pub fn replay_one(arguments: &Compare) -> Result<One> {
    let drives: Vec<Spec> =
        arguments.drives.iter().map(|drive| drive.parse().map_err(UsageError::from_display)).collect::<Result<_>>()?;
    let candidates = candidates::of(arguments, &drives)?;
    let ([drive], [candidate]) = (&drives[..], &candidates[..]) else {
        bail!(UsageError(format!("{} columns are compared, where there can be only one", candidates.len())));
    };
    let setup = Setup::new(arguments, drive.clone())?;
    let replayed = setup.replay(0, candidate, None, Arc::default(), None, None)?;
    let requests = replayed.run.all.requests + replayed.run.other.requests;
    ensure!(requests > 0, setup.load.nothing(setup.window));
    let [reads, writes] = [Class::Read, Class::Write].map(|class| replayed.metrics.total(class).response);
    let mut comparison = compare(&[setup], vec![replayed], None)?;
    let run = comparison.runs.remove(0);
    Ok(One { run, provenance: comparison.provenance, reads, writes })
}
