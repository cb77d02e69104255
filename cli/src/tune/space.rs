//! The candidates of a tuning: a scheduler with different values of its tunables.

use std::collections::BTreeSet;

use anyhow::{Result, bail, ensure};
use drive_models::BuiltDrive;
use replay::rotational::set_for;
use schedulers::Registry;
use traces::spec::{Settings, Spec, Tunable, Unit, did_you_mean, library};

use super::draws::{Draws, Purpose};
use crate::arguments::Tune;
use crate::error::UsageError;
use crate::sweep::ranges::{base, written};
use crate::sweep::sensitivity::{Level, level};

/// Without a range, a number is tried at its default divided and multiplied by these.
const AROUND_DEFAULT: [u64; 2] = [4, 16];
/// A range from one number to another is cut into at most this many values.
const VALUES_MAX: usize = 9;
/// Draws for each candidate that is wanted, before the values are taken to hold no further one.
const TRIES: usize = 100;

/// A tunable that is searched, and its values from the least.
#[derive(Debug)]
pub struct Searched {
    pub tunable: &'static Tunable,
    pub values: Vec<Level>,
}

/// A scheduler with its tunables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// As `--schedulers` takes it; tunables at the value of the scheduler as given are not named.
    pub scheduler: String,
    /// The number of the value of each searched tunable; none where it is that of the scheduler as given.
    values: Vec<Option<usize>>,
}

impl Candidate {
    /// How many tunables have another value than in the scheduler as given.
    pub fn changed(&self) -> usize {
        self.values.iter().flatten().count()
    }
}

/// What is searched.
#[derive(Debug)]
pub struct Space {
    /// The scheduler as given, as it is set for the drive.
    given: Spec,
    pub searched: Vec<Searched>,
    /// What is not searched, and why.
    pub notes: Vec<String>,
}

impl Space {
    /// # Errors
    /// An unknown scheduler or tunable, values that it does not accept, nothing to search.
    pub fn new(arguments: &Tune, drive: &BuiltDrive) -> Result<Space> {
        let spec: Spec = arguments.scheduler.parse().map_err(UsageError::from_display)?;
        ensure!(
            library(&spec.name).is_none(),
            UsageError(
                "a scheduler in a shared library can end the process and all tasks in it; use it in `iocast compare`"
                    .to_owned()
            )
        );
        let entry = Registry::builtin().find(&spec.name).map_err(UsageError::from_display)?;
        Settings::resolve(&spec, entry.tunables).map_err(UsageError::from_display)?;
        ensure!(
            !entry.tunables.is_empty(),
            UsageError(format!(
                "`{}` has no tunables, so there is nothing to search; `iocast list schedulers` shows those of each",
                spec.name
            ))
        );
        let fixed = |name: &str| spec.given.iter().any(|(given, _)| given == name);
        let given = set_for(spec.clone(), drive, &Registry::builtin());
        let mut space = Space { given, searched: Vec::new(), notes: Vec::new() };
        if arguments.tunables.is_empty() {
            for tunable in entry.tunables {
                if space.states(tunable.name) {
                    continue;
                }
                match around(tunable) {
                    Ok(values) => space.searched.push(Searched { tunable, values }),
                    Err(why) => space.notes.push(format!("{} is not searched: {why}", tunable.name)),
                }
            }
        }
        for text in &arguments.tunables {
            let (name, values) = text.split_once('=').map_or((text.as_str(), None), |(name, of)| (name, Some(of)));
            let Some(tunable) = entry.tunables.iter().find(|known| known.name == name) else {
                let known = entry.tunables.iter().map(|known| known.name);
                let hint = did_you_mean(name, known.clone());
                let all = known.collect::<Vec<_>>().join(", ");
                bail!(UsageError(format!("`{}` has no tunable `{name}`{hint}; it has {all}", spec.name)));
            };
            ensure!(
                !fixed(name) && space.searched.iter().all(|known| known.tunable.name != name),
                UsageError(format!("the tunable {name} is given twice; name it in --scheduler or once in --tunables"))
            );
            let at = |problem: String| UsageError(format!("--tunables {text}: {problem}"));
            let values = values.map_or_else(|| around(tunable), |values| listed(tunable, values)).map_err(at)?;
            for (_, value) in &values {
                let one = Spec { name: spec.name.clone(), given: vec![(name.to_owned(), value.clone())] };
                Settings::resolve(&one, entry.tunables).map_err(|problem| at(problem.to_string()))?;
            }
            space.searched.push(Searched { tunable, values });
        }
        Ok(space)
    }

    /// Whether the scheduler as given states this tunable.
    fn states(&self, name: &str) -> bool {
        self.given.given.iter().any(|(given, _)| given == name)
    }

    /// The value of a tunable in the scheduler as given.
    fn value_given(&self, tunable: &Tunable) -> Level {
        let given = self.given.given.iter().find(|(name, _)| name == tunable.name);
        level(tunable, given.map_or(tunable.default, |(_, value)| value))
    }

    /// The candidate with one value of each searched tunable, by their numbers; none for that of the scheduler as
    /// given.
    fn candidate(&self, mut values: Vec<Option<usize>>) -> Candidate {
        let mut spec = self.given.clone();
        for (searched, number) in self.searched.iter().zip(&mut values) {
            let is_other = |number: &usize| searched.values[*number] != self.value_given(searched.tunable);
            *number = number.filter(is_other);
            if let Some(number) = number {
                spec.given.retain(|(name, _)| name != searched.tunable.name);
                spec.given.push((searched.tunable.name.to_owned(), searched.values[*number].1.clone()));
            }
        }
        Candidate { scheduler: spec.to_string(), values }
    }

    /// The candidate with each of its changed tunables, in turn, as it was given.
    pub fn each_undone(&self, of: &Candidate) -> Vec<Candidate> {
        let changed = (0..of.values.len()).filter(|at| of.values[*at].is_some());
        changed.map(|at| self.undone(of, |other| other == at)).collect()
    }

    /// The candidate without the changes that these candidates undo.
    pub fn all_undone(&self, of: &Candidate, undone: &[&Candidate]) -> Candidate {
        self.undone(of, |at| undone.iter().any(|candidate| candidate.values[at].is_none()))
    }

    fn undone(&self, of: &Candidate, is_undone: impl Fn(usize) -> bool) -> Candidate {
        let values = of.values.iter().enumerate();
        self.candidate(values.map(|(at, value)| value.filter(|_| !is_undone(at))).collect())
    }

    /// The scheduler as given, then others. These are all combinations of the values if those are at most `most`.
    /// Otherwise some are drawn, so that there are `most` candidates with the scheduler as given. Of drawn candidates
    /// each value of a tunable has about as many (a Latin hypercube: McKay, Beckman, Conover 1979).
    ///
    /// # Errors
    /// No candidate but the scheduler as given.
    pub fn candidates(&self, most: usize, seed: u64) -> Result<Vec<Candidate>> {
        let mut all = vec![self.candidate(vec![None; self.searched.len()])];
        let mut known: BTreeSet<String> = all.iter().map(|one| one.scheduler.clone()).collect();
        let mut add = |numbers: &[usize], all: &mut Vec<Candidate>| {
            let candidate = self.candidate(numbers.iter().copied().map(Some).collect());
            if known.insert(candidate.scheduler.clone()) {
                all.push(candidate);
            }
        };
        let counts: Vec<usize> = self.searched.iter().map(|searched| searched.values.len()).collect();
        let combinations = counts.iter().fold(1_usize, |product, count| product.saturating_mul(*count));
        if combinations <= most {
            for number in 0..combinations {
                let mut rest = number;
                let numbers: Vec<usize> = counts.iter().map(|count| (rest % count, rest /= count).0).collect();
                add(&numbers, &mut all);
            }
        } else {
            let mut draws = Draws::new(seed, Purpose::Candidates);
            let columns: Vec<Vec<usize>> = counts
                .iter()
                .map(|count| {
                    let mut column: Vec<usize> = (0..most - 1).map(|at| at % count).collect();
                    draws.shuffle(&mut column);
                    column
                })
                .collect();
            for row in 0..most - 1 {
                add(&columns.iter().map(|column| column[row]).collect::<Vec<usize>>(), &mut all);
            }
            // In the place of candidates that are there twice.
            for _ in 0..TRIES * most {
                if all.len() == most {
                    break;
                }
                let numbers: Vec<usize> = counts.iter().map(|count| draws.below(*count)).collect();
                add(&numbers, &mut all);
            }
        }
        ensure!(
            all.len() > 1,
            UsageError(format!(
                "the only candidate is {} as given; name more values in --tunables, or fix fewer in --scheduler",
                self.given
            ))
        );
        Ok(all)
    }
}

/// Values around the default: of a number at factors of it, all words of others.
fn around(tunable: &Tunable) -> Result<Vec<Level>, String> {
    let words: Vec<&str> = match tunable.unit {
        Unit::Switch => vec!["off", "on"],
        Unit::Choice(words) => words.to_vec(),
        Unit::Time | Unit::Count | Unit::Decimal | Unit::Bytes => {
            let number = base(tunable.unit, tunable.default)?;
            if number == 0 {
                return Err("its default is 0, around which there is no range; name values in --tunables".to_owned());
            }
            let (least, most) = (tunable.range.0.max(1), tunable.range.1);
            let below = AROUND_DEFAULT.iter().map(|factor| number.saturating_add(factor / 2) / factor);
            let above = AROUND_DEFAULT.iter().map(|factor| number.saturating_mul(*factor));
            let all = below.chain([number]).chain(above).map(|value| value.clamp(least, most));
            return Ok(numbers(tunable.unit, all.collect()));
        }
        Unit::Counts | Unit::TimesAt(_) => {
            return Err(format!("it takes {}; name values in --tunables", tunable.unit.describe()));
        }
    };
    Ok(words.into_iter().map(|word| level(tunable, word)).collect())
}

/// Numbers as values, each once.
fn numbers(unit: Unit, all: BTreeSet<u64>) -> Vec<Level> {
    all.into_iter().map(|number| (vec![number], written(unit, number))).collect()
}

/// The values that `FROM..TO` or `VALUE/VALUE` stands for. Numbers of a range grow by a power of 2, the least with
/// which they are few enough.
fn listed(tunable: &Tunable, text: &str) -> Result<Vec<Level>, String> {
    let Some((from, to)) = text.split_once("..") else {
        let values: BTreeSet<Level> = text.split('/').map(|value| level(tunable, value)).collect();
        return Ok(values.into_iter().collect());
    };
    let (from, to) = (base(tunable.unit, from)?, base(tunable.unit, to)?);
    if from > to {
        return Err("the range ends before it begins".to_owned());
    }
    let growing = |factor: u64| -> BTreeSet<u64> {
        let first = if from == 0 { (to >> (VALUES_MAX - 2)).max(1) } else { from };
        let grown = std::iter::successors(Some(first), |at| at.checked_mul(factor).filter(|at| *at <= to));
        // Few, even if they grow by 2 from 1 to the largest number.
        grown.chain([from, to]).filter(|at| *at <= to).collect()
    };
    let factors = (1..u64::BITS).map(|power| 1_u64 << power);
    let fitting = factors.map(growing).find(|values| values.len() <= VALUES_MAX);
    Ok(numbers(tunable.unit, fitting.unwrap_or_else(|| BTreeSet::from([from, to]))))
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};

    use super::*;

    fn space(words: &str) -> Result<Space> {
        let words = format!("tune trace --out out {words}");
        let command = Tune::augment_args(clap::Command::new("tune"));
        let matches = command.try_get_matches_from(words.split_whitespace())?;
        let arguments = Tune::from_arg_matches(&matches)?;
        Space::new(&arguments, &drive_models::build(&arguments.drive.parse()?)?)
    }

    fn values(space: &Space) -> Vec<String> {
        let texts = |of: &Searched| of.values.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(" ");
        space.searched.iter().map(|of| format!("{}: {}", of.tunable.name, texts(of))).collect()
    }

    #[test]
    fn numbers_lie_around_their_defaults_and_in_ranges() {
        let all = space("--scheduler mq-deadline").unwrap();
        assert_eq!(
            values(&all),
            [
                "read_expire: 31250us 125ms 500ms 2s 8s",
                "write_expire: 312500us 1250ms 5s 20s 80s",
                "writes_starved: 1 2 8 32",
                "fifo_batch: 1 4 16 64 256",
                "prio_aging_expire: 625ms 2500ms 10s 40s 160s",
                "front_merges: off on",
                "tick: 250us 1ms 4ms 16ms 64ms",
            ]
        );
        for (range, wanted) in [
            ("fifo_batch=1..64", "fifo_batch: 1 2 4 8 16 32 64"),
            ("fifo_batch=3..20", "fifo_batch: 3 6 12 20"),
            ("fifo_batch=1..100000", "fifo_batch: 1 8 64 512 4096 32768 100000"),
            ("writes_starved=0..4", "writes_starved: 0 1 2 4"),
            ("read_expire=1s/50ms/1000ms", "read_expire: 50ms 1s"),
            ("read_expire=100ms..2s", "read_expire: 100ms 200ms 400ms 800ms 1600ms 2s"),
            ("front_merges", "front_merges: off on"),
            ("fifo_batch=7..7", "fifo_batch: 7"),
        ] {
            assert_eq!(values(&space(&format!("--scheduler mq-deadline --tunables {range}")).unwrap()), [wanted]);
        }
        // Fixed ones are not searched.
        let fixed = space("--scheduler mq-deadline:fifo_batch=32,front_merges=off").unwrap();
        assert_eq!(fixed.searched.len(), 5);
        assert!(values(&space("--scheduler sfq").unwrap()).iter().any(|line| line == "cost: sectors requests"));
    }

    /// One of these candidates, less all changes but two.
    fn two_changes(drawn: &[Candidate]) -> Candidate {
        let space = space("--scheduler mq-deadline").unwrap();
        let mut candidate = drawn[1].clone();
        while candidate.changed() > 2 {
            candidate = space.each_undone(&candidate).remove(0);
        }
        candidate
    }

    #[test]
    fn candidates_are_all_combinations_or_drawn_ones_and_none_is_there_twice() {
        let two = space("--scheduler mq-deadline --tunables fifo_batch=1..4,front_merges").unwrap();
        let all: Vec<String> = two.candidates(9, 1).unwrap().into_iter().map(|one| one.scheduler).collect();
        assert_eq!(
            all,
            [
                "mq-deadline",
                "mq-deadline:fifo_batch=1,front_merges=off",
                "mq-deadline:fifo_batch=2,front_merges=off",
                "mq-deadline:fifo_batch=4,front_merges=off",
                "mq-deadline:fifo_batch=1",
                "mq-deadline:fifo_batch=2",
                "mq-deadline:fifo_batch=4",
            ]
        );
        // The scheduler as given takes the place of no combination, unless it is one.
        assert_eq!(two.candidates(6, 1).unwrap().len(), 7);
        assert_eq!(two.candidates(5, 1).unwrap().len(), 5);
        let own = space("--scheduler mq-deadline --tunables fifo_batch=8/16,front_merges").unwrap();
        assert_eq!(own.candidates(4, 1).unwrap().len(), 4);
        let many = space("--scheduler mq-deadline").unwrap();
        let drawn = many.candidates(27, 5).unwrap();
        assert_eq!(drawn.len(), 27);
        assert_eq!((drawn[0].scheduler.as_str(), drawn[0].changed()), ("mq-deadline", 0));
        let different: BTreeSet<&str> = drawn.iter().map(|one| one.scheduler.as_str()).collect();
        assert_eq!(different.len(), 27);
        // 26 draws of five values: each in five or six, where none is there twice.
        let often = drawn.iter().filter(|one| one.scheduler.contains("fifo_batch=64")).count();
        assert!((5..=6).contains(&often), "{often}");
        assert_eq!(many.candidates(27, 5).unwrap(), drawn);
        assert_ne!(many.candidates(27, 6).unwrap(), drawn);
        let named = drawn.iter().map(|one| one.scheduler.matches('=').count());
        assert!(named.eq(drawn.iter().map(Candidate::changed)));
        let [one, other] = &many.each_undone(&two_changes(&drawn))[..] else { panic!("two changes") };
        assert!(one.changed() == 1 && other.changed() == 1 && one != other);
        assert_eq!(many.all_undone(&two_changes(&drawn), &[one, other]), drawn[0]);
        assert_eq!(&many.all_undone(&two_changes(&drawn), &[one]), one);
        let bfq = space("--scheduler bfq --tunables slice_idle=1ms/2ms").unwrap().candidates(9, 1).unwrap();
        assert_eq!(bfq[0].scheduler, "bfq:rotational=on", "as Linux sets it in front of a disk");
        assert_eq!(bfq[1].scheduler, "bfq:rotational=on,slice_idle=1ms");
    }

    #[test]
    fn spaces_that_are_none_are_refused_with_a_remedy() {
        for (words, says) in [
            ("--scheduler fifo", "has no tunables"),
            ("--scheduler mq-deadlin", "did you mean mq-deadline"),
            ("--scheduler mq-deadline:fifo_batch=x", "is not a whole number"),
            ("--scheduler plugin:./x.so", "`iocast compare`"),
            ("--scheduler mq-deadline --tunables fifo_bach=1..4", "did you mean fifo_batch"),
            ("--scheduler mq-deadline --tunables tick=0ns..4ms", "is not from 1ns to 1s"),
            ("--scheduler mq-deadline --tunables fifo_batch=4..1", "ends before it begins"),
            ("--scheduler mq-deadline --tunables fifo_batch=a..b", "no whole number"),
            ("--scheduler mq-deadline --tunables front_merges=maybe", "is not on|off"),
            ("--scheduler mq-deadline --tunables front_merges=off..on", "list its values"),
            ("--scheduler mq-deadline:fifo_batch=4 --tunables fifo_batch=1..4", "is given twice"),
            ("--scheduler mq-deadline --tunables fifo_batch=1..4,fifo_batch=5", "is given twice"),
        ] {
            let error = space(words).unwrap_err().to_string();
            assert!(error.contains(says), "{words}: {error}");
        }
        let one = space("--scheduler mq-deadline --tunables fifo_batch=16").unwrap();
        assert!(one.candidates(9, 1).unwrap_err().to_string().contains("the only candidate is mq-deadline"));
    }
}
