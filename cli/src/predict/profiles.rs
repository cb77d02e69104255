//! The VMs alone: isolation profiles read from files, or measured from isolated traces.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use predictors::profile::Measure;
use predictors::{Isolated, IsolatedTrace, IsolatedTraceBuilder, check};
use replay::sources::OneDevice;
use traces::formats;
use traces::input::digest;
use traces::origin::{short_name, without_folders};
use traces::results::isolation::IsolationProfile;
use traces::results::{SCHEMA_VERSION, TraceProvenance};
use traces::trace::ReadOptions;
use traces::{Nanos, Sectors, TraceReader};

use crate::arguments::Predict;
use crate::error::UsageError;
use crate::progress::Progress;
use crate::vms::{Named, split_place};

/// A VM of the command line, with its trace or profile. Without a place, the trace's addresses are those of the device.
pub struct VmInput {
    pub named: Named,
    /// Whether the user gave the name.
    pub given: bool,
}

/// Number of records between two updates of the progress bar.
const RECORDS_PER_LOOK: u64 = 4096;

/// The VMs of the command line; those that run together come first.
///
/// # Errors
/// Two VMs of the same name.
pub fn named<'a>(inputs: impl Iterator<Item = &'a String>) -> Result<Vec<VmInput>, UsageError> {
    let mut named: Vec<VmInput> = Vec::new();
    for input in inputs {
        let parts = input.split_once('=').filter(|(name, _)| !name.contains('/') && !Path::new(input).exists());
        let (name, path) = parts.map_or((None, input.as_str()), |(name, path)| (Some(name), path));
        let (path, place) = split_place(path)?;
        let given = name.is_some_and(|name| !name.is_empty());
        let name = name.filter(|_| given).map_or_else(|| short_name(&path), str::to_owned);
        if named.iter().any(|other| other.named.name == name) {
            return Err(UsageError(format!(
                "two VMs are named `{name}`; give one another name, OTHER={}",
                path.display()
            )));
        }
        named.push(VmInput { named: Named { name, path, place }, given });
    }
    Ok(named)
}

/// The VMs alone: the profiles of those that run together. If all inputs are traces, also their traces, followed by the
/// traces of further VMs on the same device.
pub struct Alone {
    pub profiles: Vec<IsolationProfile>,
    pub traces: Vec<IsolatedTrace>,
}

impl Alone {
    /// The input of a predictor.
    pub fn isolated(&self) -> Isolated<'_> {
        Isolated { profiles: &self.profiles, traces: &self.traces }
    }

    /// The VMs of a group, by number; the traces of all other VMs follow theirs.
    pub fn of(&self, members: &[usize]) -> Alone {
        let others = (0..self.traces.len()).filter(|other| !members.contains(other));
        Alone {
            profiles: members.iter().map(|&member| self.profiles[member].clone()).collect(),
            traces: members.iter().copied().chain(others).map(|one| self.traces[one].clone()).collect(),
        }
    }
}

/// The isolation profile of each VM, and the traces if all inputs are traces.
///
/// # Errors
/// A file that cannot be read or holds no request; --also beside a profile.
pub fn gather(inputs: &[VmInput], arguments: &Predict) -> Result<Alone> {
    if let Some(profile) = inputs.iter().find(|input| input.is_profile() && !arguments.also.is_empty()) {
        let path = profile.named.path.display();
        let what = "--also takes a trace, and needs traces of all VMs; a profile does not hold single requests";
        return Err(UsageError(format!("{path}: {what}")).into());
    }
    if inputs.iter().all(VmInput::is_profile) && (arguments.span.start > Nanos::ZERO || arguments.span.end.is_some()) {
        return Err(
            UsageError("--start and --end select a part of a trace, and all inputs are profiles".to_owned()).into()
        );
    }
    let sizes = inputs.iter().filter_map(|input| Some(std::fs::metadata(&input.named.path).ok()?.len()));
    let progress = Progress::new("measuring", sizes.sum(), inputs.len());
    let (mut profiles, mut traces) = (Vec::new(), Vec::new());
    for (index, input) in inputs.iter().enumerate() {
        if input.is_profile() {
            profiles.push(input.read()?);
            continue;
        }
        let (profile, trace) = input.measure(arguments, &progress.counter(index))?;
        profiles.push(profile);
        traces.push(trace);
    }
    if traces.len() < profiles.len() {
        traces.clear();
    }
    Ok(Alone { profiles, traces })
}

impl VmInput {
    /// Whether its file is a profile rather than a trace.
    pub fn is_profile(&self) -> bool {
        self.named.path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
    }

    fn read(&self) -> Result<IsolationProfile> {
        ensure!(
            self.named.place.is_none(),
            UsageError(format!(
                "{}: a profile belongs to the place where it was measured; @PLACE goes with a trace",
                self.named.path.display()
            ))
        );
        let mut profile = read(&self.named.path)?;
        if self.given {
            profile.vm.clone_from(&self.named.name);
        }
        Ok(profile)
    }

    fn measure(&self, arguments: &Predict, position: &AtomicU64) -> Result<(IsolationProfile, IsolatedTrace)> {
        let Named { name, path, place } = &self.named;
        if let (Some(place), Some(capacity)) = (place, arguments.capacity) {
            ensure!(
                *place < capacity,
                UsageError(format!(
                    "VM {name}: its disk begins at sector {place}, but --capacity is {capacity} sectors"
                ))
            );
        }
        let window = Window { start: arguments.span.start, end: arguments.span.end, names: "--start and --end" };
        let place = DiskPlace { first: place.unwrap_or_default(), device: arguments.capacity };
        measure(name, path, &arguments.reading.options(), window, place, position)
    }
}

/// Reads the isolation profile at `path`.
///
/// # Errors
/// A file that is no profile, or one of a newer program.
pub fn read(path: &Path) -> Result<IsolationProfile> {
    let shown = path.display();
    let text = traces::read_text(path).with_context(|| format!("{shown}: cannot be read"))?;
    let profile: IsolationProfile = serde_json::from_str(&text)
        .with_context(|| format!("{shown}: is no isolation profile (iocast predict -o STEM writes them)"))?;
    ensure!(
        profile.schema_version <= SCHEMA_VERSION,
        "{shown}: its schema_version is {}, and this program reads {SCHEMA_VERSION}; a newer iocast wrote the file",
        profile.schema_version
    );
    check::counts(&profile).with_context(|| format!("{shown}: is no possible profile"))?;
    Ok(profile)
}

/// The part of a trace that is measured, counted from its first arrival.
#[derive(Clone, Copy)]
pub struct Window {
    pub start: Nanos,
    pub end: Option<Nanos>,
    /// What the user calls its start and end, for messages.
    pub names: &'static str,
}

/// The place of a VM's disk on the device.
#[derive(Clone, Copy, Default)]
pub struct DiskPlace {
    /// The device's sector that holds the disk's sector 0.
    pub first: Sectors,
    /// The size of the device, if it is known.
    pub device: Option<Sectors>,
}

/// Measures the isolation profile of VM `name` from the trace at `path`, and keeps its requests for the twin.
///
/// # Errors
/// A trace that cannot be read, holds several VMs, or has no request within the window.
pub fn measure(
    name: &str,
    path: &Path,
    options: &ReadOptions,
    window: Window,
    place: DiskPlace,
    position: &AtomicU64,
) -> Result<(IsolationProfile, IsolatedTrace)> {
    let format = formats::recognise(path, options)?;
    let members = (format.members)(path)?;
    let mut reader = OneDevice::new(path, format.read(path, options)?);
    let mut next = reader.next()?;
    let first = next.map(|record| record.request.arrival).unwrap_or_default();
    let mut measure = Measure::new(reader.meta()).placed(place.first);
    let mut builder = IsolatedTraceBuilder::new(place.first, place.device);
    let (mut seen, mut taken, mut completed) = (0u64, 0u64, 0u64);
    let mut vm = None;
    while let Some(record) = next {
        let at = record.request.arrival.saturating_since(first);
        if window.end.is_some_and(|end| at >= end) {
            break;
        }
        if at >= window.start {
            ensure!(
                *vm.get_or_insert(record.request.vm) == record.request.vm,
                "{}: holds several VMs; a forecast needs a trace of each VM alone",
                path.display()
            );
            measure.record(&record);
            builder.record(&record);
            taken += 1;
            completed += u64::from(record.observed.completed.is_some());
        } else {
            builder.before(&record);
        }
        seen += 1;
        if seen.is_multiple_of(RECORDS_PER_LOOK) {
            position.store(reader.position_bytes(), Ordering::Relaxed);
        }
        next = reader.next()?;
    }
    let is_cut = window.start > Nanos::ZERO || window.end.is_some();
    ensure!(taken > 0 || is_cut, "{}: it holds no request", path.display());
    ensure!(taken > 0, "{}: no request lies in the window of {}", path.display(), window.names);
    ensure!(
        completed > 0,
        "{}: when did the requests of {name} complete? Of {taken} requests none has a completion time, and response \
         times come from there; give a trace that has them (iocast capture block records them)",
        path.display()
    );
    let meta = reader.meta().clone();
    let provenance = TraceProvenance {
        vm: name.to_owned(),
        path: without_folders(&path.to_string_lossy()).to_owned(),
        sha256: digest(&members)?,
        format: format.name.to_owned(),
        layer: options.layer.unwrap_or(meta.layer),
        losses: reader.losses().clone(),
        ..TraceProvenance::of(&meta, taken)
    };
    let program = traces::program_version();
    let (profile, left_out) = measure.finish(name, &program, provenance, &meta);
    if left_out > 0 {
        eprintln!(
            "iocast: warning: {}: left out {left_out} records that complete too long after their arrival",
            path.display()
        );
    }
    Ok((profile, builder.finish()))
}
