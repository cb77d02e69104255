//! `iocast calibrate`: measures the read times of a device, a file, a trace or a drive model, fits drive models to
//! them, and writes the models' profiles and a picture. `iocast calibrate qpn` calibrates predictors instead (`qpn.rs`).

pub mod device;
pub mod drive_cache;
mod qpn;
mod render;
mod target;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Context, Result};
use drive_models::calibration::linear::Smoothed;
use drive_models::calibration::{
    CalibrationReads, DeviceError, FITS, FitError, FitEvidence, FittedModel, GENERATOR, MeasuredDevice, Measurement,
    ModelFit, RandomReads, dependence, goodness,
};
use drive_models::{Profile, build_profile};
use report::CalibrationFigure;
use traces::results::SCHEMA_VERSION;
use traces::results::calibration::{Calibration, FitResult, Goodness};
use traces::spec::did_you_mean;
use traces::{Lba, Sectors, Timestamp};

use crate::arguments::{Calibrate, CalibratePredictor};
use crate::error::{Interrupted, UsageError};
use crate::files::Files;
use crate::output;
use crate::output_format::OutputFormat;
use crate::picture;
use crate::progress::Progress;
use target::{Source, Target};

pub fn run(arguments: &Calibrate) -> Result<()> {
    if let Some(CalibratePredictor::Qpn(arguments)) = &arguments.predictor {
        return qpn::run(arguments);
    }
    let rows = rows(&arguments.models)?;
    let source = Source::of(arguments)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        if matches!(source, Source::Device(_)) {
            signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot watch for interrupts")?;
        }
    }
    let files = planned(arguments, &source, &rows)?;
    let result = calibrate(arguments, &source, &rows, &files, &stop);
    // After an interrupt, any failure is a consequence of it.
    let calibration = if stop.load(Ordering::Relaxed) { result.map_err(|_| Interrupted)? } else { result? };
    match arguments.output_format {
        OutputFormat::Json => output::print_json(&calibration),
        format => output::print(&render::render(&calibration, format)),
    }
}

/// The files to write: a profile for each model, and the picture.
fn planned(arguments: &Calibrate, source: &Source, rows: &[&ModelFit]) -> Result<Files> {
    let stem = arguments.output.clone().unwrap_or_else(|| PathBuf::from(source.stem()));
    let endings = rows.iter().map(|row| profile(row.name)).chain([".svg", ".png"].map(str::to_owned));
    Files::planned(stem, arguments.force, &endings.collect::<Vec<String>>(), &[])
}

/// The ending of a model's profile.
fn profile(model: &str) -> String {
    format!("-{model}.toml")
}

/// The requested rows of the table of fits.
fn rows(models: &str) -> Result<Vec<&'static ModelFit>> {
    if models == "all" {
        return Ok(FITS.iter().collect());
    }
    let find = |name: &str| {
        let names: Vec<&str> = FITS.iter().map(|row| row.name).collect();
        let row = FITS.iter().find(|row| row.name == name);
        row.ok_or_else(|| {
            let hint = did_you_mean(name, names.iter().copied());
            UsageError(format!("`{name}` is no model that can be fitted; choose among {}{hint}", names.join(", ")))
                .into()
        })
    };
    let mut rows: Vec<&'static ModelFit> = models.split(',').map(find).collect::<Result<_>>()?;
    // Each row once, in the order of the table.
    rows.sort_by_key(|row| FITS.iter().position(|other| other.name == row.name));
    rows.dedup_by_key(|row| row.name);
    Ok(rows)
}

fn calibrate(
    arguments: &Calibrate,
    source: &Source,
    rows: &[&'static ModelFit],
    files: &Files,
    stop: &Arc<AtomicBool>,
) -> Result<Calibration> {
    let mut target = source.open(arguments, stop)?;
    for line in &target.about {
        note!("iocast: {line}");
    }
    let reads = measure(arguments, source, &mut target)?;
    let measured = dependence(&reads, arguments.seed);
    let capacity = arguments.capacity.or(target.capacity()).unwrap_or_else(|| reads.furthest());
    if capacity < reads.furthest() {
        let error =
            format!("--capacity is {} sectors, but reads reach sector {}", capacity.count(), reads.furthest().count());
        return Err(UsageError(error).into());
    }
    let evidence = FitEvidence {
        reads: &reads,
        capacity,
        origin: &target.origin,
        depends_on_distance: measured.depends_on_distance,
        force_linear: arguments.force_linear,
        heads: arguments.heads,
        seed: arguments.seed,
    };
    let mut written = Vec::new();
    let mut fits = Vec::new();
    for row in rows {
        let progress = Progress::probes(row.name);
        let mut watched = target.device.as_deref_mut().map(|device| Watched { device, done: progress.counter(0) });
        let fitted = (row.fit)(&evidence, watched.as_mut().map(|device| device as &mut dyn MeasuredDevice));
        fits.push(match fitted {
            Ok(fitted) => judged(row, &fitted, &evidence, files, &mut written)?,
            Err(FitError::NotFitted(why)) => unfitted(row, why),
            Err(FitError::Device(error)) => return Err(error).with_context(|| source.name()),
        });
    }
    let has_line = fits.iter().any(|fit| fit.model == "linear" && fit.goodness.is_some());
    let smoothed = Smoothed::new(reads.half(true));
    let line = smoothed.line();
    let figure = CalibrationFigure {
        title: &format!("reads of {}", target.origin),
        points: &smoothed.points,
        means_ns: &smoothed.means_ns,
        line: has_line.then_some((line.at_zero_ns, line.ns_per_sector)),
        capacity,
    };
    picture::write(files, &figure, arguments.picture_size, &mut written)?;
    Ok(Calibration {
        schema_version: SCHEMA_VERSION,
        version: traces::VERSION.to_owned(),
        source: source.origin(),
        device: target.about,
        capacity_sectors: capacity,
        requests: reads.seen,
        reads: reads.points.len() as u64,
        seed: arguments.seed,
        generator: GENERATOR.to_owned(),
        dependence: measured,
        fits,
        files: written,
        notes: target.notes,
    })
}

fn measure(arguments: &Calibrate, source: &Source, target: &mut Target) -> Result<CalibrationReads> {
    let Some(device) = target.device.as_deref_mut() else {
        let (reads, notes) = target::read_trace(arguments, source)?;
        target.notes.extend(notes);
        return Ok(reads);
    };
    let progress = Progress::reads("random reads", arguments.reads + 1);
    let mut watched = Watched { device, done: progress.counter(0) };
    RandomReads { reads: arguments.reads, seed: arguments.seed }.measure(&mut watched).with_context(|| source.name())
}

/// Judges the fitted profile on the other half of the reads, and writes it.
fn judged(
    row: &ModelFit,
    fitted: &FittedModel,
    evidence: &FitEvidence,
    files: &Files,
    written: &mut Vec<String>,
) -> Result<FitResult> {
    let draft = match Profile::parse(row.name, &fitted.profile.render("not yet")) {
        Ok(draft) => draft,
        Err(error) => return Ok(unfitted(row, format!("the fitted parameters contradict each other ({error})"))),
    };
    let goodness = goodness(evidence.reads, &mut *build_profile(draft)?.drive);
    let text = fitted.profile.render(&validation(&goodness, evidence.origin, evidence.seed));
    files.write(&profile(row.name), text.as_bytes(), written)?;
    Ok(FitResult {
        model: row.name.to_owned(),
        summary: row.summary.to_owned(),
        not_fitted: None,
        parameters: fitted.parameters.clone(),
        goodness: Some(goodness),
        notes: fitted.notes.clone(),
    })
}

/// The text of a profile on how it was validated.
fn validation(goodness: &Goodness, origin: &str, seed: u64) -> String {
    format!(
        "on {} held-out reads of {origin}: explains {:.1} % of the variance, mean absolute error {}, distribution rms \
         {:.2} % of the mean (iocast {} calibrate, {GENERATOR} seed {seed})",
        goodness.reads,
        goodness.r_squared * 100.0,
        render::span(goodness.mean_abs_error_ns),
        goodness.distribution.relative_rms * 100.0,
        traces::VERSION
    )
}

fn unfitted(row: &ModelFit, why: String) -> FitResult {
    FitResult {
        model: row.name.to_owned(),
        summary: row.summary.to_owned(),
        not_fitted: Some(why),
        parameters: Vec::new(),
        goodness: None,
        notes: Vec::new(),
    }
}

/// A device whose reads are counted.
struct Watched<'d> {
    device: &'d mut dyn MeasuredDevice,
    done: Arc<AtomicU64>,
}

impl MeasuredDevice for Watched<'_> {
    fn capacity(&self) -> Sectors {
        self.device.capacity()
    }

    fn granule(&self) -> Sectors {
        self.device.granule()
    }

    fn now(&self) -> Timestamp {
        self.device.now()
    }

    fn read(&mut self, at: Timestamp, lba: Lba, sectors: Sectors) -> Result<Measurement, DeviceError> {
        self.done.fetch_add(1, Ordering::Relaxed);
        self.device.read(at, lba, sectors)
    }
}
