//! The files of all CPUs merged into one sequence of events of one device.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};

use super::devices::{self, Devices, NO_DEVICE};
use super::numbers::{Gap, Numbers};
use super::{EventFile, Findings, Stream};
use crate::error::{Place, Problem, ReadError};
use crate::events::Placed;
use crate::formats::check_something_read;

/// Order of events: time, then CPU and number, and last the file so that it is total.
type Key = (u64, u32, u32, usize);

/// The k-way merge.
pub(in crate::formats) struct Merge<F> {
    streams: Vec<Stream<F>>,
    /// The stream the next event comes from.
    current: Option<usize>,
    /// The first events of all other streams that have one.
    rest: BinaryHeap<Reverse<Key>>,
    /// Time of the first of those: `current` is read up to it without a look at the others.
    challenge: u64,
    numbers: Numbers,
    /// The device that is read; `NO_DEVICE` while none is known.
    device: u32,
    devices: Devices,
    zero: u64,
    /// Events that follow one another, of one device.
    merged: Vec<Placed>,
    /// The streams that `merged` is of, in turn, and where in it the events of each turn end.
    turns: Vec<(usize, usize)>,
    /// The fault in the input after it.
    failure: Option<ReadError>,
    /// The capture, as it was named.
    named: PathBuf,
}

/// The number of events that are merged before they are processed. Streams take turns every few events, so there must
/// be enough to make up for going there and back. There must be few enough to stay in a processor's nearest cache.
const MERGED_EVENTS: usize = 64;

impl<F: EventFile> Merge<F> {
    /// Merges the files of the capture `named`, of the device of that name or the first that comes.
    ///
    /// # Errors
    /// No event in any file; a name of a device that is none; an error of a file.
    pub(in crate::formats) fn new(
        files: impl IntoIterator<Item = Result<F, ReadError>>,
        named: &Path,
        device: Option<&str>,
        findings: &mut Findings,
    ) -> Result<Merge<F>, ReadError> {
        let (devices, device) = Devices::new(device, named)?;
        let mut streams = Vec::new();
        let mut rest = BinaryHeap::new();
        for file in files {
            let stream = Stream::new(file?, findings)?;
            rest.extend(key(&stream, streams.len()).map(Reverse));
            streams.push(stream);
        }
        let Some(Reverse((zero, _, _, first))) = rest.pop() else {
            check_something_read(named, 0, &findings.losses)?;
            return Err(ReadError::new(named, Place::Whole, Problem::Empty));
        };
        let device_of = |stream: &Stream<F>| {
            let mut devices = stream.ready().0.iter().map(|placed| placed.event.device);
            devices.find(|device| *device != NO_DEVICE)
        };
        Ok(Merge {
            current: Some(first),
            challenge: rest.peek().map_or(u64::MAX, |Reverse(key)| key.0),
            rest,
            numbers: Numbers::new(),
            device: device.or_else(|| device_of(&streams[first])).unwrap_or(NO_DEVICE),
            devices,
            zero,
            merged: Vec::new(),
            turns: Vec::new(),
            failure: None,
            named: named.to_owned(),
            streams,
        })
    }

    /// The device that is read, if one is known yet.
    pub(super) fn device(&self) -> Option<u32> {
        (self.device != NO_DEVICE).then_some(self.device)
    }

    /// Time of the earliest event.
    pub(super) fn zero(&self) -> u64 {
        self.zero
    }

    /// CPUs that events came from so far, and whether these have numbers.
    pub(super) fn cpus(&self) -> (impl Iterator<Item = usize> + '_, bool) {
        (self.numbers.cpus(), self.numbers.are_there())
    }

    /// The files.
    pub(super) fn files(&self) -> impl ExactSizeIterator<Item = &F> {
        self.streams.iter().map(Stream::file)
    }

    /// Path and place of a merged event.
    pub(super) fn place(&self, number: usize) -> (&Path, Place) {
        let turn = self.turns.partition_point(|(_, end)| *end <= number);
        self.place_in(self.turns[turn].0, self.merged[number].at)
    }

    fn place_in(&self, stream: usize, at: u64) -> (&Path, Place) {
        (self.streams[stream].file().path(), F::place(at))
    }

    /// Goes to the next events of the device that is read; false at the end of the capture.
    pub(super) fn next(&mut self, findings: &mut Findings) -> Result<bool, ReadError> {
        self.merged.clear();
        self.turns.clear();
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        while self.merged.len() < MERGED_EVENTS {
            match self.take_turn(findings) {
                Ok(true) => {}
                Ok(false) => break,
                Err(failure) if self.merged.is_empty() => return Err(failure),
                Err(failure) => {
                    // Earlier events are to be processed first.
                    self.failure = Some(failure);
                    break;
                }
            }
        }
        Ok(!self.merged.is_empty())
    }

    /// Takes events of the current stream up to the first of another one, of another device or with
    /// an unexpected number, perhaps none; false at the end of the capture.
    fn take_turn(&mut self, findings: &mut Findings) -> Result<bool, ReadError> {
        let Some(current) = self.current else {
            let gaps = self.numbers.end();
            self.believe(&gaps, findings)?;
            self.devices.at_end(self.device, &self.named)?;
            return Ok(false);
        };
        let (ready, at) = self.streams[current].ready();
        let Some(&Placed { event: first, at: place }) = ready.get(at) else {
            // Only the refused events of a lenient read can leave a stream like that.
            self.switch(current);
            return Ok(true);
        };
        let is_read = first.device == self.device;
        if !is_read && !self.is_ours(current, at, findings)? {
            self.go_past(current, at + 1, findings)?;
            return Ok(true);
        }
        if !self.numbers.expected(&first) {
            let gaps = self.numbers.unexpected(&first, (current, place), findings);
            self.believe(&gaps, findings)?;
        }
        let (challenge, device) = (self.challenge, self.device);
        let numbers = &mut self.numbers;
        let follows = |Placed { event, .. }: &&Placed| {
            event.time < challenge && event.device == device && numbers.expected(event)
        };
        let (ready, _) = self.streams[current].ready();
        let end = at + 1 + ready[at + 1..].iter().take_while(follows).count();
        if is_read || end > at + 1 {
            self.devices.found();
        }
        self.merged.extend_from_slice(&ready[at..end]);
        self.turns.push((current, self.merged.len()));
        self.go_past(current, end, findings)?;
        Ok(true)
    }

    /// Leaves the current stream's ready events before `end` behind.
    fn go_past(&mut self, current: usize, end: usize, findings: &mut Findings) -> Result<(), ReadError> {
        let stream = &mut self.streams[current];
        stream.go_to(end, findings)?;
        if stream.peek().is_none_or(|placed| placed.event.time >= self.challenge) {
            self.switch(current);
        }
        Ok(())
    }

    /// The events that [`Merge::next`] went to.
    pub(super) fn run(&self) -> &[Placed] {
        &self.merged
    }

    /// Goes on with the stream whose event is first.
    fn switch(&mut self, current: usize) {
        match (key(&self.streams[current], current), self.rest.peek_mut()) {
            (None, None) => self.current = None,
            (Some(_), None) => {}
            (None, Some(top)) => {
                let Reverse(key) = std::collections::binary_heap::PeekMut::pop(top);
                self.current = Some(key.3);
            }
            (Some(key), Some(mut top)) => {
                if key > top.0 {
                    self.current = Some(top.0.3);
                    *top = Reverse(key);
                }
            }
        }
        self.challenge = self.rest.peek().map_or(u64::MAX, |Reverse(key)| key.0);
    }

    /// Whether a ready event, whose device is not the one that is read, belongs to it all the same.
    #[cold]
    fn is_ours(&mut self, stream: usize, at: usize, findings: &mut Findings) -> Result<bool, ReadError> {
        let Placed { event, at: place } = self.streams[stream].ready().0[at];
        if event.device == NO_DEVICE {
            // Of a single device it can only be its own; of several its number decides, if it has one.
            let numbered = F::NUMBERED && self.numbers.are_there();
            let ours = !numbered || !self.devices.several() || self.numbers.is_next(&event);
            self.streams[stream].set_device(at, self.device);
            return Ok(ours);
        }
        if self.device == NO_DEVICE {
            self.device = event.device;
            return Ok(true);
        }
        self.devices.other(event.device);
        if self.devices.asked_for() {
            findings.count("events_of_other_devices");
        } else if findings.lenient {
            findings.losses.skip("event of another device");
        } else {
            return Err(self.another_device(event.device, self.place_in(stream, place)));
        }
        Ok(false)
    }

    #[cold]
    fn another_device(&self, other: u32, (path, place): (&Path, Place)) -> ReadError {
        let (this, other) = (devices::name(self.device), devices::name(other));
        let why = format!("an event of device {other} in a capture of device {this}; a trace is of one device");
        ReadError::malformed(path, place, why).remedy(format!(
            "--device {this} or --device {other} reads one of them; --lenient reads the first and counts the \
             events of others"
        ))
    }

    fn believe(&self, gaps: &[Gap], findings: &mut Findings) -> Result<(), ReadError> {
        for gap in gaps {
            let (stream, at) = gap.place();
            let (path, place) = self.place_in(stream, at);
            gap.lost(path, place, findings)?;
        }
        Ok(())
    }
}

fn key<F: EventFile>(stream: &Stream<F>, number: usize) -> Option<Key> {
    stream.peek().map(|Placed { event, .. }| (event.time, event.cpu, event.sequence, number))
}
