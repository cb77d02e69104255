//! Lets a scheduler order the requests of a capture freely. The same requests arrive as they were inserted in the
//! capture ([`Pacing`]), each occupies the device as long as in the capture, and the scheduler alone decides the order.
//!
//! The device is assumed to serve one request at a time in the order of issues. So the service time of a request lasts
//! from its issue, or from the completion before if that is later, to its own completion. For a device that serves
//! several requests at once this gives the same throughput, but the requests do not overlap. The number of requests in
//! flight is limited to the maximum in the capture. As in the kernel, the next request is taken from the scheduler
//! before the device has capacity.
//!
//! Only requests that were inserted, issued and completed take part. They take part as they were issued: with the
//! requests that had been merged into them, and with the time of the first insertion. The whole capture is held in
//! memory.

use std::collections::{BTreeMap, VecDeque};

use drive_models::single_server::{Service, ServiceModel, SingleServer};
use schedulers::{AccessCost, DistanceCost, Scheduler};
use traces::events::{Event, Watch, action};
use traces::results::SCHEMA_VERSION;
use traces::results::free_run::{ClassResponses, FreeRun, OperationResponses, ProcessResponses, Responses, Throughput};
use traces::statistics::Distribution;
use traces::{Flags, Lba, Nanos, Operation, Request, RequestId, Sectors, StreamId, Timestamp};

use super::DecisionsError;
use super::arrivals::{Arrivals, Pacing};
use super::clock::Clock;
use super::known::Requests;
use crate::engine::Engine;
use crate::observer::Observer;
use crate::stage::{Limits, Stage};

/// A request of the capture that completed.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordedRequest {
    /// As it was issued; its arrival is the insertion.
    pub(super) request: Request,
    pub(super) completed: Timestamp,
    /// The service time.
    service: Nanos,
}

/// The requests of a capture with their service times, to run a scheduler on them.
#[derive(Debug, Default)]
pub struct RecordedRun {
    requests: Requests,
    clock: Clock,
    /// The request and the time of its last issue, by the number of its insertion, until it completes.
    issued: BTreeMap<u64, (Request, Timestamp)>,
    recorded: Vec<RecordedRequest>,
    issues: u64,
    joined: u64,
    depth: usize,
    last_completion: Timestamp,
    end: u64,
}

impl Watch for RecordedRun {
    fn event(&mut self, since_first: Timestamp, event: &Event) {
        let now = self.clock.at(since_first, event);
        if event.bytes == 0 {
            return;
        }
        self.end = self.end.max(event.end());
        match event.code() {
            action::GET_REQUEST => self.requests.allocate(event),
            action::INSERT => {
                let again = self.requests.insert_again(event);
                again.unwrap_or_else(|| self.requests.insert(now, event));
            }
            action::BACK_MERGE | action::FRONT_MERGE => {
                let merged = self.requests.merge(event, event.code() == action::BACK_MERGE);
                self.joined += u64::from(merged.is_some_and(|(_, joined)| joined.is_some()));
            }
            action::ISSUE => self.issue(now, event),
            action::REQUEUE => {
                if let Some(id) = self.requests.take_back(event) {
                    self.issued.remove(&self.requests.known(id).number);
                }
            }
            action::COMPLETE => self.complete(now, event),
            _ => {}
        }
    }
}

impl RecordedRun {
    fn issue(&mut self, now: Timestamp, event: &Event) {
        let Some(id) = self.requests.find_to_issue(event) else { return };
        self.requests.issue(id);
        self.issues += 1;
        let known = self.requests.known(id);
        let mut request = known.request;
        request.arrival = known.inserted;
        self.issued.insert(known.number, (request, now));
        self.depth = self.depth.max(self.issued.len());
    }

    fn complete(&mut self, now: Timestamp, event: &Event) {
        let Some((_, known)) = self.requests.complete(event) else { return };
        let Some((request, issued)) = self.issued.remove(&known.number) else { return };
        let service = now.saturating_since(issued.max(self.last_completion));
        self.last_completion = self.last_completion.max(now);
        self.recorded.push(RecordedRequest { request: as_one(request), completed: now, service });
    }

    /// Runs the scheduler on the requests and compares the result with the capture. `name` is its specification on the
    /// command line.
    ///
    /// # Errors
    /// The capture holds no request to run on, with the reason.
    pub fn run(
        mut self,
        name: impl Into<String>,
        scheduler: Box<dyn Scheduler>,
        pacing: Pacing,
    ) -> Result<FreeRun, DecisionsError> {
        if self.requests.next_number() == 0 {
            return Err(DecisionsError::NoInsertions);
        }
        if self.issues == 0 {
            return Err(DecisionsError::NoIssues);
        }
        if self.recorded.is_empty() {
            return Err(DecisionsError::NoCompletions);
        }
        // Requests that arrived together keep the order of their completions.
        self.recorded.sort_by_key(|recorded| recorded.request.arrival);
        let recorded = self.recorded;
        let mut kernel = Measured::default();
        for RecordedRequest { request, completed, .. } in &recorded {
            kernel.completed(*completed, RequestId(0), request);
        }
        let depth = u32::try_from(self.depth).unwrap_or(u32::MAX);
        let limits =
            Limits { depth, look_ahead: true, merge: false, max_sectors: Request::SECTORS_MAX, ..Limits::default() };
        let device = Device::new(&recorded, Sectors::new(self.end));
        let source = Arrivals::new(&recorded, pacing);
        let engine = Engine::new(source, Stage::new(scheduler, limits), SingleServer::new(device), Measured::default())
            .max_outstanding(usize::MAX);
        let ended = engine.run().expect("arrivals from memory have no errors");
        let unfinished = self.requests.next_number() - self.joined - recorded.len() as u64;
        Ok(compare(name.into(), depth, unfinished, &kernel, &ended.observer))
    }
}

/// The request without the flags that would split it into a sequence with flushes.
fn as_one(mut request: Request) -> Request {
    let is_sync = request.is_sync();
    request.flags.remove(Flags::FUA | Flags::PREFLUSH);
    if is_sync && request.operation != Operation::Read {
        request.flags |= Flags::SYNC;
    }
    request
}

/// The recorded service times. Equal requests of one process are interchangeable.
struct Device {
    services: BTreeMap<(StreamId, Operation, Lba, Sectors), VecDeque<Nanos>>,
    position: DistanceCost,
}

impl Device {
    fn new(recorded: &[RecordedRequest], capacity: Sectors) -> Device {
        let mut services: BTreeMap<_, VecDeque<Nanos>> = BTreeMap::new();
        for RecordedRequest { request, service, .. } in recorded {
            services.entry(Device::key(request)).or_default().push_back(*service);
        }
        Device { services, position: DistanceCost { position: Lba::ZERO, capacity } }
    }

    fn key(request: &Request) -> (StreamId, Operation, Lba, Sectors) {
        (request.stream, request.operation, request.lba, request.sectors())
    }
}

impl AccessCost for Device {
    fn position(&self) -> Lba {
        self.position.position
    }

    fn capacity(&self) -> Sectors {
        self.position.capacity
    }

    fn between(&self, from: Lba, to: Lba, sectors: Sectors) -> Nanos {
        self.position.between(from, to, sectors)
    }
}

impl ServiceModel for Device {
    fn serve(&mut self, _started: Timestamp, request: &Request) -> Service {
        let seek = self.position.position.distance(request.lba);
        self.position.position = request.end();
        let same = self.services.get_mut(&Device::key(request)).expect("what arrives was recorded");
        let time = same.pop_front().expect("and as often");
        Service { time, seek, hit: false }
    }

    fn discards(&self) -> bool {
        true
    }
}

/// The response times of a run.
#[derive(Default)]
struct Measured {
    first_arrival: Option<Timestamp>,
    last_completion: Timestamp,
    bytes: u64,
    all: Distribution,
    processes: BTreeMap<StreamId, Distribution>,
    classes: BTreeMap<u8, Distribution>,
    operations: BTreeMap<Operation, Distribution>,
}

impl Observer for Measured {
    fn completed(&mut self, now: Timestamp, _id: RequestId, request: &Request) {
        let response = now.saturating_since(request.arrival);
        let first = self.first_arrival.get_or_insert(request.arrival);
        *first = request.arrival.min(*first);
        self.last_completion = self.last_completion.max(now);
        self.bytes = self.bytes.saturating_add(request.sectors().bytes());
        self.all.add(response);
        self.processes.entry(request.stream).or_default().add(response);
        self.classes.entry(request.priority.class()).or_default().add(response);
        self.operations.entry(request.operation).or_default().add(response);
    }
}

impl Measured {
    fn span(&self) -> Nanos {
        self.last_completion.saturating_since(self.first_arrival.unwrap_or_default())
    }

    fn bytes_per_s(&self) -> f64 {
        let seconds = self.span().as_s_f64();
        if seconds > 0.0 { self.bytes as f64 / seconds } else { 0.0 }
    }
}

fn ratio(ours: f64, kernel: f64) -> Option<f64> {
    (kernel > 0.0).then(|| ours / kernel)
}

fn responses(kernel: &Distribution, ours: &Distribution) -> Responses {
    let percentile = |hundredths| {
        let (ours, kernel) = (ours.percentile_ns(hundredths)?, kernel.percentile_ns(hundredths)?);
        ratio(ours as f64, kernel as f64)
    };
    let mean = |distribution: &Distribution| distribution.moments().mean_ns;
    Responses {
        mean_ratio: mean(ours).zip(mean(kernel)).and_then(|(ours, kernel)| ratio(ours, kernel)),
        p50_ratio: percentile(5_000),
        p99_ratio: percentile(9_900),
        kernel: kernel.figures(),
        ours: ours.figures(),
    }
}

/// The same requests complete in both, so both have the same keys.
fn each<'a, K: Ord + Copy, R>(
    kernel: &'a BTreeMap<K, Distribution>,
    ours: &'a BTreeMap<K, Distribution>,
    row: impl Fn(K, Responses) -> R,
) -> Vec<R> {
    kernel.iter().zip(ours.values()).map(|((&key, kernel), ours)| row(key, responses(kernel, ours))).collect()
}

fn compare(scheduler: String, depth: u32, unfinished: u64, kernel: &Measured, ours: &Measured) -> FreeRun {
    let (kernel_bytes_per_s, ours_bytes_per_s) = (kernel.bytes_per_s(), ours.bytes_per_s());
    FreeRun {
        schema_version: SCHEMA_VERSION,
        scheduler,
        requests: kernel.all.count(),
        unfinished,
        depth,
        throughput: Throughput {
            kernel_span_ns: kernel.span(),
            ours_span_ns: ours.span(),
            kernel_bytes_per_s,
            ours_bytes_per_s,
            ratio: ratio(ours_bytes_per_s, kernel_bytes_per_s),
        },
        all: responses(&kernel.all, &ours.all),
        processes: each(&kernel.processes, &ours.processes, |process, responses| ProcessResponses {
            process,
            responses,
        }),
        classes: each(&kernel.classes, &ours.classes, |class, responses| ClassResponses { class, responses }),
        operations: each(&kernel.operations, &ours.operations, |operation, responses| OperationResponses {
            operation,
            responses,
        }),
    }
}
