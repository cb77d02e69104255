//! Recordings of several machines played together: what waited for something alone waits for it now.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use replay::{Next, ReplayError, Source};
use traces::{Request, RequestId, Timestamp, VmId};

use crate::twin::simulation::vm::{Event, SimulatedVm, VmExcerpt};
use crate::twin::workload::dependencies::After;

/// When something happens, in which order it became known, to which request of which machine.
type Due = Reverse<(Timestamp, u64, u16, u32)>;

/// The source. It ends when `until` has come, or when one of the machines has nothing more to send, which it then says there.
pub(crate) struct VmSource<'a> {
    vms: Vec<SimulatedVm<'a>>,
    arrivals: BinaryHeap<Due>,
    /// What was throttled, and is not any more.
    released: VecDeque<(u16, u32)>,
    /// Completions of what does not move data: it takes as long as it did alone and never reaches the device.
    completions: BinaryHeap<Due>,
    sequence: u64,
    /// Which each outstanding request is, by id.
    outstanding: Vec<(u16, u32)>,
    /// When it ends; sooner if a machine ends.
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
                source.announce(Timestamp::ZERO + dependency.think_time, vm as u16, index as u32);
            }
        }
        source
    }

    fn announce(&mut self, at: Timestamp, vm: u16, index: u32) {
        self.sequence += 1;
        self.arrivals.push(Reverse((at, self.sequence, vm, index)));
    }

    /// Takes the earliest arrival.
    fn arrive(&mut self, now: Timestamp) -> Option<(u16, u32)> {
        let Reverse((_, _, vm, index)) = self.arrivals.pop()?;
        self.vms[usize::from(vm)].arrived(index);
        self.follow(now, vm, Event::Arrival, index);
        Some((vm, index))
    }

    /// A request of a machine is sent; with its last the play ends.
    fn sent(&mut self, now: Timestamp, vm: u16) {
        if self.vms[usize::from(vm)].sent() {
            self.until.set(now.min(self.until.get()));
        }
    }

    /// What comes after an event of a request is known now.
    fn follow(&mut self, now: Timestamp, vm: u16, event: Event, index: u32) {
        let VmSource { vms, arrivals, sequence, .. } = self;
        for &(follower, think_time) in vms[usize::from(vm)].after(event, index) {
            *sequence += 1;
            arrivals.push(Reverse((now.saturating_add(think_time), *sequence, vm, follower)));
        }
    }

    /// A request is done, and flushes that wait for its end are.
    fn end(&mut self, now: Timestamp, vm: u16, index: u32) {
        for (free, soon) in self.vms[usize::from(vm)].let_in(index) {
            self.announce(now.saturating_add(soon), vm, free);
        }
        if let Some(next) = self.vms[usize::from(vm)].release(index) {
            self.released.push_back((vm, next));
        }
        let batch = self.vms[usize::from(vm)].end(index);
        self.follow(now, vm, Event::Completion, index);
        if let Some(first) = batch {
            self.follow(now, vm, Event::Batch, first);
        }
        let VmSource { vms, completions, sequence, .. } = self;
        let simulated_vm = &vms[usize::from(vm)];
        for &(flush, _) in
            simulated_vm.after(Event::End, index).iter().filter(|(flush, _)| simulated_vm.has_come(*flush))
        {
            *sequence += 1;
            completions.push(Reverse((now, *sequence, vm, flush)));
        }
    }

    /// If the next arrival is of a process that is kept out, takes it away until it is not.
    fn keep_out(&mut self, now: Timestamp) -> bool {
        let due = self.arrivals.peek().filter(|Reverse((at, ..))| *at <= now);
        let Some(&Reverse((_, _, vm, index))) = due else { return false };
        let simulated_vm = &mut self.vms[usize::from(vm)];
        let kept_out = simulated_vm.is_kept_out(index);
        if kept_out {
            self.arrivals.pop();
            simulated_vm.keep_out(index);
        }
        kept_out
    }

    /// Takes the next arrival, which does not reach the device now.
    fn hold(&mut self, now: Timestamp) {
        let Some((vm, index)) = self.arrive(now) else { return };
        let simulated_vm = &mut self.vms[usize::from(vm)];
        if simulated_vm.is_throttled(index) {
            simulated_vm.throttle(index);
            return;
        }
        if let Some(took) = simulated_vm.stay(index) {
            self.sequence += 1;
            self.completions.push(Reverse((now.saturating_add(took), self.sequence, vm, index)));
        }
        self.sent(now, vm);
    }

    fn earliest(heap: &BinaryHeap<Due>) -> Option<Timestamp> {
        heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// Whether the next arrival is one that does not reach the device now, or never.
    fn next_stays(&self) -> bool {
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
                    self.end(now, vm, index);
                }
            } else if self.keep_out(now) {
                continue;
            } else if self.next_stays() && Self::earliest(&self.arrivals).is_some_and(|at| at <= now) {
                self.hold(now);
            } else {
                return Ok(());
            }
        }
    }

    fn take(&mut self, now: Timestamp, id: RequestId) -> Result<Request, ReplayError> {
        self.now = now;
        let released = self.released.pop_front();
        let (vm, index) = released.unwrap_or_else(|| {
            let (vm, index) = self.arrive(now).expect("the engine takes what was announced");
            self.vms[usize::from(vm)].begin(index);
            (vm, index)
        });
        self.sent(now, vm);
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
        simulated_vm.held.push(index);
        if simulated_vm.at_device > 0 && chance < simulated_vm.coalesced {
            return;
        }
        for index in std::mem::take(&mut simulated_vm.held) {
            self.end(now, vm, index);
        }
    }
}

#[cfg(test)]
mod tests {
    use replay::{Engine, Limits, Observer, Stage};
    use traces::{Lba, Nanos, Operation, StreamId};

    use super::*;
    use crate::isolated_trace::TracedRequest;
    use crate::twin::workload::dependencies::{Dependency, ends, infer};
    use crate::twin::workload::journal_waits::{self, JournalWaits};

    static NO_WAITS: JournalWaits = JournalWaits::NO_WAITS;

    /// Two processes that think for 3 and 4 ms, on a drive that takes 2 ms for each request in turn; one of them flushes, too.
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
    fn alone_on_the_same_drive_everything_happens_as_it_was_recorded() {
        let requests = traced();
        let (dependencies, ends) = (infer(&requests), ends(&requests));
        let seen = simulated(&[excerpt(&requests, &dependencies, &ends)], 2000);
        let moving = requests.iter().filter(|request| request.moves_data());
        let mut expected: Vec<_> =
            moving.map(|request| (request.arrival, request.completed, request.lba.sector())).collect();
        expected.sort_by_key(|&(_, completed, _)| completed);
        assert_eq!(seen, expected);
    }

    fn write(stream: u32, at_us: u64, took_us: u64) -> TracedRequest {
        TracedRequest::sent(Operation::Write, stream, at_us, took_us)
    }

    /// A machine that nothing is known of but what its requests come after.
    fn excerpt<'a>(
        requests: &'a [TracedRequest],
        dependencies: &'a [Dependency],
        ends: &'a [Option<u32>],
    ) -> VmExcerpt<'a> {
        VmExcerpt { requests, dependencies, ends, journal_waits: &NO_WAITS, coalesced: 0.0, background: u32::MAX }
    }

    #[test]
    fn of_writes_in_the_background_only_so_many_go_at_once() {
        let mut requests: Vec<TracedRequest> =
            (0..6).map(|n| TracedRequest { sync: false, ..write(1, n, 1000) }).collect();
        // Long after, when there is room again; with the last that is sent the play ends.
        requests.push(TracedRequest { sync: false, ..write(1, 500_000, 1000) });
        requests.push(write(2, 1_000_000, 1000));
        let dependencies: Vec<Dependency> = requests
            .iter()
            .map(|request| Dependency { after: After::Start, think_time: request.arrival.since(Timestamp::ZERO) })
            .collect();
        let ends = vec![None; 8];
        let seen = simulated(&[VmExcerpt { background: 2, ..excerpt(&requests, &dependencies, &ends) }], 2000);
        // The third goes when the first is done, and so on.
        assert!(seen.len() >= 7 && seen[6].0 == Timestamp::from_ns(500_000_000), "{seen:?}");
        assert!(seen.iter().zip(&seen[2..6]).all(|(before, after)| after.0 == before.1), "{seen:?}");
        assert!(seen[..2].iter().all(|(arrival, ..)| arrival.as_ns() < 10_000), "{seen:?}");
    }

    #[test]
    fn who_waited_for_all_waits_for_all_again() {
        // Two writes in one go, 7 ms and 2 ms long, then 3 ms.
        let mut requests = Vec::new();
        for n in 0..100 {
            requests.extend([write(1, n * 10_000, 7000), write(1, n * 10_000 + 20, 2000)]);
        }
        let (dependencies, ends) = (infer(&requests), ends(&requests));
        assert!(dependencies.iter().filter(|dependency| matches!(dependency.after, After::Batch(_))).count() > 90);
        // One after another each takes 4 ms, so that the second is the last.
        let seen = simulated(&[excerpt(&requests, &dependencies, &ends)], 4000);
        for (pair, next) in seen.chunks(2).zip(seen.chunks(2).skip(1)).skip(4) {
            assert_eq!(next[0].0, pair[1].1 + Nanos::from_us(3000));
        }
    }

    #[test]
    fn who_is_kept_out_begins_soon_after() {
        let requests = journal_waits::tests::traced(true);
        let mut dependencies = infer(&requests);
        let journal_waits = journal_waits::infer(&requests, &mut dependencies);
        let ends = ends(&requests);
        let excerpt = VmExcerpt { journal_waits: &journal_waits, ..excerpt(&requests, &dependencies, &ends) };
        let until = Cell::new(Timestamp::from_ns(10_000_000_000));
        let mut source = VmSource::new(&[excerpt], &until, 1);
        // A device that takes 15 ms for the journal's writes and 5 ms for others, several at once.
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
    fn two_share_the_drive_and_the_play_ends_with_the_first_that_ends() {
        let requests = traced();
        let (dependencies, ends) = (infer(&requests), ends(&requests));
        let half = &requests[..100];
        let excerpts = [excerpt(&requests, &dependencies, &ends), excerpt(half, &dependencies[..100], &ends[..100])];
        let seen = simulated(&excerpts, 2000);
        let of_half = half.iter().filter(|request| request.moves_data()).count();
        assert!(seen.len() > of_half && seen.len() < requests.len() + of_half, "{}", seen.len());
        // Alone a request is done every 2.9 ms in the mean; the drive has one every 2 ms for both.
        let last = seen.last().unwrap().1;
        assert!(seen.windows(2).all(|pair| pair[1].1.since(pair[0].1) >= Nanos::from_us(2000)));
        assert!(last > half.last().unwrap().completed, "{last:?}");
    }
}
