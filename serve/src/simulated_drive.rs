//! The served drive on a simulated clock: a scheduler, and a drive model below it.
//!
//! It reads no clock; the caller states the time. Each arrival, dispatch and completion takes place at its own
//! simulated time. A caller that asks late therefore gets the same completions as a punctual caller. This module leaves
//! out merging and splitting: the client's kernel has already merged and split its requests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use drive_models::queued::QueueLimits;
use drive_models::{Completion, DriveModel, Queued, WriteCache};
use schedulers::Scheduler;
use traces::{Nanos, Request, RequestId, Sectors, Timestamp};

/// A request that the drive model has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinishedRequest {
    /// The request as it arrived.
    pub request: Request,
    /// When it was issued to the drive.
    pub issued: Timestamp,
    /// The drive model's completion.
    pub completion: Completion,
}

/// A drive model with a scheduler in front of it.
pub struct SimulatedDrive {
    queue: Queued,
    issue_times: IssueTimes,
    /// By id.
    requests: Vec<Request>,
    /// Ids that no request uses.
    free_ids: Vec<RequestId>,
    now: Timestamp,
    // Reused to avoid an allocation for each request.
    completions: Vec<Completion>,
}

impl SimulatedDrive {
    /// An idle drive behind `scheduler`, which keeps at most `depth` requests at the drive at once.
    pub fn new(drive: Box<dyn DriveModel>, scheduler: Box<dyn Scheduler>, depth: u32) -> SimulatedDrive {
        let issue_times = IssueTimes::default();
        let recorded = IssueRecorder { drive, issue_times: issue_times.clone() };
        let limits = QueueLimits { held: u32::MAX, at_drive: depth, age: None };
        SimulatedDrive {
            queue: Queued::new(Box::new(recorded), scheduler, limits),
            issue_times,
            requests: Vec::new(),
            free_ids: Vec::new(),
            now: Timestamp::ZERO,
            completions: Vec::new(),
        }
    }

    /// The drive capacity.
    pub fn capacity(&self) -> Sectors {
        self.queue.capacity()
    }

    /// The kind of the drive's write cache.
    pub fn write_cache(&self) -> WriteCache {
        self.queue.write_cache()
    }

    /// Whether the drive supports discards.
    pub fn discards(&self) -> bool {
        self.queue.discards()
    }

    /// Sets the request's arrival to `now`, or to 1 ns after the previous event if that is later. No two events share a
    /// timestamp.
    pub fn stamp(&mut self, now: Timestamp, mut request: Request) -> Request {
        self.now = now.max(self.now.saturating_add(Nanos::from_ns(1)));
        request.arrival = self.now;
        request
    }

    /// Accepts a request that arrives at `now`. Returns its id, and the request as stamped by
    /// [`SimulatedDrive::stamp`].
    pub fn arrive(&mut self, now: Timestamp, request: Request) -> (RequestId, Request) {
        let request = self.stamp(now, request);
        let id = self.free_ids.pop().unwrap_or(RequestId(self.requests.len() as u32));
        if id.index() == self.requests.len() {
            self.requests.push(request);
        }
        self.requests[id.index()] = request;
        self.queue.submit(self.now, id, &request);
        (id, request)
    }

    /// What the scheduler did that no scheduler may do ([`Scheduler::fault`]).
    pub fn fault(&self) -> Option<&str> {
        self.queue.fault()
    }

    /// The time of the next event if no further request arrives.
    pub fn next_event(&self) -> Option<Timestamp> {
        self.queue.next_event()
    }

    /// Simulates up to `now` and appends the requests that have completed to `finished`.
    pub fn run(&mut self, now: Timestamp, finished: &mut Vec<FinishedRequest>) {
        self.now = self.now.max(now);
        self.queue.advance(self.now, &mut self.completions);
        let issue_times = self.issue_times.lock();
        for completion in self.completions.drain(..) {
            let index = completion.id.index();
            finished.push(FinishedRequest { request: self.requests[index], issued: issue_times[index], completion });
        }
    }

    /// Frees the id of a completed request.
    pub fn release(&mut self, id: RequestId) {
        self.free_ids.push(id);
    }
}

/// When each request was issued to the drive, by id.
#[derive(Clone, Default)]
struct IssueTimes(Arc<Mutex<Vec<Timestamp>>>);

impl IssueTimes {
    fn lock(&self) -> MutexGuard<'_, Vec<Timestamp>> {
        // A thread that panicked leaves no time half written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A drive model that records when each request was issued to it.
struct IssueRecorder {
    drive: Box<dyn DriveModel>,
    issue_times: IssueTimes,
}

impl DriveModel for IssueRecorder {
    fn capacity(&self) -> Sectors {
        self.drive.capacity()
    }

    fn accepts(&self, request: &Request) -> bool {
        self.drive.accepts(request)
    }

    fn submit(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        let mut times = self.issue_times.lock();
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

    drive_models::forward_properties!(drive);
}
