//! The reads of a file system that opens a file, a simplified model of ext3 (Linux 2.6.30 `fs/ext3/namei.c`,
//! `inode.c`). Two blocks are read through the page cache and without read-ahead. One is the block of the directory
//! that holds the name, the other the block of the inode table that holds the inode. Inode tables lie at the start of
//! the block groups; directories lie among the files.
//!
//! Approximated: names are spread evenly over the blocks of a directory, as their hashes are. Left out: parent
//! directories, indirect blocks, and updates of access times (`noatime`).

use traces::{Flags, Sectors};

use super::files::{BLOCK, FileId, Files, OutOfSpace};
use super::program::Access;

/// Inodes in a block; an inode has 256 bytes, the default of `mke2fs` since 2008.
const INODES_PER_BLOCK: u32 = 16;

/// Names in a block of a directory: entries of about 24 bytes in blocks that are three quarters full.
const NAMES_PER_BLOCK: u32 = 128;

/// The directories and inode tables of a guest's file system.
#[derive(Clone, Debug)]
pub struct Metadata {
    directories: Vec<FileId>,
    /// The inode table of each group that has directories.
    tables: Vec<FileId>,
    names_per_directory: u32,
}

impl Metadata {
    /// Allocates the directories and the inode tables in an empty file system, for `names_per_directory` names in each
    /// directory.
    ///
    /// # Errors
    /// The disk is too small.
    pub fn new(files: &mut Files, directories: u32, names_per_directory: u32) -> Result<Metadata, OutOfSpace> {
        // Groups without directories have no inodes.
        let groups = files.groups().min(directories.max(1));
        let per_group = directories.div_ceil(groups).saturating_mul(names_per_directory);
        let blocks = |count: u32| Sectors::new(u64::from(count.max(1)) * BLOCK.count());
        let table = blocks(per_group.div_ceil(INODES_PER_BLOCK));
        let tables = (0..groups).map(|group| files.create(group, table)).collect::<Result<_, _>>()?;
        let length = blocks(names_per_directory.div_ceil(NAMES_PER_BLOCK));
        let directories = (0..directories).map(|number| files.create(number, length)).collect::<Result<_, _>>()?;
        Ok(Metadata { directories, tables, names_per_directory })
    }

    /// The reads that open the file with this number. Numbers count over the directories one after another.
    pub fn to_open(&self, name: u32) -> [Access; 2] {
        let directory = name / self.names_per_directory % self.directories.len() as u32;
        let within = name % self.names_per_directory;
        let leaves = self.names_per_directory.div_ceil(NAMES_PER_BLOCK).max(1);
        // A multiplicative hash (Knuth): evenly spread and equal on all platforms.
        let leaf = ((u64::from(within.wrapping_mul(2_654_435_769)) * u64::from(leaves)) >> 32) as u32;
        let groups = self.tables.len() as u32;
        let inode = directory / groups * self.names_per_directory + within;
        let block = |file: FileId, block: u32| {
            let mut access = Access::read(file, Sectors::new(u64::from(block) * BLOCK.count()), BLOCK);
            access.flags = Flags::META;
            access
        };
        [
            block(self.directories[directory as usize], leaf),
            block(self.tables[(directory % groups) as usize], inode / INODES_PER_BLOCK),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_names_share_an_inode_block_and_accesses_lie_within_their_files() {
        let mut files = Files::new(Sectors::new(8 * 32_768 * 3));
        let metadata = Metadata::new(&mut files, 7, 300).unwrap();
        let [leaf, inode] = metadata.to_open(0);
        assert_eq!(metadata.to_open(15)[1], inode);
        assert_ne!(metadata.to_open(16)[1], inode);
        assert_eq!(metadata.to_open(15)[0].file, leaf.file);
        assert_ne!(metadata.to_open(300)[0].file, leaf.file);
        let mut leaves = [0; 3];
        for name in 0..2100 {
            for access in metadata.to_open(name) {
                assert!(access.offset + access.sectors <= files.size(access.file));
            }
            if name < 300 {
                leaves[(metadata.to_open(name)[0].offset.count() / 8) as usize] += 1;
            }
        }
        assert!(leaves.iter().all(|&names| (80..120).contains(&names)), "{leaves:?}");
    }

    #[test]
    fn one_directory_needs_one_inode_table() {
        let mut files = Files::new(Sectors::new(8 * 32_768 * 9));
        let all = files.free_blocks();
        let metadata = Metadata::new(&mut files, 1, 1600).unwrap();
        // 100 blocks of 16 inodes, and 13 of 128 names.
        assert_eq!(all - files.free_blocks(), 113);
        assert_eq!(metadata.to_open(1599)[1].offset, Sectors::new(99 * 8));
    }

    #[test]
    fn inode_tables_stand_at_the_start_of_the_groups() {
        let mut files = Files::new(Sectors::new(8 * 32_768 * 3));
        let metadata = Metadata::new(&mut files, 3, 100).unwrap();
        for (group, name) in [(0, 0), (1, 100), (2, 200)] {
            let inode = metadata.to_open(name)[1];
            let lba = files.extent_at(inode.file, inode.offset).unwrap().lba;
            assert_eq!(lba.sector(), group * 32_768 * 8);
        }
    }
}
