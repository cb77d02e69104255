//! Tables of a reproduction that judge: mean errors, bars, ranks, claims.

use traces::results::reproduction::{Bar, Claim, Evidence, GroupError, Rank, RankedPair, Verdict};

use super::grid::percent;
use crate::output::Table;

/// A verdict or a name, with what stands behind it if that is no forecast.
fn verdict(word: &str, evidence: Evidence) -> String {
    match evidence {
        Evidence::Forecast => word.to_owned(),
        Evidence::Seen => format!("{word} (seen)"),
        Evidence::ChosenOn => format!("{word} (chosen on)"),
        Evidence::Fitted => format!("{word} (fitted)"),
    }
}

/// The word for a bar.
fn reached(reached: bool) -> &'static str {
    if reached { "reached" } else { "missed" }
}

/// The verdict on a bar, marked if a limit lies inside the interval of its number.
fn judged(bar: &Bar) -> String {
    let word = format!("{}{}", reached(bar.reached), if bar.is_close() { "~" } else { "" });
    match bar.evidence {
        Evidence::Seen if bar.limit_set_later => format!("{word} (limit set later)"),
        evidence => verdict(&word, evidence),
    }
}

/// The mean errors of groups of cells.
pub fn errors(errors: &[GroupError]) -> Table {
    let row = |error: &GroupError| {
        let mean = error.mean_absolute_relative_error;
        let verdict = error.bar.map_or_else(|| "-".to_owned(), |bar| verdict(reached(mean <= bar), error.evidence));
        let bar = error.bar.map_or_else(|| "-".to_owned(), percent);
        vec![error.group.clone(), error.cells.to_string(), percent(mean), bar, verdict]
    };
    Table {
        title: "Mean absolute relative errors".to_owned(),
        header: ["group", "cells", "error", "bar", ""].map(str::to_owned).to_vec(),
        rows: errors.iter().map(row).collect(),
        text_columns: 1,
    }
}

/// Bounds of single numbers.
pub fn bars(bars: &[Bar]) -> Table {
    let bound = |bound: Option<f64>| bound.map_or_else(|| "-".to_owned(), |bound| format!("{bound:.2}"));
    let row = |bar: &Bar| {
        let ours = format!("{:.2}", bar.ours);
        vec![bar.what.clone(), ours, bound(bar.at_least), bound(bar.at_most), judged(bar)]
    };
    Table {
        title: "Other bars; ~ if the confidence interval passes a limit".to_owned(),
        header: ["value", "ours", "at least", "at most", ""].map(str::to_owned).to_vec(),
        rows: bars.iter().map(row).collect(),
        text_columns: 1,
    }
}

/// Below this relative difference in the paper, a pair is marked as close.
const CLOSE: f64 = 0.03;

/// The paper's orders and ours, pair by pair, with what stands behind the values if that is no forecast.
pub fn ranks(ranks: &[Rank]) -> Table {
    let pair = |seeds: u64| {
        move |pair: &RankedPair| {
            let mark = if pair.apart.is_some_and(|apart| apart <= CLOSE) { "~" } else { "" };
            format!("{} before {}{mark}: {} of {seeds}", pair.better, pair.worse, pair.right)
        }
    };
    let row = |rank: &Rank| {
        let pairs: Vec<String> = rank.pairs.iter().map(pair(rank.seeds)).collect();
        vec![verdict(&rank.what, rank.evidence), rank.order.join(", "), rank.ours.join(", "), pairs.join("; ")]
    };
    let close = ranks.iter().flat_map(|rank| &rank.pairs).any(|pair| pair.apart.is_some_and(|apart| apart <= CLOSE));
    let tilde = if close { "; ~ within 3 % in the paper" } else { "" };
    Table {
        title: format!("Ranks, the best first, and the seeds in which a pair has the paper's order{tilde}"),
        header: ["values", "paper", "ours", "pairs"].map(str::to_owned).to_vec(),
        rows: ranks.iter().map(row).collect(),
        text_columns: 4,
    }
}

/// What the paper says in words, and whether ours shows it.
pub fn claims(claims: &[Claim]) -> Table {
    let word = |verdict: Verdict| match verdict {
        Verdict::Holds => "holds",
        Verdict::HoldsInPart => "holds in part",
        Verdict::Contradicts => "contradicts the paper",
    };
    let row = |claim: &Claim| {
        vec![claim.place.clone(), claim.says.clone(), claim.ours.clone(), verdict(word(claim.verdict), claim.evidence)]
    };
    Table {
        title: "What the paper says in words (in part: in at least half of the cases; fewer contradict it)".to_owned(),
        header: ["place", "the paper", "ours", ""].map(str::to_owned).to_vec(),
        rows: claims.iter().map(row).collect(),
        text_columns: 4,
    }
}
