//! One machine that is played: what of its recording has come, is under way, is kept back, and what comes next.

use std::collections::VecDeque;

use traces::Nanos;

use crate::isolated_trace::TracedRequest;
use crate::twin::workload::dependencies::{After, Dependency, batches};
use crate::twin::workload::journal_waits::{JournalWaits, KINDS};

/// A machine to be played: its requests and what each comes after.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VmExcerpt<'a> {
    pub(crate) requests: &'a [TracedRequest],
    pub(crate) dependencies: &'a [Dependency],
    /// With which write each flush ends, if with any.
    pub(crate) ends: &'a [Option<u32>],
    /// Who is kept out by what.
    pub(crate) journal_waits: &'a JournalWaits,
    /// Which share of completions its host tells it only with the next.
    pub(crate) coalesced: f64,
    /// How many writes that nobody waits for it lets be under way at once.
    pub(crate) background: u32,
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
        let led = || {
            leaders()
                .enumerate()
                .filter_map(|(index, leader)| leader.map(|(leader, think_time)| (leader, index, think_time)))
        };
        let mut starts = vec![0u32; count + 1];
        led().for_each(|(leader, ..)| starts[leader as usize + 1] += 1);
        for index in 1..starts.len() {
            starts[index] += starts[index - 1];
        }
        let mut next = starts.clone();
        let mut followers = vec![(0, Nanos::ZERO); starts.last().map_or(0, |&count| count as usize)];
        for (leader, index, think_time) in led() {
            let slot = &mut next[leader as usize];
            followers[*slot as usize] = (index as u32, think_time);
            *slot += 1;
        }
        Followers { starts, followers }
    }

    /// By the leader that `leader` says a cause has.
    fn of_causes(dependencies: &[Dependency], leader: fn(After) -> Option<u32>) -> Followers {
        Followers::of(dependencies.len(), || {
            dependencies.iter().map(|dependency| leader(dependency.after).map(|leader| (leader, dependency.think_time)))
        })
    }

    fn after(&self, leader: u32) -> &[(u32, Nanos)] {
        let leader = leader as usize;
        &self.followers[self.starts[leader] as usize..self.starts[leader + 1] as usize]
    }
}

/// What requests come after.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The arrival of a request.
    Arrival,
    /// Its completion.
    Completion,
    /// The last completion of a go, by its first request.
    Batch,
    /// The completion of a write that a flush ends with.
    End,
}

/// A machine in the course of a play.
#[derive(Debug)]
pub(crate) struct SimulatedVm<'a> {
    pub(crate) requests: &'a [TracedRequest],
    after_arrival: Followers,
    after_completion: Followers,
    after_batch: Followers,
    ending_with: Followers,
    ends: &'a [Option<u32>],
    /// With which request each was sent in one go.
    batches: Vec<u32>,
    /// By the first of a go: how many of it are not done.
    of_batch: Vec<u32>,
    /// Which requests have come, and which are done.
    come: Vec<bool>,
    done: Vec<bool>,
    /// Requests that have not been sent.
    left: usize,
    pub(crate) coalesced: f64,
    /// Requests at the device.
    pub(crate) at_device: u32,
    /// Completions that are told with the next.
    pub(crate) held: Vec<u32>,
    /// The most writes that nobody waits for, how many are under way, and those that wait until there are fewer.
    background_most: u32,
    background: u32,
    throttled: VecDeque<u32>,
    journal_waits: &'a JournalWaits,
    /// Writes under way by kind, and requests whose process is kept out by some of them.
    of_kind: Vec<u32>,
    kept_out: Vec<u32>,
}

impl<'a> SimulatedVm<'a> {
    pub(crate) fn new(excerpt: &VmExcerpt<'a>) -> SimulatedVm<'a> {
        let &VmExcerpt { requests, dependencies, ends, journal_waits, coalesced, background } = excerpt;
        let count = requests.len();
        let batches = batches(requests, dependencies);
        let mut of_batch = vec![0; count];
        batches.iter().for_each(|&first| of_batch[first as usize] += 1);
        let after = |leader: fn(After) -> Option<u32>| Followers::of_causes(dependencies, leader);
        SimulatedVm {
            requests,
            after_arrival: after(|after| if let After::Arrival(leader) = after { Some(leader) } else { None }),
            after_completion: after(|after| if let After::Completion(leader) = after { Some(leader) } else { None }),
            after_batch: after(|after| if let After::Batch(first) = after { Some(first) } else { None }),
            ending_with: Followers::of(count, || ends.iter().map(|end| end.map(|end| (end, Nanos::ZERO)))),
            ends,
            batches,
            of_batch,
            come: vec![false; count],
            done: vec![false; count],
            left: count,
            coalesced,
            at_device: 0,
            held: Vec::new(),
            background_most: background.max(1),
            background: 0,
            throttled: VecDeque::new(),
            journal_waits,
            of_kind: vec![0; KINDS],
            kept_out: Vec::new(),
        }
    }

    /// What comes after an event of a request, and how long after.
    pub(crate) fn after(&self, event: Event, index: u32) -> &[(u32, Nanos)] {
        let followers = match event {
            Event::Arrival => &self.after_arrival,
            Event::Completion => &self.after_completion,
            Event::Batch => &self.after_batch,
            Event::End => &self.ending_with,
        };
        followers.after(index)
    }

    /// Whether something under way keeps its process from sending it.
    pub(crate) fn is_kept_out(&self, index: u32) -> bool {
        let (kinds, _) = self.journal_waits.of(index as usize);
        kinds != 0 && self.of_kind.iter().enumerate().any(|(kind, count)| *count > 0 && kinds >> kind & 1 == 1)
    }

    /// It is sent when its process is not kept out any more ([`SimulatedVm::let_in`]).
    pub(crate) fn keep_out(&mut self, index: u32) {
        self.kept_out.push(index);
    }

    /// A request is done: who is kept out by nothing any more, and how soon each begins.
    pub(crate) fn let_in(&mut self, done: u32) -> Vec<(u32, Nanos)> {
        let Some(kind) = self.journal_waits.kind(done as usize) else { return Vec::new() };
        self.of_kind[kind] -= 1;
        if self.of_kind[kind] > 0 || self.kept_out.is_empty() {
            return Vec::new();
        }
        let (still, free): (Vec<u32>, Vec<u32>) =
            std::mem::take(&mut self.kept_out).into_iter().partition(|&index| self.is_kept_out(index));
        self.kept_out = still;
        free.into_iter().map(|index| (index, self.journal_waits.of(index as usize).1)).collect()
    }

    /// A process has a request: it keeps out from now on whom it keeps out.
    pub(crate) fn arrived(&mut self, index: u32) {
        if let Some(kind) = self.journal_waits.kind(index as usize) {
            self.of_kind[kind] += 1;
        }
    }

    /// Whether it is a write that nobody waits for.
    fn is_background(&self, index: u32) -> bool {
        let request = &self.requests[index as usize];
        !request.sync && request.moves_data()
    }

    /// Whether it has to wait until fewer writes that nobody waits for are under way.
    pub(crate) fn is_throttled(&self, index: u32) -> bool {
        self.is_background(index) && self.background >= self.background_most
    }

    /// It is sent when there are fewer of its kind ([`SimulatedVm::release`]).
    pub(crate) fn throttle(&mut self, index: u32) {
        self.throttled.push_back(index);
    }

    /// A request goes to the device without having been throttled.
    pub(crate) fn begin(&mut self, index: u32) {
        self.background += u32::from(self.is_background(index));
    }

    /// A request has gone: whether it was the last.
    pub(crate) fn sent(&mut self) -> bool {
        self.left -= 1;
        self.left == 0
    }

    /// A request is done: what was throttled, and goes in its place.
    pub(crate) fn release(&mut self, done: u32) -> Option<u32> {
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
    pub(crate) fn end(&mut self, index: u32) -> Option<u32> {
        self.done[index as usize] = true;
        let first = self.batches[index as usize];
        self.of_batch[first as usize] -= 1;
        (self.of_batch[first as usize] == 0).then_some(first)
    }

    /// Whether it has come and waits for a write's end.
    pub(crate) fn has_come(&self, flush: u32) -> bool {
        self.come[flush as usize]
    }

    /// Something that never reaches the device has come: how long it takes, if that is known.
    pub(crate) fn stay(&mut self, index: u32) -> Option<Nanos> {
        self.come[index as usize] = true;
        let TracedRequest { arrival, issued, completed, .. } = self.requests[index as usize];
        match self.ends[index as usize] {
            Some(write) if !self.done[write as usize] => None,
            // What it waited for is done already: it takes what it took once it was sent.
            Some(_) => Some(completed.saturating_since(issued)),
            None => Some(completed.saturating_since(arrival)),
        }
    }
}
