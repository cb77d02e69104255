//! What a tuning notes beside its result: tasks that failed, and limits that could not be judged.

use super::result::{Limit, Round};
use crate::sweep::folder::Joined;

/// The most errors that are told apart.
const ERRORS_MAX: usize = 5;

/// Adds the tasks of a round to those of the rounds before it.
pub fn add(all: &mut Joined, round: Joined) {
    all.tasks += round.tasks;
    all.failed += round.failed;
    for (error, count) in round.errors {
        *all.errors.entry(error).or_default() += count;
    }
}

/// A note for each of the most frequent errors, and one for all others.
pub fn failures(ran: &Joined) -> Vec<String> {
    let mut errors: Vec<(&String, &u64)> = ran.errors.iter().collect();
    // Equally frequent ones stay in the order of their texts.
    errors.sort_by(|one, other| other.1.cmp(one.1));
    errors.truncate(ERRORS_MAX);
    let tasks = ran.tasks;
    let others = ran.failed - errors.iter().map(|(_, count)| **count).sum::<u64>();
    let mut notes: Vec<String> =
        errors.into_iter().map(|(error, count)| format!("{count} of {tasks} tasks failed: {error}.")).collect();
    if others > 0 {
        notes.push(format!(
            "{others} of {tasks} tasks failed with other errors, which the column error of results.parquet has."
        ));
    }
    notes
}

/// A note for each limit that could not be judged in some rounds for the best candidate but `given`, the scheduler as
/// given. If there is a best (`is_found`), also one for each limit that could not be judged on held-out traces.
pub fn unjudged(limits: &[Limit], rounds: &[Round], given: &str, is_found: bool) -> Vec<String> {
    let mut notes = Vec::new();
    for (at, Limit { figure, holds, .. }) in limits.iter().enumerate() {
        let is_unjudged = |round: &&Round| {
            let best = round.candidates.iter().find(|candidate| candidate.scheduler != given);
            best.is_some_and(|best| best.limit_ratios[at].is_none())
        };
        let unjudged: Vec<&str> = rounds.iter().filter(is_unjudged).map(|round| round.folder.as_str()).collect();
        if !unjudged.is_empty() {
            notes.push(format!(
                "In {} the limit of {figure} could not be judged for the best of the changed candidates. No window \
                 there has the figure, from enough requests, of both it and the scheduler as given.",
                unjudged.join(", ")
            ));
        }
        if is_found && holds.is_none() {
            notes.push(format!(
                "Whether the limit of {figure} holds on held-out traces could not be judged. No window there has the \
                 figure, from enough requests, of both the best candidate and the scheduler as given."
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn errors_are_counted_over_rounds_and_the_most_frequent_ones_are_told() {
        let round = |errors: &[(&str, u64)], failed| Joined {
            tasks: 30,
            failed,
            errors: errors.iter().map(|(error, count)| ((*error).to_owned(), *count)).collect::<BTreeMap<_, _>>(),
        };
        let mut all = Joined::default();
        assert!(failures(&all).is_empty());
        add(&mut all, round(&[("b", 2), ("c", 1)], 3));
        add(&mut all, round(&[("a", 2), ("b", 2)], 4));
        assert_eq!(
            failures(&all),
            ["4 of 60 tasks failed: b.", "2 of 60 tasks failed: a.", "1 of 60 tasks failed: c."]
        );
        // More errors than are told here, or than a sweep tells apart.
        add(&mut all, round(&[("d", 1), ("e", 1), ("f", 1)], 8));
        let notes = failures(&all);
        assert_eq!(notes.len(), 6);
        assert!(
            notes[4].ends_with(": e.") && notes[5].starts_with("6 of 90 tasks failed with other errors"),
            "{notes:?}"
        );
    }
}
