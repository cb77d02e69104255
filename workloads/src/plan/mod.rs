//! The guests that a user names with their workloads: their programs, and the places of their disks on the drive.

mod layout;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use traces::origin::without_folders;
use traces::results::{Part, WorkloadProvenance};
use traces::spec::{Spec, SpecError, nearest};
use traces::{Lba, Sectors, Timestamp};

use self::layout::{Disk, lay_out};
use crate::guest::files::{BLOCK, Files};
use crate::guest::journal::Journal;
use crate::guest::memory::MemorySettings;
use crate::guest::program::Event;
use crate::programs::description::{self, Description, PRESETS, PopulateError, Population};
use crate::programs::{self, PROGRAMS, Workload};
use crate::running::{Guest, Guests, Occurrences, Until};

/// A workload as a user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The guest's name; by default the program's.
    pub name: Option<String>,
    /// A program with tunables, a fio job file, or a description of several guests.
    pub what: String,
    /// Where the guest's disk begins on the drive; a description's guests are moved by it.
    pub place: Option<Sectors>,
}

/// What guests have that their workload does not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestSettings {
    /// The seed of all random choices.
    pub seed: u64,
    /// The size of each guest's disk; by default an equal part of the drive. Guests of a description have their own.
    pub capacity: Option<Sectors>,
    /// The page cache of each guest in bytes, 0 for none. Guests of a description have their own.
    pub cache_bytes: u64,
    /// Whether file systems keep a journal.
    pub keeps_journal: bool,
}

/// The page cache of a guest without a size of its own.
pub const CACHE: &str = "65m";

/// Guests with their places on a drive, which can be run any number of times.
#[derive(Debug)]
pub struct GuestPlan {
    guests: Vec<Planned>,
    seed: u64,
    keeps_journal: bool,
    /// When they end.
    pub until: Until,
}

/// A guest with its place.
#[derive(Debug)]
struct Planned {
    guest: description::Guest,
    /// The workload or description as the user named it.
    given: String,
    /// The files that describe its workload.
    files: Vec<PathBuf>,
}

/// Why guests cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(pub(crate) String);

impl PlanError {
    fn of(error: impl std::fmt::Display) -> PlanError {
        PlanError(error.to_string())
    }
}

/// The most guests of a plan.
const GUESTS: usize = 1024;

/// Bytes of a page of memory, and the fewest pages of a page cache.
const PAGE_BYTES: u64 = 4096;
const CACHE_PAGES: u64 = 64;

impl GuestPlan {
    /// The guests `named`, on a drive of `capacity`.
    ///
    /// # Errors
    /// Unknown or clashing names, disks that do not fit, workloads that would never end.
    pub fn new(
        named: &[Named],
        settings: GuestSettings,
        until: Until,
        capacity: Sectors,
    ) -> Result<GuestPlan, PlanError> {
        let mut guests: Vec<Planned> = Vec::new();
        let mut disks: Vec<Disk> = Vec::new();
        for named in named {
            for (planned, disk) in plan(named, settings)? {
                if guests.iter().any(|other| other.guest.name == planned.guest.name) {
                    let (name, what) = (&planned.guest.name, &named.what);
                    return Err(PlanError(format!(
                        "two guests are named `{name}`; name them with --workload NAME={what} (`name` in a \
                         scenario)"
                    )));
                }
                guests.push(planned);
                disks.push(disk);
            }
        }
        if guests.len() > GUESTS {
            return Err(PlanError(format!("{} guests are too many; a comparison has at most {GUESTS}", guests.len())));
        }
        for (planned, range) in guests.iter_mut().zip(lay_out(&disks, capacity)?) {
            planned.guest.place = Lba::new(range.start);
            planned.guest.capacity = Sectors::new(range.end - range.start);
        }
        if until == Until::default()
            && let Some(endless) = guests.iter().find(|planned| !planned.guest.workload.ends())
        {
            return Err(PlanError(format!(
                "guest {}: `{}` never ends; set an end with --end TIME or --limit REQUESTS (`to` or `limit` in a \
                 scenario)",
                endless.guest.name, endless.given
            )));
        }
        Ok(GuestPlan { guests, seed: settings.seed, keeps_journal: settings.keeps_journal, until })
    }

    /// Names of the guests, in the order of their numbers.
    pub fn names(&self) -> Vec<String> {
        self.guests.iter().map(|planned| planned.guest.name.clone()).collect()
    }

    /// The guests with their files, ready to run. The same every time.
    ///
    /// # Errors
    /// A guest whose disk is too small; too many files or processes.
    pub fn source(&self) -> Result<Guests, PlanError> {
        let mut all = Population::default();
        let boot = |(planned, seed): (&Planned, u64)| {
            let Planned { guest, .. } = planned;
            let booted = self.boot(guest, seed).and_then(|booted| {
                all = all.with(booted.files.count(), booted.programs.len())?;
                Ok(booted)
            });
            booted.map_err(|problem| PlanError(format!("guest {}: `{}`: {problem}", guest.name, planned.given)))
        };
        let guests = self.guests.iter().zip(description::seeds(self.seed)).map(boot);
        Ok(Guests::new(guests.collect::<Result<_, _>>()?, self.until))
    }

    fn boot(&self, guest: &description::Guest, seed: u64) -> Result<Guest, PopulateError> {
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
    pub fn provenance(&self) -> Result<Vec<WorkloadProvenance>, traces::ReadError> {
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

/// The guests of one workload, with their disks as far as places and sizes are given.
fn plan(named: &Named, settings: GuestSettings) -> Result<Vec<(Planned, Disk)>, PlanError> {
    let is_file = named.what.ends_with(".toml");
    if is_file || PRESETS.iter().any(|(preset, _)| *preset == named.what.as_str()) {
        if let Some(name) = &named.name {
            return Err(PlanError(format!("`{}` names its guests itself; leave out `{name}=`", named.what)));
        }
        let files: Vec<PathBuf> = is_file.then(|| PathBuf::from(&named.what)).into_iter().collect();
        let guests = Description::find(&named.what).map_err(PlanError::of)?.guests.into_iter();
        let shift = named.place.unwrap_or(Sectors::ZERO);
        return guests
            .map(|guest| planned(guest, &named.what, files.clone(), |guest| of_description(guest, shift)))
            .collect();
    }
    let spec: Spec = named.what.parse().map_err(PlanError::of)?;
    let workload = build(&spec)?;
    let name = named.name.clone().unwrap_or_else(|| own_name(&spec, &workload));
    let guest = description::Guest::new(name, workload, Sectors::ZERO, Lba::ZERO, settings.cache_bytes);
    let disk =
        |guest: &description::Guest| Disk { name: guest.name.clone(), place: named.place, capacity: settings.capacity };
    Ok(vec![planned(guest, &named.what, Vec::new(), disk)?])
}

fn planned(
    guest: description::Guest,
    given: &str,
    mut files: Vec<PathBuf>,
    disk: impl Fn(&description::Guest) -> Disk,
) -> Result<(Planned, Disk), PlanError> {
    if guest.cache_bytes > 0 && guest.cache_bytes < CACHE_PAGES * PAGE_BYTES {
        return Err(PlanError(format!(
            "guest {}: a page cache of {} bytes is too small; give at least 256k, or 0 for none",
            guest.name, guest.cache_bytes
        )));
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
fn build(spec: &Spec) -> Result<Workload, PlanError> {
    let known = || PROGRAMS.iter().map(|entry| entry.name).chain(PRESETS.iter().map(|(name, _)| *name));
    if !spec.name.ends_with(".fio") && PROGRAMS.iter().all(|entry| entry.name != spec.name) {
        if known().any(|name| name == spec.name) {
            return Err(PlanError(format!("`{}` is a description of guests and has no tunables", spec.name)));
        }
        let near = nearest(&spec.name, known());
        return Err(PlanError::of(SpecError::UnknownName { kind: "workload", name: spec.name.clone(), near }));
    }
    programs::build(spec).map_err(PlanError::of)
}

/// The name of a program, or of a job file without folder and extension.
fn own_name(spec: &Spec, workload: &Workload) -> String {
    let stem = workload.job_file.as_deref().and_then(Path::file_stem);
    stem.map_or_else(|| spec.name.clone(), |stem| stem.to_string_lossy().into_owned())
}

const _: () = assert!(PAGE_BYTES == BLOCK.count() * traces::SECTOR_BYTES);
