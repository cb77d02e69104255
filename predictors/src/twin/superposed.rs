//! Recordings of several machines played together: what waited for something alone waits for it now.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use replay::sources::{Next, ReplayError, Source};
use traces::{Nanos, Request, RequestId, Timestamp, VmId};

use super::causes::{After, Cause, goes};
use super::locks::Locks;
use super::recording::Recorded;

/// A machine to be played: its requests and what each comes after.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine<'a> {
    pub(super) requests: &'a [Recorded],
    pub(super) causes: &'a [Cause],
    /// With which write each flush ends, if with any.
    pub(super) ends: &'a [Option<u32>],
    /// Who is kept out by what.
    pub(super) locks: &'a Locks,
    /// Which share of completions its host tells it only with the next.
    pub(super) coalesced: f64,
    /// How many writes that nobody waits for it lets be under way at once.
    pub(super) background: u32,
}

/// What comes after each request, as lists in one vector.
#[derive(Debug, Default)]
struct Followers {
    /// Where each request's followers begin; one more for the end.
    starts: Vec<u32>,
    followers: Vec<(u32, Nanos)>,
}

impl Followers {
    /// Of `count` requests, the leader of each if it has one.
    fn of<L: Iterator<Item = Option<(u32, Nanos)>>>(count: usize, leaders: impl Fn() -> L) -> Followers {
        let led =
            || leaders().enumerate().filter_map(|(index, leader)| leader.map(|(leader, lag)| (leader, index, lag)));
        let mut starts = vec![0u32; count + 1];
        led().for_each(|(leader, ..)| starts[leader as usize + 1] += 1);
        for index in 1..starts.len() {
            starts[index] += starts[index - 1];
        }
        let mut next = starts.clone();
        let mut followers = vec![(0, Nanos::ZERO); starts.last().map_or(0, |&count| count as usize)];
        for (leader, index, lag) in led() {
            let slot = &mut next[leader as usize];
            followers[*slot as usize] = (index as u32, lag);
            *slot += 1;
        }
        Followers { starts, followers }
    }

    fn after(&self, leader: u32) -> &[(u32, Nanos)] {
        let leader = leader as usize;
        &self.followers[self.starts[leader] as usize..self.starts[leader + 1] as usize]
    }
}

struct Player<'a> {
    requests: &'a [Recorded],
    after_arrival: Followers,
    after_completion: Followers,
    after_go: Followers,
    /// With which request each was sent in one go.
    goes: Vec<u32>,
    /// By the first of a go: how many of it are not done.
    under_way: Vec<u32>,
    /// Flushes that end with a request.
    ending_with: Followers,
    ends: &'a [Option<u32>],
    /// Which requests have come, and which are done.
    come: Vec<bool>,
    done: Vec<bool>,
    /// Requests that have not come.
    left: usize,
    coalesced: f64,
    /// Requests at the device.
    at_device: u32,
    /// Completions that are told with the next.
    held: Vec<u32>,
    /// The most writes that nobody waits for, how many are under way, and those that wait until there are fewer.
    background_most: u32,
    background: u32,
    throttled: VecDeque<u32>,
    locks: &'a Locks,
    /// Writes under way by kind, and those that are not sent before some of them are done.
    of_kind: Vec<u32>,
    kept_out: Vec<u32>,
}

impl Player<'_> {
    /// Whether something under way keeps its process from sending it.
    fn is_kept_out(&self, index: u32) -> bool {
        let (kinds, _) = self.locks.of(index as usize);
        kinds != 0 && self.of_kind.iter().enumerate().any(|(kind, count)| *count > 0 && kinds >> kind & 1 == 1)
    }

    /// Whether it is a write that nobody waits for.
    fn is_background(&self, index: u32) -> bool {
        let request = &self.requests[index as usize];
        !request.sync && request.moves_data()
    }

    /// Whether it has to wait until fewer such writes are under way.
    fn is_throttled(&self, index: u32) -> bool {
        self.is_background(index) && self.background >= self.background_most
    }
}

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
        let player = |machine: &Machine<'a>| {
            let (causes, ends, count) = (machine.causes, machine.ends, machine.requests.len());
            let after_arrival = || {
                causes.iter().map(|cause| match cause.after {
                    After::Arrival(leader) => Some((leader, cause.lag)),
                    After::Start | After::Completion(_) | After::Go(_) => None,
                })
            };
            let after_completion = || {
                causes.iter().map(|cause| match cause.after {
                    After::Completion(leader) => Some((leader, cause.lag)),
                    After::Start | After::Arrival(_) | After::Go(_) => None,
                })
            };
            let after_go = || {
                causes.iter().map(|cause| match cause.after {
                    After::Go(first) => Some((first, cause.lag)),
                    After::Start | After::Arrival(_) | After::Completion(_) => None,
                })
            };
            let goes = goes(machine.requests, causes);
            let mut under_way = vec![0; count];
            goes.iter().for_each(|&first| under_way[first as usize] += 1);
            Player {
                requests: machine.requests,
                after_arrival: Followers::of(count, after_arrival),
                after_completion: Followers::of(count, after_completion),
                after_go: Followers::of(count, after_go),
                goes,
                under_way,
                ending_with: Followers::of(count, || ends.iter().map(|end| end.map(|end| (end, Nanos::ZERO)))),
                ends,
                come: vec![false; count],
                done: vec![false; count],
                left: count,
                coalesced: machine.coalesced,
                at_device: 0,
                held: Vec::new(),
                background_most: machine.background.max(1),
                background: 0,
                throttled: VecDeque::new(),
                locks: machine.locks,
                of_kind: vec![0; 64],
                kept_out: Vec::new(),
            }
        };
        let mut source = Superposed {
            players: machines.iter().map(player).collect(),
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

    /// Takes the earliest arrival: its machine has sent it.
    fn send(&mut self, now: Timestamp) -> Option<(u16, u32)> {
        let Reverse((_, _, vm, index)) = self.arrivals.pop()?;
        let player = &mut self.players[usize::from(vm)];
        player.left -= 1;
        if let Some(kind) = player.locks.kind(index as usize) {
            player.of_kind[kind] += 1;
        }
        if self.players[usize::from(vm)].left == 0 {
            self.until.set(now.min(self.until.get()));
        }
        self.follow(now, vm, index, |player| &player.after_arrival);
        Some((vm, index))
    }

    fn follow(&mut self, now: Timestamp, vm: u16, index: u32, which: for<'p> fn(&'p Player<'a>) -> &'p Followers) {
        let Superposed { players, arrivals, sequence, .. } = self;
        for &(follower, lag) in which(&players[usize::from(vm)]).after(index) {
            *sequence += 1;
            arrivals.push(Reverse((now.saturating_add(lag), *sequence, vm, follower)));
        }
    }

    /// A request is done, and flushes that wait for its end are.
    fn end(&mut self, now: Timestamp, vm: u16, index: u32) {
        self.let_in(now, vm, index);
        let player = &mut self.players[usize::from(vm)];
        player.done[index as usize] = true;
        if player.is_background(index) {
            player.background -= 1;
            if let Some(next) = player.throttled.pop_front() {
                player.background += 1;
                self.released.push_back((vm, next));
            }
        }
        self.follow(now, vm, index, |player| &player.after_completion);
        let player = &mut self.players[usize::from(vm)];
        let first = player.goes[index as usize];
        player.under_way[first as usize] -= 1;
        if player.under_way[first as usize] == 0 {
            self.follow(now, vm, first, |player| &player.after_go);
        }
        let Superposed { players, completions, sequence, .. } = self;
        let player = &players[usize::from(vm)];
        for &(flush, _) in player.ending_with.after(index) {
            if player.come[flush as usize] {
                *sequence += 1;
                completions.push(Reverse((now, *sequence, vm, flush)));
            }
        }
    }

    /// A request is done: who is kept out by nothing any more begins soon.
    fn let_in(&mut self, now: Timestamp, vm: u16, index: u32) {
        let player = &mut self.players[usize::from(vm)];
        let Some(kind) = player.locks.kind(index as usize) else { return };
        player.of_kind[kind] -= 1;
        if player.of_kind[kind] > 0 || player.kept_out.is_empty() {
            return;
        }
        let (still, free): (Vec<u32>, Vec<u32>) =
            std::mem::take(&mut player.kept_out).into_iter().partition(|&index| player.is_kept_out(index));
        player.kept_out = still;
        for index in free {
            let (_, soon) = self.players[usize::from(vm)].locks.of(index as usize);
            self.announce(now.saturating_add(soon), vm, index);
        }
    }

    /// If the next arrival is of a process that is kept out, takes it away until it is not.
    fn keep_out(&mut self, now: Timestamp) -> bool {
        let due = self.arrivals.peek().filter(|Reverse((at, ..))| *at <= now);
        let Some(&Reverse((_, _, vm, index))) = due else { return false };
        let kept_out = self.players[usize::from(vm)].is_kept_out(index);
        if kept_out {
            self.arrivals.pop();
            self.players[usize::from(vm)].kept_out.push(index);
        }
        kept_out
    }

    /// Something that never reaches the device has come: when it will be done, if that is known.
    fn stay(&mut self, now: Timestamp, vm: u16, index: u32) {
        let player = &mut self.players[usize::from(vm)];
        player.come[index as usize] = true;
        let Recorded { issued, completed, .. } = player.requests[index as usize];
        let took = match player.ends[index as usize] {
            Some(write) if !player.done[write as usize] => return,
            // What it waited for is done already: it takes what it took once it was sent.
            Some(_) => completed.saturating_since(issued),
            None => completed.saturating_since(player.requests[index as usize].arrival),
        };
        self.sequence += 1;
        self.completions.push(Reverse((now.saturating_add(took), self.sequence, vm, index)));
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
                let Some((vm, index)) = self.send(now) else { return Ok(()) };
                let player = &mut self.players[usize::from(vm)];
                if player.is_background(index) {
                    player.throttled.push_back(index);
                } else {
                    self.stay(now, vm, index);
                }
            } else {
                return Ok(());
            }
        }
    }

    fn take(&mut self, now: Timestamp, id: RequestId) -> Result<Request, ReplayError> {
        self.now = now;
        let (vm, index) = self.released.pop_front().unwrap_or_else(|| {
            let (vm, index) = self.send(now).expect("the engine takes what was announced");
            let player = &mut self.players[usize::from(vm)];
            player.background += u32::from(player.is_background(index));
            (vm, index)
        });
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
        let chance = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
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
    use traces::{Lba, Operation, StreamId};

    use super::super::causes::{ends, infer};
    use super::*;

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
            requests.push(Recorded {
                arrival: Timestamp::from_ns(at * 1000),
                issued: Timestamp::from_ns(at * 1000),
                completed: Timestamp::from_ns(done * 1000),
                lba: Lba::new(n * 8),
                sectors: if flush { 0 } else { 8 },
                stream: StreamId(process as u32),
                operation: if flush { Operation::Flush } else { Operation::Read },
                sync: true,
                durable: false,
            });
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
        let seen = played(
            &[Machine {
                requests: &requests,
                causes: &causes,
                ends: &ends,
                locks: &Locks::default(),
                coalesced: 0.0,
                background: u32::MAX,
            }],
            2000,
        );
        let moving = requests.iter().filter(|request| request.moves_data());
        let mut expected: Vec<_> =
            moving.map(|request| (request.arrival, request.completed, request.lba.sector())).collect();
        expected.sort_by_key(|&(_, completed, _)| completed);
        assert_eq!(seen, expected);
    }

    fn sent(stream: u32, at_us: u64, took_us: u64, sync: bool) -> Recorded {
        let arrival = Timestamp::from_ns(at_us * 1000);
        Recorded {
            arrival,
            issued: arrival,
            completed: arrival + Nanos::from_us(took_us),
            lba: Lba::ZERO,
            sectors: 8,
            stream: StreamId(stream),
            operation: Operation::Write,
            sync,
            durable: false,
        }
    }

    #[test]
    fn of_writes_in_the_background_only_so_many_go_at_once() {
        let mut requests: Vec<Recorded> = (0..6).map(|n| sent(1, n, 1000, false)).collect();
        // With the last that is sent the play ends.
        requests.push(sent(2, 1_000_000, 1000, true));
        let causes: Vec<Cause> = requests
            .iter()
            .map(|request| Cause { after: After::Start, lag: request.arrival.since(Timestamp::ZERO) })
            .collect();
        let ends = vec![None; 7];
        let machine = Machine {
            requests: &requests,
            causes: &causes,
            ends: &ends,
            locks: &Locks::default(),
            coalesced: 0.0,
            background: 2,
        };
        let seen = played(&[machine], 2000);
        // The third goes when the first is done, and so on.
        assert!(seen.len() >= 6, "{seen:?}");
        assert!(seen.iter().zip(&seen[2..6]).all(|(before, after)| after.0 == before.1), "{seen:?}");
        assert!(seen[..2].iter().all(|(arrival, ..)| arrival.as_ns() < 10_000), "{seen:?}");
    }

    #[test]
    fn who_waited_for_all_waits_for_all_again() {
        // Two writes in one go, 7 ms and 2 ms long, then 3 ms.
        let mut requests = Vec::new();
        for n in 0..100 {
            requests.extend([sent(1, n * 10_000, 7000, true), sent(1, n * 10_000 + 20, 2000, true)]);
        }
        let (causes, ends) = (infer(&requests), ends(&requests));
        assert!(causes.iter().filter(|cause| matches!(cause.after, After::Go(_))).count() > 90);
        let locks = Locks::default();
        let machine = Machine {
            requests: &requests,
            causes: &causes,
            ends: &ends,
            locks: &locks,
            coalesced: 0.0,
            background: u32::MAX,
        };
        // One after another each takes 4 ms, so that the second is the last.
        let seen = played(&[machine], 4000);
        for (pair, next) in seen.chunks(2).zip(seen.chunks(2).skip(1)).skip(4) {
            assert_eq!(next[0].0, pair[1].1 + Nanos::from_us(3000));
        }
    }

    #[test]
    fn who_is_kept_out_begins_soon_after() {
        let requests = super::super::locks::tests::recorded(true);
        let mut causes = infer(&requests);
        let locks = super::super::locks::infer(&requests, &mut causes);
        let ends = ends(&requests);
        let machine = Machine {
            requests: &requests,
            causes: &causes,
            ends: &ends,
            locks: &locks,
            coalesced: 0.0,
            background: u32::MAX,
        };
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
        let machines = [
            Machine {
                requests: &requests,
                causes: &causes,
                ends: &ends,
                locks: &Locks::default(),
                coalesced: 0.0,
                background: u32::MAX,
            },
            Machine {
                requests: half,
                causes: &causes[..100],
                ends: &ends[..100],
                locks: &Locks::default(),
                coalesced: 0.0,
                background: u32::MAX,
            },
        ];
        let seen = played(&machines, 2000);
        let of_half = half.iter().filter(|request| request.moves_data()).count();
        assert!(seen.len() > of_half && seen.len() < requests.len() + of_half, "{}", seen.len());
        // Alone a request is done every 2.9 ms in the mean; the drive has one every 2 ms for both.
        let last = seen.last().unwrap().1;
        assert!(seen.windows(2).all(|pair| pair[1].1.since(pair[0].1) >= Nanos::from_us(2000)));
        assert!(last > half.last().unwrap().completed, "{last:?}");
    }
}
