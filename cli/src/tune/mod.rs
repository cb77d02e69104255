//! `iocast tune`: the tunables of a scheduler that suit traces best, found by successive halving over windows of the
//! traces, and proven on traces that were held out.

mod draws;
mod notes;
mod question;
pub mod result;
mod rounds;
mod score;
mod space;
mod split;
pub mod tables;

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use traces::origin::without_folders;
use traces::results::SCHEMA_VERSION;
use traces::whole_file::WholeFile;

use self::draws::{Draws, Purpose};
use self::question::Question;
pub use self::question::{Figure, figure};
use self::result::{Gain, Limit, Searched, Settings, Tuning, Used, Verdict};
use self::rounds::{Found, Runner, costs, folder_text};
use self::score::{Results, interval, mean};
use self::space::{Candidate, Space};
use self::split::{Piece, Split, consecutive_windows};
use crate::arguments::Tune;
use crate::document::print_result;
use crate::error::{LimitsBroken, UsageError};
use crate::interrupts::remove_unfinished_outputs;
use crate::sweep::check_engine;
use crate::sweep::sensitivity::{Observation, Sensitivity, SensitivityError, sensitivity};

/// The file of the result in the folder of a tuning.
pub const TUNING_FILE: &str = "tune.json";
/// The folder of the first round, which is there before the result.
pub const FIRST_ROUND: &str = "round-0";
/// With fewer windows, a gain in all of them is too likely by chance (2^-4 of four) for a proof.
const WINDOWS_THAT_PROVE: u64 = 5;
/// With fewer windows, an interval is called rough.
pub const WINDOWS_FOR_INTERVAL: u64 = 20;

pub fn run(arguments: &Tune) -> Result<()> {
    check_engine(&arguments.engine)?;
    let question = Question::new(arguments)?;
    let drive = arguments.drive.parse().map_err(UsageError::from_display)?;
    let built = drive_models::build(&drive).map_err(UsageError::from_display)?;
    let space = Space::new(arguments, &built)?;
    let candidates = space.candidates(arguments.candidates as usize, arguments.seed)?;
    let folder = std::env::current_dir().context("the folder in which the command runs")?;
    let split = Split::new(arguments, &folder)?;
    let windows = consecutive_windows(&split.held_out);
    let (replays, requests) = costs(candidates.len(), space.searched.len(), &split, arguments.seed, &windows);
    let names: Vec<&str> = space.searched.iter().map(|searched| searched.tunable.name).collect();
    note!(
        "iocast: {} as given and {} candidates with other values of {}; at most {replays} replays of {requests} \
         requests in all",
        arguments.scheduler,
        candidates.len() - 1,
        names.join(", ")
    );
    remove_unfinished_outputs()?;
    let mut runner = Runner::new(arguments, &question, folder_text(&folder)?);
    let found = runner.search(&space, &candidates, &split)?;
    let proof = match found.last.first() {
        0 => None,
        best => {
            let both = [candidates[0].clone(), found.last.candidates[best].clone()];
            Some(runner.run("held-out", &both, &split.held_out, windows)?)
        }
    };
    let mut tuning = conclude(arguments, &question, &space, &split, found, proof.as_ref());
    tuning.notes.extend(notes::failures(&runner.ran));
    let path = arguments.out.join(TUNING_FILE);
    write(&path, &tuning)?;
    let files = [path.display().to_string()];
    print_result(&tuning, &tables::document(&tuning).blocks, arguments.output_format, &files)?;
    let broken: Vec<&str> =
        tuning.limits.iter().filter(|limit| limit.holds == Some(false)).map(|limit| limit.figure.as_str()).collect();
    if broken.is_empty() {
        return Ok(());
    }
    let what = broken.join(", ");
    Err(LimitsBroken(format!("the best breaks the limit of {what} on held-out traces; do not use it as it is")).into())
}

fn write(path: &Path, tuning: &Tuning) -> Result<()> {
    let mut file = WholeFile::create(path)?;
    let text = serde_json::to_string_pretty(tuning)?;
    writeln!(file, "{text}").with_context(|| path.display().to_string())?;
    Ok(file.finish()?)
}

/// What the rounds and the held-out traces say.
fn conclude(
    arguments: &Tune,
    question: &Question,
    space: &Space,
    split: &Split,
    found: Found,
    proof: Option<&Results>,
) -> Tuning {
    let mut notes = space.notes.clone();
    if split.in_time().is_some() {
        notes.push("There is one trace only, so the last third of its time is held out.".to_owned());
    }
    let best = found.last.first();
    let on_tuned = proof.and_then(|_| gain(&found.last.results, best, arguments.seed));
    let comparable = proof.filter(|proof| match proof.check(question) {
        Ok(()) => true,
        Err(error) => {
            notes.push(format!("On the held-out traces {error}."));
            false
        }
    });
    let missing = comparable.map_or(0, |proof| proof.score(1, question).missing);
    if missing > 0 {
        notes.push(format!(
            "In {missing} of the held-out windows it fails or is overloaded, and the scheduler as given is not."
        ));
    }
    let on_held_out = comparable.and_then(|proof| gain(proof, 1, arguments.seed));
    let verdict = match proof {
        None => Verdict::NothingBetter,
        Some(_) if missing > 0 => Verdict::NotProven,
        Some(_) => verdict(question, on_held_out.as_ref()),
    };
    // A limit is judged by its own figure, also where the goal has none.
    let limits = limits(question, &found.last.results, best, proof);
    notes.extend(notes::unjudged(&limits, &found.rounds, &found.last.candidates[0].scheduler, proof.is_some()));
    let sensitivity = match observed(&found.first.candidates, &found.first.results, question) {
        Ok(sensitivity) => Some(sensitivity),
        Err(error) => {
            notes.push(format!("What each tunable matters cannot be said: {error}."));
            None
        }
    };
    Tuning {
        schema_version: SCHEMA_VERSION,
        program: traces::program_version(),
        settings: Settings {
            scheduler: arguments.scheduler.clone(),
            drive: drive_shown(&arguments.drive),
            goal: question.goal.name.clone(),
            better: question.goal.better,
            pacing: arguments.pacing.clone(),
            map: arguments.map.to_string(),
            depth: arguments.depth,
            seed: arguments.seed,
        },
        searched: searched(space),
        tuned_on: split.tuned_on.iter().map(used).collect(),
        held_out: split.held_out.iter().map(used).collect(),
        rounds: found.rounds,
        best: proof.map(|_| found.last.candidates[best].scheduler.clone()),
        on_tuned,
        on_held_out,
        verdict,
        limits,
        sensitivity,
        notes,
    }
}

/// A drive without the folders of its profile.
fn drive_shown(drive: &str) -> String {
    drive.parse::<traces::spec::Spec>().map_or_else(|_| drive.to_owned(), |spec| spec.without_folders().to_string())
}

fn searched(space: &Space) -> Vec<Searched> {
    let of = |searched: &space::Searched| Searched {
        tunable: searched.tunable.name.to_owned(),
        values: searched.values.iter().map(|(_, text)| text.clone()).collect(),
    };
    space.searched.iter().map(of).collect()
}

fn used(piece: &Piece) -> Used {
    Used {
        trace: without_folders(&piece.name).to_owned(),
        start_ns: piece.from.as_ns(),
        end_ns: piece.to.map(traces::Nanos::as_ns),
    }
}

/// What a candidate gains over the scheduler as given.
fn gain(results: &Results, candidate: usize, seed: u64) -> Option<Gain> {
    let ratios = results.ratios(candidate, 0);
    let interval = interval(&ratios, &mut Draws::new(seed, Purpose::Interval));
    let windows = ratios.len() as u64;
    Some(Gain { windows, ratio: mean(&ratios)?.exp(), interval90: interval.map(|ends| ends.map(f64::exp)) })
}

fn verdict(question: &Question, gain: Option<&Gain>) -> Verdict {
    let Some(Gain { windows, interval90: Some(interval), .. }) = gain else { return Verdict::NotProven };
    let costs = interval.map(|ratio| question.cost(ratio.ln()));
    match () {
        () if *windows < WINDOWS_THAT_PROVE => Verdict::NotProven,
        () if costs.iter().all(|cost| *cost < 0.0) => Verdict::Proven,
        () if costs.iter().all(|cost| *cost > 0.0) => Verdict::Worse,
        () => Verdict::NotProven,
    }
}

/// What the best does to the figures of the limits.
fn limits(question: &Question, tuned: &Results, best: usize, held_out: Option<&Results>) -> Vec<Limit> {
    let of = |(at, limit): (usize, &question::Limit)| {
        let on = |results: &Results, candidate: usize| mean(&results.ratios(candidate, at + 1));
        let on_held_out = held_out.and_then(|results| on(results, 1));
        Limit {
            figure: limit.figure.name.clone(),
            allowed_ratio: limit.ratio,
            on_tuned: on(tuned, best).map(f64::exp),
            on_held_out: on_held_out.map(f64::exp),
            holds: on_held_out.map(|ratio| limit.excess(ratio) <= 0.0),
        }
    };
    question.limits.iter().enumerate().map(of).collect()
}

/// What each tunable matters for the goal, by the results of a round.
fn observed(candidates: &[Candidate], results: &Results, question: &Question) -> Result<Sensitivity, SensitivityError> {
    let mut all: Vec<Observation<'_>> = Vec::new();
    for (context, outcomes) in results.contexts.iter().zip(&results.outcomes) {
        for (Candidate { scheduler, .. }, outcome) in candidates.iter().zip(outcomes) {
            all.extend(outcome.figure(0).map(|value| Observation { context, scheduler, value }));
        }
    }
    sensitivity(all, question.goal.better)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_interval_on_one_side_of_1_over_enough_windows_is_a_verdict() {
        let question = |goal: &str| Question { goal: figure(goal).unwrap(), limits: Vec::new() };
        let (response_time, throughput) = (question("p99_read"), question("throughput"));
        let of = |question: &Question, windows: u64, interval90: Option<[f64; 2]>| {
            verdict(question, Some(&Gain { windows, ratio: 0.9, interval90 }))
        };
        assert_eq!(verdict(&response_time, None), Verdict::NotProven);
        assert_eq!(of(&response_time, 1, None), Verdict::NotProven);
        let (less, more) = (Some([0.8, 0.95]), Some([1.05, 1.2]));
        assert_eq!(of(&response_time, 5, less), Verdict::Proven);
        assert_eq!(of(&response_time, 5, more), Verdict::Worse);
        assert_eq!(of(&throughput, 5, less), Verdict::Worse);
        assert_eq!(of(&throughput, 5, more), Verdict::Proven);
        for goal in [&response_time, &throughput] {
            assert_eq!(of(goal, 4, less), Verdict::NotProven);
            assert_eq!(of(goal, 4, more), Verdict::NotProven);
            for includes_1 in [[0.8, 1.2], [0.8, 1.0], [1.0, 1.2], [1.0, 1.0]] {
                assert_eq!(of(goal, 20, Some(includes_1)), Verdict::NotProven, "{includes_1:?}");
            }
        }
    }
}
