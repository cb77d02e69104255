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
use traces::{Request, RequestId, Timestamp};

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
        later: IdList::default(),
        waiting: Slots::default(),
        next_age: 0,
    })
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: RequestId,
    age: u64,
    since: Timestamp,
    request: Request,
}

/// Where a request waits.
#[derive(Clone, Copy, Debug, Default)]
enum Place {
    #[default]
    Nowhere,
    /// In the queue, at this place.
    Queue(usize),
    /// Behind it.
    Later(Waiting),
}

#[derive(Debug)]
struct Satf {
    thousandths: u64,
    queue_max: u64,
    /// Those the drive is asked about, in no order: a decision looks at all, and a vector without
    /// gaps is the fastest to look at.
    queue: Vec<Waiting>,
    /// The others, by arrival.
    later: IdList,
    waiting: Slots<Place>,
    next_age: u64,
}

impl Satf {
    /// The effective time in thousandths of a nanosecond, which waiting makes negative.
    fn effective(&self, waiting: &Waiting, now: Timestamp, cost: &dyn AccessCost) -> i128 {
        let access = cost.access(now, &waiting.request).as_ns();
        let waited = now.saturating_since(waiting.since).as_ns();
        i128::from(access) * 1000 - i128::from(waited) * i128::from(self.thousandths)
    }

    fn enqueue(&mut self, waiting: Waiting) {
        self.waiting.set(waiting.id, Place::Queue(self.queue.len()));
        self.queue.push(waiting);
    }

    /// The facts of a waiting request, to change.
    fn known(&mut self, id: RequestId) -> &mut Waiting {
        match &mut self.waiting[id] {
            Place::Queue(place) => &mut self.queue[*place],
            Place::Later(waiting) => waiting,
            Place::Nowhere => panic!("request {} does not wait", id.0),
        }
    }
}

impl Scheduler for Satf {
    fn insert(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        let waiting = Waiting { id, age: self.next_age, since: now, request: *request };
        self.next_age += 1;
        if (self.queue.len() as u64) < self.queue_max {
            self.enqueue(waiting);
        } else {
            self.waiting.set(id, Place::Later(waiting));
            self.later.push_back(id);
        }
    }

    fn dispatch(&mut self, now: Timestamp, capacity: Capacity, cost: &dyn AccessCost) -> Dispatch {
        let admitted = self.queue.iter().filter(|waiting| capacity.admits(waiting.request.operation));
        let best = admitted.min_by_key(|waiting| (self.effective(waiting, now, cost), waiting.age));
        let Some(&Waiting { id, .. }) = best else { return Dispatch::Idle };
        self.remove(id);
        Dispatch::Send(id)
    }

    fn remove(&mut self, id: RequestId) {
        match std::mem::take(&mut self.waiting[id]) {
            Place::Nowhere => panic!("request {} does not wait", id.0),
            Place::Later(_) => self.later.remove(id),
            Place::Queue(place) => {
                self.queue.swap_remove(place);
                if let Some(moved) = self.queue.get(place) {
                    self.waiting[moved.id] = Place::Queue(place);
                }
                if let Some(oldest) = self.later.first() {
                    self.later.remove(oldest);
                    let waiting = *self.known(oldest);
                    self.enqueue(waiting);
                }
            }
        }
    }

    fn merged(&mut self, _now: Timestamp, into: RequestId, request: &Request) {
        self.known(into).request = *request;
    }

    /// The joined request has waited as long as the older of the two.
    fn merged_requests(&mut self, now: Timestamp, into: RequestId, from: RequestId, request: &Request) {
        let Waiting { age, since, .. } = *self.known(from);
        self.remove(from);
        let joined = self.known(into);
        (joined.age, joined.since) = (joined.age.min(age), joined.since.min(since));
        self.merged(now, into, request);
    }

    fn waiting(&self) -> usize {
        self.queue.len() + self.later.len()
    }
}
