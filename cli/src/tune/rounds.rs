//! The rounds of a tuning: successive halving (Jamieson and Talwalkar 2016), by thirds. Each round is a sweep.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, ensure};
use traces::origin::without_folders;

use super::draws::{Draws, Purpose};
use super::question::Question;
use super::result::{Ranked, Round};
use super::score::{Results, Score};
use super::space::Candidate;
use super::split::{Piece, Split, drawn_windows};
use crate::arguments::{Shard, Tune};
use crate::needs::uses::TUNE_SPARK;
use crate::sweep::expansion::Expansion;
use crate::sweep::folder::Folder;
use crate::sweep::plan::{Checked, WindowOf};
use crate::sweep::run_tasks;

/// A round keeps a third of its candidates, and the next has windows three times as long.
const FACTOR: usize = 3;
/// The last round, of whole traces, has at least this many candidates where there are as many.
const LAST_MIN: usize = 3;
/// The most rounds before the last: windows of a twenty-seventh.
const CUTS_MAX: u32 = 3;

/// The parts of a trace that a window of each round is: 9, 3, 1.
pub fn parts(candidates: usize) -> Vec<u64> {
    let cut = |cuts: &u32| candidates / FACTOR.pow(*cuts) >= LAST_MIN;
    let cuts = (1..=CUTS_MAX).take_while(cut).count() as u32;
    (0..=cuts).rev().map(|cut| FACTOR.pow(cut) as u64).collect()
}

/// How many candidates a round of so many keeps, the scheduler as given not counted.
pub fn kept(candidates: usize) -> usize {
    candidates.div_ceil(FACTOR)
}

/// Runs sweeps of candidates.
pub struct Runner<'a> {
    pub arguments: &'a Tune,
    pub question: &'a Question,
    /// In which the command runs; paths are relative to it.
    pub folder: &'a str,
    /// The checksums of traces so far.
    digests: BTreeMap<String, String>,
}

/// Where the rounds have led.
pub struct Found {
    pub rounds: Vec<Round>,
    /// The first of the last round.
    pub best: Candidate,
    /// Candidates and results of the first and the last round.
    pub first: (Vec<Candidate>, Results),
    pub last: (Vec<Candidate>, Results),
}

impl<'a> Runner<'a> {
    pub fn new(arguments: &'a Tune, question: &'a Question, folder: &'a str) -> Runner<'a> {
        Runner { arguments, question, folder, digests: BTreeMap::new() }
    }

    /// Runs `candidates` in windows of `pieces`, in a folder of its own below that of the tuning. What is there already is
    /// not run again.
    ///
    /// # Errors
    /// Those of a sweep; a trace that has changed since another round.
    pub fn run(
        &mut self,
        name: &str,
        candidates: &[Candidate],
        pieces: &[Piece],
        windows: Vec<WindowOf>,
    ) -> Result<Results> {
        let arguments = self.arguments;
        let expansion = Expansion::new(Checked {
            folder: self.folder.to_owned(),
            traces: pieces.iter().map(|piece| piece.name.clone()).collect(),
            schedulers: candidates.iter().map(|candidate| candidate.scheduler.clone()).collect(),
            stacks: Vec::new(),
            drives: vec![arguments.drive.clone()],
            pacing: arguments.pacing.clone(),
            map: arguments.map.to_string(),
            depth: arguments.depth,
            windows,
            pairs: None,
            quantities: None,
        })?;
        note!("iocast: {name}: {} candidates, {} replays", candidates.len(), expansion.len());
        let folder = Folder::open(&arguments.out.join(name), &expansion)?;
        run_tasks(&expansion, &folder, &arguments.engine, Shard::ALL, TUNE_SPARK)?;
        let results = Results::read(&folder.results(), candidates.len(), self.question)?;
        for (trace, digest) in &results.digests {
            let known = self.digests.entry(trace.clone()).or_insert_with(|| digest.clone());
            ensure!(
                known == digest,
                "{trace} has changed since an earlier round; remove {} and repeat the command",
                arguments.out.display()
            );
        }
        Ok(results)
    }

    /// All rounds, from all candidates to the best.
    ///
    /// # Errors
    /// Those of [`Runner::run`]; a round in which nothing can be compared.
    pub fn search(&mut self, all: &[Candidate], split: &Split) -> Result<Found> {
        let mut candidates = all.to_vec();
        let mut rounds = Vec::new();
        let mut first = None;
        let parts = parts(all.len());
        for (number, parts) in (0_u32..).zip(&parts) {
            let mut draws = Draws::new(self.arguments.seed, Purpose::Windows(number));
            let windows = drawn_windows(&split.tuned_on, *parts, &mut draws);
            let name = format!("round-{number}");
            let results = self.run(&name, &candidates, &split.tuned_on, windows)?;
            results.check(self.question)?;
            let ranking = ranking(&candidates, &results, self.question);
            rounds.push(round(name, *parts, &candidates, &results, &ranking));
            if *parts == 1 {
                let best = candidates[ranking[0].0].clone();
                let last = (candidates, results);
                let first = first.unwrap_or_else(|| (last.0.clone(), last.1.clone()));
                return Ok(Found { rounds, best, first, last });
            }
            // In their old order, which decides between equals; the scheduler as given stays the first.
            let mut stay: Vec<usize> = ranking[..kept(candidates.len())].iter().map(|(at, _)| *at).collect();
            stay.push(0);
            stay.sort_unstable();
            stay.dedup();
            let next = stay.into_iter().map(|at| candidates[at].clone()).collect();
            let before = std::mem::replace(&mut candidates, next);
            first.get_or_insert((before, results));
        }
        anyhow::bail!("a tuning has a round of whole traces")
    }
}

/// The numbers of the candidates with their scores, the best first.
fn ranking(candidates: &[Candidate], results: &Results, question: &Question) -> Vec<(usize, Score)> {
    let mut ranking: Vec<(usize, Score)> =
        (0..candidates.len()).map(|number| (number, results.score(number, question))).collect();
    // Equals stay in their order.
    ranking.sort_by(|(one, score), (other, other_score)| {
        score.compare(candidates[*one].changed, other_score, candidates[*other].changed, question)
    });
    ranking
}

fn round(name: String, parts: u64, candidates: &[Candidate], results: &Results, ranking: &[(usize, Score)]) -> Round {
    let [failed_tasks, overloaded_tasks] = results.not_comparable();
    let ranked = |(number, score): &(usize, Score)| Ranked {
        scheduler: candidates[*number].scheduler.clone(),
        ratio: score.goal.exp(),
        limit_ratios: score.limits.iter().map(|ratio| ratio.map(f64::exp)).collect(),
        is_within_limits: score.excess <= 0.0,
        windows_missing: score.missing,
    };
    let windows = results.contexts.len() as u64;
    let candidates = ranking.iter().map(ranked).collect();
    Round { folder: name, parts, windows, failed_tasks, overloaded_tasks, candidates }
}

/// What a tuning will cost at most: replays, and requests in them.
pub fn costs(candidates: usize, split: &Split, seed: u64, held_out: &[WindowOf]) -> (u64, u64) {
    let requests = |pieces: &[Piece], windows: &[WindowOf]| -> u64 {
        let of = |window: &WindowOf| {
            let piece = window.traces.iter().flatten().next().and_then(|number| pieces.get(*number as usize));
            piece.map_or(0, |piece| piece.requests_in(window))
        };
        windows.iter().map(of).sum()
    };
    let (mut replays, mut all) = (0_u64, 0_u64);
    let mut count = candidates;
    for (number, parts) in (0..).zip(parts(candidates)) {
        let windows = drawn_windows(&split.tuned_on, parts, &mut Draws::new(seed, Purpose::Windows(number)));
        replays += count as u64 * windows.len() as u64;
        all += count as u64 * requests(&split.tuned_on, &windows);
        count = (kept(count) + 1).min(count);
    }
    (replays + 2 * held_out.len() as u64, all + 2 * requests(&split.held_out, held_out))
}

/// A path as a result names it.
pub fn shown(name: &str) -> String {
    without_folders(name).to_owned()
}

/// A folder that paths can be relative to.
///
/// # Errors
/// A name that is no UTF-8.
pub fn folder_text(folder: &Path) -> Result<&str> {
    folder.to_str().ok_or_else(|| anyhow::anyhow!("the folder's name is no UTF-8; tasks hold it as text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_grow_as_candidates_become_fewer() {
        assert_eq!(parts(2), [1]);
        assert_eq!(parts(8), [1]);
        assert_eq!(parts(9), [3, 1]);
        assert_eq!(parts(27), [9, 3, 1]);
        assert_eq!(parts(81), [27, 9, 3, 1]);
        assert_eq!(parts(10_000), [27, 9, 3, 1]);
        assert_eq!([2, 9, 27, 10].map(kept), [1, 3, 9, 4]);
    }
}
