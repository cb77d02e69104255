//! The workload of Geist, Jones and Westall 2010, section 5 (`surge`, after Barford and Crovella's reference
//! generator). It has 50 processes that read files with the sizes and the popularity of those of a web server. They
//! read page by page, with a short sleep after each page.
//!
//! The paper leaves several properties open. These are tunables of the image or of the workload. They are the spread of
//! files over directories, the choice of the popular files, and the length of sleeps in a guest whose disk is slowed
//! down.

use std::sync::Arc;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::{Nanos, Sectors, Timestamp};

use crate::guest::files::BLOCK;
use crate::guest::metadata::Metadata;
use crate::guest::{Access, FileId, Files, OutOfSpace, Program, Step};

pub mod distributions;

use distributions::{FileSizes, pareto, zipf};

/// The assignment of popularity ranks to files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Popularity {
    /// By name: the most popular files share a directory.
    ByName,
    /// At random: popular files are in any directory.
    Shuffled,
}

/// The parameters of the file system image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageSettings {
    /// The number of files.
    pub files: u32,
    /// The number of directories, which are filled one after another.
    pub directories: u32,
    /// How popularity ranks are assigned to files.
    pub popularity: Popularity,
    /// Whether file sizes are whole pages, so that the last page is read as a whole.
    pub whole_pages: bool,
    /// Whether opening a file reads its name and its inode ([`Metadata`]).
    pub metadata: bool,
    /// The capacity of the disk.
    pub capacity: Sectors,
    /// The seed of its generator.
    pub seed: u64,
}

/// A file system aged as in the paper: filled, then half of the files are removed at random and the same number of
/// files of new sizes is added.
#[derive(Clone, Debug)]
pub struct Image {
    /// The file system.
    pub files: Files,
    /// The file of each rank, the most popular first.
    pub ranked: Vec<Ranked>,
    /// The metadata that is read to open them, if any is.
    pub metadata: Option<Metadata>,
}

/// The files that were added to a file system.
#[derive(Clone, Debug)]
pub struct Content {
    /// The file of each rank, the most popular first.
    pub ranked: Vec<Ranked>,
    /// The metadata that is read to open them, if any is.
    pub metadata: Option<Metadata>,
}

/// A file and the number of its name.
#[derive(Clone, Copy, Debug)]
pub struct Ranked {
    /// The file.
    pub file: FileId,
    /// The number of its name, counted over the directories.
    pub name: u32,
}

impl Image {
    /// Creates the file system on a new disk.
    ///
    /// # Errors
    /// It is too small.
    pub fn build(settings: &ImageSettings) -> Result<Image, OutOfSpace> {
        let mut files = Files::new(settings.capacity);
        let Content { ranked, metadata } = Content::fill(settings, &mut files)?;
        Ok(Image { files, ranked, metadata })
    }
}

impl Content {
    /// Adds the files to an existing file system, whose capacity replaces that of the settings. Its other files stay.
    ///
    /// # Errors
    /// It is too small.
    pub fn fill(settings: &ImageSettings, files: &mut Files) -> Result<Content, OutOfSpace> {
        let mut generator = Xoshiro256PlusPlus::seed_from_u64(settings.seed);
        let per_directory = settings.files.div_ceil(settings.directories).max(1);
        let metadata = match settings.metadata {
            true => Some(Metadata::new(files, settings.directories, per_directory)?),
            false => None,
        };
        let create = |files: &mut Files, generator: &mut _, name: u32| {
            let bytes = FileSizes::SURGE.draw(generator);
            let unit = if settings.whole_pages { BLOCK } else { Sectors::new(1) };
            let sectors = Sectors::new(bytes.div_ceil(unit.bytes()) * unit.count());
            files.create(name / per_directory, sectors).map(|file| Ranked { file, name })
        };
        let mut ranked = Vec::with_capacity(settings.files as usize);
        for name in 0..settings.files {
            ranked.push(create(files, &mut generator, name)?);
        }
        let mut names: Vec<u32> = (0..settings.files).collect();
        names.shuffle(&mut generator);
        let erased = &names[..names.len() / 2];
        for &name in erased {
            files.remove(ranked[name as usize].file);
        }
        for &name in erased {
            ranked[name as usize] = create(files, &mut generator, name)?;
        }
        if settings.popularity == Popularity::Shuffled {
            ranked.shuffle(&mut generator);
        }
        Ok(Content { ranked, metadata })
    }
}

/// The parameters of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaderSettings {
    /// Whether files are opened with `O_DIRECT` (the paper's first workload).
    pub direct: bool,
    /// The length of sleeps in thousandths of those in the paper. 1000 is that of the real system. 125 models, on a
    /// disk of normal speed, a guest whose disk is slowed down eight times and whose sleeps are not.
    pub sleep_scale: u32,
}

/// One process of the workload.
pub struct Reader {
    ranked: Arc<[Ranked]>,
    metadata: Option<Arc<Metadata>>,
    settings: ReaderSettings,
    generator: Xoshiro256PlusPlus,
    /// The files left to read in this round.
    files_left: u64,
    /// The second of the two accesses that open a file.
    opening: Option<Access>,
    file: FileId,
    page: u64,
    pages: u64,
    has_read: bool,
}

impl Reader {
    /// The process with this number, from 0.
    pub fn new(
        ranked: Arc<[Ranked]>,
        metadata: Option<Arc<Metadata>>,
        settings: ReaderSettings,
        seed: u64,
        number: u64,
    ) -> Reader {
        let mut generator = Xoshiro256PlusPlus::seed_from_u64(seed);
        for _ in 0..number {
            generator.jump();
        }
        Reader {
            ranked,
            metadata,
            opening: None,
            settings,
            generator,
            files_left: 0,
            file: FileId(0),
            page: 0,
            pages: 0,
            has_read: false,
        }
    }
}

impl Program for Reader {
    fn step(&mut self, _now: Timestamp, files: &mut Files) -> Result<Step, OutOfSpace> {
        if std::mem::take(&mut self.has_read) {
            let scale = f64::from(self.settings.sleep_scale);
            let ns = pareto(&mut self.generator, 1.5, 2.0, |ms| ms * 1000.0 * scale);
            return Ok(Step::Sleep(Nanos::from_ns(ns)));
        }
        if let Some(second) = self.opening.take() {
            return Ok(Step::Access(second));
        }
        if self.page == self.pages {
            while self.files_left == 0 {
                self.files_left = pareto(&mut self.generator, 2.43, 1.0, |files| files);
            }
            self.files_left -= 1;
            let Ranked { file, name } = self.ranked[zipf(&mut self.generator, self.ranked.len() as u32) as usize];
            (self.file, self.page) = (file, 0);
            self.pages = files.size(file).count().div_ceil(BLOCK.count());
            if let Some(metadata) = &self.metadata {
                let [first, second] = metadata.to_open(name);
                self.opening = Some(second);
                return Ok(Step::Access(first));
            }
        }
        let offset = Sectors::new(self.page * BLOCK.count());
        // The last page of a file may be a part of one.
        let rest = files.size(self.file).count() - offset.count();
        let access = Access::read(self.file, offset, BLOCK.min(Sectors::new(rest)));
        self.page += 1;
        self.has_read = true;
        Ok(Step::Access(if self.settings.direct { access.direct() } else { access }))
    }
}
