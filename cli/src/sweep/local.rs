//! The engine on this machine: all cores, a part of the results at a time on each.

use std::sync::atomic::Ordering;

use anyhow::Result;
use rayon::prelude::*;

use super::expansion::Expansion;
use super::folder::{Folder, tasks_per_part};
use super::rows::write_file;
use super::task::RESULT_COLUMNS;
use crate::arguments::Shard;
use crate::progress::Progress;

/// The numbers of the parts of a shard, of `all` tasks.
fn parts(all: u64, shard: Shard) -> impl Iterator<Item = u64> {
    (0..all.div_ceil(tasks_per_part(all))).filter(move |part| part % shard.of == shard.number - 1)
}

/// Runs the tasks of the shard whose results are not in the folder yet. The number of threads changes no byte of them.
///
/// # Errors
/// The file system's.
pub fn run(expansion: &Expansion, folder: &Folder, shard: Shard) -> Result<()> {
    let (all, length) = (expansion.len(), tasks_per_part(expansion.len()));
    let missing: Vec<u64> = parts(all, shard).filter(|part| !folder.part(*part).exists()).collect();
    let tasks = |part: u64| part * length..((part + 1) * length).min(all);
    let progress = Progress::jobs("sweeping", missing.iter().map(|part| tasks(*part).count() as u64).sum());
    let done = progress.counter(0);
    missing.par_iter().with_max_len(1).try_for_each(|part| {
        let rows = expansion.tasks(tasks(*part)).map(|task| {
            let row = task.run();
            done.fetch_add(1, Ordering::Relaxed);
            Ok(row)
        });
        write_file(&folder.part(*part), &RESULT_COLUMNS, rows)
    })
}

/// The number of parts, and of those that are not in the folder yet.
pub fn standing(expansion: &Expansion, folder: &Folder) -> (u64, u64) {
    let every = || parts(expansion.len(), Shard::ALL);
    (every().count() as u64, every().filter(|part| !folder.part(*part).exists()).count() as u64)
}

/// The files of all parts.
pub fn files(expansion: &Expansion, folder: &Folder) -> Vec<std::path::PathBuf> {
    parts(expansion.len(), Shard::ALL).map(|part| folder.part(part)).collect()
}
