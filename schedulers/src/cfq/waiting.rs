//! The waiting requests of one queue: in order of their sectors, and by age.

use traces::{Operation, RequestId, Timestamp};

use super::rules::NEW_SLICE;
use crate::id_list::IdList;
use crate::order::Order;

/// The facts of a request from its arrival to its completion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// The queue it is or was in, by number.
    pub(super) queue: usize,
    /// Its number within the queue while it waits there.
    pub(super) local: u32,
    /// The process it is from, by number.
    pub(super) process: usize,
    pub(super) sector: u64,
    pub(super) end: u64,
    pub(super) since: Timestamp,
    pub(super) operation: Operation,
    pub(super) sync: bool,
    pub(super) meta: bool,
    pub(super) noidle: bool,
    /// The rule that has chosen it, once one has.
    pub(super) rule: usize,
}

impl Default for Held {
    fn default() -> Held {
        Held {
            queue: 0,
            local: 0,
            process: 0,
            sector: 0,
            end: 0,
            since: Timestamp::ZERO,
            operation: Operation::Read,
            sync: false,
            meta: false,
            noidle: false,
            rule: NEW_SLICE,
        }
    }
}

/// The requests. Orders and lists are vectors as long as their largest id, and there are as many queues as processes.
/// Requests are therefore numbered anew within each queue, so that a queue's memory grows with the requests in it.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    sorted: Order,
    fifo: IdList,
    /// The requests by their number in the queue.
    ids: Vec<RequestId>,
    free: Vec<u32>,
    sorted_in: u64,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Adds the youngest; returns its number in the queue.
    pub(super) fn push(&mut self, id: RequestId, sector: u64) -> u32 {
        let local = self.free.pop().unwrap_or(self.ids.len() as u32);
        if local as usize == self.ids.len() {
            self.ids.push(id);
        }
        self.ids[local as usize] = id;
        self.fifo.push_back(RequestId(local));
        self.sort_in(local, sector);
        local
    }

    pub(super) fn remove(&mut self, local: u32) {
        self.sorted.remove(RequestId(local));
        self.fifo.remove(RequestId(local));
        self.free.push(local);
    }

    /// Takes a request out of the order of sectors; it keeps its age.
    pub(super) fn sort_out(&mut self, local: u32) {
        self.sorted.remove(RequestId(local));
    }

    /// Puts it back at another sector.
    pub(super) fn sort_in(&mut self, local: u32, sector: u64) {
        self.sorted.insert(RequestId(local), sector, self.sorted_in);
        self.sorted_in += 1;
    }

    /// Makes a request as old as another.
    pub(super) fn age_as(&mut self, local: u32, older: u32) {
        self.fifo.remove(RequestId(local));
        self.fifo.insert_before(RequestId(older), RequestId(local));
    }

    pub(super) fn oldest(&self) -> Option<RequestId> {
        self.fifo.first().map(|local| self.ids[local.index()])
    }

    /// The request that begins at this sector.
    pub(super) fn at(&self, sector: u64) -> Option<RequestId> {
        self.sorted.at_or_after(sector).filter(|entry| entry.key == sector).map(|entry| self.ids[entry.id as usize])
    }

    /// The next request behind this one, or the first if it is the last, and the one before it.
    pub(super) fn neighbours(&self, local: u32) -> (Option<RequestId>, Option<RequestId>) {
        let id = |local: RequestId| self.ids[local.index()];
        let next = self.sorted.after(RequestId(local)).or_else(|| self.sorted.first().filter(|it| it.id != local));
        let sector = self.sorted.entry(RequestId(local)).key;
        let before = self.sorted.descending_before(sector).next();
        (next.map(|entry| id(entry.id())), before.map(|entry| id(entry.id())))
    }
}
