//! What is known of each request, the queues' requests in order by sector and by age, and which of
//! two goes first.

use traces::{Flags, Operation, Request, RequestId};

use crate::order::Order;
use crate::slots::Slots;

use super::service::NONE;

/// Sectors that an order tells apart: 8 PiB; what lies beyond is ordered by age.
const SECTOR_BITS: u32 = 44;

/// Where a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Place {
    /// Nowhere: unknown, finished or cancelled.
    #[default]
    Gone,
    /// Waits in its queue.
    Queued,
    /// Came back unserved and goes before all that are in queues.
    Listed,
    /// Was sent.
    Sent,
}

/// One request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waiting {
    pub(super) place: Place,
    pub(super) queue: u32,
    pub(super) process: u32,
    pub(super) sector: u64,
    pub(super) sectors: u32,
    pub(super) sync: bool,
    pub(super) meta: bool,
    pub(super) operation: Option<Operation>,
    /// When it has waited too long, in ns.
    pub(super) expires: i64,
    before: u32,
    after: u32,
}

/// The requests of one queue by age.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fifo {
    first: u32,
    last: u32,
}

impl Default for Fifo {
    fn default() -> Self {
        Fifo { first: NONE, last: NONE }
    }
}

/// All requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    slots: Slots<Waiting>,
    known: usize,
    /// By queue, then sector, then age.
    sorted: Order,
    inserted: u64,
}

fn key(queue: u32, sector: u64) -> u64 {
    (u64::from(queue) << SECTOR_BITS) | sector.min((1 << SECTOR_BITS) - 1)
}

impl Requests {
    /// Begins to keep a request of this queue and process.
    pub(super) fn add(&mut self, id: RequestId, queue: u32, process: u32, request: &Request) {
        self.known = self.known.max(id.index() + 1);
        self.slots.set(
            id,
            Waiting {
                place: Place::Queued,
                queue,
                process,
                sector: request.lba.sector(),
                sectors: request.sectors().count() as u32,
                sync: request.is_sync(),
                meta: request.flags.contains(Flags::META),
                operation: Some(request.operation),
                expires: 0,
                before: NONE,
                after: NONE,
            },
        );
    }

    /// What is known of a request; a default if nothing is.
    pub(super) fn known(&self, id: RequestId) -> Waiting {
        if id.index() < self.known { self.slots[id] } else { Waiting::default() }
    }

    pub(super) fn get(&self, id: u32) -> &Waiting {
        &self.slots[RequestId(id)]
    }

    pub(super) fn get_mut(&mut self, id: u32) -> &mut Waiting {
        &mut self.slots[RequestId(id)]
    }

    /// Sorts a request in by its sector.
    pub(super) fn sort(&mut self, id: u32) {
        let Waiting { queue, sector, .. } = self.slots[RequestId(id)];
        self.sorted.insert(RequestId(id), key(queue, sector), self.inserted);
        self.inserted += 1;
    }

    pub(super) fn unsort(&mut self, id: u32) {
        self.sorted.remove(RequestId(id));
    }

    /// The one behind in sector order, of the same queue.
    pub(super) fn next(&self, id: u32) -> u32 {
        let queue = self.get(id).queue;
        self.sorted.after(RequestId(id)).map_or(NONE, |entry| entry.id).of(queue, self)
    }

    /// The one in front in sector order, of the same queue.
    pub(super) fn previous(&self, id: u32) -> u32 {
        let Waiting { queue, sector, .. } = *self.get(id);
        let key = key(queue, sector);
        let alike = self.sorted.ascending_from(key).take_while(|entry| entry.id != id).last();
        alike.or_else(|| self.sorted.descending_before(key).next()).map_or(NONE, |entry| entry.id).of(queue, self)
    }

    /// The first in sector order of a queue.
    pub(super) fn first(&self, queue: u32) -> u32 {
        self.sorted.at_or_after(key(queue, 0)).map_or(NONE, |entry| entry.id).of(queue, self)
    }

    pub(super) fn oldest(&self, fifo: &Fifo) -> u32 {
        fifo.first
    }

    pub(super) fn push_youngest(&mut self, fifo: &mut Fifo, id: u32) {
        let last = fifo.last;
        let request = self.get_mut(id);
        (request.before, request.after) = (last, NONE);
        if last == NONE {
            fifo.first = id;
        } else {
            self.get_mut(last).after = id;
        }
        fifo.last = id;
    }

    pub(super) fn unlink(&mut self, fifo: &mut Fifo, id: u32) {
        let Waiting { before, after, .. } = *self.get(id);
        if before == NONE {
            fifo.first = after;
        } else {
            self.get_mut(before).after = after;
        }
        if after == NONE { fifo.last = before } else { self.get_mut(after).before = before }
    }

    /// Puts `id` into the place of `older` by age; `older` leaves the list.
    pub(super) fn take_place(&mut self, fifo: &mut Fifo, older: u32, id: u32) {
        self.unlink(fifo, id);
        let Waiting { before, after, expires, .. } = *self.get(older);
        let request = self.get_mut(id);
        (request.before, request.after, request.expires) = (before, after, expires);
        if before == NONE {
            fifo.first = id;
        } else {
            self.get_mut(before).after = id;
        }
        if after == NONE { fifo.last = id } else { self.get_mut(after).before = id }
    }

    /// Which of two requests of a queue goes first when the head is at `last`: sync before async,
    /// metadata before data; then the nearer one, where the way back counts `back_penalty` times and
    /// is taken only for `back_max` sectors.
    pub(super) fn choose(&self, one: u32, other: u32, last: u64, back_max: u64, back_penalty: u64) -> u32 {
        if one == NONE || one == other {
            return other;
        }
        if other == NONE {
            return one;
        }
        let (a, b) = (self.get(one), self.get(other));
        if a.sync != b.sync {
            return if a.sync { one } else { other };
        }
        if a.meta != b.meta {
            return if a.meta { one } else { other };
        }
        let distance = |sector: u64| {
            if sector >= last {
                Some(sector - last)
            } else if sector.saturating_add(back_max) >= last {
                Some((last - sector).saturating_mul(back_penalty))
            } else {
                None
            }
        };
        match (distance(a.sector), distance(b.sector)) {
            (Some(d), Some(e)) if d != e => {
                if d < e {
                    one
                } else {
                    other
                }
            }
            (Some(_), Some(_)) => {
                if a.sector >= b.sector {
                    one
                } else {
                    other
                }
            }
            (Some(_), None) => one,
            (None, Some(_)) => other,
            // Both are far behind: begin with the farther, for one seek back.
            (None, None) => {
                if a.sector <= b.sector {
                    one
                } else {
                    other
                }
            }
        }
    }
}

/// A neighbour in the order counts only if it is of the same queue.
trait OfQueue {
    fn of(self, queue: u32, requests: &Requests) -> u32;
}

impl OfQueue for u32 {
    fn of(self, queue: u32, requests: &Requests) -> u32 {
        if self != NONE && requests.get(self).queue == queue { self } else { NONE }
    }
}
