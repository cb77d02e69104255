//! Records what happens in a replay or a trace over time, in bounded memory: intervals and rows become coarser as it
//! grows.

mod close_up;
mod counts;
mod watched;

use traces::results::history::{ClassHistory, History, STEPS_MAX, VmHistory, response_number};
use traces::{Lba, Nanos, Operation, Request, RequestId, Sectors, Timestamp, VmId};

use close_up::{Seen, Windows};
use counts::Counts;

use crate::metrics::Class;
use crate::observer::{Observer, Served};

/// The length of an interval at first.
const FIRST_INTERVAL: Nanos = Nanos::from_ms(1);
/// The sectors in a row of addresses at first.
const FIRST_ROW: u64 = 8;
/// Arrivals that find more than so many of their class are counted together.
const FOUND_MAX: usize = 128;
/// VMs beyond so many are counted together.
const VMS_MAX: usize = 32;

/// Counts in the intervals of a replay.
#[derive(Clone, Debug)]
pub struct HistoryRecorder {
    first_arrival: Option<Timestamp>,
    interval: Nanos,
    outstanding: Outstanding,
    classes: [ClassCounts; 2],
    vms: Vec<VmCounts>,
    seeks: [u64; u64::BITS as usize + 1],
    device: Device,
    windows: Windows,
    /// The number of intervals in which anything was counted.
    columns: usize,
}

/// What a trace says of the device: where its last request ended, and when it last completed one.
#[derive(Clone, Copy, Debug, Default)]
struct Device {
    end: Option<Lba>,
    completed: Option<Timestamp>,
}

/// Arrivals outstanding over time.
#[derive(Clone, Debug)]
struct Outstanding {
    now: u64,
    /// Until when the integrals are complete, from the first arrival.
    until: Nanos,
    /// The integral over time in each interval.
    integrals: [u128; STEPS_MAX],
    most: [u64; STEPS_MAX],
}

#[derive(Clone, Debug)]
struct ClassCounts {
    outstanding: usize,
    responses: Counts,
    found: [u64; FOUND_MAX + 1],
    found_other: [u64; FOUND_MAX + 1],
}

#[derive(Clone, Debug)]
struct VmCounts {
    requests: [u64; STEPS_MAX],
    bytes: [u64; STEPS_MAX],
    /// The time for which the device served it, in ns.
    served: [u64; STEPS_MAX],
    /// Reads and writes by address.
    addresses: [Counts; 2],
}

impl Default for HistoryRecorder {
    fn default() -> HistoryRecorder {
        let none = [0; FOUND_MAX + 1];
        let class = || ClassCounts { outstanding: 0, responses: Counts::new(1), found: none, found_other: none };
        HistoryRecorder {
            first_arrival: None,
            interval: FIRST_INTERVAL,
            outstanding: Outstanding { now: 0, until: Nanos::ZERO, integrals: [0; STEPS_MAX], most: [0; STEPS_MAX] },
            classes: [class(), class()],
            vms: Vec::new(),
            seeks: [0; u64::BITS as usize + 1],
            device: Device::default(),
            windows: Windows::default(),
            columns: 0,
        }
    }
}

/// The class of an operation, among reads and writes.
fn class_of(operation: Operation) -> Option<usize> {
    match Class::of(operation) {
        Class::Read => Some(0),
        Class::Write => Some(1),
        Class::Other => None,
    }
}

impl HistoryRecorder {
    /// The history, with these names of VMs.
    pub fn finish(mut self, names: &[String]) -> History {
        let columns = self.columns;
        let others = std::iter::once("other VMs".to_owned());
        let names = names.iter().take(VMS_MAX).cloned().chain(others);
        let length = self.interval.as_ns() as f64;
        let class = |class: &ClassCounts| ClassHistory {
            responses: class.responses.grid(columns),
            found: until_last(&class.found),
            found_other: until_last(&class.found_other),
        };
        // The last interval may be counted in part only.
        let last = Nanos::from_ns(self.interval.as_ns().saturating_mul(columns as u64));
        self.outstanding.advance(last, self.interval);
        let Outstanding { integrals, most, .. } = &self.outstanding;
        History {
            interval_ns: self.interval,
            outstanding_mean: integrals[..columns].iter().map(|&integral| integral as f64 / length).collect(),
            outstanding_max: most[..columns].to_vec(),
            read: class(&self.classes[0]),
            write: class(&self.classes[1]),
            vms: self.vms.iter().zip(names).map(|(vm, name)| vm.history(name, columns)).collect(),
            close_up: self.windows.shown(self.first_arrival.unwrap_or(Timestamp::ZERO)),
            seeks: until_last(&self.seeks),
        }
    }

    /// The interval at this time, up to which it is known what was outstanding.
    fn column(&mut self, now: Timestamp) -> usize {
        let column = self.column_of(now);
        let since = now.saturating_since(self.first_arrival.unwrap_or(now));
        self.outstanding.advance(since, self.interval);
        column
    }

    /// The interval at this time, past or to come; intervals are made long enough.
    fn column_of(&mut self, at: Timestamp) -> usize {
        let since = at.saturating_since(self.first_arrival.unwrap_or(at));
        while since.as_ns() / self.interval.as_ns() >= STEPS_MAX as u64 {
            self.fold();
        }
        let column = (since.as_ns() / self.interval.as_ns()) as usize;
        self.columns = self.columns.max(column + 1);
        column
    }

    /// An arrival is outstanding from now on.
    fn arrival(&mut self, now: Timestamp, operation: Operation) {
        self.first_arrival.get_or_insert(now);
        let column = self.column(now);
        self.outstanding.now += 1;
        self.outstanding.most[column] = self.outstanding.most[column].max(self.outstanding.now);
        if let Some(class) = class_of(operation) {
            let other = self.classes[1 - class].outstanding;
            let class = &mut self.classes[class];
            class.found[class.outstanding.min(FOUND_MAX)] += 1;
            class.found_other[other.min(FOUND_MAX)] += 1;
            class.outstanding += 1;
        }
    }

    /// An arrival is outstanding no longer.
    fn left(&mut self, operation: Operation) {
        self.outstanding.now = self.outstanding.now.saturating_sub(1);
        if let Some(class) = class_of(operation) {
            self.classes[class].outstanding = self.classes[class].outstanding.saturating_sub(1);
        }
    }

    /// An arrival is complete. Gives the interval.
    fn completion(&mut self, now: Timestamp, arrival: Timestamp, operation: Operation) -> usize {
        let column = self.column(now);
        self.left(operation);
        if let Some(class) = class_of(operation) {
            self.classes[class].responses.add(column, response_number(now.saturating_since(arrival)));
        }
        column
    }

    /// The head moved so far.
    fn moved(&mut self, distance: Sectors) {
        self.seeks[(u64::BITS - distance.count().leading_zeros()) as usize] += 1;
    }

    fn vm(&mut self, vm: VmId) -> &mut VmCounts {
        let vm = usize::from(vm.0).min(VMS_MAX);
        if vm >= self.vms.len() {
            self.vms.resize_with(vm + 1, VmCounts::new);
        }
        &mut self.vms[vm]
    }

    /// A VM's request completed.
    fn completed_of_vm(&mut self, column: usize, class: usize, request: &Request) {
        let vm = self.vm(request.vm);
        vm.requests[column] += 1;
        vm.bytes[column] = vm.bytes[column].saturating_add(request.sectors().bytes());
        vm.addresses[class].add(column, request.lba.sector());
    }

    /// The device served a request; the times are those of its arrival, of the service's beginning and its end.
    fn served_request(&mut self, class: usize, request: &Request, [arrived, started, finished]: [Timestamp; 3]) {
        let Request { vm, lba, .. } = *request;
        let seen = Seen { vm, is_write: class == 1, lba, sectors: request.sectors(), arrived, started, finished };
        self.windows.served(self.first_arrival.unwrap_or(arrived), seen);
        self.served_vm(vm, started, finished);
    }

    /// The device served a VM between these times.
    fn served_vm(&mut self, vm: VmId, from: Timestamp, to: Timestamp) {
        let columns = (self.column_of(to), self.column_of(from));
        let (first, interval) = (self.first_arrival.unwrap_or(from), self.interval.as_ns());
        let [from, to] = [from, to].map(|at| at.saturating_since(first).as_ns());
        let served = &mut self.vm(vm).served;
        for (column, served) in served.iter_mut().enumerate().take(columns.0 + 1).skip(columns.1) {
            let begin = column as u64 * interval;
            let part = to.min(begin.saturating_add(interval)).saturating_sub(from.max(begin));
            *served = served.saturating_add(part);
        }
    }

    /// Makes each two intervals one.
    #[cold]
    fn fold(&mut self) {
        self.interval = Nanos::from_ns(self.interval.as_ns().saturating_mul(2));
        self.columns = self.columns.div_ceil(2);
        fold(&mut self.outstanding.integrals, |one, other| one + other);
        fold(&mut self.outstanding.most, u64::max);
        self.classes.iter_mut().for_each(|class| class.responses.fold_columns());
        for vm in &mut self.vms {
            fold(&mut vm.requests, |one, other| one + other);
            fold(&mut vm.bytes, u64::saturating_add);
            fold(&mut vm.served, u64::saturating_add);
            vm.addresses.iter_mut().for_each(Counts::fold_columns);
        }
    }
}

/// The counts up to the last that is above zero.
fn until_last(counts: &[u64]) -> Vec<u64> {
    counts[..counts.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1)].to_vec()
}

/// Joins each two elements; the upper half becomes zero.
fn fold<T: Copy + Default>(of: &mut [T], join: impl Fn(T, T) -> T) {
    for index in 0..of.len() {
        of[index] = if index < of.len() / 2 { join(of[2 * index], of[2 * index + 1]) } else { T::default() };
    }
}

impl Outstanding {
    /// Counts what is outstanding until this time.
    fn advance(&mut self, until: Nanos, interval: Nanos) {
        while self.until < until {
            let column = self.until.as_ns() / interval.as_ns();
            let end = (column + 1).saturating_mul(interval.as_ns()).min(until.as_ns());
            // A fold may have come between; no column lies beyond the last.
            let column = (column as usize).min(STEPS_MAX - 1);
            self.integrals[column] += u128::from(self.now) * u128::from(end - self.until.as_ns());
            self.most[column] = self.most[column].max(self.now);
            self.until = Nanos::from_ns(end);
        }
    }
}

impl VmCounts {
    fn new() -> VmCounts {
        let addresses = [Counts::new(FIRST_ROW), Counts::new(FIRST_ROW)];
        VmCounts { requests: [0; STEPS_MAX], bytes: [0; STEPS_MAX], served: [0; STEPS_MAX], addresses }
    }

    fn history(&self, vm: String, columns: usize) -> VmHistory {
        let [reads, writes] = [0, 1].map(|class| self.addresses[class].grid(columns));
        VmHistory {
            vm,
            requests: self.requests[..columns].to_vec(),
            bytes: self.bytes[..columns].to_vec(),
            served_ns: self.served[..columns].to_vec(),
            reads,
            writes,
        }
    }
}

impl Observer for HistoryRecorder {
    fn arrived(&mut self, now: Timestamp, _id: RequestId, request: &Request) {
        self.arrival(now, request.operation);
    }

    fn served(&mut self, served: &Served) {
        if let Some(class) = class_of(served.request.operation) {
            self.moved(served.seek);
            self.served_request(class, &served.request, [served.request.arrival, served.started, served.finished]);
        }
    }

    fn completed(&mut self, now: Timestamp, _id: RequestId, request: &Request) {
        let column = self.completion(now, request.arrival, request.operation);
        if let Some(class) = class_of(request.operation) {
            self.completed_of_vm(column, class, request);
        }
    }
}
