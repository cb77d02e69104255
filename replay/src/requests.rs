//! The outstanding requests of a stage, in slots that are reused: memory grows with the number of outstanding requests,
//! never with the length of the trace.

use traces::{Request, RequestId, Timestamp};

/// The steps that a write or flush still needs where the drive's write cache is volatile
/// (Linux `block/blk-flush.c`: preflush, data, postflush).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sequence {
    pub(crate) preflush: bool,
    pub(crate) data: bool,
    /// The data are being written.
    pub(crate) writes: bool,
    pub(crate) postflush: bool,
}

/// One outstanding request. An arrival that is merged keeps its slot, linked to the first arrival of the merged
/// request. An arrival that is split keeps its slot until its last part has completed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// The request as it arrived; the source receives it on completion.
    pub(crate) arrived: Request,
    /// The request as the scheduler and the drive see it: grown by merges.
    pub(crate) request: Request,
    /// The arrival or flush sequence that this request is a part of.
    pub(crate) parent: Option<RequestId>,
    /// The number of parts that have not completed.
    pub(crate) parts: u32,
    /// The steps of the flush sequence that have not begun.
    pub(crate) sequence: Sequence,
    /// The next arrival that was merged into the same request.
    pub(crate) next: Option<RequestId>,
    /// The last arrival of the request that this one leads.
    pub(crate) tail: RequestId,
    /// The number of arrivals that the request was merged of.
    pub(crate) segments: u32,
    /// Whether it bypasses the scheduler.
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

    /// Frees a slot.
    pub(crate) fn release(&mut self, id: RequestId) {
        self.free.push(id);
    }

    /// The number of slots in use.
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
