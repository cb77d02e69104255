//! Measures the isolation profile of a VM from its isolated trace, in one pass and in bounded memory.
//!
//! `traces::statistics` measures response times, queues and rates. This module adds service times, batches and
//! dispersion (`arrivals`), the autocorrelation of response times (`responses`), the streams (`streams`) and the
//! footprint (`footprint`). Service times assume a device that serves one request at a time. All added figures but
//! think times leave out flushes and discards.

mod arrivals;
mod footprint;
mod responses;
mod streams;

use traces::events::{DeviceRequest, Passage, Watch};
use traces::results::isolation::{IsolatedOperation, IsolationProfile};
use traces::results::statistics::{SpanFigures, StageFigures, TraceStatistics};
use traces::results::{SCHEMA_VERSION, TraceProvenance};
use traces::statistics::{Spans, Statistics, Timeline};
use traces::{Lba, Operation, Record, Request, Sectors, Timestamp, TraceMeta};

use self::arrivals::Arrivals;
use self::footprint::Pieces;
pub(crate) use self::footprint::is_possible;
pub use self::footprint::overlap;
use self::responses::Responses;
use self::streams::Streams;

/// Measures the isolation profile of a VM while its records are read in order of arrival.
pub struct Measure {
    statistics: Statistics,
    timeline: Timeline,
    device: Device,
    streams: Streams,
}

impl Measure {
    /// Begins the measurement of a trace with the description `meta`, as known after its first record.
    pub fn new(meta: &TraceMeta) -> Measure {
        Measure {
            statistics: Statistics::new(meta, None),
            timeline: Timeline::default(),
            device: Device::default(),
            streams: Streams::default(),
        }
    }

    /// Sets the place of the VM's disk: the device's sector that holds its sector 0.
    #[must_use]
    pub fn placed(mut self, place: Sectors) -> Measure {
        self.device.place = place;
        self
    }

    /// Adds the next record. A record without an issue time counts as issued on arrival.
    pub fn record(&mut self, record: &Record) {
        let mut record = *record;
        record.observed.issued = record.observed.issued.or(Some(record.request.arrival));
        self.streams.add(&record);
        let mut watch = Both { statistics: &mut self.statistics, device: &mut self.device };
        self.timeline.record(&record, &mut watch);
    }

    /// Ends the measurement. Returns the profile of the VM `vm`, and the number of records that were left out because
    /// too many requests were outstanding.
    pub fn finish(
        mut self,
        vm: &str,
        program: &str,
        trace: TraceProvenance,
        meta: &TraceMeta,
    ) -> (IsolationProfile, u64) {
        let mut watch = Both { statistics: &mut self.statistics, device: &mut self.device };
        let left_out = self.timeline.finish(&mut watch);
        let statistics = self.statistics.figures(program, trace, meta);
        let Device { first, last, pieces, kinds, .. } = self.device;
        let span_ns = last.saturating_since(first.unwrap_or(last));
        let [reads, writes] = kinds;
        let device_time = statistics.stages.get("device_time");
        let seconds = span_ns.as_ns() as f64 / 1e9;
        let operation = |kind: Kind, of: Operation| kind.figures(of, device_time, &statistics, seconds);
        let profile = IsolationProfile {
            schema_version: SCHEMA_VERSION,
            program: program.to_owned(),
            vm: vm.to_owned(),
            span_ns,
            busy_share: statistics.queues.get("at_device").map(|queue| queue.busy_share),
            reads: operation(reads, Operation::Read),
            writes: operation(writes, Operation::Write),
            streams: self.streams.figures(meta),
            footprint: pieces.figures(),
            trace: Some(statistics.trace),
        };
        (profile, left_out)
    }
}

/// Passes the same requests to the statistics and to the figures of this module.
struct Both<'a> {
    statistics: &'a mut Statistics,
    device: &'a mut Device,
}

impl Watch for Both<'_> {
    fn queued(&mut self, now: Timestamp, request: &Request) {
        self.statistics.queued(now, request);
    }

    fn issued(&mut self, request: &DeviceRequest) {
        self.statistics.issued(request);
        self.device.issued(request);
    }

    fn completed(&mut self, now: Timestamp, request: &DeviceRequest) {
        self.statistics.completed(now, request);
        self.device.completed(now, request);
    }

    fn finished(&mut self, now: Timestamp, request: &Request) {
        self.statistics.finished(now, request);
    }

    fn given_up(&mut self, now: Timestamp, operation: Operation) {
        self.statistics.given_up(now, operation);
    }

    fn passed(&mut self, passage: &Passage) {
        self.statistics.passed(passage);
    }
}

/// The measurement of one operation at the device.
#[derive(Default)]
struct Kind {
    service: Spans,
    arrivals: Arrivals,
    responses: Responses,
}

/// The measurement of the device requests.
#[derive(Default)]
struct Device {
    /// The first issue.
    first: Option<Timestamp>,
    /// The last completion so far.
    last: Timestamp,
    kinds: [Kind; Operation::MOVING_DATA],
    /// The operation of the last issued request.
    before: Option<usize>,
    /// The device's sector that holds the VM's sector 0.
    place: Sectors,
    pieces: Pieces,
}

impl Device {
    fn issued(&mut self, request: &DeviceRequest) {
        let kind = request.operation as usize;
        if kind >= Operation::MOVING_DATA {
            return;
        }
        let first = *self.first.get_or_insert(request.issued);
        let follows = self.before == Some(kind);
        self.kinds[kind].arrivals.add(request.issued.saturating_since(first), follows);
        self.before = Some(kind);
        let at = Lba::new(request.lba.sector().saturating_add(self.place.count()));
        self.pieces.touch(at, request.sectors);
    }

    fn completed(&mut self, now: Timestamp, request: &DeviceRequest) {
        if let Some(kind) = self.kinds.get_mut(request.operation as usize) {
            kind.service.add(now.saturating_since(request.issued.max(self.last)));
            kind.responses.add(now.saturating_since(request.issued));
            self.last = now;
        }
    }
}

impl Kind {
    fn figures(
        self,
        operation: Operation,
        device_time: Option<&StageFigures>,
        statistics: &TraceStatistics,
        seconds: f64,
    ) -> IsolatedOperation {
        let is_read = operation == Operation::Read;
        let none = SpanFigures::default();
        let response = device_time.map_or(&none, |times| if is_read { &times.read } else { &times.write });
        if response.count == 0 {
            return IsolatedOperation::default();
        }
        let found = statistics.arrival_queues.get("at_issue");
        let found = found.map(|queue| if is_read { &queue.seen_by_reads } else { &queue.seen_by_writes });
        let service = self.service.moments();
        let (batches, dispersion) = self.arrivals.figures();
        IsolatedOperation {
            requests: response.count,
            // A single request has no time span to divide by.
            iops: if seconds > 0.0 { response.count as f64 / seconds } else { 0.0 },
            mean_bytes: statistics.device_requests.get(operation.name()).and_then(|requests| requests.mean_bytes),
            response_ns: response.moments.mean_ns,
            response_variance_ns2: response.moments.variance_ns2,
            response_percentiles_ns: response.percentiles_ns.clone(),
            service_ns: service.mean_ns,
            service_square_ns2: service
                .mean_ns
                .zip(service.variance_ns2)
                .map(|(mean, variance)| mean * mean + variance),
            found_total: found.and_then(|found| found.total_mean),
            found_reads: found.and_then(|found| found.reads_mean),
            found_writes: found.and_then(|found| found.writes_mean),
            found_joint: found.map(|found| found.joint.clone()).unwrap_or_default(),
            batches: Some(batches),
            dispersion,
            response_autocorrelation: self.responses.autocorrelation(),
        }
    }
}
