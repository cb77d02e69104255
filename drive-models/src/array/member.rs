//! One member of an array: a drive behind a queue, and the step that each of its accesses belongs to.

use traces::{Lba, Nanos, Operation, Request, RequestId, Sectors, Timestamp};

use super::MemberParts;
use crate::drive::{Completion, DriveModel, WriteCache};
use crate::queued::{QueueLimits, Queued};

/// An access of a member that has ended.
#[derive(Clone, Copy, Debug)]
pub struct EndedAccess {
    /// The step of an operation that it belongs to.
    pub step: u32,
    /// The completion by the drive.
    pub completion: Completion,
}

/// A member. Accesses are not merged in its queue: `plan` joins those of one request to the array.
pub struct ArrayMember {
    queue: Queued,
    /// The step of each access, by its id in the queue.
    steps: Vec<u32>,
    free: Vec<RequestId>,
    /// Where the last access that it was given ends.
    heading_for: Lba,
    // Reused so that nothing is allocated per access.
    completions: Vec<Completion>,
}

impl ArrayMember {
    /// An idle member, whose drive is given at most `depth` accesses at once.
    pub fn new((drive, scheduler): MemberParts, depth: u32) -> ArrayMember {
        ArrayMember {
            queue: Queued::new(drive, scheduler, QueueLimits { held: u32::MAX, at_drive: depth, age: None }),
            steps: Vec::new(),
            free: Vec::new(),
            heading_for: Lba::ZERO,
            completions: Vec::new(),
        }
    }

    /// The time of the next event, [`Timestamp::MAX`] for never.
    pub fn next_event(&self) -> Timestamp {
        self.queue.next()
    }

    /// How many accesses wait or are served.
    pub fn held(&self) -> u32 {
        self.queue.held()
    }

    /// Where the last access that it was given ends.
    pub fn heading_for(&self) -> Lba {
        self.heading_for
    }

    /// Lets an access wait; [`ArrayMember::dispatch`] sends it.
    pub fn insert(&mut self, now: Timestamp, step: u32, request: &Request) {
        let id = self.free.pop().unwrap_or_else(|| {
            self.steps.push(step);
            RequestId(self.steps.len() as u32 - 1)
        });
        self.steps[id.index()] = step;
        if request.operation != Operation::Flush {
            self.heading_for = request.end();
        }
        self.queue.insert(now, id, request);
    }

    /// Sends accesses to the drive while it accepts them.
    pub fn dispatch(&mut self, now: Timestamp) {
        self.queue.dispatch(now);
    }

    /// Simulates the drive up to `now` and appends the accesses that have ended. The owner handles these, then
    /// dispatches.
    pub fn advance(&mut self, now: Timestamp, ended: &mut Vec<EndedAccess>) {
        self.queue.complete(now, &mut self.completions);
        for completion in self.completions.drain(..) {
            self.free.push(completion.id);
            ended.push(EndedAccess { step: self.steps[completion.id.index()], completion });
        }
    }

    /// The write cache of its drive.
    pub fn write_cache(&self) -> WriteCache {
        self.queue.write_cache()
    }

    /// The expected time of a read of `sectors` at `to` with the head at `from`.
    pub fn expected(&self, from: Lba, to: Lba, sectors: Sectors) -> Nanos {
        self.queue.cost().between(from, to, sectors)
    }
}
