//! Recordings of several machines played together: what waited for something alone waits for it now.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use replay::sources::{Next, ReplayError, Source};
use traces::{Request, RequestId, Timestamp, VmId};

use super::causes::After;
use super::player::{Event, Machine, Player};

/// When something happens, in which order it became known, to which request of which machine.
type Due = Reverse<(Timestamp, u64, u16, u32)>;

/// The source. It ends when `until` has come, or when one of the machines has nothing more to send, which it then says there.
pub(super) struct Superposed<'a> {
    players: Vec<Player<'a>>,
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

impl<'a> Superposed<'a> {
    pub(super) fn new(machines: &[Machine<'a>], until: &'a Cell<Timestamp>, seed: u64) -> Superposed<'a> {
        let mut source = Superposed {
            players: machines.iter().map(Player::new).collect(),
            arrivals: BinaryHeap::new(),
            released: VecDeque::new(),
            completions: BinaryHeap::new(),
            sequence: 0,
            outstanding: Vec::new(),
            until,
            now: Timestamp::ZERO,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        };
        for (vm, machine) in machines.iter().enumerate() {
            for (index, cause) in machine.causes.iter().enumerate().filter(|(_, cause)| cause.after == After::Start) {
                source.announce(Timestamp::ZERO + cause.lag, vm as u16, index as u32);
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
        self.players[usize::from(vm)].arrived(index);
        self.follow(now, vm, Event::Arrival, index);
        Some((vm, index))
    }

    /// A request of a machine is sent; with its last the play ends.
    fn sent(&mut self, now: Timestamp, vm: u16) {
        if self.players[usize::from(vm)].sent() {
            self.until.set(now.min(self.until.get()));
        }
    }

    /// What comes after an event of a request is known now.
    fn follow(&mut self, now: Timestamp, vm: u16, event: Event, index: u32) {
        let Superposed { players, arrivals, sequence, .. } = self;
        for &(follower, lag) in players[usize::from(vm)].after(event, index) {
            *sequence += 1;
            arrivals.push(Reverse((now.saturating_add(lag), *sequence, vm, follower)));
        }
    }

    /// A request is done, and flushes that wait for its end are.
    fn end(&mut self, now: Timestamp, vm: u16, index: u32) {
        for (free, soon) in self.players[usize::from(vm)].let_in(index) {
            self.announce(now.saturating_add(soon), vm, free);
        }
        if let Some(next) = self.players[usize::from(vm)].release(index) {
            self.released.push_back((vm, next));
        }
        let go = self.players[usize::from(vm)].end(index);
        self.follow(now, vm, Event::Completion, index);
        if let Some(first) = go {
            self.follow(now, vm, Event::Go, first);
        }
        let Superposed { players, completions, sequence, .. } = self;
        let player = &players[usize::from(vm)];
        for &(flush, _) in player.after(Event::End, index).iter().filter(|(flush, _)| player.has_come(*flush)) {
            *sequence += 1;
            completions.push(Reverse((now, *sequence, vm, flush)));
        }
    }

    /// If the next arrival is of a process that is kept out, takes it away until it is not.
    fn keep_out(&mut self, now: Timestamp) -> bool {
        let due = self.arrivals.peek().filter(|Reverse((at, ..))| *at <= now);
        let Some(&Reverse((_, _, vm, index))) = due else { return false };
        let player = &mut self.players[usize::from(vm)];
        let kept_out = player.is_kept_out(index);
        if kept_out {
            self.arrivals.pop();
            player.keep_out(index);
        }
        kept_out
    }

    /// Takes the next arrival, which does not reach the device now.
    fn hold(&mut self, now: Timestamp) {
        let Some((vm, index)) = self.arrive(now) else { return };
        let player = &mut self.players[usize::from(vm)];
        if player.is_throttled(index) {
            player.throttle(index);
            return;
        }
        if let Some(took) = player.stay(index) {
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
            let player = &self.players[usize::from(*vm)];
            !player.requests[*index as usize].moves_data() || player.is_throttled(*index)
        })
    }
}

impl Source for Superposed<'_> {
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
            self.players[usize::from(vm)].begin(index);
            (vm, index)
        });
        self.sent(now, vm);
        if id.index() >= self.outstanding.len() {
            self.outstanding.resize(id.index() + 1, (0, 0));
        }
        self.outstanding[id.index()] = (vm, index);
        self.players[usize::from(vm)].at_device += 1;
        Ok(self.players[usize::from(vm)].requests[index as usize].request(VmId(vm), now))
    }

    fn completed(&mut self, now: Timestamp, id: RequestId, _request: &Request) {
        self.now = now;
        let (vm, index) = self.outstanding[id.index()];
        let chance = traces::random::unit(self.random.next_u64());
        let player = &mut self.players[usize::from(vm)];
        player.at_device -= 1;
        player.held.push(index);
        if player.at_device > 0 && chance < player.coalesced {
            return;
        }
        for index in std::mem::take(&mut player.held) {
            self.end(now, vm, index);
        }
    }
}

#[cfg(test)]
mod tests {
    use replay::{Engine, Limits, Observer, Stage};
    use traces::{Lba, Nanos, Operation, StreamId};

    use super::super::causes::{Cause, ends, infer};
    use super::super::locks::{self, Locks};
    use super::super::recording::Recorded;
    use super::*;

    static FREE: Locks = Locks::FREE;

    /// Two processes that think for 3 and 4 ms, on a drive that takes 2 ms for each request in turn; one of them flushes, too.
    fn recorded() -> Vec<Recorded> {
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
            let sent = Recorded::sent(operation, process as u32, at, done - at);
            requests.push(Recorded { lba: Lba::new(n * 8), sectors: if flush { 0 } else { 8 }, ..sent });
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

    fn played(machines: &[Machine<'_>], service_us: u64) -> Vec<(Timestamp, Timestamp, u64)> {
        let until = Cell::new(Timestamp::MAX);
        let drive = drive_models::build(&format!("fixed:service={service_us}us").parse().unwrap()).unwrap().drive;
        let scheduler = schedulers::build(&"fifo".parse().unwrap()).unwrap().scheduler;
        let stage = Stage::new(scheduler, Limits { merge: false, ..Limits::default() });
        let source = Superposed::new(machines, &until, 1);
        Engine::new(source, stage, drive, Seen::default()).run().unwrap().observer.0
    }

    #[test]
    fn alone_on_the_same_drive_everything_happens_as_it_was_recorded() {
        let requests = recorded();
        let (causes, ends) = (infer(&requests), ends(&requests));
        let seen = played(&[machine(&requests, &causes, &ends)], 2000);
        let moving = requests.iter().filter(|request| request.moves_data());
        let mut expected: Vec<_> =
            moving.map(|request| (request.arrival, request.completed, request.lba.sector())).collect();
        expected.sort_by_key(|&(_, completed, _)| completed);
        assert_eq!(seen, expected);
    }

    fn write(stream: u32, at_us: u64, took_us: u64) -> Recorded {
        Recorded::sent(Operation::Write, stream, at_us, took_us)
    }

    /// A machine that nothing is known of but what its requests come after.
    fn machine<'a>(requests: &'a [Recorded], causes: &'a [Cause], ends: &'a [Option<u32>]) -> Machine<'a> {
        Machine { requests, causes, ends, locks: &FREE, coalesced: 0.0, background: u32::MAX }
    }

    #[test]
    fn of_writes_in_the_background_only_so_many_go_at_once() {
        let mut requests: Vec<Recorded> = (0..6).map(|n| Recorded { sync: false, ..write(1, n, 1000) }).collect();
        // Long after, when there is room again; with the last that is sent the play ends.
        requests.push(Recorded { sync: false, ..write(1, 500_000, 1000) });
        requests.push(write(2, 1_000_000, 1000));
        let causes: Vec<Cause> = requests
            .iter()
            .map(|request| Cause { after: After::Start, lag: request.arrival.since(Timestamp::ZERO) })
            .collect();
        let ends = vec![None; 8];
        let seen = played(&[Machine { background: 2, ..machine(&requests, &causes, &ends) }], 2000);
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
        let (causes, ends) = (infer(&requests), ends(&requests));
        assert!(causes.iter().filter(|cause| matches!(cause.after, After::Go(_))).count() > 90);
        // One after another each takes 4 ms, so that the second is the last.
        let seen = played(&[machine(&requests, &causes, &ends)], 4000);
        for (pair, next) in seen.chunks(2).zip(seen.chunks(2).skip(1)).skip(4) {
            assert_eq!(next[0].0, pair[1].1 + Nanos::from_us(3000));
        }
    }

    #[test]
    fn who_is_kept_out_begins_soon_after() {
        let requests = locks::tests::recorded(true);
        let mut causes = infer(&requests);
        let locks = locks::infer(&requests, &mut causes);
        let ends = ends(&requests);
        let machine = Machine { locks: &locks, ..machine(&requests, &causes, &ends) };
        let until = Cell::new(Timestamp::from_ns(10_000_000_000));
        let mut source = Superposed::new(&[machine], &until, 1);
        // A device that takes 15 ms for the journal's writes and 5 ms for others, several at once.
        let mut under_way: Vec<(Timestamp, RequestId, Request)> = Vec::new();
        let (mut free, mut soon) = (Vec::new(), 0);
        let mut journal_done = Timestamp::ZERO;
        for _ in 0..4000 {
            under_way.sort_by_key(|(done, id, _)| (*done, id.0));
            let next = match source.next().unwrap() {
                Next::At(at) => at,
                Next::Blocked => Timestamp::MAX,
                Next::Exhausted => break,
            };
            if under_way.first().is_some_and(|(done, ..)| *done <= next) {
                let (done, id, request) = under_way.remove(0);
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
            let id = free.pop().unwrap_or(RequestId(under_way.len() as u32));
            let request = source.take(next, id).unwrap();
            let journal = under_way.iter().any(|(_, _, other)| other.stream == StreamId(1));
            assert!(request.stream == StreamId(1) || !journal, "sent while the journal writes");
            soon += u32::from(request.stream == StreamId(2) && next == journal_done + Nanos::from_us(300));
            let took = if request.stream == StreamId(1) { 15_000 } else { 5000 };
            under_way.push((next + Nanos::from_us(took), id, request));
        }
        assert!(soon > 50, "{soon}");
    }

    #[test]
    fn two_share_the_drive_and_the_play_ends_with_the_first_that_ends() {
        let requests = recorded();
        let (causes, ends) = (infer(&requests), ends(&requests));
        let half = &requests[..100];
        let machines = [machine(&requests, &causes, &ends), machine(half, &causes[..100], &ends[..100])];
        let seen = played(&machines, 2000);
        let of_half = half.iter().filter(|request| request.moves_data()).count();
        assert!(seen.len() > of_half && seen.len() < requests.len() + of_half, "{}", seen.len());
        // Alone a request is done every 2.9 ms in the mean; the drive has one every 2 ms for both.
        let last = seen.last().unwrap().1;
        assert!(seen.windows(2).all(|pair| pair[1].1.since(pair[0].1) >= Nanos::from_us(2000)));
        assert!(last > half.last().unwrap().completed, "{last:?}");
    }
}
