//! A scheduler driven by hand: requests of 8 sectors, a head that is at the end of what was sent
//! last, and a clock in milliseconds.

use iocast_schedulers::{Capacity, Dispatch, DistanceCost, RuleInfo, Scheduler, build};
use traces::{Lba, Nanos, Operation, Request, RequestId, Sectors, StreamId, Timestamp, VmId};

pub(crate) struct Driver {
    pub(crate) scheduler: Box<dyn Scheduler>,
    rules: &'static [RuleInfo],
    pub(crate) cost: DistanceCost,
    pub(crate) now: Timestamp,
    pub(crate) capacity: Capacity,
    pub(crate) requests: Vec<Request>,
}

/// Which requests go, by id, for a script's last column.
pub(crate) type Ids = Vec<u32>;

pub(crate) fn ms(ms: u64) -> Timestamp {
    Timestamp::ZERO + Nanos::from_ms(ms)
}

impl Driver {
    pub(crate) fn new(spec: &str) -> Driver {
        let built = build(&spec.parse().expect("a spec")).expect("a scheduler");
        Driver {
            scheduler: built.scheduler,
            rules: built.entry.rules,
            cost: DistanceCost { position: Lba::ZERO, capacity: Sectors::new(1_000_000) },
            now: Timestamp::ZERO,
            capacity: Capacity::UNLIMITED,
            requests: Vec::new(),
        }
    }

    pub(crate) fn at(&mut self, head: u64) -> &mut Self {
        self.cost.position = Lba::new(head);
        self
    }

    pub(crate) fn time(&mut self, now: Timestamp) -> &mut Self {
        self.now = now;
        self
    }

    pub(crate) fn insert(&mut self, request: Request) -> RequestId {
        let id = RequestId(self.requests.len() as u32);
        self.requests.push(request);
        self.scheduler.insert(self.now, id, &request);
        id
    }

    /// Inserts requests of 8 sectors of stream 0; ids count up from the first ever inserted.
    pub(crate) fn arrive(&mut self, operation: Operation, starts: &[u64]) -> &mut Self {
        for &start in starts {
            self.insert(Request::new(self.now, operation, Lba::new(start), Sectors::new(8)));
        }
        self
    }

    pub(crate) fn reads(&mut self, starts: &[u64]) -> &mut Self {
        self.arrive(Operation::Read, starts)
    }

    pub(crate) fn writes(&mut self, starts: &[u64]) -> &mut Self {
        self.arrive(Operation::Write, starts)
    }

    pub(crate) fn read_of_stream(&mut self, start: u64, stream: u32) -> RequestId {
        let mut request = Request::new(self.now, Operation::Read, Lba::new(start), Sectors::new(8));
        request.stream = StreamId(stream);
        self.insert(request)
    }

    /// Inserts a request of a VM.
    pub(crate) fn of_vm(&mut self, vm: u16, operation: Operation, start: u64, sectors: u64) -> u32 {
        let mut request = Request::new(self.now, operation, Lba::new(start), Sectors::new(sectors));
        request.vm = VmId(vm);
        self.insert(request).0
    }

    pub(crate) fn remove(&mut self, id: u32) -> &mut Self {
        self.scheduler.remove(RequestId(id));
        self
    }

    pub(crate) fn complete(&mut self, id: u32) -> &mut Self {
        self.scheduler.completed(self.now, RequestId(id), &self.requests[id as usize]);
        self
    }

    pub(crate) fn dispatch(&mut self) -> Dispatch {
        let choice = self.scheduler.dispatch(self.now, self.capacity, &self.cost);
        if let Dispatch::Send(id) = choice {
            self.cost.position = self.requests[id.index()].end();
        }
        choice
    }

    /// The rules that have sent requests, with how many each has.
    pub(crate) fn sent_by_rule(&self) -> Vec<(&'static str, u64)> {
        let counts = self.scheduler.sent_by_rule();
        assert_eq!(counts.len(), self.rules.len());
        self.rules.iter().map(|rule| rule.name).zip(counts.iter().copied()).filter(|&(_, count)| count > 0).collect()
    }

    /// The id of the one request that goes now.
    pub(crate) fn next(&mut self) -> u32 {
        match self.dispatch() {
            Dispatch::Send(id) => id.0,
            other => panic!("{other:?}"),
        }
    }

    /// All that goes now, until the scheduler waits or is idle.
    pub(crate) fn all(&mut self) -> Ids {
        self.up_to(usize::MAX)
    }

    /// The requests sent now, at most `count`.
    pub(crate) fn up_to(&mut self, count: usize) -> Ids {
        let mut sent = Ids::new();
        while sent.len() < count
            && let Dispatch::Send(id) = self.dispatch()
        {
            sent.push(id.0);
        }
        sent
    }

    /// Serves one request after another, each in `us`, until `count` have completed or no request is sent. The time
    /// passes to the end of each wait.
    pub(crate) fn serve(&mut self, us: u64, count: usize) -> Ids {
        let mut served = Ids::new();
        while served.len() < count {
            match self.dispatch() {
                Dispatch::Send(id) => {
                    self.now += Nanos::from_us(us);
                    self.complete(id.0);
                    served.push(id.0);
                }
                Dispatch::WaitUntil(until) => self.now = until,
                Dispatch::Idle => break,
            }
        }
        served
    }

    /// Joins the waiting `from` behind the waiting `into`.
    pub(crate) fn join(&mut self, into: u32, from: u32) -> &mut Self {
        let (into, from) = (RequestId(into), RequestId(from));
        let sectors = self.requests[into.index()].sectors() + self.requests[from.index()].sectors();
        self.requests[into.index()].set_sectors(sectors);
        self.scheduler.merged_requests(self.now, into, from, &self.requests[into.index()]);
        self
    }

    /// Puts 8 sectors in front of a waiting request.
    pub(crate) fn front_merge(&mut self, into: u32) -> &mut Self {
        let request = &mut self.requests[into as usize];
        request.lba = Lba::new(request.lba.sector() - 8);
        request.set_sectors(request.sectors() + Sectors::new(8));
        self.scheduler.merged(self.now, RequestId(into), &self.requests[into as usize]);
        self
    }
}
