//! The figures of a served drive as text.

use traces::results::serving::{ServedVm, Serving};

use crate::document::{Block, Document};
use crate::output::Table;
use crate::units::{percentile, span_or_absent};

/// The status line while the server runs.
pub fn line(report: &Serving) -> String {
    let lateness = &report.lateness;
    let late = |name: &str| percentile(&lateness.percentiles_ns, lateness.count, name);
    let max = span_or_absent(lateness.moments.max_ns.map(|ns| ns as f64));
    format!("{} requests, late by p50 {}, p99 {}, max {max}", lateness.count, late("p50"), late("p99"))
}

/// The figures at the end, as a document.
pub fn document(report: &Serving) -> Document {
    Document {
        title: format!("Served {}", report.drive.name),
        blocks: [spans(report), vms(report)].map(Block::Table).into(),
        charts: Vec::new(),
        program: report.program.clone(),
    }
}

fn spans(report: &Serving) -> Table {
    let rows = [("lateness", &report.lateness), ("response time", &report.response_time)];
    let row = |(name, figures): &(&str, &traces::results::SpanFigures)| {
        let percentile = |name: &str| percentile(&figures.percentiles_ns, figures.count, name);
        let mut row = vec![(*name).to_owned(), figures.count.to_string(), span_or_absent(figures.moments.mean_ns)];
        row.extend(["p50", "p90", "p95", "p99", "p99.9"].map(percentile));
        row.push(span_or_absent(figures.moments.max_ns.map(|ns| ns as f64)));
        row
    };
    Table {
        title: format!("{} served for {:.1} s", report.drive.name, report.span_ns.as_s_f64()),
        header: ["", "requests", "mean", "p50", "p90", "p95", "p99", "p99.9", "max"].map(str::to_owned).to_vec(),
        rows: rows.iter().map(row).collect(),
        text_columns: 1,
    }
}

fn vms(report: &Serving) -> Table {
    let row = |vm: &ServedVm| {
        let mut row = vec![vm.vm.clone()];
        let counts = [vm.reads, vm.read_bytes, vm.writes, vm.written_bytes, vm.flushes, vm.discards];
        row.extend(counts.map(|count| count.to_string()));
        row
    };
    let mut title = "Requests".to_owned();
    if report.failed > 0 {
        title.push_str(&format!(", {} of them with failed data accesses", report.failed));
    }
    if let Some(logged) = report.logged {
        title.push_str(&format!(", {logged} in the log"));
    }
    let header = ["VM", "reads", "bytes read", "writes", "bytes written", "flushes", "discards"];
    Table {
        title,
        header: header.map(str::to_owned).to_vec(),
        rows: report.vms.iter().map(row).collect(),
        text_columns: 1,
    }
}
