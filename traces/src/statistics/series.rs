//! What happened in each interval of a trace, and its Parquet file.

use std::collections::VecDeque;
use std::path::Path;

use super::spans::Spans;
use crate::error::WriteError;
use crate::events::DeviceRequest;
use crate::formats::parquet::TableWriter;
use crate::request::{Operation, Request};
use crate::units::{Nanos, Timestamp};

/// One interval. Counts are of arrivals, but for the requests at the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Its beginning.
    pub start: Timestamp,
    /// Reads that arrived.
    pub reads_queued: u64,
    /// Writes that arrived.
    pub writes_queued: u64,
    /// Flushes and discards that arrived.
    pub others_queued: u64,
    /// Bytes that arriving reads asked for.
    pub read_bytes: u64,
    /// Bytes that arriving writes asked for.
    pub write_bytes: u64,
    /// Reads issued to the device.
    pub reads_issued: u64,
    /// Writes issued to the device.
    pub writes_issued: u64,
    /// Response times of reads that completed in it.
    pub read_response: Spans,
    /// Response times of writes that completed in it.
    pub write_response: Spans,
    /// Device times of reads and writes that completed in it.
    pub device_time: Spans,
    /// Arrivals outstanding times ns.
    pub outstanding_area: u128,
    /// Requests at the device times ns.
    pub at_device_area: u128,
    /// Most arrivals outstanding.
    pub outstanding_max: u64,
    /// Most requests at the device.
    pub at_device_max: u64,
}

/// Collects intervals in the order of time. Those in which nothing happened are left out.
#[derive(Debug)]
pub struct Series {
    length: Nanos,
    current: Option<Interval>,
    end: Timestamp,
    /// Until when the areas are counted.
    since: Timestamp,
    outstanding: u64,
    at_device: u64,
    closed: VecDeque<Interval>,
}

impl Series {
    /// Of intervals of that length.
    ///
    /// # Panics
    /// If the length is zero.
    pub fn new(length: Nanos) -> Series {
        assert!(length > Nanos::ZERO, "an interval has a length");
        let (end, since) = (Timestamp::ZERO, Timestamp::ZERO);
        Series { length, current: None, end, since, outstanding: 0, at_device: 0, closed: VecDeque::new() }
    }

    /// The next interval that is complete; to be taken regularly, so that they do not pile up.
    pub fn next_closed(&mut self) -> Option<Interval> {
        self.closed.pop_front()
    }

    /// The last interval; counted to its end, with what is then outstanding.
    pub fn finish(&mut self) {
        self.close();
    }

    fn close(&mut self) {
        if let Some(mut interval) = self.current.take() {
            let rest = u128::from(self.end.saturating_since(self.since).as_ns());
            interval.outstanding_area += rest * u128::from(self.outstanding);
            interval.at_device_area += rest * u128::from(self.at_device);
            self.closed.push_back(interval);
        }
    }

    #[inline]
    fn at(&mut self, now: Timestamp) -> &mut Interval {
        if self.current.is_none() || now >= self.end {
            self.close();
            let start = Timestamp::from_ns(now.as_ns() - now.as_ns() % self.length.as_ns());
            self.end = start.saturating_add(self.length);
            self.since = start;
            let (outstanding_max, at_device_max) = (self.outstanding, self.at_device);
            self.current = Some(Interval { start, outstanding_max, at_device_max, ..Interval::default() });
        }
        let span = u128::from(now.since(self.since).as_ns());
        self.since = now;
        let (outstanding, at_device) = (self.outstanding, self.at_device);
        let interval = self.current.get_or_insert_default();
        interval.outstanding_area += span * u128::from(outstanding);
        interval.at_device_area += span * u128::from(at_device);
        interval
    }

    pub(super) fn queued(&mut self, now: Timestamp, request: &Request) {
        self.at(now);
        self.outstanding += 1;
        let outstanding = self.outstanding;
        let interval = self.current.get_or_insert_default();
        interval.outstanding_max = interval.outstanding_max.max(outstanding);
        match request.operation {
            Operation::Read => {
                interval.reads_queued += 1;
                interval.read_bytes = interval.read_bytes.saturating_add(request.sectors().bytes());
            }
            Operation::Write => {
                interval.writes_queued += 1;
                interval.write_bytes = interval.write_bytes.saturating_add(request.sectors().bytes());
            }
            Operation::Flush | Operation::Discard => interval.others_queued += 1,
        }
    }

    pub(super) fn issued(&mut self, now: Timestamp, operation: Operation) {
        self.at(now);
        self.at_device += 1;
        let at_device = self.at_device;
        let interval = self.current.get_or_insert_default();
        interval.at_device_max = interval.at_device_max.max(at_device);
        match operation {
            Operation::Read => interval.reads_issued += 1,
            Operation::Write => interval.writes_issued += 1,
            Operation::Flush | Operation::Discard => {}
        }
    }

    pub(super) fn taken_back(&mut self, now: Timestamp) {
        self.at(now);
        self.at_device -= 1;
    }

    pub(super) fn completed(&mut self, now: Timestamp, request: &DeviceRequest) {
        let interval = self.at(now);
        if request.operation.moves_data() {
            interval.device_time.add(now.since(request.issued));
        }
        self.at_device -= 1;
    }

    pub(super) fn finished(&mut self, now: Timestamp, request: &Request) {
        let interval = self.at(now);
        let response = now.since(request.arrival);
        match request.operation {
            Operation::Read => interval.read_response.add(response),
            Operation::Write => interval.write_response.add(response),
            Operation::Flush | Operation::Discard => {}
        }
        self.outstanding -= 1;
    }

    pub(super) fn given_up(&mut self, now: Timestamp) {
        self.at(now);
        self.outstanding -= 1;
    }
}

/// Writes intervals as Parquet, one row each.
pub struct SeriesWriter {
    table: TableWriter,
    length: Nanos,
}

const COLUMNS: [&str; 22] = [
    "start_ns",
    "length_ns",
    "reads_queued",
    "writes_queued",
    "others_queued",
    "read_bytes",
    "write_bytes",
    "reads_issued",
    "writes_issued",
    "reads_completed",
    "writes_completed",
    "requests_completed_at_device",
    "read_response_sum_ns",
    "read_response_max_ns",
    "write_response_sum_ns",
    "write_response_max_ns",
    "device_time_sum_ns",
    "device_time_max_ns",
    "outstanding_mean_milli",
    "outstanding_max",
    "at_device_mean_milli",
    "at_device_max",
];

impl SeriesWriter {
    /// Begins a file that will be `path`, for intervals of that length.
    ///
    /// # Errors
    /// The file system's.
    pub fn create(path: &Path, length: Nanos) -> Result<SeriesWriter, WriteError> {
        Ok(SeriesWriter { table: TableWriter::create(path, "interval", &COLUMNS)?, length })
    }

    /// Adds an interval.
    ///
    /// # Errors
    /// The file system's.
    pub fn write(&mut self, interval: &Interval) -> Result<(), WriteError> {
        let length = u128::from(self.length.as_ns());
        let milli = |area: u128| u64::try_from(area * 1_000 / length).unwrap_or(u64::MAX);
        let sum = |spans: &Spans| u64::try_from(spans.sum_ns()).unwrap_or(u64::MAX);
        let max = |spans: &Spans| spans.moments().max_ns.unwrap_or(0);
        let Interval { read_response, write_response, device_time, .. } = interval;
        self.table.row(&[
            interval.start.as_ns(),
            self.length.as_ns(),
            interval.reads_queued,
            interval.writes_queued,
            interval.others_queued,
            interval.read_bytes,
            interval.write_bytes,
            interval.reads_issued,
            interval.writes_issued,
            read_response.count,
            write_response.count,
            device_time.count,
            sum(read_response),
            max(read_response),
            sum(write_response),
            max(write_response),
            sum(device_time),
            max(device_time),
            milli(interval.outstanding_area),
            interval.outstanding_max,
            milli(interval.at_device_area),
            interval.at_device_max,
        ])
    }

    /// Completes the file.
    ///
    /// # Errors
    /// The file system's.
    pub fn finish(self) -> Result<(), WriteError> {
        self.table.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Lba, Sectors};

    #[test]
    fn requests_count_in_an_interval_for_the_time_that_they_are_outstanding_and_at_the_device() {
        let at = |ms: u64| Timestamp::ZERO + Nanos::from_ms(ms);
        let mut series = Series::new(Nanos::from_ms(10));
        let requests = [2, 3].map(|ms| Request::new(at(ms), Operation::Read, Lba::ZERO, Sectors::new(8)));
        series.queued(at(2), &requests[0]);
        series.queued(at(3), &requests[1]);
        series.issued(at(4), Operation::Read);
        series.issued(at(7), Operation::Read);
        series.taken_back(at(9));
        series.finished(at(14), &requests[0]);
        series.given_up(at(16));
        series.finish();
        let intervals = std::iter::from_fn(|| series.next_closed());
        let ms = |area: u128| area / 1_000_000;
        let areas: Vec<_> =
            intervals.map(|interval| (ms(interval.outstanding_area), ms(interval.at_device_area))).collect();
        // Outstanding from 2 to 14 and from 3 to 16; at the device from 4 on and from 7 to 9.
        assert_eq!(areas, [(8 + 7, 6 + 2), (4 + 6, 10)]);
    }
}
