//! How fast a scheduler decides: a constant number of requests waits, and each step is one
//! dispatch, one completion and one insertion.

use std::fs;
use std::time::{Duration, Instant};

use drive_models::mechanical::Mechanical;
use drive_models::single_server::ServiceModel;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use schedulers::{AccessCost, Capacity, Dispatch, DistanceCost, Scheduler};
use traces::{Flags, Lba, Nanos, Operation, Request, RequestId, Sectors, StreamId, Timestamp, VmId};

/// How many requests wait in the measurements.
pub const WAITING: [usize; 5] = [1, 8, 32, 128, 1024];

/// Where requests lie, which every drive they are put on must reach.
const CAPACITY: Sectors = Sectors::new(1 << 28);

/// A scheduler with a standing queue of requests of 4 KiB at random places, of 4 VMs and 8
/// processes on 4 processors, a quarter of them writes.
pub struct Steady {
    scheduler: Box<dyn Scheduler>,
    requests: Vec<Request>,
    device: Device,
    now: Timestamp,
    random: Xoshiro256PlusPlus,
}

/// What serves the requests and is asked what they would cost.
pub enum Device {
    /// The cheapest oracle there is, the distance; 100 µs a request.
    Distance(DistanceCost),
    /// A drive that works out seek and rotation for every question.
    Mechanical(Box<Mechanical>),
}

impl Device {
    /// The distance, with the head over the first sector.
    pub fn distance() -> Device {
        Device::Distance(DistanceCost { position: Lba::ZERO, capacity: CAPACITY })
    }

    fn cost(&self) -> &dyn AccessCost {
        match self {
            Device::Distance(cost) => cost,
            Device::Mechanical(drive) => &**drive,
        }
    }

    fn serve(&mut self, now: Timestamp, request: &Request) -> Nanos {
        match self {
            Device::Distance(cost) => {
                cost.position = request.end();
                Nanos::from_us(100)
            }
            Device::Mechanical(drive) => drive.serve(now, request).time,
        }
    }
}

impl Steady {
    /// With `waiting` requests on `device`.
    pub fn new(scheduler: Box<dyn Scheduler>, device: Device, waiting: usize) -> Steady {
        let mut steady = Steady {
            scheduler,
            requests: Vec::new(),
            device,
            now: Timestamp::ZERO,
            random: Xoshiro256PlusPlus::seed_from_u64(1),
        };
        for id in 0..waiting as u32 {
            let request = steady.request();
            steady.requests.push(request);
            steady.scheduler.insert(steady.now, RequestId(id), &request);
        }
        steady
    }

    fn request(&mut self) -> Request {
        let bits: u64 = self.random.random();
        let operation = if bits.is_multiple_of(4) { Operation::Write } else { Operation::Read };
        let lba = Lba::new((bits >> 16) % (CAPACITY.count() / 8) * 8);
        let mut request = Request::new(self.now, operation, lba, Sectors::new(8));
        request.vm = VmId((bits >> 2 & 3) as u16);
        request.stream = StreamId((bits >> 4 & 7) as u32);
        request.cpu = (bits >> 7 & 3) as u16;
        if operation == Operation::Read {
            request.flags = Flags::SYNC;
        }
        request
    }

    /// One decision, and what follows from it. Waits are waited for.
    ///
    /// # Panics
    /// If the scheduler is idle although requests wait.
    pub fn step(&mut self) -> RequestId {
        loop {
            match self.scheduler.dispatch(self.now, Capacity::UNLIMITED, self.device.cost()) {
                Dispatch::Send(id) => {
                    let sent = self.requests[id.index()];
                    let time = self.device.serve(self.now, &sent);
                    self.scheduler.issued(self.now, id);
                    self.now += time;
                    self.scheduler.completed(self.now, id, &sent);
                    let request = self.request();
                    self.requests[id.index()] = request;
                    self.scheduler.insert(self.now, id, &request);
                    return id;
                }
                Dispatch::WaitUntil(time) => self.now = time,
                Dispatch::Idle => panic!("idle with {} requests", self.scheduler.waiting()),
            }
        }
    }

    /// Decisions per CPU second, measured over at least `span` of the clock.
    pub fn decisions_per_cpu_second(&mut self, span: Duration) -> f64 {
        let (clock, cpu) = (Instant::now(), on_cpu());
        let mut decisions = 0_u32;
        while clock.elapsed() < span {
            for _ in 0..256 {
                self.step();
            }
            decisions += 256;
        }
        let cpu = on_cpu().zip(cpu).map(|(end, start)| end.saturating_sub(start)).filter(|cpu| !cpu.is_zero());
        f64::from(decisions) / cpu.unwrap_or(clock.elapsed()).as_secs_f64()
    }
}

/// How long this thread has been on a CPU, to a tick; `None` where `/proc` does not tell.
fn on_cpu() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    stat.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}
