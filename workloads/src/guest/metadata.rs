//! What a file system reads to open a file, a named approximation of ext3's (Linux 2.6.30
//! `fs/ext3/namei.c`, `inode.c`): the block of its directory that holds its name and the block of the
//! inode table that holds its inode, both through the page cache and without read-ahead. Inode tables
//! stand at the start of the block groups; directories lie among the files.
//!
//! Approximated: names are spread over a directory's blocks evenly, as their hashes are. Left out:
//! the directories above, indirect blocks, and updates of access times (`noatime`).

use traces::{Flags, Sectors};

use super::files::{BLOCK, FileId, Files, OutOfSpace};
use super::program::Access;

/// Inodes in a block: of 256 bytes, the default of `mke2fs` since 2008.
const INODES_PER_BLOCK: u32 = 16;

/// Names in a block of a directory: entries of about 24 bytes, three quarters full.
const NAMES_PER_BLOCK: u32 = 128;

/// Directories and inode tables of a guest's file system.
#[derive(Clone, Debug)]
pub struct Metadata {
    directories: Vec<FileId>,
    /// The inode table of each group that has directories.
    tables: Vec<FileId>,
    names_per_directory: u32,
}

impl Metadata {
    /// Takes from an empty file system what so many directories of so many names and their inodes need.
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

    /// What is read to open the file with this number, counted over the directories one after another.
    pub fn to_open(&self, name: u32) -> [Access; 2] {
        let directory = name / self.names_per_directory % self.directories.len() as u32;
        let within = name % self.names_per_directory;
        let leaves = self.names_per_directory.div_ceil(NAMES_PER_BLOCK).max(1);
        // A multiplicative hash (Knuth): evenly spread and the same everywhere.
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
    fn neighbours_in_a_directory_share_a_block_of_inodes_and_every_access_lies_in_its_file() {
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
    fn one_directory_takes_one_inode_table() {
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
