//! What stands in front of the drive on a simulated clock: requests wait here, in the order that a scheduler gives
//! them, for what the drive has no room for.
//!
//! It reads no clock. Whoever owns it says what time it is, as late as he likes: everything inside happens at its own
//! time, so that a late caller gets the same completions as a punctual one. Leaves out merging and splitting, which
//! whoever sends the requests has done.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use drive_models::queued::QueueLimits;
use drive_models::{Completion, DriveModel, Queued, WriteCache};
use schedulers::{AccessCost, Scheduler};
use traces::{Nanos, Request, RequestId, Sectors, Timestamp};

/// A request that the drive is done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The request as it arrived.
    pub request: Request,
    /// When it was sent to the drive.
    pub issued: Timestamp,
    /// What the drive says of it.
    pub completion: Completion,
}

/// A drive and what waits for it.
pub struct Front {
    queue: Queued,
    issues: Issues,
    /// By id.
    requests: Vec<Request>,
    /// Ids that nobody has.
    free: Vec<RequestId>,
    now: Timestamp,
    // Reused so that nothing is allocated per request.
    completions: Vec<Completion>,
}

impl Front {
    /// An idle drive behind `scheduler`, which gives it at most `depth` requests at once.
    pub fn new(drive: Box<dyn DriveModel>, scheduler: Box<dyn Scheduler>, depth: u32) -> Front {
        let issues = Issues::default();
        let watched = Watched { drive, issues: issues.clone() };
        let limits = QueueLimits { held: u32::MAX, at_drive: depth, age: None };
        Front {
            queue: Queued::new(Box::new(watched), scheduler, limits),
            issues,
            requests: Vec::new(),
            free: Vec::new(),
            now: Timestamp::ZERO,
            completions: Vec::new(),
        }
    }

    /// The drive's capacity.
    pub fn capacity(&self) -> Sectors {
        self.queue.capacity()
    }

    /// What the drive does with written data.
    pub fn write_cache(&self) -> WriteCache {
        self.queue.write_cache()
    }

    /// Whether the drive understands discards.
    pub fn discards(&self) -> bool {
        self.queue.discards()
    }

    /// Sets the request's arrival: `now`, or just after what happened last if that is later. No two things happen at
    /// once.
    pub fn stamp(&mut self, now: Timestamp, mut request: Request) -> Request {
        self.now = now.max(self.now.saturating_add(Nanos::from_ns(1)));
        request.arrival = self.now;
        request
    }

    /// Takes a request in that arrives at `now`, as [`Front::stamp`] has it.
    pub fn arrive(&mut self, now: Timestamp, request: Request) -> (RequestId, Request) {
        let request = self.stamp(now, request);
        let id = self.free.pop().unwrap_or(RequestId(self.requests.len() as u32));
        if id.index() == self.requests.len() {
            self.requests.push(request);
        }
        self.requests[id.index()] = request;
        self.queue.submit(self.now, id, &request);
        (id, request)
    }

    /// When something will happen next if nothing arrives.
    pub fn next_event(&self) -> Option<Timestamp> {
        self.queue.next_event()
    }

    /// Lets everything happen up to `now` and appends what is done.
    pub fn run(&mut self, now: Timestamp, done: &mut Vec<Done>) {
        self.now = self.now.max(now);
        self.queue.advance(self.now, &mut self.completions);
        let issues = self.issues.times();
        for completion in self.completions.drain(..) {
            let index = completion.id.index();
            done.push(Done { request: self.requests[index], issued: issues[index], completion });
        }
    }

    /// Takes back the id of a request that is done.
    pub fn release(&mut self, id: RequestId) {
        self.free.push(id);
    }
}

/// When the requests were sent to the drive, by id.
#[derive(Clone, Default)]
struct Issues(Arc<Mutex<Vec<Timestamp>>>);

impl Issues {
    fn times(&self) -> MutexGuard<'_, Vec<Timestamp>> {
        // Times that somebody has written are as good after his panic as before.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The drive with a note of when it was given what.
struct Watched {
    drive: Box<dyn DriveModel>,
    issues: Issues,
}

impl DriveModel for Watched {
    fn capacity(&self) -> Sectors {
        self.drive.capacity()
    }

    fn accepts(&self, request: &Request) -> bool {
        self.drive.accepts(request)
    }

    fn submit(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        let mut times = self.issues.times();
        if id.index() >= times.len() {
            times.resize(id.index() + 1, now);
        }
        times[id.index()] = now;
        drop(times);
        self.drive.submit(now, id, request);
    }

    fn next_event(&self) -> Option<Timestamp> {
        self.drive.next_event()
    }

    fn advance(&mut self, now: Timestamp, completions: &mut Vec<Completion>) {
        self.drive.advance(now, completions);
    }

    fn cost(&self) -> &dyn AccessCost {
        self.drive.cost()
    }

    fn write_cache(&self) -> WriteCache {
        self.drive.write_cache()
    }

    fn discards(&self) -> bool {
        self.drive.discards()
    }
}
