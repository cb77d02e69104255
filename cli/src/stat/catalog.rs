//! `iocast stat --catalog`: sums of the traces of a catalogue, by host, device and date.

use std::sync::atomic::Ordering;

use anyhow::{Result, ensure};
use rayon::prelude::*;
use traces::formats::parquet::{Summary, summarise};
use traces::origin::without_folders;
use traces::results::SCHEMA_VERSION;
use traces::results::catalog::{CatalogStatistics, CatalogSums, PartitionSums};
use traces::trace::ReadOptions;
use traces::{Nanos, Operation};

use super::histograms::without_effect;
use crate::arguments::Stat;
use crate::catalog::{Entry, Filter, Partition, entries, parse_pattern};
use crate::document::{Block, Document, present};
use crate::error::UsageError;
use crate::output::{Table, counted, number};
use crate::progress::Progress;
use crate::units::{ABSENT, data, span};

/// Prints the sums.
///
/// # Errors
/// A folder that is no catalogue, a filter that nothing passes, a trace that cannot be read.
pub fn run(arguments: &Stat) -> Result<()> {
    let of_reading = ReadOptions { device: None, ..arguments.reading.options() } != ReadOptions::default();
    let given = if of_reading {
        Some("an option of how traces are read, except --device,")
    } else {
        without_effect(arguments, false)
    };
    if let Some(what) = given {
        let error = format!("{what} has no effect on a catalogue, whose requests are not read one by one");
        return Err(UsageError(error).into());
    }
    let device = arguments.reading.device.as_deref().map(parse_pattern).transpose().map_err(UsageError)?;
    let report = arguments.report.planned(arguments.force)?;
    let filter = Filter { host: arguments.host.clone(), device, date: arguments.date.clone() };
    let found = entries(&arguments.input, &filter)?;
    ensure!(
        !found.is_empty(),
        UsageError(format!(
            "{}: no trace of the catalogue passes --host, --device and --date",
            arguments.input.display()
        ))
    );
    let progress = Progress::jobs("measuring", found.len() as u64);
    let done = progress.counter(0);
    let sums: Vec<Summary> = found
        .par_iter()
        .map(|entry| {
            let summary = summarise(&entry.path);
            done.fetch_add(1, Ordering::Relaxed);
            Ok(summary?)
        })
        .collect::<Result<_>>()?;
    drop(progress);
    let figures = added(without_folders(&arguments.input.to_string_lossy()), &found, &sums);
    present(&figures, &document(&figures), arguments.output_format, &report, Vec::new())
}

/// The figures of traces that stand in the order of their partitions.
fn added(catalog: &str, entries: &[Entry], summaries: &[Summary]) -> CatalogStatistics {
    let mut partitions: Vec<PartitionSums> = Vec::new();
    let mut total = CatalogSums::default();
    for (at, (entry, summary)) in entries.iter().zip(summaries).enumerate() {
        if at == 0 || entries[at - 1].partition != entry.partition {
            let Partition { host, device, date } = entry.partition.clone();
            partitions.push(PartitionSums { host, device, date, sums: CatalogSums::default() });
        }
        add(&mut total, summary);
        if let Some(last) = partitions.last_mut() {
            add(&mut last.sums, summary);
        }
    }
    partitions.iter_mut().map(|of| &mut of.sums).chain([&mut total]).for_each(|sums| {
        let seconds = sums.span_ns.as_s_f64();
        sums.requests_per_s = (seconds > 0.0).then(|| sums.requests as f64 / seconds);
    });
    let (schema_version, program) = (SCHEMA_VERSION, traces::program_version());
    CatalogStatistics { schema_version, program, catalog: catalog.to_owned(), partitions, total }
}

fn add(sums: &mut CatalogSums, summary: &Summary) {
    let (reads, writes) = (summary.of(Operation::Read), summary.of(Operation::Write));
    sums.traces += 1;
    sums.file_bytes += summary.file_bytes;
    sums.reads += reads.requests;
    sums.read_bytes = sums.read_bytes.saturating_add(reads.bytes);
    sums.writes += writes.requests;
    sums.write_bytes = sums.write_bytes.saturating_add(writes.bytes);
    if let Some(extent) = summary.extent {
        sums.requests += extent.records;
        let span = extent.last_arrival.saturating_since(extent.first_arrival);
        sums.span_ns = Nanos::from_ns(sums.span_ns.as_ns().saturating_add(span.as_ns()));
    }
}

/// The sums as a document.
pub fn document(figures: &CatalogStatistics) -> Document {
    let CatalogStatistics { catalog, partitions, total, .. } = figures;
    let row = |names: [&str; 3], sums: &CatalogSums| {
        let [host, device, date] = names.map(str::to_owned);
        vec![
            host,
            device,
            date,
            sums.requests.to_string(),
            sums.reads.to_string(),
            sums.writes.to_string(),
            data(sums.read_bytes.saturating_add(sums.write_bytes)),
            span(sums.span_ns.as_ns() as f64),
            number(sums.requests_per_s),
            data(sums.file_bytes),
        ]
    };
    let shown = |name: &Option<String>| name.clone().unwrap_or_else(|| ABSENT.to_owned());
    let mut rows: Vec<Vec<String>> = partitions
        .iter()
        .map(|of| row([&of.host, &of.device, &of.date].map(shown).each_ref().map(String::as_str), &of.sums))
        .collect();
    rows.push(row(["all", "", ""], total));
    let header = ["host", "device", "date", "requests", "reads", "writes", "data", "span", "per s", "file"];
    let traces = counted(total.traces, "trace", "traces");
    let head = format!("{catalog}: {traces} in {}", counted(partitions.len() as u64, "partition", "partitions"));
    Document {
        title: format!("Traces of {catalog}"),
        blocks: vec![
            Block::Lines(vec![head, "data: of reads and writes; span: of each trace, added up".to_owned()]),
            Block::Table(Table {
                title: "Requests by host, device and date".to_owned(),
                header: header.map(str::to_owned).to_vec(),
                rows,
                text_columns: 3,
            }),
        ],
        charts: Vec::new(),
        program: figures.program.clone(),
    }
}
