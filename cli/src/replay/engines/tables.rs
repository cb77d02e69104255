//! What engines did, for people.

use traces::results::engines::{EngineComparison, EngineFigures};

use crate::output::{Table, sentence};
use crate::output_format::OutputFormat;
use crate::units::{ABSENT, percentile, span, span_or_absent};

/// The result as text or Markdown.
pub fn render(comparison: &EngineComparison, format: OutputFormat) -> String {
    let EngineComparison { device, asked_requests, left_out_requests, asked_span_ns, engines, .. } = comparison;
    let mut lines = vec![format!(
        "Asked on {device}: {asked_requests} requests within {}. The kernel's events on the device say when each \
         arrived; the one that is least late counts as on time.",
        span(asked_span_ns.as_ns() as f64)
    )];
    if *left_out_requests > 0 {
        lines.push(format!("{left_out_requests} requests that are no reads were left out; --allow-writes sends them."));
    }
    for engine in engines {
        lines.extend(troubles(engine));
    }
    let mut text = String::new();
    for line in lines {
        text.push_str(&sentence(&line, format));
        if format == OutputFormat::Markdown {
            text.push('\n');
        }
    }
    text.push('\n');
    text.push_str(&table(engines).render(format));
    text
}

/// What the reader of the figures must know.
fn troubles(figures: &EngineFigures) -> Vec<String> {
    let EngineFigures { engine, failure, never_ended, inexpressible_requests, lost_events, .. } = figures;
    let mut lines = Vec::new();
    lines.extend(failure.as_ref().map(|failure| format!("{engine} failed: {failure}")));
    if *never_ended {
        lines.push(format!("{engine} sent all requests, but did not end by itself; it was stopped."));
    }
    if *inexpressible_requests > 0 {
        lines.push(format!(
            "{engine} cannot express {inexpressible_requests} of the requests; it was not asked for them."
        ));
    }
    if *lost_events > 0 {
        lines.push(format!("{lost_events} events of {engine} were lost, so requests may count as missing."));
    }
    lines
}

fn table(engines: &[EngineFigures]) -> Table {
    let row = |figures: &EngineFigures| {
        let error = &figures.issue_time_error;
        let of = |name: &str| percentile(&error.percentiles_ns, error.count, name);
        let drift = figures.drift_share.map_or_else(|| ABSENT.to_owned(), |share| format!("{:.4}", share * 100.0));
        vec![
            figures.engine.clone(),
            figures.arrived_requests.to_string(),
            figures.missing_requests.to_string(),
            figures.other_requests.to_string(),
            span(figures.span_ns.as_ns() as f64),
            of("p50"),
            of("p99"),
            span_or_absent(error.moments.max_ns.map(|ns| ns as f64)),
            drift,
            span_or_absent(figures.device_time.moments.mean_ns),
        ]
    };
    let header = ["engine", "arrived", "missing", "others", "took", "late p50", "p99", "max", "drift, %", "D2C mean"];
    Table {
        title: "Requests at the device, by engine".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: engines.iter().map(row).collect(),
        text_columns: 1,
    }
}
