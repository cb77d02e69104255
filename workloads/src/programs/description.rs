//! Guests and their workloads as a TOML file: the workload of each guest, the size of its disk, its place on the drive
//! and the size of its page cache. Schedulers and drives are not part of a description.

use std::path::Path;

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Deserialize;
use toml::Spanned;
use traces::quantity::{parse_bytes, parse_sectors};
use traces::spec::nearest;
use traces::{DescriptionError, Lba, Sectors, Timestamp, described};

use super::{Processes, Workload, build, build_jobs};
use crate::guest::files::{BLOCK, Files, OutOfSpace};
use crate::guest::program::{Event, Program, Step};

/// The most guests of a description.
const GUESTS: usize = 1024;

/// The most copies of a workload in a guest.
const COPIES: u64 = 1000;

/// The most files and processes of all guests: 700 MB and 200 MB. A program alone has ten million files at most.
const FILES: usize = 12_000_000;
const PROCESSES: usize = 100_000;

/// Why guests have no files and processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PopulateError {
    /// The files do not fit the disk.
    #[error(transparent)]
    Full(#[from] OutOfSpace),
    /// There are too many of them.
    #[error(
        "with {files} files and {processes} processes there are too many; all guests have at most {FILES} and {PROCESSES}, \
         so give fewer guests, copies, files or processes"
    )]
    TooMany {
        /// The files so far.
        files: usize,
        /// The processes so far.
        processes: usize,
    },
}

/// How many files and processes there are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Population {
    files: usize,
    processes: usize,
}

impl Population {
    /// The same with those of one more guest.
    ///
    /// # Errors
    /// There are too many of them.
    pub(crate) fn with(self, files: usize, processes: usize) -> Result<Population, PopulateError> {
        let (files, processes) = (self.files + files, self.processes + processes);
        if files > FILES || processes > PROCESSES {
            return Err(PopulateError::TooMany { files, processes });
        }
        Ok(Population { files, processes })
    }
}

/// Guests and their workloads.
#[derive(Debug)]
pub struct Description {
    /// The name or path of the description.
    pub name: String,
    /// A summary in one line.
    pub summary: String,
    /// The source that it follows.
    pub source: String,
    /// The guests, in the order of their VMs' numbers.
    pub guests: Vec<Guest>,
}

/// One guest.
#[derive(Debug)]
pub struct Guest {
    /// Its name.
    pub name: String,
    /// The workload that it runs.
    pub workload: Workload,
    /// The number of copies of the workload that run side by side, each with its own files.
    pub copies: u64,
    /// The size of its disk.
    pub capacity: Sectors,
    /// The first sector of its disk on the drive.
    pub place: Lba,
    /// The size of its page cache in bytes, 0 for none.
    pub cache_bytes: u64,
    line: usize,
}

/// A guest's files and processes.
pub struct Populated {
    /// Its files.
    pub files: Files,
    /// Its processes.
    pub processes: Processes,
}

/// The shipped descriptions: name and text.
pub const PRESETS: &[(&str, &str)] = &[
    ("casale2011", include_str!("presets/casale2011.toml")),
    ("filebench", include_str!("presets/filebench.toml")),
    ("geist2010-cached", include_str!("presets/geist2010-cached.toml")),
    ("geist2010-direct", include_str!("presets/geist2010-direct.toml")),
    ("kim2015-dd", include_str!("presets/kim2015-dd.toml")),
    ("kim2015-dd-alone", include_str!("presets/kim2015-dd-alone.toml")),
    ("kim2015-fio", include_str!("presets/kim2015-fio.toml")),
    ("kim2015-iozone", include_str!("presets/kim2015-iozone.toml")),
    ("kim2015-terasort", include_str!("presets/kim2015-terasort.toml")),
    ("noorshams2014", include_str!("presets/noorshams2014.toml")),
];

/// The kind of the text, for error messages.
const WHAT: &str = "workload description";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    summary: String,
    source: String,
    #[serde(default)]
    guest: Vec<Spanned<GuestText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GuestText {
    name: Spanned<String>,
    workload: Option<Spanned<String>>,
    jobs: Option<Spanned<String>>,
    copies: Option<Spanned<u64>>,
    capacity: Spanned<String>,
    place: Option<Spanned<String>>,
    cache: Spanned<String>,
}

/// The position of an error in the text, and its message.
type Problem = (usize, String);

impl Description {
    /// Reads a description.
    ///
    /// # Errors
    /// The first error, with its line: invalid TOML, a workload or fio job that is not accepted, or two guests with one
    /// name or one place.
    pub fn parse(name: &str, text: &str) -> Result<Description, DescriptionError> {
        let line_of = |offset: usize| described::line_of(text, offset);
        let fail = |line: Option<usize>, problem: String| DescriptionError {
            what: WHAT,
            name: name.to_owned(),
            line,
            problem,
        };
        let file: File = toml::from_str(text)
            .map_err(|error| fail(error.span().map(|span| line_of(span.start)), error.message().to_owned()))?;
        if file.guest.is_empty() || file.guest.len() > GUESTS {
            return Err(fail(None, format!("it has from 1 to {GUESTS} guests, each a section [[guest]]")));
        }
        let mut guests: Vec<Guest> = Vec::new();
        for guest in file.guest {
            let line = line_of(guest.span().start);
            let guest = read_guest(guest.into_inner(), line, &guests, text)
                .map_err(|(offset, problem)| fail(Some(line_of(offset)), problem))?;
            guests.push(guest);
        }
        Ok(Description { name: name.to_owned(), summary: file.summary, source: file.source, guests })
    }

    /// The description that `name` names: a shipped one, or a path (anything that ends in `.toml`).
    ///
    /// # Errors
    /// As [`Description::parse`]; a file that cannot be read; an unknown name, with similar ones.
    pub fn find(name: &str) -> Result<Description, DescriptionError> {
        let fail = |problem: String| DescriptionError { what: WHAT, name: name.to_owned(), line: None, problem };
        if let Some((_, text)) = PRESETS.iter().find(|(preset, _)| *preset == name) {
            return Description::parse(name, text);
        }
        if name.ends_with(".toml") {
            let text = traces::read_text(Path::new(name)).map_err(|error| fail(error.to_string()))?;
            return Description::parse(name, &text);
        }
        let mut near = nearest(name, PRESETS.iter().map(|(preset, _)| *preset));
        if near.is_empty() {
            near = PRESETS.iter().map(|(preset, _)| (*preset).to_owned()).collect();
        }
        Err(fail(format!("there is no such file or description; did you mean {}?", near.join(", "))))
    }

    /// The files and processes of every guest. Each guest has its own random numbers.
    ///
    /// # Errors
    /// A guest whose files do not fit its disk; too many files or processes.
    pub fn populate(&self, seed: u64) -> Result<Vec<Populated>, DescriptionError> {
        let mut all = Population::default();
        let populate = |(guest, seed): (&Guest, u64)| {
            let populated = guest.populate(seed).and_then(|populated| {
                all = all.with(populated.files.count(), populated.processes.len())?;
                Ok(populated)
            });
            populated.map_err(|problem| DescriptionError {
                what: WHAT,
                name: self.name.clone(),
                line: Some(guest.line),
                problem: format!("guest `{}`: {problem}", guest.name),
            })
        };
        self.guests.iter().zip(seeds(seed)).map(populate).collect()
    }
}

/// The seeds of the guests, in their order, derived from the seed of the replay.
pub fn seeds(seed: u64) -> impl Iterator<Item = u64> {
    let mut seeds = Xoshiro256PlusPlus::seed_from_u64(seed);
    std::iter::repeat_with(move || seeds.next_u64())
}

impl Guest {
    /// A guest that runs one copy of a workload, with a disk of this size at this place on the drive and a page cache
    /// of this size in bytes.
    pub fn new(name: String, workload: Workload, capacity: Sectors, place: Lba, cache_bytes: u64) -> Guest {
        Guest { name, workload, copies: 1, capacity, place, cache_bytes, line: 0 }
    }

    /// Its files and processes.
    ///
    /// # Errors
    /// The files do not fit the disk; too many files or processes.
    pub fn populate(&self, seed: u64) -> Result<Populated, PopulateError> {
        let mut files = Files::new(self.capacity);
        let processes = self.populate_on(&mut files, seed)?;
        Ok(Populated { files, processes })
    }

    /// Its processes. Their files are created in this file system, in addition to the files that it holds.
    ///
    /// # Errors
    /// The files do not fit the disk; too many files or processes.
    pub fn populate_on(&self, files: &mut Files, seed: u64) -> Result<Processes, PopulateError> {
        let mut seeds = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut processes: Processes = Vec::new();
        let events = self.workload.events().len() as u32;
        for copy in 0..self.copies as u32 {
            let made = self.workload.processes(files, seeds.next_u64())?;
            Population::default().with(files.count(), processes.len() + made.len())?;
            let base = copy * events;
            let own = |program| if base == 0 { program } else { Box::new(Copy { program, base }) as Box<dyn Program> };
            processes.extend(made.into_iter().map(own));
        }
        Ok(processes)
    }

    /// The names of its events: those of the first copy, then those of the second, and so on.
    pub fn events(&self) -> Vec<String> {
        let names = self.workload.events();
        let of = |copy: u64| {
            let only = self.copies == 1;
            names.iter().map(move |name| if only { name.clone() } else { format!("{name} (copy {copy})") })
        };
        (0..self.copies).flat_map(of).collect()
    }
}

/// A process of a later one of several copies of a workload; each copy has its own events.
struct Copy {
    program: Box<dyn Program>,
    base: u32,
}

impl Program for Copy {
    fn step(&mut self, now: Timestamp, files: &mut Files) -> Result<Step, OutOfSpace> {
        let own = |event: Event| Event(event.0 + self.base);
        Ok(match self.program.step(now, files)? {
            Step::Post(event) => Step::Post(own(event)),
            Step::Await(event, count) => Step::Await(own(event), count),
            step => step,
        })
    }
}

fn read_guest(guest: GuestText, line: usize, before: &[Guest], text: &str) -> Result<Guest, Problem> {
    let GuestText { name, workload, jobs, copies, capacity, place, cache } = guest;
    if name.get_ref().is_empty() || before.iter().any(|other| other.name == *name.get_ref()) {
        return Err((name.span().start, format!("`{}` is empty or another guest's name", name.get_ref())));
    }
    let size = sectors(&capacity)?;
    if size < BLOCK || size.count() / BLOCK.count() > u64::from(u32::MAX) {
        return Err((capacity.span().start, "capacity is from 4 KiB to below 16 TiB".to_owned()));
    }
    let behind = before.last().map_or(Lba::ZERO, |guest| guest.place.saturating_add(guest.capacity));
    let start = match &place {
        Some(place) => Lba::ZERO.saturating_add(sectors(place)?),
        None => behind,
    };
    let place_at = place.map_or(capacity.span().start, |place| place.span().start);
    let end = start.saturating_add(size);
    if let Some(other) =
        before.iter().find(|other| start < other.place.saturating_add(other.capacity) && other.place < end)
    {
        return Err((place_at, format!("its disk lies where that of guest `{}` does", other.name)));
    }
    let copies_at = copies.as_ref().map_or(0, |copies| copies.span().start);
    let copies = copies.map_or(1, Spanned::into_inner);
    if !(1..=COPIES).contains(&copies) {
        return Err((copies_at, format!("copies is from 1 to {COPIES}")));
    }
    let cache_bytes = parse_bytes(cache.get_ref()).map_err(|error| (cache.span().start, error.to_string()))?;
    let workload = match (workload, jobs) {
        (Some(spec), None) => read_workload(&spec)?,
        (None, Some(jobs)) => read_jobs(&jobs, name.get_ref(), text)?,
        _ => return Err((name.span().start, "a guest has either a workload or jobs (of fio)".to_owned())),
    };
    Ok(Guest { name: name.into_inner(), workload, copies, capacity: size, place: start, cache_bytes, line })
}

fn sectors(text: &Spanned<String>) -> Result<Sectors, Problem> {
    parse_sectors(text.get_ref()).map_err(|error| (text.span().start, error.to_string()))
}

fn read_workload(spec: &Spanned<String>) -> Result<Workload, Problem> {
    let wrong = |problem: String| (spec.span().start, problem);
    let spec = spec.get_ref().parse().map_err(|error: traces::spec::SpecError| wrong(error.to_string()))?;
    build(&spec).map_err(|error| wrong(error.to_string()))
}

/// The line of an error is that in the job file, counted within the string.
fn read_jobs(jobs: &Spanned<String>, guest: &str, text: &str) -> Result<Workload, Problem> {
    build_jobs(guest, jobs.get_ref()).map_err(|error| {
        let start = jobs.span().start;
        let written = text.get(jobs.span()).unwrap_or("");
        // A line break right after the opening quotes is not part of the string.
        let content = written.trim_start_matches(['\'', '"']);
        let first = usize::from(content.starts_with('\n') || content.starts_with("\r\n"));
        let line = first + error.line.unwrap_or(1) - 1;
        let offset =
            written.match_indices('\n').nth(line.wrapping_sub(1)).filter(|_| line > 0).map_or(0, |(at, _)| at + 1);
        (start + offset, format!("fio job file: {}", error.problem))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_processes_are_counted_over_all_guests() {
        let almost = Population::default().with(FILES - 1, 0).unwrap().with(0, PROCESSES).unwrap();
        assert!(almost.with(1, 0).is_ok());
        assert_eq!(almost.with(2, 0).unwrap_err(), PopulateError::TooMany { files: FILES + 1, processes: PROCESSES });
        assert!(almost.with(0, 1).is_err());
    }
}
