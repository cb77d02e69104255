//! fio job files: their sections, and the jobs and processes that they define.

use std::collections::BTreeMap;
use std::path::Path;

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::{SECTOR_BYTES, Sectors};

use super::options::{Options, set_option};
use super::places::shortest;
use super::process::Process;
use super::values::Amount;
use crate::guest::files::{Files, OutOfSpace};
use crate::guest::program::{Event, Step};
use crate::programs::Processes;
use crate::programs::generators::Generators;

/// The most processes of a job file.
const PROCESSES: u64 = 65_536;

/// The bound on the size of a file: the disk of a guest is smaller.
const FILE_BYTES: u64 = 1 << 44;

/// Why a job file was not accepted.
#[derive(Debug, thiserror::Error)]
#[error("fio job file {name}{}: {problem}", line.map(|line| format!(" at line {line}")).unwrap_or_default())]
pub struct JobError {
    /// The name or path of the job file.
    pub name: String,
    /// The line of the error, if there is one.
    pub line: Option<usize>,
    /// The error.
    pub problem: String,
}

/// The checked jobs of a job file.
#[derive(Clone, Debug)]
pub struct Jobs {
    jobs: Vec<Job>,
}

#[derive(Clone, Debug)]
struct Job {
    name: String,
    options: Options,
    /// One plan for each of its processes.
    plans: Vec<Plan>,
}

/// The work of a process, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// The offset of its part of the file.
    pub(super) start: u64,
    /// The length of that part.
    pub(super) region: u64,
    /// The total amount that it reads, writes and trims.
    pub(super) limit: u64,
}

impl Jobs {
    /// Reads a job file's text.
    ///
    /// # Errors
    /// The first line that is not understood or not modelled, or a section with contradictory options.
    pub fn parse(name: &str, text: &str) -> Result<Jobs, JobError> {
        let fail = |line: Option<usize>, problem: String| JobError { name: name.to_owned(), line, problem };
        let mut global = Options::default();
        let mut jobs: Vec<Job> = Vec::new();
        for section in sections(text).map_err(|(line, problem)| fail(Some(line), problem))? {
            let mut options = global.clone();
            section.apply(&mut options).map_err(|(line, problem)| fail(Some(line), problem))?;
            if section.name == "global" {
                global = options;
                continue;
            }
            let plans = plans(&options)
                .map_err(|problem| fail(Some(section.line), format!("job `{}`: {problem}", section.name)))?;
            jobs.push(Job { name: section.name.to_owned(), options, plans });
            if jobs.iter().map(|job| job.plans.len() as u64).sum::<u64>() > PROCESSES {
                return Err(fail(Some(section.line), format!("there are more than {PROCESSES} processes")));
            }
        }
        if jobs.is_empty() {
            return Err(fail(None, "there is no job: a section such as [job] beside [global]".to_owned()));
        }
        Ok(Jobs { jobs })
    }

    /// Reads the job file at `path`.
    ///
    /// # Errors
    /// As [`Jobs::parse`]; a file that cannot be read.
    pub fn read(path: &Path) -> Result<Jobs, JobError> {
        let name = path.display().to_string();
        match traces::read_text(path) {
            Ok(text) => Jobs::parse(&name, &text),
            Err(error) => Err(JobError { name, line: None, problem: error.to_string() }),
        }
    }

    /// The names of the events, one for each job in their order: one of its processes has ended.
    pub(in crate::programs) fn events(&self) -> Vec<String> {
        self.jobs.iter().map(|job| format!("{} ends", job.name)).collect()
    }

    /// Creates the files, each in the size that the largest job on it needs, and returns the processes.
    pub(in crate::programs) fn processes(&self, files: &mut Files, seed: u64) -> Result<Processes, OutOfSpace> {
        let mut ends: BTreeMap<String, u64> = BTreeMap::new();
        for job in &self.jobs {
            for (copy, plan) in job.plans.iter().enumerate() {
                let end = ends.entry(job.file(copy)).or_default();
                *end = plan.end(&job.options).max(*end);
            }
        }
        let mut made = BTreeMap::new();
        let mut generators = Generators::new(seed);
        let mut processes: Processes = Vec::new();
        let mut group = Barrier::default();
        for (index, job) in self.jobs.iter().enumerate() {
            group.next(job.options.barrier);
            for (copy, &plan) in job.plans.iter().enumerate() {
                let key = job.file(copy);
                let file = match made.get(&key) {
                    Some(&file) => file,
                    None => files.create(0, Sectors::holding(ends[&key]))?,
                };
                made.insert(key, file);
                let mut generator = generators.take();
                if let Some(seed) = job.options.seed {
                    generator = Xoshiro256PlusPlus::seed_from_u64(generator.next_u64() ^ seed);
                }
                let ends = Event(index as u32);
                processes.push(Box::new(Process::new(&job.options, plan, file, ends, group.awaited(), generator)));
            }
            group.members.push(Step::Await(Event(index as u32), job.plans.len() as u64));
        }
        Ok(processes)
    }
}

/// The jobs that a job waits for: those of the group before its own, which wait for the ones before them.
#[derive(Default)]
struct Barrier {
    before: Vec<Step>,
    members: Vec<Step>,
}

impl Barrier {
    fn next(&mut self, begins_group: bool) {
        if begins_group && !self.members.is_empty() {
            self.before = std::mem::take(&mut self.members);
        }
    }

    fn awaited(&self) -> &[Step] {
        &self.before
    }
}

impl Job {
    /// The key of the file of a job: the name that fio gives it.
    fn file(&self, copy: usize) -> String {
        let directory = &self.options.directory;
        match &self.options.file {
            Some(file) => format!("{directory}/{file}"),
            None => format!("{directory}/{}.{copy}.0", self.name),
        }
    }
}

impl Plan {
    fn end(&self, options: &Options) -> u64 {
        (self.start + self.region).max(options.file_size.unwrap_or(0))
    }
}

struct Section<'a> {
    line: usize,
    name: &'a str,
    /// The line, name and value of its options.
    options: Vec<(usize, &'a str, &'a str)>,
}

impl Section<'_> {
    fn apply(&self, options: &mut Options) -> Result<(), (usize, String)> {
        // fio reads the base of unit prefixes before the values that depend on it.
        let (first, then): (Vec<_>, Vec<_>) = self.options.iter().copied().partition(|&(_, name, _)| name == "kb_base");
        for (line, name, value) in first.into_iter().chain(then) {
            set_option(options, name, value).map_err(|problem| (line, problem))?;
        }
        Ok(())
    }
}

/// The sections of a job file.
fn sections(text: &str) -> Result<Vec<Section<'_>>, (usize, String)> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    for (index, whole) in text.lines().enumerate() {
        let line = index + 1;
        let content = whole.split([';', '#']).next().unwrap_or("").trim();
        if content.is_empty() {
            continue;
        }
        if let Some(rest) = content.strip_prefix('[') {
            let name = rest.strip_suffix(']').filter(|name| !name.trim().is_empty());
            let name = name.ok_or_else(|| (line, format!("`{content}` is not a section such as [job]")))?;
            sections.push(Section { line, name: name.trim(), options: Vec::new() });
            continue;
        }
        if content.contains('$') {
            return Err((line, "variables such as ${SIZE} and $pagesize are not replaced; write the value".to_owned()));
        }
        let (name, value) = content.split_once('=').map_or((content, ""), |(name, value)| (name.trim(), value.trim()));
        let section =
            sections.last_mut().ok_or_else(|| (line, format!("`{content}` stands before the first section")))?;
        section.options.push((line, name, value));
    }
    Ok(sections)
}

/// The plans of a job's processes.
fn plans(options: &Options) -> Result<Vec<Plan>, String> {
    check(options)?;
    if options.copies > PROCESSES {
        return Err(format!("numjobs is above {PROCESSES}"));
    }
    (0..options.copies).map(|copy| plan(options, copy)).collect()
}

fn check(options: &Options) -> Result<(), String> {
    let used = || (0..3).filter(|&direction| options.kind.has(direction));
    let least = |direction: usize| shortest(&options.lengths[direction]);
    if options.time_based && options.runtime_us == 0 {
        return Err("time_based needs a runtime".to_owned());
    }
    for direction in used().filter(|&direction| options.direct || direction == 2) {
        let lengths = options.lengths[direction].iter().map(|&(bytes, _)| bytes);
        if let Some(bytes) = lengths.chain(options.align[direction]).find(|bytes| bytes % SECTOR_BYTES != 0) {
            return Err(format!("accesses past the page cache are whole sectors: {bytes} is not a multiple of 512"));
        }
    }
    let mut lengths = used().map(least);
    let first = lengths.next();
    if options.random && options.maps() && lengths.any(|length| Some(length) != first) {
        let problem = "with different bs for its directions fio's map of visited blocks ends a random job early";
        return Err(format!("{problem}; give norandommap"));
    }
    Ok(())
}

fn plan(options: &Options, copy: u64) -> Result<Plan, String> {
    let share = |amount: Amount, name: &str| match (amount, options.file_size) {
        (Amount::Percent(_), None) => Err(format!("{name} as a percentage needs filesize")),
        (amount, file_size) => Ok(amount.of(file_size.unwrap_or(0))),
    };
    let increment = share(options.offset_increment, "offset_increment")?.checked_mul(copy);
    let too_far = || format!("offset and size lie beyond {FILE_BYTES} bytes");
    let offset = share(options.offset, "offset")?;
    let start = increment.and_then(|increment| offset.checked_add(increment)).ok_or_else(too_far)?;
    let least =
        (0..3).filter(|&direction| options.kind.has(direction)).map(|direction| shortest(&options.lengths[direction]));
    let least = least.max().unwrap_or(1);
    let (region, size) = match (options.size, options.file_size) {
        (None, None) => return Err("size is missing".to_owned()),
        (Some(Amount::Percent(_)), None) => return Err("size as a percentage needs filesize".to_owned()),
        (Some(Amount::Bytes(size)), None) => (size, size),
        (size, Some(file_size)) => {
            let behind = file_size.checked_sub(start).ok_or("offset lies behind the end of the file")?;
            match size {
                None => (behind, behind),
                Some(Amount::Bytes(size)) => (behind, size.min(behind)),
                Some(percent) => {
                    let region = percent.of(file_size).min(behind);
                    (region - region % least, region - region % least)
                }
            }
        }
    };
    if start.checked_add(region).is_none_or(|end| end > FILE_BYTES) {
        return Err(too_far());
    }
    if options.direct && start % SECTOR_BYTES != 0 {
        return Err(format!("accesses past the page cache are whole sectors: offset {start} is not a multiple of 512"));
    }
    if size < least {
        return Err(format!("size is too small: {size} bytes, and a block has {least}"));
    }
    let limit = options.io_size.map_or(size, |io_size| io_size.of(size)).saturating_mul(options.loops);
    Ok(Plan { start, region, limit })
}
