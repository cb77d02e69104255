//! A run as Markdown: a table of each scenario, what has changed, and the lines to put into a scenario for a change
//! that is wanted.

use std::fmt::Write as _;

use traces::printable::printable_markdown;

use crate::baseline::Baseline;
use crate::outcome::{Miss, Outcome, shown};
use crate::scenario::figures::Measured;
use crate::scenario::{Candidate, Scenario};

/// The columns of a scenario's table: heading, figure, and the unit that the figure is divided by.
const COLUMNS: [(&str, &str, f64); 5] = [
    ("read response, mean ms", "read_response_mean_ns", 1e6),
    ("read p99 ms", "read_response_p99_ns", 1e6),
    ("write response, mean ms", "write_response_mean_ns", 1e6),
    ("write p99 ms", "write_response_p99_ns", 1e6),
    ("duration s", "span_ns", 1e9),
];

/// The whole run. A baseline has a name.
pub fn run(outcomes: &[Outcome], baseline: Option<(&str, &Baseline)>) -> String {
    let mut text = "## Scheduler comparisons\n\n".to_owned();
    for outcome in outcomes {
        scenario(&mut text, outcome, baseline);
    }
    let passed = outcomes.iter().filter(|outcome| outcome.passed()).count();
    let _ = writeln!(text, "{passed} passed, {} failed", outcomes.len() - passed);
    text
}

fn scenario(text: &mut String, outcome: &Outcome, baseline: Option<(&str, &Baseline)>) {
    let Scenario { name, question, seeds, .. } = &outcome.scenario;
    let _ = write!(text, "### {}\n\n{}\n", printable_markdown(name), printable_markdown(question));
    if seeds.len() > 1 {
        let _ = writeln!(text, "Means over {} seeds.", seeds.len());
    }
    text.push('\n');
    results(text, outcome);
    bounds(text, outcome);
    match baseline {
        Some((name, baseline)) => against_baseline(text, outcome, name, baseline),
        None => against_expected(text, outcome),
    }
    for alike in outcome.misses.chunk_by(|one, next| one.what == next.what) {
        let _ = writeln!(text, "{}", printable_markdown(&alike[0].what));
        let path = outcome.scenario.path.display();
        if alike.iter().all(|miss| miss.new_line.is_none()) {
            let _ = writeln!(text, "No limit holds; see {path}:{}.\n", alike[0].line);
            continue;
        }
        text.push_str(
            "If the change is wanted, and you can explain it, put this there, and the new reason:\n\n```toml\n",
        );
        for Miss { line, was, new_line, .. } in alike {
            if let Some(new_line) = new_line {
                let _ = writeln!(text, "{new_line} # {path}:{line}, was {was}");
            }
        }
        text.push_str("```\n\n");
    }
}

/// The schedulers with the figures that one looks at first.
fn results(text: &mut String, outcome: &Outcome) {
    let headings: Vec<&str> = COLUMNS.iter().map(|(heading, ..)| *heading).collect();
    let _ = writeln!(text, "| scheduler | {} | expected |", headings.join(" | "));
    let _ = writeln!(text, "|---|{}---|", "---:|".repeat(COLUMNS.len()));
    for (candidate, measured) in outcome.scenario.schedulers.iter().zip(&outcome.measured) {
        let of = |figure: &str| measured.iter().find(|measured| measured.name == figure).map_or(0.0, Measured::mean);
        // A class without requests has a mean of 0.
        let shown = |value: f64| if value > 0.0 { format!("{value:.3}") } else { "–".to_owned() };
        let cells: Vec<String> = COLUMNS.iter().map(|(_, figure, unit)| shown(of(figure) / unit)).collect();
        let _ = writeln!(
            text,
            "| {} | {} | {} |",
            printable_markdown(&candidate.name),
            cells.join(" | "),
            verdict(outcome, candidate)
        );
    }
    text.push('\n');
}

/// How many of a scheduler's expected figures are as expected.
fn verdict(outcome: &Outcome, candidate: &Candidate) -> String {
    let is_of_it = |line: &usize| candidate.figures.iter().any(|figure| figure.line == *line);
    match (candidate.figures.len(), outcome.misses.iter().filter(|miss| is_of_it(&miss.line)).count()) {
        (0, _) => "nothing".to_owned(),
        (_, 0) => "yes".to_owned(),
        (all, missed) => format!("{missed} of {all} figures differ"),
    }
}

fn bounds(text: &mut String, outcome: &Outcome) {
    if outcome.scenario.bounds.is_empty() {
        return;
    }
    text.push_str("| bound | is | holds |\n|---|---:|---|\n");
    for (bound, held) in outcome.bounds() {
        let holds = if held.holds { "yes" } else { "no" };
        let _ = writeln!(text, "| {} | {} | {holds} |", printable_markdown(&bound.says()), shown(held.value));
    }
    text.push('\n');
}

/// The figures that are not those of the baseline, and those that it does not have.
fn against_baseline(text: &mut String, outcome: &Outcome, name: &str, baseline: &Baseline) {
    let mut rows = Vec::new();
    let mut equal = 0;
    for (candidate, measured) in outcome.scenario.schedulers.iter().zip(&outcome.measured) {
        for figure in measured {
            match baseline.values(&outcome.scenario.name, &candidate.name, &figure.name) {
                Some(old) if old == figure.by_seed => equal += 1,
                old => rows.push(row(&candidate.name, &figure.name, old, &figure.by_seed)),
            }
        }
    }
    changes(text, &format!("As in baseline {}", printable_markdown(name)), equal, &rows);
}

/// The figures that are not as expected, and those within a tolerance.
fn against_expected(text: &mut String, outcome: &Outcome) {
    let mut rows = Vec::new();
    let mut equal = 0;
    for (candidate, measured) in outcome.scenario.schedulers.iter().zip(&outcome.measured) {
        for expected in &candidate.figures {
            match measured.iter().find(|measured| measured.name == expected.name) {
                Some(found) if found.by_seed == expected.by_seed => equal += 1,
                Some(found) => rows.push(row(&candidate.name, &expected.name, Some(&expected.by_seed), &found.by_seed)),
                None => {}
            }
        }
    }
    changes(text, "Exactly as expected", equal, &rows);
}

/// How many figures are `alike`, and the table of the others.
fn changes(text: &mut String, alike: &str, equal: usize, rows: &[String]) {
    let all = equal + rows.len();
    if all == 0 {
        return;
    }
    let _ = write!(text, "{alike}: {equal} of {all} figures");
    if rows.is_empty() {
        text.push_str(".\n\n");
        return;
    }
    text.push_str("; the others:\n\n| scheduler | figure | old | new | change |\n|---|---|---:|---:|---:|\n");
    let _ = writeln!(text, "{}\n", rows.join("\n"));
}

fn row(scheduler: &str, figure: &str, old: Option<&[u64]>, new: &[u64]) -> String {
    let mean = |values: &[u64]| values.iter().map(|&value| value as f64).sum::<f64>() / values.len().max(1) as f64;
    let whole = |values: &[u64]| format!("{:.0}", mean(values));
    let change = match old.map(mean) {
        Some(old) if old > 0.0 => format!("{:+.2} %", (mean(new) / old - 1.0) * 100.0),
        _ => "–".to_owned(),
    };
    let old = old.map_or_else(|| "–".to_owned(), whole);
    format!(
        "| {} | {} | {old} | {} | {change} |",
        printable_markdown(scheduler),
        printable_markdown(figure),
        whole(new)
    )
}
