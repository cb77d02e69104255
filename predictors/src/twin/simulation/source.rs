//! The source of arrivals in a simulation: the VMs' excerpts together, in a closed loop.
//!
//! A request arrives one think time after the event that it depends on. The times of these events now come from the
//! simulated device. Processes blocked by outstanding writes and throttled background writes are held back. Flushes and
//! discards never reach the device: they take as long as they took in the trace, or end with a write.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use replay::{Next, ReplayError, Source};
use traces::{Request, RequestId, Timestamp, VmId};

use crate::twin::simulation::vm::{Event, SimulatedVm, VmExcerpt};
use crate::twin::workload::dependencies::After;

/// A scheduled event: its time, the order in which it was scheduled, VM and request.
type Due = Reverse<(Timestamp, u64, u16, u32)>;

/// The source. It ends at `until`, or earlier when one of the VMs has sent its last request; it then sets `until` to
/// that time.
pub(crate) struct VmSource<'a> {
    vms: Vec<SimulatedVm<'a>>,
    arrivals: BinaryHeap<Due>,
    /// Throttled writes that may go to the device now.
    released: VecDeque<(u16, u32)>,
    /// Completions of requests that never reach the device because they move no data.
    completions: BinaryHeap<Due>,
    sequence: u64,
    /// By id: VM and index of each request at the device.
    outstanding: Vec<(u16, u32)>,
    /// The end of the simulation, set earlier when a VM has sent its last request.
    until: &'a Cell<Timestamp>,
    now: Timestamp,
    random: Xoshiro256PlusPlus,
}

impl<'a> VmSource<'a> {
    pub(crate) fn new(excerpts: &[VmExcerpt<'a>], until: &'a Cell<Timestamp>, seed: u64) -> VmSource<'a> {
        let mut source = VmSource {
            vms: excerpts.iter().map(SimulatedVm::new).collect(),
            arrivals: BinaryHeap::new(),
            released: VecDeque::new(),
            completions: BinaryHeap::new(),
            sequence: 0,
            outstanding: Vec::new(),
            until,
            now: Timestamp::ZERO,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        };
        for (vm, excerpt) in excerpts.iter().enumerate() {
            for (index, dependency) in
                excerpt.dependencies.iter().enumerate().filter(|(_, dependency)| dependency.after == After::Start)
            {
                source.schedule(Timestamp::ZERO + dependency.think_time, vm as u16, index as u32);
            }
        }
        source
    }

    fn schedule(&mut self, at: Timestamp, vm: u16, index: u32) {
        self.sequence += 1;
        self.arrivals.push(Reverse((at, self.sequence, vm, index)));
    }

    /// Takes the earliest scheduled arrival.
    fn arrive(&mut self, now: Timestamp) -> Option<(u16, u32)> {
        let Reverse((_, _, vm, index)) = self.arrivals.pop()?;
        self.vms[usize::from(vm)].count_arrival(index);
        self.schedule_followers(now, vm, Event::Arrival, index);
        Some((vm, index))
    }

    /// Counts a request of a VM as sent. The simulation ends with the VM's last.
    fn count_sent(&mut self, now: Timestamp, vm: u16) {
        if self.vms[usize::from(vm)].count_sent() {
            self.until.set(now.min(self.until.get()));
        }
    }

    /// Schedules the requests that wait for an event of request `index`.
    fn schedule_followers(&mut self, now: Timestamp, vm: u16, event: Event, index: u32) {
        let VmSource { vms, arrivals, sequence, .. } = self;
        for &(follower, think_time) in vms[usize::from(vm)].after(event, index) {
            *sequence += 1;
            arrivals.push(Reverse((now.saturating_add(think_time), *sequence, vm, follower)));
        }
    }

    /// Completes a request and the flushes that end with it.
    fn complete(&mut self, now: Timestamp, vm: u16, index: u32) {
        for (free, delay) in self.vms[usize::from(vm)].unblock(index) {
            self.schedule(now.saturating_add(delay), vm, free);
        }
        if let Some(next) = self.vms[usize::from(vm)].release(index) {
            self.released.push_back((vm, next));
        }
        let batch = self.vms[usize::from(vm)].complete(index);
        self.schedule_followers(now, vm, Event::Completion, index);
        if let Some(first) = batch {
            self.schedule_followers(now, vm, Event::Batch, first);
        }
        let VmSource { vms, completions, sequence, .. } = self;
        let simulated_vm = &vms[usize::from(vm)];
        for &(flush, _) in
            simulated_vm.after(Event::FlushEnd, index).iter().filter(|(flush, _)| simulated_vm.has_arrived(*flush))
        {
            *sequence += 1;
            completions.push(Reverse((now, *sequence, vm, flush)));
        }
    }

    /// Takes away the next arrival if its process is blocked. Returns whether it was.
    fn block(&mut self, now: Timestamp) -> bool {
        let due = self.arrivals.peek().filter(|Reverse((at, ..))| *at <= now);
        let Some(&Reverse((_, _, vm, index))) = due else { return false };
        let simulated_vm = &mut self.vms[usize::from(vm)];
        let blocked = simulated_vm.is_blocked(index);
        if blocked {
            self.arrivals.pop();
            simulated_vm.block(index);
        }
        blocked
    }

    /// Takes the next arrival, which is throttled or never reaches the device.
    fn withhold(&mut self, now: Timestamp) {
        let Some((vm, index)) = self.arrive(now) else { return };
        let simulated_vm = &mut self.vms[usize::from(vm)];
        if simulated_vm.is_throttled(index) {
            simulated_vm.throttle(index);
            return;
        }
        if let Some(took) = simulated_vm.serve_without_device(index) {
            self.sequence += 1;
            self.completions.push(Reverse((now.saturating_add(took), self.sequence, vm, index)));
        }
        self.count_sent(now, vm);
    }

    fn earliest(heap: &BinaryHeap<Due>) -> Option<Timestamp> {
        heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// Whether the next arrival is throttled or never reaches the device.
    fn next_is_withheld(&self) -> bool {
        let next = self.arrivals.peek();
        next.is_some_and(|Reverse((_, _, vm, index))| {
            let simulated_vm = &self.vms[usize::from(*vm)];
            !simulated_vm.requests[*index as usize].moves_data() || simulated_vm.is_throttled(*index)
        })
    }
}

impl Source for VmSource<'_> {
    fn next(&mut self) -> Result<Next, ReplayError> {
        let released = (!self.released.is_empty()).then_some(self.now);
        let due = [Self::earliest(&self.arrivals), Self::earliest(&self.completions), released];
        let next = due.into_iter().flatten().min();
        Ok(match next {
            _ if self.now >= self.until.get() => Next::Exhausted,
            Some(next) if next >= self.until.get() => Next::Exhausted,
            Some(next) => Next::At(next.max(self.now)),
            None => Next::Blocked,
        })
    }

    fn advance(&mut self, now: Timestamp) -> Result<(), ReplayError> {
        self.now = now;
        loop {
            if Self::earliest(&self.completions).is_some_and(|at| at <= now) {
                if let Some(Reverse((_, _, vm, index))) = self.completions.pop() {
                    self.complete(now, vm, index);
                }
            } else if self.block(now) {
                continue;
            } else if self.next_is_withheld() && Self::earliest(&self.arrivals).is_some_and(|at| at <= now) {
                self.withhold(now);
            } else {
                return Ok(());
            }
        }
    }

    fn take(&mut self, now: Timestamp, id: RequestId) -> Result<Request, ReplayError> {
        self.now = now;
        let released = self.released.pop_front();
        let (vm, index) = released.unwrap_or_else(|| {
            let (vm, index) = self.arrive(now).expect("the engine takes arrivals that were scheduled");
            self.vms[usize::from(vm)].issue(index);
            (vm, index)
        });
        self.count_sent(now, vm);
        if id.index() >= self.outstanding.len() {
            self.outstanding.resize(id.index() + 1, (0, 0));
        }
        self.outstanding[id.index()] = (vm, index);
        self.vms[usize::from(vm)].at_device += 1;
        Ok(self.vms[usize::from(vm)].requests[index as usize].request(VmId(vm), now))
    }

    fn completed(&mut self, now: Timestamp, id: RequestId, _request: &Request) {
        self.now = now;
        let (vm, index) = self.outstanding[id.index()];
        let chance = traces::random::unit(self.random.next_u64());
        let simulated_vm = &mut self.vms[usize::from(vm)];
        simulated_vm.at_device -= 1;
        simulated_vm.held_completions.push(index);
        if simulated_vm.at_device > 0 && chance < simulated_vm.coalesced_share {
            return;
        }
        for index in std::mem::take(&mut simulated_vm.held_completions) {
            self.complete(now, vm, index);
        }
    }
}

#[cfg(test)]
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
