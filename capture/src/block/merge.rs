//! Merges the events of several devices into one sequence of records, in order of arrival and in bounded memory.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use traces::error::Place;
use traces::events::{EventSource, PENDING_RECORDS, PairedReader, Placed, action};
use traces::trace::ReadOptions;
use traces::{Losses, ReadError, Record, Timestamp, TraceMeta};

use super::attribution::Attribution;
use super::device::BlockDevice;

/// The events of one device that its reader has not taken yet.
pub(super) struct EventQueue {
    waiting: Vec<Placed>,
    run: Vec<Placed>,
    zero: u64,
    losses: Losses,
}

impl EventQueue {
    /// Without events yet; `zero` is the trace's zero in the events' clock.
    pub(super) fn new(zero: u64) -> EventQueue {
        EventQueue { waiting: Vec::new(), run: Vec::new(), zero, losses: Losses::default() }
    }

    /// Adds the next event.
    pub(super) fn push(&mut self, placed: Placed) {
        self.waiting.push(placed);
    }
}

impl EventSource for EventQueue {
    fn advance(&mut self) -> Result<bool, ReadError> {
        self.run.clear();
        std::mem::swap(&mut self.run, &mut self.waiting);
        Ok(!self.run.is_empty())
    }

    fn run(&mut self) -> (&[Placed], &mut Losses) {
        (&self.run, &mut self.losses)
    }

    fn zero(&self) -> u64 {
        self.zero
    }

    fn place(&self, number: usize) -> (&Path, Place) {
        (Path::new("the kernel's events"), Place::Byte(self.run.get(number).map_or(0, |placed| placed.at)))
    }

    // A capture continues after malformed events.
    fn lenient(&self) -> bool {
        true
    }

    fn losses(&self) -> &Losses {
        &self.losses
    }

    fn losses_mut(&mut self) -> &mut Losses {
        &mut self.losses
    }

    fn describe(&mut self, _meta: &mut TraceMeta, _ended: bool) {}

    fn position_bytes(&self) -> u64 {
        0
    }
}

struct DeviceStream {
    reader: PairedReader<EventQueue>,
    /// Records that wait for earlier ones of other devices.
    ready: VecDeque<Record>,
    /// Events of the device.
    events: u64,
}

impl DeviceStream {
    /// Takes the records that the reader has completed.
    fn take(&mut self) -> Result<(), ReadError> {
        while let Some(record) = self.reader.next_so_far()? {
            self.ready.push_back(record);
        }
        Ok(())
    }
}

/// Pairs the events of each device and merges the records.
pub(super) struct RecordMerger {
    format: &'static str,
    options: ReadOptions,
    /// Index in `members`, by the kernel's device number.
    numbers: BTreeMap<u32, usize>,
    /// Empty before the first event, whose time is time zero of all devices.
    members: Vec<DeviceStream>,
    devices: usize,
    zero: Option<u64>,
    /// Time of the latest event.
    now: u64,
    /// Records emitted incomplete because they blocked those of other devices.
    given_up: u64,
}

impl RecordMerger {
    pub(super) fn new(devices: &[BlockDevice], format: &'static str) -> RecordMerger {
        let numbers = (0..).zip(devices).map(|(at, device)| (device.number, at));
        RecordMerger {
            format,
            options: ReadOptions { lenient: true, ..ReadOptions::default() },
            numbers: numbers.collect(),
            members: Vec::new(),
            devices: devices.len(),
            zero: None,
            now: 0,
            given_up: 0,
        }
    }

    /// Time of the first event, in nanoseconds of the trace's clock.
    pub(super) fn zero(&self) -> Option<u64> {
        self.zero
    }

    /// The number of events of a device, by its index.
    pub(super) fn events(&self, device: usize) -> u64 {
        self.members.get(device).map_or(0, |member| member.events)
    }

    /// Adds events in order of time, and shows `attribution` the processes that queued requests.
    pub(super) fn hand(&mut self, events: &[Placed], attribution: &mut Attribution) {
        let Some(first) = events.first() else { return };
        if self.zero.is_none() {
            self.zero = Some(first.event.time);
            let member = || DeviceStream {
                reader: PairedReader::new(EventQueue::new(first.event.time), self.format, "", &self.options),
                ready: VecDeque::new(),
                events: 0,
            };
            self.members = (0..self.devices).map(|_| member()).collect();
        }
        for placed in events {
            let Some(&at) = self.numbers.get(&placed.event.device) else { continue };
            if placed.event.code() == action::QUEUE {
                attribution.see(placed.event.pid);
            }
            self.members[at].events += 1;
            self.members[at].reader.source_mut().push(*placed);
        }
        self.now = events.last().map_or(self.now, |placed| placed.event.time);
    }

    /// Appends the records that no earlier one can precede, each with the index of its device.
    ///
    /// # Errors
    /// The reader of a device fails.
    pub(super) fn give(&mut self, ended: bool, into: &mut Vec<(usize, Record)>) -> Result<(), ReadError> {
        for member in &mut self.members {
            member.take()?;
            if ended {
                member.reader.end();
                member.take()?;
            }
        }
        self.merge(ended, into);
        Ok(())
    }

    fn merge(&mut self, ended: bool, into: &mut Vec<(usize, Record)>) {
        loop {
            let ready = |(at, member): (usize, &DeviceStream)| Some((member.ready.front()?.request.arrival, at));
            let first = self.members.iter().enumerate().filter_map(ready).min();
            let Some((arrival, at)) = first else { return };
            if !ended && let Some(blocking) = self.blocking(arrival, at) {
                let held: usize = self.members.iter().map(|member| member.ready.len()).sum();
                if (held as u64) < PENDING_RECORDS {
                    return;
                }
                // One device's incomplete request must not block the others for ever.
                let member = &mut self.members[blocking];
                member.ready.extend(member.reader.give_up_oldest());
                self.given_up += 1;
                continue;
            }
            into.extend(self.members[at].ready.pop_front().map(|record| (at, record)));
        }
    }

    /// A device that may still emit a record earlier than `arrival`.
    fn blocking(&self, arrival: Timestamp, of: usize) -> Option<usize> {
        let earlier = |(at, member): &(usize, &DeviceStream)| {
            let oldest = member.reader.oldest();
            *at != of && member.ready.is_empty() && oldest.is_some_and(|oldest| oldest < arrival)
        };
        self.members.iter().enumerate().find(earlier).map(|(at, _)| at)
    }

    /// Lost and unmatched events of all devices.
    pub(super) fn losses(&self) -> Losses {
        let mut sum = Losses::default();
        for member in &self.members {
            add_losses(&mut sum, member.reader.source().losses());
        }
        sum
    }

    /// Adds the counts of pairing, after it has ended.
    pub(super) fn describe(&self, meta: &mut TraceMeta) {
        use traces::TraceReader as _;
        for member in &self.members {
            for (key, value) in &member.reader.meta().provenance {
                let Ok(count) = value.parse::<u64>() else { continue };
                let before = meta.provenance.get(key).and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
                meta.provenance.insert(key.clone(), (before + count).to_string());
            }
        }
        if self.given_up > 0 {
            meta.provenance.insert("capture.given_up_for_order".to_owned(), self.given_up.to_string());
        }
    }

    /// The number of waiting records.
    #[cfg(test)]
    fn held(&self) -> usize {
        self.members.iter().map(|member| member.ready.len()).sum()
    }
}

/// Adds losses to a sum.
pub(super) fn add_losses(sum: &mut Losses, more: &Losses) {
    sum.lost_events += more.lost_events;
    let Losses { lost_events: _, skipped, unmatched, impossible } = sum;
    for (to, from) in [(skipped, &more.skipped), (unmatched, &more.unmatched), (impossible, &more.impossible)] {
        for (reason, count) in from {
            *to.entry(reason.clone()).or_default() += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use traces::Sectors;
    use traces::events::{Category, Event};

    use super::*;
    use crate::block::AttributeBy;

    fn devices(count: u32) -> Vec<BlockDevice> {
        let device = |number| BlockDevice {
            path: PathBuf::new(),
            name: format!("d{number}"),
            number,
            capacity: Sectors::new(8),
            folder: PathBuf::new(),
            sequence: None,
        };
        (1..=count).map(device).collect()
    }

    fn event(code: u8, device: u32, time: u64, sector: u64) -> Placed {
        let category = if code == action::QUEUE { Category::QUEUE } else { Category::COMPLETE };
        let action = u32::from(code) | (category | Category::READ | Category::FS).in_action();
        Placed { event: Event { time, device, sector, bytes: 4096, action, pid: 7, ..Event::default() }, at: 0 }
    }

    fn gathered(count: u32) -> (RecordMerger, Attribution) {
        (
            RecordMerger::new(&devices(count), "trace-pipe-raw"),
            Attribution::new(AttributeBy::Device, std::iter::empty()),
        )
    }

    fn arrivals(records: &[(usize, Record)]) -> Vec<(usize, u64)> {
        records.iter().map(|(at, record)| (*at, record.request.arrival.as_ns())).collect()
    }

    #[test]
    fn records_of_several_devices_are_merged_by_arrival() {
        let (mut merger, mut attribution) = gathered(2);
        let (queued, completed) = (action::QUEUE, action::COMPLETE);
        let mut given = Vec::new();
        merger
            .hand(&[event(queued, 1, 100, 0), event(queued, 2, 110, 0), event(completed, 2, 120, 0)], &mut attribution);
        merger.give(false, &mut given).unwrap();
        // The first device's record is older and not complete.
        assert_eq!((given.len(), merger.held()), (0, 1));
        merger.hand(&[event(completed, 1, 130, 0), event(queued, 2, 140, 8)], &mut attribution);
        merger.give(false, &mut given).unwrap();
        assert_eq!(arrivals(&given), [(0, 0), (1, 10)]);
        merger.give(true, &mut given).unwrap();
        assert_eq!(arrivals(&given), [(0, 0), (1, 10), (1, 40)]);
        assert_eq!(merger.losses().unmatched.get("Q without C"), Some(&1));
    }

    #[test]
    fn request_that_never_completes_is_emitted_incomplete() {
        let (mut merger, mut attribution) = gathered(2);
        let mut given = Vec::new();
        merger.hand(&[event(action::QUEUE, 1, 0, 0)], &mut attribution);
        let mut time = 0;
        while given.is_empty() {
            time += 10;
            let pair = [event(action::QUEUE, 2, time, 8), event(action::COMPLETE, 2, time + 1, 8)];
            merger.hand(&pair, &mut attribution);
            merger.give(false, &mut given).unwrap();
            assert!(merger.held() as u64 <= PENDING_RECORDS);
        }
        assert_eq!(arrivals(&given)[..2], [(0, 0), (1, 10)]);
        assert_eq!(given[0].1.observed.completed, None);
    }
}
