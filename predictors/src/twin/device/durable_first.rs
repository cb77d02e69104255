//! Detects whether durable writes (flush or FUA) bypass the device's queue, and schedules them so.
//!
//! Linux sends the data of a flush sequence ahead of its scheduler (`block/blk-flush.c`: the flush machinery puts
//! requests at the head of the queue). A SCSI drive does nothing of the kind. The rule is inferred from durable writes
//! that are issued while other requests wait: if most of them complete before the others, they bypass the queue.
//! [`DurableFirst`] is the scheduler that the simulation then uses.
//!
//! The order of durable writes among themselves is not inferred; they keep the order of arrival.

use std::collections::VecDeque;

use schedulers::{AccessCost, Capacity, Dispatch, Scheduler};
use traces::{Flags, Nanos, Request, RequestId, Timestamp};

use crate::isolated_trace::{IsolatedTrace, TracedRequest, each_issued};

/// Fewer durable writes that were issued while others waited decide nothing. Set by judgement; not varied.
const DURABLE_WRITES_MIN: usize = 20;
/// Requests issued within this time of one another may have changed places on their way to the device. If the device's
/// delay is longer, that bound holds. Set by judgement; not varied.
const SIMULTANEOUS_MAX: Nanos = Nanos::from_ms(1);

/// Whether durable writes bypass the queue of the device of `traces`. `delay` is the round trip between the tracing
/// point and the device.
pub(crate) fn is_durable_first(traces: &[IsolatedTrace], delay: Nanos) -> bool {
    let (mut observed, mut bypassed) = (0, 0);
    for trace in traces {
        each_issued(trace.moving(), |request, in_flight| {
            if !request.durable {
                return;
            }
            // The request that completes first was in service; the others wait, in any order.
            let clearly_before =
                |other: &&&TracedRequest| other.issued.saturating_add(SIMULTANEOUS_MAX.max(delay)) < request.issued;
            let waiting = in_flight.values().skip(1).filter(|other| !other.durable).find(clearly_before);
            if let Some(first) = waiting {
                observed += 1;
                bypassed += usize::from(request.completed < first.completed);
            }
        });
    }
    observed >= DURABLE_WRITES_MIN && 2 * bypassed > observed
}

/// A scheduler that dispatches durable writes first, in order of arrival, and all other requests as another scheduler
/// does.
pub(crate) struct DurableFirst {
    durable: VecDeque<RequestId>,
    others: Box<dyn Scheduler>,
}

impl DurableFirst {
    /// Durable writes ahead of `others`.
    pub(crate) fn of(others: Box<dyn Scheduler>) -> DurableFirst {
        DurableFirst { durable: VecDeque::new(), others }
    }
}

impl Scheduler for DurableFirst {
    fn insert(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        if request.flags.contains(Flags::FUA) {
            self.durable.push_back(id);
        } else {
            self.others.insert(now, id, request);
        }
    }

    fn dispatch(&mut self, now: Timestamp, capacity: Capacity, cost: &dyn AccessCost) -> Dispatch {
        if capacity.writes > 0
            && let Some(id) = self.durable.pop_front()
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
        match self.durable.iter().position(|waiting| *waiting == id) {
            Some(place) => drop(self.durable.remove(place)),
            None => self.others.remove(id),
        }
    }

    fn merged(&mut self, now: Timestamp, into: RequestId, request: &Request) {
        self.others.merged(now, into, request);
    }

    fn waiting(&self) -> usize {
        self.durable.len() + self.others.waiting()
    }
}

#[cfg(test)]
mod tests {
    use traces::Operation;

    use super::*;

    /// Every 100 ms three plain writes and then a durable one, each served for 10 ms. The durable write is served
    /// second if it `bypasses` the queue.
    fn trace(bypasses: bool) -> IsolatedTrace {
        let mut requests = Vec::new();
        for n in 0..40 {
            let at = n * 100_000;
            let write = |later: u64, done: u64| TracedRequest::sent(Operation::Write, 0, at + later, done - later);
            let done = if bypasses { [10_000, 30_000, 40_000, 20_000] } else { [10_000, 20_000, 30_000, 40_000] };
            requests.extend([write(0, done[0]), write(100, done[1]), write(200, done[2])]);
            requests.push(TracedRequest { durable: true, ..write(5000, done[3]) });
        }
        IsolatedTrace { requests, ..IsolatedTrace::default() }
    }

    #[test]
    fn durable_writes_go_first_if_enough_of_them_overtake_by_more_than_the_delay() {
        assert!(is_durable_first(&[trace(true)], Nanos::ZERO));
        assert!(!is_durable_first(&[trace(false)], Nanos::ZERO));
        // With a delay of 5 ms the order of arrival at the device is not known.
        assert!(!is_durable_first(&[trace(true)], Nanos::from_ms(5)));
        let mut few = trace(true);
        few.requests.truncate(4 * 19);
        assert!(!is_durable_first(&[few], Nanos::ZERO));
    }

    #[test]
    fn scheduler_dispatches_durable_writes_first_and_the_others_in_their_order() {
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
            assert_eq!(order.waiting(), id as usize + 1);
        }
        let capacity = |writes: u32| Capacity { reads: 1, writes };
        assert_eq!(order.dispatch(now, capacity(0), &cost), Dispatch::Idle);
        order.remove(RequestId(3));
        let dispatched: Vec<Dispatch> = (0..4).map(|_| order.dispatch(now, capacity(1), &cost)).collect();
        let sent = |id: u32| Dispatch::Send(RequestId(id));
        assert_eq!(dispatched, [sent(1), sent(0), sent(2), Dispatch::Idle]);
    }
}
