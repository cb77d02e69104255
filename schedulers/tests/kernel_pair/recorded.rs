//! Decisions of random sequences, as digests in a file. Those of the kernel's elevators are the kernel's own: the tests
//! of `make test-kernel` make the same digests with its code.

use std::collections::BTreeMap;

use iocast_schedulers::Scheduler;

use super::load::{ALL, Load, run};
use super::{BEGIN, Pair};

/// The recorded digests, a line for each spec: of one VM, then of several.
const FILE: &str = include_str!("../decisions.txt");
/// Random sequences of a digest, with the seeds from 1, and their steps. In the sixth, our bfq answers otherwise than the
/// kernel's to one question about a merge.
const SEQUENCES: u64 = 5;
const STEPS: u32 = 1800;
/// The loads of the digests of a line.
pub(crate) const LOADS: [Load; 2] = [ALL, Load { vms: 3, ..ALL }];

/// The digest of all decisions of two schedulers that decide alike.
///
/// # Errors
/// The first difference.
pub(crate) fn digest(
    ours: &dyn Fn() -> Box<dyn Scheduler>,
    theirs: &dyn Fn() -> Box<dyn Scheduler>,
    load: Load,
) -> Result<u64, String> {
    (1..=SEQUENCES).try_fold(0, |digest: u64, seed| {
        let mut pair = Pair { only_ours_wakes: true, ..Pair::new(ours(), theirs(), BEGIN) };
        run(&mut pair, seed, load, STEPS).map_err(|difference| format!("seed {seed}, {difference}"))?;
        Ok(digest.rotate_left(1) ^ pair.digest)
    })
}

/// The recorded digests of each spec, as hexadecimal numbers.
pub(crate) fn recorded() -> BTreeMap<&'static str, Vec<&'static str>> {
    let line = |line: &'static str| {
        let mut words = line.split_whitespace();
        Some((words.next()?, words.collect()))
    };
    FILE.lines().filter_map(line).collect()
}
