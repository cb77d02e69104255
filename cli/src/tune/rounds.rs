//! The rounds of a tuning: successive halving (Jamieson and Talwalkar 2016), by thirds. Changes of the best that gain
//! nothing are then undone. Each round is a sweep.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, ensure};

use super::draws::{Draws, Purpose};
use super::notes;
use super::question::Question;
use super::result::{Ranked, Round};
use super::score::{Results, Score};
use super::space::{Candidate, Space};
use super::split::{Piece, Split, drawn_windows};
use crate::arguments::{Shard, Tune};
use crate::needs::uses::TUNE_SPARK;
use crate::sweep::expansion::Expansion;
use crate::sweep::folder::{Folder, Joined};
use crate::sweep::plan::{Checked, WindowOf};
use crate::sweep::{Ran, check_tasks, run_tasks};

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
    /// The tasks so far.
    pub ran: Joined,
}

/// Where the rounds have led.
pub struct Found {
    pub rounds: Vec<Round>,
    /// The first and the last round.
    pub first: Ranking,
    pub last: Ranking,
}

impl<'a> Runner<'a> {
    pub fn new(arguments: &'a Tune, question: &'a Question, folder: &'a str) -> Runner<'a> {
        Runner { arguments, question, folder, digests: BTreeMap::new(), ran: Joined::default() }
    }

    /// Runs `candidates` in windows of `pieces`, in a folder of its own below that of the tuning. What is there already
    /// is not run again.
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
        check_tasks(&expansion, &arguments.engine, TUNE_SPARK)?;
        let folder = Folder::open(&arguments.out.join(name), &expansion)?;
        if let Ran::All(joined) = run_tasks(&expansion, &folder, &arguments.engine, Shard::ALL, TUNE_SPARK)? {
            notes::add(&mut self.ran, joined);
        }
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
    pub fn search(&mut self, space: &Space, all: &[Candidate], split: &Split) -> Result<Found> {
        let first = self.round(0, all.to_vec(), split, parts(all.len())[0])?;
        let mut rounds = vec![first.told()];
        let mut last = first.clone();
        for (number, parts) in (1_u32..).zip(&parts(all.len())[1..]) {
            last = self.round(number, last.best(kept(last.candidates.len())), split, *parts)?;
            rounds.push(last.told());
        }
        for candidates in [Ranking::undone, Ranking::undone_together] {
            let Some(candidates) = candidates(&last, space) else { break };
            last = self.round(rounds.len() as u32, candidates, split, 1)?;
            rounds.push(last.told());
        }
        Ok(Found { rounds, first, last })
    }

    /// Runs a round, and ranks its candidates.
    fn round(&mut self, number: u32, candidates: Vec<Candidate>, split: &Split, parts: u64) -> Result<Ranking> {
        let mut draws = Draws::new(self.arguments.seed, Purpose::Windows(number));
        let windows = drawn_windows(&split.tuned_on, parts, &mut draws);
        let name = format!("round-{number}");
        let results = self.run(&name, &candidates, &split.tuned_on, windows)?;
        results.check(self.question)?;
        let scores = (0..candidates.len()).map(|number| (number, results.score(number, self.question)));
        let mut ranking: Vec<(usize, Score)> = scores.collect();
        // Equals stay in their order.
        ranking.sort_by(|(one, score), (other, other_score)| {
            score.compare(candidates[*one].changed(), other_score, candidates[*other].changed(), self.question)
        });
        Ok(Ranking { name, parts, candidates, results, ranking })
    }
}

/// A round with its candidates in order.
#[derive(Clone)]
pub struct Ranking {
    name: String,
    parts: u64,
    /// The first is the scheduler as given.
    pub candidates: Vec<Candidate>,
    pub results: Results,
    /// The numbers of the candidates with their scores, the best first.
    ranking: Vec<(usize, Score)>,
}

impl Ranking {
    /// The number of the best.
    pub fn first(&self) -> usize {
        self.ranking.first().map_or(0, |(number, _)| *number)
    }

    /// The best so many, and the scheduler as given. They stand in their old order, which decides between equals.
    fn best(&self, count: usize) -> Vec<Candidate> {
        let mut stay: Vec<usize> = self.ranking[..count].iter().map(|(number, _)| *number).collect();
        stay.push(0);
        stay.sort_unstable();
        stay.dedup();
        stay.into_iter().map(|number| self.candidates[number].clone()).collect()
    }

    /// The best with each of its changes undone in turn, if it has several.
    fn undone(&self, space: &Space) -> Option<Vec<Candidate>> {
        let best = &self.candidates[self.first()];
        let several = best.changed() > 1;
        several.then(|| [vec![self.candidates[0].clone(), best.clone()], space.each_undone(best)].concat())
    }

    /// After a round of [`Ranking::undone`], if several changes gain nothing each: the best without those that do nothing
    /// at all, and without one more, two more, … of those that do harm, the most harmful first. Some harm only beside
    /// others.
    fn undone_together(&self, space: &Space) -> Option<Vec<Candidate>> {
        let whole = self.ranking.iter().position(|(number, _)| *number == 1)?;
        let before = self.ranking[..whole].iter().filter(|(number, _)| *number > 1);
        let (idle, harmful): (Vec<_>, Vec<_>) = before.partition(|(_, score)| *score == self.ranking[whole].1);
        if idle.len() + harmful.len() < 2 {
            return None;
        }
        let mut all = self.best(1);
        for count in 0..=harmful.len() {
            let undone = idle.iter().chain(&harmful[..count]).map(|(number, _)| &self.candidates[*number]);
            let together = space.all_undone(&self.candidates[1], &undone.collect::<Vec<&Candidate>>());
            if !all.contains(&together) {
                all.push(together);
            }
        }
        Some(all)
    }

    /// The round as the result has it.
    fn told(&self) -> Round {
        let [failed_tasks, overloaded_tasks] = self.results.not_comparable();
        let ranked = |(number, score): &(usize, Score)| Ranked {
            scheduler: self.candidates[*number].scheduler.clone(),
            ratio: score.goal.exp(),
            limit_ratios: score.limits.iter().map(|ratio| ratio.map(f64::exp)).collect(),
            is_within_limits: score.excess <= 0.0,
            windows_missing: score.missing,
        };
        Round {
            folder: self.name.clone(),
            parts: self.parts,
            windows: self.results.contexts.len() as u64,
            failed_tasks,
            overloaded_tasks,
            candidates: self.ranking.iter().map(ranked).collect(),
        }
    }
}

/// What a tuning will cost at most: replays, and requests in them.
pub fn costs(candidates: usize, tunables: usize, split: &Split, seed: u64, held_out: &[WindowOf]) -> (u64, u64) {
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
    // Two rounds of the scheduler as given and the best, without each change and without several.
    let undoing = if tunables > 1 { 2 * tunables as u64 + 5 } else { 0 };
    let whole = drawn_windows(&split.tuned_on, 1, &mut Draws::new(seed, Purpose::Windows(0)));
    replays += undoing * whole.len() as u64 + 2 * held_out.len() as u64;
    (replays, all + undoing * requests(&split.tuned_on, &whole) + 2 * requests(&split.held_out, held_out))
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
