//! Choices for details that Geist et al. 2010 leave open.
//!
//! Each choice but those of the real drive was made once: the plainest reading, or the value that brings the VM's columns
//! of Table 2 closest to the paper's. It was then kept. The choices are judged on Table 3, virtual. What a service is was
//! read off both halves of Table 2, and what a hit takes off the paper's mark of one. The buffer of the real drive was
//! chosen after the real columns had been seen, so that these are fitted; [`Choices::FIRST_DRIVE`] is the drive before
//! that.

use traces::Sectors;

use super::run::{GEOMETRY, System};
use workloads::surge::{ImageSettings, Popularity};

/// The clock that a delay follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The guest's clock. The throttle does not slow it down, so the delay is an eighth in the real disk's scale.
    Guest,
    /// The disk's clock. The delay is slowed down with the disk.
    Disk,
}

/// A value for each choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choices {
    /// The operations that the busdriver delay applies to.
    pub busdriver: &'static str,
    /// The clock of the schedulers' timers in the VM.
    pub timers: Clock,
    /// The clock of the processes' sleeps in the VM.
    pub sleeps: Clock,
    /// Whether popular files share directories.
    pub popularity: Popularity,
    /// Directories at the second level.
    pub directories: u32,
    /// Whether opening a file reads its name and its inode.
    pub metadata: bool,
    /// Whether hits fill the cache of the linear drive model.
    pub fill_on_hit: bool,
    /// Whether the last page of a file is read whole.
    pub whole_pages: bool,
    /// The geometry of the shadow cache whose predictions are counted.
    pub geometry: (usize, u64, u64),
    /// Whether a request leaves the scheduler while the drive still serves the one before. Service begins there.
    pub look_ahead: bool,
    /// What a hit of the real drive takes.
    pub hit: &'static str,
    /// Settings of the real drive's buffer other than its profile's.
    pub buffer: &'static str,
}

/// The buffer as it was before the real columns had been seen: the segment that was used least recently goes, and a
/// waiting request interrupts the read-ahead of 64 sectors.
const FIRST_BUFFER: &str = ",segment_replacement=lru,read_ahead_least=0,read_ahead_sectors=64";

impl Choices {
    /// The chosen values.
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
        look_ahead: true,
        hit: "100us",
        buffer: "",
    };

    /// The chosen values on the real drive as it was before its columns had been seen.
    pub const FIRST_DRIVE: Choices = Choices { buffer: FIRST_BUFFER, ..Choices::FROZEN };

    /// The file system that follows from the choices.
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

    /// The drive of a system. A hit of the real drive takes 100 µs. The paper marks every service time below 250 µs as
    /// a hit. That time includes the wait behind the request before, so a hit behind a hit must take less than 125 µs.
    pub fn drive(&self, system: System) -> String {
        match system {
            System::Real => {
                let Choices { hit, buffer, .. } = self;
                format!("cheetah-15k4-mechanical:read_hit={hit},read_hit_sequential={hit}{buffer}")
            }
            System::Virtual => {
                format!("cheetah-15k4:fill_on_hit={}", if self.fill_on_hit { "on" } else { "off" })
            }
        }
    }

    /// Every other value of every choice, with the names of the choice and of the value.
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
            ("service", "begins when the drive is free: no request ahead", Choices { look_ahead: false, ..frozen }),
            ("a hit of the real drive", "250 us", Choices { hit: "250us", ..frozen }),
            (
                "real drive's segments",
                "least recently used goes",
                Choices { buffer: ",segment_replacement=lru", ..frozen },
            ),
            (
                "real drive's read-ahead",
                "ends when a request waits",
                Choices { buffer: ",read_ahead_least=0", ..frozen },
            ),
            ("real drive's read-ahead", "64 sectors at most", Choices { buffer: ",read_ahead_sectors=64", ..frozen }),
        ]
    }
}
