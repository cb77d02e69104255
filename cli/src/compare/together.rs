//! Replays that share their traces: each trace is decoded once for all of them.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use anyhow::{Error, Result};
use replay::ReplayError;
use traces::Problem;
use traces::shared::{SharedReader, Turns};

use super::Setup;
use super::candidates::Candidate;

/// The most replays that share their traces, unless more of them run at a time: each has a thread, and the state of its
/// drive is in memory.
const TOGETHER_MAX: usize = 8;

/// Runs a `replay` of each of the candidates with a thread each, of which as many run at a time as rayon has threads. If
/// one fails, the others end, too.
///
/// # Errors
/// A trace that cannot be opened; the error of a replay, of several that of the first in the order of the candidates.
pub fn replay_together<'a, T: Send>(
    setup: &Setup<'_>,
    candidates: &[(usize, &'a Candidate)],
    replay: &(impl Fn(&(usize, &'a Candidate), Option<Vec<SharedReader>>) -> Result<T> + Sync),
) -> Result<Vec<T>> {
    let mut replayed = Vec::new();
    let threads = rayon::current_num_threads();
    // Groups of about one size, so that the last one keeps the processors busy, too.
    let groups = candidates.len().div_ceil(TOGETHER_MAX.max(threads)).max(1);
    for group in candidates.chunks(candidates.len().div_ceil(groups).max(1)) {
        let turns = Arc::new(Turns::new(threads));
        let readers = setup.load.share(&setup.options, group.len(), &turns)?;
        let results: Vec<Result<T>> = thread::scope(|scope| {
            let begin = |(of, readers)| {
                let turns = &turns;
                scope.spawn(move || turns.run(|| replay(of, Some(readers))))
            };
            let threads: Vec<_> = group.iter().zip(readers).map(begin).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
        });
        let (of_group, mut failures): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
        failures.sort_by_key(|failure| failure.as_ref().is_err_and(is_stop));
        let of_group: Result<Vec<T>> = failures.into_iter().chain(of_group).collect();
        replayed.extend(of_group?);
    }
    Ok(replayed)
}

/// Whether a replay has failed only because another one has.
fn is_stop(error: &Error) -> bool {
    matches!(error.downcast_ref(), Some(ReplayError::Read(error)) if matches!(error.problem, Problem::Stopped))
}
