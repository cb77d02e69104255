//! The machines alone: read from profiles, or measured of captures.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use predictors::profile::Measure;
use predictors::{Isolated, IsolatedTrace, IsolatedTraceBuilder};
use traces::formats;
use traces::input::digest;
use traces::results::isolation::IsolationProfile;
use traces::results::{SCHEMA_VERSION, TraceProvenance};
use traces::trace::ReadOptions;
use traces::{Nanos, Sectors, TraceReader};

use crate::arguments::Predict;
use crate::error::UsageError;
use crate::one_device::OneDevice;
use crate::progress::Progress;
use crate::vms::{Named, short_name, split_place};

/// A machine and the file that tells of it. What it has recorded are the device's addresses if no place is given.
pub struct Machine {
    pub named: Named,
    /// Whether the user gave the name.
    given: bool,
}

/// Records between two looks at the progress.
const RECORDS_PER_LOOK: u64 = 4096;

/// The machines of the command line, those that are to run together first.
///
/// # Errors
/// Two with one name.
pub fn named<'a>(machines: impl Iterator<Item = &'a String>) -> Result<Vec<Machine>, UsageError> {
    let mut named: Vec<Machine> = Vec::new();
    for machine in machines {
        let parts = machine.split_once('=').filter(|(name, _)| !name.contains('/') && !Path::new(machine).exists());
        let (name, path) = parts.map_or((None, machine.as_str()), |(name, path)| (Some(name), path));
        let (path, place) = split_place(path)?;
        let given = name.is_some_and(|name| !name.is_empty());
        let name = name.filter(|_| given).map_or_else(|| short_name(&path), str::to_owned);
        if named.iter().any(|other| other.named.name == name) {
            return Err(UsageError(format!(
                "two machines are named `{name}`; give one another name, OTHER={}",
                path.display()
            )));
        }
        named.push(Machine { named: Named { name, path, place }, given });
    }
    Ok(named)
}

/// Machines alone: the profiles of those that are put together, and if all of them are captures their recordings, behind which are those of
/// any others on the same device.
pub struct Alone {
    pub profiles: Vec<IsolationProfile>,
    pub traces: Vec<IsolatedTrace>,
}

impl Alone {
    /// As predictors take them.
    pub fn isolated(&self) -> Isolated<'_> {
        Isolated { profiles: &self.profiles, traces: &self.traces }
    }

    /// Some of the machines, by number, and behind their recordings all others.
    pub fn of(&self, members: &[usize]) -> Alone {
        let others = (0..self.traces.len()).filter(|other| !members.contains(other));
        Alone {
            profiles: members.iter().map(|&member| self.profiles[member].clone()).collect(),
            traces: members.iter().copied().chain(others).map(|one| self.traces[one].clone()).collect(),
        }
    }
}

/// The profile of each, and what can be played.
///
/// # Errors
/// A file that cannot be read; one that holds nothing of use; others beside a profile.
pub fn gather(machines: &[Machine], arguments: &Predict) -> Result<Alone> {
    if let Some(profile) = machines.iter().find(|machine| machine.is_profile() && !arguments.also.is_empty()) {
        let path = profile.named.path.display();
        let what = "--also takes captures, and needs captures of all machines: a profile tells no single requests";
        return Err(UsageError(format!("{path}: {what}")).into());
    }
    if machines.iter().all(Machine::is_profile) && (arguments.start > Nanos::ZERO || arguments.end.is_some()) {
        return Err(UsageError("--start and --end cut captures, and these are profiles".to_owned()).into());
    }
    let sizes = machines.iter().filter_map(|machine| Some(std::fs::metadata(&machine.named.path).ok()?.len()));
    let progress = Progress::new("measuring", sizes.sum(), machines.len());
    let (mut profiles, mut traces) = (Vec::new(), Vec::new());
    for (index, machine) in machines.iter().enumerate() {
        if machine.is_profile() {
            profiles.push(machine.read()?);
            continue;
        }
        let (profile, trace) = machine.measure(arguments, &progress.counter(index))?;
        profiles.push(profile);
        traces.push(trace);
    }
    if traces.len() < profiles.len() {
        traces.clear();
    }
    Ok(Alone { profiles, traces })
}

impl Machine {
    /// Whether its file is a profile and no capture.
    pub fn is_profile(&self) -> bool {
        self.named.path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
    }

    fn read(&self) -> Result<IsolationProfile> {
        ensure!(
            self.named.place.is_none(),
            UsageError(format!(
                "{}: a profile is of the place where it was measured; give that with the capture",
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
        let window = Window { start: arguments.start, end: arguments.end };
        let place = Place { first: place.unwrap_or_default(), device: arguments.capacity };
        measure(name, path, &arguments.reading.options(), window, place, position)
    }
}

/// The profile that is stored at `path`.
///
/// # Errors
/// It is none, or a newer program's.
pub fn read(path: &Path) -> Result<IsolationProfile> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("{shown}: cannot be read"))?;
    let profile: IsolationProfile = serde_json::from_str(&text)
        .with_context(|| format!("{shown}: is no profile of a machine alone (iocast predict -o STEM writes them)"))?;
    ensure!(
        profile.schema_version <= SCHEMA_VERSION,
        "{shown}: its schema_version is {}, and this program knows {SCHEMA_VERSION}; a newer one wrote it",
        profile.schema_version
    );
    Ok(profile)
}

/// The part of a capture that is measured, from its first arrival.
#[derive(Clone, Copy)]
pub struct Window {
    pub start: Nanos,
    pub end: Option<Nanos>,
}

/// Where a machine's addresses are on the device.
#[derive(Clone, Copy, Default)]
pub struct Place {
    /// Of its sector 0.
    pub first: Sectors,
    /// What the device holds, where that is known.
    pub device: Option<Sectors>,
}

/// The profile of machine `name` from the capture at `path`, and what it did.
///
/// # Errors
/// It cannot be read, holds several machines, or nothing within the window.
pub fn measure(
    name: &str,
    path: &Path,
    options: &ReadOptions,
    window: Window,
    place: Place,
    position: &AtomicU64,
) -> Result<(IsolationProfile, IsolatedTrace)> {
    let format = formats::recognise(path, options)?;
    let members = (format.members)(path)?;
    let mut reader = OneDevice::new(path, (format.open)(path, options)?);
    let mut next = reader.next()?;
    let first = next.map(|record| record.request.arrival).unwrap_or_default();
    let mut measure = Measure::new(reader.meta()).placed(place.first);
    let mut builder = IsolatedTraceBuilder::new(place.first, place.device);
    let (mut seen, mut taken) = (0u64, 0u64);
    let mut vm = None;
    while let Some(record) = next {
        let at = record.request.arrival.saturating_since(first);
        if window.end.is_some_and(|end| at >= end) {
            break;
        }
        if at >= window.start {
            ensure!(
                *vm.get_or_insert(record.request.vm) == record.request.vm,
                "{}: holds several machines; a forecast takes a capture of each alone, since together they are what is to be told",
                path.display()
            );
            measure.record(&record);
            builder.record(&record);
            taken += 1;
        } else {
            builder.before(&record);
        }
        seen += 1;
        if seen.is_multiple_of(RECORDS_PER_LOOK) {
            position.store(reader.position_bytes(), Ordering::Relaxed);
        }
        next = reader.next()?;
    }
    ensure!(taken > 0, "{}: no request lies in the window that --start and --end leave", path.display());
    let meta = reader.meta().clone();
    let provenance = TraceProvenance {
        vm: name.to_owned(),
        path: path.display().to_string(),
        sha256: digest(&members)?,
        format: format.name.to_owned(),
        layer: options.layer.unwrap_or(meta.layer),
        losses: reader.losses().clone(),
        ..TraceProvenance::of(&meta, taken)
    };
    let program = traces::program_version();
    let (profile, left_out) = measure.finish(name, &program, provenance, &meta);
    if left_out > 0 {
        eprintln!("iocast: warning: {}: {left_out} records left out: completion too far ahead", path.display());
    }
    Ok((profile, builder.finish()))
}
