//! Runs a capture from its beginning to its end.

mod ending;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use traces::events::Placed;
use traces::trace::AddressSpace;
use traces::{Layer, Losses, Record, TraceMeta};

use super::attribution::{AttributeBy, Attribution};
use super::backends::tracefs::EVENT_SETTLING_NS;
use super::backends::{self, Backend, BackendSetup, ChosenBackend, EventsNeeded};
use super::clocks::{ClockReading, ClockReadings, cpu_time, monotonic};
use super::counters::KernelCounts;
use super::device::BlockDevice;
use super::error::CaptureError;
use super::histograms::{self, Histograms};
use super::limits::{RateLimit, StopLimits, pause};
use super::merge::{RecordMerger, add_losses};
use super::options::{CaptureOptions, CaptureProgress};
use super::output::{self, Output};
use super::pieces::RawPieces;
use super::store::TraceStore;
use super::summary::{CaptureSummary, StopReason};
use super::supervisor::Supervisor;

/// The interval between two sweeps: at a hundred thousand requests per second some 3 MB wait by then.
const SWEEP_INTERVAL: Duration = Duration::from_millis(100);
/// The same if the kernel's data are only copied, or counted by second. The kernel wakes the capture before its
/// buffers are full.
const RARE_SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// The longest pause. A signal ends it, unless another thread received it or it came a moment too early.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// The interval between two checks of limits and devices, and between two progress reports.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
const CLOCK_READING_INTERVAL: Duration = Duration::from_secs(60);
/// The most clock readings in a checkpoint; the file's end holds all.
const CHECKPOINT_READINGS_MAX: usize = 60;
/// The most records in one message to the store.
const RECORDS_PER_MESSAGE: usize = 4096;

/// Captures until `stop` is set or a limit is reached. `watch` receives the progress.
///
/// # Errors
/// The capture could not begin. A later failure ends the capture, keeps its records, and is reported in the summary.
pub fn record(
    options: &CaptureOptions,
    mut supervisor: Supervisor,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&CaptureProgress),
) -> Result<CaptureSummary, CaptureError> {
    if options.histograms {
        histograms::check_has_requests(&options.devices)?;
    }
    if !options.allow_self_capture {
        options.output.check_apart(&options.devices)?;
    }
    let raw = if options.raw { Some(options.output.clone()) } else { options.raw_too.clone().map(Output::File) };
    if let Some(raw) = &raw {
        raw.check_free(options.force)?;
        raw.check_no_pieces(options.force)?;
        if !options.allow_self_capture {
            raw.check_apart(&options.devices)?;
        }
    }
    if let Some((file, free)) = options.output.file().and_then(|file| Some((file, output::free_bytes(file)?)))
        && free < options.free_bytes
    {
        let (free, least) = (free >> 20, options.free_bytes >> 20);
        let why = format!("{free} MiB are free there, fewer than the {least} MiB of --min-free; name another folder");
        return Err(CaptureError::Output { path: file.to_owned(), why });
    }
    let pieces = raw.map(|raw| RawPieces::new(&raw.name(), options.rotate.filter(|_| options.raw), options.keep));
    let setup = BackendSetup {
        devices: options.devices.clone(),
        raw: pieces.as_ref().map(|pieces| pieces.stem().to_owned()),
        rotates: options.raw && options.rotate.is_some(),
        decode: !options.raw,
        buffer_kib: options.buffer_kib,
        events: match options {
            CaptureOptions { histograms: true, vm_by, .. } => histograms::events_needed(*vm_by),
            CaptureOptions { decisions_only: true, .. } => EventsNeeded::Decisions,
            _ => EventsNeeded::All,
        },
    };
    let chosen = backends::choose(&setup, options.backend.as_deref(), Vec::new(), &mut supervisor)?;
    let capture = Capture::begin(options, &setup, &mut supervisor, chosen, pieces);
    let summary = capture.and_then(|mut capture| {
        let ended = capture.run(stop, watch);
        capture.end(ended, watch)
    });
    supervisor.dismiss();
    summary
}

struct Capture<'a> {
    options: &'a CaptureOptions,
    setup: &'a BackendSetup,
    supervisor: &'a mut Supervisor,
    chosen: ChosenBackend,
    counts: KernelCounts,
    merger: RecordMerger,
    attribution: Attribution,
    store: Option<TraceStore>,
    /// In the place of a trace.
    histograms: Option<Histograms>,
    /// The raw files, if they are all that is written or are written, too.
    pieces: Option<RawPieces>,
    clocks: ClockReadings,
    rate: RateLimit,
    limits: StopLimits,
    begun: Instant,
    cpu_before: u64,
    events: u64,
    requests: u64,
    /// The number of VMs that the store knows.
    stored_vms: usize,
    /// Events and records of the current sweep; kept for their capacity.
    placed: Vec<Placed>,
    records: Vec<(usize, Record)>,
    notes: Vec<String>,
}

impl<'a> Capture<'a> {
    fn begin(
        options: &'a CaptureOptions,
        setup: &'a BackendSetup,
        supervisor: &'a mut Supervisor,
        chosen: ChosenBackend,
        pieces: Option<RawPieces>,
    ) -> Result<Capture<'a>, CaptureError> {
        let names = options.devices.iter().map(|device| device.name.clone());
        let notes = chosen.refused.iter().map(|(name, why)| refusal(name, why)).collect();
        let mut capture = Capture {
            options,
            setup,
            supervisor,
            counts: KernelCounts::take(&options.devices),
            merger: RecordMerger::new(&options.devices, chosen.backend.format().0),
            chosen,
            attribution: Attribution::new(options.vm_by, names).with_files(&options.devices),
            store: None,
            histograms: None,
            pieces,
            clocks: ClockReadings::default(),
            rate: RateLimit::new(options.rate),
            limits: StopLimits {
                seconds: options.seconds,
                size_bytes: options.size_bytes,
                free_bytes: options.free_bytes,
            },
            begun: Instant::now(),
            cpu_before: cpu_time(),
            events: 0,
            requests: 0,
            stored_vms: 0,
            placed: Vec::new(),
            records: Vec::new(),
            notes,
        };
        capture.read_clocks();
        if options.histograms {
            let (format, _) = capture.chosen.backend.format();
            let offset = capture.clocks.last().map_or(0, ClockReading::offset_ns);
            capture.histograms = Some(Histograms::begin(options, format, monotonic(), offset)?);
        } else if !options.raw {
            let meta = capture.meta(CHECKPOINT_READINGS_MAX);
            capture.stored_vms = meta.vms.len();
            capture.store = Some(TraceStore::begin(options, meta)?);
        }
        Ok(capture)
    }

    /// Sweeps until the capture ends.
    fn run(&mut self, stop: &AtomicBool, watch: &mut dyn FnMut(&CaptureProgress)) -> Result<StopReason, CaptureError> {
        let mut looked = Instant::now();
        let mut read_clocks = Instant::now();
        let mut events_before = 0;
        let mut cpu_before = cpu_time();
        // A process is identified soon after its first request, because it may end.
        let is_rare = self.options.raw || (self.options.histograms && self.options.vm_by == AttributeBy::Device);
        let interval = if is_rare { RARE_SWEEP_INTERVAL } else { SWEEP_INTERVAL };
        loop {
            let awake = Instant::now();
            if let Err(error) = self.sweep() {
                self.replace_backend(error)?;
            }
            self.rotate_raw()?;
            if looked.elapsed() >= CHECK_INTERVAL {
                watch(&self.progress(looked.elapsed(), events_before));
                (events_before, looked) = (self.events, Instant::now());
                if let Some(reason) = self.reason_to_end() {
                    return Ok(reason);
                }
                if let Some(store) = &self.store {
                    store.meta(self.meta(CHECKPOINT_READINGS_MAX));
                }
            }
            if read_clocks.elapsed() >= CLOCK_READING_INTERVAL {
                read_clocks = Instant::now();
                self.read_clocks();
            }
            // CPU time of the store's thread counts too.
            let cpu = cpu_time();
            let worked = Duration::from_nanos(cpu.saturating_sub(cpu_before));
            cpu_before = cpu;
            let rest = pause(worked, awake.elapsed(), self.options.cpu_percent, interval);
            if let Some(reason) = self.wait(rest, stop) {
                return Ok(reason);
            }
        }
    }

    /// Continues with the next backend that works after `error` of this one, if it has recorded nothing.
    fn replace_backend(&mut self, error: CaptureError) -> Result<(), CaptureError> {
        if self.events > 0 || self.chosen.backend.raw_written() != (0, 0) {
            return Err(error);
        }
        if self.options.backend.is_some() {
            return Err(backends::refuse(
                self.setup,
                self.options.backend.as_deref(),
                &[(self.chosen.name, error.of_backend())],
            ));
        }
        // It has failed already; stopping it switches the rest off.
        let _ = self.chosen.backend.stop(&mut Vec::new());
        if let Some(raw) = &self.setup.raw {
            Output::File(raw.clone()).check_free(true)?;
        }
        let tried = self.chosen.refused.len();
        let mut refused = self.chosen.refused.clone();
        refused.push((self.chosen.name, error.of_backend()));
        self.chosen = backends::choose(self.setup, None, refused, self.supervisor)?;
        self.notes.extend(self.chosen.refused[tried..].iter().map(|(name, why)| refusal(name, why)));
        self.merger = RecordMerger::new(&self.options.devices, self.chosen.backend.format().0);
        self.counts = KernelCounts::take(&self.options.devices);
        if let Some(store) = &self.store {
            store.meta(self.meta(CHECKPOINT_READINGS_MAX));
        }
        Ok(())
    }

    /// Pauses, unless the capture is to end. Without a limit of CPU time the pause ends early if much waits.
    fn wait(&mut self, rest: Duration, stop: &AtomicBool) -> Option<StopReason> {
        let from = Instant::now();
        loop {
            if let Some(reason) = self.asked_to_end(stop) {
                return Some(reason);
            }
            let left = rest.saturating_sub(from.elapsed());
            if left.is_zero() {
                return None;
            }
            let until_end = self.limits.seconds.map_or(Duration::MAX, |most| most.saturating_sub(self.begun.elapsed()));
            let part = left.min(until_end).min(PAUSE_MAX);
            if self.options.cpu_percent.is_some() {
                backends::sleep(part);
            } else {
                self.chosen.backend.wait(part);
                return self.asked_to_end(stop);
            }
        }
    }

    fn asked_to_end(&self, stop: &AtomicBool) -> Option<StopReason> {
        if stop.load(Ordering::Relaxed) {
            return Some(StopReason::Interrupted);
        }
        let time_is_over = self.limits.seconds.is_some_and(|most| self.begun.elapsed() >= most);
        time_is_over.then_some(StopReason::Time)
    }

    /// Begins the next piece of a raw capture if it is due.
    fn rotate_raw(&mut self) -> Result<(), CaptureError> {
        let bytes = self.chosen.backend.raw_written().0;
        let Some(next) = self.pieces.as_ref().filter(|pieces| pieces.is_due(bytes)).map(RawPieces::next_stem) else {
            return Ok(());
        };
        self.chosen.backend.next_piece(&next)?;
        let meta = self.meta(CHECKPOINT_READINGS_MAX);
        self.pieces.as_mut().map_or(Ok(()), |pieces| pieces.advance(&meta, bytes))
    }

    fn reason_to_end(&self) -> Option<StopReason> {
        let store_failed = self.store.as_ref().is_some_and(TraceStore::has_failed);
        if store_failed || self.histograms.as_ref().is_some_and(Histograms::has_failed) {
            return Some(StopReason::OutputFailed);
        }
        if self.options.devices.iter().any(BlockDevice::is_gone) {
            return Some(StopReason::DeviceGone);
        }
        self.limits.reached(self.begun.elapsed(), self.written_bytes(), self.options.output.file())
    }

    fn written_bytes(&self) -> u64 {
        match (&self.store, &self.histograms) {
            (Some(store), _) => store.bytes(),
            (None, Some(histograms)) => histograms.bytes(),
            (None, None) => self.chosen.backend.raw_written().0,
        }
    }

    /// Reads new events and passes on the complete records.
    fn sweep(&mut self) -> Result<(), CaptureError> {
        self.placed.clear();
        let known = monotonic().saturating_sub(EVENT_SETTLING_NS);
        self.chosen.backend.sweep(&mut self.placed)?;
        if self.histograms.is_some() { self.count(known) } else { self.pass_on(false) }
    }

    /// Counts the events in histograms. None before `known` is still to come.
    fn count(&mut self, known: u64) -> Result<(), CaptureError> {
        let Some(histograms) = &mut self.histograms else { return Ok(()) };
        self.events += self.placed.len() as u64;
        let losses = self.chosen.backend.losses();
        let counted = histograms.hand(&self.placed, known, &losses, &mut self.attribution);
        self.requests = histograms.requests();
        Ok(counted?)
    }

    fn pass_on(&mut self, ended: bool) -> Result<(), CaptureError> {
        let Capture { placed, rate, .. } = self;
        self.events += placed.len() as u64;
        placed.retain(|placed| rate.admits(placed.event.time));
        self.merger.hand(&self.placed, &mut self.attribution);
        self.records.clear();
        self.merger.give(ended, &mut self.records)?;
        self.requests += self.records.len() as u64;
        let Some(store) = &self.store else { return Ok(()) };
        if self.attribution.vms().len() > self.stored_vms {
            self.stored_vms = self.attribution.vms().len();
            store.meta(self.meta(CHECKPOINT_READINGS_MAX));
        }
        for some in self.records.chunks(RECORDS_PER_MESSAGE) {
            let attributed = some.iter().map(|(device, record)| {
                let mut record = *record;
                record.request.vm = self.attribution.vm(record.request.stream.0, *device);
                record
            });
            store.records(attributed.collect());
        }
        Ok(())
    }

    fn read_clocks(&mut self) {
        let reading = ClockReading::take(|| self.chosen.backend.trace_now());
        if let Some(step) = self.clocks.add(reading) {
            let by = step as f64 / 1e6;
            self.notes.push(format!("warning: the wall clock was set by {by:.3} ms; the trace's clock was not"));
        }
        if let Some(histograms) = &mut self.histograms {
            histograms.set_offset(reading.offset_ns());
        }
    }

    fn losses(&self) -> Losses {
        let mut losses = self.chosen.backend.losses();
        add_losses(&mut losses, &self.merger.losses());
        self.histograms.iter().for_each(|histograms| add_losses(&mut losses, &histograms.losses()));
        losses.lost_events += self.rate.dropped();
        losses
    }

    fn progress(&mut self, since: Duration, events_before: u64) -> CaptureProgress {
        let mut notes = std::mem::take(&mut self.notes);
        notes.extend(self.chosen.backend.notes());
        if self.options.raw {
            self.events = self.chosen.backend.raw_written().1;
        }
        let lasted = self.begun.elapsed();
        let per_second = (self.events - events_before) as f64 / since.as_secs_f64().max(0.001);
        CaptureProgress {
            backend: self.chosen.name,
            lasted,
            events_per_second: per_second as u64,
            events: self.events,
            lost: self.losses().lost_events,
            written_bytes: self.written_bytes(),
            cpu_percent: self.cpu_ns() as f64 / 1e7 / lasted.as_secs_f64().max(0.001),
            notes,
            seconds: self.histograms.as_mut().map(Histograms::take_ended).unwrap_or_default(),
        }
    }

    fn cpu_ns(&self) -> u64 {
        cpu_time().saturating_sub(self.cpu_before)
    }

    /// The trace's metadata so far.
    fn meta(&self, readings: usize) -> TraceMeta {
        let backend: &dyn Backend = &*self.chosen.backend;
        let (format, clock) = backend.format();
        let mut meta = TraceMeta::new(format, self.options.layer.unwrap_or(Layer::GuestQueue), &clock);
        meta.vms = self.attribution.vms().to_vec();
        meta.streams = backend.names();
        match self.options.devices.as_slice() {
            [only] => meta.capacity_sectors = Some(only.capacity),
            _ => meta.address_space = AddressSpace::PerVm,
        }
        if let (Some(zero), Some(first)) = (self.merger.zero(), self.clocks.first()) {
            meta.clock.zero_unix_ns = first.offset_ns().checked_add_unsigned(zero);
        }
        self.merger.describe(&mut meta);
        backend.describe(&mut |key, value| {
            meta.provenance.insert(format!("{format}.{key}"), value);
        });
        let devices: Vec<&str> = self.options.devices.iter().map(|device| device.name.as_str()).collect();
        let losses = self.losses();
        let mut add = |key: &str, value: String| meta.provenance.insert(format!("capture.{key}"), value);
        add("by", traces::program_version());
        add("backend", self.chosen.name.to_owned());
        add("devices", devices.join(","));
        add("clock_readings", self.clocks.json(readings));
        add("clock_steps", self.clocks.steps().to_string());
        add("lost_events", losses.lost_events.to_string());
        if let Some(zero) = self.merger.zero() {
            add("zero_trace_ns", zero.to_string());
        }
        for (of, files) in self.attribution.files().iter().filter(|(_, files)| !files.is_empty()) {
            add(&format!("files.{of}"), serde_json::to_string(files).unwrap_or_default());
        }
        if let Some(share) = self.attribution.unattributed_share() {
            add("unattributed_share", format!("{share:.6}"));
        }
        meta
    }
}

/// A note on a backend that does not work.
fn refusal(name: &str, why: &str) -> String {
    format!("backend {name} does not work: {why}")
}
