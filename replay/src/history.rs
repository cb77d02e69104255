//! Records what happens in a replay over time, in bounded memory: intervals and rows become coarser as it grows.

use traces::results::history::{ClassHistory, Grid, History, STEPS_MAX, VmHistory, response_number};
use traces::{Nanos, Operation, Request, RequestId, Timestamp};

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
    /// The number of intervals in which anything was counted.
    columns: usize,
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
}

#[derive(Clone, Debug)]
struct VmCounts {
    requests: [u64; STEPS_MAX],
    bytes: [u64; STEPS_MAX],
    /// Reads and writes by address.
    addresses: [Counts; 2],
}

impl Default for HistoryRecorder {
    fn default() -> HistoryRecorder {
        let class = || ClassCounts { outstanding: 0, responses: Counts::new(1), found: [0; FOUND_MAX + 1] };
        HistoryRecorder {
            first_arrival: None,
            interval: FIRST_INTERVAL,
            outstanding: Outstanding { now: 0, until: Nanos::ZERO, integrals: [0; STEPS_MAX], most: [0; STEPS_MAX] },
            classes: [class(), class()],
            vms: Vec::new(),
            seeks: [0; u64::BITS as usize + 1],
            columns: 0,
        }
    }
}

/// The class of a request, among reads and writes.
fn class_of(request: &Request) -> Option<usize> {
    match Class::of(request.operation) {
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
            found: class.found[..class.found.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1)].to_vec(),
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
            seeks: self.seeks[..self.seeks.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1)].to_vec(),
        }
    }

    /// The interval at this time, which is made long enough.
    fn column(&mut self, now: Timestamp) -> usize {
        let since = now.saturating_since(self.first_arrival.unwrap_or(now));
        while since.as_ns() / self.interval.as_ns() >= STEPS_MAX as u64 {
            self.fold();
        }
        let column = (since.as_ns() / self.interval.as_ns()) as usize;
        self.columns = self.columns.max(column + 1);
        self.outstanding.advance(since, self.interval);
        column
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
            vm.addresses.iter_mut().for_each(Counts::fold_columns);
        }
    }
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
        VmCounts { requests: [0; STEPS_MAX], bytes: [0; STEPS_MAX], addresses }
    }

    fn history(&self, vm: String, columns: usize) -> VmHistory {
        let [reads, writes] = [0, 1].map(|class| self.addresses[class].grid(columns));
        VmHistory {
            vm,
            requests: self.requests[..columns].to_vec(),
            bytes: self.bytes[..columns].to_vec(),
            reads,
            writes,
        }
    }
}

/// Counts by interval and row.
#[derive(Clone, Debug)]
struct Counts {
    row_size: u64,
    /// The row of the first element of a column.
    first: u64,
    /// The first and last row that count anything.
    used: Option<(u64, u64)>,
    /// All rows of the first interval, then of the next. Empty until anything is counted.
    counts: Vec<u32>,
}

impl Counts {
    fn new(row_size: u64) -> Counts {
        Counts { row_size, first: 0, used: None, counts: Vec::new() }
    }

    fn add(&mut self, column: usize, value: u64) {
        let row = value / self.row_size;
        let is_there = self.used.is_some_and(|(first, last)| (first..=last).contains(&row));
        let row = if is_there { row } else { self.make_room(value) };
        let count = &mut self.counts[column * STEPS_MAX + (row - self.first) as usize];
        *count = count.saturating_add(1);
    }

    /// Makes a column hold the row of this value, and says which row it is then.
    #[cold]
    fn make_room(&mut self, value: u64) -> u64 {
        let Some((mut low, mut high)) = self.used else {
            self.counts = vec![0; STEPS_MAX * STEPS_MAX];
            let row = value / self.row_size;
            // Rows below may follow.
            self.first = row.saturating_sub(STEPS_MAX as u64 / 2);
            self.used = Some((row, row));
            return row;
        };
        let mut row = value / self.row_size;
        while high.max(row) - low.min(row) >= STEPS_MAX as u64 {
            self.fold_rows(low);
            (low, high, row) = (low / 2, high / 2, row / 2);
        }
        (low, high) = (low.min(row), high.max(row));
        if low < self.first || high >= self.first + STEPS_MAX as u64 {
            self.shift(low.saturating_sub((STEPS_MAX as u64 - 1 - (high - low)) / 2));
        }
        self.used = Some((low, high));
        row
    }

    /// Makes each two rows one. The first row then is that of `low`.
    fn fold_rows(&mut self, low: u64) {
        let first = low / 2;
        for column in self.counts.chunks_exact_mut(STEPS_MAX) {
            let mut folded = [0_u32; STEPS_MAX];
            for (index, &count) in column.iter().enumerate().filter(|(_, count)| **count > 0) {
                let row = (self.first + index as u64) / 2 - first;
                folded[row as usize] = folded[row as usize].saturating_add(count);
            }
            column.copy_from_slice(&folded);
        }
        self.first = first;
        self.row_size *= 2;
    }

    /// Moves the rows, so that `first` is the first of them.
    fn shift(&mut self, first: u64) {
        for column in self.counts.chunks_exact_mut(STEPS_MAX) {
            let mut moved = [0; STEPS_MAX];
            for (index, &count) in column.iter().enumerate().filter(|(_, count)| **count > 0) {
                moved[(self.first + index as u64 - first) as usize] = count;
            }
            column.copy_from_slice(&moved);
        }
        self.first = first;
    }

    fn fold_columns(&mut self) {
        for column in 0..self.counts.len() / STEPS_MAX {
            for row in 0..STEPS_MAX {
                let at = |column: usize| column * STEPS_MAX + row;
                self.counts[at(column)] = match column < STEPS_MAX / 2 {
                    true => self.counts[at(2 * column)].saturating_add(self.counts[at(2 * column + 1)]),
                    false => 0,
                };
            }
        }
    }

    fn grid(&self, columns: usize) -> Grid {
        let column = |counts: &[u32]| {
            let counted = counts.iter().enumerate().filter(|(_, count)| **count > 0);
            counted.map(|(index, &count)| (self.first + index as u64, u64::from(count))).collect()
        };
        let mut columns_counted: Vec<Vec<(u64, u64)>> = self.counts.chunks_exact(STEPS_MAX).map(column).collect();
        columns_counted.resize(columns, Vec::new());
        Grid { row_size: self.row_size, columns: columns_counted }
    }
}

impl Observer for HistoryRecorder {
    fn arrived(&mut self, now: Timestamp, _id: RequestId, request: &Request) {
        self.first_arrival.get_or_insert(now);
        let column = self.column(now);
        self.outstanding.now += 1;
        self.outstanding.most[column] = self.outstanding.most[column].max(self.outstanding.now);
        if let Some(class) = class_of(request) {
            let class = &mut self.classes[class];
            class.found[class.outstanding.min(FOUND_MAX)] += 1;
            class.outstanding += 1;
        }
    }

    fn served(&mut self, served: &Served) {
        if matches!(served.request.operation, Operation::Read | Operation::Write) {
            let distance = served.seek.count();
            self.seeks[(u64::BITS - distance.leading_zeros()) as usize] += 1;
        }
    }

    fn completed(&mut self, now: Timestamp, _id: RequestId, request: &Request) {
        let column = self.column(now);
        self.outstanding.now -= 1;
        let Some(class) = class_of(request) else { return };
        let counts = &mut self.classes[class];
        counts.outstanding -= 1;
        counts.responses.add(column, response_number(now.since(request.arrival)));
        let vm = usize::from(request.vm.0).min(VMS_MAX);
        if vm >= self.vms.len() {
            self.vms.resize_with(vm + 1, VmCounts::new);
        }
        let vm = &mut self.vms[vm];
        vm.requests[column] += 1;
        vm.bytes[column] = vm.bytes[column].saturating_add(request.sectors().bytes());
        vm.addresses[class].add(column, request.lba.sector());
    }
}
