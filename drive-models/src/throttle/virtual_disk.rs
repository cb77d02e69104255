//! A virtual disk: the disk of a VM, an image on a host or a server, whose service time X_v hardly depends on any arm.
//! The virtual performance throttle of Geist, Jones and Westall 2010, section 4, stands before such a disk. This one
//! can misbehave in the ways that the section names.
//!
//! The service time is constant. Three things change it, each off by default:
//! - a host cache: a request whose regions are all held takes `cached`; every request makes its regions the most
//!   recently used, and the least recently used are evicted first;
//! - a drift of the mean of all other times, as the load of the host changes: along a line or in equal steps from
//!   `service` to `drift_to`, where it stays;
//! - noise: a lognormal factor with mean one and the coefficient of variation `cv`, from `Xoshiro256PlusPlus`, two
//!   words a request by the method of Box and Muller.
//!
//! The disk serves one request at a time, in the order of submission. Leaves out a host that serves several requests at
//! once, write-back that stalls, and that a page may be in the cache while its region is not.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use schedulers::AccessCost;
use traces::spec::{Settings, Tunable, Unit};
use traces::{Lba, Nanos, Operation, Request, SECTOR_BYTES, Sectors, Timestamp};

use super::scale::ratio;
use crate::array::tracks::Tracks;
use crate::description::{Contradiction, SettingsAlone};
use crate::model_row::{ModelRow, memory_without_tables};
use crate::single_server::{Service, ServiceModel, SingleServer};

/// Largest time that a tunable takes: 1,000 s.
const TIME_MAX: u64 = 1_000_000_000_000;
/// Most regions that a host cache holds.
const REGIONS_MAX: u64 = 1 << 22;
/// One, in millionths.
const ONE: u64 = 1_000_000;

/// The registry's row.
pub const MODEL: ModelRow = ModelRow {
    name: "virtual-disk",
    summary: "the disk of a VM: constant, or with a host cache, lognormal noise and a drift over time",
    tunables: &[
        Tunable::new("service", Unit::Time, "1ms", "mean time of a request that the host cache does not have")
            .within(0, TIME_MAX),
        Tunable::new("capacity", Unit::Bytes, "73407868928", "capacity").within(512, 1 << 62),
        Tunable::new("cache", Unit::Bytes, "0", "size of the host cache; 0 is off").within(0, 1 << 44),
        Tunable::new("region", Unit::Bytes, "1m", "unit that the host cache holds or does not hold")
            .within(4096, 1 << 40),
        Tunable::new("cached", Unit::Time, "100us", "mean time of a request that it has").within(0, TIME_MAX),
        Tunable::new("cv", Unit::Decimal, "0", "noise: standard deviation of a time over its mean; 0 is none")
            .within(0, 10_000),
        Tunable::new("seed", Unit::Count, "1", "seed of the noise"),
        Tunable::new("drift", Unit::Choice(&["off", "linear", "steps"]), "off", "how `service` changes over time"),
        Tunable::new("drift_to", Unit::Time, "2ms", "`service` at the end of the drift").within(0, TIME_MAX),
        Tunable::new("drift_over", Unit::Time, "60s", "after which time").within(1, 1_000_000_000_000_000),
        Tunable::new("drift_steps", Unit::Count, "4", "in how many equal steps, if in steps").within(1, 1_000_000),
    ],
    one_at_a_time: false,
    queue_depth: |_| 1,
    is_rotational: false,
    check,
    memory: memory_without_tables,
    sections: &[],
    describe: |_| Ok(Box::new(SettingsAlone(|settings| Box::new(SingleServer::new(VirtualDisk::new(settings)))))),
};

/// Whether the host cache has at least one region, and not too many.
fn check(settings: &Settings) -> Result<(), Contradiction> {
    let (cache, region) = (settings.bytes("cache"), settings.bytes("region"));
    let refuse = |tunable, expected| Err(Contradiction { tunable, expected });
    if region % SECTOR_BYTES != 0 {
        return refuse("region", format!("a multiple of {SECTOR_BYTES} bytes"));
    }
    if cache > 0 && cache < region {
        return refuse("cache", format!("0 or at least region={}", settings.word("region")));
    }
    if cache / region > REGIONS_MAX {
        return refuse("cache", format!("at most {REGIONS_MAX} times region={}", settings.word("region")));
    }
    if cache > 0 && settings.nanos("cached") > settings.nanos("service") {
        return refuse("cached", format!("at most service={}, what a request takes without", settings.word("service")));
    }
    Ok(())
}

/// The disk's service times.
#[derive(Debug)]
pub struct VirtualDisk {
    drift: Drift,
    cached: Nanos,
    cache: Option<HostCache>,
    noise: Option<LognormalNoise>,
    capacity: Sectors,
    position: Lba,
}

impl VirtualDisk {
    /// A disk with the settings of [`MODEL`] and nothing cached.
    pub fn new(settings: &Settings) -> VirtualDisk {
        let cv = settings.thousandths("cv");
        VirtualDisk {
            drift: Drift::new(settings),
            cached: settings.nanos("cached"),
            cache: HostCache::new(settings.bytes("cache"), settings.bytes("region")),
            noise: (cv > 0).then(|| LognormalNoise::new(cv, settings.count("seed"))),
            capacity: Sectors::new(settings.bytes("capacity") / SECTOR_BYTES),
            position: Lba::ZERO,
        }
    }
}

impl AccessCost for VirtualDisk {
    fn position(&self) -> Lba {
        self.position
    }

    fn capacity(&self) -> Sectors {
        self.capacity
    }

    /// The mean at the start: nothing here depends on distance.
    fn between(&self, _from: Lba, _to: Lba, _sectors: Sectors) -> Nanos {
        self.drift.from
    }

    fn access(&self, now: Timestamp, request: &Request) -> Nanos {
        let held = self.cache.as_ref().is_some_and(|cache| cache.holds(request));
        if held { self.cached } else { self.drift.at(now) }
    }
}

impl ServiceModel for VirtualDisk {
    fn serve(&mut self, started: Timestamp, request: &Request) -> Service {
        let moves = request.operation != Operation::Flush;
        let hit = moves && self.cache.as_mut().is_some_and(|cache| cache.uses(request));
        let mean = if hit { self.cached } else { self.drift.at(started) };
        let time = self.noise.as_mut().map_or(mean, |noise| ratio(mean, noise.draw(), ONE));
        let seek = if hit || !moves { Sectors::ZERO } else { self.position.distance(request.lba) };
        if moves {
            self.position = request.end();
        }
        Service { time, seek, hit }
    }
}

/// How the mean changes over time.
#[derive(Debug)]
struct Drift {
    from: Nanos,
    to: Nanos,
    over: Nanos,
    /// None along a line.
    steps: Option<u64>,
}

impl Drift {
    fn new(settings: &Settings) -> Drift {
        let (from, kind) = (settings.nanos("service"), settings.word("drift"));
        Drift {
            from,
            to: if kind == "off" { from } else { settings.nanos("drift_to") },
            over: settings.nanos("drift_over"),
            steps: (kind == "steps").then(|| settings.count("drift_steps")),
        }
    }

    fn at(&self, time: Timestamp) -> Nanos {
        let over = self.over.as_ns();
        let passed = time.as_ns().min(over);
        let (part, whole) = match self.steps {
            Some(steps) => ((u128::from(passed) * u128::from(steps) / u128::from(over)) as u64, steps),
            None => (passed, over),
        };
        if self.to >= self.from {
            self.from + ratio(self.to - self.from, part, whole)
        } else {
            self.from - ratio(self.from - self.to, part, whole)
        }
    }
}

/// Which regions the host holds.
#[derive(Debug)]
struct HostCache {
    /// Sectors.
    region: u64,
    regions: usize,
    held: Tracks<()>,
}

impl HostCache {
    /// `None` if the cache is smaller than a region.
    fn new(bytes: u64, region: u64) -> Option<HostCache> {
        let regions = (bytes / region) as usize;
        (regions > 0).then(|| HostCache { region: region / SECTOR_BYTES, regions, held: Tracks::new(regions) })
    }

    fn regions(&self, request: &Request) -> std::ops::Range<u64> {
        request.lba.sector() / self.region..request.end().sector().div_ceil(self.region)
    }

    fn holds(&self, request: &Request) -> bool {
        self.regions(request).all(|region| self.held.find(region).is_some())
    }

    /// Makes the regions of `request` the last used. Says whether all were there.
    fn uses(&mut self, request: &Request) -> bool {
        let hit = self.holds(request);
        for region in self.regions(request) {
            if let Some(slot) = self.held.find(region) {
                self.held.list(slot);
                continue;
            }
            if self.held.len() == self.regions
                && let Some(oldest) = self.held.oldest()
            {
                self.held.remove(oldest);
            }
            self.held.insert(region);
        }
        hit
    }
}

/// Lognormal factors with mean one.
#[derive(Debug)]
struct LognormalNoise {
    /// Variance and standard deviation of the logarithm.
    variance: f64,
    deviation: f64,
    random: Xoshiro256PlusPlus,
}

impl LognormalNoise {
    /// `cv` in thousandths.
    fn new(cv: u64, seed: u64) -> LognormalNoise {
        let cv = cv as f64 / 1000.0;
        let variance = libm::log1p(cv * cv);
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        LognormalNoise { variance, deviation: libm::sqrt(variance), random }
    }

    /// The next factor in millionths.
    fn draw(&mut self) -> u64 {
        let mut uniform = || traces::random::unit_above_zero(self.random.next_u64());
        let (radius, angle) = (uniform(), uniform());
        let normal = libm::sqrt(-2.0 * libm::log(radius)) * libm::cos(std::f64::consts::TAU * angle);
        libm::round(libm::exp(self.deviation * normal - self.variance / 2.0) * ONE as f64) as u64
    }
}
