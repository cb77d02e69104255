//! Events to records: which queued bio an event is about, until its last part has completed.
//!
//! A bio is queued (Q) and either gets a request of its own (G) or is merged into one (M, F). The
//! request is given to the scheduler (I), issued (D), perhaps taken back (R) and issued again, and
//! completes (C); its bios follow it. Events carry no identity but an address, so that requests are
//! found by sector and kind of operation, the oldest first that is in a state the event fits.
//!
//! Flushes are told apart by their length. A bio without data that asks for a flush is queued; the
//! kernel's flush machinery (`block/blk-flush.c`, Linux 6.1) sends a request of its own (`D FN`,
//! `C FN`) for all bios that wait, then completes each of them with a zero-length C without the
//! flush bit. A write that wants a flush before it, or one after it because the device has no FUA,
//! is issued and completed as data in between, and completes by a second C, at its sector but
//! without length.

use std::collections::VecDeque;

use super::arrival::{Aside, operation, request};
use super::event::{Category, Event, action};
use super::ring::{Fate, Ring, UNSEEN};
use super::units::{State, Unit, Units};
use super::watch::{DeviceRequest, Passage, Watch};
use crate::request::{Operation, Priority, VmId};
use crate::trace::{ArrivalPoint, Losses};
use crate::units::{Lba, Sectors, Timestamp};

/// Records that may wait for their completion; an older one leaves without.
pub const PENDING_RECORDS: u64 = 131_072;

/// How long a record may wait for its completion, nanoseconds; an older one leaves without. Above
/// any time-out of a driver (SCSI disks 30 s, NVMe 30 s) with its retries.
pub const PENDING_NS: u64 = 120_000_000_000;

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
        }
    }

    pub(super) fn aside(&self) -> &Aside {
        &self.aside
    }

    /// The next record that is complete, at time `now`, or when `ended` any that is left.
    // Inlined always: the readers of all formats of events share it, and mostly it gives nothing.
    #[inline(always)]
    pub(super) fn next<W: Watch + ?Sized>(
        &mut self,
        now: u64,
        ended: bool,
        losses: &mut Losses,
        watch: &mut W,
    ) -> Option<Passage> {
        if self.ring.changed() || ended { self.leave(now, ended, losses, watch) } else { None }
    }

    fn leave<W: Watch + ?Sized>(
        &mut self,
        now: u64,
        ended: bool,
        losses: &mut Losses,
        watch: &mut W,
    ) -> Option<Passage> {
        // Also at the end: withdrawn records are not to be seen.
        let ready = self.ring.ready();
        if !ready && !ended && !self.ring.oldest().is_some_and(|arrival| self.overdue(now, arrival)) {
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

    /// Whether a record that arrived then, the oldest, has waited long enough.
    fn overdue(&self, now: u64, arrival: u64) -> bool {
        self.ring.pending() > PENDING_RECORDS || now.saturating_sub(arrival) > PENDING_NS
    }

    /// Takes in one event that happened `now` nanoseconds after the trace's zero.
    ///
    /// # Errors
    /// What is wrong with it, if it would be an arrival.
    #[inline]
    pub(super) fn event<W: Watch + ?Sized>(
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

    // Inlined always, as `next`: what most readers do for every event.
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

    #[inline]
    fn follow_requests<W: Watch + ?Sized>(
        &mut self,
        event: &Event,
        now: u64,
        losses: &mut Losses,
        watch: &mut W,
    ) -> Result<(), String> {
        match event.code() {
            action::ISSUE => return self.arrived_at_device(event, now, losses, watch),
            action::COMPLETE if event.bytes > 0 => match self.units.find(event, &[State::Issued]) {
                Some(unit) => self.finish(unit, event, now, watch),
                None => losses.unmatched("C without D"),
            },
            action::COMPLETE if event.is(Category::FLUSH) => match self.machinery.pop_front() {
                Some((issued, serial)) => {
                    self.complete(serial, now, event, watch);
                    watch.completed(Timestamp::from_ns(now), &flush_at_device(issued));
                }
                None => losses.unmatched("C FN without D FN"),
            },
            action::REQUEUE if event.bytes > 0 => {
                self.aside.requeues += 1;
                match self.units.find(event, &[State::Issued]) {
                    // The device never had it: the D that follows is the arrival.
                    Some(unit) => {
                        self.take_back(unit, now, watch);
                        self.units.close(unit, |serial| {
                            if let Some(request) = self.ring.seal(serial, Fate::Withdrawn) {
                                watch.given_up(Timestamp::from_ns(now), request.operation);
                            }
                        });
                    }
                    None => losses.unmatched("R without D"),
                }
            }
            // A bio of the other arrival point, or the end of a flush sequence.
            action::QUEUE..=action::UNPLUG_TIMER | action::INSERT => {}
            action::SPLIT => self.aside.splits += 1,
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

    fn queued<W: Watch + ?Sized>(&mut self, event: &Event, now: u64, watch: &mut W) -> Result<(), String> {
        if event.bytes == 0 {
            if event.is(Category::FLUSH) {
                let request = request(event, Operation::Flush, now)?;
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
        let request = request(event, operation(event), now)?;
        watch.queued(request.arrival, &request);
        let serial = self.ring.push(request, event.cgroup);
        self.units.open(event, serial, State::Queued);
        Ok(())
    }

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
                // Without a scheduler there is no I, which tells it first.
                if slot.request.priority == Priority::NONE {
                    slot.request.priority = event.priority;
                }
            }
        });
    }

    fn machinery_issued<W: Watch + ?Sized>(&mut self, now: u64, serial: u64, losses: &mut Losses, watch: &mut W) {
        watch.issued(&flush_at_device(now));
        if self.machinery.len() == FLUSHES_IN_FLIGHT {
            self.machinery.pop_front();
            watch.taken_back(Timestamp::from_ns(now), Operation::Flush);
            losses.unmatched("D FN without C FN");
        }
        self.machinery.push_back((now, serial));
    }

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

    fn completed_without_length<W: Watch + ?Sized>(
        &mut self,
        event: &Event,
        now: u64,
        losses: &mut Losses,
        watch: &mut W,
    ) {
        if event.is(Category::FLUSH) {
            if let Some((issued, _)) = self.machinery.pop_front() {
                self.served = Served::Issued(issued);
                watch.completed(Timestamp::from_ns(now), &flush_at_device(issued));
                return;
            }
            if self.has_requests || !event.is(Category::WRITE) {
                self.served = Served::Unseen;
                return losses.unmatched("C FN without D FN");
            }
        }
        if let Some(unit) = self.units.find(event, &[State::Flushing]) {
            return self.finish(unit, event, now, watch);
        }
        while self.flushes.front().is_some_and(|serial| !self.ring.holds(*serial)) {
            self.flushes.pop_front();
        }
        let (ring, served) = (&mut self.ring, self.served);
        let Some(slot) = self.flushes.front().and_then(|serial| ring.get(*serial)) else {
            return losses.unmatched("C of a flush without Q");
        };
        match served {
            Served::None => {}
            Served::Issued(issued) if issued >= slot.request.arrival.as_ns() => slot.issued = issued,
            // The machinery was sent before this flush came: it ends one from before the capture.
            Served::Unseen | Served::Issued(_) => return losses.unmatched("C of a flush without Q"),
        }
        if let Some(serial) = self.flushes.pop_front() {
            self.complete(serial, now, event, watch);
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

    fn arrived_at_device<W: Watch + ?Sized>(
        &mut self,
        event: &Event,
        now: u64,
        losses: &mut Losses,
        watch: &mut W,
    ) -> Result<(), String> {
        if event.bytes == 0 && !event.is(Category::FLUSH) {
            self.aside.without_data += 1;
            return Ok(());
        }
        let kind = if event.bytes == 0 { Operation::Flush } else { operation(event) };
        let request = request(event, kind, now)?;
        watch.queued(request.arrival, &request);
        let serial = self.ring.push(request, event.cgroup);
        if let Some(slot) = self.ring.get(serial) {
            slot.issued = now;
        }
        if kind == Operation::Flush {
            self.machinery_issued(now, serial, losses, watch);
        } else {
            let unit = self.units.open(event, serial, State::Issued);
            self.units.sent(unit, now);
            watch.issued(&self.units.get(unit).at_device());
        }
        Ok(())
    }

    /// A C with the length of all of a unit or of its first sectors.
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

/// A request of the flush machinery.
fn flush_at_device(issued: u64) -> DeviceRequest {
    let issued = Timestamp::from_ns(issued);
    DeviceRequest { issued, operation: Operation::Flush, lba: Lba::ZERO, sectors: Sectors::ZERO, vm: VmId(0) }
}

#[inline]
fn complete<W: Watch + ?Sized>(ring: &mut Ring, serial: u64, now: u64, event: &Event, watch: &mut W) {
    if let Some(request) = ring.complete(serial, now, event.errno()) {
        watch.finished(Timestamp::from_ns(now), request);
    }
}
