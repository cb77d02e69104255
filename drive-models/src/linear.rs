//! The linear service model of Geist, Jones and Westall 2010, section 3: X = R/2 + S·d/D, where d is
//! the distance in sectors from the end of the request before to the start of this one and D the
//! capacity: half a rotation plus a seek in proportion. Leaves out what is below that scale:
//! rotational position, zones, head switches, settling, the direction of the arm.
//!
//! The drive's cache is the paper's, three numbers: segments, sectors per segment, prefetch. A read
//! that one segment holds takes `hit` and moves no arm. Only reads fill segments; a write goes
//! through and, since a segment is a span of addresses, invalidates none.

use schedulers::AccessCost;
use schedulers::shadow_cache::{ShadowCache, Span};
use traces::spec::{Settings, Tunable, Unit};
use traces::{Lba, Nanos, Operation, Request, Sectors, Timestamp};

use crate::description::SettingsAlone;
use crate::registry::{Model, never_contradict};
use crate::single_server::{Service, ServiceModel, SingleServer};

/// The registry's row. The defaults are the paper's drive.
pub const MODEL: Model = Model {
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
    check: never_contradict,
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
    /// The largest shift at which the slope fits 64 bits, rounded up so that the product is the
    /// exact floor of b·d/D wherever d·D < 2^64, and at most 1 ns above it elsewhere.
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
mod tests {
    use proptest::prelude::*;
    use traces::spec::Spec;

    use super::*;
    use crate::drive::{Completion, DriveModel};
    use traces::RequestId;

    fn model(settings: &str) -> Linear {
        let spec: Spec = format!("linear:{settings}").parse().unwrap();
        Linear::new(&Settings::resolve(&spec, MODEL.tunables).unwrap())
    }

    fn drive(settings: &str) -> SingleServer<Linear> {
        SingleServer::new(model(settings))
    }

    fn read(lba: u64, sectors: u64) -> Request {
        Request::new(Timestamp::ZERO, Operation::Read, Lba::new(lba), Sectors::new(sectors))
    }

    fn serve_all(drive: &mut SingleServer<Linear>, requests: &[Request]) -> Vec<Completion> {
        for (id, request) in requests.iter().enumerate() {
            drive.submit(Timestamp::ZERO, RequestId(id as u32), request);
        }
        let mut done = Vec::new();
        drive.advance(Timestamp::MAX, &mut done);
        done
    }

    #[test]
    fn the_papers_line_at_its_ends_and_in_the_middle() {
        let drive = model("cache=off");
        let cost = |d| drive.between(Lba::ZERO, Lba::new(d), Sectors::new(8)).as_ns();
        let capacity = drive.capacity.count();
        assert_eq!(cost(0), 4_250_000);
        assert_eq!(cost(capacity), 9_500_000);
        assert_eq!(cost(capacity / 2), 6_875_000);
        assert_eq!(drive.between(Lba::new(capacity), Lba::ZERO, Sectors::ZERO).as_ns(), 9_500_000);
    }

    #[test]
    fn distance_counts_from_the_end_of_the_request_before() {
        let mut drive = drive("cache=off,a=1ms,b=1s,capacity=512000");
        let done = serve_all(&mut drive, &[read(0, 8), read(8, 8), read(116, 8), read(24, 1)]);
        let seeks: Vec<u64> = done.iter().map(|c| c.seek.count()).collect();
        assert_eq!(seeks, [0, 0, 100, 100]);
        // A sector is 1 ms of the 1,000 of this drive.
        let times: Vec<u64> = done.iter().map(|c| c.finished.since(c.started).as_ns() / 1_000_000).collect();
        assert_eq!(times, [1, 1, 101, 101]);
    }

    #[test]
    fn one_at_a_time_in_the_order_submitted() {
        let mut drive = drive("cache=off,b=0");
        let done = serve_all(&mut drive, &[read(0, 8), read(0, 8), read(0, 8)]);
        for (index, completion) in done.iter().enumerate() {
            assert_eq!(completion.id, RequestId(index as u32));
            assert_eq!(completion.started, Timestamp::from_ns(4_250_000 * index as u64));
            assert_eq!(completion.finished, completion.started + Nanos::from_us(4_250));
        }
    }

    #[test]
    fn transfer_is_free_unless_asked_for() {
        let drive = model("cache=off,a=0,b=0,per_byte_ps=6667");
        assert_eq!(drive.between(Lba::ZERO, Lba::ZERO, Sectors::new(8)).as_ns(), 4096 * 6667 / 1000);
    }

    #[test]
    fn a_read_that_was_prefetched_is_a_hit_and_moves_no_arm() {
        let mut drive = drive("cache=on");
        let done = serve_all(&mut drive, &[read(1000, 8), read(1008, 64), read(2000, 8)]);
        assert_eq!(done.iter().map(|c| c.hit).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(done[1].finished.since(done[1].started), Nanos::from_us(250));
        assert_eq!(done[2].seek, Sectors::new(2000 - 1008));
        assert_eq!(drive.cost().access(Timestamp::ZERO, &read(2000, 8)), Nanos::from_us(250));
    }

    #[test]
    fn the_slope_is_exact_over_the_whole_cheetah() {
        let (b, capacity) = (Nanos::from_us(5_250), Sectors::new(143_374_744));
        let slope = Slope::new(b, capacity);
        for distance in (0..143_374_744u64).step_by(397) {
            let exact = u128::from(b.as_ns()) * u128::from(distance) / 143_374_744;
            assert_eq!(u128::from(slope.times(Sectors::new(distance)).as_ns()), exact);
        }
    }

    #[test]
    fn segments_are_replaced_first_in_first_out() {
        let mut drive = drive("segments=2,prefetch_sectors=16,segment_sectors=32");
        let done = serve_all(&mut drive, &[read(0, 8), read(1000, 8), read(2000, 8), read(8, 8), read(2008, 16)]);
        assert_eq!(done.iter().map(|c| c.hit).collect::<Vec<_>>(), [false, false, false, false, true]);
    }

    #[test]
    fn the_next_event_is_the_first_completion() {
        let mut drive = drive("cache=off,b=0");
        for id in 0..3 {
            drive.submit(Timestamp::ZERO, RequestId(id), &read(0, 8));
        }
        assert_eq!(drive.next_event(), Some(Timestamp::from_ns(4_250_000)));
    }

    #[test]
    fn writes_neither_hit_nor_fill_the_cache() {
        let mut drive = drive("cache=on");
        let mut write = read(1000, 8);
        write.operation = Operation::Write;
        let done = serve_all(&mut drive, &[write, read(1000, 8), write]);
        assert!(done.iter().all(|c| !c.hit));
    }

    proptest! {
        #[test]
        fn the_line_is_the_exact_floor(b in 0u64..100_000_000, capacity in 1u64..(1 << 32), share in 0u64..=1000) {
            let distance = (u128::from(capacity) * u128::from(share) / 1000) as u64;
            prop_assume!(u128::from(distance) * u128::from(capacity) < 1 << 64);
            let exact = u128::from(b) * u128::from(distance) / u128::from(capacity);
            let slope = Slope::new(Nanos::from_ns(b), Sectors::new(capacity));
            prop_assert_eq!(u128::from(slope.times(Sectors::new(distance)).as_ns()), exact);
        }
    }
}
