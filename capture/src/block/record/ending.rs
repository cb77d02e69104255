//! The end of a capture: the last events, what was missed, and the summary.

use super::{CHECK_INTERVAL, Capture};
use crate::block::backends::BACKENDS;
use crate::block::clocks::monotonic;
use crate::block::device::BlockDevice;
use crate::block::error::CaptureError;
use crate::block::options::CaptureProgress;
use crate::block::store::StoreOutcome;
use crate::block::summary::{CaptureSummary, StopReason};
use crate::silence::{Reading, Silence};
use traces::TraceMeta;

impl Capture<'_> {
    /// Switches tracing off, stores the remaining records and returns the summary.
    pub(super) fn end(
        mut self,
        ended: Result<StopReason, CaptureError>,
        watch: &mut dyn FnMut(&CaptureProgress),
    ) -> Result<CaptureSummary, CaptureError> {
        let lasted = self.begun.elapsed();
        let (mut stopped_by, mut failure) = match ended {
            Ok(reason) => (reason, None),
            Err(error) => (StopReason::InputFailed, Some(error.to_string())),
        };
        self.placed.clear();
        // Before tracing ends, so that every counted I/O has been traced.
        let counted = self.counts.since(&self.options.devices);
        let raw_events = self.chosen.backend.raw_written().1;
        let stopped = self.chosen.backend.stop(&mut self.placed);
        // If either fails, the records so far are kept.
        let now = monotonic();
        let passed_on = if self.options.histograms { self.count(now) } else { self.pass_on(true) };
        for result in [passed_on, stopped] {
            if let Err(error) = result
                && failure.is_none()
            {
                (stopped_by, failure) = (StopReason::InputFailed, Some(error.to_string()));
            }
        }
        if self.options.raw {
            self.events = self.chosen.backend.raw_written().1.max(raw_events);
        }
        self.read_clocks();
        let meta = self.meta(usize::MAX);
        let raw_bytes = self.chosen.backend.raw_written().0;
        let stored = match (self.store.take(), &mut self.histograms) {
            (Some(store), _) => store.end(meta),
            (None, Some(histograms)) => histograms.end(now, &self.chosen.backend.losses(), &mut self.attribution),
            (None, None) => self.end_raw(&meta, raw_bytes)?,
        };
        if let Some(what) = stored.failure {
            (stopped_by, failure) = (StopReason::OutputFailed, Some(what));
        }
        if self.options.devices.iter().any(BlockDevice::is_gone) && failure.is_none() {
            stopped_by = StopReason::DeviceGone;
        } else if failure.is_none() {
            failure = self.missed(&counted, raw_bytes);
        }
        let last = self.progress(CHECK_INTERVAL, self.events);
        watch(&last);
        let losses = self.losses();
        Ok(CaptureSummary {
            schema_version: 1,
            backend: self.chosen.name,
            refused: std::mem::take(&mut self.chosen.refused),
            devices: self.options.devices.iter().map(|device| device.name.clone()).collect(),
            files: stored.files.iter().map(|path| path.display().to_string()).collect(),
            lasted_ns: u64::try_from(lasted.as_nanos()).unwrap_or(u64::MAX),
            events: self.events,
            kernel_ios: counted.into_iter().sum::<Reading>().ok(),
            requests: self.requests,
            written_bytes: stored.bytes,
            lost_events: losses.lost_events,
            above_rate_events: self.rate.dropped(),
            unmatched: losses.unmatched,
            skipped: losses.skipped,
            unattributed_share: self.attribution.unattributed_share(),
            vms: self.attribution.vms().to_vec(),
            cpu_ns: self.cpu_ns(),
            clock_steps: self.clocks.steps(),
            stopped_by,
            failure,
        })
    }

    /// The devices of which nothing was recorded although the kernel counted I/Os. Adds a note on each that was idle.
    fn missed(&mut self, counted: &[Reading], raw_bytes: u64) -> Option<String> {
        if self.losses().lost_events > 0 {
            return None;
        }
        let is_tried =
            |name: &str| name == self.chosen.name || self.chosen.refused.iter().any(|(other, _)| *other == name);
        let others: Vec<&str> = BACKENDS.iter().map(|row| row.name).filter(|name| !is_tried(name)).collect();
        let mut missed = Vec::new();
        for (at, (device, counted)) in self.options.devices.iter().zip(counted).enumerate() {
            // The events of raw data are not told apart by device, and blktrace does not count them.
            let recorded = match &self.histograms {
                Some(histograms) => histograms.events(at),
                None if self.options.raw => self.events + raw_bytes,
                None => self.merger.events(at),
            };
            if recorded > 0 {
                continue;
            }
            match Silence::of_device(&device.name, self.chosen.name, counted, &others) {
                Silence::Missed(why) => missed.push(why),
                Silence::Harmless(why) => self.notes.push(format!("warning: {why}")),
            }
        }
        (!missed.is_empty()).then(|| missed.join("; "))
    }

    /// Completes the raw files, if they are all that is written.
    fn end_raw(&self, meta: &TraceMeta, bytes: u64) -> Result<StoreOutcome, CaptureError> {
        let Some(pieces) = &self.pieces else { return Ok(StoreOutcome { bytes, files: Vec::new(), failure: None }) };
        pieces.describe(meta)?;
        Ok(StoreOutcome { bytes, files: pieces.files()?, failure: None })
    }
}
