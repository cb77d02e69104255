//! The target of a calibration: a device or file, a trace, or a drive model on a simulated clock.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use drive_models::calibration::{CalibrationReads, MeasuredDevice, SimulatedDevice, TraceReads};
use replay::sources::OneDevice;
use traces::origin::without_folders;
use traces::spec::Spec;
use traces::{Sectors, TraceReader, formats};

use super::device::FileDevice;
use super::drive_cache::{BlockDevice, CacheOff};
use crate::arguments::{Calibrate, DriveCache};
use crate::error::UsageError;
use crate::progress::Progress;

/// The target as the command line names it.
pub enum Source {
    Device(PathBuf),
    Trace(PathBuf),
    Model(Spec),
}

/// The target, ready to be measured.
pub struct Target {
    /// Its name where a profile states the source of its numbers.
    pub origin: String,
    /// The device to measure; `None` for a trace, which cannot be measured further.
    pub device: Option<Box<dyn MeasuredDevice>>,
    /// The operating system's description of it.
    pub about: Vec<String>,
    /// Notes for the reader of the figures.
    pub notes: Vec<String>,
    /// Restores the drive's cache when it is dropped.
    _cache: Option<CacheOff>,
}

impl Source {
    pub fn of(arguments: &Calibrate) -> Result<Source> {
        let source = match (&arguments.input, &arguments.reading.device, &arguments.drive) {
            (Some(trace), _, None) => Source::Trace(trace.clone()),
            (None, Some(device), None) => Source::Device(PathBuf::from(device)),
            (None, None, Some(drive)) => Source::Model(drive.parse().map_err(UsageError::from_display)?),
            _ => {
                let error =
                    "give one of: --device PATH (a block device or a file), a trace, or --drive PROFILE (a model)";
                return Err(UsageError(error.to_owned()).into());
            }
        };
        if arguments.drive_cache == DriveCache::Off && !matches!(source, Source::Device(_)) {
            return Err(UsageError("--drive-cache applies to a --device only".to_owned()).into());
        }
        Ok(source)
    }

    /// Its name as the user gave it.
    pub fn name(&self) -> String {
        match self {
            Source::Device(path) | Source::Trace(path) => path.display().to_string(),
            Source::Model(spec) => spec.to_string(),
        }
    }

    /// Its name in a result: without the folders of an absolute path.
    pub fn origin(&self) -> String {
        match self {
            Source::Device(path) | Source::Trace(path) => without_folders(&path.to_string_lossy()).to_owned(),
            Source::Model(spec) => spec.without_folders().to_string(),
        }
    }

    /// The beginning of the names of its files.
    pub fn stem(&self) -> String {
        let of_path = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let stem = match self {
            Source::Device(path) | Source::Trace(path) => of_path(path),
            Source::Model(spec) => of_path(Path::new(&spec.name)),
        };
        stem.filter(|stem| stem != "-").unwrap_or_else(|| "calibration".to_owned())
    }

    pub fn open(&self, arguments: &Calibrate, stop: &Arc<AtomicBool>) -> Result<Target> {
        let name = self.name();
        match self {
            Source::Device(path) => device(path, arguments, stop),
            Source::Trace(_) => Ok(Target {
                origin: format!("the trace {name}"),
                device: None,
                about: Vec::new(),
                notes: Vec::new(),
                _cache: None,
            }),
            Source::Model(spec) => {
                let drive = drive_models::build(spec).map_err(UsageError::from_display)?.drive;
                Ok(Target {
                    origin: format!("the model {name}"),
                    device: Some(Box::new(SimulatedDevice::new(drive))),
                    about: Vec::new(),
                    notes: vec!["a model on a simulated clock was measured, not a device".to_owned()],
                    _cache: None,
                })
            }
        }
    }
}

fn device(path: &Path, arguments: &Calibrate, stop: &Arc<AtomicBool>) -> Result<Target> {
    let opened = FileDevice::open(path, Path::new("/sys"), Arc::clone(stop))?;
    let block: Option<BlockDevice> = opened.block;
    let mut about = block.as_ref().map(BlockDevice::describe).unwrap_or_default();
    if block.is_none() {
        about.push("the kernel names no block device for it, so its cache is unknown".to_owned());
    }
    let cache = match arguments.drive_cache {
        DriveCache::Keep => None,
        DriveCache::Off => Some(CacheOff::new(path, block.as_ref())?),
    };
    let mut notes = opened.notes;
    match &cache {
        Some(cache) => about.push(cache.describe()),
        None => notes.extend(block.as_ref().and_then(BlockDevice::remark)),
    }
    Ok(Target {
        origin: without_folders(&path.to_string_lossy()).to_owned(),
        device: Some(Box::new(opened.device)),
        about,
        notes,
        _cache: cache,
    })
}

impl Target {
    pub fn capacity(&self) -> Option<Sectors> {
        self.device.as_ref().map(|device| device.capacity())
    }
}

/// Collects the reads of a trace to which models can be fitted, and counts the others.
pub fn read_trace(arguments: &Calibrate, source: &Source) -> Result<(CalibrationReads, Vec<String>)> {
    let Source::Trace(path) = source else {
        return Err(UsageError("there is no trace to read".to_owned()).into());
    };
    let reader = formats::open(path, &arguments.reading.options())?;
    let mut reader = OneDevice::new(path, reader);
    let progress = Progress::reads("reading the trace", arguments.reads);
    let counter = progress.counter(0);
    let mut trace = TraceReads::new(arguments.seed);
    while (trace.usable() as u64) < arguments.reads {
        let Some(record) = reader.next()? else { break };
        trace.push(&record);
        counter.store(trace.usable() as u64, std::sync::atomic::Ordering::Relaxed);
    }
    drop(progress);
    for (reason, count) in &reader.losses().skipped {
        eprintln!("iocast: warning: skipped {count}: {reason}");
    }
    let untimed = trace.untimed();
    let reads = trace.finish().with_context(|| source.name())?;
    let mut notes = vec![format!(
        "{} of {} requests are reads during which the device served nothing else; models are fitted to and judged on \
         these alone, but the empirical model draws from half of the others, too",
        reads.points.len(),
        reads.seen
    )];
    if untimed > 0 {
        notes.push(format!("{untimed} requests have no completion time"));
    }
    if arguments.capacity.is_none() {
        notes.push("the capacity is the end of the furthest request; --capacity sets the drive's own".to_owned());
    }
    Ok((reads, notes))
}
