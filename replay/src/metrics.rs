//! Measures a replay with integer sums, and one histogram of response times per class.

use traces::statistics::{Distribution, QueueLength, Spans};
use traces::{Nanos, Operation, Request, RequestId, Timestamp, VmId};

use crate::active_time::ActiveTime;
use crate::observer::{Observer, Served};

/// The classes of requests that are measured separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Flushes and discards, which move no data.
    Other,
}

impl Class {
    pub(crate) fn of(operation: Operation) -> Class {
        match operation {
            Operation::Read => Class::Read,
            Operation::Write => Class::Write,
            Operation::Flush | Operation::Discard => Class::Other,
        }
    }
}

/// The measurements of one class.
#[derive(Clone, Debug, Default)]
pub struct ClassMetrics {
    /// Response times of arrivals.
    pub response: Distribution,
    /// The bytes of the arrivals, at most 2^64 − 1.
    pub bytes: u64,
    /// Device times of device requests.
    pub device: Spans,
    /// Times from leaving the scheduler to completion, of device requests.
    pub dispatch_to_completion: Spans,
    /// The sum of the distances that the head moved, in sectors.
    pub seek_sectors: u128,
    /// Device requests served from the drive's cache.
    pub hits: u64,
}

impl ClassMetrics {
    /// Adds the measurements of `other`.
    pub fn merge(&mut self, other: &ClassMetrics) {
        self.response.merge(&other.response);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.device.merge(&other.device);
        self.dispatch_to_completion.merge(&other.dispatch_to_completion);
        self.seek_sectors += other.seek_sectors;
        self.hits += other.hits;
    }
}

/// All measurements of a replay.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Reads, writes and others of all VMs, apart from what `vms` holds.
    rest: [ClassMetrics; 3],
    /// Reads, writes and others of each VM while all VMs are active.
    vms: Vec<[ClassMetrics; 3]>,
    /// When each VM completed its last arrival.
    vm_ends: Vec<Option<Timestamp>>,
    /// The time for which VMs are measured separately, if they are.
    active: Option<ActiveTime>,
    /// Arrivals outstanding.
    pub outstanding: QueueLength,
    /// Requests waiting in the scheduler.
    pub waiting: QueueLength,
    /// Requests in flight at the drive.
    pub at_drive: QueueLength,
    /// Arrivals merged into a waiting request.
    pub merged: u64,
    /// Requests that left the scheduler.
    pub dispatches: u64,
    /// Of these, requests that left while another one waited.
    pub choices: u64,
    first_arrival: Option<Timestamp>,
    last_completion: Timestamp,
}

impl Metrics {
    /// Measures all VMs together.
    pub fn new() -> Metrics {
        Metrics::default()
    }

    /// Measures each VM separately as well, for this time of the replay.
    pub fn per_vm(active: ActiveTime) -> Metrics {
        Metrics { active: Some(active), ..Metrics::default() }
    }

    /// The time from the first arrival to the last completion.
    pub fn span(&self) -> Nanos {
        self.first_arrival.map_or(Nanos::ZERO, |first| self.last_completion.saturating_since(first))
    }

    /// The measurements of one class over all VMs.
    pub fn total(&self, class: Class) -> ClassMetrics {
        let mut total = self.rest[class as usize].clone();
        for vm in &self.vms {
            total.merge(&vm[class as usize]);
        }
        total
    }

    /// The measurements of one class of one VM while all VMs were active; `None` if VMs are not measured separately or
    /// if it sent nothing.
    pub fn vm(&self, vm: usize, class: Class) -> Option<&ClassMetrics> {
        self.vms.get(vm).map(|classes| &classes[class as usize])
    }

    /// The time that the figures of each VM are over: from the first arrival until the first VM had no more arrivals, or
    /// until the last completion.
    pub fn active_span(&self) -> Nanos {
        let end = self.active.and_then(|active| active.end()).unwrap_or(self.last_completion);
        self.first_arrival.map_or(Nanos::ZERO, |first| end.saturating_since(first))
    }

    /// The time from the first arrival of the replay to the last completion of a VM; `None` if it completed nothing.
    pub fn vm_end(&self, vm: usize) -> Option<Nanos> {
        let end = self.vm_ends.get(vm).copied().flatten()?;
        self.first_arrival.map(|first| end.saturating_since(first))
    }

    fn class(&mut self, request: &Request) -> &mut ClassMetrics {
        let class = Class::of(request.operation) as usize;
        if self.active.as_mut().is_none_or(ActiveTime::is_over) {
            return &mut self.rest[class];
        }
        let vm = usize::from(request.vm.0);
        if vm >= self.vms.len() {
            self.vms.resize_with(vm + 1, Default::default);
        }
        &mut self.vms[vm][class]
    }
}

impl Observer for Metrics {
    fn arrived(&mut self, now: Timestamp, _id: RequestId, _request: &Request) {
        self.first_arrival.get_or_insert(now);
        self.outstanding.grow(now);
    }

    fn inserted(&mut self, now: Timestamp, _id: RequestId, _request: &Request) {
        self.waiting.grow(now);
    }

    fn merged(&mut self, now: Timestamp, _into: RequestId, _from: RequestId, _request: &Request, was_waiting: bool) {
        if was_waiting {
            self.waiting.shrink(now);
        } else {
            self.merged += 1;
        }
    }

    fn dispatched(&mut self, now: Timestamp, _id: RequestId, _request: &Request) {
        self.waiting.shrink(now);
        self.dispatches += 1;
        self.choices += u64::from(self.waiting.length() > 0);
    }

    fn issued(&mut self, now: Timestamp, _id: RequestId, _request: &Request) {
        self.at_drive.grow(now);
    }

    fn served(&mut self, served: &Served) {
        self.at_drive.shrink(served.finished);
        let class = self.class(&served.request);
        class.device.add(served.finished.since(served.issued));
        class.dispatch_to_completion.add(served.finished.since(served.dispatched));
        class.seek_sectors += u128::from(served.seek.count());
        class.hits += u64::from(served.hit);
    }

    fn completed(&mut self, now: Timestamp, _id: RequestId, request: &Request) {
        self.outstanding.shrink(now);
        self.last_completion = now;
        let response = now.since(request.arrival);
        let class = self.class(request);
        class.bytes = class.bytes.saturating_add(request.sectors().bytes());
        class.response.add(response);
        if self.active.is_some() {
            let vm = usize::from(request.vm.0);
            if vm >= self.vm_ends.len() {
                self.vm_ends.resize(vm + 1, None);
            }
            self.vm_ends[vm] = Some(now);
        }
    }

    fn vm_ended(&mut self, now: Timestamp, vm: VmId) {
        if let Some(active) = &mut self.active {
            active.vm_ended(now, vm);
        }
    }
}
