//! A drive with a queue of its own and a scheduler that chooses the next request to serve. It models the tagged command
//! queueing of SCSI and SATA drives, and the members of an array.
//!
//! A drive that holds several commands serves first the one that it can serve soonest (Worthington, Ganger and Patt
//! 1994, "Scheduling algorithms for modern disk drives"). A command that has waited as long as the age limit goes
//! before all others, the oldest first, so that nothing starves. A flush goes before all waiting commands, because it
//! is about writes that have completed.
//!
//! The drive chooses when it becomes free, among the commands that it holds then. Leaves out ordered and head-of-queue
//! tags, and merging within the queue.

use std::collections::VecDeque;

use schedulers::{Capacity, Dispatch, Scheduler};
use traces::spec::{Settings, Spec, Tunable, Unit};
use traces::{Nanos, Operation, Request, RequestId, Sectors, Timestamp};

use crate::drive::{Completion, DriveModel};

/// The tunables of the queue of a drive that serves one request at a time.
pub const TUNABLES: &[Tunable] = &[
    Tunable::new("queue_depth", Unit::Count, "0", "commands that the drive holds and orders itself; 0 is none")
        .within(0, 1024),
    Tunable::new("queue_order", Unit::Choice(&["fifo", "look", "satf"]), "satf", "order in which they are served"),
    Tunable::new("age_limit", Unit::Time, "1s", "wait after which a command goes first; 0 is no limit")
        .within(0, 1_000_000_000_000),
];

/// The limits of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Commands, waiting or served.
    pub held: u32,
    /// Commands that the drive behind the queue has at once.
    pub at_drive: u32,
    /// How long one waits before it goes first.
    pub age: Option<Nanos>,
}

/// A drive and the commands that wait for it.
pub struct Queued {
    drive: Box<dyn DriveModel>,
    scheduler: Box<dyn Scheduler>,
    limits: QueueLimits,
    held: u32,
    at_drive: u32,
    /// By id.
    requests: Vec<Request>,
    /// Flushes, which no scheduler orders.
    flushes: VecDeque<RequestId>,
    /// The waiting commands with the times at which the scheduler got them, the oldest first. Empty without an age
    /// limit.
    ages: VecDeque<(Timestamp, RequestId)>,
    /// The command that was chosen and that the drive has not accepted yet.
    chosen: Option<RequestId>,
    /// The time of the next event.
    next: Timestamp,
    /// Completions that were not handed over yet.
    completions: Vec<Completion>,
}

impl Queued {
    /// What the scheduler did that no scheduler may do ([`Scheduler::fault`]).
    pub fn fault(&self) -> Option<&str> {
        self.scheduler.fault()
    }

    /// A drive behind an empty queue.
    pub fn new(drive: Box<dyn DriveModel>, scheduler: Box<dyn Scheduler>, limits: QueueLimits) -> Queued {
        Queued {
            drive,
            scheduler,
            limits,
            held: 0,
            at_drive: 0,
            requests: Vec::new(),
            flushes: VecDeque::new(),
            ages: VecDeque::new(),
            chosen: None,
            next: Timestamp::MAX,
            completions: Vec::new(),
        }
    }

    /// `drive` behind the queue that `settings` of [`TUNABLES`] describe, or `drive` alone if its depth is 0.
    pub fn in_front_of(drive: Box<dyn DriveModel>, settings: &Settings) -> Box<dyn DriveModel> {
        let held = settings.count("queue_depth") as u32;
        if held == 0 {
            return drive;
        }
        // The age limit stands in for ageing.
        let order = settings.word("queue_order");
        let given = if order == "satf" { vec![("ageing".to_owned(), "0".to_owned())] } else { Vec::new() };
        let spec = Spec { name: order.to_owned(), given };
        let scheduler = schedulers::build(&spec).expect("the table names schedulers").scheduler;
        let age = Some(settings.nanos("age_limit")).filter(|&age| age > Nanos::ZERO);
        Box::new(Queued::new(drive, scheduler, QueueLimits { held, at_drive: 1, age }))
    }

    /// How many commands wait or are served.
    pub fn held(&self) -> u32 {
        self.held
    }

    /// The time of the next event, [`Timestamp::MAX`] for never.
    pub(crate) fn next(&self) -> Timestamp {
        self.next
    }

    /// Lets a command wait; [`Queued::dispatch`] sends it.
    pub(crate) fn insert(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        if id.index() >= self.requests.len() {
            self.requests.resize(id.index() + 1, *request);
        }
        self.requests[id.index()] = *request;
        self.held += 1;
        if request.operation == Operation::Flush {
            self.flushes.push_back(id);
            return;
        }
        self.scheduler.insert(now, id, request);
        if self.limits.age.is_some() {
            self.ages.push_back((now, id));
        }
    }

    /// Sends commands to the drive while it accepts them.
    pub(crate) fn dispatch(&mut self, now: Timestamp) {
        let mut wake = Timestamp::MAX;
        while self.at_drive < self.limits.at_drive {
            if let Some(&id) = self.flushes.front() {
                if !self.send(now, id) {
                    break;
                }
                self.flushes.pop_front();
                continue;
            }
            if let Some(id) = self.chosen {
                if !self.send(now, id) {
                    break;
                }
                self.chosen = None;
                continue;
            }
            match self.choose(now) {
                Dispatch::Send(id) => self.chosen = Some(id),
                Dispatch::WaitUntil(time) => {
                    wake = time;
                    break;
                }
                Dispatch::Idle => break,
            }
        }
        self.next = self.drive.next_event().unwrap_or(Timestamp::MAX).min(wake);
    }

    fn choose(&mut self, now: Timestamp) -> Dispatch {
        let oldest = self.ages.front().copied();
        if let (Some(limit), Some((since, id))) = (self.limits.age, oldest)
            && now.saturating_since(since) >= limit
        {
            self.scheduler.remove(id);
            self.ages.pop_front();
            return Dispatch::Send(id);
        }
        let free = self.limits.at_drive - self.at_drive;
        let choice = self.scheduler.dispatch(now, Capacity { reads: free, writes: free }, self.drive.cost());
        if let Dispatch::Send(id) = choice
            && let Some(place) = (0..self.ages.len()).find(|&place| self.ages[place].1 == id)
        {
            self.ages.remove(place);
        }
        choice
    }

    fn send(&mut self, now: Timestamp, id: RequestId) -> bool {
        let request = self.requests[id.index()];
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

    /// Simulates the drive up to `now` and appends its completions. [`Queued::dispatch`] then sends more commands.
    pub(crate) fn complete(&mut self, now: Timestamp, completions: &mut Vec<Completion>) {
        let before = completions.len();
        self.drive.advance(now, completions);
        for completion in &completions[before..] {
            let request = &self.requests[completion.id.index()];
            self.held -= 1;
            self.at_drive -= 1;
            if request.operation != Operation::Flush {
                self.scheduler.completed(now, completion.id, request);
            }
        }
    }

    /// Simulates drive and queue up to `now`, event by event.
    fn run(&mut self, now: Timestamp) {
        while self.next <= now && self.next < Timestamp::MAX {
            let time = self.next;
            let mut completions = std::mem::take(&mut self.completions);
            self.complete(time, &mut completions);
            self.completions = completions;
            self.dispatch(time);
        }
    }
}

impl DriveModel for Queued {
    fn capacity(&self) -> Sectors {
        self.drive.capacity()
    }

    fn accepts(&self, _request: &Request) -> bool {
        self.held < self.limits.held
    }

    fn submit(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.run(now);
        self.insert(now, id, request);
        self.dispatch(now);
    }

    fn next_event(&self) -> Option<Timestamp> {
        let completed = self.completions.first().map_or(Timestamp::MAX, |completion| completion.finished);
        Some(completed.min(self.next)).filter(|&time| time < Timestamp::MAX)
    }

    fn advance(&mut self, now: Timestamp, completions: &mut Vec<Completion>) {
        self.run(now);
        completions.append(&mut self.completions);
    }

    crate::forward_properties!(drive);
}
