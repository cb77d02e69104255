//! One machine that is played: what of its recording has come, is under way, is kept back, and what comes next.

use std::collections::VecDeque;

use traces::Nanos;

use super::causes::{After, Cause, goes};
use super::locks::{KINDS, Locks};
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

    /// By the leader that `leader` says a cause has.
    fn of_causes(causes: &[Cause], leader: fn(After) -> Option<u32>) -> Followers {
        Followers::of(causes.len(), || causes.iter().map(|cause| leader(cause.after).map(|leader| (leader, cause.lag))))
    }

    fn after(&self, leader: u32) -> &[(u32, Nanos)] {
        let leader = leader as usize;
        &self.followers[self.starts[leader] as usize..self.starts[leader + 1] as usize]
    }
}

/// What requests come after.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// The arrival of a request.
    Arrival,
    /// Its completion.
    Completion,
    /// The last completion of a go, by its first request.
    Go,
    /// The completion of a write that a flush ends with.
    End,
}

/// A machine in the course of a play.
#[derive(Debug)]
pub(super) struct Player<'a> {
    pub(super) requests: &'a [Recorded],
    after_arrival: Followers,
    after_completion: Followers,
    after_go: Followers,
    ending_with: Followers,
    ends: &'a [Option<u32>],
    /// With which request each was sent in one go.
    goes: Vec<u32>,
    /// By the first of a go: how many of it are not done.
    of_go: Vec<u32>,
    /// Which requests have come, and which are done.
    come: Vec<bool>,
    done: Vec<bool>,
    /// Requests that have not been sent.
    left: usize,
    pub(super) coalesced: f64,
    /// Requests at the device.
    pub(super) at_device: u32,
    /// Completions that are told with the next.
    pub(super) held: Vec<u32>,
    /// The most writes that nobody waits for, how many are under way, and those that wait until there are fewer.
    background_most: u32,
    background: u32,
    throttled: VecDeque<u32>,
    locks: &'a Locks,
    /// Writes under way by kind, and requests whose process is kept out by some of them.
    of_kind: Vec<u32>,
    kept_out: Vec<u32>,
}

impl<'a> Player<'a> {
    pub(super) fn new(machine: &Machine<'a>) -> Player<'a> {
        let &Machine { requests, causes, ends, locks, coalesced, background } = machine;
        let count = requests.len();
        let goes = goes(requests, causes);
        let mut of_go = vec![0; count];
        goes.iter().for_each(|&first| of_go[first as usize] += 1);
        let after = |leader: fn(After) -> Option<u32>| Followers::of_causes(causes, leader);
        Player {
            requests,
            after_arrival: after(|after| if let After::Arrival(leader) = after { Some(leader) } else { None }),
            after_completion: after(|after| if let After::Completion(leader) = after { Some(leader) } else { None }),
            after_go: after(|after| if let After::Go(first) = after { Some(first) } else { None }),
            ending_with: Followers::of(count, || ends.iter().map(|end| end.map(|end| (end, Nanos::ZERO)))),
            ends,
            goes,
            of_go,
            come: vec![false; count],
            done: vec![false; count],
            left: count,
            coalesced,
            at_device: 0,
            held: Vec::new(),
            background_most: background.max(1),
            background: 0,
            throttled: VecDeque::new(),
            locks,
            of_kind: vec![0; KINDS],
            kept_out: Vec::new(),
        }
    }

    /// What comes after an event of a request, and how long after.
    pub(super) fn after(&self, event: Event, index: u32) -> &[(u32, Nanos)] {
        let followers = match event {
            Event::Arrival => &self.after_arrival,
            Event::Completion => &self.after_completion,
            Event::Go => &self.after_go,
            Event::End => &self.ending_with,
        };
        followers.after(index)
    }

    /// Whether something under way keeps its process from sending it.
    pub(super) fn is_kept_out(&self, index: u32) -> bool {
        let (kinds, _) = self.locks.of(index as usize);
        kinds != 0 && self.of_kind.iter().enumerate().any(|(kind, count)| *count > 0 && kinds >> kind & 1 == 1)
    }

    /// It is sent when its process is not kept out any more ([`Player::let_in`]).
    pub(super) fn keep_out(&mut self, index: u32) {
        self.kept_out.push(index);
    }

    /// A request is done: who is kept out by nothing any more, and how soon each begins.
    pub(super) fn let_in(&mut self, done: u32) -> Vec<(u32, Nanos)> {
        let Some(kind) = self.locks.kind(done as usize) else { return Vec::new() };
        self.of_kind[kind] -= 1;
        if self.of_kind[kind] > 0 || self.kept_out.is_empty() {
            return Vec::new();
        }
        let (still, free): (Vec<u32>, Vec<u32>) =
            std::mem::take(&mut self.kept_out).into_iter().partition(|&index| self.is_kept_out(index));
        self.kept_out = still;
        free.into_iter().map(|index| (index, self.locks.of(index as usize).1)).collect()
    }

    /// A process has a request: it keeps out from now on whom it keeps out.
    pub(super) fn arrived(&mut self, index: u32) {
        if let Some(kind) = self.locks.kind(index as usize) {
            self.of_kind[kind] += 1;
        }
    }

    /// Whether it is a write that nobody waits for.
    fn is_background(&self, index: u32) -> bool {
        let request = &self.requests[index as usize];
        !request.sync && request.moves_data()
    }

    /// Whether it has to wait until fewer writes that nobody waits for are under way.
    pub(super) fn is_throttled(&self, index: u32) -> bool {
        self.is_background(index) && self.background >= self.background_most
    }

    /// It is sent when there are fewer of its kind ([`Player::release`]).
    pub(super) fn throttle(&mut self, index: u32) {
        self.throttled.push_back(index);
    }

    /// A request goes to the device without having been throttled.
    pub(super) fn begin(&mut self, index: u32) {
        self.background += u32::from(self.is_background(index));
    }

    /// A request has gone: whether it was the last.
    pub(super) fn sent(&mut self) -> bool {
        self.left -= 1;
        self.left == 0
    }

    /// A request is done: what was throttled, and goes in its place.
    pub(super) fn release(&mut self, done: u32) -> Option<u32> {
        if !self.is_background(done) {
            return None;
        }
        let next = self.throttled.pop_front();
        if next.is_none() {
            self.background -= 1;
        }
        next
    }

    /// A request is done: the first of its go if that is done with it.
    pub(super) fn end(&mut self, index: u32) -> Option<u32> {
        self.done[index as usize] = true;
        let first = self.goes[index as usize];
        self.of_go[first as usize] -= 1;
        (self.of_go[first as usize] == 0).then_some(first)
    }

    /// Whether it has come and waits for a write's end.
    pub(super) fn has_come(&self, flush: u32) -> bool {
        self.come[flush as usize]
    }

    /// Something that never reaches the device has come: how long it takes, if that is known.
    pub(super) fn stay(&mut self, index: u32) -> Option<Nanos> {
        self.come[index as usize] = true;
        let Recorded { arrival, issued, completed, .. } = self.requests[index as usize];
        match self.ends[index as usize] {
            Some(write) if !self.done[write as usize] => None,
            // What it waited for is done already: it takes what it took once it was sent.
            Some(_) => Some(completed.saturating_since(issued)),
            None => Some(completed.saturating_since(arrival)),
        }
    }
}
