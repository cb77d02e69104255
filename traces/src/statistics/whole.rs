//! All that is measured of a trace.

use super::depth::Depth;
use super::events::EventCounts;
use super::found::ArrivalQueue;
use super::groups::Groups;
use super::seeks::Seeks;
use super::series::Series;
use super::sizes::Sizes;
use super::stages::{Gaps, Stage, Stages};
use crate::events::{DeviceRequest, Event, Passage, Watch, action};
use crate::request::{Operation, Request, VmId};
use crate::results::SCHEMA_VERSION;
use crate::results::TraceProvenance;
use crate::results::statistics::{MergeFigures, TraceStatistics};
use crate::trace::{AddressSpace, TraceMeta};
use crate::units::{Nanos, Timestamp};

/// Measures a trace while it is read.
#[derive(Debug, Default)]
pub struct Statistics {
    /// Whether each VM has a device of its own.
    device_per_vm: bool,
    several_vms: bool,
    /// First and last time of an event.
    first_event: Option<Timestamp>,
    last_event: Timestamp,
    first_arrival: Option<Timestamp>,
    events: EventCounts,
    arrivals: Sizes,
    device_requests: Sizes,
    stages: Stages,
    gaps_at_queue: Gaps,
    gaps_at_issue: Gaps,
    outstanding: Depth,
    at_device: Depth,
    at_queue: ArrivalQueue,
    at_issue: ArrivalQueue,
    seeks_at_queue: Seeks,
    seeks_at_issue: Seeks,
    processes: Groups,
    cgroups: Groups,
    vms: Groups,
    series: Option<Series>,
}

impl Statistics {
    /// Measures a trace of which `meta` is known once its first record was read, and if `interval` is given, each
    /// interval of that length apart.
    pub fn new(meta: &TraceMeta, interval: Option<Nanos>) -> Statistics {
        let device_per_vm = meta.address_space == AddressSpace::PerVm;
        let several_vms = device_per_vm || meta.vms.len() > 1;
        let series = interval.map(Series::new);
        Statistics { device_per_vm, several_vms, series, ..Statistics::default() }
    }

    /// The intervals, if there are any.
    pub fn series(&mut self) -> Option<&mut Series> {
        self.series.as_mut()
    }

    #[inline]
    fn device(&self, vm: VmId) -> usize {
        if self.device_per_vm { usize::from(vm.0) } else { 0 }
    }

    /// First and last time of anything: in a trace without events what comes first is an arrival, and
    /// what comes last leaves a queue or joins it.
    fn span(&self) -> (Timestamp, Timestamp) {
        let first = self.first_event.or(self.first_arrival).unwrap_or_default();
        (first, self.last_event.max(self.outstanding.since()).max(self.at_device.since()))
    }

    /// The figures of a trace that was read to its end; `trace` says which it was.
    pub fn figures(&self, program: &str, trace: TraceProvenance, meta: &TraceMeta) -> TraceStatistics {
        let (first, last) = self.span();
        let span = last.saturating_since(first);
        let with_data = |sizes: &Sizes| {
            let data = Operation::ALL.into_iter().filter(|operation| *operation != Operation::Flush);
            data.map(|operation| sizes.count(operation)).sum::<u64>()
        };
        let (arrived, issued) = (with_data(&self.arrivals), with_data(&self.device_requests));
        let merges = MergeFigures {
            back: self.events.of(action::BACK_MERGE),
            front: self.events.of(action::FRONT_MERGE),
            splits: self.events.of(action::SPLIT),
            requeues: self.events.of(action::REQUEUE),
            arrivals_per_device_request: (issued > 0).then(|| arrived as f64 / issued as f64),
        };
        let named = |name: &str| name.to_owned();
        let queues = [("outstanding", &self.outstanding), ("at_device", &self.at_device)];
        let arrival_queues = [("at_queue", &self.at_queue), ("at_issue", &self.at_issue)];
        let seeks = [("at_queue", &self.seeks_at_queue), ("at_issue", &self.seeks_at_issue)];
        let gaps = [("q2q", &self.gaps_at_queue), ("d2d", &self.gaps_at_issue)];
        let process = |id: u64| u32::try_from(id).ok().and_then(|id| meta.streams.get(&id).cloned());
        let vm = |id: u64| usize::try_from(id).ok().and_then(|id| meta.vms.get(id).cloned());
        let groups = [
            ("process", self.processes.figures(process)),
            ("cgroup", self.cgroups.figures(|_| None)),
            ("vm", self.vms.figures(vm)),
        ];
        TraceStatistics {
            history: None,
            schema_version: SCHEMA_VERSION,
            program: program.to_owned(),
            trace,
            window: None,
            first_arrival_ns: self.first_arrival.map(Timestamp::as_ns),
            span_ns: span,
            events: self.events.figures(),
            arrivals: self.arrivals.figures(span),
            device_requests: self.device_requests.figures(span),
            merges,
            stages: self
                .stages
                .figures()
                .chain(gaps.into_iter().filter_map(|(name, gaps)| Some((name, gaps.figures()?))))
                .map(|(name, figures)| (named(name), figures))
                .collect(),
            queues: queues
                .into_iter()
                .filter(|(_, depth)| depth.was_used())
                .map(|(name, depth)| (named(name), depth.figures(first, last)))
                .collect(),
            arrival_queues: arrival_queues
                .into_iter()
                .filter(|(_, queue)| !queue.is_empty())
                .map(|(name, queue)| (named(name), queue.figures()))
                .collect(),
            seeks: seeks
                .into_iter()
                .filter(|(_, seeks)| !seeks.is_empty())
                .map(|(name, seeks)| (named(name), seeks.figures()))
                .collect(),
            groups: groups.into_iter().filter_map(|(name, figures)| Some((named(name), figures?))).collect(),
        }
    }
}

impl Watch for Statistics {
    #[inline]
    fn event(&mut self, now: Timestamp, event: &Event) {
        if self.first_event.is_none() {
            self.first_event = Some(now);
        }
        self.last_event = now;
        self.events.add(event);
    }

    #[inline(always)]
    fn queued(&mut self, now: Timestamp, request: &Request) {
        self.first_arrival.get_or_insert(now);
        let Request { operation, lba, vm, .. } = *request;
        self.arrivals.add(operation, request.sectors());
        self.outstanding.grow(now);
        self.at_queue.join(operation);
        self.seeks_at_queue.add(self.device(vm), operation, lba, request.sectors());
        self.gaps_at_queue.add(now, operation);
        if let Some(series) = &mut self.series {
            series.queued(now, request);
        }
    }

    #[inline(always)]
    fn issued(&mut self, request: &DeviceRequest) {
        let DeviceRequest { issued: now, operation, lba, sectors, vm, .. } = *request;
        self.device_requests.add(operation, sectors);
        self.at_device.grow(now);
        self.at_issue.join(operation);
        self.seeks_at_issue.add(self.device(vm), operation, lba, sectors);
        self.gaps_at_issue.add(now, operation);
        if let Some(series) = &mut self.series {
            series.issued(now, operation);
        }
    }

    fn taken_back(&mut self, now: Timestamp, operation: Operation) {
        self.at_device.shrink(now);
        self.at_issue.leave(operation);
        if let Some(series) = &mut self.series {
            series.taken_back(now);
        }
    }

    #[inline(always)]
    fn completed(&mut self, now: Timestamp, request: &DeviceRequest) {
        self.at_device.shrink(now);
        self.at_issue.leave(request.operation);
        self.stages.add(Stage::DeviceTime, request.operation, now.since(request.issued));
        if let Some(series) = &mut self.series {
            series.completed(now, request);
        }
    }

    #[inline(always)]
    fn finished(&mut self, now: Timestamp, request: &Request) {
        self.outstanding.shrink(now);
        self.at_queue.leave(request.operation);
        if let Some(series) = &mut self.series {
            series.finished(now, request);
        }
    }

    fn given_up(&mut self, now: Timestamp, operation: Operation) {
        self.outstanding.shrink(now);
        self.at_queue.leave(operation);
        if let Some(series) = &mut self.series {
            series.given_up(now);
        }
    }

    // Inlined always, so that a record is looked at where it lies.
    #[inline(always)]
    fn passed(&mut self, passage: &Passage) {
        self.stages.passed(passage);
        let record = &passage.record;
        if record.observed.error != 0 {
            self.arrivals.error(record.request.operation);
        }
        self.processes.add(u64::from(record.request.stream.0), record);
        if passage.cgroup != 0 {
            self.cgroups.add(passage.cgroup, record);
        }
        if self.several_vms {
            self.vms.add(u64::from(record.request.vm.0), record);
        }
    }
}
