//! Observers of a capture while it is read: they see more than its records.

use super::event::Event;
use crate::record::Record;
use crate::request::{Operation, Request, StreamId, VmId};
use crate::units::{Lba, Sectors, Timestamp};

/// A request as the device had it, after merging and splitting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceRequest {
    /// When it was issued (D).
    pub issued: Timestamp,
    /// Its operation. The kernel's own flushes have no address and no length.
    pub operation: Operation,
    /// First sector.
    pub lba: Lba,
    /// Its length.
    pub sectors: Sectors,
    /// The VM it came from.
    pub vm: VmId,
    /// The process that queued its first arrival; 0 of the kernel's own flushes. Where the issue is the arrival, the
    /// process that issued it.
    pub stream: StreamId,
}

/// How one arrival passed the block layer: its [`Record`], and facts that the record does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The record.
    pub record: Record,
    /// When a request was allocated for it (G); not for one that was merged.
    pub got: Option<Timestamp>,
    /// When it was merged into a request (M or F).
    pub merged: Option<Timestamp>,
    /// Whether it was split (X).
    pub split: bool,
    /// The cgroup it is accounted to, 0 if the capture does not have it.
    pub cgroup: u64,
}

impl Passage {
    /// The passage by a trace that has only the record.
    pub fn of(record: Record) -> Passage {
        Passage { record, got: None, merged: None, split: false, cgroup: 0 }
    }
}

/// Observes a capture. Times never decrease, but for [`Watch::passed`], which follows the order of
/// arrival.
pub trait Watch {
    /// An event, before anything is made of it.
    fn event(&mut self, _now: Timestamp, _event: &Event) {}

    /// A request arrived (Q).
    fn queued(&mut self, _now: Timestamp, _request: &Request) {}

    /// A request went to the device (D).
    fn issued(&mut self, _request: &DeviceRequest) {}

    /// A request came back from the device unserved (R), or no more events of it will come.
    fn taken_back(&mut self, _now: Timestamp, _operation: Operation) {}

    /// The device has completed a request (C).
    fn completed(&mut self, _now: Timestamp, _request: &DeviceRequest) {}

    /// An arrival is complete with all its parts.
    fn finished(&mut self, _now: Timestamp, _request: &Request) {}

    /// No more events of an arrival will come.
    fn given_up(&mut self, _now: Timestamp, _operation: Operation) {}

    /// All that will be known of an arrival.
    fn passed(&mut self, _passage: &Passage) {}
}

/// Observes nothing.
impl Watch for () {}

/// Both observe, the first one first.
impl<A: Watch, B: Watch> Watch for (&mut A, Option<&mut B>) {
    fn event(&mut self, now: Timestamp, event: &Event) {
        self.0.event(now, event);
        if let Some(second) = &mut self.1 {
            second.event(now, event);
        }
    }

    fn queued(&mut self, now: Timestamp, request: &Request) {
        self.0.queued(now, request);
        if let Some(second) = &mut self.1 {
            second.queued(now, request);
        }
    }

    fn issued(&mut self, request: &DeviceRequest) {
        self.0.issued(request);
        if let Some(second) = &mut self.1 {
            second.issued(request);
        }
    }

    fn taken_back(&mut self, now: Timestamp, operation: Operation) {
        self.0.taken_back(now, operation);
        if let Some(second) = &mut self.1 {
            second.taken_back(now, operation);
        }
    }

    fn completed(&mut self, now: Timestamp, request: &DeviceRequest) {
        self.0.completed(now, request);
        if let Some(second) = &mut self.1 {
            second.completed(now, request);
        }
    }

    fn finished(&mut self, now: Timestamp, request: &Request) {
        self.0.finished(now, request);
        if let Some(second) = &mut self.1 {
            second.finished(now, request);
        }
    }

    fn given_up(&mut self, now: Timestamp, operation: Operation) {
        self.0.given_up(now, operation);
        if let Some(second) = &mut self.1 {
            second.given_up(now, operation);
        }
    }

    fn passed(&mut self, passage: &Passage) {
        self.0.passed(passage);
        if let Some(second) = &mut self.1 {
            second.passed(passage);
        }
    }
}
