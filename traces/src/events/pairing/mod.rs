//! Events to records: which queued bio an event is about, until its last part has completed.
//!
//! A bio is queued (Q) and either gets a request of its own (G) or is merged into one (M, F). The
//! request is given to the scheduler (I), issued (D), perhaps taken back (R) and issued again, and
//! completes (C); its bios follow it. Events carry no identity but an address, so that requests are
//! found by sector and kind of operation, the oldest first that is in a state the event fits.
//!
//! Flushes are distinguished by their length. A bio without data that asks for a flush is queued. The kernel's flush
//! machinery (`block/blk-flush.c`, Linux 6.1) sends a request of its own (`D FN`, `C FN`) for all bios that wait. Then
//! it completes each of them with a zero-length C without the flush bit. A write may want a flush before it, or one
//! after it because the device has no FUA. Such a write is issued and completed as data in between, and completes by a
//! second C, at its sector but without length.

mod flush;
mod issues;
mod run;

use std::collections::VecDeque;

use crate::events::arrival::{Aside, check, operation, request};
use crate::events::event::{Category, Event, action};
use crate::events::ring::{Fate, Ring, UNSEEN};
use crate::events::units::{State, Unit, Units};
use crate::events::watch::{Passage, Watch};
use crate::request::{Operation, Priority};
use crate::trace::{ArrivalPoint, Losses};
use crate::units::Timestamp;

/// Requests of the flush machinery that may be issued and not completed.
const FLUSHES_IN_FLIGHT: usize = 1024;

/// Which request of the flush machinery completed last.
#[derive(Clone, Copy)]
enum Served {
    /// None did: a device of bios only.
    None,
    /// One that was issued before the capture began, so that it serves nothing that is in it.
    Unseen,
    /// The one that was issued then.
    Issued(u64),
}

pub(super) struct Pairing {
    arrivals: ArrivalPoint,
    ring: Ring,
    units: Units,
    /// Serials of flushes in the order of their arrival.
    flushes: VecDeque<u64>,
    /// When the flush machinery's requests in flight were issued, and as which record.
    machinery: VecDeque<(u64, u64)>,
    /// The last of them that completed.
    served: Served,
    /// The device has requests, and is not one of bios only (device mapper, md).
    has_requests: bool,
    aside: Aside,
    /// Time of the event last taken, nanoseconds since the trace's zero.
    now: u64,
}

impl Pairing {
    pub(super) fn new(arrivals: ArrivalPoint) -> Pairing {
        Pairing {
            arrivals,
            ring: Ring::new(),
            units: Units::new(),
            flushes: VecDeque::new(),
            machinery: VecDeque::new(),
            served: Served::None,
            has_requests: false,
            aside: Aside::default(),
            now: 0,
        }
    }

    pub(super) fn aside(&self) -> &Aside {
        &self.aside
    }

    /// Arrival of the oldest record inside.
    pub(super) fn oldest(&self) -> Option<Timestamp> {
        self.ring.oldest()
    }

    /// Whether [`Pairing::next`] may give a record before the end.
    #[inline]
    pub(super) fn may_give(&self) -> bool {
        self.ring.changed()
    }

    /// The next record that is complete after the events taken, or when `ended` any that is left.
    // Inlined always, so that a record is not copied for a caller that only reads it.
    #[inline(always)]
    pub(super) fn next<W: Watch + ?Sized>(
        &mut self,
        ended: bool,
        losses: &mut Losses,
        watch: &mut W,
    ) -> Option<Passage> {
        let now = self.now;
        // Also at the end: withdrawn records are not to be seen.
        let ready = self.ring.ready();
        if !ready && !ended && !self.ring.overdue(now) {
            self.ring.looked();
            return None;
        }
        let left = self.ring.pop()?;
        if left.open {
            watch.given_up(Timestamp::from_ns(now), left.passage.record.request.operation);
        }
        if left.unfinished {
            losses.unmatched(match self.arrivals {
                ArrivalPoint::Queued => "Q without C",
                ArrivalPoint::Issued => "D without C",
            });
            let request = &left.passage.record.request;
            self.units.forget(request, &self.ring, |operation| {
                watch.taken_back(Timestamp::from_ns(now), operation);
            });
        }
        Some(left.passage)
    }

    /// Takes in one event that happened `now` nanoseconds after the trace's zero.
    ///
    /// # Errors
    /// The fault in the event, if it would be an arrival.
    #[inline(always)]
    fn event<W: Watch + ?Sized>(
        &mut self,
        event: &Event,
        now: u64,
        losses: &mut Losses,
        watch: &mut W,
    ) -> Result<(), String> {
        if event.is(Category::PASSTHROUGH) {
            self.aside.passthrough += 1;
            return Ok(());
        }
        match self.arrivals {
            ArrivalPoint::Queued => self.follow_bios(event, now, losses, watch),
            ArrivalPoint::Issued => self.follow_requests(event, now, losses, watch),
        }
    }

    // Inlined always, with the functions that it calls for most events: a call costs as much as the look-up of a
    // request.
    #[inline(always)]
    fn follow_bios<W: Watch + ?Sized>(
        &mut self,
        event: &Event,
        now: u64,
        losses: &mut Losses,
        watch: &mut W,
    ) -> Result<(), String> {
        match event.code() {
            action::QUEUE => return self.queued(event, now, watch),
            action::COMPLETE => self.completed(event, now, losses, watch),
            action::ISSUE => self.issued(event, now, losses, watch),
            action::INSERT => self.inserted(event, now, losses),
            action::GET_REQUEST => self.got_request(event, now, losses),
            action::PLUG | action::UNPLUG | action::UNPLUG_TIMER | action::SLEEP => {}
            action::BACK_MERGE | action::FRONT_MERGE => self.merged(event, now, losses),
            action::SPLIT => self.split(event, losses),
            action::REQUEUE => {
                self.aside.requeues += 1;
                match self.units.find(event, &[State::Issued]) {
                    Some(unit) => {
                        self.units.set_state(unit, State::Inserted);
                        self.take_back(unit, now, watch);
                    }
                    None => losses.unmatched("R without D"),
                }
            }
            _ => self.rare(event, losses),
        }
        Ok(())
    }

    #[cold]
    fn rare(&mut self, event: &Event, losses: &mut Losses) {
        match event.code() {
            action::REMAP => self.aside.remaps += 1,
            action::BOUNCE => self.aside.bounces += 1,
            action::DRIVER_DATA => self.aside.driver_data += 1,
            action::ABORT => losses.unmatched("abort"),
            other => losses.unmatched(&format!("unknown action {other}")),
        }
    }

    #[inline]
    fn queued<W: Watch + ?Sized>(&mut self, event: &Event, now: u64, watch: &mut W) -> Result<(), String> {
        if event.bytes == 0 {
            if event.is(Category::FLUSH) {
                check(event)?;
                let request = request(event, Operation::Flush, now);
                watch.queued(request.arrival, &request);
                let serial = self.ring.push(request, event.cgroup);
                while self.flushes.front().is_some_and(|serial| !self.ring.holds(*serial)) {
                    self.flushes.pop_front();
                }
                self.flushes.push_back(serial);
            } else {
                self.aside.without_data += 1;
            }
            return Ok(());
        }
        if self.units.is_remainder(event) {
            return Ok(());
        }
        check(event)?;
        let request = request(event, operation(event), now);
        watch.queued(request.arrival, &request);
        let serial = self.ring.push(request, event.cgroup);
        self.units.open(event, serial, State::Queued);
        Ok(())
    }

    #[inline(always)]
    fn got_request(&mut self, event: &Event, now: u64, losses: &mut Losses) {
        if event.bytes == 0 {
            return;
        }
        match self.units.find(event, &[State::Queued]) {
            Some(unit) => {
                self.units.make_mergeable(unit, State::Got);
                if let Some(slot) = self.ring.get(self.units.get(unit).serial)
                    && slot.got == UNSEEN
                {
                    slot.got = now;
                }
            }
            None => losses.unmatched("G without Q"),
        }
    }

    #[inline(always)]
    fn inserted(&mut self, event: &Event, now: u64, losses: &mut Losses) {
        if event.bytes == 0 {
            return;
        }
        let Some(unit) = self.units.find(event, &[State::Got, State::Queued, State::Inserted]) else {
            return losses.unmatched("I without Q");
        };
        self.units.make_mergeable(unit, State::Inserted);
        self.units.each_part(unit, |part| {
            if let Some(slot) = self.ring.get(part.serial)
                && slot.inserted == UNSEEN
            {
                slot.inserted = now;
                if event.priority != Priority::NONE {
                    slot.request.priority = event.priority;
                }
            }
        });
    }

    #[inline]
    fn issued<W: Watch + ?Sized>(&mut self, event: &Event, now: u64, losses: &mut Losses, watch: &mut W) {
        self.has_requests = true;
        if event.bytes == 0 {
            if event.is(Category::FLUSH) {
                self.machinery_issued(now, 0, losses, watch);
            }
            return;
        }
        let Some(unit) = self.units.find(event, &[State::Inserted, State::Got, State::Queued]) else {
            return losses.unmatched("D without Q");
        };
        let again = self.units.issue(unit, event, now);
        watch.issued(&self.units.get(unit).at_device());
        self.units.each_part(unit, |part| {
            if let Some(slot) = self.ring.get(part.serial) {
                if slot.issued == UNSEEN || again || !slot.split {
                    slot.issued = now;
                }
                // Without a scheduler there is no I, which would show it first.
                if slot.request.priority == Priority::NONE {
                    slot.request.priority = event.priority;
                }
            }
        });
    }

    #[inline]
    fn completed<W: Watch + ?Sized>(&mut self, event: &Event, now: u64, losses: &mut Losses, watch: &mut W) {
        if event.bytes == 0 {
            return self.completed_without_length(event, now, losses, watch);
        }
        let issued = self.units.find(event, &[State::Issued]);
        if let Some(unit) = issued {
            if self.units.get(unit).flush_sequence && event.end() >= self.units.get(unit).end {
                // The data is written; the sequence ends with the C without length.
                self.units.set_state(unit, State::Flushing);
                self.device_done(unit, now, watch);
                let error = event.errno();
                self.units.each_part(unit, |part| {
                    if let Some(slot) = self.ring.get(part.serial) {
                        slot.error = error;
                    }
                });
                return;
            }
            return self.finish(unit, event, now, watch);
        }
        // Without D: a device of bios only, or a flush sequence that failed before its data.
        if self.has_requests && event.error == 0 {
            return losses.unmatched("C without D");
        }
        match self.units.find(event, &[State::Inserted, State::Got, State::Queued]) {
            Some(unit) => self.finish(unit, event, now, watch),
            None => losses.unmatched("C without Q"),
        }
    }

    fn merged(&mut self, event: &Event, now: u64, losses: &mut Losses) {
        self.aside.merges += 1;
        let Some(unit) = self.units.find_whole(event) else {
            return losses.unmatched("M without Q");
        };
        let front = event.code() == action::FRONT_MERGE;
        let ring = &mut self.ring;
        let found = self.units.merge(unit, front, |serial, state| {
            if let Some(slot) = ring.get(serial) {
                if slot.merged == UNSEEN {
                    slot.merged = now;
                }
                if state == State::Inserted && slot.inserted == UNSEEN {
                    slot.inserted = now;
                }
            }
        });
        if !found {
            // The request was there before the capture began: no event that names this bio follows.
            losses.unmatched("M without its request");
            self.units.close(unit, |serial| {
                self.ring.seal(serial, Fate::Abandoned);
            });
        }
    }

    fn split(&mut self, event: &Event, losses: &mut Losses) {
        self.aside.splits += 1;
        let Some(unit) = self.units.find(event, &[State::Queued]) else {
            return losses.unmatched("X without Q");
        };
        let Unit { serial, end, .. } = *self.units.get(unit);
        let slot = self.ring.get(serial).filter(|slot| slot.open < u16::MAX);
        match slot {
            Some(slot) if event.bytes > 0 && event.end() < end => {
                slot.open += 1;
                slot.split = true;
                self.units.split(unit, event);
            }
            _ => losses.unmatched("X that splits nothing"),
        }
    }

    /// A C with the length of all of a unit or of its first sectors.
    #[inline(always)]
    fn finish<W: Watch + ?Sized>(&mut self, unit: u32, event: &Event, now: u64, watch: &mut W) {
        let (done, all) = (event.end(), self.units.get(unit).end);
        let ring = &mut self.ring;
        if event.bytes > 0 && done < all {
            self.units.each_part(unit, |part| {
                if part.end <= done {
                    complete(ring, part.serial, now, event, watch);
                    part.serial = UNSEEN;
                }
            });
            self.units.shorten(unit, done);
        } else {
            self.device_done(unit, now, watch);
            let ring = &mut self.ring;
            self.units.close(unit, |serial| complete(ring, serial, now, event, watch));
        }
    }

    fn complete<W: Watch + ?Sized>(&mut self, serial: u64, now: u64, event: &Event, watch: &mut W) {
        complete(&mut self.ring, serial, now, event, watch);
    }

    /// The device has completed a unit, if it had it.
    #[inline(always)]
    fn device_done<W: Watch + ?Sized>(&mut self, unit: u32, now: u64, watch: &mut W) {
        if self.units.back_from_device(unit) {
            watch.completed(Timestamp::from_ns(now), &self.units.get(unit).at_device());
        }
    }

    /// The device has given a unit back undone.
    fn take_back<W: Watch + ?Sized>(&mut self, unit: u32, now: u64, watch: &mut W) {
        if self.units.back_from_device(unit) {
            watch.taken_back(Timestamp::from_ns(now), self.units.get(unit).at_device().operation);
        }
    }
}

#[inline(always)]
fn complete<W: Watch + ?Sized>(ring: &mut Ring, serial: u64, now: u64, event: &Event, watch: &mut W) {
    if let Some(request) = ring.complete(serial, now, event.errno()) {
        watch.finished(Timestamp::from_ns(now), request);
    }
}
