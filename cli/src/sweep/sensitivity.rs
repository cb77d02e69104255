//! How much each tunable of a scheduler matters, from the results of a sweep.
//!
//! The figure of candidate *j* in context *c* (a trace, its window, a drive and what else is not the scheduler) is taken
//! as *y(c,j) = exp(a(c) + b(j))*: what the context costs times what the candidate does. Least squares of *ln y* give
//! *a* and *b*. Where each context has every candidate, *b(j)* is the mean over the contexts of *ln y(c,j)* less the
//! context's mean. Where some lack candidates, a plain mean would charge a candidate for the contexts that it happens to
//! have; least squares do not.
//!
//! The marginal mean *m(t,v)* of value *v* of tunable *t* is the mean of *b* over the candidates with that value. With
//! *n(v)* candidates of *n*, and the mean *b̄* of all, the tunable alone explains the share
//!
//! ```text
//! Σ n(v) (m(t,v) − b̄)² / Σ (b(j) − b̄)²
//! ```
//!
//! of the variance over candidates: the first order of a functional analysis of variance (Hutter, Hoos, Leyton-Brown
//! 2014, "An efficient approach for assessing hyperparameter importance"). On all combinations of the values, the
//! shares of tunables that do not interact add up to 1. On candidates drawn at random, a tunable without any effect
//! explains *(values − 1) / (n − 1)* by chance.

use std::collections::BTreeMap;

use schedulers::Registry;
use serde::{Deserialize, Serialize};
use traces::spec::{Settings, Spec, SpecError, Tunable, Unit};

use super::ranges::{base, written};

/// Numbers of which some are in one candidate only are cut into at most this many groups of neighbours.
const GROUPS_MAX: usize = 4;
/// Rounds of least squares, and the largest change of an effect with which they end. A round is exact where no context
/// lacks a candidate.
const ROUNDS_MAX: usize = 1_000;
const PRECISION: f64 = 1e-12;

/// Which values of a figure are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    Smaller,
    Larger,
}

/// A figure of one candidate in one context.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'a> {
    /// All that is not the scheduler: trace, second trace, window, drive, stack, depth.
    pub context: &'a str,
    /// The scheduler with the tunables that are not at their default: `mq-deadline:fifo_batch=4`.
    pub scheduler: &'a str,
    /// The figure; only those above 0 have a logarithm.
    pub value: f64,
}

/// What every tunable matters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sensitivity {
    /// Contexts with at least two candidates.
    pub contexts: u64,
    /// Candidates with different settings.
    pub candidates: u64,
    /// Candidates that some contexts lack.
    pub incomplete: u64,
    /// Observations that were left out: not above 0, or alone in their context.
    pub left_out: u64,
    /// The tunables that take more than one value, in the scheduler's order.
    pub tunables: Vec<Matter>,
}

/// What a tunable matters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Matter {
    pub tunable: String,
    /// Its values or groups of them, from the least.
    pub values: Vec<Marginal>,
    /// The value or group that is best on its own.
    pub best: String,
    /// The largest marginal mean over the smallest, minus 1.
    pub range: f64,
    /// The share of the variance over candidates that it explains alone.
    pub share: f64,
    /// The share that it would explain by chance if it had no effect and candidates were drawn at random.
    pub share_by_chance: f64,
}

/// What candidates with a value of a tunable do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Marginal {
    /// The value, or the least and the greatest of a group: `1..4`.
    pub value: String,
    pub candidates: u64,
    /// Their geometric mean over that of all candidates.
    pub ratio: f64,
}

/// Why nothing can be said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SensitivityError {
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error("the results are of several schedulers, `{0}` and `{1}`; what tunables matter can be said of one")]
    Several(String, String),
    #[error("no two candidates have a figure in one context")]
    NothingToCompare,
    #[error("the candidates fall into groups that have no context in common, so they cannot be compared")]
    NotConnected,
}

/// A value of a tunable: its place in the order of values, and the value as one writes it.
pub type Level = (Vec<u64>, String);
/// The values of all tunables of a scheduler, in its order.
type Candidate = Vec<Level>;

/// A value that the tunable accepts: `1000ms` and `1s` are the same.
pub fn level(tunable: &Tunable, value: &str) -> Level {
    let at = |words: &[&str]| words.iter().position(|word| *word == value).unwrap_or(words.len()) as u64;
    match tunable.unit {
        Unit::Switch => (vec![at(&["off", "on"])], value.to_owned()),
        Unit::Choice(words) => (vec![at(words)], value.to_owned()),
        Unit::Counts => (value.split('+').filter_map(|count| count.parse().ok()).collect(), value.to_owned()),
        unit => match base(unit, value) {
            Ok(number) => (vec![number], written(unit, number)),
            Err(_) => (Vec::new(), value.to_owned()),
        },
    }
}

/// What each tunable of the scheduler of these results matters. Their order does not matter.
///
/// # Errors
/// No scheduler of ours, several schedulers, or too few results to compare.
pub fn sensitivity<'a>(
    observations: impl IntoIterator<Item = Observation<'a>>,
    better: Better,
) -> Result<Sensitivity, SensitivityError> {
    let read = read(observations)?;
    let effects = read.effects()?;
    let candidates: Vec<(&Candidate, f64)> = read.candidates.keys().zip(effects.iter().copied()).collect();
    let mut tunables = Vec::new();
    let varies = |at: usize| candidates.iter().any(|(candidate, _)| candidate[at].0 != candidates[0].0[at].0);
    let several = (0..read.tunables.len()).filter(|at| varies(*at)).count() > 1;
    for (at, tunable) in read.tunables.iter().enumerate().filter(|(at, _)| varies(*at)) {
        let levels: Vec<(&Level, f64)> =
            candidates.iter().map(|(candidate, effect)| (&candidate[at], *effect)).collect();
        let is_number = !matches!(tunable.unit, Unit::Switch | Unit::Choice(_) | Unit::Counts | Unit::TimesAt(_));
        tunables.push(matter(tunable.name, &grouped(levels, is_number && several), better));
    }
    Ok(Sensitivity {
        contexts: read.contexts.len() as u64,
        candidates: candidates.len() as u64,
        incomplete: read.incomplete(),
        left_out: read.left_out,
        tunables,
    })
}

/// Observations by context and candidate, as logarithms.
struct Read {
    tunables: &'static [Tunable],
    /// With the number of each.
    candidates: BTreeMap<Candidate, usize>,
    /// Candidate and figure of each observation.
    contexts: Vec<Vec<(usize, f64)>>,
    left_out: u64,
}

fn read<'a>(observations: impl IntoIterator<Item = Observation<'a>>) -> Result<Read, SensitivityError> {
    let mut scheduler: Option<String> = None;
    let mut tunables: &'static [Tunable] = &[];
    let mut known: BTreeMap<&str, Candidate> = BTreeMap::new();
    let mut contexts: BTreeMap<&str, Vec<(&str, f64)>> = BTreeMap::new();
    let mut left_out = 0;
    for Observation { context, scheduler: text, value } in observations {
        if !known.contains_key(text) {
            let spec: Spec = text.parse()?;
            let entry = Registry::builtin().find(&spec.name)?;
            let first = scheduler.get_or_insert_with(|| entry.name.to_owned());
            if first != entry.name {
                return Err(SensitivityError::Several(first.clone(), entry.name.to_owned()));
            }
            tunables = entry.tunables;
            let settings = Settings::resolve(&spec, tunables)?;
            known.insert(text, tunables.iter().map(|of| level(of, settings.word(of.name))).collect());
        }
        if value > 0.0 && value.is_finite() {
            contexts.entry(context).or_default().push((text, value.ln()));
        } else {
            left_out += 1;
        }
    }
    // A context with one candidate says nothing about it.
    contexts.retain(|_, of| {
        let is_alone = of.iter().all(|(text, _)| known[text] == known[of[0].0]);
        left_out += if is_alone { of.len() as u64 } else { 0 };
        !is_alone
    });
    let mut candidates: BTreeMap<Candidate, usize> =
        contexts.values().flatten().map(|(text, _)| (known[text].clone(), 0)).collect();
    candidates.values_mut().enumerate().for_each(|(at, number)| *number = at);
    let numbered = |(text, value): &(&str, f64)| (candidates[&known[text]], *value);
    let contexts = contexts.values().map(|of| of.iter().map(numbered).collect()).collect();
    Ok(Read { tunables, candidates, contexts, left_out })
}

impl Read {
    /// The effect *b* of each candidate; their mean is 0. Effects of contexts and of candidates are fitted in turns.
    fn effects(&self) -> Result<Vec<f64>, SensitivityError> {
        if self.contexts.is_empty() {
            return Err(SensitivityError::NothingToCompare);
        }
        if !self.is_connected() {
            return Err(SensitivityError::NotConnected);
        }
        let count = self.candidates.len();
        let mut effects = vec![0.0; count];
        for _ in 0..ROUNDS_MAX {
            let mut sums = vec![(0.0, 0_u64); count];
            for context in &self.contexts {
                let cost = mean(context.iter().map(|(candidate, value)| value - effects[*candidate]));
                for (candidate, value) in context {
                    sums[*candidate].0 += value - cost;
                    sums[*candidate].1 += 1;
                }
            }
            let mut next: Vec<f64> = sums.iter().map(|(sum, of)| sum / *of as f64).collect();
            let centre = mean(next.iter().copied());
            next.iter_mut().for_each(|effect| *effect -= centre);
            let change = next.iter().zip(&effects).map(|(one, other)| (one - other).abs()).fold(0.0, f64::max);
            effects = next;
            if change <= PRECISION {
                break;
            }
        }
        Ok(effects)
    }

    /// Whether contexts link every candidate with every other.
    fn is_connected(&self) -> bool {
        let mut reached = vec![false; self.candidates.len()];
        reached[0] = true;
        loop {
            let mut grew = false;
            for context in &self.contexts {
                if context.iter().any(|(candidate, _)| reached[*candidate]) {
                    for (candidate, _) in context {
                        grew |= !std::mem::replace(&mut reached[*candidate], true);
                    }
                }
            }
            if !grew {
                return reached.iter().all(|is| *is);
            }
        }
    }

    /// The number of candidates that some contexts lack.
    fn incomplete(&self) -> u64 {
        let mut often = vec![0; self.candidates.len()];
        for context in &self.contexts {
            let mut seen: Vec<usize> = context.iter().map(|(candidate, _)| *candidate).collect();
            seen.sort_unstable();
            seen.dedup();
            seen.into_iter().for_each(|candidate| often[candidate] += 1);
        }
        often.iter().filter(|often| **often < self.contexts.len()).count() as u64
    }
}

fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    values.clone().sum::<f64>() / values.count().max(1) as f64
}

/// The effects of candidates by value, from the least. Values of numbers are grouped if one of them is in a single
/// candidate: its mean would be that candidate's, and say nothing of the value.
fn grouped(mut levels: Vec<(&Level, f64)>, may_group: bool) -> Vec<(String, Vec<f64>)> {
    levels.sort_by_key(|(level, _)| *level);
    let mut values: Vec<(String, Vec<f64>)> = Vec::new();
    for ((_, text), effect) in &levels {
        match values.last_mut() {
            Some((last, effects)) if last == text => effects.push(*effect),
            _ => values.push((text.clone(), vec![*effect])),
        }
    }
    let lonely = values.iter().any(|(_, effects)| effects.len() < 2);
    if !may_group || !lonely || values.len() <= 2 {
        return values;
    }
    // A group is full when it and those before it have their part of the candidates. Each has at least two.
    let groups = GROUPS_MAX.min(levels.len() / 2).max(1);
    let mut merged: Vec<(String, String, Vec<f64>)> = Vec::new();
    let mut before = 0;
    for (text, effects) in values {
        let begins = before * groups >= merged.len() * levels.len();
        before += effects.len();
        match merged.last_mut() {
            Some((_, to, of)) if !begins || of.len() < 2 => {
                *to = text;
                of.extend(effects);
            }
            _ => merged.push((text.clone(), text, effects)),
        }
    }
    let name = |from: String, to: String| if from == to { from } else { format!("{from}..{to}") };
    merged.into_iter().map(|(from, to, effects)| (name(from, to), effects)).collect()
}

/// What a tunable matters, from the effects of candidates by its values.
fn matter(tunable: &str, values: &[(String, Vec<f64>)], better: Better) -> Matter {
    let all = || values.iter().flat_map(|(_, effects)| effects.iter().copied());
    let (count, centre) = (all().count(), mean(all()));
    let means: Vec<f64> = values.iter().map(|(_, effects)| mean(effects.iter().copied())).collect();
    let between: f64 =
        values.iter().zip(&means).map(|((_, effects), of)| effects.len() as f64 * (of - centre).powi(2)).sum();
    let total: f64 = all().map(|effect| (effect - centre).powi(2)).sum();
    let sign = if better == Better::Larger { -1.0 } else { 1.0 };
    let best = (0..means.len()).min_by(|one, other| (sign * means[*one]).total_cmp(&(sign * means[*other])));
    let (least, greatest) = means
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, greatest), of| (least.min(*of), greatest.max(*of)));
    let marginal = |((value, effects), of): (&(String, Vec<f64>), &f64)| Marginal {
        value: value.clone(),
        candidates: effects.len() as u64,
        ratio: (of - centre).exp(),
    };
    // Candidates that differ by rounding only differ in nothing.
    let is_constant = total <= PRECISION * PRECISION * count as f64;
    Matter {
        tunable: tunable.to_owned(),
        values: values.iter().zip(&means).map(marginal).collect(),
        best: best.map(|at| values[at].0.clone()).unwrap_or_default(),
        range: (greatest - least).exp() - 1.0,
        share: if is_constant { 0.0 } else { between / total },
        share_by_chance: (values.len() as f64 - 1.0) / (count as f64 - 1.0).max(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A context, a scheduler and a figure.
    type Line = (String, String, f64);

    fn of(lines: &[Line], better: Better) -> Result<Sensitivity, SensitivityError> {
        let observation = |(context, scheduler, value): &'_ Line| -> (String, String, f64) {
            (context.clone(), scheduler.clone(), *value)
        };
        let owned: Vec<Line> = lines.iter().map(observation).collect();
        sensitivity(
            owned.iter().map(|(context, scheduler, value)| Observation { context, scheduler, value: *value }),
            better,
        )
    }

    /// Each of three batches and two expiries in three contexts: 1, 2 and 4 times, 1 and 2 times, 1, 100 and 7 times.
    /// The default expiry and the default batch are not named.
    fn additive() -> Vec<Line> {
        let mut lines = Vec::new();
        for (context, cost) in [("a", 1.0), ("b", 100.0), ("c", 7.0)] {
            for (batch, by_batch) in [("fifo_batch=100", 4.0), ("", 2.0), ("fifo_batch=9", 1.0)] {
                for (expiry, by_expiry) in [("", 1.0), ("read_expire=40ms", 2.0)] {
                    let given: Vec<&str> = [batch, expiry].into_iter().filter(|one| !one.is_empty()).collect();
                    let colon = if given.is_empty() { "" } else { ":" };
                    let scheduler = format!("mq-deadline{colon}{}", given.join(","));
                    lines.push((context.to_owned(), scheduler, cost * by_batch * by_expiry));
                }
            }
        }
        lines
    }

    fn near(one: f64, other: f64) {
        assert!((one - other).abs() < 1e-9, "{one} is not {other}");
    }

    #[test]
    fn effects_that_multiply_are_found_as_they_are() {
        let found = of(&additive(), Better::Smaller).unwrap();
        assert_eq!((found.contexts, found.candidates, found.incomplete, found.left_out), (3, 6, 0, 0));
        let [expiry, batch] = &found.tunables[..] else { panic!("{found:?}") };
        assert_eq!((expiry.tunable.as_str(), batch.tunable.as_str()), ("read_expire", "fifo_batch"));
        let texts = |matter: &Matter| matter.values.iter().map(|of| of.value.clone()).collect::<Vec<String>>();
        assert_eq!(texts(batch), ["9", "16", "100"]);
        assert_eq!(texts(expiry), ["40ms", "500ms"]);
        for (of, ratio) in batch.values.iter().zip([0.5, 1.0, 2.0]) {
            near(of.ratio, ratio);
            assert_eq!(of.candidates, 2);
        }
        near(expiry.values[0].ratio, 2.0_f64.sqrt());
        near(batch.range, 3.0);
        near(expiry.range, 1.0);
        // In units of ln 2 squared: batches at -1, 0 and 1 have the variance 2/3, expiries at -1/2 and 1/2 have 1/4.
        near(batch.share, 8.0 / 11.0);
        near(expiry.share, 3.0 / 11.0);
        near(batch.share_by_chance, 2.0 / 5.0);
        assert_eq!((batch.best.as_str(), expiry.best.as_str()), ("9", "500ms"));
        let found = of(&additive(), Better::Larger).unwrap();
        assert_eq!((found.tunables[1].best.as_str(), found.tunables[0].best.as_str()), ("100", "40ms"));
    }

    #[test]
    fn contexts_that_lack_candidates_do_not_change_what_is_found() {
        let whole = of(&additive(), Better::Smaller).unwrap();
        // The dear context lacks the candidates with the smallest batch, another lacks one, a third has but one.
        let mut lines = additive();
        lines.retain(|(context, scheduler, _)| context != "b" || !scheduler.contains("fifo_batch=9"));
        lines.retain(|(context, scheduler, _)| context != "c" || scheduler != "mq-deadline");
        lines.push(("d".to_owned(), "mq-deadline".to_owned(), 3.0));
        lines.push(("a".to_owned(), "mq-deadline:fifo_batch=9".to_owned(), 0.0));
        let found = of(&lines, Better::Smaller).unwrap();
        assert_eq!((found.contexts, found.incomplete, found.left_out), (3, 3, 2));
        for (one, other) in found.tunables.iter().zip(&whole.tunables) {
            near(one.share, other.share);
            near(one.range, other.range);
            assert_eq!(one.best, other.best);
        }
        // The order of the observations is nothing.
        lines.reverse();
        assert_eq!(of(&lines, Better::Smaller).unwrap().tunables[1].best, "9");
    }

    #[test]
    fn tunable_without_effect_has_no_share() {
        let mut lines = Vec::new();
        for context in ["a", "b"] {
            for batch in [1, 2, 4, 8] {
                for merges in ["on", "off"] {
                    for starved in [1, 3] {
                        let scheduler =
                            format!("mq-deadline:fifo_batch={batch},front_merges={merges},writes_starved={starved}");
                        let noise = if (batch + starved) % 2 == 0 { 1.0 } else { 1.001 };
                        lines.push((context.to_owned(), scheduler, f64::from(batch).sqrt() * noise));
                    }
                }
            }
        }
        let found = of(&lines, Better::Smaller).unwrap();
        let share = |name: &str| found.tunables.iter().find(|of| of.tunable == name).unwrap().share;
        assert!(share("fifo_batch") > 0.999);
        near(share("front_merges"), 0.0);
        assert!(share("writes_starved") < 1e-4);
        let merges = found.tunables.iter().find(|of| of.tunable == "front_merges").unwrap();
        assert_eq!((merges.values[0].value.as_str(), merges.values[1].value.as_str()), ("off", "on"));
        // Nothing has any effect.
        let flat: Vec<Line> = lines.into_iter().map(|(context, scheduler, _)| (context, scheduler, 5.0)).collect();
        assert!(of(&flat, Better::Smaller).unwrap().tunables.iter().all(|of| of.share == 0.0 && of.range < 1e-9));
    }

    #[test]
    fn numbers_that_are_all_different_are_grouped_with_their_neighbours() {
        // 24 drawn candidates: the figure grows with the batch, while the expiry is scattered.
        let line = |at: u64| {
            let scheduler = format!("mq-deadline:fifo_batch={},read_expire={}ms", at + 1, 100 + (at * 7) % 24);
            ("a".to_owned(), scheduler, 1.0 + at as f64)
        };
        let lines: Vec<Line> = (0..24).map(line).collect();
        let found = of(&lines, Better::Smaller).unwrap();
        let [expiry, batch] = &found.tunables[..] else { panic!("{found:?}") };
        let values: Vec<&str> = batch.values.iter().map(|of| of.value.as_str()).collect();
        assert_eq!(values, ["1..6", "7..12", "13..18", "19..24"]);
        assert!(batch.values.iter().all(|of| of.candidates == 6) && batch.best == "1..6");
        assert!(batch.share > 0.7 && expiry.share < 0.2, "{} {}", batch.share, expiry.share);
        // With one tunable, each value is a candidate of its own and explains it whole.
        let line = |at: u64| ("a".to_owned(), format!("mq-deadline:fifo_batch={}", at + 1), 1.0 + at as f64);
        let found = of(&(0..6).map(line).collect::<Vec<Line>>(), Better::Smaller).unwrap();
        assert_eq!(found.tunables[0].values.len(), 6);
        near(found.tunables[0].share, 1.0);
    }

    #[test]
    fn what_cannot_be_compared_is_said() {
        let lines = |of: &[(&str, &str, f64)]| -> Vec<Line> {
            of.iter()
                .map(|(context, scheduler, value)| ((*context).to_owned(), (*scheduler).to_owned(), *value))
                .collect()
        };
        let fails = |some: &[(&str, &str, f64)]| of(&lines(some), Better::Smaller).unwrap_err().to_string();
        let (one, two) = ("mq-deadline", "mq-deadline:fifo_batch=1");
        assert!(fails(&[]).contains("no two candidates"));
        // 16 is the default: the same candidate twice.
        assert!(fails(&[("a", one, 1.0), ("a", "mq-deadline:fifo_batch=16", 2.0)]).contains("no two candidates"));
        assert!(fails(&[("a", one, 1.0), ("b", two, 2.0)]).contains("no two candidates"));
        assert!(fails(&[("a", one, 1.0), ("a", "bfq", 2.0)]).contains("`mq-deadline` and `bfq`"));
        assert!(fails(&[("a", "mq-deadline:batch=1", 1.0)]).contains("no tunable `batch`"));
        let (three, four) = ("mq-deadline:fifo_batch=2", "mq-deadline:fifo_batch=3");
        let apart = [("a", one, 1.0), ("a", two, 2.0), ("b", three, 3.0), ("b", four, 9.0)];
        assert!(fails(&apart).contains("no context in common"));
    }
}
