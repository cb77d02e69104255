//! `iocast convert --catalog`: each trace as Parquet files by host, device and day. A trace is read once for its devices
//! and names, which are complete only at its end, and once more to write them.

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
use traces::{Record, Timestamp, TraceMeta, VmId};

use super::catalog_names::Names;
use super::{anonymiser, describe, provenance, warn_of_losses};
use crate::arguments::{CatalogDate, Convert};
use crate::catalog::{self, Day, Partition};
use crate::error::UsageError;
use crate::progress::Progress;

/// Devices that are written at once. Each holds a row group of some 5 MB; a trace of more is read several times.
const DEVICES_PER_PASS: usize = 32;
/// The most files of one trace, so that a damaged time makes no folder for each day of a century.
const FILES_MAX: usize = 10_000;

/// Converts all traces of the command line.
///
/// # Errors
/// A trace that cannot be read twice or has no date; a file that exists.
pub fn run(arguments: &Convert, folder: &Path) -> Result<()> {
    let mut surveyed = Vec::new();
    // All are checked before the first is written.
    let mut taken = BTreeSet::new();
    for input in std::iter::once(&arguments.input).chain(&arguments.output) {
        ensure!(
            is_reopenable(input),
            UsageError("--catalog reads each trace twice, so none can come from standard input or a pipe".to_owned())
        );
        let (trace, anonymiser) = Trace::survey(arguments, folder, input)?;
        if trace.spans.is_empty() {
            eprintln!("iocast: warning: {} holds no request to write", input.display());
            continue;
        }
        trace.check(&mut taken)?;
        surveyed.push((trace, anonymiser));
    }
    surveyed.into_iter().try_for_each(|(trace, anonymiser)| trace.write(anonymiser))
}

/// A trace, after it was read once.
struct Trace<'a> {
    arguments: &'a Convert,
    folder: &'a Path,
    input: &'a Path,
    window: TimeWindow,
    /// As it is written, for all devices.
    meta: TraceMeta,
    /// Where it goes, anonymous if the trace is.
    names: Names,
    /// The time of day of timestamp zero. An anonymous trace has none.
    zero_unix_ns: Option<i64>,
    /// First and last arrival of each device; `None` for one without requests.
    spans: Vec<Option<(Timestamp, Timestamp)>>,
}

/// A file that is being written.
struct Open {
    day: Option<Day>,
    path: PathBuf,
    writer: Box<ParquetWriter>,
}

impl<'a> Trace<'a> {
    fn survey(arguments: &'a Convert, folder: &'a Path, input: &'a Path) -> Result<(Trace<'a>, Option<Anonymiser>)> {
        let window = arguments.window.checked()?;
        let progress = progress("measuring", input);
        let counter = progress.counter(0);
        let mut reader = formats::open(input, &arguments.reading.options())?;
        let mut spans: Vec<Option<(Timestamp, Timestamp)>> = Vec::new();
        each_within(reader.as_mut(), window, |record, reader| {
            counter.store(reader.position_bytes(), Ordering::Relaxed);
            let device = device_of(reader.meta(), record);
            spans.resize(spans.len().max(device + 1), None);
            let arrival = record.request.arrival;
            spans[device].get_or_insert((arrival, arrival)).1 = arrival;
            Ok::<(), anyhow::Error>(())
        })?;
        let mut meta = reader.meta().clone();
        describe(&mut meta, arguments, input, reader.as_ref())?;
        warn_of_losses(reader.losses());
        let anonymiser = anonymiser(arguments, input, window)?;
        let names = Names::of(arguments, input, &meta, anonymiser.as_ref());
        if let Some(anonymiser) = &anonymiser {
            meta = anonymiser.meta(&meta);
        }
        meta.provenance.extend(provenance(&arguments.provenance)?);
        let zero_unix_ns = meta.clock.zero_unix_ns;
        Ok((Trace { arguments, folder, input, window, meta, names, zero_unix_ns, spans }, anonymiser))
    }

    fn day(&self, arrival: Timestamp) -> Option<Day> {
        Some(catalog::day(self.zero_unix_ns?, arrival.as_ns()))
    }

    fn path(&self, device: usize, day: Option<Day>) -> Result<PathBuf> {
        let date = match (day, &self.arguments.date) {
            (Some(day), _) => Some(catalog::date(day)),
            (None, Some(CatalogDate::Known(date))) => Some(date.clone()),
            (None, Some(CatalogDate::Unknown)) => None,
            (None, None) if self.arguments.anonymise.is_some() => None,
            (None, None) => bail!(UsageError(format!(
                "{}: the trace has no time of day; give its date with --date YYYY-MM-DD, or --date unknown",
                self.input.display()
            ))),
        };
        let Names { host, devices, file } = &self.names;
        let device = devices.get(device).or(devices.first()).cloned().flatten();
        let path = catalog::file(self.folder, &Partition { host: host.clone(), device, date }, file);
        path.with_context(|| self.input.display().to_string())
    }

    /// Checks before anything is written that no file is there, and none that this run has written.
    fn check(&self, taken: &mut BTreeSet<PathBuf>) -> Result<()> {
        let mut files = 0;
        for (device, span) in self.spans.iter().enumerate() {
            let Some((first, last)) = span else { continue };
            let days: Vec<Option<Day>> = match (self.day(*first), self.day(*last)) {
                (Some(first), Some(last)) => (first..=last).map(Some).take(FILES_MAX + 1).collect(),
                _ => vec![None],
            };
            files += days.len();
            ensure!(
                files <= FILES_MAX,
                "{}: it would become more than {FILES_MAX} files, by its devices and days; choose with --device, --start \
                 and --end",
                self.input.display()
            );
            for day in days {
                let path = self.path(device, day)?;
                ensure!(
                    self.arguments.force || !path.exists(),
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
        for first in (0..self.spans.len()).step_by(DEVICES_PER_PASS) {
            self.write_devices(first, anonymiser.as_mut())?;
        }
        Ok(())
    }

    /// Writes some of the devices, from number `first` on.
    fn write_devices(&self, first: usize, mut anonymiser: Option<&mut Anonymiser>) -> Result<()> {
        let progress = progress("converting", self.input);
        let counter = progress.counter(0);
        let mut open: Vec<Option<Open>> = Vec::new();
        open.resize_with(DEVICES_PER_PASS.min(self.spans.len() - first), || None);
        let mut reader = formats::open(self.input, &self.arguments.reading.options())?;
        each_within(reader.as_mut(), self.window, |record, reader| {
            counter.store(reader.position_bytes(), Ordering::Relaxed);
            let device = device_of(reader.meta(), record);
            let day = self.day(record.request.arrival);
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
