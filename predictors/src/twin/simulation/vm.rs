//! The state of one simulated VM: which of its requests have arrived, are outstanding, throttled or blocked, and which
//! requests depend on them.
//!
//! `VmExcerpt` is the part of a VM's trace and inferred workload that a simulation uses. `SimulatedVm` knows no times:
//! `source` schedules the arrivals that the VM's dependencies release.

use std::collections::VecDeque;

use traces::Nanos;

use crate::isolated_trace::TracedRequest;
use crate::twin::workload::dependencies::{After, Dependency, batches};
use crate::twin::workload::journal_waits::{JournalWaits, WRITE_KINDS};

/// The part of a VM's trace and workload that is simulated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VmExcerpt<'a> {
    pub(crate) requests: &'a [TracedRequest],
    /// By request: its dependency.
    pub(crate) dependencies: &'a [Dependency],
    /// By request: the write that it ends with, if it is such a flush.
    pub(crate) flush_ends: &'a [Option<u32>],
    /// Which writes block which processes.
    pub(crate) journal_waits: &'a JournalWaits,
    /// Share of completions that the host reports only with the next one.
    pub(crate) coalesced_share: f64,
    /// The most background writes in flight at once.
    pub(crate) background_depth: u32,
}

/// The requests that depend on each request, as lists in one vector.
#[derive(Debug, Default)]
struct Followers {
    /// Where the followers of each request begin, and the end of the last list.
    starts: Vec<u32>,
    /// Each follower with its think time.
    followers: Vec<(u32, Nanos)>,
}

impl Followers {
    /// The followers among `count` requests, from the leader and think time of each request that has one.
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

    /// The followers by those dependencies for which `leader` names a request.
    fn of_dependencies(dependencies: &[Dependency], leader: fn(After) -> Option<u32>) -> Followers {
        Followers::of(dependencies.len(), || {
            dependencies.iter().map(|dependency| leader(dependency.after).map(|leader| (leader, dependency.think_time)))
        })
    }

    fn after(&self, leader: u32) -> &[(u32, Nanos)] {
        let leader = leader as usize;
        &self.followers[self.starts[leader] as usize..self.starts[leader + 1] as usize]
    }
}

/// An event that requests wait for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The arrival of a request.
    Arrival,
    /// Its completion.
    Completion,
    /// The last completion of a batch, named by its first request.
    Batch,
    /// The completion of a write that flushes end with.
    FlushEnd,
}

/// A VM during the simulation. Its requests are named by their index in the excerpt.
#[derive(Debug)]
pub(crate) struct SimulatedVm<'a> {
    pub(crate) requests: &'a [TracedRequest],
    after_arrival: Followers,
    after_completion: Followers,
    after_batch: Followers,
    ending_with: Followers,
    flush_ends: &'a [Option<u32>],
    /// By request: the first request of its batch.
    batches: Vec<u32>,
    /// By the first request of a batch: how many of the batch have not completed.
    batch_incomplete: Vec<u32>,
    /// By request: whether it has arrived, if it never reaches the device.
    arrived: Vec<bool>,
    /// By request: whether it has completed.
    completed: Vec<bool>,
    /// Number of requests that have not been sent.
    unsent: usize,
    pub(crate) coalesced_share: f64,
    /// Number of requests at the device.
    pub(crate) at_device: u32,
    /// Completions that the host reports with the next one.
    pub(crate) held_completions: Vec<u32>,
    /// The most background writes in flight at once.
    background_depth: u32,
    /// Number of background writes in flight.
    background_in_flight: u32,
    /// Background writes that wait until fewer are in flight, the oldest first.
    throttled: VecDeque<u32>,
    journal_waits: &'a JournalWaits,
    /// By kind: number of outstanding writes.
    writes_outstanding: Vec<u32>,
    /// Requests whose process is blocked by outstanding writes.
    blocked: Vec<u32>,
}

impl<'a> SimulatedVm<'a> {
    pub(crate) fn new(excerpt: &VmExcerpt<'a>) -> SimulatedVm<'a> {
        let &VmExcerpt { requests, dependencies, flush_ends, journal_waits, coalesced_share, background_depth } =
            excerpt;
        let count = requests.len();
        let batches = batches(requests, dependencies);
        let mut batch_incomplete = vec![0; count];
        batches.iter().for_each(|&first| batch_incomplete[first as usize] += 1);
        let after = |leader: fn(After) -> Option<u32>| Followers::of_dependencies(dependencies, leader);
        SimulatedVm {
            requests,
            after_arrival: after(|after| if let After::Arrival(leader) = after { Some(leader) } else { None }),
            after_completion: after(|after| if let After::Completion(leader) = after { Some(leader) } else { None }),
            after_batch: after(|after| if let After::Batch(first) = after { Some(first) } else { None }),
            ending_with: Followers::of(count, || flush_ends.iter().map(|end| end.map(|end| (end, Nanos::ZERO)))),
            flush_ends,
            batches,
            batch_incomplete,
            arrived: vec![false; count],
            completed: vec![false; count],
            unsent: count,
            coalesced_share,
            at_device: 0,
            held_completions: Vec::new(),
            background_depth: background_depth.max(1),
            background_in_flight: 0,
            throttled: VecDeque::new(),
            journal_waits,
            writes_outstanding: vec![0; WRITE_KINDS],
            blocked: Vec::new(),
        }
    }

    /// The requests that wait for an event of request `index`, each with its think time.
    pub(crate) fn after(&self, event: Event, index: u32) -> &[(u32, Nanos)] {
        let followers = match event {
            Event::Arrival => &self.after_arrival,
            Event::Completion => &self.after_completion,
            Event::Batch => &self.after_batch,
            Event::FlushEnd => &self.ending_with,
        };
        followers.after(index)
    }

    /// Whether outstanding writes block the process of a request from sending it.
    pub(crate) fn is_blocked(&self, index: u32) -> bool {
        let (kinds, _) = self.journal_waits.blockers(index as usize);
        kinds != 0
            && self.writes_outstanding.iter().enumerate().any(|(kind, count)| *count > 0 && kinds >> kind & 1 == 1)
    }

    /// Keeps a request until its process is no longer blocked ([`SimulatedVm::unblock`]).
    pub(crate) fn block(&mut self, index: u32) {
        self.blocked.push(index);
    }

    /// Counts the completion of a request. Returns the requests that nothing blocks any more, each with the time until
    /// its process sends it.
    pub(crate) fn unblock(&mut self, completed: u32) -> Vec<(u32, Nanos)> {
        let Some(kind) = self.journal_waits.kind(completed as usize) else { return Vec::new() };
        self.writes_outstanding[kind] -= 1;
        if self.writes_outstanding[kind] > 0 || self.blocked.is_empty() {
            return Vec::new();
        }
        let (still, free): (Vec<u32>, Vec<u32>) =
            std::mem::take(&mut self.blocked).into_iter().partition(|&index| self.is_blocked(index));
        self.blocked = still;
        free.into_iter().map(|index| (index, self.journal_waits.blockers(index as usize).1)).collect()
    }

    /// Counts the arrival of a request, which may block processes from now on.
    pub(crate) fn count_arrival(&mut self, index: u32) {
        if let Some(kind) = self.journal_waits.kind(index as usize) {
            self.writes_outstanding[kind] += 1;
        }
    }

    /// Whether a request is a background write, which no process waits for.
    fn is_background(&self, index: u32) -> bool {
        let request = &self.requests[index as usize];
        !request.sync && request.moves_data()
    }

    /// Whether a request has to wait until fewer background writes are in flight.
    pub(crate) fn is_throttled(&self, index: u32) -> bool {
        self.is_background(index) && self.background_in_flight >= self.background_depth
    }

    /// Keeps a background write until fewer are in flight ([`SimulatedVm::release`]).
    pub(crate) fn throttle(&mut self, index: u32) {
        self.throttled.push_back(index);
    }

    /// Counts a request that goes to the device without having been throttled.
    pub(crate) fn issue(&mut self, index: u32) {
        self.background_in_flight += u32::from(self.is_background(index));
    }

    /// Counts a request as sent. Returns whether it was the VM's last.
    pub(crate) fn count_sent(&mut self) -> bool {
        self.unsent -= 1;
        self.unsent == 0
    }

    /// Returns the throttled write that goes to the device in place of the completed request, if there is one.
    pub(crate) fn release(&mut self, completed: u32) -> Option<u32> {
        if !self.is_background(completed) {
            return None;
        }
        let next = self.throttled.pop_front();
        if next.is_none() {
            self.background_in_flight -= 1;
        }
        next
    }

    /// Marks a request as completed. Returns the first request of its batch if it completes the batch.
    pub(crate) fn complete(&mut self, index: u32) -> Option<u32> {
        self.completed[index as usize] = true;
        let first = self.batches[index as usize];
        self.batch_incomplete[first as usize] -= 1;
        (self.batch_incomplete[first as usize] == 0).then_some(first)
    }

    /// Whether a flush has arrived.
    pub(crate) fn has_arrived(&self, flush: u32) -> bool {
        self.arrived[flush as usize]
    }

    /// Marks a request that never reaches the device as arrived. Returns its response time unless it ends with a write
    /// that is still outstanding.
    pub(crate) fn serve_without_device(&mut self, index: u32) -> Option<Nanos> {
        self.arrived[index as usize] = true;
        let TracedRequest { arrival, issued, completed, .. } = self.requests[index as usize];
        match self.flush_ends[index as usize] {
            Some(write) if !self.completed[write as usize] => None,
            // The write has already completed: the flush takes as long as it took from its issue.
            Some(_) => Some(completed.saturating_since(issued)),
            None => Some(completed.saturating_since(arrival)),
        }
    }
}
