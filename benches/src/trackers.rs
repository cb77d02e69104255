//! Figures for programs that track benchmarks over commits: github-action-benchmark's `customSmallerIsBetter`.

use serde::Serialize;
use serde_json::Number;

use crate::outcome::Outcome;
use crate::scenario::figures::Measured;

/// A figure as github-action-benchmark reads it.
#[derive(Debug, Serialize)]
struct Tracked {
    name: String,
    unit: &'static str,
    value: Number,
    extra: String,
}

/// The figures of these scenarios of which less is better, as JSON.
pub fn json(outcomes: &[Outcome]) -> String {
    let mut tracked = Vec::new();
    for Outcome { scenario, measured, .. } in outcomes {
        for (candidate, figures) in scenario.schedulers.iter().zip(measured) {
            for figure in figures.iter().filter(|measured| is_tracked(measured)) {
                tracked.push(Tracked {
                    name: format!("{} / {} / {}", scenario.name, candidate.name, figure.name),
                    unit: figure.figure.unit,
                    value: value(&figure.by_seed, figure.mean()),
                    extra: scenario.question.clone(),
                });
            }
        }
    }
    let mut text = serde_json::to_string_pretty(&tracked).expect("texts and numbers are JSON");
    text.push('\n');
    text
}

/// Whether less of this figure is better. The span of a VM is the time in which all VMs are active, and says nothing of it.
fn is_tracked(measured: &Measured) -> bool {
    let is_span_of_a_vm = measured.name != measured.figure.name && measured.figure.name == "span_ns";
    measured.figure.smaller_is_better && !is_span_of_a_vm
}

/// The value of one seed exactly, or the mean of several.
fn value(by_seed: &[u64], mean: f64) -> Number {
    match by_seed {
        [value] => Number::from(*value),
        _ => Number::from_f64(mean).unwrap_or_else(|| Number::from(0)),
    }
}
