//! The outstanding requests of a stage, in slots that are reused: memory follows the number
//! outstanding, never the length of the trace.

use traces::{Request, RequestId, Timestamp};

/// The steps that a write or flush still needs where the drive's write cache is volatile
/// (Linux `block/blk-flush.c`: preflush, data, postflush).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sequence {
    pub(crate) preflush: bool,
    pub(crate) data: bool,
    pub(crate) postflush: bool,
}

/// One outstanding request. An arrival that is merged keeps its slot, linked to the request that
/// leads; one that is split keeps its slot until its last part is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// As it arrived; what its source is told on completion.
    pub(crate) arrived: Request,
    /// As scheduler and drive see it: grown by merges.
    pub(crate) request: Request,
    /// The arrival or sequence that this is a part of.
    pub(crate) parent: Option<RequestId>,
    /// Parts that are not done yet.
    pub(crate) parts: u32,
    /// Steps that are not begun yet.
    pub(crate) sequence: Sequence,
    /// The next arrival that was merged into the same request.
    pub(crate) next: Option<RequestId>,
    /// The last arrival of the request that this one leads.
    pub(crate) tail: RequestId,
    /// How many arrivals the request holds.
    pub(crate) segments: u32,
    /// Whether it never went through the scheduler.
    pub(crate) bypass: bool,
    pub(crate) dispatched: Timestamp,
    pub(crate) issued: Timestamp,
}

#[derive(Debug, Default)]
pub(crate) struct Requests {
    slots: Vec<Slot>,
    free: Vec<RequestId>,
}

impl Requests {
    /// The id that the next [`Requests::put`] will use.
    pub(crate) fn next_id(&self) -> RequestId {
        self.free.last().copied().unwrap_or_else(|| {
            RequestId(u32::try_from(self.slots.len()).expect("fewer than 2^32 requests are outstanding"))
        })
    }

    /// Takes a slot for `request`.
    pub(crate) fn put(&mut self, request: Request) -> RequestId {
        let id = self.next_id();
        let slot = Slot {
            arrived: request,
            request,
            parent: None,
            parts: 0,
            sequence: Sequence::default(),
            next: None,
            tail: id,
            segments: 1,
            bypass: false,
            dispatched: Timestamp::ZERO,
            issued: Timestamp::ZERO,
        };
        if self.free.pop().is_some() {
            self.slots[id.index()] = slot;
        } else {
            self.slots.push(slot);
        }
        id
    }

    /// Gives a slot back.
    pub(crate) fn release(&mut self, id: RequestId) {
        self.free.push(id);
    }

    /// How many slots are taken.
    pub(crate) fn outstanding(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

impl std::ops::Index<RequestId> for Requests {
    type Output = Slot;
    fn index(&self, id: RequestId) -> &Slot {
        &self.slots[id.index()]
    }
}

impl std::ops::IndexMut<RequestId> for Requests {
    fn index_mut(&mut self, id: RequestId) -> &mut Slot {
        &mut self.slots[id.index()]
    }
}
