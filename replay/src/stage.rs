//! A stage: a scheduler with limits on the requests in flight below it, a look-ahead, merging, splitting and flush
//! sequences. It models the block layer of Linux around its elevator.

use std::collections::VecDeque;

use drive_models::{Completion, DriveModel, WriteCache};
use schedulers::{Capacity, Dispatch, Scheduler};
use traces::{Flags, Lba, Operation, Request, RequestId, Sectors, Timestamp};

use crate::flush::FlushMachine;
pub use crate::limits::Limits;
use crate::merge::MergeIndex;
use crate::observer::{Observer, Served};
use crate::requests::{Requests, Sequence};
use crate::source::Arrival;

/// A scheduler and the block layer around it.
pub struct Stage<S> {
    scheduler: S,
    limits: Limits,
    requests: Requests,
    merge: MergeIndex,
    flush: FlushMachine,
    /// Requests of flush sequences, which are sent before the requests of the scheduler.
    bypass: VecDeque<RequestId>,
    /// The request that has left the scheduler and waits for capacity below.
    held: Option<RequestId>,
    reads_in_flight: u32,
    writes_in_flight: u32,
    /// Whether the scheduler has answered that it sends nothing before the next arrival, completion or `wake`. The
    /// engine steps at events that a scheduler does not see, such as the completion of a member of an array.
    answered: bool,
    wake: Option<Timestamp>,
    // Reused so that nothing is allocated per flush.
    flushed: Vec<RequestId>,
}

impl<S: Scheduler> Stage<S> {
    /// An empty stage around `scheduler`.
    ///
    /// # Panics
    /// If a limit is zero.
    pub fn new(scheduler: S, limits: Limits) -> Stage<S> {
        assert!(limits.depth > 0 && limits.write_depth > 0, "a depth of zero lets nothing through");
        assert!(limits.max_sectors > Sectors::ZERO && limits.max_segments > 0, "requests have a length");
        Stage {
            scheduler,
            limits,
            requests: Requests::default(),
            merge: MergeIndex::new(),
            flush: FlushMachine::default(),
            bypass: VecDeque::new(),
            held: None,
            reads_in_flight: 0,
            writes_in_flight: 0,
            answered: false,
            wake: None,
            flushed: Vec::new(),
        }
    }

    /// The scheduler, which has counted the requests that each of its rules has sent.
    pub fn scheduler(&self) -> &S {
        &self.scheduler
    }

    /// The time at which the scheduler wants to be asked again.
    pub fn wake(&self) -> Option<Timestamp> {
        self.wake
    }

    /// The layer below has no capacity, so the scheduler is not asked before it has, whatever time the scheduler has
    /// named.
    pub(crate) fn wait_for_capacity(&mut self) {
        self.ask_again();
    }

    /// Whether a step sends nothing to the drive before an arrival, a completion or `wake`, whatever the drive accepts.
    /// The scheduler has not answered while a request has left it or a flush waits.
    pub(crate) fn sends_nothing(&self) -> bool {
        self.answered || self.capacity_to_ask() == Capacity { reads: 0, writes: 0 }
    }

    /// Something has changed that the scheduler knows of.
    fn ask_again(&mut self) {
        (self.answered, self.wake) = (false, None);
    }

    /// Arrivals and parts of arrivals that have not completed.
    pub fn outstanding(&self) -> usize {
        self.requests.outstanding()
    }

    /// The id that the next arrival will have.
    pub fn next_id(&self) -> RequestId {
        self.requests.next_id()
    }

    /// Accepts an arrival: merges it into a waiting request, splits it, makes a flush sequence of it, or queues it as
    /// it is. An arrival that needs no work from the drive is appended to `done` at once.
    pub fn arrive<D: DriveModel, O: Observer>(
        &mut self,
        now: Timestamp,
        request: Request,
        drive: &D,
        observer: &mut O,
        done: &mut Vec<Arrival>,
    ) {
        let id = self.requests.put(request);
        observer.arrived(now, id, &request);
        let mut request = request;
        let cache = match drive.write_cache() {
            WriteCache::Through if self.limits.always_flushes => WriteCache::Volatile { fua: false },
            cache => cache,
        };
        if cache == WriteCache::Through {
            request.flags.remove(Flags::FUA | Flags::PREFLUSH);
            self.requests[id].request = request;
        }
        let nothing_to_do = match request.operation {
            Operation::Flush => cache == WriteCache::Through,
            Operation::Discard => !drive.discards(),
            Operation::Read | Operation::Write => false,
        };
        if nothing_to_do {
            done.push((id, self.requests[id].arrived));
            self.requests.release(id);
            return;
        }
        self.ask_again();
        if let Some(sequence) = sequence_of(&mut self.requests[id].request, cache) {
            self.requests[id].sequence = sequence;
            self.next_step(now, id, done);
        } else if request.operation.moves_data() && request.sectors() > self.limits.max_sectors {
            self.split(now, id, Way::Scheduler, observer);
        } else {
            self.enqueue(now, id, observer);
        }
    }

    /// Sends requests to the drive as far as it has capacity.
    pub fn dispatch<D: DriveModel, O: Observer>(&mut self, now: Timestamp, drive: &mut D, observer: &mut O) {
        while self.dispatch_one(now, drive, observer) {}
    }

    /// Sends one request to the drive if one is ready and the drive has capacity; returns whether it did.
    pub fn dispatch_one<D: DriveModel, O: Observer>(
        &mut self,
        now: Timestamp,
        drive: &mut D,
        observer: &mut O,
    ) -> bool {
        if self.wake.is_some_and(|wake| wake <= now) {
            self.ask_again();
        }
        if let Some(&id) = self.bypass.front() {
            let issued = self.issue(now, id, drive, observer);
            if issued {
                self.bypass.pop_front();
            }
            return issued;
        }
        if self.held.is_none() && !self.answered {
            self.held = self.ask(now, drive, observer);
        }
        let Some(id) = self.held else { return false };
        let issued = self.issue(now, id, drive, observer);
        if issued {
            self.held = None;
        }
        issued
    }

    /// Asks the scheduler for the next request if the drive has capacity, or if the look-ahead is free.
    fn ask<D: DriveModel, O: Observer>(&mut self, now: Timestamp, drive: &D, observer: &mut O) -> Option<RequestId> {
        let capacity = self.capacity_to_ask();
        if capacity.reads == 0 && capacity.writes == 0 {
            return None;
        }
        match self.scheduler.dispatch(now, capacity, drive.cost()) {
            Dispatch::Send(id) => {
                let slot = &mut self.requests[id];
                slot.dispatched = now;
                let request = slot.request;
                if self.limits.merge {
                    self.merge.remove(id);
                }
                observer.dispatched(now, id, &request);
                Some(id)
            }
            Dispatch::WaitUntil(time) => {
                assert!(time > now, "the scheduler waits until a time that has passed");
                (self.answered, self.wake) = (true, Some(time));
                None
            }
            Dispatch::Idle => {
                self.answered = true;
                None
            }
        }
    }

    /// The arrivals that `id` was made of; they complete with it or wait for their other parts. A flush has none: it
    /// belongs to all requests that it serves.
    pub(crate) fn arrivals(&self, id: RequestId) -> impl Iterator<Item = RequestId> + '_ {
        let first = (self.requests[id].request.operation != Operation::Flush).then_some(id);
        std::iter::successors(first, |&member| self.requests[member].next)
            .map(|member| self.requests[member].parent.unwrap_or(member))
    }

    /// The drive has completed a request; appends the arrivals that have completed by it.
    pub fn complete<O: Observer>(
        &mut self,
        now: Timestamp,
        completion: &Completion,
        observer: &mut O,
        done: &mut Vec<Arrival>,
    ) {
        self.ask_again();
        let id = completion.id;
        let slot = &self.requests[id];
        let (request, bypass) = (slot.request, slot.bypass);
        let (dispatched, issued) = (slot.dispatched, slot.issued);
        let Completion { started, finished, seek, hit, .. } = *completion;
        let mut served = Served { id, request, dispatched, issued, started, finished, seek, hit };
        observer.served(&served);
        *self.in_flight(request.operation) -= 1;
        if request.operation == Operation::Flush {
            self.requests.release(id);
            self.flush_done(now, served, observer, done);
            return;
        }
        if !bypass {
            self.scheduler.completed(now, id, &request);
        }
        let mut next = Some(id);
        while let Some(member) = next {
            let slot = &self.requests[member];
            next = slot.next;
            observer.served_arrival(slot.parent.unwrap_or(member), &served);
            served.seek = Sectors::ZERO;
            self.member_done(now, member, done);
        }
    }

    /// One arrival, or part of an arrival, has completed.
    fn member_done(&mut self, now: Timestamp, id: RequestId, done: &mut Vec<Arrival>) {
        let slot = &self.requests[id];
        let (parent, arrived) = (slot.parent, slot.arrived);
        self.requests.release(id);
        let Some(parent) = parent else {
            done.push((id, arrived));
            return;
        };
        let slot = &mut self.requests[parent];
        slot.parts -= 1;
        if slot.parts == 0 {
            self.next_step(now, parent, done);
        }
    }

    /// Begins the next step of a flush sequence; after the last step, or without one, the arrival has completed.
    fn next_step(&mut self, now: Timestamp, id: RequestId, done: &mut Vec<Arrival>) {
        let sequence = &mut self.requests[id].sequence;
        let has_written = std::mem::take(&mut sequence.writes);
        if has_written {
            self.flush.data_completed();
        }
        if sequence.preflush {
            sequence.preflush = false;
            self.flush.join(now, id);
            self.start_flush(now);
        } else if sequence.data {
            (sequence.data, sequence.writes) = (false, true);
            self.flush.data_issued();
            self.split(now, id, Way::Bypass, &mut ());
        } else if sequence.postflush {
            sequence.postflush = false;
            self.flush.join(now, id);
            self.start_flush(now);
        } else {
            done.push((id, self.requests[id].arrived));
            self.requests.release(id);
            if has_written {
                self.start_flush(now);
            }
        }
    }

    fn start_flush(&mut self, now: Timestamp) {
        if let Some(first) = self.flush.start(now) {
            let mut request = Request::new(now, Operation::Flush, Lba::ZERO, Sectors::ZERO);
            request.vm = self.requests[first].arrived.vm;
            let id = self.requests.put(request);
            self.requests[id].bypass = true;
            self.bypass.push_back(id);
        }
    }

    fn flush_done<O: Observer>(
        &mut self,
        now: Timestamp,
        mut served: Served,
        observer: &mut O,
        done: &mut Vec<Arrival>,
    ) {
        let mut flushed = std::mem::take(&mut self.flushed);
        self.flush.finished(&mut flushed);
        for id in flushed.drain(..) {
            observer.served_arrival(id, &served);
            served.seek = Sectors::ZERO;
            self.next_step(now, id, done);
        }
        self.flushed = flushed;
        self.start_flush(now);
    }

    /// Splits a request into parts within the limits; it completes with the last of them.
    fn split<O: Observer>(&mut self, now: Timestamp, id: RequestId, way: Way, observer: &mut O) {
        let whole = self.requests[id].request;
        self.requests[id].parts = whole.sectors().count().div_ceil(self.limits.max_sectors.count()) as u32;
        let mut lba = whole.lba;
        while lba < whole.end() {
            let left = Sectors::new(whole.end().sector() - lba.sector());
            let mut part = whole;
            part.lba = lba;
            part.set_sectors(left.min(self.limits.max_sectors));
            lba = part.end();
            let part = self.requests.put(part);
            self.requests[part].parent = Some(id);
            match way {
                Way::Scheduler => self.enqueue(now, part, observer),
                Way::Bypass => {
                    self.requests[part].bypass = true;
                    self.bypass.push_back(part);
                }
            }
        }
    }

    /// Inserts a request into the scheduler, unless it can be merged into a waiting one.
    fn enqueue<O: Observer>(&mut self, now: Timestamp, id: RequestId, observer: &mut O) {
        let request = self.requests[id].request;
        if self.limits.merge {
            if request.operation.moves_data() && self.merge_into_waiting(now, id, &request, observer) {
                return;
            }
            self.merge.insert(id, request.lba, request.end());
        }
        self.scheduler.insert(now, id, &request);
        observer.inserted(now, id, &request);
    }

    /// Tries a back merge, then a front merge, as `elv_merge` does. A request that has grown up to its neighbour is
    /// joined with it (`attempt_back_merge`, `attempt_front_merge`).
    fn merge_into_waiting<O: Observer>(
        &mut self,
        now: Timestamp,
        id: RequestId,
        request: &Request,
        observer: &mut O,
    ) -> bool {
        let back = self.merge.ending_at(request.lba).find(|&into| self.may_merge(into, id));
        if let Some(into) = back {
            self.grow(now, into, id, observer);
            let end = self.requests[into].request.end();
            let behind = self.merge.starting_at(end).find(|&next| next != into && self.may_join(into, next));
            let behind = behind.filter(|_| self.scheduler.joins());
            if let Some(next) = behind {
                self.join(now, into, next, observer);
            }
            return true;
        }
        if !self.scheduler.front_merges() {
            return false;
        }
        let front = self.merge.starting_at(request.end()).find(|&into| self.may_merge(into, id));
        let Some(into) = front else { return false };
        self.grow(now, into, id, observer);
        let start = self.requests[into].request.lba;
        let before = self.merge.ending_at(start).find(|&previous| previous != into && self.may_join(previous, into));
        let before = before.filter(|_| self.scheduler.joins());
        if let Some(previous) = before {
            self.join(now, previous, into, observer);
        }
        true
    }

    fn may_merge(&self, into: RequestId, id: RequestId) -> bool {
        self.may_join(into, id) && self.scheduler.may_merge(into, &self.requests[id].request)
    }

    /// The kernel's rules (`blk_rq_merge_ok`, `ll_back_merge_fn`) for two adjacent requests.
    fn may_join(&self, one: RequestId, other: RequestId) -> bool {
        let (one, other) = (&self.requests[one], &self.requests[other]);
        let (a, b) = (&one.request, &other.request);
        a.operation == b.operation
            && a.vm == b.vm
            && a.priority == b.priority
            && !(a.flags | b.flags).intersects(Flags::FUA | Flags::PREFLUSH)
            && a.sectors() + b.sectors() <= self.limits.max_sectors
            && one.segments + other.segments <= self.limits.max_segments
    }

    /// Merges the arrival `id` into the waiting request `into`.
    fn grow<O: Observer>(&mut self, now: Timestamp, into: RequestId, id: RequestId, observer: &mut O) {
        let grown = self.absorb(into, id);
        self.merge.remove(into);
        self.merge.insert(into, grown.lba, grown.end());
        self.scheduler.merged(now, into, &grown);
        observer.merged(now, into, id, &grown, false);
    }

    /// Joins the waiting request `next` behind the waiting request `into`.
    fn join<O: Observer>(&mut self, now: Timestamp, into: RequestId, next: RequestId, observer: &mut O) {
        let grown = self.absorb(into, next);
        self.merge.remove(next);
        self.merge.remove(into);
        self.merge.insert(into, grown.lba, grown.end());
        self.scheduler.merged_requests(now, into, next, &grown);
        observer.merged(now, into, next, &grown, true);
    }

    /// Adds the sectors and the arrivals of `id` to `into`.
    fn absorb(&mut self, into: RequestId, id: RequestId) -> Request {
        let other = &self.requests[id];
        let (other_tail, segments, other) = (other.tail, other.segments, other.request);
        let tail = self.requests[into].tail;
        self.requests[tail].next = Some(id);
        let slot = &mut self.requests[into];
        slot.tail = other_tail;
        slot.segments += segments;
        slot.request.lba = slot.request.lba.min(other.lba);
        slot.request.set_sectors(slot.request.sectors() + other.sectors());
        slot.request
    }

    /// Sends a request to the drive if the limits and the drive admit it.
    fn issue<D: DriveModel, O: Observer>(
        &mut self,
        now: Timestamp,
        id: RequestId,
        drive: &mut D,
        observer: &mut O,
    ) -> bool {
        let request = self.requests[id].request;
        if !self.capacity().admits(request.operation) || !drive.accepts(&request) {
            return false;
        }
        *self.in_flight(request.operation) += 1;
        let slot = &mut self.requests[id];
        slot.issued = now;
        if slot.bypass {
            slot.dispatched = now;
        } else {
            self.scheduler.issued(now, id);
        }
        self.ask_again();
        drive.submit(now, id, &request);
        observer.issued(now, id, &request);
        true
    }

    fn in_flight(&mut self, operation: Operation) -> &mut u32 {
        match operation {
            Operation::Read => &mut self.reads_in_flight,
            _ => &mut self.writes_in_flight,
        }
    }

    /// The capacity that the limits leave now.
    fn capacity(&self) -> Capacity {
        let total = self.limits.depth - (self.reads_in_flight + self.writes_in_flight).min(self.limits.depth);
        let writes = self.limits.write_depth.saturating_sub(self.writes_in_flight);
        Capacity { reads: total, writes: total.min(writes) }
    }

    /// The capacity that the scheduler is asked with: with a look-ahead, at least one request even if the depth is used
    /// up. No write is asked for if the writes have used up their limit, since it would delay the reads.
    fn capacity_to_ask(&self) -> Capacity {
        let capacity = self.capacity();
        let ahead = u32::from(self.limits.look_ahead);
        let write_ahead = ahead.min(self.limits.write_depth.saturating_sub(self.writes_in_flight));
        Capacity { reads: capacity.reads.max(ahead), writes: capacity.writes.max(write_ahead) }
    }
}

/// The way of a part to the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Scheduler,
    /// Before the requests of the scheduler, as the flush machine of the kernel re-queues at the head.
    Bypass,
}

/// The flush sequence that `request` needs on a drive with this cache, if any; removes the flags that the sequence
/// replaces from the request.
fn sequence_of(request: &mut Request, cache: WriteCache) -> Option<Sequence> {
    let WriteCache::Volatile { fua } = cache else { return None };
    let is_flush = request.operation == Operation::Flush;
    let is_write = request.operation == Operation::Write;
    let sequence = Sequence {
        preflush: is_flush || (is_write && request.flags.contains(Flags::PREFLUSH)),
        data: is_write,
        writes: false,
        postflush: is_write && request.flags.contains(Flags::FUA) && !fua,
    };
    if !sequence.preflush && !sequence.postflush {
        return None;
    }
    request.flags.remove(Flags::PREFLUSH);
    if sequence.postflush {
        request.flags.remove(Flags::FUA);
    }
    Some(sequence)
}
