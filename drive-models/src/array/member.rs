//! One member of an array: a drive with a queue and a scheduler of its own.

use std::collections::VecDeque;

use schedulers::{Dispatch, Room, Scheduler};
use traces::{Lba, Nanos, Operation, Request, RequestId, Sectors, Timestamp};

use crate::drive::{Completion, DriveModel, WriteCache};

/// An access of a member that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// The step of an operation that it belongs to.
    pub step: u32,
    /// What the drive said.
    pub completion: Completion,
}

#[derive(Clone, Copy, Debug)]
struct Outstanding {
    step: u32,
    request: Request,
}

/// A drive and what waits for it. Requests are not merged in its queue: the array joins those of one
/// request of its own.
pub struct Member {
    drive: Box<dyn DriveModel>,
    scheduler: Box<dyn Scheduler>,
    /// The most that the drive is given at once.
    depth: u32,
    at_drive: u32,
    /// Flushes, which no scheduler orders.
    flushes: VecDeque<RequestId>,
    /// What the scheduler has sent and the drive did not accept yet.
    held: Option<RequestId>,
    wake: Option<Timestamp>,
    /// By the ids that scheduler and drive know them by.
    outstanding: Vec<Outstanding>,
    free: Vec<u32>,
    /// Where the last access that it was given ends.
    heading_for: Lba,
    /// When something happens next.
    next: Timestamp,
    completions: Vec<Completion>,
}

impl Member {
    /// An idle member.
    pub fn new(drive: Box<dyn DriveModel>, scheduler: Box<dyn Scheduler>, depth: u32) -> Member {
        Member {
            drive,
            scheduler,
            depth,
            at_drive: 0,
            flushes: VecDeque::new(),
            held: None,
            wake: None,
            outstanding: Vec::new(),
            free: Vec::new(),
            heading_for: Lba::ZERO,
            next: Timestamp::MAX,
            completions: Vec::new(),
        }
    }

    /// When something happens next, [`Timestamp::MAX`] for never.
    pub fn next_event(&self) -> Timestamp {
        self.next
    }

    /// How many accesses wait or are served.
    pub fn queued(&self) -> usize {
        self.outstanding.len() - self.free.len()
    }

    /// Where the last access that it was given ends.
    pub fn heading_for(&self) -> Lba {
        self.heading_for
    }

    /// Lets an access wait; [`Member::dispatch`] sends it.
    pub fn insert(&mut self, now: Timestamp, step: u32, request: Request) {
        let outstanding = Outstanding { step, request };
        let id = match self.free.pop() {
            Some(id) => {
                self.outstanding[id as usize] = outstanding;
                RequestId(id)
            }
            None => {
                self.outstanding.push(outstanding);
                RequestId(self.outstanding.len() as u32 - 1)
            }
        };
        if request.operation == Operation::Flush {
            self.flushes.push_back(id);
        } else {
            self.heading_for = request.end();
            self.scheduler.insert(now, id, &request);
        }
    }

    /// Sends to the drive what it has room for.
    pub fn dispatch(&mut self, now: Timestamp) {
        self.wake = None;
        while self.at_drive < self.depth {
            if let Some(&id) = self.flushes.front() {
                if !self.send(now, id) {
                    break;
                }
                self.flushes.pop_front();
                continue;
            }
            if let Some(id) = self.held {
                if !self.send(now, id) {
                    break;
                }
                self.held = None;
                continue;
            }
            let free = self.depth - self.at_drive;
            match self.scheduler.dispatch(now, Room { reads: free, writes: free }, self.drive.cost()) {
                Dispatch::Send(id) => self.held = Some(id),
                Dispatch::WaitUntil(time) => {
                    self.wake = Some(time);
                    break;
                }
                Dispatch::Idle => break,
            }
        }
        let drive = self.drive.next_event().unwrap_or(Timestamp::MAX);
        self.next = drive.min(self.wake.unwrap_or(Timestamp::MAX));
    }

    fn send(&mut self, now: Timestamp, id: RequestId) -> bool {
        let request = self.outstanding[id.index()].request;
        if !self.drive.accepts(&request) {
            return false;
        }
        self.at_drive += 1;
        if request.operation != Operation::Flush {
            self.scheduler.issued(now, id);
        }
        self.drive.submit(now, id, &request);
        true
    }

    /// Lets everything happen in the drive up to `now` and appends what has ended; the owner dispatches
    /// when it has seen to that.
    pub fn advance(&mut self, now: Timestamp, ended: &mut Vec<Ended>) {
        self.drive.advance(now, &mut self.completions);
        for completion in self.completions.drain(..) {
            let Outstanding { step, request } = self.outstanding[completion.id.index()];
            self.at_drive -= 1;
            if request.operation != Operation::Flush {
                self.scheduler.completed(now, completion.id, &request);
            }
            self.free.push(completion.id.0);
            ended.push(Ended { step, completion });
        }
    }

    /// What its drive does with written data.
    pub fn write_cache(&self) -> WriteCache {
        self.drive.write_cache()
    }

    /// What a read of `sectors` at `to` is expected to take with the head at `from`.
    pub fn expected(&self, from: Lba, to: Lba, sectors: Sectors) -> Nanos {
        self.drive.cost().between(from, to, sectors)
    }
}
