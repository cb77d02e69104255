//! `iocast validate drive`: a drive model's times compared with those of a real drive.

use std::io::{BufWriter, IntoInnerError, Write};
use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result};
use drive_models::calibration::Measurement;
use replay::measured::Judged;
use replay::sources::OneDevice;
use replay::{MeasuredError, Measurements};
use traces::results::drive::{Distance, DriveValidation};
use traces::spec::Spec;
use traces::trace::{ReadOptions, ThinkTime};
use traces::whole_file::WholeFile;
use traces::{TraceReader, formats};

use crate::arguments::ValidateDrive;
use crate::document::{Block, Document, present};
use crate::error::UsageError;
use crate::output::Table;
use crate::progress::Progress;
use crate::units::ABSENT;

pub fn run(arguments: &ValidateDrive) -> Result<()> {
    let report = arguments.report.planned()?;
    let spec: Spec = arguments.drive.parse().map_err(UsageError::from_display)?;
    drive_models::build(&spec).map_err(UsageError::from_display)?;
    let path = || arguments.input.display().to_string();
    let options = arguments.reading.options();
    let (measured, read_as) = read(arguments, &options)?;
    let mut judged = measured.and_then(|measured| measured.judge(&spec, read_as)).with_context(path)?;
    // Without --think-time, the reading for which the platter's phase fits better is chosen.
    if read_as.is_some() && options.think_time.is_none() && arguments.input != Path::new("-") {
        let options = ReadOptions { think_time: Some(ThinkTime::Before), ..options };
        let (measured, read_as) = read(arguments, &options)?;
        judged = judged.or_nearer(measured.and_then(|measured| measured.judge(&spec, read_as)).with_context(path)?);
    }
    if let Some(file) = &arguments.requests {
        write_requests(&judged, file).with_context(|| file.display().to_string())?;
    }
    present(&judged.result, &document(&judged.result), arguments.output_format, &report, Vec::new())
}

/// Reads the whole trace and judges the drive on it. The outer error is one of reading, the inner one of judging.
fn read(
    arguments: &ValidateDrive,
    options: &ReadOptions,
) -> Result<(Result<Measurements, MeasuredError>, Option<ThinkTime>)> {
    let mut reader = OneDevice::new(&arguments.input, formats::open(&arguments.input, options)?);
    let thinks = reader.meta().format == formats::OF_THINK_TIMES.name;
    let think_time = thinks.then(|| options.think_time.unwrap_or_default());
    let mut measured = Measurements::default();
    let bytes = std::fs::metadata(&arguments.input).map_or(0, |metadata| metadata.len());
    let progress = Progress::new("reading", bytes, 1);
    let counter = progress.counter(0);
    while let Some(record) = reader.next()? {
        counter.store(reader.position_bytes(), Ordering::Relaxed);
        if let Err(error) = measured.push(&record) {
            return Ok((Err(error), think_time));
        }
    }
    drop(progress);
    for (reason, count) in &reader.losses().skipped {
        eprintln!("iocast: warning: skipped {count}: {reason}");
    }
    Ok((Ok(measured), think_time))
}

/// Writes a line per request: the request, its measured time and the modelled times, in ns. The modelled times are
/// those of the closed loop and those on the measured time line (empty for a drive without a phase).
fn write_requests(judged: &Judged, path: &Path) -> Result<()> {
    let mut file = BufWriter::new(WholeFile::create(path)?);
    writeln!(file, "operation,lba,sectors,issued_ns,measured_ns,closed_loop_ns,time_line_ns")?;
    for (index, (measured, closed_loop)) in judged.measured.all().iter().zip(&judged.closed_loop).enumerate() {
        let Measurement { request, issued, service } = measured;
        let (lba, sectors) = (request.lba.sector(), request.sectors().count());
        let (issued, service, closed_loop) = (issued.as_ns(), service.as_ns(), closed_loop.as_ns());
        let time_line = judged.time_line.as_ref().map_or(String::new(), |times| times[index].as_ns().to_string());
        writeln!(file, "{},{lba},{sectors},{issued},{service},{closed_loop},{time_line}", request.operation)?;
    }
    file.into_inner().map_err(IntoInnerError::into_error)?.finish()?;
    Ok(())
}

/// A drive beside the measured times, as a document.
pub fn document(judged: &DriveValidation) -> Document {
    Document {
        title: format!("{} beside measured times", judged.drive),
        blocks: vec![
            Block::Sentence(in_short(judged)),
            Block::Table(closed_loop(judged)),
            Block::Table(per_request(judged)),
        ],
        charts: Vec::new(),
        program: traces::program_version(),
    }
}

/// How far off the model is.
fn in_short(judged: &DriveValidation) -> String {
    let [measured, model] = [judged.measured_mean_ns, judged.model_mean_ns].map(|mean| mean.as_ns() as f64);
    format!(
        "The model's mean service time is {} ms, the measured one {} ms; their distributions differ by {} of it (rms).",
        ms(model),
        ms(measured),
        share(judged.closed_loop.relative_rms)
    )
}

fn closed_loop(judged: &DriveValidation) -> Table {
    let mut rows = vec![
        row("mean, measured", &[ms(judged.measured_mean_ns.as_ns() as f64)]),
        row("mean, model", &[ms(judged.model_mean_ns.as_ns() as f64)]),
    ];
    let mut compare = |name: &str, distance: &Distance| {
        rows.push(row(name, &[ms(distance.rms_ns), share(distance.relative_rms)]));
    };
    compare("rms", &judged.closed_loop);
    if let Some(floor) = &judged.floor {
        compare("rms, floor", floor);
    }
    compare("rms, empirical", &judged.empirical.distance);
    let header = ["closed loop", "ms", "of the mean"].map(str::to_owned).to_vec();
    let title = format!("{} on {} requests", judged.drive, judged.requests);
    Table { title, header, rows, text_columns: 1 }
}

fn ms(ns: f64) -> String {
    format!("{:.3}", ns / 1e6)
}

fn share(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn per_request(judged: &DriveValidation) -> Table {
    let empirical = &judged.empirical;
    let mut rows = Vec::new();
    if let Some(one) = &judged.per_request {
        let within = [one.within_250us, one.within_250us_or_5pct, one.within_1ms, one.missed_rotations].map(share);
        rows.push([vec!["model".to_owned(), ms(one.mean_abs_error_ns)], within.to_vec()].concat());
    }
    let within = [empirical.within_250us, empirical.within_250us_or_5pct, empirical.within_1ms].map(share);
    let cells =
        [vec!["empirical".to_owned(), ms(empirical.mean_abs_error_ns)], within.to_vec(), vec![ABSENT.to_owned()]];
    rows.push(cells.concat());
    let header = ["per request", "mean error, ms", "250 µs", "or 5 % of the mean", "1 ms", "half a turn off"];
    let title = judged.per_request.map_or("The drive has no phase to fit".to_owned(), |one| {
        let think_time = match judged.think_time {
            Some(ThinkTime::After) => ", think time after each request",
            Some(ThinkTime::Before) => ", think time before each request",
            None => "",
        };
        format!(
            "On the measured time line{think_time}: rotation period {:.3} µs, phase {:.1} µs",
            one.period_ns / 1e3,
            one.offset_ns / 1e3
        )
    });
    Table { title, header: header.map(str::to_owned).to_vec(), rows, text_columns: 1 }
}

fn row(name: &str, cells: &[String]) -> Vec<String> {
    let mut row = vec![name.to_owned()];
    row.extend_from_slice(cells);
    row.resize(3, ABSENT.to_owned());
    row
}
