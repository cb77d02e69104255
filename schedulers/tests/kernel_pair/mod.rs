//! One of our schedulers and the kernel's code for it, given the same calls.

pub(crate) mod load;
pub(crate) mod recorded;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use iocast_schedulers::{Capacity, Dispatch, DistanceCost, Scheduler};
use traces::{Lba, Nanos, Operation, Request, RequestId, Sectors, Timestamp};

/// A decision in which the two differ.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    /// Its number within the sequence.
    decision: u64,
    now: Timestamp,
    what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "decision {}, at {}: {}", self.decision, self.now, self.what)
    }
}

/// The two, and the requests that both have.
pub(crate) struct Pair {
    ours: Box<dyn Scheduler>,
    theirs: Box<dyn Scheduler>,
    cost: DistanceCost,
    pub(crate) now: Timestamp,
    pub(crate) waiting: BTreeMap<u32, Request>,
    pub(crate) sent: BTreeMap<u32, Request>,
    by_start: BTreeSet<(u64, u32)>,
    by_end: BTreeSet<(u64, u32)>,
    free: BTreeSet<u32>,
    next: u32,
    /// The times that ours and the kernel's wait for.
    waits: [Option<Timestamp>; 2],
    pub(crate) decisions: u64,
    /// Of the times and ids of what was sent, and of the answers about merges (FNV-1a).
    pub(crate) digest: u64,
    pub(crate) merges: bool,
    /// Whether only the times count that ours waits for, so that the sequence is the same without the other.
    pub(crate) only_ours_wakes: bool,
}

/// Sequences begin here, so that no time lies before the clock's zero.
pub(crate) const BEGIN: Timestamp = Timestamp::from_ns(100_000_000_000_000);
/// Most sectors of a merged request.
const SECTORS_MAX: u64 = 2560;

impl Pair {
    pub(crate) fn new(ours: Box<dyn Scheduler>, theirs: Box<dyn Scheduler>, now: Timestamp) -> Pair {
        assert_eq!(ours.joins(), theirs.joins());
        Pair {
            ours,
            theirs,
            cost: DistanceCost { position: Lba::ZERO, capacity: Sectors::new(1 << 30) },
            now,
            waiting: BTreeMap::new(),
            sent: BTreeMap::new(),
            by_start: BTreeSet::new(),
            by_end: BTreeSet::new(),
            free: BTreeSet::new(),
            next: 0,
            waits: [None; 2],
            decisions: 0,
            digest: 0xcbf2_9ce4_8422_2325,
            merges: true,
            only_ours_wakes: false,
        }
    }

    fn differs<T>(&self, what: String) -> Result<T, Difference> {
        Err(Difference { decision: self.decisions, now: self.now, what })
    }

    fn note(&mut self, number: u64) {
        for byte in number.to_le_bytes() {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn index(&mut self, id: u32, request: &Request, is_there: bool) {
        let (start, end) = ((request.lba.sector(), id), (request.end().sector(), id));
        if is_there {
            self.by_start.insert(start);
            self.by_end.insert(end);
        } else {
            self.by_start.remove(&start);
            self.by_end.remove(&end);
        }
    }

    pub(crate) fn arrive(&mut self, mut request: Request) -> Result<(), Difference> {
        request.arrival = self.now;
        if self.merges && request.operation.moves_data() && self.merge(&request)? {
            return Ok(());
        }
        let id = self.free.pop_first().unwrap_or(self.next);
        self.next = self.next.max(id + 1);
        self.ours.insert(self.now, RequestId(id), &request);
        self.theirs.insert(self.now, RequestId(id), &request);
        self.index(id, &request, true);
        self.waiting.insert(id, request);
        Ok(())
    }

    fn adjacent(of: &BTreeSet<(u64, u32)>, sector: u64) -> Vec<u32> {
        of.range((sector, 0)..=(sector, u32::MAX)).map(|&(_, id)| id).collect()
    }

    fn may_merge(&mut self, into: u32, request: &Request) -> Result<bool, Difference> {
        let other = &self.waiting[&into];
        let fits = other.operation == request.operation
            && other.vm == request.vm
            && other.priority == request.priority
            && other.sectors().count() + request.sectors().count() <= SECTORS_MAX;
        if !fits {
            return Ok(false);
        }
        let id = RequestId(into);
        let (ours, theirs) = (self.ours.may_merge(id, request), self.theirs.may_merge(id, request));
        if ours != theirs {
            return self.differs(format!("merge into {into} of {}: ours {ours}, theirs {theirs}", shown(request)));
        }
        self.note(u64::from(ours));
        Ok(ours)
    }

    fn merge(&mut self, request: &Request) -> Result<bool, Difference> {
        for into in Self::adjacent(&self.by_end, request.lba.sector()) {
            if self.may_merge(into, request)? {
                self.grow(into, request, false);
                self.join_behind(into);
                return Ok(true);
            }
        }
        // Of several that begin at one sector, the kernel finds one by the shape of its tree.
        if let [into] = Self::adjacent(&self.by_start, request.end().sector())[..]
            && self.ours.front_merges()
            && self.may_merge(into, request)?
        {
            self.grow(into, request, true);
            return Ok(true);
        }
        Ok(false)
    }

    fn grow(&mut self, into: u32, by: &Request, in_front: bool) {
        let Some(mut grown) = self.waiting.get(&into).copied() else { return };
        self.index(into, &grown, false);
        if in_front {
            grown.lba = by.lba;
        }
        grown.set_sectors(grown.sectors() + by.sectors());
        self.ours.merged(self.now, RequestId(into), &grown);
        self.theirs.merged(self.now, RequestId(into), &grown);
        self.index(into, &grown, true);
        self.waiting.insert(into, grown);
    }

    /// Joins what begins where `into` ends now.
    fn join_behind(&mut self, into: u32) {
        let Some(mut grown) = self.waiting.get(&into).copied().filter(|_| self.theirs.joins()) else { return };
        let behind = Self::adjacent(&self.by_start, grown.end().sector()).into_iter().find(|&next| {
            let other = &self.waiting[&next];
            next != into
                && (other.operation, other.vm, other.priority) == (grown.operation, grown.vm, grown.priority)
                && other.sectors().count() > 0
                && other.sectors().count() + grown.sectors().count() <= SECTORS_MAX
        });
        let Some(from) = behind else { return };
        let Some(other) = self.waiting.remove(&from) else { return };
        self.index(from, &other, false);
        self.index(into, &grown, false);
        grown.set_sectors(grown.sectors() + other.sectors());
        self.ours.merged_requests(self.now, RequestId(into), RequestId(from), &grown);
        self.theirs.merged_requests(self.now, RequestId(into), RequestId(from), &grown);
        self.index(into, &grown, true);
        self.waiting.insert(into, grown);
        self.free.insert(from);
    }

    /// Sends up to `most` requests.
    pub(crate) fn dispatch(&mut self, most: u32) -> Result<(), Difference> {
        let mut left = most;
        while left > 0 {
            let ours = self.ours.dispatch(self.now, Capacity::UNLIMITED, &self.cost);
            let theirs = self.theirs.dispatch(self.now, Capacity::UNLIMITED, &self.cost);
            if let Some(fault) = self.theirs.fault() {
                return self.differs(format!("fault: {fault}"));
            }
            self.decisions += u64::from(!self.waiting.is_empty());
            let wait = |answer| match answer {
                Dispatch::WaitUntil(time) => Some(time),
                _ => None,
            };
            match (ours, theirs) {
                (Dispatch::Send(id), Dispatch::Send(same)) if id == same => {
                    let Some(request) = self.waiting.remove(&id.0) else {
                        return self.differs(format!("sent {} that does not wait", id.0));
                    };
                    self.note(self.now.as_ns());
                    self.note(u64::from(id.0));
                    self.index(id.0, &request, false);
                    self.cost.position = request.end();
                    self.ours.issued(self.now, id);
                    self.theirs.issued(self.now, id);
                    self.sent.insert(id.0, request);
                    left -= 1;
                }
                (Dispatch::Send(_), _) | (_, Dispatch::Send(_)) => {
                    let named = |answer| match answer {
                        Dispatch::Send(RequestId(id)) => match self.waiting.get(&id) {
                            Some(request) => format!("sends {id} ({})", shown(request)),
                            None => format!("sends {id}, which does not wait"),
                        },
                        other => format!("{other:?}"),
                    };
                    return self.differs(format!("ours {}, theirs {}", named(ours), named(theirs)));
                }
                _ => {
                    self.waits = [wait(ours), wait(theirs)];
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    pub(crate) fn complete(&mut self, id: u32) {
        if let Some(request) = self.sent.remove(&id) {
            self.ours.completed(self.now, RequestId(id), &request);
            self.theirs.completed(self.now, RequestId(id), &request);
            self.free.insert(id);
        }
    }

    pub(crate) fn requeue(&mut self, id: u32) {
        if let Some(request) = self.sent.remove(&id) {
            self.ours.requeue(self.now, RequestId(id), &request);
            self.theirs.requeue(self.now, RequestId(id), &request);
            self.index(id, &request, true);
            self.waiting.insert(id, request);
        }
    }

    /// The earliest time that one of them waits for, or that ours does.
    pub(crate) fn wait(&self) -> Option<Timestamp> {
        if self.only_ours_wakes { self.waits[0] } else { self.waits.into_iter().flatten().min() }
    }

    /// Lets time pass. An owner with room for requests calls at the times that a scheduler waits for; one without does
    /// not. Nothing else happens at the very nanosecond for which one waits: the order would be a matter of taste.
    pub(crate) fn pass(&mut self, span: Nanos, room: u32) -> Result<(), Difference> {
        let mut until = self.now + span;
        while let Some(wait) = self.wait().filter(|&wait| wait <= until) {
            self.now = self.now.max(wait);
            self.waits = self.waits.map(|other| other.filter(|&other| other > wait));
            if room > 0 {
                self.dispatch(room)?;
            }
            if wait == until {
                until += Nanos::from_ns(1);
            }
        }
        self.now = self.now.max(until);
        Ok(())
    }
}

fn shown(request: &Request) -> String {
    let Request { operation, lba, stream, priority, flags, .. } = request;
    let sectors = request.sectors().count();
    let kind = if *operation == Operation::Read || request.is_sync() { "sync" } else { "async" };
    format!(
        "{operation} {}+{sectors} stream {} class {} level {} {kind} {flags:?}",
        lba.sector(),
        stream.0,
        priority.class(),
        priority.level()
    )
}
