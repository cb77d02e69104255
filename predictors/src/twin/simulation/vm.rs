//! The state of one simulated VM beside its closed replay: what its kernel holds back, flushes that wait, and
//! completions that its host has not reported.

use std::collections::{BTreeMap, VecDeque};

use traces::{Flags, Nanos, Operation, Request, RequestId, Sectors, StreamId, Timestamp};

use crate::isolated_trace::TracedRequest;
use crate::twin::workload::Workload;

/// A VM during the simulation. Its requests have the ids of the closed replay.
#[derive(Debug)]
pub(crate) struct SimulatedVm {
    /// Share of completions that the host reports only with the next one.
    pub(crate) coalesced_share: f64,
    /// Number of requests at the device.
    pub(crate) at_device: u32,
    /// Completions that the host reports with the next one.
    pub(crate) held_completions: Vec<RequestId>,
    /// The number of background writes and flushes in flight from which on no further background write goes on.
    background_depth: u32,
    /// The same for flushes.
    flush_depth: u32,
    /// Number of background writes and flushes in flight.
    background_in_flight: u32,
    /// Streams of which one waits until fewer are in flight, in the order of waiting (`rq_qos_wait`).
    throttled: VecDeque<StreamId>,
    /// The requests of these streams, and whether each is a flush. Only the first waits: a thread sends the next one
    /// after it.
    held_back: BTreeMap<StreamId, VecDeque<(RequestId, bool)>>,
    /// Number of outstanding durable writes.
    durable_outstanding: u32,
    /// Flushes that wait until there are none.
    waiting_flushes: Vec<RequestId>,
    /// By stream: how long each of its requests that move no data took in the trace, in their order.
    took_without_data: BTreeMap<StreamId, VecDeque<Nanos>>,
}

impl SimulatedVm {
    /// The VM whose workload this is, before it sends those `requests` of its trace that arrive from `start` on.
    pub(crate) fn new(workload: &Workload, requests: &[TracedRequest], start: Timestamp) -> SimulatedVm {
        let mut took_without_data: BTreeMap<StreamId, VecDeque<Nanos>> = BTreeMap::new();
        for request in requests.iter().filter(|request| request.arrival >= start && !request.moves_data()) {
            let took = request.completed.since(request.issued);
            took_without_data.entry(request.stream).or_default().push_back(took);
        }
        SimulatedVm {
            coalesced_share: workload.coalesced_share,
            at_device: 0,
            held_completions: Vec::new(),
            background_depth: workload.background_depth.max(1),
            flush_depth: workload.flush_depth.max(1),
            background_in_flight: 0,
            throttled: VecDeque::new(),
            held_back: BTreeMap::new(),
            durable_outstanding: 0,
            waiting_flushes: Vec::new(),
            took_without_data,
        }
    }

    /// Counts the arrival of a request. Returns whether it goes on now. If not, it waits behind those that wait
    /// ([`SimulatedVm::released`]), as in `rq_qos_wait` of Linux.
    pub(crate) fn arrives(&mut self, id: RequestId, request: &Request) -> bool {
        self.durable_outstanding += u32::from(is_durable(request));
        if !is_throttled(request) {
            return true;
        }
        let is_flush = request.operation == Operation::Flush;
        if self.throttled.is_empty() && self.has_room(is_flush) {
            self.background_in_flight += 1;
            return true;
        }
        let held_back = self.held_back.entry(request.stream).or_default();
        if held_back.is_empty() {
            self.throttled.push_back(request.stream);
        }
        held_back.push_back((id, is_flush));
        false
    }

    fn has_room(&self, is_flush: bool) -> bool {
        self.background_in_flight < if is_flush { self.flush_depth } else { self.background_depth }
    }

    /// The next request that waited and goes on now, if there is one.
    pub(crate) fn released(&mut self) -> Option<RequestId> {
        let stream = *self.throttled.front()?;
        let &(id, is_flush) = self.held_back.get(&stream)?.front()?;
        if !self.has_room(is_flush) {
            return None;
        }
        self.background_in_flight += 1;
        self.throttled.pop_front();
        let held_back = self.held_back.get_mut(&stream)?;
        held_back.pop_front();
        if !held_back.is_empty() {
            self.throttled.push_back(stream);
        }
        Some(id)
    }

    /// Whether a request that moves no data is served from now on. A flush is not while durable writes are outstanding:
    /// it waits for them ([`SimulatedVm::next_flush`]), as in `block/blk-flush.c` of Linux.
    pub(crate) fn starts_without_data(&mut self, id: RequestId, request: &Request) -> bool {
        let waits = request.operation == Operation::Flush && self.durable_outstanding > 0;
        if waits {
            self.waiting_flushes.push(id);
        }
        !waits
    }

    /// Counts the completion of a request.
    pub(crate) fn completes(&mut self, request: &Request) {
        self.durable_outstanding -= u32::from(is_durable(request));
        self.background_in_flight -= u32::from(is_throttled(request));
    }

    /// A flush that waits for durable writes, if all have completed.
    pub(crate) fn next_flush(&mut self) -> Option<RequestId> {
        if self.durable_outstanding > 0 { None } else { self.waiting_flushes.pop() }
    }

    /// How long a request of `stream` that moves no data takes: as long as its next one took in the trace.
    pub(crate) fn time_without_data(&mut self, stream: StreamId) -> Nanos {
        self.took_without_data.get_mut(&stream).and_then(VecDeque::pop_front).unwrap_or_default()
    }
}

/// Whether Linux throttles a request: a write that no process waits for, or a flush, which is a write without the flag
/// of one that is waited for (`wbt_should_throttle` in `block/blk-wbt.c`, `blkdev_issue_flush`, Linux 6.1).
fn is_throttled(request: &Request) -> bool {
    request.operation == Operation::Flush || request.operation == Operation::Write && !request.is_sync()
}

/// Whether a request is a write of data that is flushed.
fn is_durable(request: &Request) -> bool {
    let is_flushed = request.flags.intersects(Flags::PREFLUSH | Flags::FUA);
    request.operation == Operation::Write && request.sectors() > Sectors::ZERO && is_flushed
}

#[cfg(test)]
mod tests {
    use traces::{Lba, VmId};

    use super::*;
    use crate::isolated_trace::IsolatedTrace;
    use crate::twin::workload::infer;

    #[test]
    fn who_waits_for_the_throttle_goes_on_in_order_and_nobody_overtakes() {
        let workload = Workload { background_depth: 1, flush_depth: 2, ..infer(&IsolatedTrace::default()) };
        let mut vm = SimulatedVm::new(&workload, &[], Timestamp::ZERO);
        let request = |stream: u32, operation: Operation| {
            let sectors = Sectors::new(if operation == Operation::Flush { 0 } else { 8 });
            let mut request = Request::new(Timestamp::ZERO, operation, Lba::ZERO, sectors);
            (request.vm, request.stream) = (VmId::default(), StreamId(stream));
            request
        };
        let (write, flush) = (request(1, Operation::Write), |stream| request(stream, Operation::Flush));
        let ids: Vec<RequestId> = (0..6).map(RequestId).collect();
        assert!(vm.arrives(ids[0], &write));
        // One write is in flight, so a flush has room and another write has not.
        assert!(vm.arrives(ids[1], &flush(2)));
        assert!(!vm.arrives(ids[2], &write) && !vm.arrives(ids[3], &write));
        // It has to wait behind the first of them, whatever room there is.
        vm.completes(&flush(2));
        assert_eq!(vm.released(), None);
        assert!(!vm.arrives(ids[4], &flush(3)));
        vm.completes(&write);
        assert_eq!((vm.released(), vm.released(), vm.released()), (Some(ids[2]), Some(ids[4]), None));
        // The flusher sends its next write when this one goes on, so the flush came before it.
        vm.completes(&write);
        assert_eq!(vm.released(), None);
        vm.completes(&flush(3));
        assert_eq!((vm.released(), vm.released()), (Some(ids[3]), None));
        // Nobody throttles a read.
        assert!(vm.arrives(ids[5], &request(1, Operation::Read)));
    }
}
