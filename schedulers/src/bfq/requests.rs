//! The requests, the order of those that wait in a queue by sector and by age, and the choice between two of them.
//! Linux 6.18, block/bfq-iosched.c.

use traces::{Flags, Operation, Request, RequestId, Timestamp};

use crate::order::Order;

use super::ids::{Id, ProcessId, QueueId, Table};
use super::rules::NEW_TURN;

/// The bits of a sector that the order distinguishes: 8 PiB. Requests beyond it are ordered by age.
const SECTOR_BITS: u32 = 44;

/// The state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Nowhere: unknown, completed or cancelled.
    Gone,
    /// Waits in its queue.
    Queued,
    /// Came back unserved and goes before all requests in queues.
    Listed,
    /// In flight.
    Sent,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) place: Place,
    pub(super) queue: QueueId,
    pub(super) process: ProcessId,
    pub(super) sector: u64,
    pub(super) sectors: u32,
    pub(super) sync: bool,
    pub(super) meta: bool,
    pub(super) operation: Operation,
    /// The rule that has chosen the request, once one has.
    pub(super) rule: usize,
    /// When the request has waited too long (`fifo_time`).
    pub(super) expires: Timestamp,
    /// The neighbours by age.
    before: Option<RequestId>,
    after: Option<RequestId>,
}

impl Waiting {
    pub(super) fn end(&self) -> u64 {
        self.sector.saturating_add(u64::from(self.sectors))
    }
}

/// The requests of one queue by age.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fifo {
    first: Option<RequestId>,
    last: Option<RequestId>,
}

/// The rule by which the next request of a queue is chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeekRule {
    /// The position of the head.
    pub(super) last: u64,
    /// The longest seek back, in sectors.
    pub(super) back_max: u64,
    /// The factor by which a seek back costs more.
    pub(super) back_penalty: u64,
}

impl SeekRule {
    /// The cost of moving to a sector; `None` if it lies too far back.
    fn cost(&self, sector: u64) -> Option<u64> {
        if sector >= self.last {
            Some(sector - self.last)
        } else if sector.saturating_add(self.back_max) >= self.last {
            Some((self.last - sector).saturating_mul(self.back_penalty))
        } else {
            None
        }
    }
}

/// All requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    table: Table<RequestId, Waiting>,
    /// By queue, then sector, then age.
    sorted: Order,
    inserted: u64,
}

/// The key of a request in the order.
fn key(queue: QueueId, sector: u64) -> u64 {
    ((queue.index() as u64) << SECTOR_BITS) | sector.min((1 << SECTOR_BITS) - 1)
}

impl Requests {
    /// Begins to keep a request of this queue and process.
    pub(super) fn add(&mut self, id: RequestId, place: Place, queue: QueueId, process: ProcessId, request: &Request) {
        let waiting = Waiting {
            place,
            queue,
            process,
            sector: request.lba.sector(),
            sectors: request.sectors().count() as u32,
            sync: request.is_sync(),
            meta: request.flags.contains(Flags::META),
            operation: request.operation,
            rule: NEW_TURN,
            expires: Timestamp::ZERO,
            before: None,
            after: None,
        };
        self.table.set(id, waiting, Waiting { place: Place::Gone, ..waiting });
    }

    /// A request completed or was cancelled.
    pub(super) fn forget(&mut self, id: RequestId) {
        self.table[id].place = Place::Gone;
    }

    /// A request that may be unknown: never inserted, completed or cancelled.
    pub(super) fn known(&self, id: RequestId) -> Option<&Waiting> {
        self.table.get(id).filter(|request| request.place != Place::Gone)
    }

    pub(super) fn get(&self, id: RequestId) -> &Waiting {
        &self.table[id]
    }

    pub(super) fn get_mut(&mut self, id: RequestId) -> &mut Waiting {
        &mut self.table[id]
    }

    /// Sorts a request in by its sector.
    pub(super) fn sort(&mut self, id: RequestId) {
        let Waiting { queue, sector, .. } = *self.get(id);
        self.sorted.insert(id, key(queue, sector), self.inserted);
        self.inserted += 1;
    }

    pub(super) fn unsort(&mut self, id: RequestId) {
        self.sorted.remove(id);
    }

    /// A neighbour in the order counts only if it is of the same queue.
    fn of_queue(&self, queue: QueueId, id: RequestId) -> Option<RequestId> {
        (self.get(id).queue == queue).then_some(id)
    }

    /// The next request of the same queue in sector order.
    pub(super) fn next(&self, id: RequestId) -> Option<RequestId> {
        let queue = self.get(id).queue;
        self.sorted.after(id).and_then(|entry| self.of_queue(queue, entry.id()))
    }

    /// The previous request of the same queue in sector order.
    pub(super) fn previous(&self, id: RequestId) -> Option<RequestId> {
        let Waiting { queue, sector, .. } = *self.get(id);
        let key = key(queue, sector);
        let at_same_key = self.sorted.ascending_from(key).take_while(|entry| entry.id() != id).last();
        let previous = at_same_key.or_else(|| self.sorted.descending_before(key).next())?;
        self.of_queue(queue, previous.id())
    }

    /// The first request of a queue in sector order.
    pub(super) fn first(&self, queue: QueueId) -> Option<RequestId> {
        self.sorted.at_or_after(key(queue, 0)).and_then(|entry| self.of_queue(queue, entry.id()))
    }

    pub(super) fn oldest(&self, fifo: &Fifo) -> Option<RequestId> {
        fifo.first
    }

    pub(super) fn push_youngest(&mut self, fifo: &mut Fifo, id: RequestId) {
        self.link(fifo, fifo.last, id, None);
    }

    /// Puts a request between two neighbours by age.
    fn link(&mut self, fifo: &mut Fifo, before: Option<RequestId>, id: RequestId, after: Option<RequestId>) {
        let request = self.get_mut(id);
        (request.before, request.after) = (before, after);
        match before {
            None => fifo.first = Some(id),
            Some(before) => self.get_mut(before).after = Some(id),
        }
        match after {
            None => fifo.last = Some(id),
            Some(after) => self.get_mut(after).before = Some(id),
        }
    }

    pub(super) fn unlink(&mut self, fifo: &mut Fifo, id: RequestId) {
        let Waiting { before, after, .. } = *self.get(id);
        match before {
            None => fifo.first = after,
            Some(before) => self.get_mut(before).after = after,
        }
        match after {
            None => fifo.last = before,
            Some(after) => self.get_mut(after).before = before,
        }
    }

    /// Puts `id` into the place of `older` by age, with its expiry time; `older` becomes the youngest.
    pub(super) fn take_place(&mut self, fifo: &mut Fifo, older: RequestId, id: RequestId) {
        self.unlink(fifo, id);
        let Waiting { before, after, expires, .. } = *self.get(older);
        self.get_mut(id).expires = expires;
        self.link(fifo, before, id, after);
        self.push_youngest(fifo, older);
    }

    /// The one of two requests of a queue that goes first (`bfq_choose_req`): sync before async, metadata before data,
    /// then the cheaper one to go to. Of two that lie too far back the farther goes first, for a single seek back.
    pub(super) fn choose(&self, one: Option<RequestId>, other: Option<RequestId>, rule: SeekRule) -> Option<RequestId> {
        let (Some(one), Some(other)) = (one, other) else { return one.or(other) };
        let (a, b) = (self.get(one), self.get(other));
        let one_first = if a.sync != b.sync {
            a.sync
        } else if a.meta != b.meta {
            a.meta
        } else {
            match (rule.cost(a.sector), rule.cost(b.sector)) {
                (Some(cost), Some(other_cost)) if cost != other_cost => cost < other_cost,
                (Some(_), Some(_)) => a.sector >= b.sector,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => a.sector <= b.sector,
            }
        };
        Some(if one_first { one } else { other })
    }
}
