//! The best candidate of each context, and how often each scheduler is best.

use std::collections::BTreeMap;

use schedulers::Registry;
use traces::spec::{Settings, Spec};

use super::read::Results;
use crate::sweep::sensitivity::Better;

/// Candidates that are so close to the best are called equal to it.
pub const EQUAL: f64 = 0.01;

/// The best candidate of a context. Of equal ones it is the first of the plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Best {
    pub context: u32,
    pub candidate: u32,
    pub value: f64,
    /// The second, and how much worse it is, as a share of the best.
    pub second: Option<(u32, f64)>,
    /// How much worse the defaults of the best candidate's scheduler are; `None` if the sweep has none of them.
    pub defaults: Option<f64>,
    /// How much worse the worst candidate is.
    pub worst: f64,
    /// Whether all candidates of the sweep have the figure here.
    pub is_complete: bool,
}

/// How often a scheduler, or a stack, is best on a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Often {
    pub best: u64,
    /// With one of its candidates within [`EQUAL`] of the best.
    pub equal: u64,
}

/// The scheduler of a candidate without its tunables.
pub fn scheduler_of(candidate: &str) -> &str {
    if candidate.starts_with("stack ") {
        candidate
    } else {
        candidate.split_once(':').map_or(candidate, |(name, _)| name)
    }
}

/// How much worse a value is than the best, as a share of the best.
fn worse(value: f64, best: f64, better: Better) -> f64 {
    match better {
        Better::Smaller => value / best - 1.0,
        Better::Larger => 1.0 - value / best,
    }
}

/// Whether all tunables of a scheduler are at their defaults.
fn is_default(candidate: &str) -> bool {
    let Ok(spec) = candidate.parse::<Spec>() else { return false };
    let Ok(entry) = Registry::builtin().find(&spec.name) else { return false };
    let bare = Spec { given: Vec::new(), ..spec.clone() };
    let words = |spec: &Spec| {
        let settings = Settings::resolve(spec, entry.tunables).ok()?;
        Some(entry.tunables.iter().map(|of| settings.word(of.name).to_owned()).collect::<Vec<String>>())
    };
    words(&spec).is_some_and(|of| Some(of) == words(&bare))
}

/// The best of each context that has the figure in at least one task, in the order of contexts.
pub fn best(results: &Results, better: Better) -> Vec<Best> {
    let names = &results.candidates.names;
    let defaults: BTreeMap<&str, u32> = (0..)
        .zip(names)
        .filter(|(_, name)| is_default(name))
        .map(|(number, name)| (scheduler_of(name), number))
        .collect();
    let mut all = Vec::new();
    for (context, runs) in (0..).zip(results.by_context()) {
        let mut ranked: Vec<(u32, f64)> = runs.iter().filter_map(|run| Some((run.candidate, run.figure?))).collect();
        ranked.sort_by(|one, other| worse(one.1, other.1, better).total_cmp(&0.0).then(one.0.cmp(&other.0)));
        let Some(&(candidate, value)) = ranked.first() else { continue };
        let of = |number: u32| ranked.iter().find(|(of, _)| *of == number).map(|(_, of)| worse(*of, value, better));
        all.push(Best {
            context,
            candidate,
            value,
            second: ranked.get(1).map(|(second, of)| (*second, worse(*of, value, better))),
            defaults: defaults.get(scheduler_of(results.candidates.of(candidate))).and_then(|number| of(*number)),
            worst: ranked.last().map_or(0.0, |(_, of)| worse(*of, value, better)),
            is_complete: ranked.len() == names.len(),
        });
    }
    all
}

/// How often each scheduler is best, by scheduler and drive.
pub fn often(results: &Results, best: &[Best], better: Better) -> BTreeMap<(String, u32), Often> {
    let mut counts: BTreeMap<(String, u32), Often> = BTreeMap::new();
    let grouped = results.by_context();
    for of in best {
        let drive = results.contexts[of.context as usize].drive;
        let name = |candidate: u32| scheduler_of(results.candidates.of(candidate)).to_owned();
        counts.entry((name(of.candidate), drive)).or_default().best += 1;
        let close = grouped[of.context as usize]
            .iter()
            .filter(|run| run.figure.is_some_and(|value| worse(value, of.value, better) <= EQUAL));
        let mut close: Vec<String> = close.map(|run| name(run.candidate)).collect();
        close.sort();
        close.dedup();
        close.into_iter().for_each(|name| counts.entry((name, drive)).or_default().equal += 1);
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_known_by_their_settings_and_worse_is_a_share_of_the_best() {
        assert!(is_default("deadline") && is_default("deadline:read_expire=500ms"));
        assert!(!is_default("deadline:read_expire=1s") && !is_default("stack xen-cfq") && !is_default("none:x"));
        assert_eq!((scheduler_of("cats:a=1"), scheduler_of("stack a:b")), ("cats", "stack a:b"));
        assert_eq!(worse(150.0, 100.0, Better::Smaller), 0.5);
        assert_eq!(worse(100.0, 400.0, Better::Larger), 0.75);
    }
}
