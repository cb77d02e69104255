//! `iocast stat` of histograms by second and VM (`iocast capture block --histograms`).

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, ensure};
use traces::histograms::{files, is_named_like_one, recognises, summarise};
use traces::input::look_at;
use traces::results::histograms::{BusySecond, HistogramDevice, HistogramFigures, HistogramStatistics, HistogramVm};
use traces::trace::ReadOptions;

use crate::arguments::Stat;
use crate::document::{Block, Document, present};
use crate::error::UsageError;
use crate::output::{Table, date, number};
use crate::progress::Progress;
use crate::units::{ABSENT, data, percentile, span};

/// The percentiles that are printed.
const PRINTED: [&str; 3] = ["p50", "p95", "p99"];

/// The files of the input if it is of histograms: by its name, or by how it begins.
///
/// # Errors
/// It is named like one, and there is no file.
pub fn inputs(arguments: &Stat) -> Result<Option<Vec<PathBuf>>> {
    let path = &arguments.input;
    let is_asked_for = arguments.reading.input_format.is_none();
    let begins_like_one = |path: &Path| look_at(path).is_ok_and(|head| recognises(&head));
    if !is_asked_for || !(is_named_like_one(path) || begins_like_one(path)) {
        return Ok(None);
    }
    let found = files(path)?;
    ensure!(!found.is_empty(), "{}", missing(path));
    Ok(Some(found))
}

/// The message if there is neither the file nor a piece of it, with names that are like its name.
fn missing(path: &Path) -> anyhow::Error {
    match look_at(path) {
        Err(error) => error.into(),
        Ok(_) => anyhow!("{}: there is no such file", path.display()),
    }
}

/// Prints the summary of the files.
pub fn run(arguments: &Stat, files: &[PathBuf]) -> Result<()> {
    refuse_what_has_no_effect(arguments)?;
    let report = arguments.report.planned(arguments.force)?;
    let bytes = files.iter().filter_map(|file| Some(std::fs::metadata(file).ok()?.len())).sum();
    let progress = Progress::new("reading", bytes, 1);
    let counter = progress.counter(0);
    let figures = summarise(files, arguments.reading.lenient, arguments.top, &counter)?;
    drop(progress);
    present(&figures, &document(&figures, arguments.top), arguments.output_format, &report, Vec::new())?;
    warn(&figures);
    Ok(())
}

/// Refuses options that are for traces of requests.
///
/// # Errors
/// One that is given.
pub fn refuse_what_has_no_effect(arguments: &Stat) -> Result<(), UsageError> {
    let of_reading = ReadOptions { lenient: false, ..arguments.reading.options() } != ReadOptions::default();
    match without_effect(arguments, of_reading) {
        None => Ok(()),
        Some(what) => Err(UsageError(format!("{what} has no effect on histograms, which hold no requests"))),
    }
}

/// An option that is for single requests, if one is given; whether one `of_reading` is, the caller knows.
pub fn without_effect(arguments: &Stat, of_reading: bool) -> Option<&'static str> {
    let Stat { series, history, digest, window, .. } = arguments;
    let is_whole = window.span.start.as_ns() == 0 && window.span.end.is_none() && window.limit.is_none();
    let given = [
        (series.is_some(), "--series"),
        (*digest, "--digest"),
        (*history, "--history"),
        (!is_whole, "--start, --end and --limit"),
        (of_reading, "an option of how traces are read, except --lenient,"),
    ];
    given.iter().find(|(is_given, _)| *is_given).map(|(_, what)| *what)
}

/// Warns of what the figures lack.
pub fn warn(figures: &HistogramStatistics) {
    if figures.lines == 0 {
        eprintln!("iocast: warning: no complete line was read");
    }
    if figures.cut_lines > 0 {
        eprintln!("iocast: warning: {} last lines were cut short: a capture was killed", figures.cut_lines);
    }
    for (reason, count) in &figures.skipped_lines {
        eprintln!("iocast: warning: {count} lines skipped: {reason}");
    }
    if figures.lost_events > 0 {
        eprintln!("iocast: warning: the capture lost {} events", figures.lost_events);
    }
}

/// The summary as a document.
pub fn document(figures: &HistogramStatistics, top: usize) -> Document {
    let tables = [Some(times(figures)), Some(devices(figures)), busiest(figures, top), unmatched(figures)];
    let files = match figures.files.as_slice() {
        [] => figures.devices.iter().map(|of| of.device.as_str()).collect::<Vec<&str>>().join(", "),
        [only] => only.clone(),
        several => format!("{} files from {}", several.len(), several.first().map_or("", String::as_str)),
    };
    let head = [
        format!("{files}: histograms by second and VM, {} lines", figures.lines),
        format!(
            "D2C is the time from the issue to the device to the completion; percentiles are within {:.1} %, mean and \
             max exact",
            figures.error_share * 100.0
        ),
    ];
    let tables = tables.into_iter().flatten().map(Block::Table);
    Document {
        title: format!("{files} by second and VM"),
        blocks: std::iter::once(Block::Lines(head.into())).chain(tables).collect(),
        charts: Vec::new(),
        program: figures.program.clone(),
    }
}

fn table(title: String, header: &[&str], text_columns: usize, rows: Vec<Vec<String>>) -> Table {
    Table { title, header: header.iter().map(|name| (*name).to_owned()).collect(), rows, text_columns }
}

/// The name of a VM, with its device if it is another name.
fn name(vm: &str, device: &str) -> String {
    if vm == device { vm.to_owned() } else { format!("{vm} on {device}") }
}

fn times(figures: &HistogramStatistics) -> Table {
    let row = |vm: &HistogramVm, operation: &str, of: &HistogramFigures| {
        let percentiles = PRINTED.map(|name| percentile(&of.d2c_percentiles_ns, of.requests, name));
        [
            vec![name(&vm.vm, &vm.device), operation.to_owned(), of.requests.to_string(), number(Some(of.iops))],
            vec![number(Some(of.bytes_per_s / 1e6)), mean_size(of), span(of.d2c_mean_ns)],
            percentiles.to_vec(),
            vec![span(of.d2c_max_ns as f64)],
        ]
        .concat()
    };
    let mut rows = Vec::new();
    for vm in &figures.vms {
        for operation in ["read", "write", "discard", "flush"] {
            rows.extend(vm.operations.get(operation).map(|of| row(vm, operation, of)));
        }
    }
    let header = ["VM", "", "requests", "per s", "MB/s", "mean size", "D2C mean", "p50", "p95", "p99", "max"];
    table("Requests by VM, and D2C".to_owned(), &header, 2, rows)
}

fn mean_size(of: &HistogramFigures) -> String {
    if of.bytes == 0 { ABSENT.to_owned() } else { data(of.bytes / of.requests.max(1)) }
}

fn devices(figures: &HistogramStatistics) -> Table {
    let row = |of: &HistogramDevice| {
        vec![
            of.device.clone(),
            date(of.start_unix_ns),
            span(of.captured_ns as f64),
            number(Some(of.in_flight_mean)),
            of.in_flight_max.to_string(),
            of.passed_through.to_string(),
        ]
    };
    let header = ["device", "from", "captured", "in flight, mean", "max", "passed through"];
    table("Devices".to_owned(), &header, 2, figures.devices.iter().map(row).collect())
}

fn busiest(figures: &HistogramStatistics, top: usize) -> Option<Table> {
    let row = |of: &BusySecond| {
        let per_s = |amount: u64| number(Some(amount as f64 * 1e9 / of.length_ns as f64));
        vec![
            date(of.start_unix_ns),
            name(&of.vm, &of.device),
            of.requests.to_string(),
            per_s(of.requests),
            number(Some(of.bytes as f64 * 1e3 / of.length_ns as f64)),
            number(Some(of.device_in_flight_mean)),
            span(of.d2c_p99_ns as f64),
        ]
    };
    let rows: Vec<Vec<String>> = figures.busiest.iter().map(row).collect();
    let header = ["second", "VM", "requests", "per s", "MB/s", "in flight", "D2C p99"];
    (!rows.is_empty()).then(|| table(format!("Busiest seconds: the first {}", rows.len().min(top)), &header, 2, rows))
}

fn unmatched(figures: &HistogramStatistics) -> Option<Table> {
    let mut rows: Vec<Vec<String>> =
        figures.unmatched.iter().map(|(kind, count)| vec![kind.clone(), count.to_string()]).collect();
    if figures.lost_events > 0 {
        rows.push(vec!["lost by the capture".to_owned(), figures.lost_events.to_string()]);
    }
    let skipped = figures.skipped_events.iter();
    rows.extend(skipped.map(|(reason, count)| vec![format!("skipped: {reason}"), count.to_string()]));
    (!rows.is_empty()).then(|| table("Unmatched, lost and skipped events".to_owned(), &["", "n"], 1, rows))
}
