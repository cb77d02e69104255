//! The events of one file in the order of time.

use super::{Batch, EventFile, Findings, REORDER_EVENTS, rank};
use crate::error::ReadError;
use crate::events::Placed;

/// One file of a capture, read with a look ahead, so that late events are put in their places.
pub(in crate::formats) struct Stream<F> {
    file: F,
    ended: bool,
    /// Events in order of time, of which those before `next` were taken.
    ready: Vec<Placed>,
    next: usize,
    /// The events after them: events behind these cannot belong before `ready`'s end.
    ahead: Batch,
    /// Time of the last event that was taken.
    released: u64,
}

impl<F: EventFile> Stream<F> {
    /// Begins to read a file; one without events is no error.
    pub(in crate::formats) fn new(file: F, findings: &mut Findings) -> Result<Stream<F>, ReadError> {
        let ready = Vec::with_capacity(REORDER_EVENTS);
        let mut stream = Stream { file, ended: false, ready, next: 0, ahead: Batch::new(), released: 0 };
        stream.fill_ahead(findings)?;
        stream.refill(findings)?;
        Ok(stream)
    }

    pub(in crate::formats) fn file(&self) -> &F {
        &self.file
    }

    /// The next event, `None` at the end of the file.
    #[inline]
    pub(super) fn peek(&self) -> Option<&Placed> {
        self.ready.get(self.next)
    }

    /// The events that are ready to be taken, and the place of the next one.
    #[inline]
    pub(super) fn ready(&self) -> (&[Placed], usize) {
        (&self.ready, self.next)
    }

    /// Sets the device of a ready event.
    pub(super) fn set_device(&mut self, at: usize, device: u32) {
        if let Some(placed) = self.ready.get_mut(at) {
            placed.event.device = device;
        }
    }

    /// Goes past the ready events before `end`.
    pub(super) fn go_to(&mut self, end: usize, findings: &mut Findings) -> Result<(), ReadError> {
        self.next = end;
        if self.next == self.ready.len() { self.refill(findings) } else { Ok(()) }
    }

    /// Makes the events read ahead ready, and reads further ahead.
    #[cold]
    fn refill(&mut self, findings: &mut Findings) -> Result<(), ReadError> {
        if let Some(last) = self.ready.last() {
            self.released = last.event.time;
        }
        std::mem::swap(&mut self.ready, &mut self.ahead.events);
        self.ahead.events.clear();
        self.next = 0;
        self.fill_ahead(findings)?;
        if self.ahead.disordered {
            self.ahead.disordered = false;
            self.put_in_order(findings)?;
        }
        Ok(())
    }

    /// Sorts `ready` and `ahead` together and leaves as many ahead as there were.
    fn put_in_order(&mut self, findings: &mut Findings) -> Result<(), ReadError> {
        let split = self.ready.len();
        self.ready.append(&mut self.ahead.events);
        // Stable: events of one rank stay in the order of their file.
        self.ready.sort_by_key(|placed| rank(&placed.event));
        self.ahead.events.extend(self.ready.drain(split..));
        let late = self.ready.iter().take_while(|placed| placed.event.time < self.released).count();
        for placed in &self.ready[..late] {
            let by = self.released - placed.event.time;
            let why = format!("an event comes {by} ns late, more than {REORDER_EVENTS} events after its place");
            findings.out_of_order(&self.file, placed, why)?;
        }
        self.ready.drain(..late);
        if self.ready.is_empty() && !self.ahead.events.is_empty() {
            return self.refill(findings);
        }
        Ok(())
    }

    /// Reads events until [`REORDER_EVENTS`] are ahead or the file ends.
    fn fill_ahead(&mut self, findings: &mut Findings) -> Result<(), ReadError> {
        while !self.ended && !self.ahead.is_full() {
            self.ended = !self.file.read(&mut self.ahead, findings)?;
        }
        Ok(())
    }
}
