//! Shortest access time first, also called shortest positioning time first (SPTF; Seltzer, Chen, Ousterhout 1990;
//! Jacobson, Wilkes 1991). Of all waiting requests, the one is sent that the drive could serve soonest, seek and
//! rotation included, by [`AccessCost::access`].
//!
//! Ageing is that of Worthington, Ganger and Patt 1994 (ASPTF(W)): the effective time is the access time less W times
//! the request's waiting time. Of two requests with the same effective time the older goes. W is `ageing`; 0 is plain
//! SATF, which starves badly placed requests, and 1 is close to first come first served. The default is ours: with
//! 0.006 a request that has waited 1.7 s longer outbids 10 ms.
//!
//! Every decision asks the drive for the cost of each waiting request, but of no more than the oldest `queue_max`: a
//! drive's queue has an end, too. The others, and requests that come back, wait behind them. Leaves out pruning by seek
//! time, and counting the time until the requests before this one are served.

use traces::spec::{Settings, Tunable, Unit};
use traces::{Nanos, Request, RequestId, Timestamp};

use crate::cost::AccessCost;
use crate::entry::Entry;
use crate::id_list::IdList;
use crate::scheduler::{Capacity, Dispatch, Scheduler};
use crate::slots::Slots;

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "satf",
    summary: "shortest access time first, with ageing (SPTF, ASPTF); the drive model states the access times",
    origin: "Jacobson, Wilkes 1991; ageing: Worthington, Ganger, Patt 1994",
    tunables: &[
        Tunable::new(
            "ageing",
            Unit::Decimal,
            "0.006",
            "share of its waiting time that is subtracted from a request's access time",
        )
        .within(0, 1_000_000),
        Tunable::new(
            "queue_max",
            Unit::Count,
            "1024",
            "number of requests, the oldest, whose access times are compared",
        )
        .within(1, 1 << 32),
    ],
    rules: &[],
    build: &build,
};

fn build(settings: &Settings) -> Box<dyn Scheduler> {
    Box::new(Satf {
        thousandths: settings.thousandths("ageing"),
        queue_max: settings.count("queue_max"),
        queue: Vec::new(),
        requests: Vec::new(),
        times: Vec::new(),
        later: IdList::default(),
        waiting: Slots::default(),
        next_age: 0,
    })
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: RequestId,
    age: u64,
    /// What is added to its access time so that of two requests the one wins that has waited longer: its arrival,
    /// weighted. In thousandths of a nanosecond.
    handicap: u128,
}

/// Where a request waits.
#[derive(Clone, Copy, Debug, Default)]
enum Place {
    #[default]
    Nowhere,
    /// In the queue, at this place.
    Queue(usize),
    /// Behind it.
    Later(Waiting, Request),
}

#[derive(Debug)]
struct Satf {
    thousandths: u64,
    queue_max: u64,
    /// Those the drive is asked about, in no order: a decision looks at all, and a vector without
    /// gaps is the fastest to look at.
    queue: Vec<Waiting>,
    /// What each of them asks for: a decision asks the drive about all at once.
    requests: Vec<Request>,
    /// The drive's answers.
    times: Vec<Nanos>,
    /// The others, by arrival.
    later: IdList,
    waiting: Slots<Place>,
    next_age: u64,
}

impl Satf {
    fn enqueue(&mut self, waiting: Waiting, request: Request) {
        self.waiting.set(waiting.id, Place::Queue(self.queue.len()));
        self.queue.push(waiting);
        self.requests.push(request);
    }

    /// The facts of a waiting request, to change.
    fn known(&mut self, id: RequestId) -> (&mut Waiting, &mut Request) {
        match &mut self.waiting[id] {
            Place::Queue(place) => (&mut self.queue[*place], &mut self.requests[*place]),
            Place::Later(waiting, request) => (waiting, request),
            Place::Nowhere => panic!("request {} does not wait", id.0),
        }
    }
}

impl Scheduler for Satf {
    fn insert(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        let handicap = u128::from(now.as_ns()) * u128::from(self.thousandths);
        let waiting = Waiting { id, age: self.next_age, handicap };
        self.next_age += 1;
        if (self.queue.len() as u64) < self.queue_max {
            self.enqueue(waiting, *request);
        } else {
            self.waiting.set(id, Place::Later(waiting, *request));
            self.later.push_back(id);
        }
    }

    fn dispatch(&mut self, now: Timestamp, capacity: Capacity, cost: &dyn AccessCost) -> Dispatch {
        let admits = |request: &Request| capacity.admits(request.operation);
        if !self.requests.iter().any(admits) {
            return Dispatch::Idle;
        }
        let mut times = std::mem::take(&mut self.times);
        times.clear();
        cost.access_all(now, &self.requests, &mut times);
        let mut best = None;
        let mut least = (u128::MAX, u64::MAX);
        for ((waiting, request), &access) in self.queue.iter().zip(&self.requests).zip(&times) {
            // The effective time, but for the present, which is the same for all.
            let key = (u128::from(access.as_ns()) * 1000 + waiting.handicap, waiting.age);
            if key < least && admits(request) {
                (best, least) = (Some(waiting.id), key);
            }
        }
        self.times = times;
        let Some(id) = best else { return Dispatch::Idle };
        self.remove(id);
        Dispatch::Send(id)
    }

    fn remove(&mut self, id: RequestId) {
        match std::mem::take(&mut self.waiting[id]) {
            Place::Nowhere => panic!("request {} does not wait", id.0),
            Place::Later(..) => self.later.remove(id),
            Place::Queue(place) => {
                self.queue.swap_remove(place);
                self.requests.swap_remove(place);
                if let Some(moved) = self.queue.get(place) {
                    self.waiting[moved.id] = Place::Queue(place);
                }
                if let Some(oldest) = self.later.first() {
                    self.later.remove(oldest);
                    let (waiting, request) = self.known(oldest);
                    let (waiting, request) = (*waiting, *request);
                    self.enqueue(waiting, request);
                }
            }
        }
    }

    fn merged(&mut self, _now: Timestamp, into: RequestId, request: &Request) {
        *self.known(into).1 = *request;
    }

    /// The joined request has waited as long as the older of the two.
    fn merged_requests(&mut self, now: Timestamp, into: RequestId, from: RequestId, request: &Request) {
        let Waiting { age, handicap, .. } = *self.known(from).0;
        self.remove(from);
        let (joined, _) = self.known(into);
        (joined.age, joined.handicap) = (joined.age.min(age), joined.handicap.min(handicap));
        self.merged(now, into, request);
    }

    fn waiting(&self) -> usize {
        self.queue.len() + self.later.len()
    }
}
