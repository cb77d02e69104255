//! The source of arrivals in a simulation: the VMs' excerpts together, each in a closed replay.
//!
//! [`Closed`] sends each request one think time after what it waits for, as in every other replay. Added here is what
//! lies between the VM and the device and is no stage of the simulated stack: background writes that the VM's kernel
//! throttles, and completions that its host reports together. Flushes and discards never reach the device. They take as
//! long as they took in the trace; a flush waits for durable writes first.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use replay::sources::Closed;
use replay::{Next, ReplayError, Source};
use traces::{Operation, Request, RequestId, Sectors, Timestamp};

use crate::twin::simulation::vm::SimulatedVm;

/// The source. It ends at `until`, or earlier when one of the VMs has sent its last request; it then sets `until` to
/// that time.
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
        let vm = &mut self.vms[usize::from(request.vm.0)];
        if !moves_data(&request) {
            if vm.starts_without_data(id, &request) {
                self.serve_without_data(now, id);
            }
        } else if vm.arrives(id, &request) {
            self.ready.push_back(id);
        }
        Ok(())
    }

    /// Serves a request that moves no data, in the time that it took in the trace.
    fn serve_without_data(&mut self, now: Timestamp, id: RequestId) {
        let request = &self.requests[id.index()];
        let took = self.vms[usize::from(request.vm.0)].time_without_data(request.stream);
        self.sequence += 1;
        self.completions.push(Reverse((now.saturating_add(took), self.sequence, id)));
    }

    /// The completion of a request that moves data has been reported to the VM.
    fn complete(&mut self, now: Timestamp, id: RequestId) {
        let request = self.requests[id.index()];
        let vm = usize::from(request.vm.0);
        self.ready.extend(self.vms[vm].release(&request));
        self.vms[vm].completes(&request);
        while let Some(flush) = self.vms[vm].next_flush() {
            self.serve_without_data(now, flush);
        }
        self.end(now, id);
    }

    /// Ends a request in the closed replay.
    fn end(&mut self, now: Timestamp, id: RequestId) {
        self.closed.completed(now, id, &self.requests[id.index()]);
        self.free.push(id);
    }
}

fn moves_data(request: &Request) -> bool {
    (request.operation as usize) < Operation::MOVING_DATA && request.sectors() > Sectors::ZERO
}

impl Source for VmSource<'_> {
    fn next(&mut self) -> Result<Next, ReplayError> {
        let (arrival, is_exhausted) = match self.closed.next()? {
            Next::At(at) => (Some(at), false),
            Next::Blocked => (None, false),
            Next::Exhausted => (None, true),
        };
        if self.closed.ended_vm().is_some() {
            self.until.set(self.now.min(self.until.get()));
        }
        let ready = (!self.ready.is_empty()).then_some(self.now);
        let completion = self.completions.peek().map(|Reverse((at, ..))| *at);
        let next = [ready, completion, arrival].into_iter().flatten().min();
        Ok(match next {
            _ if self.now >= self.until.get() => Next::Exhausted,
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
                self.end(now, id);
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

#[cfg(all(test, any()))]
mod tests {
    use replay::{Engine, Limits, Observer, Stage};
    use traces::{Lba, Nanos, Operation, StreamId};

    use super::*;
    use crate::isolated_trace::TracedRequest;
    use crate::twin::workload::dependencies::{Dependency, flush_ends, infer};
    use crate::twin::workload::journal_waits::{self, JournalWaits};

    static NO_WAITS: JournalWaits = JournalWaits::NO_WAITS;

    /// Two processes that think for 3 and 4 ms, on a drive that takes 2 ms for each request in turn. The second also
    /// flushes.
    fn traced() -> Vec<TracedRequest> {
        let mut requests = Vec::new();
        let mut free = 0;
        let mut next = [0u64, 500];
        for n in 0..200u64 {
            let process = usize::from(next[1] < next[0]);
            let at = next[process];
            let flush = process == 1 && n % 5 == 0;
            let done = if flush { at + 700 } else { free.max(at) + 2000 };
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

    fn simulated(excerpts: &[VmExcerpt<'_>], service_us: u64) -> Vec<(Timestamp, Timestamp, u64)> {
        let until = Cell::new(Timestamp::MAX);
        let drive = drive_models::build(&format!("fixed:service={service_us}us").parse().unwrap()).unwrap().drive;
        let scheduler = schedulers::build(&"fifo".parse().unwrap()).unwrap().scheduler;
        let stage = Stage::new(scheduler, Limits { merge: false, ..Limits::default() });
        let source = VmSource::new(excerpts, &until, 1);
        Engine::new(source, stage, drive, Seen::default()).run().unwrap().observer.0
    }

    #[test]
    fn vm_alone_on_the_recorded_drive_repeats_its_trace() {
        let requests = traced();
        let (dependencies, flush_ends) = (infer(&requests), flush_ends(&requests));
        let seen = simulated(&[excerpt(&requests, &dependencies, &flush_ends)], 2000);
        let moving = requests.iter().filter(|request| request.moves_data());
        let mut expected: Vec<_> =
            moving.map(|request| (request.arrival, request.completed, request.lba.sector())).collect();
        expected.sort_by_key(|&(_, completed, _)| completed);
        assert_eq!(seen, expected);
    }

    fn write(stream: u32, at_us: u64, took_us: u64) -> TracedRequest {
        TracedRequest::sent(Operation::Write, stream, at_us, took_us)
    }

    /// A VM without journal waits, coalesced completions or throttling.
    fn excerpt<'a>(
        requests: &'a [TracedRequest],
        dependencies: &'a [Dependency],
        flush_ends: &'a [Option<u32>],
    ) -> VmExcerpt<'a> {
        let (coalesced_share, background_depth) = (0.0, u32::MAX);
        let journal_waits = &NO_WAITS;
        VmExcerpt { requests, dependencies, flush_ends, journal_waits, coalesced_share, background_depth }
    }

    #[test]
    fn background_writes_in_flight_are_limited() {
        let mut requests: Vec<TracedRequest> =
            (0..6).map(|n| TracedRequest { sync: false, ..write(1, n, 1000) }).collect();
        // Long after, when no write is in flight. The simulation ends with the last request that is sent.
        requests.push(TracedRequest { sync: false, ..write(1, 500_000, 1000) });
        requests.push(write(2, 1_000_000, 1000));
        let dependencies: Vec<Dependency> = requests
            .iter()
            .map(|request| Dependency { after: After::Start, think_time: request.arrival.since(Timestamp::ZERO) })
            .collect();
        let flush_ends = vec![None; 8];
        let seen =
            simulated(&[VmExcerpt { background_depth: 2, ..excerpt(&requests, &dependencies, &flush_ends) }], 2000);
        // The third is issued when the first completes, and so on.
        assert!(seen.len() >= 7 && seen[6].0 == Timestamp::from_ns(500_000_000), "{seen:?}");
        assert!(seen.iter().zip(&seen[2..6]).all(|(before, after)| after.0 == before.1), "{seen:?}");
        assert!(seen[..2].iter().all(|(arrival, ..)| arrival.as_ns() < 10_000), "{seen:?}");
    }

    #[test]
    fn process_that_waited_for_a_batch_waits_for_all_of_it_again() {
        // Batches of two writes, which take 7 ms and 2 ms, then 3 ms of think time.
        let mut requests = Vec::new();
        for n in 0..100 {
            requests.extend([write(1, n * 10_000, 7000), write(1, n * 10_000 + 20, 2000)]);
        }
        let (dependencies, flush_ends) = (infer(&requests), flush_ends(&requests));
        assert!(dependencies.iter().filter(|dependency| matches!(dependency.after, After::Batch(_))).count() > 90);
        // The drive serves one after another, 4 ms each, so that the second completes last.
        let seen = simulated(&[excerpt(&requests, &dependencies, &flush_ends)], 4000);
        for (pair, next) in seen.chunks(2).zip(seen.chunks(2).skip(1)).skip(4) {
            assert_eq!(next[0].0, pair[1].1 + Nanos::from_us(3000));
        }
    }

    #[test]
    fn blocked_process_sends_when_the_journal_writes_complete() {
        let requests = journal_waits::tests::traced(true);
        let mut dependencies = infer(&requests);
        let journal_waits = journal_waits::infer(&requests, &mut dependencies);
        let flush_ends = flush_ends(&requests);
        let excerpt = VmExcerpt { journal_waits: &journal_waits, ..excerpt(&requests, &dependencies, &flush_ends) };
        let until = Cell::new(Timestamp::from_ns(10_000_000_000));
        let mut source = VmSource::new(&[excerpt], &until, 1);
        // A device that serves several at once: 15 ms for the journal's writes, 5 ms for others.
        let mut in_flight: Vec<(Timestamp, RequestId, Request)> = Vec::new();
        let (mut free, mut soon) = (Vec::new(), 0);
        let mut journal_done = Timestamp::ZERO;
        for _ in 0..4000 {
            in_flight.sort_by_key(|(done, id, _)| (*done, id.0));
            let next = match source.next().unwrap() {
                Next::At(at) => at,
                Next::Blocked => Timestamp::MAX,
                Next::Exhausted => break,
            };
            if in_flight.first().is_some_and(|(done, ..)| *done <= next) {
                let (done, id, request) = in_flight.remove(0);
                source.completed(done, id, &request);
                free.push(id);
                if request.stream == StreamId(1) {
                    journal_done = done;
                }
                continue;
            }
            source.advance(next).unwrap();
            if source.next().unwrap() != Next::At(next) {
                continue;
            }
            let id = free.pop().unwrap_or(RequestId(in_flight.len() as u32));
            let request = source.take(next, id).unwrap();
            let journal = in_flight.iter().any(|(_, _, other)| other.stream == StreamId(1));
            assert!(request.stream == StreamId(1) || !journal, "sent while the journal writes");
            soon += u32::from(request.stream == StreamId(2) && next == journal_done + Nanos::from_us(300));
            let took = if request.stream == StreamId(1) { 15_000 } else { 5000 };
            in_flight.push((next + Nanos::from_us(took), id, request));
        }
        assert!(soon > 50, "{soon}");
    }

    #[test]
    fn two_vms_share_the_drive_until_the_first_has_sent_its_last_request() {
        let requests = traced();
        let (dependencies, flush_ends) = (infer(&requests), flush_ends(&requests));
        let half = &requests[..100];
        let excerpts =
            [excerpt(&requests, &dependencies, &flush_ends), excerpt(half, &dependencies[..100], &flush_ends[..100])];
        let seen = simulated(&excerpts, 2000);
        let of_half = half.iter().filter(|request| request.moves_data()).count();
        assert!(seen.len() > of_half && seen.len() < requests.len() + of_half, "{}", seen.len());
        // Alone a request completes every 2.9 ms on average. The drive completes one every 2 ms for both VMs.
        let last = seen.last().unwrap().1;
        assert!(seen.windows(2).all(|pair| pair[1].1.since(pair[0].1) >= Nanos::from_us(2000)));
        assert!(last > half.last().unwrap().completed, "{last:?}");
    }
}
