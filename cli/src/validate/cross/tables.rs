//! Replays on another device beside what was captured there, as tables.

use traces::results::cross::{CrossCase, CrossLeftOut, CrossSummary, CrossValidation};

use crate::document::{Block, Document};
use crate::output::Table;
use crate::units::{ABSENT, data, span, three_digits};

/// How a figure is shown.
#[derive(Clone, Copy)]
enum Unit {
    Rate,
    Megabytes,
    Time,
    Bytes,
    Share,
}

/// The figures as people read them: name in the result, heading, unit.
const FIGURES: [(&str, &str, Unit); 13] = [
    ("requests_per_s", "requests/s", Unit::Rate),
    ("reads_per_s", "reads/s", Unit::Rate),
    ("writes_per_s", "writes/s", Unit::Rate),
    ("bytes_per_s", "MB/s", Unit::Megabytes),
    ("read_response_mean_ns", "read, mean", Unit::Time),
    ("read_response_p50_ns", "read, p50", Unit::Time),
    ("read_response_p99_ns", "read, p99", Unit::Time),
    ("write_response_mean_ns", "write, mean", Unit::Time),
    ("write_response_p50_ns", "write, p50", Unit::Time),
    ("write_response_p99_ns", "write, p99", Unit::Time),
    ("outstanding_mean", "outstanding", Unit::Rate),
    ("device_request_bytes", "request at the disk", Unit::Bytes),
    ("write_back_share", "written back", Unit::Share),
];
/// Cases in the table of single ones; JSON has all.
const CASES_SHOWN: usize = 24;
/// Cases that are left out and named.
const LEFT_OUT_SHOWN: usize = 5;
/// The figures of the table of single cases.
const SHOWN: [&str; 5] =
    ["reads_per_s", "writes_per_s", "read_response_mean_ns", "read_response_p99_ns", "write_response_mean_ns"];

/// The result as a document.
pub fn document(result: &CrossValidation) -> Document {
    let mut blocks = vec![Block::Sentence(answer(result)), Block::Table(summary(&result.summary))];
    blocks.push(Block::Sentence(
        "“Unchanged” takes the captured figure for that of the other device. A bias above zero says that replays are \
         too high."
            .to_owned(),
    ));
    blocks.push(Block::Sentence(
        "Replay and truth are measured for the same time, from the end of the warm-up until the replay has used up its \
         requests; the captured figures are of all of the capture. Three choices were made when errors of the shipped labs \
         and of the suite's part train had been seen: this one, how the link of a lab to its drive is estimated, and how \
         its guests write back."
            .to_owned(),
    ));
    blocks.extend(cases(result).into_iter().map(Block::Table));
    if !result.left_out.is_empty() {
        blocks.push(Block::List { heading: "Left out".to_owned(), items: left_out(result) });
    }
    Document {
        title: "Captures replayed on another device".to_owned(),
        blocks,
        charts: Vec::new(),
        program: result.program.clone(),
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn answer(result: &CrossValidation) -> String {
    // Without a split nobody knows what was looked at when the replay was made.
    let part =
        result.part.as_ref().map_or_else(|| " without a split".to_owned(), |part| format!(" of the part {part}"));
    let of = |name: &str| {
        let of = result.summary.iter().find(|of| of.figure == name)?;
        Some(format!("{} ({})", percent(of.median), percent(of.p90)))
    };
    let [rate, read, write] = ["requests_per_s", "read_response_mean_ns", "write_response_mean_ns"]
        .map(|name| of(name).unwrap_or_else(|| ABSENT.to_owned()));
    format!(
        "In the median (and at the 90th percentile) over {} cases{part}, a capture replayed closed on another device is off \
         what was captured there by {rate} in requests/s, {read} in the mean response time of reads and {write} in that \
         of writes.",
        result.cases.len()
    )
}

fn summary(summary: &[CrossSummary]) -> Table {
    let row = |of: &CrossSummary| {
        let heading = FIGURES.iter().find(|(name, ..)| *name == of.figure).map_or(of.figure.as_str(), |of| of.1);
        let [median, p90] = of.unchanged;
        vec![
            heading.to_owned(),
            of.cases.to_string(),
            percent(of.median),
            percent(of.p90),
            format!("{:+.1} %", of.bias * 100.0),
            percent(median),
            percent(p90),
        ]
    };
    let header = ["error of", "cases", "median", "90 %", "bias", "unchanged", "90 %"];
    Table {
        title: "Errors of replays on another device".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: summary.iter().map(row).collect(),
        text_columns: 1,
    }
}

/// The first cases that are left out, and how many there are.
fn left_out(result: &CrossValidation) -> Vec<String> {
    let item = |of: &CrossLeftOut| format!("{} from {} to {}: {}", of.vm, of.from, of.to, of.why);
    let mut lines: Vec<String> = result.left_out.iter().take(LEFT_OUT_SHOWN).map(item).collect();
    if let Some(more) = result.left_out.len().checked_sub(LEFT_OUT_SHOWN).filter(|more| *more > 0) {
        lines.push(format!("{more} more cases are left out; JSON has them all"));
    }
    lines
}

/// The largest error of a case among the figures that are shown.
fn largest(case: &CrossCase) -> f64 {
    let errors = SHOWN.iter().filter_map(|name| case.figures.get(*name)?.error());
    errors.map(f64::abs).max_by(f64::total_cmp).unwrap_or(0.0)
}

/// A table of the cases with the largest errors: the truth, and the error of the replay.
fn cases(result: &CrossValidation) -> Option<Table> {
    let mut worst: Vec<&CrossCase> = result.cases.iter().collect();
    worst.sort_by(|a, b| largest(b).total_cmp(&largest(a)));
    worst.truncate(CASES_SHOWN);

    let shown: Vec<_> = FIGURES.iter().filter(|(name, ..)| SHOWN.contains(name)).collect();
    let row = |case: &CrossCase| {
        let mut cells = vec![case.vm.clone(), format!("{} → {}", case.from, case.to), case.repetition.to_string()];
        for (name, _, unit) in &shown {
            let figure = case.figures.get(*name).copied().unwrap_or_default();
            cells.push(figure.truth.map_or_else(|| ABSENT.to_owned(), |value| value_of(value, *unit)));
            cells.push(figure.error().map_or_else(|| ABSENT.to_owned(), |error| format!("{:+.0} %", error * 100.0)));
        }
        cells
    };
    let mut header = vec!["VM".to_owned(), "from → to".to_owned(), "rep.".to_owned()];
    header.extend(shown.iter().flat_map(|(_, heading, _)| [(*heading).to_owned(), "replay".to_owned()]));
    (!result.cases.is_empty()).then(|| Table {
        title: format!(
            "The {} cases of {} with the largest errors: as captured there, and the error of the replay",
            worst.len(),
            result.cases.len()
        ),
        header,
        rows: worst.into_iter().map(row).collect(),
        text_columns: 3,
    })
}

fn value_of(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Rate => three_digits(value),
        Unit::Megabytes => three_digits(value / 1e6),
        Unit::Time => span(value),
        Unit::Bytes => data(value as u64),
        Unit::Share => percent(value),
    }
}
