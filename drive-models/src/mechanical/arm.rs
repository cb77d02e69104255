//! The arm over the platter: the time to read or write one run of sectors, given the position of the heads and the
//! phase of the platter.

use std::cell::RefCell;

use traces::spec::Settings;
use traces::{Nanos, SECTOR_BYTES, Timestamp};

use super::description::Mechanics;
use super::layout::{PhysicalExtent, SectorPosition};
use super::placed::{PlacedRequest, PlacedRequests, Transfer};
use super::rotation::{Angle, Rotation, TURN};

/// The costs of an operation that are neither arm nor platter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overheads {
    /// Command processing before the arm moves.
    pub before: Nanos,
    /// How much longer that is when the request before was a read.
    pub after_read: Nanos,
    /// How much longer the arm settles.
    pub settle: Nanos,
    /// From the last byte to the completion.
    pub after: Nanos,
}

/// The times of one access, and where it leaves the heads.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArmAccess {
    /// Until the request is complete.
    pub done: Timestamp,
    /// When the first sector begins to pass under the head.
    pub began: Timestamp,
    /// When the last one has passed.
    pub ended: Timestamp,
    /// The last sector.
    pub last: SectorPosition,
}

impl Overheads {
    #[inline]
    fn understood(&self, after_read: bool) -> Nanos {
        if after_read { self.before + self.after_read } else { self.before }
    }
}

/// Where and how the arm is when a request comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArmState {
    /// Under the heads.
    pub heads: SectorPosition,
    /// When the access before ends.
    pub free: Timestamp,
    /// Whether the request before was a read.
    pub after_read: bool,
}

/// The moving parts and the bus.
#[derive(Clone, Debug)]
pub(super) struct Arm {
    pub mechanics: Mechanics,
    pub rotation: Rotation,
    pub head_switch: Nanos,
    pub read: Overheads,
    pub write: Overheads,
    bus_byte_ps: u64,
    /// Thousandths of a read that have come in when it begins to go over the bus. For a write, thousandths that have
    /// come over the bus when it begins to go to the medium.
    read_watermark: u64,
    pub write_watermark: u64,
    pub turn: Nanos,
    pub placed: RefCell<PlacedRequests>,
}

impl Arm {
    pub fn new(settings: &Settings, mechanics: &Mechanics) -> Arm {
        let period_ps = settings.count("period_ps");
        let standing = Rotation::new(period_ps, Angle(0));
        let rotation = Rotation::new(period_ps, standing.phase(Timestamp::from_ns(settings.nanos("phase").as_ns())));
        let head_switch = settings.nanos("head_switch");
        let mut mechanics = mechanics.clone();
        mechanics.layout.settle(rotation.angle(head_switch), rotation.angle(mechanics.seek.time(1)));
        Arm {
            turn: rotation.time(TURN),
            placed: RefCell::default(),
            rotation,
            head_switch,
            read: Overheads {
                before: settings.nanos("read_overhead"),
                after_read: settings.nanos("read_after_read"),
                settle: Nanos::ZERO,
                after: settings.nanos("read_completion"),
            },
            write: Overheads {
                before: settings.nanos("write_overhead"),
                after_read: settings.nanos("write_after_read"),
                settle: settings.nanos("write_settle"),
                after: settings.nanos("write_completion"),
            },
            bus_byte_ps: settings.count("bus_byte_ps"),
            read_watermark: settings.thousandths("read_watermark"),
            write_watermark: settings.thousandths("write_watermark"),
            mechanics,
        }
    }

    /// Gives it another spindle.
    pub fn turn_at(&mut self, rotation: Rotation) {
        self.rotation = rotation;
        self.placed = RefCell::default();
    }

    /// Where a request lies, and its share of the bus.
    pub(super) fn place(&self, operation: Transfer, lbn: u64, sectors: u64) -> PlacedRequest {
        let extent = self.mechanics.layout.extent(lbn, sectors);
        let (mut first_in, mut all_in, mut behind) = (Nanos::ZERO, Nanos::ZERO, Nanos::ZERO);
        match operation {
            Transfer::Read => behind = self.bus_behind(extent.turned, sectors),
            Transfer::Write => {
                all_in = self.bus(sectors);
                first_in = Nanos::from_ns(all_in.as_ns() / 1000 * self.write_watermark).max(self.bus(1));
            }
        }
        PlacedRequest { operation, lbn, sectors, extent, first_in, all_in, behind }
    }

    /// How long `sectors` take over the bus.
    pub fn bus(&self, sectors: u64) -> Nanos {
        let bytes = sectors * SECTOR_BYTES;
        // A division of 128 bits takes longer than all else that an access asks for.
        Nanos::from_ns(match bytes.checked_mul(self.bus_byte_ps) {
            Some(ps) => ps / 1000,
            None => (u128::from(bytes) * u128::from(self.bus_byte_ps) / 1000) as u64,
        })
    }

    /// How much longer than the medium the bus takes for a read over which the platter turns by `turned`: at least the
    /// last sector, at most all of it.
    pub fn bus_behind(&self, turned: u64, sectors: u64) -> Nanos {
        let left = self.rotation.time(turned).as_ns() / 1000 * (1000 - self.read_watermark);
        self.bus(sectors).saturating_sub(Nanos::from_ns(left)).max(self.bus(1))
    }

    /// How long the heads take from one track to another.
    #[inline]
    pub fn positioning(&self, from: SectorPosition, to: SectorPosition, settle: Nanos) -> Nanos {
        let seek = self.mechanics.seek.time(from.cylinder.abs_diff(to.cylinder));
        let switch = if from.head == to.head { Nanos::ZERO } else { self.head_switch };
        let longer = seek.max(switch);
        if longer == Nanos::ZERO { longer } else { longer + settle }
    }

    /// A read that arrives at `at`.
    pub fn read(&self, at: Timestamp, from: &ArmState, lbn: u64, sectors: u64) -> ArmAccess {
        self.access(at, from, self.placed.borrow_mut().find(self, Transfer::Read, lbn, sectors))
    }

    /// A write likewise; its data come over the bus while the arm moves.
    pub fn write(&self, at: Timestamp, from: &ArmState, lbn: u64, sectors: u64) -> ArmAccess {
        self.access(at, from, self.placed.borrow_mut().find(self, Transfer::Write, lbn, sectors))
    }

    /// One of the two. A choice asks only when each of many is done: by itself this would work out the rest, too.
    #[inline(always)]
    pub fn access(&self, at: Timestamp, from: &ArmState, placed: &PlacedRequest) -> ArmAccess {
        let overheads = match placed.operation {
            Transfer::Read => &self.read,
            Transfer::Write => &self.write,
        };
        let PhysicalExtent { first, last, turned } = placed.extent;
        let understood = at.saturating_add(overheads.understood(from.after_read));
        let settled = understood.max(from.free).saturating_add(self.positioning(from.heads, first, overheads.settle));
        let ready = settled.max(understood.saturating_add(placed.first_in));
        let waited = self.rotation.phase(ready).until(first.angle);
        let began = ready.saturating_add(self.rotation.time(waited));
        let ended = ready.saturating_add(self.rotation.time(waited + turned));
        let over = ended.saturating_add(placed.behind).max(understood.saturating_add(placed.all_in));
        ArmAccess { done: over.saturating_add(overheads.after), began, ended, last }
    }

    /// How long the sector `lbn` takes to pass.
    pub fn sector(&self, lbn: u64) -> Nanos {
        self.rotation.time(self.mechanics.layout.sector_angle(lbn))
    }

    /// When `sectors` from `lbn` on have passed, read without a stop since `began`.
    pub fn passed(&self, began: Timestamp, lbn: u64, sectors: u64) -> Timestamp {
        began.saturating_add(self.rotation.time(self.mechanics.layout.extent(lbn, sectors).turned))
    }
}
