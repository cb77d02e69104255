//! One queue of a device: requests from its available ring, answers to its used ring.

use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::chain::{self, Abilities, BlockRequest};
use super::config::QUEUE_ENTRIES_MAX;
use super::eventfd::{Call, Kick};
use super::memory::Memory;

/// A queue.
pub(super) struct Ring {
    pub(super) queue: Queue,
    /// The ring is started while it has one.
    pub(super) kick: Option<Kick>,
    pub(super) call: Option<Call>,
    /// Notified when the ring is broken.
    pub(super) error: Option<Call>,
    pub(super) is_enabled: bool,
    /// The client is about to stop the ring: no further request is taken.
    pub(super) is_stopping: bool,
    is_broken: bool,
    /// Whether the used ring's index has been read since the start.
    is_in_step: bool,
    /// Requests that are at the drive.
    pub(super) at_drive: u32,
    answers: Vec<(Answer, u8)>,
}

/// What the answer to a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The queue.
    pub(super) ring: usize,
    /// The first descriptor.
    pub(super) head: u16,
    /// Where the status goes.
    pub(super) status: GuestAddress,
    /// The bytes that the device writes besides the status.
    pub(super) bytes: u32,
}

impl Ring {
    /// # Errors
    /// The queue's size is not valid.
    pub(super) fn new() -> Result<Ring, virtio_queue::Error> {
        Ok(Ring {
            queue: Queue::new(QUEUE_ENTRIES_MAX)?,
            kick: None,
            call: None,
            error: None,
            is_enabled: false,
            is_stopping: false,
            is_broken: false,
            is_in_step: false,
            at_drive: 0,
            answers: Vec::new(),
        })
    }

    /// Starts the ring, or stops it if there is no counter.
    pub(super) fn set_kick(&mut self, kick: Option<Kick>) {
        self.queue.set_ready(kick.is_some());
        self.kick = kick;
        (self.is_stopping, self.is_broken, self.is_in_step) = (false, false, false);
    }

    fn is_served(&self) -> bool {
        self.kick.is_some() && self.is_enabled && !self.is_stopping && !self.is_broken
    }

    /// The next request. If there is none, the guest is asked to announce the next one.
    pub(super) fn next(
        &mut self,
        index: usize,
        memory: &Memory,
        abilities: Abilities,
    ) -> Option<(BlockRequest, Answer)> {
        if !self.is_served() {
            return None;
        }
        let next = self.try_next(&memory.mapped, abilities);
        if next.is_err() {
            self.give_up();
        }
        let (request, head) = next.ok()??;
        let answer = Answer { ring: index, head, status: request.status, bytes: 0 };
        Some((request, answer))
    }

    fn try_next(
        &mut self,
        memory: &GuestMemoryMmap,
        abilities: Abilities,
    ) -> Result<Option<(BlockRequest, u16)>, Broken> {
        if !self.is_in_step {
            if !self.queue.is_valid(memory) {
                return Err(Broken);
            }
            let used = self.queue.used_idx(memory, std::sync::atomic::Ordering::Acquire)?;
            self.queue.set_next_used(used.0);
            self.is_in_step = true;
        }
        loop {
            let chain = self.queue.iter(memory)?.next();
            if let Some(chain) = chain {
                let head = chain.head_index();
                return Ok(Some((chain::parse(chain, memory, abilities).ok_or(Broken)?, head)));
            }
            if !self.queue.enable_notification(memory)? {
                return Ok(None);
            }
        }
    }

    /// Serves the ring no more, and notifies the client.
    fn give_up(&mut self) {
        self.is_broken = true;
        if let Some(error) = &self.error {
            error.signal();
        }
    }

    /// Queues an answer for [`Ring::answer`].
    pub(super) fn reply(&mut self, answer: Answer, status: u8) {
        self.answers.push((answer, status));
    }

    pub(super) fn has_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// Passes the queued answers to the guest.
    pub(super) fn answer(&mut self, memory: &Memory) {
        let answers = std::mem::take(&mut self.answers);
        if answers.is_empty() || self.is_broken {
            return;
        }
        if self.try_answer(&answers, &memory.mapped).is_err() {
            self.give_up();
        }
        self.answers = answers;
        self.answers.clear();
    }

    fn try_answer(&mut self, answers: &[(Answer, u8)], memory: &GuestMemoryMmap) -> Result<(), Broken> {
        for &(answer, status) in answers {
            memory.write_obj(status, answer.status).map_err(|_| Broken)?;
            self.queue.add_used(memory, answer.head, answer.bytes.saturating_add(1))?;
        }
        if self.queue.needs_notification(memory)?
            && let Some(call) = &self.call
        {
            call.signal();
        }
        Ok(())
    }
}

/// The guest has left the ring in a state that cannot be understood.
struct Broken;

impl From<virtio_queue::Error> for Broken {
    fn from(_: virtio_queue::Error) -> Broken {
        Broken
    }
}
