//! `iocast calibrate qpn`: the predictors `qpn` and `qpn-refined` from captures of a storage at several thread counts.

use anyhow::{Result, ensure};
use predictors::qpn::mixes::MeasuredMix;
use predictors::qpn::storage::{Storage, service_of_responses};
use traces::origin::without_folders;
use traces::results::SCHEMA_VERSION;
use traces::results::calibration::{QpnCalibration, ThreadPoint};
use traces::results::isolation::{IsolatedOperation, IsolationProfile};

use crate::arguments::CalibrateQpn;
use crate::error::UsageError;
use crate::files::Files;
use crate::output::{self, Table, sentence, written};
use crate::output_format::OutputFormat;
use crate::predict::profiles::{self, DiskPlace, Window};
use crate::progress::Progress;
use crate::units::{ABSENT, span};

/// The predictors that are calibrated.
const NAMES: [&str; 2] = ["qpn", "qpn-refined"];

/// Threads that never think keep this share of their number at the device, or it is said that they do not.
const AT_DEVICE_MIN: f64 = 0.9;

/// The most threads of a kind, as a predictor's tunable takes them.
const THREADS_MAX: u64 = 1_000_000;

/// A capture on the command line.
struct Capture<'a> {
    /// Reading and writing threads, where they are given.
    threads: Option<[u64; 2]>,
    path: &'a str,
}

pub fn run(arguments: &CalibrateQpn) -> Result<()> {
    arguments.span.check()?;
    let captures =
        arguments.captures.iter().map(|text| parse(text)).collect::<Result<Vec<Capture<'_>>, UsageError>>()?;
    let endings = NAMES.map(|name| format!("-{name}.txt"));
    let planned = |stem: &std::path::PathBuf| Files::planned(stem.clone(), arguments.force, &endings, &[]);
    let files = arguments.output.as_ref().map(planned).transpose()?;
    let mut calibration = calibrate(&points(&captures, arguments)?)?;
    if let Some(files) = files {
        for (ending, predictor) in endings.iter().zip(&calibration.predictors) {
            files.write(ending, format!("{predictor}\n").as_bytes(), &mut calibration.files)?;
        }
    }
    match arguments.output_format {
        OutputFormat::Json => output::print_json(&calibration),
        format => output::print(&render(&calibration, format)),
    }
}

fn parse(text: &str) -> Result<Capture<'_>, UsageError> {
    let Some((threads, path)) = text.split_once('=').filter(|_| !std::path::Path::new(text).exists()) else {
        return Ok(Capture { threads: None, path: text });
    };
    let counts: Option<Vec<u64>> = threads.split('/').map(|count| count.parse().ok()).collect();
    match counts.as_deref() {
        Some(&[reads, writes]) if (1..=THREADS_MAX).contains(&reads.max(writes)) => {
            Ok(Capture { threads: Some([reads, writes]), path })
        }
        _ => Err(UsageError(format!(
            "{text}: `{threads}` is not READERS/WRITERS, the numbers of reading and writing threads, such as \
             10/0=reads.parquet"
        ))),
    }
}

/// A capture that was measured.
struct Measured {
    capture: String,
    threads: [u64; 2],
    operations: [IsolatedOperation; 2],
}

/// Measures the captures.
fn points(captures: &[Capture<'_>], arguments: &CalibrateQpn) -> Result<Vec<Measured>> {
    let sizes = captures.iter().filter_map(|capture| Some(std::fs::metadata(capture.path).ok()?.len()));
    let progress = Progress::new("measuring", sizes.sum(), captures.len());
    let options = arguments.reading.options();
    let window = Window { start: arguments.span.start, end: arguments.span.end, names: "--start and --end" };
    let measure = |(nth, capture): (usize, &Capture<'_>)| -> Result<Measured> {
        let path = std::path::Path::new(capture.path);
        let is_profile = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
        let profile = if is_profile {
            profiles::read(path)?
        } else {
            let counter = progress.counter(nth);
            profiles::measure(capture.path, path, &options, window, DiskPlace::default(), &counter)?.0
        };
        of_profile(capture, profile)
    };
    captures.iter().enumerate().map(measure).collect()
}

/// A profile with its thread counts: as given, or the mean numbers of requests at the device.
fn of_profile(capture: &Capture<'_>, profile: IsolationProfile) -> Result<Measured> {
    let operations = [profile.reads, profile.writes];
    let at_device = |kind: usize| at_device(&operations[kind]);
    let threads = capture.threads.unwrap_or_else(|| {
        [0, 1].map(|kind| if operations[kind].iops > 0.0 { at_device(kind).round().max(1.0) as u64 } else { 0 })
    });
    for (kind, name) in ["reading", "writing"].into_iter().enumerate() {
        let has_requests = operations[kind].iops > 0.0 && operations[kind].response_ns.is_some_and(|ns| ns >= 1.0);
        ensure!(
            has_requests == (threads[kind] > 0),
            "{}: {} {name} threads, and the capture has {} such requests per second",
            capture.path,
            threads[kind],
            operations[kind].iops
        );
    }
    Ok(Measured { capture: without_folders(capture.path).to_owned(), threads, operations })
}

/// Mean number of requests at the device, by Little's law.
fn at_device(operation: &IsolatedOperation) -> f64 {
    operation.iops * operation.response_ns.unwrap_or(0.0) / 1e9
}

fn calibrate(measured: &[Measured]) -> Result<QpnCalibration> {
    let mut points: Vec<ThreadPoint> = Vec::new();
    let mut notes = Vec::new();
    let mut counts: Vec<[u64; 2]> = measured.iter().map(|measured| measured.threads).collect();
    counts.sort_unstable();
    counts.dedup();
    for threads in counts {
        let here: Vec<&Measured> = measured.iter().filter(|measured| measured.threads == threads).collect();
        points.push(point(threads, &here));
        notes.extend(here.iter().filter_map(|measured| idle(measured)));
    }
    let alone = |kind: usize| -> Vec<(f64, f64)> {
        let of_kind = points.iter().filter(|point| point.threads[1 - kind] == 0);
        of_kind.filter_map(|point| Some((point.threads[kind] as f64, point.responses_ns[kind]? / 1e9))).collect()
    };
    let mut service = [0.0; 2];
    for (kind, name) in ["reading", "writing"].into_iter().enumerate() {
        let points = alone(kind);
        ensure!(
            !points.is_empty(),
            UsageError(format!("no capture has {name} threads alone; the service time comes from them"))
        );
        let Some(found) = service_of_responses(&points) else {
            anyhow::bail!(
                "response times of {name} threads alone do not grow with their number, so that they have no service \
                 time in common; capture more threads, which wait for one another"
            );
        };
        service[kind] = found;
    }
    let mixes: Vec<MeasuredMix> = points.iter().filter_map(mix).collect();
    ensure!(
        !mixes.is_empty(),
        UsageError("no capture has reading and writing threads; the weights come from them".to_owned())
    );
    let published = Storage::published(service, [1.0; 2], &mixes);
    let refined = Storage::refined(service, [1.0; 2], &mixes);
    for point in &mut points {
        let Some(own) = mix(point) else { continue };
        point.published_errors = Some(errors(&published, &own));
        let others: Vec<MeasuredMix> = mixes.iter().copied().filter(|other| *other != own).collect();
        let without = Storage::refined(service, [1.0; 2], &others).ok();
        point.refined_errors = without.map(|storage| errors(&storage, &own));
    }
    let tunables = tunables(&points);
    let mut predictors = vec![format!("{}:{tunables}", NAMES[0])];
    match refined {
        Ok(_) => predictors.push(format!("{}:{tunables}", NAMES[1])),
        Err(needs) => notes.push(format!("qpn-refined is not calibrated: it needs {needs}")),
    }
    Ok(QpnCalibration {
        schema_version: SCHEMA_VERSION,
        program: traces::program_version(),
        points,
        service_ns: service.map(|seconds| seconds * 1e9),
        predictors,
        files: Vec::new(),
        notes,
    })
}

/// Captures of the same thread counts as one, weighted by their requests.
fn point(threads: [u64; 2], here: &[&Measured]) -> ThreadPoint {
    let mean = |kind: usize, of: &dyn Fn(&IsolatedOperation) -> Option<f64>| {
        let values = || {
            here.iter().filter_map(|measured| {
                Some((measured.operations[kind].requests as f64, of(&measured.operations[kind])?))
            })
        };
        let weight: f64 = values().map(|(requests, _)| requests.max(1.0)).sum();
        (weight > 0.0 && threads[kind] > 0)
            .then(|| values().map(|(requests, value)| requests.max(1.0) * value).sum::<f64>() / weight)
    };
    ThreadPoint {
        captures: here.iter().map(|measured| measured.capture.clone()).collect(),
        threads,
        responses_ns: [0, 1].map(|kind| mean(kind, &|operation| operation.response_ns)),
        deviations_ns: [0, 1].map(|kind| mean(kind, &|operation| operation.response_variance_ns2).map(f64::sqrt)),
        published_errors: None,
        refined_errors: None,
    }
}

/// What to say of threads that are not always at the device.
fn idle(measured: &Measured) -> Option<String> {
    let listed = ["reading", "writing"].into_iter().enumerate().filter_map(|(kind, name)| {
        let (threads, found) = (measured.threads[kind] as f64, at_device(&measured.operations[kind]));
        (found < AT_DEVICE_MIN * threads).then(|| format!("{found:.1} of {threads} {name} threads"))
    });
    let listed: Vec<String> = listed.collect();
    (!listed.is_empty()).then(|| {
        format!(
            "{}: on average {} have a request at the device; the models take threads that never think, so the others \
             should wait before the device",
            measured.capture,
            listed.join(" and ")
        )
    })
}

/// The point as a mix, if both kinds have threads.
fn mix(point: &ThreadPoint) -> Option<MeasuredMix> {
    let [reads, writes] = point.responses_ns;
    let responses = [reads? / 1e9, writes? / 1e9];
    Some(MeasuredMix { threads: point.threads.map(|threads| threads as f64), responses })
}

/// Relative errors of a model for a mix.
fn errors(storage: &Storage, mix: &MeasuredMix) -> [f64; 2] {
    let forecast = storage.responses(mix.threads);
    [0, 1].map(|kind| forecast[kind].unwrap_or(f64::NAN) / mix.responses[kind] - 1.0)
}

/// The tunables of both predictors.
fn tunables(points: &[ThreadPoint]) -> String {
    // From a millisecond on, whole microseconds are exact enough and shorter.
    let time = |ns: f64| match ns {
        1e6.. => format!("{:.0}us", ns / 1e3),
        _ => format!("{:.0}ns", ns.max(1.0)),
    };
    let mut tunables = Vec::new();
    for (kind, name) in ["read", "write"].into_iter().enumerate() {
        let alone = || points.iter().filter(|point| point.threads[1 - kind] == 0);
        let one = alone().find(|point| point.threads[kind] == 1);
        tunables
            .extend(one.and_then(|point| point.deviations_ns[kind]).map(|ns| format!("{name}_deviation={}", time(ns))));
        let of = |point: &ThreadPoint| Some(format!("{}x{}", point.threads[kind], time(point.responses_ns[kind]?)));
        let responses: Vec<String> = alone().filter_map(of).collect();
        tunables.push(format!("{name}_responses={}", responses.join("+")));
    }
    let of = |point: &ThreadPoint| {
        let [reads, writes] = point.responses_ns;
        Some(format!("{}/{}x{}/{}", point.threads[0], point.threads[1], time(reads?), time(writes?)))
    };
    let mixed: Vec<String> = points.iter().filter_map(of).collect();
    tunables.push(format!("mixed_responses={}", mixed.join("+")));
    tunables.join(",")
}

fn render(calibration: &QpnCalibration, format: OutputFormat) -> String {
    let shown = |ns: Option<f64>| ns.map_or_else(|| ABSENT.to_owned(), span);
    let percent =
        |error: Option<f64>| error.map_or_else(|| ABSENT.to_owned(), |error| format!("{:+.1} %", 100.0 * error));
    let row = |point: &ThreadPoint| {
        let errors = [point.published_errors, point.refined_errors];
        let mut row = vec![point.captures.join(", ")];
        row.extend(point.threads.map(|threads| threads.to_string()));
        row.extend(point.responses_ns.map(shown));
        row.extend(errors.iter().flat_map(|errors| [0, 1].map(|kind| percent(errors.map(|errors| errors[kind])))));
        row
    };
    let header = ["capture", "readers", "writers", "read", "write", "qpn: read", "write", "refined: read", "write"];
    let table = Table {
        title: "Mean response times, and how far the models are from them; the refined one without the mix itself"
            .to_owned(),
        header: header.map(str::to_owned).into(),
        rows: calibration.points.iter().map(row).collect(),
        text_columns: 1,
    };
    let [reads, writes] = calibration.service_ns.map(span);
    let mut text = vec![
        table.render(format),
        sentence(&format!("A read takes {reads} and a write {writes} of the storage's time."), format),
    ];
    text.extend(calibration.notes.iter().map(|note| sentence(&format!("Note: {note}."), format)));
    let command = |predictor: &String| sentence(&format!("iocast predict … --predictors '{predictor}'"), format);
    if calibration.files.is_empty() {
        text.extend(calibration.predictors.iter().map(command));
    }
    text.push(written(&calibration.files, format));
    text.join("\n")
}
