//! Flushes: those that requests wait for, and those of the kernel's flush machinery.

use super::{FLUSHES_IN_FLIGHT, Pairing, Served};
use crate::events::event::{Category, Event};
use crate::events::units::State;
use crate::events::watch::{DeviceRequest, Watch};
use crate::request::{Operation, StreamId, VmId};
use crate::trace::Losses;
use crate::units::{Lba, Sectors, Timestamp};

impl Pairing {
    pub(super) fn machinery_issued<W: Watch + ?Sized>(
        &mut self,
        now: u64,
        serial: u64,
        losses: &mut Losses,
        watch: &mut W,
    ) {
        watch.issued(&flush_at_device(now));
        if self.machinery.len() == FLUSHES_IN_FLIGHT {
            self.machinery.pop_front();
            watch.taken_back(Timestamp::from_ns(now), Operation::Flush);
            losses.unmatched("D FN without C FN");
        }
        self.machinery.push_back((now, serial));
    }

    pub(super) fn completed_without_length<W: Watch + ?Sized>(
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
}

/// A request of the flush machinery.
pub(super) fn flush_at_device(issued: u64) -> DeviceRequest {
    let issued = Timestamp::from_ns(issued);
    let (operation, lba, sectors) = (Operation::Flush, Lba::ZERO, Sectors::ZERO);
    DeviceRequest { issued, operation, lba, sectors, vm: VmId(0), stream: StreamId(0) }
}
