//! Brings the records of a trace into the order in which things happened, so that a trace without
//! events can be watched as one with them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::events::{DeviceRequest, Passage, Watch};
use crate::record::Record;
use crate::request::{Operation, Request, VmId};
use crate::units::{Lba, Sectors, Timestamp};

/// What may lie ahead of the last arrival; further records are watched without their completion.
const AHEAD_MAX: usize = 1 << 19;

/// What follows an arrival. At one time completions come first: what arrives then finds less.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Completed(Device),
    Finished(Arrival),
    Issued(Device),
}

/// A request at the device, ordered so that the parts of one merged request are neighbours.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Device {
    issued: Timestamp,
    completed: Timestamp,
    vm: VmId,
    operation: Operation,
    lba: Lba,
    sectors: Sectors,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    arrival: Timestamp,
    operation: Operation,
}

/// Shows records to a [`Watch`]. Records that were issued and completed at the very same times and
/// lie one behind the other were one request at the device.
#[derive(Default)]
pub struct Timeline {
    steps: BinaryHeap<Reverse<(Timestamp, Step)>>,
    /// Records whose completion was not watched because too much lay ahead.
    left_out: u64,
}

impl Timeline {
    /// The next record of a trace.
    pub fn record(&mut self, record: &Record, watch: &mut impl Watch) {
        let Record { request, observed } = record;
        let now = request.arrival;
        self.until(Some(now), watch);
        watch.queued(now, request);
        let fits = self.steps.len() + 3 <= AHEAD_MAX;
        match observed.completed.filter(|completed| *completed >= now) {
            Some(completed) if fits => {
                let arrival = Arrival { arrival: now, operation: request.operation };
                self.steps.push(Reverse((completed, Step::Finished(arrival))));
                if let Some(issued) = observed.issued.filter(|issued| *issued >= now && *issued <= completed) {
                    let device = device(request, issued, completed);
                    self.steps.push(Reverse((issued, Step::Issued(device))));
                }
            }
            other => {
                self.left_out += u64::from(other.is_some());
                watch.given_up(now, request.operation);
            }
        }
        watch.passed(&Passage::of(*record));
    }

    /// The end of the trace. Returns how many records were watched without their completion,
    /// because more than half a million steps lay ahead of the last arrival.
    pub fn finish(&mut self, watch: &mut impl Watch) -> u64 {
        self.until(None, watch);
        self.left_out
    }

    /// Everything that happened before or at the time of an arrival.
    fn until(&mut self, arrival: Option<Timestamp>, watch: &mut impl Watch) {
        while let Some(Reverse((now, step))) = self.steps.peek().copied()
            && arrival.is_none_or(|arrival| now <= arrival)
        {
            self.steps.pop();
            match step {
                Step::Completed(device) => watch.completed(now, &device.request()),
                Step::Finished(Arrival { arrival, operation }) => {
                    watch.finished(now, &Request::new(arrival, operation, Lba::ZERO, Sectors::ZERO));
                }
                Step::Issued(device) => self.issue(device, watch),
            }
        }
    }

    /// A request is issued, with all that was merged into it.
    fn issue(&mut self, mut device: Device, watch: &mut impl Watch) {
        while let Some(Reverse((_, Step::Issued(next)))) = self.steps.peek().copied()
            && next.joins(&device)
        {
            self.steps.pop();
            device.sectors = device.sectors + next.sectors;
        }
        watch.issued(&device.request());
        self.steps.push(Reverse((device.completed, Step::Completed(device))));
    }
}

fn device(request: &Request, issued: Timestamp, completed: Timestamp) -> Device {
    let Request { vm, operation, lba, .. } = *request;
    Device { issued, completed, vm, operation, lba, sectors: request.sectors() }
}

impl Device {
    /// Whether it lies behind `before` in one request.
    fn joins(&self, before: &Device) -> bool {
        let Device { issued, completed, vm, operation, .. } = *self;
        let same = issued == before.issued && completed == before.completed && completed != issued;
        same && vm == before.vm
            && operation == before.operation
            && operation != Operation::Flush
            && self.lba == before.lba.saturating_add(before.sectors)
    }

    fn request(&self) -> DeviceRequest {
        let Device { issued, operation, lba, sectors, vm, .. } = *self;
        DeviceRequest { issued, operation, lba, sectors, vm }
    }
}
