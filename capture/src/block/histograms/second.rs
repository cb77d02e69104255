//! The requests of one device in the current second, by VM and operation.

use traces::events::{Category, DeviceRequest, Event, Watch, action};
use traces::histograms::LogHistogram;
use traces::results::histograms::{OperationInSecond, SecondOfVm};
use traces::{Operation, SECTOR_BYTES, Timestamp};

use crate::block::attribution::Attribution;

/// The requests of one operation.
#[derive(Default)]
struct OperationCount {
    requests: u64,
    bytes: u64,
    d2c_sum_ns: u64,
    d2c_max_ns: u64,
    d2c_ns: LogHistogram,
    sectors: LogHistogram,
}

impl OperationCount {
    fn add(&mut self, now: Timestamp, request: &DeviceRequest) {
        let d2c = now.as_ns().saturating_sub(request.issued.as_ns());
        self.requests += 1;
        self.bytes += request.sectors.bytes();
        self.d2c_sum_ns = self.d2c_sum_ns.saturating_add(d2c);
        self.d2c_max_ns = self.d2c_max_ns.max(d2c);
        self.d2c_ns.add(d2c);
        self.sectors.add(request.sectors.bytes() / SECTOR_BYTES);
    }

    /// What was counted; `None` without a request. Counts from zero afterwards, in the same memory.
    fn take(&mut self) -> Option<OperationInSecond> {
        if self.requests == 0 {
            return None;
        }
        let taken = OperationInSecond {
            requests: std::mem::take(&mut self.requests),
            bytes: std::mem::take(&mut self.bytes),
            d2c_sum_ns: std::mem::take(&mut self.d2c_sum_ns),
            d2c_max_ns: std::mem::take(&mut self.d2c_max_ns),
            d2c_ns: self.d2c_ns.stored(),
            sectors: self.sectors.stored(),
        };
        self.d2c_ns.clear();
        self.sectors.clear();
        Some(taken)
    }
}

/// The requests of a VM: reads, writes, flushes and discards, as [`Operation`] numbers them.
type VmCounts = [OperationCount; Operation::ALL.len()];

/// A device, over its seconds.
#[derive(Default)]
pub(super) struct DeviceSecond {
    /// By VM; of those that had a request in this second or the one before.
    vms: Vec<Option<Box<VmCounts>>>,
    /// Requests that completed, over all seconds.
    pub(super) requests: u64,
    in_flight: u64,
    /// The time up to which `in_flight_ns` is counted.
    now: u64,
    in_flight_ns: u64,
    in_flight_max: u64,
    passed_through: u64,
}

impl DeviceSecond {
    /// Begins at that time of the events' clock, with nothing in flight that is known.
    pub(super) fn begin(from: u64) -> DeviceSecond {
        DeviceSecond { now: from, ..DeviceSecond::default() }
    }

    fn advance(&mut self, now: u64) {
        let passed = now.saturating_sub(self.now);
        self.in_flight_ns = self.in_flight_ns.saturating_add(self.in_flight.saturating_mul(passed));
        self.now = self.now.max(now);
    }

    fn count(&mut self, vm: usize, now: Timestamp, request: &DeviceRequest) {
        if vm >= self.vms.len() {
            self.vms.resize_with(vm + 1, || None);
        }
        self.requests += 1;
        self.vms[vm].get_or_insert_default()[request.operation as usize].add(now, request);
    }

    /// Ends the second at that time. Gives the VMs that had a request, each with a line in which these, and what is
    /// known of the device, are filled in. `main` has a line, too, if there is anything to say of the device.
    pub(super) fn end(&mut self, until: u64, main: usize) -> Vec<(usize, SecondOfVm)> {
        self.advance(until);
        let of_device = SecondOfVm {
            device_in_flight_ns: std::mem::take(&mut self.in_flight_ns),
            device_in_flight_max: std::mem::replace(&mut self.in_flight_max, self.in_flight),
            ..SecondOfVm::default()
        };
        let mut passed_through = std::mem::take(&mut self.passed_through);
        let says_more = passed_through > 0 || of_device.device_in_flight_max > 0;
        let mut lines = Vec::new();
        for (vm, counts) in self.vms.iter_mut().enumerate() {
            let [read, write, flush, discard] =
                counts.as_mut().map_or([const { None }; 4], |counts| counts.each_mut().map(OperationCount::take));
            let had_requests = [&read, &write, &flush, &discard].iter().any(|of| of.is_some());
            if had_requests {
                lines.push((vm, SecondOfVm { read, write, flush, discard, ..of_device.clone() }));
            } else {
                *counts = None;
            }
        }
        if says_more && lines.is_empty() {
            lines.push((main, of_device));
        }
        if let Some((_, first)) = lines.first_mut() {
            first.passed_through = std::mem::take(&mut passed_through);
        }
        lines
    }
}

/// Lets a device's second see its requests.
pub(super) struct Watched<'a> {
    pub(super) second: &'a mut DeviceSecond,
    pub(super) attribution: &'a mut Attribution,
    /// The device's number among those that are captured.
    pub(super) device: usize,
}

impl Watch for Watched<'_> {
    fn event(&mut self, _now: Timestamp, event: &Event) {
        let is_passed_through = event.code() == action::COMPLETE && event.is(Category::PASSTHROUGH);
        self.second.passed_through += u64::from(is_passed_through);
    }

    fn issued(&mut self, request: &DeviceRequest) {
        let second = &mut *self.second;
        second.advance(request.issued.as_ns());
        second.in_flight += 1;
        second.in_flight_max = second.in_flight_max.max(second.in_flight);
    }

    fn taken_back(&mut self, now: Timestamp, _operation: Operation) {
        self.second.advance(now.as_ns());
        self.second.in_flight = self.second.in_flight.saturating_sub(1);
    }

    fn completed(&mut self, now: Timestamp, request: &DeviceRequest) {
        self.taken_back(now, request.operation);
        let vm = self.attribution.vm(request.stream.0, self.device);
        self.second.count(usize::from(vm.0), now, request);
    }
}
