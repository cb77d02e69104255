//! A list of requests as a source, for the tests.

use iocast_replay::{Next, ReplayError, Source};
use traces::{Request, RequestId, Timestamp};

/// Requests in order of arrival, open loop. Each completes once and as it arrived.
pub struct Listed {
    pub requests: Vec<Request>,
    pub next: usize,
    /// Whether the engine may hold arrivals back.
    pub is_held_back: bool,
    /// Outstanding arrivals, by id.
    pub outstanding: Vec<Option<Request>>,
}

impl Listed {
    pub fn new(requests: &[Request]) -> Listed {
        Listed { requests: requests.to_vec(), next: 0, is_held_back: false, outstanding: Vec::new() }
    }
}

impl Source for Listed {
    fn next(&mut self) -> Result<Next, ReplayError> {
        Ok(self.requests.get(self.next).map_or(Next::Exhausted, |request| Next::At(request.arrival)))
    }

    fn take(&mut self, now: Timestamp, id: RequestId) -> Result<Request, ReplayError> {
        self.next += 1;
        let request = self.requests[self.next - 1];
        let is_punctual = if self.is_held_back { request.arrival <= now } else { request.arrival == now };
        assert!(is_punctual, "arrivals come when they were announced");
        if id.index() >= self.outstanding.len() {
            self.outstanding.resize(id.index() + 1, None);
        }
        assert!(self.outstanding[id.index()].replace(request).is_none(), "ids are unique among outstanding requests");
        Ok(request)
    }

    fn completed(&mut self, _now: Timestamp, id: RequestId, request: &Request) {
        assert_eq!(self.outstanding[id.index()].take(), Some(*request), "an arrival completes once, as it arrived");
    }
}
