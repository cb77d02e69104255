//! Whether writes that are to be durable go ahead of what waits.
//!
//! Linux sends the data of a flush sequence ahead of its scheduler (`block/blk-flush.c`: the flush machinery puts requests at the head of
//! the queue), a SCSI drive does nothing of the kind. Of a device that serves one request after another the recording shows it: such a
//! write that comes while others wait is done before these, or after them.

use std::collections::VecDeque;

use schedulers::{AccessCost, Capacity, Dispatch, Scheduler};
use traces::{Flags, Nanos, Request, RequestId, Timestamp};

use crate::isolated_trace::{IsolatedTrace, TracedRequest, each_issued};

/// Fewer that came while others waited tell nothing.
const TELLING_MIN: usize = 20;
/// What comes within so little of one another may have changed places on its way.
const AT_ONCE: Nanos = Nanos::from_ms(1);

/// Whether writes that are to be durable go ahead at the device of `traces`, which is `delay` away.
pub(crate) fn is_durable_first(traces: &[IsolatedTrace], delay: Nanos) -> bool {
    let (mut told, mut ahead) = (0, 0);
    for trace in traces {
        each_issued(trace.moving(), |request, in_flight| {
            // The first that is done was in service; the others wait, in whatever order.
            let clearly_before =
                |other: &&&TracedRequest| other.issued.saturating_add(AT_ONCE.max(delay)) < request.issued;
            let waiting = in_flight.values().skip(1).filter(|other| !other.durable).find(clearly_before);
            if let Some(first) = waiting.filter(|_| request.durable) {
                told += 1;
                ahead += usize::from(request.completed < first.completed);
            }
        });
    }
    told >= TELLING_MIN && 2 * ahead > told
}

/// An order in which they do.
pub(crate) struct DurableFirst {
    ahead: VecDeque<RequestId>,
    others: Box<dyn Scheduler>,
}

impl DurableFirst {
    /// Of `others` among themselves.
    pub(crate) fn of(others: Box<dyn Scheduler>) -> DurableFirst {
        DurableFirst { ahead: VecDeque::new(), others }
    }
}

impl Scheduler for DurableFirst {
    fn insert(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        if request.flags.contains(Flags::FUA) {
            self.ahead.push_back(id);
        } else {
            self.others.insert(now, id, request);
        }
    }

    fn dispatch(&mut self, now: Timestamp, capacity: Capacity, cost: &dyn AccessCost) -> Dispatch {
        if capacity.writes > 0
            && let Some(id) = self.ahead.pop_front()
        {
            return Dispatch::Send(id);
        }
        self.others.dispatch(now, capacity, cost)
    }

    fn completed(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        if !request.flags.contains(Flags::FUA) {
            self.others.completed(now, id, request);
        }
    }

    fn remove(&mut self, id: RequestId) {
        match self.ahead.iter().position(|waiting| *waiting == id) {
            Some(place) => drop(self.ahead.remove(place)),
            None => self.others.remove(id),
        }
    }

    fn merged(&mut self, now: Timestamp, into: RequestId, request: &Request) {
        self.others.merged(now, into, request);
    }

    fn waiting(&self) -> usize {
        self.ahead.len() + self.others.waiting()
    }
}

#[cfg(test)]
mod tests {
    use traces::Operation;

    use super::*;

    /// Every 100 ms three plain writes and then a durable one, each served for 10 ms, that one second if it goes `ahead`.
    fn trace(ahead: bool) -> IsolatedTrace {
        let mut requests = Vec::new();
        for n in 0..40 {
            let at = n * 100_000;
            let write = |later: u64, done: u64| TracedRequest::sent(Operation::Write, 0, at + later, done - later);
            let done = if ahead { [10_000, 30_000, 40_000, 20_000] } else { [10_000, 20_000, 30_000, 40_000] };
            requests.extend([write(0, done[0]), write(100, done[1]), write(200, done[2])]);
            requests.push(TracedRequest { durable: true, ..write(5000, done[3]) });
        }
        IsolatedTrace { requests, ..IsolatedTrace::default() }
    }

    #[test]
    fn who_overtakes_goes_ahead() {
        assert!(is_durable_first(&[trace(true)], Nanos::ZERO));
        assert!(!is_durable_first(&[trace(false)], Nanos::ZERO));
        // So far away nobody can say who came first.
        assert!(!is_durable_first(&[trace(true)], Nanos::from_ms(5)));
        let mut few = trace(true);
        few.requests.truncate(4 * 19);
        assert!(!is_durable_first(&[few], Nanos::ZERO));
    }

    #[test]
    fn they_are_taken_first_and_the_others_as_ever() {
        let mut order = DurableFirst::of(crate::twin::device::policy::shipped("fifo"));
        let cost = schedulers::DistanceCost { position: traces::Lba::ZERO, capacity: traces::Sectors::new(1 << 20) };
        let now = Timestamp::ZERO;
        let write = |durable: bool| {
            let mut request = Request::new(now, Operation::Write, traces::Lba::ZERO, traces::Sectors::new(8));
            request.flags = if durable { Flags::FUA } else { Flags::empty() };
            request
        };
        for (id, durable) in [(0, false), (1, true), (2, false), (3, true)] {
            order.insert(now, RequestId(id), &write(durable));
        }
        assert_eq!(order.waiting(), 4);
        let capacity = |writes: u32| Capacity { reads: 1, writes };
        assert_eq!(order.dispatch(now, capacity(0), &cost), Dispatch::Idle);
        order.remove(RequestId(3));
        let taken: Vec<Dispatch> = (0..4).map(|_| order.dispatch(now, capacity(1), &cost)).collect();
        let sent = |id: u32| Dispatch::Send(RequestId(id));
        assert_eq!(taken, [sent(1), sent(0), sent(2), Dispatch::Idle]);
    }
}
