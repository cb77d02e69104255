//! Owns a scheduler as a stage does, and checks every answer against the requests that wait.

use std::collections::{BTreeMap, BTreeSet};

use traces::{Flags, Lba, Nanos, Operation, Priority, Request, RequestId, Sectors, StreamId, Timestamp, VmId};

use super::{Answers, Promise, Step, Violation};
use crate::cost::DistanceCost;
use crate::registry::Built;
use crate::scheduler::{Capacity, Dispatch, Scheduler};

/// Most requests that wait while copies are made: each copy takes time.
const COPIED_MAX: usize = 300;
/// While they look for the next request, these may begin a batch or a turn, which a follower does not.
const FOLLOWS_OTHERWISE: [&str; 2] = ["mq-deadline", "bfq"];

pub(super) struct Owner {
    scheduler: Box<dyn Scheduler>,
    /// Whether a copy that follows a decision is as one that makes it.
    follows_alike: bool,
    /// How many rules the scheduler has.
    rules: usize,
    /// Requests sent or followed, each time anew.
    times_sent: u64,
    cost: DistanceCost,
    now: Timestamp,
    wait: Option<Timestamp>,
    waiting: BTreeMap<u32, Request>,
    sent: BTreeMap<u32, Request>,
    /// Ids that were used before, and the first that was not.
    free: BTreeSet<u32>,
    next: u32,
    log: Answers,
}

/// The promise is not kept unless `kept`.
fn ensure(kept: bool, promise: Promise, what: impl FnOnce() -> String) -> Result<(), Violation> {
    if kept { Ok(()) } else { Err(Violation { promise, what: what() }) }
}

impl Owner {
    pub(super) fn new(built: Built) -> Owner {
        Owner {
            scheduler: built.scheduler,
            follows_alike: !FOLLOWS_OTHERWISE.contains(&built.entry.name),
            rules: built.entry.rules.len(),
            times_sent: 0,
            cost: DistanceCost { position: Lba::ZERO, capacity: Sectors::new(1_000_000) },
            now: Timestamp::ZERO,
            wait: None,
            waiting: BTreeMap::new(),
            sent: BTreeMap::new(),
            free: BTreeSet::new(),
            next: 0,
            log: Vec::new(),
        }
    }

    /// All answers so far.
    pub(super) fn answers(self) -> Answers {
        self.log
    }

    pub(super) fn take(&mut self, step: &Step) -> Result<(), Violation> {
        match *step {
            Step::Insert { lba, sectors, operation, stream } => self.insert(lba, sectors, operation, stream),
            Step::Pass { us } => self.now += Nanos::from_us(us),
            Step::FollowWait => self.now = self.wait.map_or(self.now, |wait| wait.max(self.now)),
            Step::Dispatch { reads, writes } => self.dispatch(Capacity { reads, writes })?,
            Step::Complete { pick } => self.complete(pick),
            Step::Requeue { pick } => self.requeue(pick),
            Step::Remove { pick } => self.remove(pick),
            Step::Follow { pick } => self.follow(pick),
            Step::BackMerge { pick, sectors } => self.merge(pick, 0, sectors),
            Step::FrontMerge { pick, sectors } if self.scheduler.front_merges() => self.merge(pick, sectors, sectors),
            Step::FrontMerge { .. } => {}
            Step::Join { pick, with } => self.join(pick, with),
        }
        self.check_counts()
    }

    /// The scheduler knows what waits, and every request that has been sent counts for one rule.
    fn check_counts(&self) -> Result<(), Violation> {
        let (theirs, ours) = (self.scheduler.waiting(), self.waiting.len());
        ensure(theirs == ours, Promise::CountsWhatWaits, || format!("{ours} wait, and it says {theirs}"))?;
        let by_rule = self.scheduler.sent_by_rule();
        let (counts, rules) = (by_rule.len(), self.rules);
        ensure(counts == rules, Promise::CountsRules, || format!("it has {rules} rules and counts {counts}"))?;
        let (counted, sent) = (by_rule.iter().sum::<u64>(), self.times_sent);
        let is_right = rules == 0 || counted == sent;
        ensure(is_right, Promise::CountsRules, || format!("it has sent {sent}, and its rules {counted}: {by_rule:?}"))
    }

    fn insert(&mut self, lba: u64, sectors: u64, operation: Operation, stream: u32) {
        let id = self.free.pop_first().unwrap_or(self.next);
        self.next = self.next.max(id + 1);
        let mut request = Request::new(self.now, operation, Lba::new(lba), Sectors::new(sectors));
        request.stream = StreamId(stream);
        request.vm = VmId(stream as u16);
        request.cpu = (stream % 3) as u16;
        request.priority = Priority::new((stream % 4) as u8, 4).unwrap_or(Priority::NONE);
        if stream == 1 {
            request.flags = Flags::SYNC;
        }
        self.waiting.insert(id, request);
        self.scheduler.insert(self.now, RequestId(id), &request);
    }

    /// Asks until the answer is not to send, or no capacity is left.
    fn dispatch(&mut self, mut capacity: Capacity) -> Result<(), Violation> {
        loop {
            let copy = if self.waiting.len() < COPIED_MAX { self.scheduler.fork() } else { None };
            let may_follow = self.follows_alike && capacity == Capacity::UNLIMITED;
            let follower = copy.as_ref().filter(|_| may_follow).and_then(|copy| copy.fork());
            let choice = self.scheduler.dispatch(self.now, capacity, &self.cost);
            if let Some(fault) = self.scheduler.fault() {
                return Err(Violation { promise: Promise::IsSound, what: fault.to_owned() });
            }
            if let Some(copy) = copy {
                self.check_copy(copy, capacity, choice)?;
            }
            self.log.push((self.now, choice));
            match choice {
                Dispatch::Send(id) => {
                    if let Some(follower) = follower {
                        self.check_follower(follower, id)?;
                    }
                    self.send(id, &mut capacity)?;
                }
                Dispatch::WaitUntil(wait) => {
                    let now = self.now;
                    self.wait = Some(wait);
                    return ensure(wait > now, Promise::WaitsForTheFuture, || format!("at {now} it waits for {wait}"));
                }
                Dispatch::Idle => return self.check_idle(capacity),
            }
        }
    }

    fn check_copy(&self, mut copy: Box<dyn Scheduler>, capacity: Capacity, choice: Dispatch) -> Result<(), Violation> {
        let theirs = copy.dispatch(self.now, capacity, &self.cost);
        ensure(theirs == choice, Promise::CopiesAlike, || format!("it answered {choice:?}, and a copy {theirs:?}"))?;
        let is_same = copy.sent_by_rule() == self.scheduler.sent_by_rule();
        ensure(is_same, Promise::CopiesAlike, || "a copy counts its rules otherwise".to_owned())
    }

    fn check_follower(&self, mut follower: Box<dyn Scheduler>, id: RequestId) -> Result<(), Violation> {
        let is_same = !follower.follow(self.now, id) || follower.sent_by_rule() == self.scheduler.sent_by_rule();
        ensure(is_same, Promise::CopiesAlike, || "a follower counts its rules otherwise".to_owned())
    }

    fn send(&mut self, id: RequestId, capacity: &mut Capacity) -> Result<(), Violation> {
        let Some(request) = self.waiting.remove(&id.0) else {
            let what = format!("at {} it sent request {}, which does not wait", self.now, id.0);
            return Err(Violation { promise: Promise::SendsWhatWaits, what });
        };
        let has_capacity = capacity.admits(request.operation);
        ensure(has_capacity, Promise::RespectsCapacity, || {
            format!("it sent a {} with {capacity:?}", request.operation)
        })?;
        let left = if request.operation == Operation::Read { &mut capacity.reads } else { &mut capacity.writes };
        *left -= 1;
        self.cost.position = request.end();
        self.sent.insert(id.0, request);
        self.times_sent += 1;
        Ok(())
    }

    /// A scheduler may be idle with requests if nothing goes before a completion, by a depth of its own or in the order
    /// of arrival.
    fn check_idle(&self, capacity: Capacity) -> Result<(), Violation> {
        let is_full = capacity.reads == 0 || capacity.writes == 0 || !self.sent.is_empty();
        let mut could_go = self.waiting.values().filter(|request| capacity.admits(request.operation));
        let kept = is_full || could_go.next().is_none();
        ensure(kept, Promise::StrandsNothing, || format!("at {} it is idle, and requests could go", self.now))
    }

    fn complete(&mut self, pick: usize) {
        if let Some((id, request)) = picked(&mut self.sent, pick) {
            self.free.insert(id);
            self.scheduler.completed(self.now, RequestId(id), &request);
        }
    }

    fn remove(&mut self, pick: usize) {
        if let Some((id, _)) = picked(&mut self.waiting, pick) {
            self.free.insert(id);
            self.scheduler.remove(RequestId(id));
        }
    }

    fn follow(&mut self, pick: usize) {
        if let Some((id, request)) = picked(&mut self.waiting, pick) {
            if self.scheduler.follow(self.now, RequestId(id)) {
                self.sent.insert(id, request);
                self.times_sent += 1;
            } else {
                self.free.insert(id);
            }
        }
    }

    fn requeue(&mut self, pick: usize) {
        if let Some((id, request)) = picked(&mut self.sent, pick) {
            self.waiting.insert(id, request);
            self.scheduler.requeue(self.now, RequestId(id), &request);
        }
    }

    /// Adds `sectors` to a waiting request, `before` of them in front.
    fn merge(&mut self, pick: usize, before: u64, sectors: u64) {
        let Some(id) = nth(&self.waiting, pick) else { return };
        let Some(request) = self.waiting.get_mut(&id) else { return };
        if request.lba.sector() < before || !self.scheduler.may_merge(RequestId(id), request) {
            return;
        }
        request.lba = Lba::new(request.lba.sector() - before);
        request.set_sectors(request.sectors() + Sectors::new(sectors));
        self.scheduler.merged(self.now, RequestId(id), request);
    }

    fn join(&mut self, pick: usize, with: usize) {
        let (Some(into), Some(from)) = (nth(&self.waiting, pick), nth(&self.waiting, with)) else { return };
        let (target, joined) = (self.waiting[&into], self.waiting[&from]);
        let fit = into != from && target.operation == joined.operation && target.vm == joined.vm;
        if !fit || !self.scheduler.may_merge(RequestId(into), &joined) {
            return;
        }
        self.waiting.remove(&from);
        self.free.insert(from);
        let mut request = target;
        request.set_sectors(target.sectors() + joined.sectors());
        self.waiting.insert(into, request);
        self.scheduler.merged_requests(self.now, RequestId(into), RequestId(from), &request);
    }

    /// Nothing more arrives: everything goes, in bounded time and with a bounded number of waits.
    pub(super) fn drain(&mut self) -> Result<(), Violation> {
        let waits_max = 4 * (self.waiting.len() + 2);
        for _ in 0..waits_max {
            self.dispatch(Capacity::UNLIMITED)?;
            let has_completed = !self.sent.is_empty();
            while !self.sent.is_empty() {
                self.complete(0);
            }
            if self.waiting.is_empty() {
                let answer = self.scheduler.dispatch(self.now, Capacity::UNLIMITED, &self.cost);
                let what = || format!("nothing waits, and it answers {answer:?}");
                ensure(answer == Dispatch::Idle, Promise::SendsWhatWaits, what)?;
                return self.check_counts();
            }
            if !has_completed {
                let Some(wait) = self.wait.take() else { break };
                self.now = self.now.max(wait);
            }
        }
        let (left, now) = (self.waiting.len(), self.now);
        Err(Violation { promise: Promise::StrandsNothing, what: format!("at {now} it keeps {left} requests for ever") })
    }
}

fn nth(requests: &BTreeMap<u32, Request>, pick: usize) -> Option<u32> {
    requests.keys().nth(pick % requests.len().max(1)).copied()
}

/// Takes a request out.
fn picked(requests: &mut BTreeMap<u32, Request>, pick: usize) -> Option<(u32, Request)> {
    let id = nth(requests, pick)?;
    requests.remove_entry(&id)
}
