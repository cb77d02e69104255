//! The source of arrivals in a simulation: the VMs' excerpts together, each in a closed replay.
//!
//! [`Closed`] sends each request one think time after what it waits for, as in every other replay. Added here is what
//! lies between the VM and the device and is no stage of the simulated stack: background writes that the VM's kernel
//! throttles together with flushes, and completions that its host reports together. Flushes and discards never reach
//! the device. They take as long as they took in the trace; a flush waits for durable writes first.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use replay::sources::Closed;
use replay::{Next, ReplayError, Source};
use traces::{Operation, Request, RequestId, Sectors, Timestamp};

use crate::twin::simulation::vm::SimulatedVm;

/// The source. It stops at `until`, or earlier when one of the VMs has sent its last request; it then sets `until` to
/// that time. What is outstanding then is not simulated further: long queues of write-back would take longer than all
/// before.
pub(crate) struct VmSource<'a> {
    closed: Closed,
    vms: Vec<SimulatedVm>,
    /// Requests that go to the device now.
    ready: VecDeque<RequestId>,
    /// Completions of requests that never reach the device: time, order, id.
    completions: BinaryHeap<Reverse<(Timestamp, u64, RequestId)>>,
    sequence: u64,
    /// The requests of the closed replay that have not completed, by their id there, and the ids that are free.
    requests: Vec<Request>,
    free: Vec<RequestId>,
    /// By id at the device: the id in the closed replay.
    at_device: Vec<RequestId>,
    /// The end of the simulation, set earlier when a VM has sent its last request.
    until: &'a Cell<Timestamp>,
    now: Timestamp,
    random: Xoshiro256PlusPlus,
}

impl<'a> VmSource<'a> {
    /// The VMs whose traces `closed` replays.
    pub(crate) fn new(closed: Closed, vms: Vec<SimulatedVm>, until: &'a Cell<Timestamp>, seed: u64) -> VmSource<'a> {
        VmSource {
            closed,
            vms,
            ready: VecDeque::new(),
            completions: BinaryHeap::new(),
            sequence: 0,
            requests: Vec::new(),
            free: Vec::new(),
            at_device: Vec::new(),
            until,
            now: Timestamp::ZERO,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    /// Takes the request that arrives now from the closed replay.
    fn arrive(&mut self, now: Timestamp) -> Result<(), ReplayError> {
        let id = self.free.pop().unwrap_or(RequestId(self.requests.len() as u32));
        let request = self.closed.take(now, id)?;
        match self.requests.get_mut(id.index()) {
            Some(place) => *place = request,
            None => self.requests.push(request),
        }
        if self.vms[usize::from(request.vm.0)].arrives(id, &request) {
            self.go_on(now, id);
        }
        Ok(())
    }

    /// A request that the VM's kernel does not hold back goes to the device, or is served if it moves no data.
    fn go_on(&mut self, now: Timestamp, id: RequestId) {
        let request = self.requests[id.index()];
        if moves_data(&request) {
            self.ready.push_back(id);
        } else if self.vms[usize::from(request.vm.0)].starts_without_data(id, &request) {
            self.serve_without_data(now, id);
        }
    }

    /// Serves a request that moves no data, in the time that it took in the trace.
    fn serve_without_data(&mut self, now: Timestamp, id: RequestId) {
        let request = &self.requests[id.index()];
        let took = self.vms[usize::from(request.vm.0)].time_without_data(request.stream);
        self.sequence += 1;
        self.completions.push(Reverse((now.saturating_add(took), self.sequence, id)));
    }

    /// The VM learns of a completion. What waited for it in the VM's kernel goes on.
    fn complete(&mut self, now: Timestamp, id: RequestId) {
        let request = self.requests[id.index()];
        let vm = usize::from(request.vm.0);
        self.vms[vm].completes(&request);
        while let Some(flush) = self.vms[vm].next_flush() {
            self.serve_without_data(now, flush);
        }
        while let Some(next) = self.vms[vm].released() {
            self.go_on(now, next);
        }
        self.closed.completed(now, id, &request);
        self.free.push(id);
    }
}

fn moves_data(request: &Request) -> bool {
    (request.operation as usize) < Operation::MOVING_DATA && request.sectors() > Sectors::ZERO
}

impl Source for VmSource<'_> {
    fn next(&mut self) -> Result<Next, ReplayError> {
        if !self.ready.is_empty() {
            return Ok(Next::At(self.now));
        }
        let (arrival, is_exhausted) = match self.closed.next()? {
            Next::At(at) => (Some(at), false),
            Next::Blocked => (None, false),
            Next::Exhausted | Next::Stopped => (None, true),
        };
        // Not when a process has used up its requests: an excerpt ends within the trace, where it may only pause.
        if self.closed.has_exhausted_vm() {
            self.until.set(self.now.min(self.until.get()));
        }
        let completion = self.completions.peek().map(|Reverse((at, ..))| *at);
        let next = [completion, arrival].into_iter().flatten().min();
        Ok(match next {
            _ if self.now >= self.until.get() => Next::Stopped,
            Some(next) if next >= self.until.get() => Next::Exhausted,
            Some(next) => Next::At(next.max(self.now)),
            None if is_exhausted => Next::Exhausted,
            None => Next::Blocked,
        })
    }

    fn advance(&mut self, now: Timestamp) -> Result<(), ReplayError> {
        self.now = now;
        loop {
            let completion = self.completions.peek().filter(|Reverse((at, ..))| *at <= now);
            if let Some(&Reverse((_, _, id))) = completion {
                self.completions.pop();
                self.complete(now, id);
            } else if matches!(self.closed.next()?, Next::At(at) if at <= now) {
                self.arrive(now)?;
            } else {
                return Ok(());
            }
        }
    }

    fn take(&mut self, now: Timestamp, id: RequestId) -> Result<Request, ReplayError> {
        self.now = now;
        let own = self.ready.pop_front().expect("the engine takes what was announced");
        if id.index() >= self.at_device.len() {
            self.at_device.resize(id.index() + 1, own);
        }
        self.at_device[id.index()] = own;
        let mut request = self.requests[own.index()];
        self.vms[usize::from(request.vm.0)].at_device += 1;
        request.arrival = now;
        Ok(request)
    }

    fn completed(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.now = now;
        let chance = traces::random::unit(self.random.next_u64());
        let vm = &mut self.vms[usize::from(request.vm.0)];
        vm.at_device -= 1;
        vm.held_completions.push(self.at_device[id.index()]);
        if vm.at_device > 0 && chance < vm.coalesced_share {
            return;
        }
        for own in std::mem::take(&mut vm.held_completions) {
            self.complete(now, own);
        }
    }
}

#[cfg(test)]
mod tests {
    use replay::{Engine, Limits, Observer, Stage};
    use traces::{Lba, Nanos, StreamId};

    use super::*;
    use crate::isolated_trace::{IsolatedTrace, TracedRequest};
    use crate::twin::simulation::excerpt::closed;
    use crate::twin::workload::{Workload, infer};

    /// Two processes that think for 3 and 4 ms, on a drive that takes 2 ms for each request in turn. The second also
    /// flushes, in a time that changes.
    fn traced() -> Vec<TracedRequest> {
        let mut requests = Vec::new();
        let mut free = 0;
        let mut next = [0u64, 500];
        for n in 0..200u64 {
            let process = usize::from(next[1] < next[0]);
            let at = next[process];
            let flush = process == 1 && n % 5 == 0;
            let done = if flush { at + 600 + n } else { free.max(at) + 2000 };
            if !flush {
                free = done;
            }
            next[process] = done + 3000 + 1000 * process as u64;
            let operation = if flush { Operation::Flush } else { Operation::Read };
            let sent = TracedRequest::sent(operation, process as u32, at, done - at);
            requests.push(TracedRequest { lba: Lba::new(n * 8), sectors: if flush { 0 } else { 8 }, ..sent });
        }
        requests
    }

    #[derive(Default)]
    struct Seen(Vec<(Timestamp, Timestamp, u64)>);

    impl Observer for Seen {
        fn completed(&mut self, now: Timestamp, _: RequestId, request: &Request) {
            self.0.push((request.arrival, now, request.lba.sector()));
        }
    }

    fn workload(requests: &[TracedRequest]) -> Workload {
        infer(&IsolatedTrace { requests: requests.to_vec(), ..IsolatedTrace::default() })
    }

    /// The source of VMs with these traces.
    fn source<'a>(traces: &[&[TracedRequest]], change: fn(&mut Workload), until: &'a Cell<Timestamp>) -> VmSource<'a> {
        let mut workloads: Vec<Workload> = traces.iter().map(|trace| workload(trace)).collect();
        workloads.iter_mut().for_each(change);
        let vms = workloads
            .iter()
            .zip(traces)
            .map(|(workload, trace)| SimulatedVm::new(workload, trace, Timestamp::ZERO))
            .collect();
        VmSource::new(closed(traces, &workloads, Timestamp::ZERO), vms, until, 1)
    }

    /// Arrival, completion and address of each request on a drive that serves one after another.
    fn in_turn(
        traces: &[&[TracedRequest]],
        change: fn(&mut Workload),
        service_us: u64,
    ) -> Vec<(Timestamp, Timestamp, u64)> {
        let until = Cell::new(Timestamp::MAX);
        let drive = drive_models::build(&format!("fixed:service={service_us}us").parse().unwrap()).unwrap().drive;
        let scheduler = schedulers::build(&"fifo".parse().unwrap()).unwrap().scheduler;
        let stage = Stage::new(scheduler, Limits { merge: false, ..Limits::default() });
        let source = source(traces, change, &until);
        Engine::new(source, stage, drive, Seen::default()).run().unwrap().observer.0
    }

    /// The same on a drive that serves all at once, by completion.
    fn at_once(
        traces: &[&[TracedRequest]],
        change: fn(&mut Workload),
        service_us: u64,
    ) -> Vec<(Timestamp, Timestamp, u64)> {
        let until = Cell::new(Timestamp::MAX);
        let mut source = source(traces, change, &until);
        let mut running: VecDeque<(Timestamp, RequestId, Request)> = VecDeque::new();
        let (mut seen, mut ids) = (Vec::new(), 0..);
        loop {
            let arrival = match source.next().unwrap() {
                Next::At(at) => at,
                Next::Blocked if !running.is_empty() => Timestamp::MAX,
                Next::Blocked | Next::Exhausted | Next::Stopped => return seen,
            };
            if let Some((done, id, request)) = running.front().copied().filter(|(done, ..)| *done <= arrival) {
                running.pop_front();
                seen.push((request.arrival, done, request.lba.sector()));
                source.completed(done, id, &request);
                continue;
            }
            source.advance(arrival).unwrap();
            if !source.ready.is_empty() {
                let id = RequestId(ids.next().unwrap());
                let request = source.take(arrival, id).unwrap();
                running.push_back((arrival + Nanos::from_us(service_us), id, request));
            }
        }
    }

    fn write(stream: u32, at_us: u64, took_us: u64) -> TracedRequest {
        TracedRequest::sent(Operation::Write, stream, at_us, took_us)
    }

    fn background(stream: u32, at_us: u64, took_us: u64) -> TracedRequest {
        TracedRequest { sync: false, ..write(stream, at_us, took_us) }
    }

    #[test]
    fn vm_alone_on_the_recorded_drive_repeats_its_trace() {
        let requests = traced();
        let seen = in_turn(&[&requests], |_| {}, 2000);
        // The replay stops when the VM has sent its last request.
        let until = requests.last().unwrap().arrival;
        let moving = requests.iter().filter(|request| request.moves_data() && request.completed <= until);
        let mut expected: Vec<_> =
            moving.map(|request| (request.arrival, request.completed, request.lba.sector())).collect();
        expected.sort_by_key(|&(_, completed, _)| completed);
        assert_eq!(seen, expected);
    }

    #[test]
    fn background_writes_in_flight_are_limited() {
        let mut requests: Vec<TracedRequest> = (0..6).map(|n| background(1, n, 1000)).collect();
        // Long after, when no write is in flight. The simulation ends with the last request that is sent.
        requests.push(background(1, 500_000, 1000));
        requests.push(write(2, 1_000_000, 1000));
        let limited = |workload: &mut Workload| (workload.background_depth, workload.coalesced_share) = (2, 0.0);
        let seen = in_turn(&[&requests], limited, 2000);
        // The third is issued when the first completes, and so on.
        assert!(seen.len() >= 7, "{seen:?}");
        assert!(seen.iter().zip(&seen[2..6]).all(|(before, after)| after.0 == before.1), "{seen:?}");
        assert!(seen[..2].iter().all(|(arrival, ..)| arrival.as_ns() < 10_000), "{seen:?}");
    }

    #[test]
    fn flush_waits_for_durable_writes_and_takes_its_own_time_then() {
        // A process writes durably, another flushes meanwhile and reads 1 ms after its flush.
        let mut requests = Vec::new();
        for n in 0..50u64 {
            let at = n * 20_000;
            requests.push(TracedRequest { durable: true, ..write(1, at, 3000) });
            let flush = TracedRequest::sent(Operation::Flush, 2, at + 100, 3100);
            let issued = flush.arrival + Nanos::from_us(2900);
            requests.push(TracedRequest { sectors: 0, issued, ..flush });
            requests
                .push(TracedRequest { lba: Lba::new(80), ..TracedRequest::sent(Operation::Read, 2, at + 4200, 500) });
        }
        let seen = at_once(&[&requests], |_| {}, 7000);
        let of = |sector: u64| seen.iter().filter(move |(.., lba)| *lba == sector);
        // The write takes 7 ms, the flush 0.2 ms after it.
        for (write, read) in of(0).zip(of(80)) {
            assert_eq!(read.0, write.1 + Nanos::from_us(200 + 1000));
        }
        assert_eq!(of(80).count(), 49, "{seen:?}");
    }

    #[test]
    fn flush_waits_behind_throttled_background_writes() {
        // The kernel lets one background write go at a time. Of two, the second waits, and then the flush of a process
        // that reads 1 ms after it.
        let mut requests = Vec::new();
        for n in 0..50u64 {
            let at = n * 100_000;
            let issued = |us: u64| Timestamp::from_ns((at + us) * 1000);
            requests.push(background(1, at, 3000));
            requests.push(TracedRequest { issued: issued(3000), ..background(1, at + 10, 5990) });
            let flush = TracedRequest::sent(Operation::Flush, 2, at + 100, 6100);
            requests.push(TracedRequest { sectors: 0, issued: issued(6000), ..flush });
            requests
                .push(TracedRequest { lba: Lba::new(80), ..TracedRequest::sent(Operation::Read, 2, at + 7200, 500) });
        }
        let limited = |workload: &mut Workload| workload.background_depth = 1;
        for service_us in [3000, 9000] {
            let seen = at_once(&[&requests], limited, service_us);
            let mut reads = seen.iter().filter(|(.., lba)| *lba == 80).map(|(arrival, ..)| *arrival);
            // The first flush arrives at 0.1 ms and takes 0.2 ms.
            assert_eq!(reads.next().unwrap(), Timestamp::ZERO + Nanos::from_us(2 * service_us + 200 + 1000));
            assert_eq!(reads.count(), 49 - 1, "{seen:?}");
        }
    }

    #[test]
    fn completions_that_the_host_reports_together_come_with_the_last() {
        // Two processes that send together, 1 ms after both have completed.
        let round = |n: u64| [0, 1].map(|stream| write(stream, n * 5000, 4000));
        let requests: Vec<TracedRequest> = (0..100).flat_map(round).collect();
        let apart = |share: fn(&mut Workload)| {
            let seen = in_turn(&[&requests], share, 2000);
            seen.chunks_exact(2).skip(1).filter(|pair| pair[0].0 != pair[1].0).count()
        };
        // One after another on the drive: 2 ms apart, unless the first completion waits for the second.
        assert_eq!(apart(|workload| workload.coalesced_share = 1.0), 0);
        assert!(apart(|workload| workload.coalesced_share = 0.0) > 90);
    }

    #[test]
    fn process_waits_for_the_journal_of_its_vm() {
        // The process writes, its journal commits, and the process writes again 300 us after the commit.
        let mut requests = Vec::new();
        let mut at = 0;
        for n in 0..400u64 {
            let took = 1000 + n * 7919 % 4001;
            requests.push(write(1, at, took));
            let commit = TracedRequest { durable: true, ..write(2, at + took + 100, 2000) };
            requests.push(TracedRequest { lba: Lba::new(80), ..commit });
            at += took + 100 + 2000 + 300;
        }
        for vms in [1, 3] {
            let seen = at_once(&vec![requests.as_slice(); vms], |_| {}, 9000);
            let own: Vec<_> = seen.iter().filter(|(.., lba)| *lba == 0).collect();
            let round = Nanos::from_us(9000 + 100 + 9000 + 300);
            assert!(own.len() > 390 * vms, "{}", own.len());
            assert!(own.windows(vms + 1).all(|pair| pair[vms].0 == pair[0].0 + round), "{vms} VMs");
        }
    }

    #[test]
    fn two_vms_share_the_drive_until_the_first_has_sent_its_last_request() {
        let requests = traced();
        let half = &requests[..100];
        let seen = in_turn(&[&requests, half], |_| {}, 2000);
        let of_half = half.iter().filter(|request| request.moves_data()).count();
        assert!(seen.len() > of_half && seen.len() < requests.len() + of_half, "{}", seen.len());
        // Alone a request completes every 2.9 ms on average. The drive completes one every 2 ms for both VMs.
        let last = seen.last().unwrap().1;
        assert!(seen.windows(2).all(|pair| pair[1].1.since(pair[0].1) >= Nanos::from_us(2000)));
        assert!(last > half.last().unwrap().completed, "{last:?}");
    }

    #[test]
    fn vm_keeps_its_own_streams() {
        // Both VMs have a process 1; one thinks for 3 ms, the other for 30.
        let reads = |think: u64| (0..100).map(|n| TracedRequest::sent(Operation::Read, 1, n * think, 1000)).collect();
        let traces: [Vec<TracedRequest>; 2] = [reads(4000), reads(31_000)];
        assert_eq!(traces[0][0].stream, StreamId(1));
        let seen = at_once(&[&traces[0], &traces[1]], |_| {}, 1000);
        // Until the first has sent its last request, at 396 ms.
        assert_eq!(seen.len(), 99 + 13, "{seen:?}");
    }
}
