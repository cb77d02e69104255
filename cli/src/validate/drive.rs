//! `iocast validate drive`: a drive model against the times that a real drive took.

use anyhow::{Context, Result};
use replay::{MeasuredError, Measurements};
use traces::formats;
use traces::results::drive::{Distance, DriveValidation};
use traces::spec::Spec;

use crate::arguments::{OutputFormat, UsageError, ValidateDrive};
use crate::one_device::OneDevice;
use crate::output::{Table, print, print_json};

pub fn run(arguments: &ValidateDrive) -> Result<()> {
    let spec: Spec = arguments.drive.parse().map_err(UsageError::from_display)?;
    drive_models::build(&spec).map_err(UsageError::from_display)?;
    let path = || arguments.input.display().to_string();
    let reader = formats::open(&arguments.input, &arguments.reading.options())?;
    let judged = read(OneDevice::new(&arguments.input, reader))?
        .and_then(|measured| measured.judge(&spec))
        .with_context(path)?;
    match arguments.output_format {
        OutputFormat::Json => print_json(&judged),
        format => print(&render(&judged, format)),
    }
}

/// All of a trace; what it cannot give and what cannot be judged are errors of two kinds.
fn read(mut reader: OneDevice) -> Result<Result<Measurements, MeasuredError>> {
    use traces::TraceReader;
    let mut measured = Measurements::default();
    while let Some(record) = reader.next()? {
        if let Err(error) = measured.push(&record) {
            return Ok(Err(error));
        }
    }
    for (reason, count) in &reader.losses().skipped {
        eprintln!("iocast: warning: skipped {count}: {reason}");
    }
    Ok(Ok(measured))
}

fn render(judged: &DriveValidation, format: OutputFormat) -> String {
    let ms = |ns: f64| format!("{:.3}", ns / 1e6);
    let share = |share: f64| format!("{:.1} %", share * 100.0);
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
    let mut text = Table { title, header, rows, text_columns: 1 }.render(format);
    let empirical = &judged.empirical;
    let mut rows = Vec::new();
    if let Some(one) = &judged.per_request {
        let within = [one.within_250us, one.within_250us_or_5pct, one.within_1ms, one.missed_rotations].map(share);
        rows.push([vec!["model".to_owned(), ms(one.mean_abs_error_ns)], within.to_vec()].concat());
    }
    let within = [empirical.within_250us, empirical.within_250us_or_5pct, empirical.within_1ms].map(share);
    let cells = [vec!["empirical".to_owned(), ms(empirical.mean_abs_error_ns)], within.to_vec(), vec!["-".to_owned()]];
    rows.push(cells.concat());
    let header = ["per request", "mean error, ms", "250 us", "or 5 % of the mean", "1 ms", "half a turn off"];
    let title = judged.per_request.map_or("No phase to fit".to_owned(), |one| {
        format!(
            "On the measured time line: a turn of {:.3} us, {:.1} us into it",
            one.period_ns / 1e3,
            one.offset_ns / 1e3
        )
    });
    text.push('\n');
    text.push_str(&Table { title, header: header.map(str::to_owned).to_vec(), rows, text_columns: 1 }.render(format));
    text
}

fn row(name: &str, cells: &[String]) -> Vec<String> {
    let mut row = vec![name.to_owned()];
    row.extend_from_slice(cells);
    row.resize(3, "-".to_owned());
    row
}
