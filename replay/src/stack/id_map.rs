//! Who has sent what: the stages of a layer number their requests apart, what lies below them numbers
//! all of them together.

use traces::RequestId;

/// A request of one of a layer's stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sender {
    /// Its stage.
    pub(super) stage: usize,
    /// Its id there.
    pub(super) id: RequestId,
}

/// The requests below a layer, under dense ids that are reused.
#[derive(Debug, Default)]
pub(super) struct IdMap {
    senders: Vec<Sender>,
    free: Vec<RequestId>,
}

impl IdMap {
    /// The id below for a request of `sender`.
    pub(super) fn put(&mut self, sender: Sender) -> RequestId {
        if let Some(id) = self.free.pop() {
            self.senders[id.index()] = sender;
            return id;
        }
        let id = RequestId(u32::try_from(self.senders.len()).expect("fewer than 2^32 requests are outstanding"));
        self.senders.push(sender);
        id
    }

    /// Whose request this was; its id is free again.
    pub(super) fn take(&mut self, id: RequestId) -> Sender {
        self.free.push(id);
        self.senders[id.index()]
    }
}
