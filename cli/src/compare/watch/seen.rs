//! What a screen sees of a replay, counted by an observer and handed over when the screen asks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use replay::Observer;
use traces::{Operation, Request, RequestId, Timestamp};

use crate::screen::Requests;

/// A replay so far.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Simulated time.
    pub now: Timestamp,
    pub arrived: u64,
    pub completed: u64,
    pub has_ended: bool,
    /// Response times, Q2C.
    pub reads: Requests,
    pub writes: Requests,
    /// Reads and writes, by the numbers of VMs.
    pub vms: Vec<Requests>,
}

impl Seen {
    /// Arrivals without completion.
    pub fn outstanding(&self) -> u64 {
        self.arrived - self.completed
    }
}

/// The place where an observer leaves what it has seen.
#[derive(Debug, Default)]
pub struct Shared {
    /// The observer is asked to leave what it has seen. A look at it costs a request no more than a load.
    is_asked: AtomicBool,
    has_ended: AtomicBool,
    latest: Mutex<Seen>,
}

impl Shared {
    /// What the observer left last, and asks it for more.
    pub fn latest(&self) -> Seen {
        self.is_asked.store(true, Ordering::Relaxed);
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    fn leave(&self, seen: &Seen) {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone_from(seen);
        self.is_asked.store(false, Ordering::Relaxed);
    }
}

/// The observer of a replay that is watched.
#[derive(Debug)]
pub struct Watched {
    shared: Arc<Shared>,
    seen: Seen,
}

impl Watched {
    pub fn new(shared: Arc<Shared>) -> Watched {
        Watched { shared, seen: Seen::default() }
    }

    /// The replay has ended.
    pub fn finish(mut self) {
        self.seen.has_ended = true;
        self.shared.leave(&self.seen);
        self.shared.has_ended.store(true, Ordering::Release);
    }
}

impl Observer for Watched {
    fn arrived(&mut self, now: Timestamp, _id: RequestId, _request: &Request) {
        self.seen.now = now;
        self.seen.arrived += 1;
    }

    fn completed(&mut self, now: Timestamp, _id: RequestId, request: &Request) {
        let seen = &mut self.seen;
        seen.now = now;
        seen.completed += 1;
        let of = match request.operation {
            Operation::Read => Some(&mut seen.reads),
            Operation::Write => Some(&mut seen.writes),
            Operation::Flush | Operation::Discard => None,
        };
        if let Some(of) = of {
            let (bytes, ns) = (request.sectors().bytes(), now.saturating_since(request.arrival).as_ns());
            of.add(bytes, ns);
            let vm = usize::from(request.vm.0);
            if vm >= seen.vms.len() {
                seen.vms.resize_with(vm + 1, Requests::default);
            }
            seen.vms[vm].add(bytes, ns);
        }
        if self.shared.is_asked.load(Ordering::Relaxed) {
            self.shared.leave(seen);
        }
    }
}

#[cfg(test)]
mod tests {
    use traces::{Lba, Sectors, VmId};

    use super::*;

    #[test]
    fn what_was_seen_is_there_when_it_is_asked_for_and_at_the_end() {
        let shared = Arc::new(Shared::default());
        let mut watched = Watched::new(Arc::clone(&shared));
        let request = |vm, operation| {
            let mut request = Request::new(Timestamp::from_ns(100), operation, Lba::new(0), Sectors::new(8));
            request.vm = VmId(vm);
            request
        };
        let mut serve = |at: u64, request: &Request| {
            watched.arrived(Timestamp::from_ns(at), RequestId(0), request);
            watched.completed(Timestamp::from_ns(at), RequestId(0), request);
        };
        serve(150, &request(0, Operation::Read));
        assert_eq!(shared.latest().completed, 0, "nobody had asked");
        serve(180, &request(1, Operation::Write));
        assert_eq!(shared.latest().completed, 2);
        serve(200, &request(1, Operation::Flush));
        watched.arrived(Timestamp::from_ns(300), RequestId(0), &request(0, Operation::Read));
        assert!(!shared.has_ended());
        watched.finish();
        let seen = shared.latest();
        assert!(shared.has_ended() && seen.has_ended);
        assert_eq!((seen.now, seen.completed, seen.outstanding()), (Timestamp::from_ns(300), 3, 1));
        assert_eq!((seen.reads.mean_ns(), seen.writes.mean_ns()), (Some(50.0), Some(80.0)));
        assert_eq!(seen.vms.iter().map(|vm| vm.count).collect::<Vec<u64>>(), [1, 1]);
    }
}
