//! The traces of one replay, one per VM, as a single stream of records in order of arrival, on the
//! drive's addresses and on a clock that starts at zero.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use traces::trace::Extent;
use traces::{Lba, Losses, Nanos, ReadError, Record, Sectors, Timestamp, TraceMeta, TraceReader, VmId};

use super::AddressMap;
use crate::source::ReplayError;

/// Which part of each trace is replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeWindow {
    /// Arrivals this long after the trace's first and later.
    pub from: Nanos,
    /// Arrivals earlier than this after the trace's first.
    pub to: Option<Nanos>,
    /// At most so many requests over all traces.
    pub limit: Option<u64>,
}

/// One VM's trace and its place on the drive.
pub struct VmTrace {
    /// The VM's name.
    pub name: String,
    /// The file, for messages.
    pub path: PathBuf,
    /// The opened trace.
    pub reader: Box<dyn TraceReader>,
    /// How its addresses come onto the drive.
    pub map: AddressMap,
}

/// What was read of one trace.
#[derive(Clone, Debug)]
pub struct TraceRead {
    /// The VM's name.
    pub name: String,
    /// The trace's metadata.
    pub meta: TraceMeta,
    /// What was lost on the way.
    pub losses: Losses,
    /// Requests replayed.
    pub requests: u64,
}

struct Lane {
    trace: VmTrace,
    /// The next record, rebased and mapped.
    head: Option<Record>,
    cursor: Cursor,
    read: u64,
    replayed: u64,
}

/// Tells which arrivals of one trace lie within a window.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    first_arrival: Option<Timestamp>,
}

/// Where an arrival lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Before the window.
    Before,
    /// Within; the window begins at this time.
    Within(Timestamp),
    /// Behind the window, and so are all further ones.
    After,
}

impl Cursor {
    /// Where the trace's next arrival lies; the first that is asked for sets the window's zero.
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

/// Reads a trace for the times and addresses that a replay of its `window` will touch.
///
/// # Errors
/// What is wrong with the trace.
pub fn extent(reader: &mut dyn TraceReader, window: TimeWindow) -> Result<Extent, ReadError> {
    let mut cursor = Cursor::default();
    let mut extent: Option<Extent> = None;
    while let Some(Record { request, .. }) = reader.next()? {
        match cursor.position(request.arrival, window) {
            Position::Before => continue,
            Position::Within(_) => {}
            Position::After => break,
        }
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
        if window.limit.is_some_and(|limit| extent.records >= limit) {
            break;
        }
    }
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

/// Several traces merged by arrival; of equal arrivals the VM named first comes first.
pub struct MergedTraces {
    lanes: Vec<Lane>,
    window: TimeWindow,
    capacity: Sectors,
    emitted: u64,
    started: bool,
    progress: Arc<AtomicU64>,
}

/// How often the progress counter is brought up to date, in records.
const PROGRESS_EVERY: u64 = 4096;

impl MergedTraces {
    /// The `traces` on a drive of `capacity`.
    pub fn new(traces: Vec<VmTrace>, window: TimeWindow, capacity: Sectors) -> MergedTraces {
        let lanes = traces
            .into_iter()
            .map(|trace| Lane { trace, head: None, cursor: Cursor::default(), read: 0, replayed: 0 })
            .collect();
        MergedTraces { lanes, window, capacity, emitted: 0, started: false, progress: Arc::default() }
    }

    /// Counts the bytes consumed of all traces, for a progress bar.
    #[must_use]
    pub fn with_progress(mut self, progress: Arc<AtomicU64>) -> MergedTraces {
        self.progress = progress;
        self
    }

    /// The next record, without taking it.
    pub(crate) fn peek(&mut self) -> Result<Option<&Record>, ReplayError> {
        let lane = self.next_lane()?;
        Ok(lane.and_then(|index| self.lanes[index].head.as_ref()))
    }

    /// The next record.
    ///
    /// # Errors
    /// What is wrong with a trace; a request beyond the drive.
    pub fn take(&mut self) -> Result<Option<Record>, ReplayError> {
        let Some(index) = self.next_lane()? else { return Ok(None) };
        let lane = &mut self.lanes[index];
        let record = lane.head.take();
        lane.replayed += 1;
        self.emitted += 1;
        if !self.is_at_limit() {
            self.refill(index)?;
        }
        if self.emitted.is_multiple_of(PROGRESS_EVERY) {
            let bytes = self.lanes.iter().map(|lane| lane.trace.reader.position_bytes()).sum();
            self.progress.store(bytes, Ordering::Relaxed);
        }
        Ok(record)
    }

    /// What has been read of each trace.
    pub fn read(&self) -> Vec<TraceRead> {
        let report = |lane: &Lane| TraceRead {
            name: lane.trace.name.clone(),
            meta: lane.trace.reader.meta().clone(),
            losses: lane.trace.reader.losses().clone(),
            requests: lane.replayed,
        };
        self.lanes.iter().map(report).collect()
    }

    /// A VM's trace, for messages.
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

    /// Reads the lane's next record within the window.
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

/// The record on a clock whose zero is `zero`.
fn rebased(mut record: Record, zero: Timestamp) -> Record {
    let Record { request, observed } = &mut record;
    let times = [&mut observed.inserted, &mut observed.issued, &mut observed.completed];
    for time in times.into_iter().flatten().chain([&mut request.arrival]) {
        *time = Timestamp::ZERO + time.saturating_since(zero);
    }
    record
}

/// The record as its VM's, on the drive's addresses.
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

/// Where the request would lie if the drive were large enough.
fn shifted(record: Record, map: AddressMap) -> traces::Request {
    let mut request = record.request;
    if let AddressMap::Shift { place } = map {
        request.lba = request.lba.saturating_add(place);
    }
    request
}
