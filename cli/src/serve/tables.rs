//! The figures of a served drive as text.

use traces::results::serving::{ServedVm, Serving};

use crate::output::{Table, number};
use crate::output_format::OutputFormat;

/// The status line while the server runs.
pub fn line(report: &Serving) -> String {
    let late = |name: &str| number(us(report.lateness.percentiles_ns.get(name).copied()));
    let max = number(us(report.lateness.moments.max_ns));
    let requests = report.lateness.count;
    format!("{requests} requests, late by p50 {} µs, p99 {} µs, max {max} µs", late("p50"), late("p99"))
}

/// The tables at the end.
pub fn render(report: &Serving, format: OutputFormat) -> String {
    [spans(report), vms(report)].iter().map(|table| table.render(format)).collect::<Vec<String>>().join("\n")
}

fn us(ns: Option<u64>) -> Option<f64> {
    ns.map(|ns| ns as f64 / 1e3)
}

fn spans(report: &Serving) -> Table {
    let rows = [("lateness", &report.lateness), ("response time", &report.response_time)];
    let row = |(name, figures): &(&str, &traces::results::SpanFigures)| {
        let percentile = |name: &str| number(us(figures.percentiles_ns.get(name).copied()));
        let mut row = vec![(*name).to_owned(), figures.count.to_string()];
        row.push(number(figures.moments.mean_ns.map(|mean| mean / 1e3)));
        row.extend(["p50", "p90", "p95", "p99", "p99.9"].map(percentile));
        row.push(number(us(figures.moments.max_ns)));
        row
    };
    Table {
        title: format!("{} served for {:.1} s; times in us", report.drive.name, report.span_ns.as_s_f64()),
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
