//! The tunables of an array and what they may not be together.

use traces::spec::{Settings, Tunable, Unit};
use traces::{Nanos, SECTOR_BYTES, Sectors};

use super::geometry::Level;
use super::tracks::Tracks;
use super::write_cache::{PAGE_SECTORS, WriteLimits};

const PAGE_BYTES: u64 = PAGE_SECTORS * SECTOR_BYTES;
const TRACK_BYTES_MAX: u64 = Tracks::<u8>::SECTORS_MAX * SECTOR_BYTES;

/// The tunables.
pub const TUNABLES: &[Tunable] = &[
    Tunable::new("level", Unit::Choice(&["0", "1", "5", "6", "10"]), "5", "RAID level"),
    Tunable::new("members", Unit::Count, "5", "number of members").within(2, 1024),
    Tunable::new("stripe_unit", Unit::Bytes, "64k", "what lies on one member before the next one's turn")
        .within(SECTOR_BYTES, 1 << 40),
    Tunable::new("failed", Unit::Count, "0", "the member that has failed, counted from 1; 0 is none").within(0, 1024),
    Tunable::new("depth", Unit::Count, "1", "requests that a member is given at once").within(1, 1 << 20),
    Tunable::new("overhead", Unit::Time, "0", "controller's time for every request; all that a cache hit takes")
        .within(0, 1_000_000_000_000),
    Tunable::new("track", Unit::Bytes, "64k", "unit of both caches").within(PAGE_BYTES, TRACK_BYTES_MAX),
    Tunable::new("read_cache", Unit::Bytes, "0", "size of the read cache; 0 is off").within(0, 1 << 44),
    Tunable::new("prefetch", Unit::Bytes, "0", "how far a sequential run is read ahead; 0 is off").within(0, 1 << 30),
    Tunable::new("write_cache", Unit::Bytes, "0", "size of the non-volatile write cache; 0 is off").within(0, 1 << 42),
    Tunable::new("high_water", Unit::Count, "70", "percent of the write cache above which destaging begins")
        .within(0, 100),
    Tunable::new("low_water", Unit::Count, "50", "percent of the write cache at which it ends").within(0, 100),
    Tunable::new("destages", Unit::Count, "8", "rows destaged at the same time").within(1, 1 << 16),
];

/// Why settings cannot be in force together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct Contradiction {
    /// The tunable to change.
    pub tunable: &'static str,
    /// What is wrong.
    pub problem: String,
}

/// An array's settings.
#[derive(Clone, Copy, Debug)]
pub struct ArraySettings {
    pub(super) level: Level,
    pub(super) members: u64,
    pub(super) stripe_unit: Sectors,
    /// Counted from 0.
    pub(super) failed: Option<u64>,
    pub(super) depth: u32,
    pub(super) overhead: Nanos,
    /// Sectors.
    pub(super) track: u64,
    /// Tracks; 0 is off.
    pub(super) read_cache: u64,
    /// Tracks; 0 is off.
    pub(super) prefetch: u64,
    pub(super) write_cache: Option<WriteLimits>,
}

impl ArraySettings {
    /// Checks settings against each other.
    ///
    /// # Errors
    /// The tunable to change and why.
    pub fn new(settings: &Settings) -> Result<ArraySettings, Contradiction> {
        let refuse = |tunable, problem: String| Err(Contradiction { tunable, problem });
        let level = Level::named(settings.word("level")).expect("the table has the same names");
        let members = settings.count("members");
        if members < level.members_min() {
            let problem =
                format!("RAID-{} needs at least {} members, not {members}", level.name(), level.members_min());
            return refuse("members", problem);
        }
        if level == Level::Raid10 && members % 2 != 0 {
            return refuse("members", format!("RAID-10 is made of pairs, and {members} members are not"));
        }
        let failed = settings.count("failed");
        if failed > members {
            return refuse("failed", format!("member {failed} cannot have failed: there are {members}"));
        }
        if failed > 0 && level == Level::Raid0 {
            return refuse("failed", "a RAID-0 with a failed member has lost its data".to_owned());
        }
        let stripe_unit = settings.bytes("stripe_unit");
        if stripe_unit % SECTOR_BYTES != 0 {
            return refuse(
                "stripe_unit",
                format!("a stripe unit of {stripe_unit} bytes is no whole number of sectors"),
            );
        }
        let track = settings.bytes("track");
        if track % PAGE_BYTES != 0 {
            return refuse("track", format!("a track of {track} bytes is no whole number of {PAGE_BYTES}-byte pages"));
        }
        let (read_cache, write_cache) = (settings.bytes("read_cache"), settings.bytes("write_cache"));
        if read_cache + write_cache > 0 && stripe_unit % track != 0 {
            let problem = format!("a stripe unit of {stripe_unit} bytes is no whole number of tracks of {track} bytes");
            return refuse("stripe_unit", problem);
        }
        if read_cache > 0 && read_cache < track {
            return refuse("read_cache", format!("a read cache of {read_cache} bytes does not hold one track"));
        }
        let prefetch = settings.bytes("prefetch");
        if prefetch > read_cache / 2 {
            let problem = format!("reading {prefetch} bytes ahead needs a read cache of at least twice that");
            return refuse("prefetch", problem);
        }
        if write_cache > 0 && write_cache < PAGE_BYTES {
            return refuse("write_cache", format!("a write cache of {write_cache} bytes does not hold one page"));
        }
        let (high, low) = (settings.count("high_water"), settings.count("low_water"));
        if low > high {
            return refuse("low_water", format!("the low-water mark, {low} %, is above the high one, {high} %"));
        }
        let pages = write_cache / PAGE_BYTES;
        let rows = settings.count("destages") as u32;
        let limits = WriteLimits { pages, high: pages * high / 100, low: pages * low / 100, rows };
        Ok(ArraySettings {
            level,
            members,
            stripe_unit: Sectors::new(stripe_unit / SECTOR_BYTES),
            failed: failed.checked_sub(1),
            depth: settings.count("depth") as u32,
            overhead: settings.nanos("overhead"),
            track: track / SECTOR_BYTES,
            read_cache: read_cache / track,
            prefetch: prefetch.div_ceil(track),
            write_cache: (pages > 0).then_some(limits),
        })
    }
}
