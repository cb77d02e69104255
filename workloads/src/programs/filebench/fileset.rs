//! A set of files that the threads of a personality share. Some of the files exist, the others are yet to be created.

use rand::{Rng, RngExt};
use traces::Sectors;

use super::gamma::gamma;
use crate::guest::files::{FileId, Files, OutOfSpace};

/// The shape of the distribution of file sizes (`cvar-gamma`, `gamma:1.5`).
const SHAPE: f64 = 1.5;

/// The parameters of a set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Design {
    pub(super) entries: u64,
    pub(super) mean_bytes: u64,
    pub(super) files_per_directory: u64,
    /// The percentage of files that exist at the start.
    pub(super) preallocated: u64,
}

/// A file of the set, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry(usize);

impl Entry {
    /// The number of its name, counted over the directories.
    pub(super) fn name(self) -> u32 {
        self.0 as u32
    }
}

#[derive(Clone, Copy, Debug)]
struct Member {
    directory: u32,
    /// Its size in bytes when it is written as a whole.
    bytes: u64,
    /// Its current size in bytes.
    length: u64,
    file: Option<FileId>,
}

/// A set of files.
#[derive(Debug)]
pub(super) struct Fileset {
    members: Vec<Member>,
    /// Files that exist and that no thread has open.
    idle: Vec<Entry>,
    /// Files that do not exist.
    absent: Vec<Entry>,
    log: FileId,
    log_bytes: u64,
}

impl Fileset {
    /// Creates the set with those of its files that exist, and a log of one mean file size.
    pub(super) fn new(design: Design, files: &mut Files, generator: &mut impl Rng) -> Result<Fileset, OutOfSpace> {
        let mut members = Vec::with_capacity(design.entries as usize);
        let (mut idle, mut absent) = (Vec::new(), Vec::new());
        for index in 0..design.entries {
            let directory = (index / design.files_per_directory) as u32;
            let bytes = (gamma(generator, SHAPE, design.mean_bytes as f64) as u64).max(1);
            let exists = (index + 1) * design.preallocated / 100 > index * design.preallocated / 100;
            let mut member = Member { directory, bytes, length: 0, file: None };
            if exists {
                member.length = bytes;
                member.file = Some(files.create(directory, Sectors::holding(bytes))?);
            }
            if exists { &mut idle } else { &mut absent }.push(Entry(members.len()));
            members.push(member);
        }
        let directories = design.entries.div_ceil(design.files_per_directory) as u32;
        let log = files.create(directories, Sectors::holding(design.mean_bytes))?;
        Ok(Fileset { members, idle, absent, log, log_bytes: design.mean_bytes })
    }

    /// Opens an existing file that no thread has open.
    ///
    /// # Panics
    /// If there is none. The ranges of the tunables keep sets larger than the number of threads.
    pub(super) fn open(&mut self, generator: &mut impl Rng) -> Entry {
        self.idle.swap_remove(generator.random_range(0..self.idle.len()))
    }

    /// An existing file that no thread has open; it is not opened.
    ///
    /// # Panics
    /// As [`Fileset::open`].
    pub(super) fn any(&self, generator: &mut impl Rng) -> Entry {
        self.idle[generator.random_range(0..self.idle.len())]
    }

    /// Creates and opens a file that does not exist; it is empty.
    ///
    /// # Panics
    /// As [`Fileset::open`].
    pub(super) fn create(&mut self, files: &mut Files, generator: &mut impl Rng) -> Result<Entry, OutOfSpace> {
        let chosen = generator.random_range(0..self.absent.len());
        let member = &mut self.members[self.absent[chosen].0];
        member.file = Some(files.create(member.directory, Sectors::ZERO)?);
        member.length = 0;
        Ok(self.absent.swap_remove(chosen))
    }

    pub(super) fn close(&mut self, entry: Entry) {
        self.idle.push(entry);
    }

    /// Removes an existing file that no thread has open; returns it.
    pub(super) fn delete(&mut self, files: &mut Files, generator: &mut impl Rng) -> Entry {
        let entry = self.open(generator);
        if let Some(file) = self.members[entry.0].file.take() {
            files.remove(file);
        }
        self.absent.push(entry);
        entry
    }

    /// An open file and its current size in bytes.
    pub(super) fn file(&self, entry: Entry) -> (FileId, u64) {
        let member = &self.members[entry.0];
        (member.file.expect("an open file exists"), member.length)
    }

    /// The size in bytes of the file when it is written as a whole.
    pub(super) fn whole(&self, entry: Entry) -> u64 {
        self.members[entry.0].bytes
    }

    /// Sets the size of an open file.
    pub(super) fn set_length(&mut self, entry: Entry, bytes: u64, files: &mut Files) -> Result<(), OutOfSpace> {
        let (file, _) = self.file(entry);
        files.grow(file, Sectors::holding(bytes))?;
        self.members[entry.0].length = bytes;
        Ok(())
    }

    /// Extends the log by this number of bytes; returns the log and the offset of the new bytes.
    pub(super) fn extend_log(&mut self, bytes: u64, files: &mut Files) -> Result<(FileId, u64), OutOfSpace> {
        let offset = self.log_bytes;
        files.grow(self.log, Sectors::holding(offset + bytes))?;
        self.log_bytes = offset + bytes;
        Ok((self.log, offset))
    }
}
