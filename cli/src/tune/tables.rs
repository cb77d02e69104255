//! A tuning, as sentences and tables.

use super::result::{Gain, Round, Tuning, Used, Verdict};
use super::{WINDOWS_FOR_INTERVAL, WINDOWS_THAT_PROVE};
use crate::document::{Block, Document};
use crate::output::{Table, counted};
use crate::sweep::sensitivity::Sensitivity;
use crate::units::ABSENT;

/// The most traces that are named; the stored result always names all.
const NAMED_MAX: usize = 6;

/// The tuning as a document.
pub fn document(tuning: &Tuning) -> Document {
    let mut blocks = Vec::new();
    if let Some(best) = &tuning.best {
        blocks.push(Block::Lines(vec![format!("--scheduler {best}")]));
    }
    blocks.push(Block::sentence(answer(tuning)));
    blocks.push(Block::sentence(format!(
        "Tuned on {}. Held out: {}.",
        named(&tuning.tuned_on),
        named(&tuning.held_out)
    )));
    if tuning.best.is_some() && !tuning.limits.is_empty() {
        blocks.push(Block::Table(limits(tuning)));
    }
    blocks.extend(tuning.sensitivity.iter().map(|of| Block::Table(matters(tuning, of))));
    blocks.push(Block::Table(rounds(&tuning.rounds)));
    blocks.extend(tuning.notes.iter().map(Block::sentence));
    let settings = &tuning.settings;
    Document {
        title: format!("{} tuned for {}, on {}", settings.scheduler, settings.goal, settings.drive),
        blocks,
        charts: Vec::new(),
        program: tuning.program.clone(),
    }
}

/// A ratio as a change in percent.
fn change(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

fn change_or_absent(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| ABSENT.to_owned(), change)
}

fn windows(count: u64) -> String {
    counted(count, "window", "windows")
}

/// A gain with its interval.
fn gained(gain: &Gain) -> String {
    let over = windows(gain.windows);
    match gain.interval90 {
        Some([from, to]) => {
            format!("{} (90 % interval {} to {}, {over})", change(gain.ratio), change(from), change(to))
        }
        None => format!("{} ({over}, so without an interval)", change(gain.ratio)),
    }
}

/// What was found.
fn answer(tuning: &Tuning) -> String {
    let (goal, scheduler) = (&tuning.settings.goal, &tuning.settings.scheduler);
    let (Some(_), Some(on_tuned)) = (&tuning.best, &tuning.on_tuned) else {
        // One is the scheduler as given.
        let others = tuning.rounds.first().map_or(0, |round| round.candidates.len().saturating_sub(1));
        let breaks = tuning.rounds.iter().flat_map(|round| &round.candidates).any(|one| !one.is_within_limits);
        let within = if breaks { " and keeps the limits" } else { "" };
        return format!(
            "Nothing beats {scheduler} as given: of {others} other candidates none has a better {goal}{within}."
        );
    };
    let Some(held_out) = &tuning.on_held_out else {
        return format!(
            "{goal}: {} on the traces that it was tuned on. Nothing could be compared on held-out traces, so this is \
             not proven.",
            gained(on_tuned)
        );
    };
    let includes_0 = held_out.interval90.is_some_and(|[from, to]| from <= 1.0 && to >= 1.0);
    let proven = match tuning.verdict {
        Verdict::NothingBetter | Verdict::Proven => "",
        Verdict::NotProven if held_out.windows < WINDOWS_THAT_PROVE => {
            " So few windows do not prove the gain; hold out more or longer traces."
        }
        Verdict::NotProven if includes_0 => " The gain is not proven: the interval includes 0.",
        Verdict::NotProven => " The gain is not proven: in some windows it could not be compared.",
        Verdict::Worse => " It is worse there, so it suits only what it was tuned on; keep the scheduler as given.",
    };
    let rough = if (WINDOWS_THAT_PROVE..WINDOWS_FOR_INTERVAL).contains(&held_out.windows) {
        " Over so few windows the interval is rough."
    } else {
        ""
    };
    format!(
        "{goal} beside {scheduler}: {} on held-out traces; {} where it was tuned.{proven}{rough}",
        gained(held_out),
        gained(on_tuned)
    )
}

/// The names of traces, with their time if it is a part.
fn named(used: &[Used]) -> String {
    let one = |used: &Used| {
        let s = |ns: u64| format!("{:.1}s", ns as f64 / 1e9);
        match (used.start_ns, used.end_ns) {
            (0, None) => used.trace.clone(),
            (start, None) => format!("{} from {}", used.trace, s(start)),
            (start, Some(end)) => format!("{} from {} to {}", used.trace, s(start), s(end)),
        }
    };
    let names: Vec<String> = used.iter().take(NAMED_MAX).map(one).collect();
    match used.len().saturating_sub(NAMED_MAX) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

fn table(title: &str, header: &[&str], rows: Vec<Vec<String>>, text_columns: usize) -> Table {
    Table { title: title.to_owned(), header: header.iter().map(|of| (*of).to_owned()).collect(), rows, text_columns }
}

fn limits(tuning: &Tuning) -> Table {
    let row = |limit: &super::result::Limit| {
        let holds = match limit.holds {
            Some(true) => "yes",
            Some(false) => "no",
            None => "not judged",
        };
        let figures =
            [change(limit.allowed_ratio), change_or_absent(limit.on_tuned), change_or_absent(limit.on_held_out)];
        [vec![limit.figure.clone(), holds.to_owned()], figures.to_vec()].concat()
    };
    let rows = tuning.limits.iter().map(row).collect();
    table(
        "Limits, as changes from the scheduler as given, and whether they hold on held-out traces",
        &["figure", "holds", "limit", "where tuned", "held out"],
        rows,
        2,
    )
}

/// What each tunable matters, the one that explains most first.
fn matters(tuning: &Tuning, sensitivity: &Sensitivity) -> Table {
    let mut tunables: Vec<_> = sensitivity.tunables.iter().collect();
    tunables.sort_by(|one, other| other.share.total_cmp(&one.share));
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let rows = tunables.into_iter().map(|of| {
        vec![of.tunable.clone(), of.best.clone(), percent(of.range), percent(of.share), percent(of.share_by_chance)]
    });
    let title = format!(
        "What each tunable matters for {} in the first round, on its own. Range: how far the largest mean of a value \
         lies above the smallest. Share: of the variance over candidates; by chance: the share of a tunable without effect",
        tuning.settings.goal
    );
    table(&title, &["tunable", "best", "range", "share", "by chance"], rows.collect(), 2)
}

fn rounds(rounds: &[Round]) -> Table {
    let row = |round: &Round| {
        let part = if round.parts == 1 { "all".to_owned() } else { format!("1/{}", round.parts) };
        let counts = [round.candidates.len() as u64, round.windows, round.failed_tasks, round.overloaded_tasks];
        let best = change_or_absent(round.candidates.first().map(|best| best.ratio));
        let counted = counts.iter().map(u64::to_string);
        [vec![round.folder.clone(), part], counted.collect(), vec![best]].concat()
    };
    let header = ["round", "part", "candidates", "windows", "failed", "overloaded", "best"];
    table("Rounds", &header, rounds.iter().map(row).collect(), 2)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The answer of a tuning with this verdict and this interval of the gain on held-out traces.
    fn said(verdict: &str, interval: [f64; 2]) -> String {
        let gain = |interval: [f64; 2]| json!({ "windows": 20, "ratio": 0.9, "interval90": interval });
        let tuning = json!({
            "schema_version": 1, "program": "iocast",
            "settings": {
                "scheduler": "mq-deadline", "drive": "cheetah-15k4", "goal": "p99_read", "better": "smaller",
                "pacing": "closed", "map": "exact", "depth": null, "seed": 1
            },
            "searched": [], "tuned_on": [], "held_out": [], "rounds": [], "best": "mq-deadline:fifo_batch=1",
            "on_tuned": gain([0.8, 0.9]), "on_held_out": gain(interval), "verdict": verdict, "limits": [],
            "sensitivity": null, "notes": []
        });
        answer(&serde_json::from_value(tuning).unwrap())
    }

    #[test]
    fn the_answer_says_why_a_gain_is_not_proven() {
        assert!(said("not_proven", [0.8, 1.1]).ends_with("The gain is not proven: the interval includes 0."));
        let missing = said("not_proven", [0.8, 0.95]);
        assert!(missing.ends_with("The gain is not proven: in some windows it could not be compared."), "{missing}");
        assert!(said("proven", [0.8, 0.95]).ends_with("where it was tuned."));
        assert!(said("worse", [1.1, 1.2]).ends_with("keep the scheduler as given."));
    }
}
