//! The trait every policy implements.

use traces::{Operation, Request, RequestId, Timestamp};

use crate::cost::AccessCost;

/// How many more requests may be sent to the level below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Reads.
    pub reads: u32,
    /// Everything else (writes, discards).
    pub writes: u32,
}

impl Capacity {
    /// No limit.
    pub const UNLIMITED: Capacity = Capacity { reads: u32::MAX, writes: u32::MAX };

    /// Whether a request of this operation may be sent.
    pub const fn admits(self, operation: Operation) -> bool {
        match operation {
            Operation::Read => self.reads > 0,
            _ => self.writes > 0,
        }
    }
}

/// The answer of a scheduler to an opportunity to dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// Send this request; the scheduler has forgotten it but for [`Scheduler::completed`].
    Send(RequestId),
    /// Send nothing before this time, which lies in the future; an insertion or a completion in
    /// between is a new opportunity.
    WaitUntil(Timestamp),
    /// Nothing is waiting, or nothing that fits the capacity, or nothing goes before one of the
    /// requests that were sent completes.
    Idle,
}

/// A policy that orders requests. Its owner (a stage, or a driver of a real device) calls it with
/// times that never decrease and ids that are unique among outstanding requests.
///
/// Every id that is inserted is given back exactly once: by [`Dispatch::Send`], by
/// [`Scheduler::remove`] or as the `from` of [`Scheduler::merged_requests`].
///
/// ```
/// use iocast_schedulers::{AccessCost, Capacity, Dispatch, DistanceCost, Scheduler};
/// use traces::{Lba, Operation, Request, RequestId, Sectors, Timestamp};
///
/// /// The latest request goes next.
/// #[derive(Default)]
/// struct Latest(Vec<(RequestId, Operation)>);
///
/// impl Scheduler for Latest {
///     fn insert(&mut self, _now: Timestamp, id: RequestId, request: &Request) {
///         self.0.push((id, request.operation));
///     }
///     fn dispatch(&mut self, _now: Timestamp, capacity: Capacity, _cost: &dyn AccessCost) -> Dispatch {
///         let latest = self.0.iter().rposition(|&(_, operation)| capacity.admits(operation));
///         latest.map_or(Dispatch::Idle, |place| Dispatch::Send(self.0.remove(place).0))
///     }
///     fn remove(&mut self, id: RequestId) {
///         self.0.retain(|&(waiting, _)| waiting != id);
///     }
///     fn merged(&mut self, _now: Timestamp, _into: RequestId, _request: &Request) {}
///     fn waiting(&self) -> usize {
///         self.0.len()
///     }
/// }
///
/// let (mut latest, now) = (Latest::default(), Timestamp::ZERO);
/// let read = Request::new(now, Operation::Read, Lba::new(8), Sectors::new(8));
/// latest.insert(now, RequestId(0), &read);
/// latest.insert(now, RequestId(1), &read);
/// let cost = DistanceCost { position: Lba::ZERO, capacity: Sectors::new(1000) };
/// assert_eq!(latest.dispatch(now, Capacity::UNLIMITED, &cost), Dispatch::Send(RequestId(1)));
/// ```
pub trait Scheduler: Send {
    /// A request arrives and waits. Flushes do not come here: the stage sequences them.
    fn insert(&mut self, now: Timestamp, id: RequestId, request: &Request);

    /// An opportunity to send one request. Called until the answer is not `Send` or no
    /// capacity is left; the answer respects `capacity`.
    fn dispatch(&mut self, now: Timestamp, capacity: Capacity, cost: &dyn AccessCost) -> Dispatch;

    /// A request that was sent goes to the device now. Between the two it may have waited for capacity.
    fn issued(&mut self, _now: Timestamp, _id: RequestId) {}

    /// A request that was sent has completed.
    fn completed(&mut self, _now: Timestamp, _id: RequestId, _request: &Request) {}

    /// Whether the policy itself wants an opportunity after the last completion. An owner that gives one after every
    /// completion need not ask. The kernel gives none if this is false, unless a request has waited for capacity.
    fn calls_for_dispatch(&self) -> bool {
        true
    }

    /// Forget a waiting request: it was cancelled, or the decision of another policy is followed.
    fn remove(&mut self, id: RequestId);

    /// The waiting request was sent by another policy's decision: account for it as if `dispatch` had chosen it.
    /// False if it was only forgotten; `completed` is then not called for it.
    fn follow(&mut self, _now: Timestamp, id: RequestId) -> bool {
        self.remove(id);
        false
    }

    /// An independent copy, with which an owner can try decisions. `None` if the policy has no copies.
    fn fork(&self) -> Option<Box<dyn Scheduler>> {
        None
    }

    /// A request that was sent comes back unserved and waits again; it keeps its id.
    fn requeue(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.insert(now, id, request);
    }

    /// Whether the arriving `request` may be merged into the waiting `into`, to which it is
    /// adjacent. The stage has checked everything that is not policy.
    fn may_merge(&self, _into: RequestId, _request: &Request) -> bool {
        true
    }

    /// Whether a request may be put in front of a waiting one at all.
    fn front_merges(&self) -> bool {
        true
    }

    /// Whether two waiting requests are joined once one has grown up to the other. Linux asks the elevator for the
    /// neighbour, and some keep none.
    fn joins(&self) -> bool {
        true
    }

    /// The waiting request `into` has grown by a merge and is now `request`: its end has moved
    /// (back merge) or its start (front merge).
    fn merged(&mut self, now: Timestamp, into: RequestId, request: &Request);

    /// The waiting request `from` was joined behind the waiting `into`, which is now `request`.
    /// `from` is gone.
    fn merged_requests(&mut self, now: Timestamp, into: RequestId, from: RequestId, request: &Request) {
        self.remove(from);
        self.merged(now, into, request);
    }

    /// How many requests wait.
    fn waiting(&self) -> usize;

    /// How many requests each rule of [`Entry::rules`](crate::Entry::rules) has sent so far; empty if the policy has
    /// only one rule.
    ///
    /// Every [`Dispatch::Send`] counts once, and so does every request of which [`Scheduler::follow`] returned true. A
    /// request that comes back counts again when it is sent again. If nothing chooses it anew, because requests that
    /// came back go before all others, it counts for the rule that chose it first.
    fn sent_by_rule(&self) -> &[u64] {
        &[]
    }

    /// What the policy did that no policy may do. It sends nothing any more, and its owner ends with this as an error.
    /// Only policies whose code is not of this crate can be at fault.
    fn fault(&self) -> Option<&str> {
        None
    }
}

impl<S: Scheduler + ?Sized> Scheduler for Box<S> {
    fn insert(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        (**self).insert(now, id, request);
    }
    fn dispatch(&mut self, now: Timestamp, capacity: Capacity, cost: &dyn AccessCost) -> Dispatch {
        (**self).dispatch(now, capacity, cost)
    }
    fn issued(&mut self, now: Timestamp, id: RequestId) {
        (**self).issued(now, id);
    }
    fn completed(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        (**self).completed(now, id, request);
    }
    fn calls_for_dispatch(&self) -> bool {
        (**self).calls_for_dispatch()
    }
    fn follow(&mut self, now: Timestamp, id: RequestId) -> bool {
        (**self).follow(now, id)
    }
    fn fork(&self) -> Option<Box<dyn Scheduler>> {
        (**self).fork()
    }
    fn remove(&mut self, id: RequestId) {
        (**self).remove(id);
    }
    fn requeue(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        (**self).requeue(now, id, request);
    }
    fn may_merge(&self, into: RequestId, request: &Request) -> bool {
        (**self).may_merge(into, request)
    }
    fn front_merges(&self) -> bool {
        (**self).front_merges()
    }
    fn joins(&self) -> bool {
        (**self).joins()
    }
    fn merged(&mut self, now: Timestamp, into: RequestId, request: &Request) {
        (**self).merged(now, into, request);
    }
    fn merged_requests(&mut self, now: Timestamp, into: RequestId, from: RequestId, request: &Request) {
        (**self).merged_requests(now, into, from, request);
    }
    fn waiting(&self) -> usize {
        (**self).waiting()
    }
    fn sent_by_rule(&self) -> &[u64] {
        (**self).sent_by_rule()
    }
    fn fault(&self) -> Option<&str> {
        (**self).fault()
    }
}
