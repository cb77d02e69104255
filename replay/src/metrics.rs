//! Measures a replay: integer sums and one histogram of response times per class.

use hdrhistogram::Histogram;
use traces::{Nanos, Operation, Request, RequestId, Timestamp};

use crate::observer::{Observer, Served};

/// The classes of requests that are measured apart.
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
    fn of(operation: Operation) -> Class {
        match operation {
            Operation::Read => Class::Read,
            Operation::Write => Class::Write,
            Operation::Flush | Operation::Discard => Class::Other,
        }
    }
}

/// Count, sum, sum of squares, least and largest of spans of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    /// How many.
    pub count: u64,
    sum: u128,
    sum_of_squares: u128,
    min: Option<u64>,
    max: u64,
}

impl Spans {
    /// Counts one.
    pub fn add(&mut self, span: Nanos) {
        let ns = span.as_ns();
        self.count += 1;
        self.sum += u128::from(ns);
        self.sum_of_squares += u128::from(ns) * u128::from(ns);
        self.min = Some(self.min.map_or(ns, |min| min.min(ns)));
        self.max = self.max.max(ns);
    }

    /// Counts all that `other` has counted.
    pub fn merge(&mut self, other: &Spans) {
        self.count += other.count;
        self.sum += other.sum;
        self.sum_of_squares += other.sum_of_squares;
        self.min = [self.min, other.min].into_iter().flatten().min();
        self.max = self.max.max(other.max);
    }

    /// Their total in ns.
    pub const fn sum_ns(&self) -> u128 {
        self.sum
    }

    /// Mean and variance. The variance is taken around the whole part of the mean in integers, so
    /// that nothing cancels.
    pub fn moments(&self) -> traces::results::Moments {
        if self.count == 0 {
            return traces::results::Moments::default();
        }
        let n = u128::from(self.count);
        let whole = self.sum / n;
        let fraction = (self.sum % n) as f64 / n as f64;
        let around_whole = self.sum_of_squares + n * whole * whole - 2 * whole * self.sum;
        traces::results::Moments {
            mean_ns: Some(whole as f64 + fraction),
            variance_ns2: Some(around_whole as f64 / n as f64 - fraction * fraction),
            min_ns: self.min,
            max_ns: Some(self.max),
        }
    }
}

/// What is measured of one class.
#[derive(Clone, Debug)]
pub struct ClassMetrics {
    /// Response times of arrivals.
    pub response: Spans,
    /// Their distribution, to three significant digits.
    pub histogram: Histogram<u64>,
    /// Bytes that arrivals asked for.
    pub bytes: u64,
    /// Device times of device requests.
    pub device: Spans,
    /// From leaving the scheduler to completion, of device requests.
    pub dispatch_to_completion: Spans,
    /// Total distance of the head.
    pub seek_sectors: u128,
    /// Device requests served from the drive's cache.
    pub hits: u64,
}

/// Response times above this are still recorded, in a histogram that grows.
const HISTOGRAM_MAX_NS: u64 = 60_000_000_000;

impl Default for ClassMetrics {
    fn default() -> ClassMetrics {
        let mut histogram =
            Histogram::new_with_bounds(1, HISTOGRAM_MAX_NS, 3).expect("three digits up to a minute is a valid shape");
        histogram.auto(true);
        ClassMetrics {
            response: Spans::default(),
            histogram,
            bytes: 0,
            device: Spans::default(),
            dispatch_to_completion: Spans::default(),
            seek_sectors: 0,
            hits: 0,
        }
    }
}

impl ClassMetrics {
    /// Adds all that `other` has measured.
    pub fn merge(&mut self, other: &ClassMetrics) {
        self.response.merge(&other.response);
        self.histogram.add(&other.histogram).expect("a histogram that grows takes every other");
        self.bytes += other.bytes;
        self.device.merge(&other.device);
        self.dispatch_to_completion.merge(&other.dispatch_to_completion);
        self.seek_sectors += other.seek_sectors;
        self.hits += other.hits;
    }
}

/// The length of a queue over time.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueLength {
    length: u64,
    max: u64,
    /// Length times nanoseconds up to `since`.
    area: u128,
    /// Nanoseconds up to `since` during which it was not empty.
    busy: u64,
    since: Timestamp,
}

impl QueueLength {
    fn advance(&mut self, now: Timestamp) {
        let span = now.since(self.since).as_ns();
        self.area += u128::from(self.length) * u128::from(span);
        if self.length > 0 {
            self.busy += span;
        }
        self.since = now;
    }

    fn grow(&mut self, now: Timestamp) {
        self.advance(now);
        self.length += 1;
        self.max = self.max.max(self.length);
    }

    fn shrink(&mut self, now: Timestamp) {
        self.advance(now);
        self.length -= 1;
    }

    /// The most at any time.
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// The mean over `span` ns.
    pub fn mean(&self, span: Nanos) -> f64 {
        if span == Nanos::ZERO { 0.0 } else { self.area as f64 / span.as_ns() as f64 }
    }

    /// The share of `span` during which it was not empty.
    pub fn busy_share(&self, span: Nanos) -> f64 {
        if span == Nanos::ZERO { 0.0 } else { self.busy as f64 / span.as_ns() as f64 }
    }
}

/// Everything that is measured of a replay.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Per VM, or all in the first: reads, writes, others.
    vms: Vec<[ClassMetrics; 3]>,
    /// Whether VMs are kept apart.
    per_vm: bool,
    /// Arrivals outstanding.
    pub outstanding: QueueLength,
    /// Requests waiting in the scheduler.
    pub waiting: QueueLength,
    /// Requests at the drive.
    pub at_drive: QueueLength,
    /// Arrivals merged into a waiting request.
    pub merged: u64,
    first_arrival: Option<Timestamp>,
    last_completion: Timestamp,
}

impl Metrics {
    /// Measures everything together, or per VM.
    pub fn new(per_vm: bool) -> Metrics {
        Metrics {
            vms: vec![Default::default()],
            per_vm,
            outstanding: QueueLength::default(),
            waiting: QueueLength::default(),
            at_drive: QueueLength::default(),
            merged: 0,
            first_arrival: None,
            last_completion: Timestamp::ZERO,
        }
    }

    /// From the first arrival to the last completion.
    pub fn span(&self) -> Nanos {
        self.first_arrival.map_or(Nanos::ZERO, |first| self.last_completion.saturating_since(first))
    }

    /// One class over all VMs.
    pub fn total(&self, class: Class) -> ClassMetrics {
        let mut total = ClassMetrics::default();
        for vm in &self.vms {
            total.merge(&vm[class as usize]);
        }
        total
    }

    /// One class of one VM; `None` if VMs are not kept apart or it sent nothing.
    pub fn vm(&self, vm: usize, class: Class) -> Option<&ClassMetrics> {
        if self.per_vm { self.vms.get(vm).map(|classes| &classes[class as usize]) } else { None }
    }

    fn class(&mut self, request: &Request) -> &mut ClassMetrics {
        let vm = if self.per_vm { usize::from(request.vm.0) } else { 0 };
        if vm >= self.vms.len() {
            self.vms.resize_with(vm + 1, Default::default);
        }
        &mut self.vms[vm][Class::of(request.operation) as usize]
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
        class.bytes += request.sectors().bytes();
        class.response.add(response);
        class.histogram.saturating_record(response.as_ns());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_do_not_cancel_far_from_zero() {
        let mut spans = Spans::default();
        for ns in [10_000_000_000_001u64, 10_000_000_000_002, 10_000_000_000_006] {
            spans.add(Nanos::from_ns(ns));
        }
        let moments = spans.moments();
        assert_eq!(moments.mean_ns, Some(10_000_000_000_003.0));
        assert!((moments.variance_ns2.unwrap() - 14.0 / 3.0).abs() < 1e-9);
        assert_eq!((moments.min_ns, moments.max_ns), (Some(10_000_000_000_001), Some(10_000_000_000_006)));
    }

    #[test]
    fn a_mean_with_a_fraction_keeps_it() {
        let mut spans = Spans::default();
        for ns in [2, 1, 1] {
            spans.add(Nanos::from_ns(ns));
        }
        let moments = spans.moments();
        assert!((moments.mean_ns.unwrap() - 4.0 / 3.0).abs() < 1e-15);
        assert!((moments.variance_ns2.unwrap() - 2.0 / 9.0).abs() < 1e-15);
        assert_eq!((moments.min_ns, moments.max_ns), (Some(1), Some(2)));
    }

    #[test]
    fn merged_spans_are_those_of_one_run() {
        let (mut a, mut b, mut both) = (Spans::default(), Spans::default(), Spans::default());
        for ns in 0..100 {
            if ns % 3 == 0 { &mut a } else { &mut b }.add(Nanos::from_ns(ns * ns));
            both.add(Nanos::from_ns(ns * ns));
        }
        a.merge(&b);
        assert_eq!(a, both);
    }

    #[test]
    fn nothing_measured_has_no_mean() {
        assert_eq!(Spans::default().moments().mean_ns, None);
    }

    #[test]
    fn a_queues_mean_is_its_area_over_time() {
        let at = Timestamp::from_ns;
        let mut queue = QueueLength::default();
        queue.grow(at(0));
        queue.grow(at(10));
        queue.shrink(at(30));
        queue.shrink(at(40));
        queue.grow(at(90));
        queue.shrink(at(100));
        assert_eq!(queue.mean(Nanos::from_ns(100)), (10 + 40 + 10 + 10) as f64 / 100.0);
        assert_eq!(queue.busy_share(Nanos::from_ns(100)), 0.5);
        assert_eq!(queue.max(), 2);
    }
}
