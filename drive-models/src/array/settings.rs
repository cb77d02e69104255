//! The tunables of an array, and the checks that they do not contradict each other.

use traces::spec::{Settings, Tunable, Unit};
use traces::{Nanos, SECTOR_BYTES, Sectors};

use super::contents;
use super::geometry::{Geometry, Level};
use super::tracks::Tracks;
use super::write_cache::{PAGE_SECTORS, WriteLimits};
use crate::description::Contradiction;
use crate::model_row::memory_without_tables;

const PAGE_BYTES: u64 = PAGE_SECTORS * SECTOR_BYTES;
/// Most tracks of the read cache, which bounds the memory for its directory (a quarter of a GB).
const TRACKS_MAX: u64 = 1 << 22;
const TRACK_BYTES_MAX: u64 = Tracks::<u8>::SECTORS_MAX * SECTOR_BYTES;

/// The tunables.
pub const TUNABLES: &[Tunable] = &[
    Tunable::new("level", Unit::Choice(&["0", "1", "5", "6", "10"]), "5", "RAID level"),
    Tunable::new("members", Unit::Count, "5", "number of members").within(2, 1024),
    Tunable::new("stripe_unit", Unit::Bytes, "64k", "consecutive bytes on one member").within(SECTOR_BYTES, 1 << 40),
    Tunable::new("failed", Unit::Count, "0", "the member that has failed, counted from 1; 0 is none").within(0, 1024),
    Tunable::new("depth", Unit::Count, "1", "requests that a member is given at once").within(1, 1 << 20),
    Tunable::new("overhead", Unit::Time, "0", "controller's time for every request; all that a cache hit takes")
        .within(0, 1_000_000_000_000),
    Tunable::new("track", Unit::Bytes, "64k", "unit of both caches").within(PAGE_BYTES, TRACK_BYTES_MAX),
    Tunable::new("read_cache", Unit::Bytes, "0", "size of the read cache; 0 is off").within(0, 1 << 44),
    Tunable::new("prefetch", Unit::Bytes, "0", "how far a sequential run is read ahead; 0 is off").within(0, 1 << 30),
    Tunable::new("write_cache", Unit::Bytes, "0", "size of the non-volatile write cache; 0 is off").within(0, 1 << 36),
    Tunable::new("high_water", Unit::Count, "70", "percent of the write cache above which destaging begins")
        .within(0, 100),
    Tunable::new("low_water", Unit::Count, "50", "percent of the write cache at which it ends").within(0, 100),
    Tunable::new("destages", Unit::Count, "8", "rows destaged at the same time").within(1, 1 << 16),
];

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
    /// Those of an array without caches.
    pub(super) fn plain(geometry: &Geometry, overhead: Nanos) -> ArraySettings {
        ArraySettings {
            level: geometry.level(),
            members: geometry.members(),
            stripe_unit: Sectors::new(geometry.stripe_unit()),
            failed: None,
            depth: 1,
            overhead,
            track: contents::track(geometry),
            read_cache: 0,
            prefetch: 0,
            write_cache: None,
        }
    }

    /// Checks settings against each other.
    ///
    /// # Errors
    /// The tunable to change and why.
    pub fn new(settings: &Settings) -> Result<ArraySettings, Contradiction> {
        let level = Level::named(settings.word("level")).expect("the table has the same names");
        check_members(settings, level)?;
        check_sizes(settings)?;
        let (stripe_unit, track) = (settings.bytes("stripe_unit"), settings.bytes("track"));
        let (read_cache, write_cache) = (settings.bytes("read_cache"), settings.bytes("write_cache"));
        let (high, low) = (settings.count("high_water"), settings.count("low_water"));
        let pages = write_cache / PAGE_BYTES;
        let rows = settings.count("destages") as u32;
        let limits = WriteLimits { pages, high: pages * high / 100, low: pages * low / 100, rows };
        Ok(ArraySettings {
            level,
            members: settings.count("members"),
            stripe_unit: Sectors::new(stripe_unit / SECTOR_BYTES),
            failed: settings.count("failed").checked_sub(1),
            depth: settings.count("depth") as u32,
            overhead: settings.nanos("overhead"),
            track: track / SECTOR_BYTES,
            read_cache: read_cache / track,
            prefetch: settings.bytes("prefetch").div_ceil(track),
            write_cache: (pages > 0).then_some(limits),
        })
    }
}

/// About how many bytes an array with `settings` takes, of members of `parts` bytes each: these, and the directories of
/// empty caches. Those grow up to 20 times while they fill.
pub(super) fn memory(settings: &Settings, parts: u64) -> u64 {
    let caches =
        [settings.bytes("read_cache") / settings.bytes("track").max(1), settings.bytes("write_cache") / PAGE_BYTES];
    let directories = caches.map(Tracks::<()>::empty_bytes);
    let members = settings.count("members").saturating_mul(memory_without_tables(settings, parts));
    directories.into_iter().fold(members, u64::saturating_add)
}

fn refuse(tunable: &'static str, expected: String) -> Result<(), Contradiction> {
    Err(Contradiction { tunable, expected })
}

/// Whether the level works with this number of members.
fn check_members(settings: &Settings, level: Level) -> Result<(), Contradiction> {
    let (members, least) = (settings.count("members"), level.members_min());
    if members < least {
        return refuse("members", format!("at least {least}, the fewest of RAID-{}", level.name()));
    }
    if level == Level::Raid10 && members % 2 != 0 {
        return refuse("members", "an even number: RAID-10 is made of pairs".to_owned());
    }
    let failed = settings.count("failed");
    if failed > members {
        return refuse("failed", format!("at most members={members}"));
    }
    if failed > 0 && level == Level::Raid0 {
        return refuse("failed", "0: RAID-0 with a failed member has lost its data".to_owned());
    }
    Ok(())
}

/// Whether all sizes are multiples of their units, and the caches are large enough.
fn check_sizes(settings: &Settings) -> Result<(), Contradiction> {
    let (stripe_unit, track) = (settings.bytes("stripe_unit"), settings.bytes("track"));
    let (read_cache, write_cache) = (settings.bytes("read_cache"), settings.bytes("write_cache"));
    let track_word = settings.word("track");
    if stripe_unit % SECTOR_BYTES != 0 {
        return refuse("stripe_unit", format!("a multiple of {SECTOR_BYTES} bytes"));
    }
    if track % PAGE_BYTES != 0 {
        return refuse("track", format!("a multiple of {PAGE_BYTES} bytes, a page of the write cache"));
    }
    if read_cache + write_cache > 0 && stripe_unit % track != 0 {
        return refuse("stripe_unit", format!("a multiple of track={track_word}, the unit of the caches"));
    }
    if read_cache > 0 && read_cache < track {
        return refuse("read_cache", format!("0 or at least track={track_word}"));
    }
    if read_cache / track > TRACKS_MAX {
        return refuse("read_cache", format!("at most {TRACKS_MAX} times track={track_word}"));
    }
    if settings.bytes("prefetch") > read_cache / 2 {
        return refuse("prefetch", format!("at most half of read_cache={}", settings.word("read_cache")));
    }
    if write_cache > 0 && write_cache < PAGE_BYTES {
        return refuse("write_cache", format!("0 or at least {PAGE_BYTES}, a page"));
    }
    if settings.count("low_water") > settings.count("high_water") {
        return refuse("low_water", format!("at most high_water={}", settings.word("high_water")));
    }
    Ok(())
}
