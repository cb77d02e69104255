//! Merges the traces of one replay, one per VM, into a single sequence of records in order of arrival. The records have
//! addresses on the drive and times on a clock that starts at zero.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use traces::statistics::Distribution;
use traces::trace::Extent;
use traces::{Lba, Losses, Nanos, ReadError, Record, Sectors, Timestamp, TraceMeta, TraceReader, VmId};

use super::AddressMap;
use crate::metrics::Class;
use crate::source::ReplayError;

/// The part of each trace that is replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeWindow {
    /// The window begins this long after the first arrival of the trace.
    pub from: Nanos,
    /// The window ends this long after the first arrival of the trace; the end is not included.
    pub to: Option<Nanos>,
    /// The most requests over all traces.
    pub limit: Option<u64>,
}

/// One VM's trace and its place on the drive.
pub struct VmTrace {
    /// The VM's name.
    pub name: String,
    /// The path of the file, for messages.
    pub path: PathBuf,
    /// The opened trace.
    pub reader: Box<dyn TraceReader>,
    /// The mapping of its addresses to the drive.
    pub map: AddressMap,
}

/// The counts of one trace.
#[derive(Clone, Debug)]
pub struct TraceRead {
    /// The VM's name.
    pub name: String,
    /// The trace's metadata.
    pub meta: TraceMeta,
    /// Events and records that the reader could not use.
    pub losses: Losses,
    /// The number of requests replayed.
    pub requests: u64,
}

struct Lane {
    trace: VmTrace,
    /// The next record, with its time and address converted.
    head: Option<Record>,
    cursor: Cursor,
    read: u64,
    replayed: u64,
}

/// Determines which arrivals of one trace lie within a window.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    first_arrival: Option<Timestamp>,
}

/// The position of an arrival relative to a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Before the window.
    Before,
    /// Within the window, which begins at this time.
    Within(Timestamp),
    /// After the window, as are all further arrivals.
    After,
}

impl Cursor {
    /// The position of the next arrival of the trace. The first arrival of the trace sets the zero of the window.
    pub fn position(&mut self, arrival: Timestamp, window: TimeWindow) -> Position {
        let first = *self.first_arrival.get_or_insert(arrival);
        let since_first = arrival.saturating_since(first);
        if since_first < window.from {
            Position::Before
        } else if window.to.is_some_and(|to| since_first >= to) {
            Position::After
        } else {
            Position::Within(first.saturating_add(window.from))
        }
    }
}

/// Calls `each` with every record of a trace that lies within a window, and with the reader as it then is.
///
/// # Errors
/// The error of the trace, and the first of `each`.
pub fn each_within<E: From<ReadError>>(
    reader: &mut dyn TraceReader,
    window: TimeWindow,
    mut each: impl FnMut(&Record, &dyn TraceReader) -> Result<(), E>,
) -> Result<(), E> {
    let mut cursor = Cursor::default();
    let mut taken = 0;
    while window.limit.is_none_or(|limit| taken < limit) {
        let Some(record) = reader.next()? else { break };
        match cursor.position(record.request.arrival, window) {
            Position::Before => continue,
            Position::Within(_) => {}
            Position::After => break,
        }
        taken += 1;
        each(&record, reader)?;
    }
    Ok(())
}

/// Reads a trace and returns the times and addresses that a replay of its `window` will use.
///
/// # Errors
/// The error of the trace.
pub fn extent(reader: &mut dyn TraceReader, window: TimeWindow) -> Result<Extent, ReadError> {
    let mut extent: Option<Extent> = None;
    each_within(reader, window, |Record { request, .. }, _| {
        let extent = extent.get_or_insert(Extent {
            first_arrival: request.arrival,
            last_arrival: request.arrival,
            lba_min: Lba::new(u64::MAX),
            lba_end: Lba::ZERO,
            records: 0,
        });
        extent.last_arrival = request.arrival;
        extent.records += 1;
        if request.sectors() > Sectors::ZERO {
            extent.lba_min = extent.lba_min.min(request.lba);
            extent.lba_end = extent.lba_end.max(request.end());
        }
        Ok::<(), ReadError>(())
    })?;
    let nothing = Extent {
        first_arrival: Timestamp::ZERO,
        last_arrival: Timestamp::ZERO,
        lba_min: Lba::ZERO,
        lba_end: Lba::ZERO,
        records: 0,
    };
    let extent = extent.unwrap_or(nothing);
    Ok(Extent { lba_min: extent.lba_min.min(extent.lba_end), ..extent })
}

/// The response times that traces record, by class.
#[derive(Clone, Debug, Default)]
pub struct RecordedResponses([Distribution; 3]);

impl RecordedResponses {
    /// Those of one class.
    pub fn of(&self, class: Class) -> &Distribution {
        &self.0[class as usize]
    }

    fn add(&mut self, record: &Record) {
        if let Some(response) = record.response_time() {
            self.0[Class::of(record.request.operation) as usize].add(response);
        }
    }
}

/// Several traces merged by arrival. Of equal arrivals, the one of the VM given first comes first.
pub struct MergedTraces {
    lanes: Vec<Lane>,
    window: TimeWindow,
    capacity: Sectors,
    emitted: u64,
    started: bool,
    /// VMs whose last record was taken, until [`MergedTraces::ended_vm`] gives them.
    ended: Vec<VmId>,
    progress: Arc<AtomicU64>,
    recorded: Option<Box<RecordedResponses>>,
}

/// The number of records between two updates of the progress counter.
const PROGRESS_EVERY: u64 = 4096;

impl MergedTraces {
    /// The `traces` of VMs on a drive of `capacity`.
    pub fn new(traces: Vec<VmTrace>, window: TimeWindow, capacity: Sectors) -> MergedTraces {
        let lanes = traces
            .into_iter()
            .map(|trace| Lane { trace, head: None, cursor: Cursor::default(), read: 0, replayed: 0 })
            .collect();
        MergedTraces {
            lanes,
            window,
            capacity,
            emitted: 0,
            started: false,
            ended: Vec::new(),
            progress: Arc::default(),
            recorded: None,
        }
    }

    /// Stores the bytes read of all traces in `progress`, for a progress bar.
    #[must_use]
    pub fn with_progress(mut self, progress: Arc<AtomicU64>) -> MergedTraces {
        self.progress = progress;
        self
    }

    /// Counts the window and the times of every trace from `zero`, and not from its own first arrival.
    #[must_use]
    pub fn on_clock_from(mut self, zero: Timestamp) -> MergedTraces {
        self.lanes.iter_mut().for_each(|lane| lane.cursor.first_arrival = Some(zero));
        self
    }

    /// Measures the response times that the traces record.
    #[must_use]
    pub fn with_recorded_responses(mut self) -> MergedTraces {
        self.recorded = Some(Box::default());
        self
    }

    /// The response times of the records taken, if they are measured.
    pub fn recorded_responses(&self) -> Option<&RecordedResponses> {
        self.recorded.as_deref()
    }

    /// The next record, without taking it.
    pub(crate) fn peek(&mut self) -> Result<Option<&Record>, ReplayError> {
        let lane = self.next_lane()?;
        Ok(lane.and_then(|index| self.lanes[index].head.as_ref()))
    }

    /// The next record.
    ///
    /// # Errors
    /// The error of a trace, or a request beyond the drive.
    pub fn take(&mut self) -> Result<Option<Record>, ReplayError> {
        let Some(index) = self.next_lane()? else { return Ok(None) };
        let lane = &mut self.lanes[index];
        let record = lane.head.take();
        if let (Some(recorded), Some(record)) = (&mut self.recorded, &record) {
            recorded.add(record);
        }
        lane.replayed += 1;
        self.emitted += 1;
        if self.is_at_limit() {
            let going = self.lanes.iter().enumerate().filter(|(other, lane)| *other == index || lane.head.is_some());
            self.ended.extend(going.map(|(lane, _)| VmId(lane as u16)));
        } else {
            self.refill(index)?;
            if self.lanes[index].head.is_none() {
                self.ended.push(VmId(index as u16));
            }
        }
        if self.emitted.is_multiple_of(PROGRESS_EVERY) {
            let bytes = self.lanes.iter().map(|lane| lane.trace.reader.position_bytes()).sum();
            self.progress.store(bytes, Ordering::Relaxed);
        }
        Ok(record)
    }

    /// A VM of which no record is left; each is given once, in the order in which they ended.
    pub(crate) fn ended_vm(&mut self) -> Option<VmId> {
        (!self.ended.is_empty()).then(|| self.ended.remove(0))
    }

    /// The counts of each trace.
    pub fn read(&self) -> Vec<TraceRead> {
        let report = |lane: &Lane| TraceRead {
            name: lane.trace.name.clone(),
            meta: lane.trace.reader.meta().clone(),
            losses: lane.trace.reader.losses().clone(),
            requests: lane.replayed,
        };
        self.lanes.iter().map(report).collect()
    }

    /// The path of the trace of a VM, for messages.
    pub(crate) fn path_of(&self, vm: VmId) -> PathBuf {
        self.lanes[usize::from(vm.0)].trace.path.clone()
    }

    fn next_lane(&mut self) -> Result<Option<usize>, ReplayError> {
        if self.is_at_limit() {
            return Ok(None);
        }
        if !self.started {
            self.started = true;
            for index in 0..self.lanes.len() {
                self.refill(index)?;
            }
        }
        let arrival = |lane: &Lane| lane.head.as_ref().map(|record| record.request.arrival);
        let lanes = self.lanes.iter().enumerate();
        Ok(lanes.filter_map(|(index, lane)| Some((arrival(lane)?, index))).min().map(|(_, index)| index))
    }

    fn is_at_limit(&self) -> bool {
        self.window.limit.is_some_and(|limit| self.emitted >= limit)
    }

    /// Reads the next record of the lane within the window.
    fn refill(&mut self, index: usize) -> Result<(), ReplayError> {
        let lane = &mut self.lanes[index];
        while let Some(record) = lane.trace.reader.next()? {
            lane.read += 1;
            let zero = match lane.cursor.position(record.request.arrival, self.window) {
                Position::Before => continue,
                Position::Within(zero) => zero,
                Position::After => return Ok(()),
            };
            lane.head = Some(placed(lane, index, rebased(record, zero), self.capacity)?);
            return Ok(());
        }
        Ok(())
    }
}

/// The record with times relative to `zero`.
fn rebased(mut record: Record, zero: Timestamp) -> Record {
    let Record { request, observed } = &mut record;
    let times = [&mut observed.inserted, &mut observed.issued, &mut observed.completed];
    for time in times.into_iter().flatten().chain([&mut request.arrival]) {
        *time = Timestamp::ZERO + time.saturating_since(zero);
    }
    record
}

/// The record with the number of its VM and its address on the drive.
fn placed(lane: &Lane, index: usize, mut record: Record, capacity: Sectors) -> Result<Record, ReplayError> {
    record.request.vm = VmId(index as u16);
    let mapped = lane.trace.map.apply(record.request, capacity);
    record.request = mapped.ok_or_else(|| {
        let (trace, number) = (lane.trace.path.clone(), lane.read);
        let sectors = record.request.sectors();
        if sectors > capacity {
            return ReplayError::LongerThanDrive { trace, number, sectors, capacity };
        }
        ReplayError::BeyondDrive { trace, number, request: Box::new(shifted(record, lane.trace.map)), capacity }
    })?;
    Ok(record)
}

/// The request with its address on a drive that is large enough, for messages.
fn shifted(record: Record, map: AddressMap) -> traces::Request {
    let mut request = record.request;
    if let AddressMap::Shift { place } = map {
        request.lba = request.lba.saturating_add(place);
    }
    request
}
