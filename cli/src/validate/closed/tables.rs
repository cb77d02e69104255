//! A closed replay beside the recorded run, as tables.

use traces::results::closed::{ClosedValidation, Compared, RelativeErrors, RunFigures};
use traces::results::statistics::SpanFigures;

use crate::document::{Block, Document};
use crate::output::Table;
use crate::units::{self, ABSENT, span, span_or_absent, three_digits};

/// A figure: its name, how it is printed, and its error.
type Row = (&'static str, fn(&RunFigures) -> String, fn(&Compared) -> Option<f64>);

const FIGURES: &[Row] = &[
    ("requests", |run| run.requests.to_string(), |_| None),
    ("span", |run| span(run.span_ns.as_ns() as f64), |both| both.relative_error.span),
    ("requests/s", |run| three_digits(run.requests_per_s), |both| both.relative_error.requests_per_s),
    ("MB/s", |run| three_digits(run.bytes_per_s / 1e6), |both| both.relative_error.bytes_per_s),
    ("response", |run| mean(&run.response_time), |both| both.relative_error.response_time_mean),
    ("p50", |run| percentile(&run.response_time, "p50"), |both| both.relative_error.response_time_p50),
    ("p95", |run| percentile(&run.response_time, "p95"), |both| both.relative_error.response_time_p95),
    ("p99", |run| percentile(&run.response_time, "p99"), |both| both.relative_error.response_time_p99),
    ("device time", |run| mean(&run.device_time), |both| both.relative_error.device_time_mean),
    ("p50", |run| percentile(&run.device_time, "p50"), |both| both.relative_error.device_time_p50),
    ("p95", |run| percentile(&run.device_time, "p95"), |both| both.relative_error.device_time_p95),
    ("p99", |run| percentile(&run.device_time, "p99"), |both| both.relative_error.device_time_p99),
    (
        "queue on arrival",
        |run| run.queue_at_arrival.mean.map_or(ABSENT.to_owned(), three_digits),
        |both| both.relative_error.queue_at_arrival_mean,
    ),
    ("p95", |run| run.queue_at_arrival.p95.to_string(), |_| None),
    ("p99", |run| run.queue_at_arrival.p99.to_string(), |_| None),
];

/// Replay and record as a document.
pub fn document(result: &ClosedValidation) -> Document {
    let title =
        format!("{} replayed closed on {}, {}, depth {}", result.trace, result.drive, result.scheduler, result.depth);
    let mut blocks: Vec<Block> = in_short(&result.all.relative_error).map(Block::Sentence).into_iter().collect();
    blocks.push(Block::Table(table(title.clone(), &result.all)));
    for of in &result.operations {
        let name = format!("{}s", of.operation).replace("flushs", "flushes");
        blocks.push(match takes_no_time(&of.compared.replayed) {
            true => Block::Sentence(format!("{name} complete at once on this drive.")),
            false => Block::Table(table(name, &of.compared)),
        });
    }
    if !result.streams.is_empty() {
        blocks.push(Block::Table(streams(result)));
    }
    if result.incomplete > 0 {
        blocks.push(Block::Sentence(format!(
            "{} requests have no completion time: they were replayed, but do not count in the recorded figures.",
            result.incomplete
        )));
    }
    let commits = result.journal_commits;
    if commits.left_out + commits.repeated > 0 {
        blocks.push(Block::Sentence(format!(
            "Of {} commits of journals {} were left out and {} repeated: {} requests fewer and {} more.",
            commits.recorded, commits.left_out, commits.repeated, commits.requests_left_out, commits.requests_repeated
        )));
    }
    if result.late > 0 {
        blocks.push(Block::Sentence(format!(
            "{} arrivals came late, because their stream was further away in the trace than iocast reads ahead.",
            result.late
        )));
    }
    Document { title, blocks, charts: Vec::new(), program: result.program.clone() }
}

/// How far off the replay is; `None` without an error.
fn in_short(errors: &RelativeErrors) -> Option<String> {
    let figures = [
        ("requests/s", errors.requests_per_s),
        ("mean response time", errors.response_time_mean),
        ("p99", errors.response_time_p99),
    ];
    let said = |(name, error): (&str, Option<f64>)| Some(format!("{name} by {}", percent(Some(error?))));
    let said: Vec<String> = figures.into_iter().filter_map(said).collect();
    (!said.is_empty()).then(|| format!("The replay is off the record: {}.", said.join(", ")))
}

fn table(title: String, compared: &Compared) -> Table {
    let row = |(name, figure, error): &Row| {
        let values = [figure(&compared.recorded), figure(&compared.replayed)];
        // A percentile that too few requests support has no error either.
        let error = error(compared).filter(|_| values.iter().all(|value| value != ABSENT));
        std::iter::once((*name).to_owned()).chain(values).chain([percent(error)]).collect()
    };
    Table {
        title,
        header: ["", "recorded", "replayed", "error"].map(str::to_owned).to_vec(),
        rows: FIGURES.iter().map(row).collect(),
        text_columns: 1,
    }
}

fn streams(result: &ClosedValidation) -> Table {
    let rows = result.streams.iter().map(|of| {
        let Compared { recorded, replayed, relative_error } = &of.compared;
        vec![
            of.stream.0.to_string(),
            recorded.requests.to_string(),
            three_digits(recorded.requests_per_s),
            three_digits(replayed.requests_per_s),
            percent(relative_error.requests_per_s),
            mean(&recorded.response_time),
            mean(&replayed.response_time),
            percent(relative_error.response_time_mean),
        ]
    });
    let header = ["stream", "requests", "recorded/s", "replayed/s", "error", "response", "replayed", "error"];
    Table {
        title: "Streams with the most requests".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: rows.collect(),
        text_columns: 1,
    }
}

/// Whether all requests of a class completed when they arrived, as flushes do without a volatile cache.
fn takes_no_time(run: &RunFigures) -> bool {
    run.requests > 0 && run.response_time.moments.max_ns == Some(0)
}

fn mean(spans: &SpanFigures) -> String {
    span_or_absent(spans.moments.mean_ns)
}

fn percentile(spans: &SpanFigures, name: &str) -> String {
    units::percentile(&spans.percentiles_ns, spans.count, name)
}

fn percent(error: Option<f64>) -> String {
    error.map_or(ABSENT.to_owned(), |error| format!("{:+.1} %", error * 100.0))
}
