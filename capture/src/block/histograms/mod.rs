//! Histograms by second and VM in the place of a trace: for a capture that is always on.
//!
//! The reader that pairs the events of a file pairs them here, too. A [`Watch`](traces::events::Watch) sees each
//! request as it completes (`second.rs`), and nothing else of it is kept. A request begins with its issue. If VMs are
//! told apart by process, the issue gets the process that queued the request (`queued_by.rs`). When a second is over, each VM that had a request becomes a line
//! ([`SecondOfVm`]). All lines of the second are written at once (`files.rs`), or go to the caller with the progress.

mod files;
mod queued_by;
mod second;

use std::collections::BTreeMap;

use traces::events::{EventSource as _, PairedReader, Placed, action};
use traces::printable::printable_json;
use traces::results::histograms::{HISTOGRAMS_VERSION, SecondOfVm};
use traces::trace::{ArrivalPoint, ReadOptions};
use traces::{Losses, ReadError};

use super::attribution::{AttributeBy, Attribution};
use super::backends::EventsNeeded;
use super::device::BlockDevice;
use super::error::CaptureError;
use super::merge::{EventQueue, add_losses};
use super::options::CaptureOptions;
use super::output::Output;
use super::store::StoreOutcome;
use files::HistogramFiles;
use queued_by::QueuedBy;
use second::{DeviceSecond, Watched};

const SECOND_NS: u64 = 1_000_000_000;

/// The events that histograms need.
pub(super) fn events_needed(by: AttributeBy) -> EventsNeeded {
    match by {
        AttributeBy::Device => EventsNeeded::DeviceRequests,
        AttributeBy::Cgroup | AttributeBy::Process => EventsNeeded::QueuedDeviceRequests,
    }
}

/// Refuses a device that hands bios on without making requests of them (device mapper, md): nothing is issued to it.
///
/// # Errors
/// As said. The kernel has the folder `mq` for each device with requests (Linux 5.0).
pub(super) fn check_has_requests(devices: &[BlockDevice]) -> Result<(), CaptureError> {
    let Some(without) = devices.iter().find(|device| !device.folder.join("mq").is_dir()) else { return Ok(()) };
    let why = "it makes no requests of its bios, so that there is no D2C; name the disks below it (`lsblk -s` lists \
               them) with --vm-by process or cgroup";
    Err(CaptureError::Device { path: without.path.clone(), why: why.to_owned() })
}

struct Device {
    name: String,
    reader: PairedReader<EventQueue>,
    second: DeviceSecond,
    queued_by: QueuedBy,
    /// The losses that lines tell of.
    told: Losses,
    events: u64,
}

/// The histograms of a capture.
pub(super) struct Histograms {
    devices: Vec<Device>,
    /// Index in `devices`, by the kernel's number.
    numbers: BTreeMap<u32, usize>,
    by: AttributeBy,
    /// `None` if the seconds go to the caller.
    files: Option<HistogramFiles>,
    /// Those that have ended and not been taken, if they go to the caller.
    ended: Vec<SecondOfVm>,
    /// The current second, in ns of the events' clock, and when it began in ns since 1970.
    from: u64,
    until: u64,
    start_unix_ns: i64,
    /// How far the wall clock is ahead of the events' clock.
    offset_ns: i64,
    is_first: bool,
    /// The losses of the backend that lines tell of.
    told: Losses,
}

impl Histograms {
    /// Opens the output. The first second begins at `now` of the events' clock.
    ///
    /// # Errors
    /// The output cannot be opened.
    pub(super) fn begin(
        options: &CaptureOptions,
        format: &str,
        now: u64,
        offset_ns: i64,
    ) -> Result<Histograms, CaptureError> {
        let reading = ReadOptions { lenient: true, arrivals: ArrivalPoint::Issued, ..ReadOptions::default() };
        let device = |device: &BlockDevice| Device {
            name: device.name.clone(),
            reader: PairedReader::new(EventQueue::new(0), format, "", &reading),
            second: DeviceSecond::begin(now),
            queued_by: QueuedBy::default(),
            told: Losses::default(),
            events: 0,
        };
        let mut histograms = Histograms {
            devices: options.devices.iter().map(device).collect(),
            numbers: (0..).zip(&options.devices).map(|(at, device)| (device.number, at)).collect(),
            by: options.vm_by,
            files: if options.output == Output::Watcher { None } else { Some(HistogramFiles::begin(options)?) },
            ended: Vec::new(),
            from: now,
            until: now,
            start_unix_ns: 0,
            offset_ns,
            is_first: true,
            told: Losses::default(),
        };
        histograms.begin_second();
        Ok(histograms)
    }

    /// The current second ends with that of the wall clock.
    fn begin_second(&mut self) {
        self.from = self.until;
        self.start_unix_ns = self.offset_ns.saturating_add_unsigned(self.from);
        self.until = self.from + SECOND_NS - self.start_unix_ns.rem_euclid(SECOND_NS as i64).unsigned_abs();
    }

    /// Sets how far the wall clock is ahead of the events' clock; it counts from the next second on.
    pub(super) fn set_offset(&mut self, offset_ns: i64) {
        self.offset_ns = offset_ns;
    }

    /// Counts events, in order of time, and writes the seconds that are over. No event before `known` is still to
    /// come. `losses` are those of the backend so far.
    ///
    /// # Errors
    /// The reader of a device fails.
    pub(super) fn hand(
        &mut self,
        events: &[Placed],
        known: u64,
        losses: &Losses,
        attribution: &mut Attribution,
    ) -> Result<(), ReadError> {
        let mut left = events;
        loop {
            let (due, later) = left.split_at(left.partition_point(|placed| placed.event.time < self.until));
            self.take(due, attribution)?;
            left = later;
            if left.is_empty() && known < self.until {
                return Ok(());
            }
            self.end_second(losses, attribution, false);
        }
    }

    fn take(&mut self, events: &[Placed], attribution: &mut Attribution) -> Result<(), ReadError> {
        for placed in events {
            let Some(&at) = self.numbers.get(&placed.event.device) else { continue };
            let (device, mut placed) = (&mut self.devices[at], *placed);
            if self.by != AttributeBy::Device {
                if placed.event.code() == action::GET_REQUEST {
                    attribution.see(placed.event.pid);
                }
                device.queued_by.follow(&mut placed.event);
            }
            device.events += 1;
            device.reader.source_mut().push(placed);
        }
        self.watch(attribution)
    }

    fn watch(&mut self, attribution: &mut Attribution) -> Result<(), ReadError> {
        for (device, of) in self.devices.iter_mut().enumerate() {
            of.reader.watch_so_far(&mut Watched { second: &mut of.second, attribution, device })?;
        }
        Ok(())
    }

    /// Writes the lines of the current second, and begins the next one.
    fn end_second(&mut self, losses: &Losses, attribution: &Attribution, is_last: bool) {
        let mut lost = since(&mut self.told, losses);
        let mut text = Vec::new();
        for (at, device) in self.devices.iter_mut().enumerate() {
            let of_device = since(&mut device.told, device.reader.source().losses());
            // What is known of all devices goes to the first.
            add_losses(&mut lost, &of_device);
            let main = if self.by == AttributeBy::Device { at } else { 0 };
            let mut lines = device.second.end(self.until, main);
            let is_said = self.is_first || is_last || self.files.is_none() || lost != Losses::default();
            if lines.is_empty() && is_said {
                lines.push((main, SecondOfVm::default()));
            }
            for (vm, mut line) in lines {
                let lost = std::mem::take(&mut lost);
                line.histograms_version = HISTOGRAMS_VERSION;
                line.start_unix_ns = self.start_unix_ns;
                line.length_ns = self.until - self.from;
                line.begins = self.is_first;
                line.device.clone_from(&device.name);
                line.vm = attribution.vms().get(vm).cloned().unwrap_or_default();
                (line.lost_events, line.unmatched, line.skipped) = (lost.lost_events, lost.unmatched, lost.skipped);
                if self.files.is_none() {
                    self.ended.push(line);
                    continue;
                }
                let json = serde_json::to_string(&line).unwrap_or_default();
                text.extend_from_slice(printable_json(&json).as_bytes());
                text.push(b'\n');
            }
        }
        self.files.iter_mut().for_each(|files| files.write(&text, self.from));
        self.is_first = false;
        self.begin_second();
    }

    /// Ends the last second at that time of the events' clock, and makes all durable. Requests that are in flight
    /// count as issued without completion.
    pub(super) fn end(&mut self, now: u64, losses: &Losses, attribution: &mut Attribution) -> StoreOutcome {
        // No event is left, so that nothing can be refused.
        let _ = self.hand(&[], now, losses, attribution);
        self.devices.iter_mut().for_each(|device| device.reader.end());
        let _ = self.watch(attribution);
        self.until = now.max(self.from + 1);
        self.end_second(losses, attribution, true);
        let nowhere = StoreOutcome { bytes: 0, files: Vec::new(), failure: None };
        self.files.as_mut().map_or(nowhere, HistogramFiles::end)
    }

    /// The lines of the seconds that have ended since the last call, if they go to the caller.
    pub(super) fn take_ended(&mut self) -> Vec<SecondOfVm> {
        std::mem::take(&mut self.ended)
    }

    /// Requests that completed so far.
    pub(super) fn requests(&self) -> u64 {
        self.devices.iter().map(|device| device.second.requests).sum()
    }

    /// The number of events of a device, by its index.
    pub(super) fn events(&self, device: usize) -> u64 {
        self.devices.get(device).map_or(0, |device| device.events)
    }

    /// Unmatched and skipped events of all devices.
    pub(super) fn losses(&self) -> Losses {
        let mut sum = Losses::default();
        self.devices.iter().for_each(|device| add_losses(&mut sum, device.reader.source().losses()));
        sum
    }

    /// Bytes written so far.
    pub(super) fn bytes(&self) -> u64 {
        self.files.as_ref().map_or(0, HistogramFiles::bytes)
    }

    /// Whether the output has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.files.as_ref().is_some_and(HistogramFiles::has_failed)
    }
}

/// The losses since `told`, which becomes `now`.
fn since(told: &mut Losses, now: &Losses) -> Losses {
    let before = std::mem::replace(told, now.clone());
    let more = |before: &BTreeMap<String, u64>, now: &BTreeMap<String, u64>| {
        let more = |(kind, count): (&String, &u64)| (kind.clone(), count - before.get(kind).copied().unwrap_or(0));
        now.iter().map(more).filter(|(_, count)| *count > 0).collect()
    };
    Losses {
        lost_events: now.lost_events - before.lost_events,
        skipped: more(&before.skipped, &now.skipped),
        unmatched: more(&before.unmatched, &now.unmatched),
        impossible: BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests;
