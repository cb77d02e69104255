//! A scheduler of a library as one of ours, its answers checked.

use traces::spec::TIME_MAX_NS;
use traces::{Nanos, Operation, Request, RequestId, Timestamp};

use super::abi::{IDLE, SEND, WAIT_UNTIL};
use super::library::Instance;
use crate::cost::AccessCost;
use crate::scheduler::{Capacity, Dispatch, Scheduler};
use crate::slots::Slots;

/// Most answers in a row that ask for another call, while requests wait and nothing arrives, goes or completes. More
/// would never end.
const WAITS_MAX: u32 = 1_000_000;

/// The scheduler, and what it was given.
pub(super) struct Checked {
    /// `None` if the library made none.
    instance: Option<Instance>,
    /// By id: the operation of the request, if it waits.
    waits: Slots<Option<Operation>>,
    waiting: usize,
    /// How often it has asked for another call since something last happened, while requests waited.
    waits_in_a_row: u32,
    sent_by_rule: Vec<u64>,
    /// What it did that no scheduler may do. It is asked nothing more.
    fault: Option<String>,
}

impl Checked {
    pub(super) fn new(instance: Option<Instance>, rules: usize) -> Checked {
        let fault = instance.is_none().then(|| "its function create() returned nothing".to_owned());
        Checked {
            instance,
            waits: Slots::default(),
            waiting: 0,
            waits_in_a_row: 0,
            sent_by_rule: vec![0; rules],
            fault,
        }
    }

    /// The instance, unless it is at fault.
    fn sound(&mut self) -> Option<&mut Instance> {
        self.instance.as_mut().filter(|_| self.fault.is_none())
    }

    fn waits(&mut self, id: RequestId, operation: Operation) {
        self.waits_in_a_row = 0;
        self.waits.set(id, Some(operation));
        self.waiting += 1;
    }

    fn waits_no_more(&mut self, id: RequestId) {
        self.waits_in_a_row = 0;
        self.waits.set(id, None);
        self.waiting -= 1;
    }

    fn waits_until(&mut self, now: Timestamp, until: Timestamp) -> Dispatch {
        // An idle scheduler may keep its time slices, as long as it likes.
        self.waits_in_a_row = if self.waiting > 0 { self.waits_in_a_row + 1 } else { 0 };
        if until <= now {
            self.fails(now, &format!("it asked to be called at {until}, which is not in the future"))
        } else if until.since(now) > Nanos::from_ns(TIME_MAX_NS) {
            self.fails(now, &format!("it asked to be called at {until}, which is more than 30 days later"))
        } else if self.waits_in_a_row > WAITS_MAX {
            let waiting = self.waiting;
            self.fails(
                now,
                &format!("it has asked for {WAITS_MAX} calls and sent none of the {waiting} waiting requests"),
            )
        } else {
            Dispatch::WaitUntil(until)
        }
    }

    fn fails(&mut self, now: Timestamp, problem: &str) -> Dispatch {
        self.fault = Some(format!("at {now} {problem}"));
        Dispatch::Idle
    }
}

impl Scheduler for Checked {
    fn insert(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.waits(id, request.operation);
        if let Some(instance) = self.sound() {
            instance.insert(now, id.0, request);
        }
    }

    fn dispatch(&mut self, now: Timestamp, capacity: Capacity, cost: &dyn AccessCost) -> Dispatch {
        let Some(instance) = self.sound() else { return Dispatch::Idle };
        let answer = instance.dispatch(now, capacity, cost);
        match answer.kind {
            IDLE => Dispatch::Idle,
            WAIT_UNTIL => self.waits_until(now, Timestamp::from_ns(answer.until_ns)),
            SEND => {
                let id = RequestId(answer.id);
                let Some(operation) = self.waits.get(id).copied().flatten() else {
                    return self.fails(now, &format!("it sent request {}, which does not wait", answer.id));
                };
                if !capacity.admits(operation) {
                    let sent = answer.id;
                    return self.fails(now, &format!("it sent the {operation} {sent}, for which there is no capacity"));
                }
                if !self.sent_by_rule.is_empty() {
                    let Some(sent) = self.sent_by_rule.get_mut(answer.rule as usize) else {
                        let (rule, rules) = (answer.rule, self.sent_by_rule.len());
                        return self.fails(now, &format!("it named rule {rule} of {rules}, which are numbered from 0"));
                    };
                    *sent += 1;
                }
                self.waits_no_more(id);
                Dispatch::Send(id)
            }
            unknown => self.fails(now, &format!("it gave an answer of the unknown kind {unknown}")),
        }
    }

    fn issued(&mut self, now: Timestamp, id: RequestId) {
        if let Some(instance) = self.sound() {
            instance.issued(now, id.0);
        }
    }

    fn completed(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.waits_in_a_row = 0;
        if let Some(instance) = self.sound() {
            instance.completed(now, id.0, request);
        }
    }

    fn calls_for_dispatch(&self) -> bool {
        let sound = self.instance.as_ref().filter(|_| self.fault.is_none());
        sound.is_none_or(Instance::calls_for_dispatch)
    }

    fn remove(&mut self, id: RequestId) {
        self.waits_no_more(id);
        if let Some(instance) = self.sound() {
            instance.remove(id.0);
        }
    }

    fn requeue(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.waits(id, request.operation);
        if let Some(instance) = self.sound() {
            instance.requeue(now, id.0, request);
        }
    }

    fn may_merge(&self, into: RequestId, request: &Request) -> bool {
        let sound = self.instance.as_ref().filter(|_| self.fault.is_none());
        sound.is_none_or(|instance| instance.may_merge(into.0, request))
    }

    fn front_merges(&self) -> bool {
        self.instance.as_ref().is_none_or(Instance::front_merges)
    }

    fn joins(&self) -> bool {
        self.instance.as_ref().is_none_or(Instance::joins)
    }

    fn merged(&mut self, now: Timestamp, into: RequestId, request: &Request) {
        if let Some(instance) = self.sound() {
            instance.merged(now, into.0, request);
        }
    }

    fn merged_requests(&mut self, now: Timestamp, into: RequestId, from: RequestId, request: &Request) {
        self.waits_no_more(from);
        if let Some(instance) = self.sound() {
            instance.merged_requests(now, into.0, from.0, request);
        }
    }

    fn waiting(&self) -> usize {
        self.waiting
    }

    fn sent_by_rule(&self) -> &[u64] {
        &self.sent_by_rule
    }

    fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }
}
