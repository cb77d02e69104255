//! The simulated guests of a comparison: their programs, and the places of their disks on the drive.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use replay::sources::TimeWindow;
use traces::origin::without_folders;
use traces::quantity::parse_sectors;
use traces::results::{Part, WorkloadProvenance};
use traces::spec::{Spec, SpecError, nearest};
use traces::{Lba, Sectors, Timestamp};
use workloads::guest::files::{BLOCK, Files};
use workloads::guest::journal::Journal;
use workloads::guest::memory::MemorySettings;
use workloads::guest::program::Event;
use workloads::programs::description::{self, Description, PRESETS};
use workloads::programs::{PROGRAMS, Workload};
use workloads::{Guest, Guests, Occurrences, Until};

use super::layout::{Disk, lay_out};
use crate::arguments::{Switch, Workloads};
use crate::error::UsageError;

/// The guests of a comparison.
pub struct Generated {
    guests: Vec<Planned>,
    seed: u64,
    keeps_journal: bool,
    pub until: Until,
}

/// A guest with its place.
struct Planned {
    guest: description::Guest,
    /// The workload or description as the user named it.
    given: String,
    /// The files that describe its workload.
    files: Vec<PathBuf>,
}

/// A workload as it was named on the command line.
struct Named<'a> {
    name: Option<&'a str>,
    what: &'a str,
    place: Option<Sectors>,
}

/// The most guests of a comparison.
const GUESTS: usize = 1024;

/// Bytes of a page of memory, and the fewest pages of a page cache.
const PAGE_BYTES: u64 = 4096;
const CACHE_PAGES: u64 = 64;

/// The guests named on the command line, on a drive of `capacity`.
///
/// # Errors
/// Unknown or clashing names, disks that do not fit, workloads that would never end.
pub fn gather(arguments: &Workloads, window: TimeWindow, capacity: Sectors) -> Result<Generated> {
    let mut guests: Vec<Planned> = Vec::new();
    let mut disks: Vec<Disk> = Vec::new();
    for text in &arguments.workloads {
        let named = split(text)?;
        for (planned, disk) in plan(&named, arguments).map_err(UsageError::from_display)? {
            if guests.iter().any(|other| other.guest.name == planned.guest.name) {
                let (name, what) = (&planned.guest.name, named.what);
                return Err(UsageError(format!(
                    "two guests are named `{name}`; name them with --workload NAME={what}"
                ))
                .into());
            }
            guests.push(planned);
            disks.push(disk);
        }
    }
    if guests.len() > GUESTS {
        return Err(
            UsageError(format!("{} guests are too many; a comparison has at most {GUESTS}", guests.len())).into()
        );
    }
    for (planned, range) in guests.iter_mut().zip(lay_out(&disks, capacity)?) {
        planned.guest.place = Lba::new(range.start);
        planned.guest.capacity = Sectors::new(range.end - range.start);
    }
    let until = Until { requests: window.limit, time: window.to.map(|end| Timestamp::ZERO + end) };
    if until == Until::default()
        && let Some(endless) = guests.iter().find(|planned| !planned.guest.workload.ends())
    {
        return Err(UsageError(format!(
            "guest {}: `{}` never ends; set an end with --end TIME or --limit REQUESTS",
            endless.guest.name, endless.given
        ))
        .into());
    }
    let keeps_journal = arguments.guest_journal == Switch::On;
    Ok(Generated { guests, seed: arguments.seed, keeps_journal, until })
}

impl Generated {
    /// Names of the guests, in the order of their numbers.
    pub fn names(&self) -> Vec<String> {
        self.guests.iter().map(|planned| planned.guest.name.clone()).collect()
    }

    /// The guests with their files, ready to run. The same every time.
    ///
    /// # Errors
    /// A guest whose disk is too small.
    pub fn source(&self) -> Result<Guests> {
        let boot = |(planned, seed): (&Planned, u64)| {
            let Planned { guest, .. } = planned;
            let booted = self.boot(guest, seed);
            booted.with_context(|| format!("guest {}: `{}`", guest.name, planned.given))
        };
        let guests = self.guests.iter().zip(description::seeds(self.seed)).map(boot);
        Ok(Guests::new(guests.collect::<Result<_>>()?, self.until))
    }

    fn boot(&self, guest: &description::Guest, seed: u64) -> Result<Guest> {
        let mut files = Files::new(guest.capacity);
        let journal = if self.keeps_journal { Some(Journal::new(&mut files)?) } else { None };
        let programs = guest.populate_on(&mut files, seed)?;
        let pages = u32::try_from(guest.cache_bytes / PAGE_BYTES).unwrap_or(u32::MAX);
        let memory = (pages > 0).then(|| MemorySettings { pages, ..MemorySettings::default() });
        Ok(Guest { name: guest.name.clone(), place: guest.place, files, journal, memory, programs })
    }

    /// The times of the events that the guests report: a line for each guest with events.
    pub fn notes(&self, source: &Guests) -> Vec<String> {
        let line = |(number, planned): (usize, &Planned)| {
            let occurred = |(event, name): (usize, String)| {
                let Occurrences { count, last, .. } = source.occurred(number, Event(event as u32))?;
                let seconds = last.since(Timestamp::ZERO).as_s_f64();
                let times = if count == 1 { String::new() } else { format!("{count} times, last ") };
                Some(format!("{name} {times}at {seconds:.3} s"))
            };
            let events = planned.guest.events();
            let events: Vec<String> = events.into_iter().enumerate().filter_map(occurred).collect();
            (!events.is_empty()).then(|| format!("guest {}: {}", planned.guest.name, events.join(", ")))
        };
        self.guests.iter().enumerate().filter_map(line).collect()
    }

    /// The description of the guests in a result.
    ///
    /// # Errors
    /// A file that can no longer be read.
    pub fn provenance(&self) -> Result<Vec<WorkloadProvenance>> {
        let of = |(planned, seed): (&Planned, u64)| {
            let Planned { guest, given, files } = planned;
            let description::Guest { workload, .. } = guest;
            let settings = workload.settings.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            let mut sha256 = BTreeMap::new();
            for file in files {
                let mut name = without_folders(&file.to_string_lossy()).to_owned();
                // Files of one name in two folders.
                while sha256.contains_key(&name) {
                    name.push('\'');
                }
                sha256.insert(name, traces::input::digest(std::slice::from_ref(file))?);
            }
            Ok(WorkloadProvenance {
                vm: guest.name.clone(),
                workload: Part {
                    name: without_folders(given).to_owned(),
                    model: workload.entry.name.to_owned(),
                    settings,
                },
                copies: guest.copies,
                place_sector: guest.place.sector(),
                capacity_sectors: guest.capacity.count(),
                cache_bytes: guest.cache_bytes,
                journal: self.keeps_journal,
                seed,
                sha256,
            })
        };
        self.guests.iter().zip(description::seeds(self.seed)).map(of).collect()
    }
}

/// `NAME=WORKLOAD@PLACE` → its parts. A `=` behind a `:` belongs to a tunable, an `@` that no size follows to a path.
fn split(text: &str) -> Result<Named<'_>, UsageError> {
    let (name, rest) = match text.split_once('=') {
        Some((name, rest)) if !name.contains(':') => (Some(name), rest),
        _ => (None, text),
    };
    if name == Some("") || rest.is_empty() {
        return Err(UsageError(format!("--workload {text}: expected [NAME=]WORKLOAD[@PLACE]")));
    }
    match rest.rsplit_once('@') {
        Some((what, place)) if !what.is_empty() && !place.contains('/') && !Path::new(rest).exists() => {
            let place = parse_sectors(place).map_err(|error| UsageError(format!("--workload {text}: {error}")))?;
            Ok(Named { name, what, place: Some(place) })
        }
        _ => Ok(Named { name, what: rest, place: None }),
    }
}

/// The guests of one `--workload`, with their disks as far as places and sizes are given.
fn plan(named: &Named, arguments: &Workloads) -> Result<Vec<(Planned, Disk)>> {
    let is_file = named.what.ends_with(".toml");
    if is_file || PRESETS.iter().any(|(preset, _)| *preset == named.what) {
        if let Some(name) = named.name {
            return Err(UsageError(format!("`{}` names its guests itself; leave out `{name}=`", named.what)).into());
        }
        let files: Vec<PathBuf> = is_file.then(|| PathBuf::from(named.what)).into_iter().collect();
        let guests = Description::find(named.what)?.guests.into_iter();
        let shift = named.place.unwrap_or(Sectors::ZERO);
        return guests
            .map(|guest| planned(guest, named.what, files.clone(), |guest| of_description(guest, shift)))
            .collect();
    }
    let spec: Spec = named.what.parse()?;
    let workload = build(&spec)?;
    let name = named.name.map_or_else(|| own_name(&spec, &workload), str::to_owned);
    let guest = description::Guest::new(name, workload, Sectors::ZERO, Lba::ZERO, arguments.guest_cache);
    let disk = |guest: &description::Guest| Disk {
        name: guest.name.clone(),
        place: named.place,
        capacity: arguments.guest_capacity,
    };
    Ok(vec![planned(guest, named.what, Vec::new(), disk)?])
}

fn planned(
    guest: description::Guest,
    given: &str,
    mut files: Vec<PathBuf>,
    disk: impl Fn(&description::Guest) -> Disk,
) -> Result<(Planned, Disk)> {
    if guest.cache_bytes > 0 && guest.cache_bytes < CACHE_PAGES * PAGE_BYTES {
        return Err(UsageError(format!(
            "guest {}: a page cache of {} bytes is too small; give at least 256k, or 0 for none",
            guest.name, guest.cache_bytes
        ))
        .into());
    }
    files.extend(guest.workload.job_file.clone());
    let disk = disk(&guest);
    Ok((Planned { guest, given: given.to_owned(), files }, disk))
}

fn of_description(guest: &description::Guest, shift: Sectors) -> Disk {
    let place = guest.place.sector().saturating_add(shift.count());
    Disk { name: guest.name.clone(), place: Some(Sectors::new(place)), capacity: Some(guest.capacity) }
}

/// Builds a program. The error for an unknown name suggests similar programs and descriptions.
fn build(spec: &Spec) -> Result<Workload> {
    let known = || PROGRAMS.iter().map(|entry| entry.name).chain(PRESETS.iter().map(|(name, _)| *name));
    if !spec.name.ends_with(".fio") && PROGRAMS.iter().all(|entry| entry.name != spec.name) {
        if known().any(|name| name == spec.name) {
            return Err(UsageError(format!("`{}` is a description of guests and has no tunables", spec.name)).into());
        }
        let near = nearest(&spec.name, known());
        return Err(SpecError::UnknownName { kind: "workload", name: spec.name.clone(), near }.into());
    }
    Ok(workloads::programs::build(spec)?)
}

/// The name of a program, or of a job file without folder and extension.
fn own_name(spec: &Spec, workload: &Workload) -> String {
    let stem = workload.job_file.as_deref().and_then(Path::file_stem);
    stem.map_or_else(|| spec.name.clone(), |stem| stem.to_string_lossy().into_owned())
}

/// The unit in which the progress of guests is measured: the one in which the total is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Simulated milliseconds.
    Time,
    /// Requests; the total may be unknown.
    Requests,
}

impl Measure {
    /// The measure of a run that ends at `until`, and its total if it is known.
    pub fn of(until: Until) -> (Measure, Option<u64>) {
        match until.time {
            Some(time) => (Measure::Time, Some(milliseconds(time))),
            None => (Measure::Requests, until.requests),
        }
    }
}

/// Whole simulated milliseconds since the start.
pub fn milliseconds(time: Timestamp) -> u64 {
    time.since(Timestamp::ZERO).as_ns() / 1_000_000
}

const _: () = assert!(PAGE_BYTES == BLOCK.count() * traces::SECTOR_BYTES);
