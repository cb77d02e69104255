//! A disk drive by its mechanics: where the platter and the arm are decides what an access takes.
//!
//! A request passes through command processing, a seek or head switch (writes settle longer), the
//! wait for the first sector at its absolute rotational phase, the transfer over as many tracks as
//! it covers with their skews, and the bus. The form is that of Ruemmler and Wilkes 1994 ("An
//! introduction to disk drive modeling") and of Worthington, Ganger, Patt and Wilkes 1995 (on-line
//! extraction of SCSI disk drive parameters). Times are integers; no cost depends on how many
//! sectors a request has.
//!
//! Leaves out the on-board cache: no read is a hit and every write is on the medium when it
//! completes. Also left out: speed variation within a turn, retries, thermal recalibration, and the
//! dependence of overheads on the request before.

mod description;
mod layout;
mod rotation;
mod seek;

use schedulers::AccessCost;
use traces::spec::{Settings, Tunable, Unit};
use traces::{Lba, Nanos, Operation, Request, SECTOR_BYTES, Sectors, Timestamp};

use crate::drive::WriteCache;
use crate::registry::{Build, Model};
use crate::single_server::{Service, ServiceModel, SingleServer};

pub use description::{LayoutText, Mechanics, Refused, SeekText};
pub use layout::{Extent, Layout, Place};
pub use rotation::{Angle, Rotation};
pub use seek::SeekCurve;

/// Longest overhead that is taken for one.
const OVERHEAD_NS_MAX: u64 = 1_000_000_000;

/// The registry's row.
pub const MODEL: Model = Model {
    name: "mechanical",
    summary: "arm, platter, zones and skews at absolute rotational phase; needs a profile with [seek] and [layout]",
    tunables: &[
        Tunable::new("period_ps", Unit::Count, "3995342000", "one turn of the platter in picoseconds")
            .within(Rotation::PERIOD_PS_MIN, Rotation::PERIOD_PS_MAX),
        Tunable::new("phase", Unit::Time, "0ms", "how far into a turn the platter is at time zero")
            .within(0, OVERHEAD_NS_MAX),
        Tunable::new("read_overhead", Unit::Time, "200us", "command processing before the arm moves for a read")
            .within(0, OVERHEAD_NS_MAX),
        Tunable::new("write_overhead", Unit::Time, "200us", "the same for a write").within(0, OVERHEAD_NS_MAX),
        Tunable::new("head_switch", Unit::Time, "500us", "time to another head of the same cylinder")
            .within(0, OVERHEAD_NS_MAX),
        Tunable::new("write_settle", Unit::Time, "0ms", "how much longer a write settles after a seek or head switch")
            .within(0, OVERHEAD_NS_MAX),
        Tunable::new("bus_byte_ps", Unit::Count, "2500", "bus transfer in picoseconds per byte (2500 = 400 MB/s)")
            .within(0, 1_000_000_000),
        Tunable::new("bus_overlap", Unit::Switch, "on", "whether a read goes over the bus while it still comes in"),
        Tunable::new("read_completion", Unit::Time, "0ms", "from the last byte on the bus to a read's completion")
            .within(0, OVERHEAD_NS_MAX),
        Tunable::new("write_completion", Unit::Time, "0ms", "from the end on the medium to a write's completion")
            .within(0, OVERHEAD_NS_MAX),
    ],
    build: Build::WithMechanics(|settings, mechanics| {
        Box::new(SingleServer::new(Mechanical::new(settings, mechanics)))
    }),
};

/// The costs of an operation that are neither arm nor platter.
#[derive(Clone, Copy, Debug)]
struct Overheads {
    before: Nanos,
    settle: Nanos,
    after: Nanos,
}

/// What one access takes and where it leaves the heads.
#[derive(Clone, Copy, Debug)]
struct Access {
    time: Nanos,
    last: Place,
}

/// The drive's service times.
#[derive(Clone, Debug)]
pub struct Mechanical {
    mechanics: Mechanics,
    rotation: Rotation,
    head_switch: Nanos,
    read: Overheads,
    write: Overheads,
    bus_byte_ps: u64,
    bus_overlap: bool,
    half_turn: Nanos,
    arm: Place,
    position: Lba,
}

impl Mechanical {
    /// A drive with the settings of [`MODEL`], its heads over the first sector.
    pub fn new(settings: &Settings, mechanics: &Mechanics) -> Mechanical {
        let period_ps = settings.count("period_ps");
        let standing = Rotation::new(period_ps, Angle(0));
        let rotation = Rotation::new(period_ps, standing.phase(Timestamp::from_ns(settings.nanos("phase").as_ns())));
        let head_switch = settings.nanos("head_switch");
        let mut mechanics = mechanics.clone();
        mechanics.layout.settle(rotation.angle(head_switch), rotation.angle(mechanics.seek.time(1)));
        let arm = mechanics.layout.place(0);
        Mechanical {
            half_turn: rotation.time(rotation::TURN / 2),
            rotation,
            head_switch,
            read: Overheads {
                before: settings.nanos("read_overhead"),
                settle: Nanos::ZERO,
                after: settings.nanos("read_completion"),
            },
            write: Overheads {
                before: settings.nanos("write_overhead"),
                settle: settings.nanos("write_settle"),
                after: settings.nanos("write_completion"),
            },
            bus_byte_ps: settings.count("bus_byte_ps"),
            bus_overlap: settings.switch("bus_overlap"),
            arm,
            position: Lba::ZERO,
            mechanics,
        }
    }

    /// Its spindle.
    pub fn rotation(&self) -> Rotation {
        self.rotation
    }

    /// A spindle for it with another period (in ps) and phase.
    pub fn rotation_of(&self, period_ps: u64, start: Angle) -> Rotation {
        Rotation::new(period_ps, start)
    }

    /// Gives it another spindle.
    pub fn turn_at(&mut self, rotation: Rotation) {
        self.rotation = rotation;
    }

    /// Where a platter that turns with `rotation` stands when `request` completes, whenever that is:
    /// what follows the last sector takes the same time in every turn.
    pub fn completes_at(&self, rotation: &Rotation, request: &Request) -> Angle {
        let extent = self.mechanics.layout.extent(request.lba.sector(), request.sectors().count());
        let write = request.operation == Operation::Write;
        let bus = if write || self.bus_overlap { 1 - u64::from(write) } else { request.sectors().count() };
        let after = rotation.angle(self.bus(bus) + self.overheads(request.operation).after);
        Angle(extent.first.angle.0.wrapping_add((extent.turned + after) as u32))
    }

    fn overheads(&self, operation: Operation) -> Overheads {
        if operation == Operation::Write { self.write } else { self.read }
    }

    fn bus(&self, sectors: u64) -> Nanos {
        Nanos::from_ns((u128::from(sectors * SECTOR_BYTES) * u128::from(self.bus_byte_ps) / 1000) as u64)
    }

    /// How long the heads take from one track to another.
    fn positioning(&self, from: Place, to: Place, settle: Nanos) -> Nanos {
        let seek = self.mechanics.seek.time(from.cylinder.abs_diff(to.cylinder));
        let switch = if from.head == to.head { Nanos::ZERO } else { self.head_switch };
        let longer = seek.max(switch);
        if longer == Nanos::ZERO { longer } else { longer + settle }
    }

    /// Serves `request` from `at` on, with the heads where they are.
    fn timed(&self, at: Timestamp, request: &Request) -> Access {
        let (lbn, sectors) = (request.lba.sector(), request.sectors().count().max(1));
        let Extent { first, last, turned } = self.mechanics.layout.extent(lbn, sectors);
        let overheads = self.overheads(request.operation);
        let mut ready = overheads.before + self.positioning(self.arm, first, overheads.settle);
        let write = request.operation == Operation::Write;
        if write {
            ready = ready.max(overheads.before + self.bus(1));
        }
        let wait = self.rotation.phase(at.saturating_add(ready)).until(first.angle);
        let medium = ready + self.rotation.time(wait + turned);
        let bus = self.bus(sectors);
        let done = if write {
            medium.max(overheads.before + bus)
        } else if self.bus_overlap {
            (medium + self.bus(1)).max(ready + self.rotation.time(wait) + bus)
        } else {
            medium + bus
        };
        Access { time: done + overheads.after, last }
    }
}

impl AccessCost for Mechanical {
    fn position(&self) -> Lba {
        self.position
    }

    fn capacity(&self) -> Sectors {
        Sectors::new(self.mechanics.layout.capacity())
    }

    /// The time of a read with half a turn of waiting.
    fn between(&self, from: Lba, to: Lba, sectors: Sectors) -> Nanos {
        let layout = &self.mechanics.layout;
        let from = layout.place(from.sector().saturating_sub(1));
        let positioned = self.read.before + self.positioning(from, layout.place(to.sector()), self.read.settle);
        if sectors == Sectors::ZERO {
            return positioned;
        }
        let turned = layout.extent(to.sector(), sectors.count()).turned;
        positioned
            + self.half_turn
            + self.rotation.time(turned)
            + self.bus(if self.bus_overlap { 1 } else { sectors.count() })
            + self.read.after
    }

    fn access(&self, now: Timestamp, request: &Request) -> Nanos {
        self.timed(now, request).time
    }
}

impl ServiceModel for Mechanical {
    fn serve(&mut self, started: Timestamp, request: &Request) -> Service {
        let Access { time, last } = self.timed(started, request);
        let seek = self.position.distance(request.lba);
        self.arm = last;
        self.position = request.end();
        Service { time, seek, hit: false }
    }

    fn write_cache(&self) -> WriteCache {
        WriteCache::Through
    }

    fn discards(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
