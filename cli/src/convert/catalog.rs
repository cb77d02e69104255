//! `iocast convert --catalog`: each trace as Parquet files by host, device and day. A trace is read once for its devices,
//! names and days, which are complete only at its end, and again for each [`DEVICES_PER_PASS`] devices to write them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, bail, ensure};
use replay::sources::{TimeWindow, each_within};
use traces::anonymise::Anonymiser;
use traces::formats::{self, parquet::ParquetWriter};
use traces::input::is_reopenable;
use traces::trace::{AddressSpace, TraceWriter as _};
use traces::{Record, TraceMeta, VmId};

use super::catalog_days::{Arrivals, FILES_MAX, day};
use super::catalog_names::Names;
use super::{anonymiser, describe, noted, provenance, warn_of_losses, warn_of_nothing, with_addresses};
use crate::arguments::{CatalogDate, Convert};
use crate::catalog::{self, Day, Partition};
use crate::error::UsageError;
use crate::progress::Progress;

/// Devices that are written at once. Each holds a row group of 4 to 16 MB; a trace of more is read several times.
const DEVICES_PER_PASS: usize = 32;

/// Converts all traces of the command line.
///
/// # Errors
/// A trace that cannot be read twice or has no date; a file that exists; a name that no file may have.
pub fn run(arguments: &Convert, folder: &Path) -> Result<()> {
    let inputs = || std::iter::once(&arguments.input).chain(&arguments.output);
    ensure!(
        inputs().all(|input| is_reopenable(input)),
        UsageError(
            "--catalog reads each trace several times, so none can come from standard input or a pipe".to_owned()
        )
    );
    let window = arguments.window.checked()?;
    let notes = provenance(&arguments.provenance)?;
    let job = Job { arguments, folder, window, notes, anonymiser: anonymiser(arguments)? };
    let mut surveyed = Vec::new();
    // All are checked before the first is written.
    let mut taken = BTreeSet::new();
    for input in inputs() {
        let (trace, anonymiser) = job.survey(input)?;
        if trace.days.is_empty() {
            warn_of_nothing(input, window);
            continue;
        }
        trace.check(&mut taken)?;
        surveyed.push((trace, anonymiser));
    }
    surveyed.into_iter().try_for_each(|(trace, anonymiser)| trace.write(anonymiser))
}

/// What the traces of a command line share.
struct Job<'a> {
    arguments: &'a Convert,
    folder: &'a Path,
    window: TimeWindow,
    /// Of `--provenance`.
    notes: Vec<(String, String)>,
    /// That of all traces, before any of them: a key from a pipe is read once.
    anonymiser: Option<Anonymiser>,
}

/// A trace, after it was read once.
struct Trace<'a> {
    job: &'a Job<'a>,
    input: &'a Path,
    /// As it is written, for all devices.
    meta: TraceMeta,
    /// Where it goes, anonymous if the trace is.
    names: Names,
    /// Those with requests of each device.
    days: Vec<Vec<Option<Day>>>,
}

/// A file that is being written.
struct Open {
    day: Option<Day>,
    path: PathBuf,
    writer: Box<ParquetWriter>,
}

impl Job<'_> {
    fn survey<'a>(&'a self, input: &'a Path) -> Result<(Trace<'a>, Option<Anonymiser>)> {
        let Job { arguments, window, notes, .. } = self;
        let progress = progress("measuring", input);
        let counter = progress.counter(0);
        let mut reader = formats::open(input, &arguments.reading.options())?;
        let mut arrivals = Arrivals::default();
        each_within(reader.as_mut(), *window, |record, reader| {
            counter.store(reader.position_bytes(), Ordering::Relaxed);
            arrivals.add(device_of(reader.meta(), record), record.request.arrival);
            Ok::<(), anyhow::Error>(())
        })?;
        let mut meta = reader.meta().clone();
        describe(&mut meta, arguments, input, reader.as_ref())?;
        warn_of_losses(reader.losses());
        let anonymiser = self.anonymiser.clone();
        let anonymiser =
            anonymiser.map(|anonymiser| with_addresses(anonymiser, arguments, input, *window)).transpose()?;
        let names = Names::of(arguments, notes, input, &meta, anonymiser.as_ref());
        let meta = noted(meta, notes, anonymiser.as_ref());
        let days = arrivals.days(meta.clock.zero_unix_ns);
        Ok((Trace { job: self, input, meta, names, days }, anonymiser))
    }
}

impl Trace<'_> {
    fn path(&self, device: usize, day: Option<Day>) -> Result<PathBuf> {
        let date = match (day, &self.job.arguments.date) {
            (Some(day), _) => Some(catalog::date(day)),
            (None, Some(CatalogDate::Known(date))) => Some(date.clone()),
            (None, Some(CatalogDate::Unknown)) => None,
            (None, None) if self.job.anonymiser.is_some() => None,
            (None, None) => bail!(UsageError(format!(
                "{}: the trace has no time of day; give its date with --date YYYY-MM-DD, or --date unknown",
                self.input.display()
            ))),
        };
        let Names { host, devices, file } = &self.names;
        let device = devices.get(device).or(devices.first()).cloned().flatten();
        let path = catalog::file(self.job.folder, &Partition { host: host.clone(), device, date }, file);
        path.with_context(|| self.input.display().to_string())
    }

    /// Checks before anything is written that no file is there, and none that this run has written.
    fn check(&self, taken: &mut BTreeSet<PathBuf>) -> Result<()> {
        ensure!(
            self.days.iter().map(Vec::len).sum::<usize>() <= FILES_MAX,
            "{}: it would become more than {FILES_MAX} files, by its devices and days; choose with --device, --start and \
             --end",
            self.input.display()
        );
        for (device, days) in self.days.iter().enumerate() {
            for day in days {
                let path = self.path(device, *day)?;
                ensure!(
                    self.job.arguments.force || !path.exists(),
                    UsageError(format!("{} exists; --force overwrites it", path.display()))
                );
                let again = format!(
                    "{}: another trace of this command has the same name, host, device and date; rename one of them",
                    path.display()
                );
                ensure!(taken.insert(path), UsageError(again));
            }
        }
        Ok(())
    }

    fn write(&self, mut anonymiser: Option<Anonymiser>) -> Result<()> {
        for first in (0..self.days.len()).step_by(DEVICES_PER_PASS) {
            self.write_devices(first, anonymiser.as_mut())?;
        }
        Ok(())
    }

    /// Writes some of the devices, from number `first` on.
    fn write_devices(&self, first: usize, mut anonymiser: Option<&mut Anonymiser>) -> Result<()> {
        let progress = progress("converting", self.input);
        let counter = progress.counter(0);
        let mut open: Vec<Option<Open>> = Vec::new();
        open.resize_with(DEVICES_PER_PASS.min(self.days.len() - first), || None);
        let mut reader = formats::open(self.input, &self.job.arguments.reading.options())?;
        each_within(reader.as_mut(), self.job.window, |record, reader| {
            counter.store(reader.position_bytes(), Ordering::Relaxed);
            let device = device_of(reader.meta(), record);
            let day = day(self.meta.clock.zero_unix_ns, record.request.arrival);
            // An anonymous trace begins at its first request, whichever device that is for.
            let mut written = match &mut anonymiser {
                Some(anonymiser) => anonymiser.record(record)?,
                None => *record,
            };
            let Some(file) = device.checked_sub(first).and_then(|at| open.get_mut(at)) else {
                return Ok::<(), anyhow::Error>(());
            };
            if file.as_ref().is_some_and(|file| file.day != day) {
                self.finish(device, file.take())?;
            }
            if self.meta.address_space == AddressSpace::PerVm {
                written.request.vm = VmId(0);
            }
            let file = match file {
                Some(file) => file,
                none => none.insert(self.begin(device, day)?),
            };
            Ok(file.writer.write(&written)?)
        })?;
        drop(progress);
        for (at, file) in open.into_iter().enumerate() {
            self.finish(first + at, file)?;
        }
        Ok(())
    }

    fn begin(&self, device: usize, day: Option<Day>) -> Result<Open> {
        let path = self.path(device, day)?;
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        let writer = Box::new(ParquetWriter::create(&path)?);
        Ok(Open { day, path, writer })
    }

    /// Completes a file of a device.
    fn finish(&self, device: usize, file: Option<Open>) -> Result<()> {
        let Some(Open { path, writer, .. }) = file else { return Ok(()) };
        let mut meta = self.meta.clone();
        if meta.address_space == AddressSpace::PerVm {
            meta.address_space = AddressSpace::Shared;
            meta.vms = meta.vms.get(device).cloned().into_iter().collect();
        }
        let written = writer.finish(&meta)?;
        let requests = written.extent.map_or(0, |extent| extent.records);
        note!("iocast: {} → {}: {requests} requests", self.input.display(), path.display());
        Ok(())
    }
}

/// The number of the device that a request is for. A trace of VMs that share a device has one.
fn device_of(meta: &TraceMeta, record: &Record) -> usize {
    if meta.address_space == AddressSpace::PerVm { usize::from(record.request.vm.0) } else { 0 }
}

fn progress(what: &'static str, input: &Path) -> Progress {
    Progress::new(what, fs::metadata(input).map_or(0, |metadata| metadata.len()), 1)
}
