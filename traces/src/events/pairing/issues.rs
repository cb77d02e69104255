//! Requests as they are issued, where their issue is the arrival.

use super::Pairing;
use super::flush::flush_at_device;
use crate::events::arrival::{check, operation, request};
use crate::events::event::{Category, Event, action};
use crate::events::ring::Fate;
use crate::events::units::State;
use crate::events::watch::Watch;
use crate::request::Operation;
use crate::trace::Losses;
use crate::units::Timestamp;

impl Pairing {
    #[inline]
    pub(super) fn follow_requests<W: Watch + ?Sized>(
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
        check(event)?;
        let request = request(event, kind, now);
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
}
