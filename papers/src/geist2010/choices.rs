//! What the paper does not say. Each choice was made once, by which value brings the columns of the
//! virtual machine in Table 2 nearest to the paper's, and then kept; Table 3 and all columns of the
//! real machine judge it.

use traces::Sectors;

use super::run::{GEOMETRY, Machine};
use workloads::surge::{ImageSettings, Popularity};

/// Whose time something passes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The guest's: the throttle does not slow it down, so that it is an eighth in the real disk's scale.
    Guest,
    /// The disk's: it is slowed down with the disk.
    Disk,
}

/// All of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choices {
    /// What the busdriver delay delays.
    pub busdriver: &'static str,
    /// Whose time the schedulers' timers pass in, on the virtual machine.
    pub timers: Clock,
    /// Whose time the processes' sleeps pass in, there.
    pub sleeps: Clock,
    /// Whether popular files share directories.
    pub popularity: Popularity,
    /// Directories at the second level.
    pub directories: u32,
    /// Whether opening a file reads its name and its inode.
    pub metadata: bool,
    /// Whether hits fill the cache of the line's model.
    pub fill_on_hit: bool,
    /// Whether the last page of a file is read whole.
    pub whole_pages: bool,
    /// The geometry of the shadow cache that predictions are counted with.
    pub geometry: (usize, u64, u64),
}

impl Choices {
    /// What was chosen.
    pub const FROZEN: Choices = Choices {
        busdriver: "between-tables",
        timers: Clock::Guest,
        sleeps: Clock::Guest,
        popularity: Popularity::ByName,
        directories: 1000,
        metadata: true,
        fill_on_hit: false,
        whole_pages: true,
        geometry: GEOMETRY,
    };

    /// The file system they make.
    pub fn image(&self, files: u32, capacity: Sectors, seed: u64) -> ImageSettings {
        ImageSettings {
            files,
            directories: self.directories,
            popularity: self.popularity,
            metadata: self.metadata,
            whole_pages: self.whole_pages,
            capacity,
            seed,
        }
    }

    /// The drive of a machine. A hit of the real one takes 100 µs: as the paper marks every service
    /// time below 250 µs as a hit, and that includes the wait behind the request before, a hit
    /// behind a hit must take less than 125.
    pub fn drive(&self, machine: Machine) -> String {
        match machine {
            Machine::Real => "cheetah-15k4-mechanical:read_hit=100us,read_hit_sequential=100us".to_owned(),
            Machine::Virtual => {
                format!("cheetah-15k4:fill_on_hit={}", if self.fill_on_hit { "on" } else { "off" })
            }
        }
    }

    /// Every other value of every choice, with the name of the choice and of the value.
    pub fn alternatives() -> Vec<(&'static str, &'static str, Choices)> {
        let frozen = Choices::FROZEN;
        vec![
            ("busdriver delay", "before each table", Choices { busdriver: "before-table", ..frozen }),
            ("busdriver delay", "after completions", Choices { busdriver: "after-completion", ..frozen }),
            ("schedulers' timers", "slowed down with the disk", Choices { timers: Clock::Disk, ..frozen }),
            ("processes' sleeps", "slowed down with the disk", Choices { sleeps: Clock::Disk, ..frozen }),
            ("popular files", "anywhere", Choices { popularity: Popularity::Shuffled, ..frozen }),
            ("directories", "100", Choices { directories: 100, ..frozen }),
            ("directories", "10000", Choices { directories: 10_000, ..frozen }),
            ("opening a file", "reads nothing", Choices { metadata: false, ..frozen }),
            ("a hit in the line's cache", "fills a segment", Choices { fill_on_hit: true, ..frozen }),
            ("last page of a file", "read to its end", Choices { whole_pages: false, ..frozen }),
        ]
    }
}
