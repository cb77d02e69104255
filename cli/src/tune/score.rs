//! What the results of a round say of its candidates.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use traces::results::supports_percentile;

use super::draws::Draws;
use super::question::{Figure, Question};
use crate::sweep::rows::{Cell, Columns, Kind, RowReader};

/// Samples of the bootstrap.
const SAMPLES: usize = 2_000;

/// What a task gave.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The figures of the question, the goal first; none where there are none, or too few requests.
    Figures(Vec<Option<f64>>),
    /// Requests came faster than the drive could serve; the figures are not comparable.
    Overloaded,
    /// The task failed by its input.
    Failed(String),
}

impl Outcome {
    /// A figure of the question; 0 is the goal.
    pub fn figure(&self, at: usize) -> Option<f64> {
        if let Outcome::Figures(figures) = self { figures[at] } else { None }
    }
}

/// The results of a round, by context and candidate. A context is a window of a trace.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// The name of each context.
    pub contexts: Vec<String>,
    pub outcomes: Vec<Vec<Outcome>>,
    /// The checksum of each trace.
    pub digests: BTreeMap<String, String>,
}

/// What a candidate is worth in a round.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// The logarithm of the goal's geometric mean ratio to the scheduler as given; 0 where nothing can be compared.
    pub goal: f64,
    /// The same of each limit's figure; none if no context has it.
    pub limits: Vec<Option<f64>>,
    /// By how much the limits are exceeded, in logarithms.
    pub excess: f64,
    /// Contexts in which the scheduler as given has the goal and the candidate has not.
    pub missing: u64,
}

impl Results {
    /// Reads the table of results of `candidates` schedulers.
    ///
    /// # Errors
    /// A table that cannot be read.
    pub fn read(path: &Path, candidates: usize, question: &Question) -> Result<Results> {
        let wanted: Vec<&Figure> = question.figures().collect();
        let text = ["trace", "trace_sha256", "error", "status"].map(|name| (name, Kind::Text));
        let whole = ["start_ns", "end_ns", "read_requests", "write_requests", "all_requests"];
        let mut columns: Vec<(String, Kind)> = text
            .into_iter()
            .chain(whole.map(|name| (name, Kind::Whole)))
            .map(|(name, kind)| (name.to_owned(), kind))
            .collect();
        let known = columns.len();
        columns.extend(wanted.iter().map(|figure| {
            let kind = if figure.percentile.is_some() { Kind::Whole } else { Kind::Real };
            (figure.column.clone(), kind)
        }));
        let mut results = Results::default();
        for (task, row) in RowReader::open(path, &Columns(columns))?.enumerate() {
            let row = row?;
            let text = |at: usize| if let Cell::Text(text) = &row[at] { text.clone() } else { String::new() };
            let number = |at: usize| match row[at] {
                Cell::Whole(number) => Some(number as f64),
                Cell::Real(number) => Some(number),
                _ => None,
            };
            if task % candidates == 0 {
                let time = |at: usize| number(at).map_or_else(String::new, |ns| format!("{}", ns / 1e9));
                results.contexts.push(format!("{} {}..{}", text(0), time(4), time(5)));
                results.outcomes.push(Vec::with_capacity(candidates));
            }
            let digest = text(1);
            if !digest.is_empty() {
                results.digests.insert(text(0), digest);
            }
            let figure = |(at, figure): (usize, &&Figure)| {
                let class = ["read", "write", "all"].iter().position(|class| *class == figure.class)?;
                let requests = number(6 + class)? as u64;
                let supported = figure.percentile.is_none_or(|percentile| supports_percentile(requests, percentile));
                number(known + at).filter(|value| supported && *value > 0.0)
            };
            let outcome = match (text(2), text(3).as_str()) {
                (error, _) if !error.is_empty() => Outcome::Failed(error),
                (_, "overloaded") => Outcome::Overloaded,
                _ => Outcome::Figures(wanted.iter().enumerate().map(figure).collect()),
            };
            results.outcomes.last_mut().context("a context")?.push(outcome);
        }
        Ok(results)
    }

    /// Checks that the scheduler as given, which is the first candidate, has the goal somewhere.
    ///
    /// # Errors
    /// It has it nowhere, with the reason.
    pub fn check(&self, question: &Question) -> Result<()> {
        let as_given = || self.outcomes.iter().map(|context| &context[0]);
        if as_given().any(|outcome| outcome.figure(0).is_some()) {
            return Ok(());
        }
        for outcome in as_given() {
            if let Outcome::Failed(error) = outcome {
                bail!("no window can be compared, since the scheduler as given fails in it: {error}");
            }
        }
        let name = &question.goal.name;
        ensure!(
            !as_given().any(|outcome| *outcome == Outcome::Overloaded),
            "no window can be compared: requests come faster than the drive serves them; use --pacing closed, or a \
             faster drive"
        );
        bail!(
            "no window has requests enough for {name}; use longer traces, fewer --candidates (their windows are \
             longer), or a mean"
        );
    }

    /// The logarithm of a figure's ratio to the scheduler as given, of each context in which both have it; 0 is the
    /// goal.
    pub fn ratios(&self, candidate: usize, figure: usize) -> Vec<f64> {
        let of = |context: &Vec<Outcome>| {
            let (as_given, own) = (context[0].figure(figure)?, context[candidate].figure(figure)?);
            Some((own / as_given).ln())
        };
        self.outcomes.iter().filter_map(of).collect()
    }

    /// What a candidate is worth.
    pub fn score(&self, candidate: usize, question: &Question) -> Score {
        let mean_of = |figure: usize| mean(&self.ratios(candidate, figure));
        let limits: Vec<Option<f64>> = (1..=question.limits.len()).map(mean_of).collect();
        let excess =
            question.limits.iter().zip(&limits).map(|(limit, ratio)| ratio.map_or(0.0, |ratio| limit.excess(ratio)));
        let lacks = |context: &&Vec<Outcome>| context[0].figure(0).is_some() && context[candidate].figure(0).is_none();
        Score {
            goal: mean_of(0).unwrap_or(0.0),
            excess: excess.sum(),
            missing: self.outcomes.iter().filter(lacks).count() as u64,
            limits,
        }
    }

    /// Tasks that failed, and those that were overloaded.
    pub fn not_comparable(&self) -> [u64; 2] {
        let count = |is: fn(&Outcome) -> bool| self.outcomes.iter().flatten().filter(|of| is(of)).count() as u64;
        [count(|of| matches!(of, Outcome::Failed(_))), count(|of| *of == Outcome::Overloaded)]
    }
}

impl Score {
    /// The better first: the one that can be compared everywhere, the one within the limits or nearer to them, the one
    /// with the better goal, the one that changes fewer tunables.
    pub fn compare(&self, changed: usize, other: &Score, other_changed: usize, question: &Question) -> Ordering {
        let by_goal = || question.cost(self.goal).total_cmp(&question.cost(other.goal));
        let by_limits = || self.excess.total_cmp(&other.excess);
        self.missing
            .cmp(&other.missing)
            .then_with(by_limits)
            .then_with(by_goal)
            .then_with(|| changed.cmp(&other_changed))
    }
}

/// The mean; none of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The 90 % interval of the mean by the percentile bootstrap (Efron 1979). It goes from the 5th to the 95th percentile
/// of the means of samples, each as many of the values, drawn with replacement. None of fewer than two values.
pub fn interval(values: &[f64], draws: &mut Draws) -> Option<[f64; 2]> {
    if values.len() < 2 {
        return None;
    }
    let mut sample = || {
        let sum: f64 = (0..values.len()).map(|_| values[draws.below(values.len())]).sum();
        sum / values.len() as f64
    };
    let mut means: Vec<f64> = (0..SAMPLES).map(|_| sample()).collect();
    means.sort_by(f64::total_cmp);
    Some([means[SAMPLES / 20], means[SAMPLES - 1 - SAMPLES / 20]])
}

#[cfg(test)]
mod tests {
    use super::super::draws::Purpose;
    use super::*;
    use crate::arguments::Tune;

    fn question(words: &str) -> Question {
        use clap::{Args as _, FromArgMatches as _};
        let words = format!("tune trace --scheduler none --out out {words}");
        let command = Tune::augment_args(clap::Command::new("tune"));
        let matches = command.try_get_matches_from(words.split_whitespace()).unwrap();
        Question::new(&Tune::from_arg_matches(&matches).unwrap()).unwrap()
    }

    /// Contexts with figures of three candidates: the goal and a limit's figure.
    fn results(of: &[[[f64; 2]; 3]]) -> Results {
        let outcome = |figures: &[f64; 2]| match figures[0] {
            0.0 => Outcome::Overloaded,
            _ => Outcome::Figures(figures.iter().map(|value| Some(*value).filter(|value| *value > 0.0)).collect()),
        };
        let outcomes: Vec<Vec<Outcome>> = of.iter().map(|context| context.iter().map(outcome).collect()).collect();
        Results { outcomes, ..Results::default() }
    }

    fn order(results: &Results, question: &Question, changed: [usize; 3]) -> Vec<usize> {
        let mut order = vec![0, 1, 2];
        let score = |at: usize| results.score(at, question);
        order.sort_by(|one, other| score(*one).compare(changed[*one], &score(*other), changed[*other], question));
        order
    }

    #[test]
    fn candidates_rank_by_goal_within_limits_and_then_by_changes() {
        let free = question("--for p99_read");
        let bound = question("--for p99_read --limit throughput=-2%");
        // The second halves the goal and loses 10 % of the throughput, the third gains a tenth at no cost.
        let some = results(&[[[8.0, 100.0], [4.0, 90.0], [7.2, 100.0]], [[80.0, 1.0], [40.0, 0.9], [72.0, 1.0]]]);
        assert!((some.score(1, &free).goal - 0.5_f64.ln()).abs() < 1e-12);
        assert_eq!(order(&some, &free, [0, 1, 1]), [1, 2, 0]);
        assert_eq!(order(&some, &bound, [0, 1, 1]), [2, 0, 1]);
        assert!((some.score(1, &bound).excess - (0.98_f64 / 0.9).ln()).abs() < 1e-9);
        // A larger throughput is better, and what breaks no limit more is nearer to it.
        assert_eq!(order(&some, &question("--for throughput"), [0, 1, 1]), [0, 2, 1]);
        // Equal figures: the one that changes least, then the order.
        let equal = results(&[[[8.0, 1.0]; 3]]);
        assert_eq!(order(&equal, &bound, [0, 2, 1]), [0, 2, 1]);
        assert_eq!(order(&equal, &bound, [0, 1, 1]), [0, 1, 2]);
    }

    #[test]
    fn what_cannot_be_compared_ranks_behind_and_what_is_lacking_as_given_does_not_count() {
        let free = question("--for p99_read");
        // In the second context the second candidate is overloaded, in the third the first is.
        let some = results(&[
            [[8.0, 1.0], [1.0, 1.0], [9.0, 1.0]],
            [[8.0, 1.0], [0.0, 1.0], [9.0, 1.0]],
            [[0.0, 1.0], [1.0, 1.0], [0.0, 1.0]],
        ]);
        assert_eq!(order(&some, &free, [0, 1, 1]), [0, 2, 1]);
        assert_eq!((some.score(1, &free).missing, some.score(2, &free).missing), (1, 0));
        assert_eq!(some.ratios(2, 0).len(), 2);
        assert_eq!(some.not_comparable(), [0, 3]);
        some.check(&free).unwrap();
        let none = results(&[[[0.0, 1.0], [1.0, 1.0], [1.0, 1.0]]]);
        assert!(none.check(&free).unwrap_err().to_string().contains("--pacing closed"));
        // A limit on what no context has.
        let bound = question("--for p99_read --limit p99_write=+1%");
        let reads = results(&[[[8.0, -1.0], [4.0, -1.0], [4.0, -1.0]]]);
        assert_eq!(reads.score(1, &bound).limits, [None]);
        assert_eq!(reads.score(1, &bound).excess, 0.0);
    }

    #[test]
    fn intervals_hold_the_mean_and_narrow_with_more_values() {
        let draws = || Draws::new(1, Purpose::Interval);
        assert_eq!(interval(&[0.3], &mut draws()), None);
        assert_eq!(interval(&[0.5; 4], &mut draws()), Some([0.5, 0.5]));
        let values: Vec<f64> = (0..100).map(|at| f64::from(at % 10)).collect();
        let [from, to] = interval(&values, &mut draws()).unwrap();
        // The mean is 4.5 and its standard error 0.287: 1.645 of it on either side.
        assert!((from - 4.03).abs() < 0.06 && (to - 4.97).abs() < 0.06, "{from} {to}");
        assert_eq!(interval(&values, &mut draws()), Some([from, to]));
        let [least, most] = interval(&values[..10], &mut draws()).unwrap();
        assert!(most - least > 2.0 * (to - from));
    }
}
