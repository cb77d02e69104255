//! A generated process that keeps a fixed number of requests outstanding, each at a random address. It is the load of
//! the engine's benchmarks and of the tests against queueing formulas for closed systems.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::{Flags, Lba, Operation, Request, RequestId, Sectors, StreamId, Timestamp};

use crate::source::{Next, ReplayError, Source};

/// The parameters of [`RandomClosed`].
#[derive(Clone, Copy, Debug)]
pub struct RandomLoad {
    /// The number of requests.
    pub requests: u64,
    /// The number of requests outstanding at any time.
    pub outstanding: u32,
    /// The least length of a request.
    pub sectors: Sectors,
    /// The greatest length: lengths are uniform over the multiples of the least length up to this.
    pub sectors_max: Sectors,
    /// Addresses are uniform over this capacity, in multiples of the least length.
    pub capacity: Sectors,
    /// Percentage of reads; the other requests are writes.
    pub reads_percent: u32,
    /// Seed of the xoshiro256++ generator.
    pub seed: u64,
}

/// Requests at random addresses; the next one arrives as soon as one completes.
#[derive(Debug)]
pub struct RandomClosed {
    load: RandomLoad,
    generator: Xoshiro256PlusPlus,
    places: u64,
    lengths: u64,
    emitted: u64,
    outstanding: u32,
    now: Timestamp,
}

impl RandomClosed {
    /// The process described by `load`.
    ///
    /// # Panics
    /// If no request fits the capacity, or if the greatest length is below the least.
    pub fn new(load: RandomLoad) -> RandomClosed {
        let (least, greatest) = (load.sectors.count(), load.sectors_max.count());
        assert!(least > 0 && (least..=load.capacity.count()).contains(&greatest), "a request fits the capacity");
        RandomClosed {
            lengths: greatest / least,
            places: (load.capacity.count() - greatest) / least + 1,
            load,
            generator: Xoshiro256PlusPlus::seed_from_u64(load.seed),
            emitted: 0,
            outstanding: 0,
            now: Timestamp::ZERO,
        }
    }
}

impl Source for RandomClosed {
    fn next(&mut self) -> Result<Next, ReplayError> {
        Ok(if self.emitted == self.load.requests {
            Next::Exhausted
        } else if self.outstanding == self.load.outstanding {
            Next::Blocked
        } else {
            Next::At(self.now)
        })
    }

    fn take(&mut self, now: Timestamp, _id: RequestId) -> Result<Request, ReplayError> {
        let place = self.generator.random_range(0..self.places);
        let operation =
            if self.load.reads_percent < 100 && self.generator.random_range(0..100) >= self.load.reads_percent {
                Operation::Write
            } else {
                Operation::Read
            };
        let length = if self.lengths > 1 { self.generator.random_range(1..=self.lengths) } else { 1 };
        let least = self.load.sectors.count();
        let mut request = Request::new(now, operation, Lba::new(place * least), Sectors::new(length * least));
        request.flags = Flags::SYNC;
        request.stream = StreamId((self.emitted % u64::from(self.load.outstanding)) as u32);
        self.emitted += 1;
        self.outstanding += 1;
        Ok(request)
    }

    fn completed(&mut self, now: Timestamp, _id: RequestId, _request: &Request) {
        self.outstanding -= 1;
        self.now = now;
    }
}
