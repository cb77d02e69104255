//! The files of a guest and their extents, which an allocator after ext3 assigns. File names and directories are not
//! stored; [`super::metadata`] and [`super::journal`] model the reads and writes of a file system about its files.

use traces::{Lba, Sectors};

use super::allocator::{Allocator, Run};

/// Sectors of a block, the unit of allocation: 4 KiB.
pub const BLOCK: Sectors = Sectors::new(8);

/// Blocks of metadata that the creation or removal of a file changes: those of its directory and of its inode.
const CHANGED_BY_NAME: u64 = 2;

/// Blocks of metadata that the growth of a file changes: that of its inode and of the bitmap.
const CHANGED_BY_GROWTH: u64 = 2;

/// A file of a guest: an index, small and dense.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

/// A contiguous part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The sector on the disk of the guest where it begins.
    pub lba: Lba,
    /// Its length.
    pub sectors: Sectors,
}

/// The disk has no free block left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the file system of {capacity} sectors is full: a larger disk or fewer or smaller files are needed")]
pub struct OutOfSpace {
    /// The capacity of the disk of the guest.
    pub capacity: Sectors,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Placed {
    /// The first block of the run within the file.
    logical: u32,
    run: Run,
}

/// Most files have one extent, so that one is stored in place.
#[derive(Clone, Debug, Default)]
struct File {
    sectors: u64,
    directory: u32,
    blocks: u32,
    first: Run,
    #[expect(clippy::box_collection, reason = "a million files: eight bytes each instead of 24")]
    more: Option<Box<Vec<Placed>>>,
    exists: bool,
}

/// The files on the disk of a guest.
#[derive(Clone, Debug)]
pub struct Files {
    files: Vec<File>,
    removed: Vec<FileId>,
    allocator: Allocator,
    capacity: Sectors,
    runs: Vec<Run>,
    freed: Vec<(FileId, Run)>,
    changes: u64,
}

impl Files {
    /// An empty file system on a disk of `capacity`, of which whole blocks are used.
    ///
    /// # Panics
    /// If it has 2^32 blocks (16 TiB) or more.
    pub fn new(capacity: Sectors) -> Files {
        let blocks = capacity.count() / BLOCK.count();
        let blocks = u32::try_from(blocks).expect("a guest's disk is below 16 TiB");
        Files {
            files: Vec::new(),
            removed: Vec::new(),
            allocator: Allocator::new(blocks),
            capacity,
            runs: Vec::new(),
            freed: Vec::new(),
            changes: 0,
        }
    }

    /// A disk without a file system: one file, which is the whole disk.
    ///
    /// # Panics
    /// If it has 2^32 blocks (16 TiB) or more.
    pub fn raw_device(capacity: Sectors) -> (Files, FileId) {
        let mut files = Files::new(capacity);
        let whole = Sectors::new(capacity.count() / BLOCK.count() * BLOCK.count());
        let device = files.create(0, whole).expect("an empty disk has its whole capacity free");
        (files, device)
    }

    /// Creates a file of this size in a directory; the files of a directory lie near one another. Ids of removed files
    /// are reused, the last removed first.
    ///
    /// # Errors
    /// The disk is full; then nothing has changed.
    pub fn create(&mut self, directory: u32, sectors: Sectors) -> Result<FileId, OutOfSpace> {
        let id = self.removed.pop().unwrap_or(FileId(self.files.len() as u32));
        if id.0 as usize == self.files.len() {
            self.files.push(File::default());
        }
        self.files[id.0 as usize] = File { directory, exists: true, ..File::default() };
        if let Err(full) = self.grow(id, sectors) {
            self.files[id.0 as usize].exists = false;
            self.removed.push(id);
            return Err(full);
        }
        self.changes += CHANGED_BY_NAME;
        Ok(id)
    }

    /// Makes the file at least this large.
    ///
    /// # Errors
    /// The disk is full; then nothing has changed.
    ///
    /// # Panics
    /// If there is no such file; the same holds for the other methods.
    pub fn grow(&mut self, id: FileId, sectors: Sectors) -> Result<(), OutOfSpace> {
        let full = OutOfSpace { capacity: self.capacity };
        let file = &self.files[id.0 as usize];
        assert!(file.exists, "there is no file {}", id.0);
        let needed = sectors.count().div_ceil(BLOCK.count()).saturating_sub(u64::from(file.blocks));
        let needed = u32::try_from(needed).map_err(|_| full)?;
        if needed > 0 {
            let goal = match self.last_run(id) {
                Some(run) => run.end(),
                None => self.allocator.home_of(file.directory),
            };
            self.runs.clear();
            if !self.allocator.allocate(goal, needed, &mut self.runs) {
                return Err(full);
            }
            for index in 0..self.runs.len() {
                self.append(id, self.runs[index]);
            }
            self.changes += CHANGED_BY_GROWTH;
        }
        let file = &mut self.files[id.0 as usize];
        file.sectors = file.sectors.max(sectors.count());
        Ok(())
    }

    /// Removes the file and frees its blocks.
    pub fn remove(&mut self, id: FileId) {
        let file = std::mem::take(&mut self.files[id.0 as usize]);
        assert!(file.exists, "there is no file {}", id.0);
        let runs = file.more.iter().flat_map(|more| more.iter()).map(|placed| placed.run);
        for run in (file.blocks > 0).then_some(file.first).into_iter().chain(runs) {
            self.allocator.free(run);
            self.freed.push((id, run));
        }
        self.changes += CHANGED_BY_NAME;
        self.removed.push(id);
    }

    /// Whether runs have been freed since the last call of [`Files::drain_freed`].
    pub(crate) fn has_freed(&self) -> bool {
        !self.freed.is_empty()
    }

    /// Calls `each` with the file, the first block and the number of blocks of every run freed since the last call.
    pub(crate) fn drain_freed(&mut self, mut each: impl FnMut(FileId, u32, u32)) {
        for (file, run) in self.freed.drain(..) {
            each(file, run.block, run.blocks);
        }
    }

    /// Whether metadata has changed since the last call of [`Files::take_changes`].
    pub(crate) fn has_changes(&self) -> bool {
        self.changes > 0
    }

    /// The number of blocks of metadata changed since the last call; a block changed twice counts as two.
    pub(crate) fn take_changes(&mut self) -> u64 {
        std::mem::take(&mut self.changes)
    }

    /// The size of a file.
    pub fn size(&self, id: FileId) -> Sectors {
        Sectors::new(self.files[id.0 as usize].sectors)
    }

    /// The number of extents of a file.
    pub fn pieces(&self, id: FileId) -> usize {
        let file = &self.files[id.0 as usize];
        usize::from(file.blocks > 0) + file.more.as_ref().map_or(0, |more| more.len())
    }

    /// The number of files.
    pub fn count(&self) -> usize {
        self.files.len() - self.removed.len()
    }

    /// The number of free blocks.
    pub fn free_blocks(&self) -> u64 {
        self.allocator.free_blocks()
    }

    /// The number of block groups of the disk.
    pub fn groups(&self) -> u32 {
        self.allocator.groups()
    }

    /// The capacity of the disk.
    pub fn capacity(&self) -> Sectors {
        self.capacity
    }

    /// The extent of the file from `offset` on: the rest of the run that holds that sector, cut at the end of the file.
    /// `None` at or after the end.
    pub fn extent_at(&self, id: FileId, offset: Sectors) -> Option<Extent> {
        let file = &self.files[id.0 as usize];
        let left = file.sectors.checked_sub(offset.count()).filter(|&left| left > 0)?;
        let block = (offset.count() / BLOCK.count()) as u32;
        let (logical, run) = if block < file.first.blocks {
            (0, file.first)
        } else {
            let more = file.more.as_ref().expect("a file has a block for every sector");
            let placed = more[more.partition_point(|placed| placed.logical <= block) - 1];
            (placed.logical, placed.run)
        };
        let within = offset.count() - u64::from(logical) * BLOCK.count();
        let sectors = (u64::from(run.blocks) * BLOCK.count() - within).min(left);
        Some(Extent { lba: Lba::new(u64::from(run.block) * BLOCK.count() + within), sectors: Sectors::new(sectors) })
    }

    fn last_run(&self, id: FileId) -> Option<Run> {
        let file = &self.files[id.0 as usize];
        let last = file.more.as_ref().and_then(|more| more.last()).map(|placed| placed.run);
        last.or((file.blocks > 0).then_some(file.first))
    }

    fn append(&mut self, id: FileId, run: Run) {
        let file = &mut self.files[id.0 as usize];
        let logical = file.blocks;
        file.blocks += run.blocks;
        let last = match file.more.as_mut().and_then(|more| more.last_mut()) {
            Some(placed) => &mut placed.run,
            None => &mut file.first,
        };
        if logical == 0 {
            *last = run;
        } else if last.end() == run.block {
            last.blocks += run.blocks;
        } else {
            file.more.get_or_insert_default().push(Placed { logical, run });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lbas(files: &Files, id: FileId) -> Vec<u64> {
        let mut offset = Sectors::ZERO;
        let mut lbas = Vec::new();
        while let Some(extent) = files.extent_at(id, offset) {
            lbas.extend((0..extent.sectors.count()).map(|index| extent.lba.sector() + index));
            offset += extent.sectors;
        }
        lbas
    }

    #[test]
    fn raw_device_is_one_file_at_the_addresses_of_the_disk() {
        let (files, device) = Files::raw_device(Sectors::new(8003));
        assert_eq!(files.size(device), Sectors::new(8000));
        let extent = files.extent_at(device, Sectors::new(17)).unwrap();
        assert_eq!(extent, Extent { lba: Lba::new(17), sectors: Sectors::new(7983) });
        assert_eq!(files.extent_at(device, Sectors::new(8000)), None);
    }

    #[test]
    fn full_disk_is_reported_and_nothing_changes() {
        let mut files = Files::new(Sectors::new(800));
        let file = files.create(0, Sectors::new(400)).unwrap();
        assert_eq!(files.create(0, Sectors::new(401)), Err(OutOfSpace { capacity: Sectors::new(800) }));
        assert_eq!(files.grow(file, Sectors::new(801)), Err(OutOfSpace { capacity: Sectors::new(800) }));
        assert_eq!((files.free_blocks(), files.count(), files.size(file)), (50, 1, Sectors::new(400)));
        files.remove(file);
        let (_, all) = (files.count(), files.create(3, Sectors::new(800)).unwrap());
        assert_eq!((all, files.free_blocks()), (file, 0), "an identity is used again");
    }

    #[test]
    fn file_that_fills_a_hole_has_several_extents() {
        let mut files = Files::new(Sectors::new(8 * 100));
        let created: Vec<FileId> = (0..10).map(|_| files.create(0, Sectors::new(80)).unwrap()).collect();
        files.remove(created[3]);
        files.remove(created[6]);
        let file = files.create(0, Sectors::new(8 * 15)).unwrap();
        assert_eq!(files.pieces(file), 2);
        let expected: Vec<u64> = (240..320).chain(480..520).collect();
        assert_eq!(lbas(&files, file), expected);
    }

    proptest! {
        /// No sector belongs to two files, no sector is lost, and a file keeps its sectors when it grows.
        #[test]
        fn files_share_no_sector_and_lose_none(
            steps in prop::collection::vec((0_u8..4, 0_usize..20, 0_u32..4, 1_u64..400), 1..120),
        ) {
            let capacity = 8 * 600;
            let mut files = Files::new(Sectors::new(capacity));
            let mut known: Vec<(FileId, Vec<u64>)> = Vec::new();
            for (kind, pick, directory, sectors) in steps {
                let sectors = Sectors::new(sectors);
                match kind {
                    0 | 1 => if let Ok(id) = files.create(directory, sectors) {
                        known.push((id, lbas(&files, id)));
                    },
                    2 if !known.is_empty() => {
                        let index = pick % known.len();
                        let id = known[index].0;
                        let size = files.size(id) + sectors;
                        if files.grow(id, size).is_ok() {
                            let now = lbas(&files, id);
                            prop_assert_eq!(now.len() as u64, size.count());
                            prop_assert_eq!(&now[..known[index].1.len()], &known[index].1[..]);
                            known[index].1 = now;
                        }
                    }
                    3 if !known.is_empty() => {
                        let (id, _) = known.remove(pick % known.len());
                        files.remove(id);
                    }
                    _ => {}
                }
                let mut all: Vec<u64> = known.iter().flat_map(|(_, lbas)| lbas.iter().map(|lba| lba / 8)).collect();
                all.sort_unstable();
                let mut blocks = 0;
                for (id, lbas) in &known {
                    prop_assert_eq!(&self::lbas(&files, *id), lbas);
                    blocks += lbas.len().div_ceil(8) as u64;
                }
                all.dedup();
                prop_assert_eq!(all.len() as u64, blocks);
                prop_assert!(all.last().is_none_or(|&last| last < capacity / 8));
                prop_assert_eq!(files.free_blocks(), capacity / 8 - blocks);
            }
        }
    }
}
