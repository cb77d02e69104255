//! Translates the ids of requests between a layer and the layer below it. Each stage of a layer numbers its requests
//! separately; the layer below numbers the requests of all these stages together.

use traces::RequestId;

/// The stage that sent a request, and its id there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sender {
    /// The index of the stage in its layer.
    pub(super) stage: usize,
    /// The id of the request in that stage.
    pub(super) id: RequestId,
}

/// The senders of the requests below a layer, under dense ids that are reused.
#[derive(Debug, Default)]
pub(super) struct IdMap {
    senders: Vec<Sender>,
    free: Vec<RequestId>,
}

impl IdMap {
    /// Assigns the id below to a request of `sender`.
    pub(super) fn put(&mut self, sender: Sender) -> RequestId {
        if let Some(id) = self.free.pop() {
            self.senders[id.index()] = sender;
            return id;
        }
        let id = RequestId(u32::try_from(self.senders.len()).expect("fewer than 2^32 requests are outstanding"));
        self.senders.push(sender);
        id
    }

    /// The sender of the request `id`; its id below is free again.
    pub(super) fn take(&mut self, id: RequestId) -> Sender {
        self.free.push(id);
        self.senders[id.index()]
    }
}
