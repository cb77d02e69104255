//! The arm over the platter: the time to read or write one run of sectors, given the position of the heads and the
//! phase of the platter.

use std::cell::Cell;

use traces::spec::Settings;
use traces::{Nanos, SECTOR_BYTES, Timestamp};

use super::description::Mechanics;
use super::layout::{PhysicalExtent, SectorPosition};
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
    head_switch: Nanos,
    pub read: Overheads,
    pub write: Overheads,
    bus_byte_ps: u64,
    /// Thousandths of a read that have come in when it begins to go over the bus. For a write, thousandths that have
    /// come over the bus when it begins to go to the medium.
    read_watermark: u64,
    write_watermark: u64,
    pub turn: Nanos,
    /// Where requests lie that somebody has asked about: a scheduler asks about the same waiting ones again at every
    /// choice. Each has one place here, by its address.
    placed: Box<[Cell<Option<PlacedRequest>>]>,
}

/// Where a request lies.
#[derive(Clone, Copy, Debug)]
struct PlacedRequest {
    lbn: u64,
    sectors: u64,
    extent: PhysicalExtent,
}

/// Requests whose places are remembered, a power of two: several times a full tagged queue.
const PLACED: usize = 256;

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
            placed: vec![Cell::new(None); PLACED].into_boxed_slice(),
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

    /// [`super::PlatterLayout::extent`], remembered.
    fn extent(&self, lbn: u64, sectors: u64) -> PhysicalExtent {
        // The upper bits of a product with 2⁶⁴ / φ spread neighbouring addresses.
        let index = (lbn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % PLACED;
        match self.placed[index].get() {
            Some(placed) if placed.lbn == lbn && placed.sectors == sectors => placed.extent,
            _ => {
                let extent = self.mechanics.layout.extent(lbn, sectors);
                self.placed[index].set(Some(PlacedRequest { lbn, sectors, extent }));
                extent
            }
        }
    }

    /// How long `sectors` take over the bus.
    pub fn bus(&self, sectors: u64) -> Nanos {
        Nanos::from_ns((u128::from(sectors * SECTOR_BYTES) * u128::from(self.bus_byte_ps) / 1000) as u64)
    }

    /// How much longer than the medium the bus takes for a read over which the platter turns by `turned`: at least the
    /// last sector, at most all of it.
    pub fn bus_behind(&self, turned: u64, sectors: u64) -> Nanos {
        let left = self.rotation.time(turned).as_ns() / 1000 * (1000 - self.read_watermark);
        self.bus(sectors).saturating_sub(Nanos::from_ns(left)).max(self.bus(1))
    }

    /// How long the heads take from one track to another.
    pub fn positioning(&self, from: SectorPosition, to: SectorPosition, settle: Nanos) -> Nanos {
        let seek = self.mechanics.seek.time(from.cylinder.abs_diff(to.cylinder));
        let switch = if from.head == to.head { Nanos::ZERO } else { self.head_switch };
        let longer = seek.max(switch);
        if longer == Nanos::ZERO { longer } else { longer + settle }
    }

    /// A read that arrives at `at`.
    pub fn read(&self, at: Timestamp, from: &ArmState, lbn: u64, sectors: u64) -> ArmAccess {
        let PhysicalExtent { first, last, turned } = self.extent(lbn, sectors);
        let leaves = at.saturating_add(self.read.understood(from.after_read)).max(from.free);
        let ready = leaves.saturating_add(self.positioning(from.heads, first, self.read.settle));
        let waited = self.rotation.phase(ready).until(first.angle);
        let began = ready.saturating_add(self.rotation.time(waited));
        let ended = ready.saturating_add(self.rotation.time(waited + turned));
        let over = ended.saturating_add(self.bus_behind(turned, sectors));
        ArmAccess { done: over.saturating_add(self.read.after), began, ended, last }
    }

    /// A write likewise; its data come over the bus while the arm moves.
    pub fn write(&self, at: Timestamp, from: &ArmState, lbn: u64, sectors: u64) -> ArmAccess {
        let PhysicalExtent { first: place, last, turned } = self.extent(lbn, sectors);
        let understood = at.saturating_add(self.write.understood(from.after_read));
        let settled = understood.max(from.free).saturating_add(self.positioning(from.heads, place, self.write.settle));
        let first = Nanos::from_ns(self.bus(sectors).as_ns() / 1000 * self.write_watermark);
        let ready = settled.max(understood.saturating_add(first.max(self.bus(1))));
        let waited = self.rotation.phase(ready).until(place.angle);
        let began = ready.saturating_add(self.rotation.time(waited));
        let ended = ready.saturating_add(self.rotation.time(waited + turned));
        let over = ended.max(understood.saturating_add(self.bus(sectors)));
        ArmAccess { done: over.saturating_add(self.write.after), began, ended, last }
    }

    /// When `sectors` from `lbn` on have passed, read without a stop since `began`.
    pub fn passed(&self, began: Timestamp, lbn: u64, sectors: u64) -> Timestamp {
        began.saturating_add(self.rotation.time(self.mechanics.layout.extent(lbn, sectors).turned))
    }
}
