//! The files of all CPUs merged into one sequence of events of one device.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};

use super::devices::{self, Devices, UNTOLD};
use super::numbers::{Gap, Numbers};
use super::{EventFile, Findings, Stream};
use crate::error::{Place, Problem, ReadError};
use crate::events::{Event, Placed};

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
    /// The device that is read; `UNTOLD` while none is known.
    device: u32,
    devices: Devices,
    zero: u64,
    run: Run,
    /// Several runs one after another, since most are of a few events only.
    merged: Vec<Placed>,
    /// Where in `merged` each of them ends, and the stream it is of.
    ends: Vec<(usize, usize)>,
    /// What stands after them.
    failure: Option<ReadError>,
    /// The capture, as it was named.
    named: PathBuf,
}

/// As many events are merged before they are looked at: few enough to stay in a processor's nearest
/// cache.
const MERGED_EVENTS: usize = 64;

/// Events of one stream that follow one another: none of another file, device or CPU, nor a missing
/// number, is between them, so that all is checked for the whole run at once.
#[derive(Clone, Copy, Default)]
struct Run {
    stream: usize,
    /// Where it begins and ends among what its stream has ready.
    at: usize,
    end: usize,
}

impl<F: EventFile> Merge<F> {
    /// Merges the files of the capture `named`, of the device of that name or the first that comes.
    ///
    /// # Errors
    /// No event in any file; a name of a device that is none; what the files say.
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
            return Err(ReadError::new(named, Place::Whole, Problem::Empty));
        };
        let told = |stream: &Stream<F>| {
            let mut devices = stream.ready().0.iter().map(|placed| placed.event.device);
            devices.find(|device| *device != UNTOLD)
        };
        Ok(Merge {
            current: Some(first),
            challenge: rest.peek().map_or(u64::MAX, |Reverse(key)| key.0),
            rest,
            numbers: Numbers::new(),
            device: device.or_else(|| told(&streams[first])).unwrap_or(UNTOLD),
            devices,
            zero,
            run: Run::default(),
            merged: Vec::with_capacity(2 * MERGED_EVENTS),
            ends: Vec::new(),
            failure: None,
            named: named.to_owned(),
            streams,
        })
    }

    /// The device that is read, if one is known yet.
    pub(super) fn device(&self) -> Option<u32> {
        (self.device != UNTOLD).then_some(self.device)
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
        let stream = self.ends.iter().find(|(end, _)| number < *end).map_or(self.run.stream, |(_, stream)| *stream);
        let at = self.merged.get(number).map_or(0, |placed| placed.at);
        (self.streams[stream].file().path(), F::place(at))
    }

    /// Goes to the next events of the device that is read; false at the end of the capture.
    pub(super) fn next(&mut self, findings: &mut Findings) -> Result<bool, ReadError> {
        self.merged.clear();
        self.ends.clear();
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        while self.merged.len() < MERGED_EVENTS {
            match self.next_run(findings) {
                Ok(true) => {}
                Ok(false) => break,
                Err(failure) if self.merged.is_empty() => return Err(failure),
                Err(failure) => {
                    self.failure = Some(failure);
                    break;
                }
            }
            let Run { stream, at, end } = self.run;
            self.merged.extend_from_slice(&self.streams[stream].ready().0[at..end]);
            self.ends.push((self.merged.len(), stream));
        }
        Ok(!self.merged.is_empty())
    }

    fn next_run(&mut self, findings: &mut Findings) -> Result<bool, ReadError> {
        if self.run.end > 0 {
            let Run { stream, end, .. } = std::mem::take(&mut self.run);
            self.go_past(stream, end, findings)?;
        }
        while let Some(current) = self.current {
            let (ready, at) = self.streams[current].ready();
            let Some(&Placed { event: first, .. }) = ready.get(at) else {
                // Only the refused events of a lenient read can leave a stream like that.
                self.switch(current);
                continue;
            };
            self.run = Run { stream: current, at, end: at + 1 };
            if first.device == self.device {
                self.devices.found();
            } else if !self.is_ours(&first, findings)? {
                self.go_past(current, at + 1, findings)?;
                continue;
            }
            if self.numbers.expected(&first) {
                let (ready, _) = self.streams[current].ready();
                let follows =
                    |placed: &&Placed| placed.event.time < self.challenge && placed.event.device == self.device;
                let following = ready[at + 1..].iter().take_while(follows).map(|placed| &placed.event);
                self.run.end += self.numbers.expected_after(first.cpu, following);
            } else {
                let gaps = self.numbers.unexpected(&first, self.position(), findings);
                self.believe(&gaps, findings)?;
            }
            return Ok(true);
        }
        let gaps = self.numbers.end();
        self.believe(&gaps, findings)?;
        self.devices.at_end(self.device, &self.named)?;
        Ok(false)
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
    #[inline]
    pub(super) fn run(&self) -> &[Placed] {
        &self.merged
    }

    /// Stream and place of the first event of the run.
    fn position(&self) -> (usize, u64) {
        let Run { stream, at, .. } = self.run;
        (stream, self.streams[stream].ready().0.get(at).map_or(0, |placed| placed.at))
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

    /// Whether the current event, whose device is not the one that is read, belongs to it all the
    /// same.
    #[cold]
    fn is_ours(&mut self, event: &Event, findings: &mut Findings) -> Result<bool, ReadError> {
        if event.device == UNTOLD {
            // Of a single device it can only be its own; of several its number tells, if it has one.
            let numbered = F::NUMBERED && self.numbers.are_there();
            let ours = !numbered || !self.devices.several() || self.numbers.is_next(event);
            self.streams[self.run.stream].set_device(self.run.at, self.device);
            return Ok(ours);
        }
        if self.device == UNTOLD {
            self.device = event.device;
            return Ok(true);
        }
        self.devices.other(event.device);
        if self.devices.asked_for() {
            findings.count("events_of_other_devices");
        } else if findings.lenient {
            findings.losses.skip("event of another device");
        } else {
            return Err(self.another_device(event.device));
        }
        Ok(false)
    }

    #[cold]
    fn another_device(&self, other: u32) -> ReadError {
        let (stream, at) = self.position();
        let (path, place) = (self.streams[stream].file().path(), F::place(at));
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
            gap.lost(self.streams[stream].file().path(), F::place(at), findings)?;
        }
        Ok(())
    }
}

fn key<F: EventFile>(stream: &Stream<F>, number: usize) -> Option<Key> {
    stream.peek().map(|Placed { event, .. }| (event.time, event.cpu, event.sequence, number))
}
