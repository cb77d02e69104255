//! The linear service model of Geist, Jones and Westall 2010, section 3: X = R/2 + S·d/D. Here d is the distance in
//! sectors from the end of the request before to the start of this one, and D is the capacity. The time is half a
//! rotation plus a seek in proportion to the distance.
//!
//! The drive's cache is the paper's, given by three numbers: segments, sectors per segment, prefetch. A read that one
//! segment holds takes `hit` and moves no arm. Only reads fill segments. A write goes through and invalidates no
//! segment, since a segment is a span of addresses.
//!
//! Leaves out rotational position, zones, head switches, settling, and the direction of the arm.

use schedulers::AccessCost;
use schedulers::shadow_cache::{ShadowCache, Span};
use traces::spec::{Settings, Tunable, Unit};
use traces::{Lba, Nanos, Operation, Request, Sectors, Timestamp};

use crate::description::SettingsAlone;
use crate::model_row::{ModelRow, memory_without_tables, never_contradict, queue_of_one_at_a_time};
use crate::single_server::{Service, ServiceModel, SingleServer};

/// The registry's row. The defaults are the paper's drive.
pub const MODEL: ModelRow = ModelRow {
    name: "linear",
    summary: "a + b·d/D, distance d from the end of the request before (Geist et al. 2010)",
    tunables: &[
        Tunable::new("a", Unit::Time, "4.25ms", "cost of an access without a seek: half a rotation and overheads")
            .within(0, 1_000_000_000_000),
        Tunable::new("b", Unit::Time, "5.25ms", "cost of a seek over the whole capacity on top of it")
            .within(0, 1_000_000_000_000),
        Tunable::new("capacity", Unit::Bytes, "73407868928", "capacity, D").within(512, 1 << 62),
        Tunable::new("per_byte_ps", Unit::Count, "0", "transfer time in picoseconds per byte (6667 = 150 MB/s)")
            .within(0, 1_000_000_000),
        Tunable::new("cache", Unit::Switch, "on", "the on-board cache"),
        Tunable::new("segments", Unit::Count, "64", "cache segments").within(1, 4096),
        Tunable::new("segment_sectors", Unit::Count, "221", "sectors a segment holds").within(1, 1 << 20),
        Tunable::new("prefetch_sectors", Unit::Count, "64", "sectors read ahead behind every read").within(0, 1 << 20),
        Tunable::new(
            "fill_on_hit",
            Unit::Switch,
            "on",
            "whether a hit, too, enters the cache with what is read ahead of it",
        ),
        Tunable::new("hit", Unit::Time, "250us", "service time of a cache hit").within(0, 1_000_000_000_000),
    ],
    one_at_a_time: true,
    queue_depth: queue_of_one_at_a_time,
    is_rotational: true,
    check: never_contradict,
    memory: memory_without_tables,
    sections: &[],
    describe: |_| Ok(Box::new(SettingsAlone(|settings| Box::new(SingleServer::new(Linear::new(settings)))))),
};

/// Multiplies a distance by b/D without dividing: `slope` is b/D scaled by 2^`shift`.
#[derive(Clone, Copy, Debug)]
struct Slope {
    slope: u64,
    shift: u32,
}

impl Slope {
    /// The largest shift at which the slope fits 64 bits, rounded up. The product is then the exact floor of b·d/D
    /// wherever d·D < 2^64, and at most 1 ns above it elsewhere.
    fn new(b: Nanos, capacity: Sectors) -> Slope {
        let (b, d) = (u128::from(b.as_ns()), u128::from(capacity.count()));
        let fits = |shift: u32| (b << shift).div_ceil(d) <= u128::from(u64::MAX);
        let shift = (0..=64).rev().find(|&shift| fits(shift)).unwrap_or(0);
        Slope { slope: (b << shift).div_ceil(d) as u64, shift }
    }

    fn times(self, distance: Sectors) -> Nanos {
        Nanos::from_ns(((u128::from(distance.count()) * u128::from(self.slope)) >> self.shift) as u64)
    }
}

/// The drive's service times.
#[derive(Debug)]
pub struct Linear {
    a: Nanos,
    slope: Slope,
    capacity: Sectors,
    per_byte_ps: u64,
    hit: Nanos,
    fill_on_hit: bool,
    cache: Option<ShadowCache>,
    position: Lba,
}

impl Linear {
    /// A drive with the settings of [`MODEL`].
    pub fn new(settings: &Settings) -> Linear {
        Linear::with_capacity(settings, Sectors::new(settings.bytes("capacity") / traces::SECTOR_BYTES))
    }

    /// A drive of `capacity`, at least a sector, with all other settings of [`MODEL`].
    pub fn with_capacity(settings: &Settings, capacity: Sectors) -> Linear {
        let cache = settings.switch("cache").then(|| {
            ShadowCache::new(
                settings.count("segments") as usize,
                Sectors::new(settings.count("segment_sectors")),
                Sectors::new(settings.count("prefetch_sectors")),
            )
        });
        Linear {
            a: settings.nanos("a"),
            slope: Slope::new(settings.nanos("b"), capacity),
            capacity,
            per_byte_ps: settings.count("per_byte_ps"),
            hit: settings.nanos("hit"),
            fill_on_hit: settings.switch("fill_on_hit"),
            cache,
            position: Lba::ZERO,
        }
    }

    fn transfer(&self, sectors: Sectors) -> Nanos {
        if self.per_byte_ps == 0 {
            return Nanos::ZERO;
        }
        Nanos::from_ns((u128::from(sectors.bytes()) * u128::from(self.per_byte_ps) / 1000) as u64)
    }

    fn holds(&self, request: &Request) -> bool {
        request.operation == Operation::Read
            && self.cache.as_ref().is_some_and(|cache| cache.segment_holding(span_of(request)).is_some())
    }
}

fn span_of(request: &Request) -> Span {
    Span { start: request.lba, end: request.end() }
}

impl AccessCost for Linear {
    fn position(&self) -> Lba {
        self.position
    }

    fn capacity(&self) -> Sectors {
        self.capacity
    }

    fn between(&self, from: Lba, to: Lba, sectors: Sectors) -> Nanos {
        self.a + self.slope.times(from.distance(to)) + self.transfer(sectors)
    }

    fn access(&self, _now: Timestamp, request: &Request) -> Nanos {
        if self.holds(request) { self.hit } else { self.between(self.position, request.lba, request.sectors()) }
    }
}

impl ServiceModel for Linear {
    fn serve(&mut self, _started: Timestamp, request: &Request) -> Service {
        let hit = self.holds(request);
        let service = if hit {
            Service { time: self.hit, seek: Sectors::ZERO, hit }
        } else {
            let seek = self.position.distance(request.lba);
            let time = self.between(self.position, request.lba, request.sectors());
            self.position = request.end();
            Service { time, seek, hit }
        };
        if let Some(cache) = &mut self.cache
            && request.operation == Operation::Read
            && (self.fill_on_hit || !hit)
        {
            cache.sent(span_of(request));
        }
        service
    }
}

#[cfg(test)]
mod tests;
