//! Where an array's sectors lie on its members.
//!
//! Each member is cut into stripe units. A row has one stripe unit of each member, at the same place on all of them. A
//! row's data units are filled in order, and rows follow one another. Parity rotates left-symmetric, as in Linux's md.
//! In row r of n members, the parity of RAID-5 (P of RAID-6) is on member n - 1 - (r mod n) and Q on the next. The data
//! units follow behind it and wrap around the end, so that n consecutive data units are on n different members. RAID-10
//! is RAID-0 over pairs: members 0 and 1 mirror each other, 2 and 3, and so on.

use traces::{Lba, Sectors};

/// How an array spreads its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Striping without redundancy.
    Raid0,
    /// Every member holds everything.
    Raid1,
    /// One rotating parity unit a row.
    Raid5,
    /// Two rotating parity units a row.
    Raid6,
    /// Striping over mirrored pairs.
    Raid10,
}

impl Level {
    /// Every level.
    pub const ALL: [Level; 5] = [Level::Raid0, Level::Raid1, Level::Raid5, Level::Raid6, Level::Raid10];

    /// The level with this name: `0`, `1`, `5`, `6` or `10`.
    pub fn named(name: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.name() == name)
    }

    /// The level as tunables name it.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Raid0 => "0",
            Level::Raid1 => "1",
            Level::Raid5 => "5",
            Level::Raid6 => "6",
            Level::Raid10 => "10",
        }
    }

    /// The fewest members it can have.
    pub const fn members_min(self) -> u64 {
        match self {
            Level::Raid0 | Level::Raid1 => 2,
            Level::Raid5 => 3,
            Level::Raid6 | Level::Raid10 => 4,
        }
    }

    /// Parity units a row.
    pub const fn parities(self) -> u64 {
        match self {
            Level::Raid5 => 1,
            Level::Raid6 => 2,
            _ => 0,
        }
    }
}

/// Where one logical sector lies: in which row, in which of its data units, how far into that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripePosition {
    /// The row.
    pub row: u64,
    /// The data unit of the row.
    pub unit: u64,
    /// Sectors into the unit.
    pub offset: u64,
}

/// The address map of an array. Rows, units and members count from zero.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    level: Level,
    members: u64,
    stripe_unit: u64,
    rows: u64,
    /// Data units a row.
    data: u64,
}

impl Geometry {
    /// A map over `members` of `member` sectors each; what does not fill a stripe unit at their end is not used.
    ///
    /// # Panics
    /// If the level cannot have `members` or the stripe unit is zero. Settings are checked before.
    pub fn new(level: Level, members: u64, stripe_unit: Sectors, member: Sectors) -> Geometry {
        assert!(members >= level.members_min() && stripe_unit > Sectors::ZERO, "settings were checked");
        let data = match level {
            Level::Raid0 => members,
            Level::Raid1 => 1,
            Level::Raid5 | Level::Raid6 => members - level.parities(),
            Level::Raid10 => members / 2,
        };
        let stripe_unit = stripe_unit.count();
        Geometry { level, members, stripe_unit, rows: member.count() / stripe_unit, data }
    }

    /// The level.
    pub fn level(&self) -> Level {
        self.level
    }

    /// The number of members.
    pub fn members(&self) -> u64 {
        self.members
    }

    /// Data units a row.
    pub fn data_units(&self) -> u64 {
        self.data
    }

    /// Sectors a unit.
    pub fn stripe_unit(&self) -> u64 {
        self.stripe_unit
    }

    /// Data sectors a row.
    pub fn row_sectors(&self) -> u64 {
        self.data * self.stripe_unit
    }

    /// The array's capacity.
    pub fn capacity(&self) -> Sectors {
        Sectors::new(self.rows * self.row_sectors())
    }

    /// Where a logical sector lies.
    pub fn place(&self, lba: Lba) -> StripePosition {
        let (unit, offset) = (lba.sector() / self.stripe_unit, lba.sector() % self.stripe_unit);
        StripePosition { row: unit / self.data, unit: unit % self.data, offset }
    }

    /// Members that hold the same as each other: 1 without mirroring.
    pub fn copies(&self) -> u64 {
        match self.level {
            Level::Raid1 => self.members,
            Level::Raid10 => 2,
            _ => 1,
        }
    }

    /// The member that holds a data unit, the first of its copies where it is mirrored.
    pub fn data_member(&self, row: u64, unit: u64) -> u64 {
        match self.level.parities() {
            0 => unit * self.copies(),
            parities => (self.parity_member(row, 0) + parities + unit) % self.members,
        }
    }

    /// The member that holds a parity unit: P is number 0, Q number 1.
    pub fn parity_member(&self, row: u64, number: u64) -> u64 {
        (self.members - 1 - row % self.members + number) % self.members
    }

    /// The first sector of a row on every member.
    pub fn row_start(&self, row: u64) -> u64 {
        row * self.stripe_unit
    }
}
