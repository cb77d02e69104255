//! Dies and channels. A die does one thing at a time, first come, first served. A channel carries the data of one
//! operation at a time, in the order in which they became ready.
//!
//! A read occupies its die until its data has left over the channel. A program occupies it from the moment its data
//! begins to arrive (no cache registers). If the drive can suspend, a read of the host that finds its die programming
//! or erasing goes ahead, and the other operation resumes where it was.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use traces::{Nanos, RequestId, Timestamp};

use crate::flash::buffer::NONE;
use crate::flash::description::{FlashGeometry, Timing};

/// An event inside the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlashEvent {
    /// The controller has understood a command.
    Command(RequestId),
    /// A write's data has come over the link.
    Data(RequestId),
    /// A die is done with its cells, unless it was suspended since.
    Die {
        /// Which.
        die: u32,
        /// Its operations so far.
        operation: u32,
    },
    /// A channel has carried an operation's data.
    Channel(u32),
    /// A command is complete.
    Done(RequestId),
}

/// What will happen, in order.
#[derive(Debug, Default)]
pub struct Agenda {
    events: BinaryHeap<Reverse<(Timestamp, u64, FlashEvent)>>,
    sequence: u64,
}

impl Agenda {
    /// Adds `event`; of those at the same time the one added first comes first.
    pub fn at(&mut self, time: Timestamp, event: FlashEvent) {
        self.events.push(Reverse((time, self.sequence, event)));
        self.sequence += 1;
    }

    /// When the next is due.
    pub fn next(&self) -> Option<Timestamp> {
        self.events.peek().map(|Reverse((time, ..))| *time)
    }

    /// Takes the next, if it is due by `now`.
    pub fn take(&mut self, now: Timestamp) -> Option<(Timestamp, FlashEvent)> {
        if self.next()? > now {
            return None;
        }
        self.events.pop().map(|Reverse((time, _, event))| (time, event))
    }
}

/// The work of a die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DieWork {
    /// Read for a command of the host.
    HostRead {
        /// Which.
        id: RequestId,
        /// Sectors that the host wants of it.
        sectors: u32,
    },
    /// Read what garbage collection moves to a row.
    GarbageRead {
        /// The row.
        row: u32,
    },
    /// Program a row.
    Program {
        /// Which.
        row: u32,
    },
    /// Erase a block.
    Erase,
}

#[derive(Clone, Copy, Debug)]
struct DieOperation {
    work: DieWork,
    units: u32,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Die {
    first: u32,
    last: u32,
    current: u32,
    /// Until when it works on its cells, if it can be suspended.
    until: Option<Timestamp>,
    operation: u32,
    suspended: Option<(u32, Nanos)>,
    suspensions_left: u32,
}

#[derive(Clone, Debug, Default)]
struct Channel {
    carries: Option<u32>,
    waiting: VecDeque<u32>,
}

/// All dies and channels.
#[derive(Debug)]
pub struct Medium {
    timing: Timing,
    row_units: u32,
    suspensions: u32,
    dies: Vec<Die>,
    channels: Vec<Channel>,
    operations: Vec<DieOperation>,
    spare: Vec<u32>,
}

impl Medium {
    /// Idle dies. Each program and erase can be suspended `suspensions` times.
    pub fn new(geometry: &FlashGeometry, timing: Timing, suspensions: u32) -> Medium {
        let die = Die {
            first: NONE,
            last: NONE,
            current: NONE,
            until: None,
            operation: 0,
            suspended: None,
            suspensions_left: 0,
        };
        Medium {
            timing,
            row_units: geometry.row_units,
            suspensions,
            dies: vec![die; geometry.dies as usize],
            channels: vec![Channel::default(); geometry.channels as usize],
            operations: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Gives `die` work; of a read, `units` are wanted.
    pub fn submit(&mut self, now: Timestamp, die: u32, work: DieWork, units: u32, agenda: &mut Agenda) {
        let operation = DieOperation { work, units, next: NONE };
        let index = match self.spare.pop() {
            Some(index) => {
                self.operations[index as usize] = operation;
                index
            }
            None => {
                self.operations.push(operation);
                self.operations.len() as u32 - 1
            }
        };
        if matches!(work, DieWork::HostRead { .. }) && self.suspend(now, die, index, agenda) {
            return;
        }
        let state = &mut self.dies[die as usize];
        match state.last {
            NONE => state.first = index,
            last => self.operations[last as usize].next = index,
        }
        state.last = index;
        if state.current == NONE {
            self.begin(now, die, agenda);
        }
    }

    /// `die` is done with its cells. Returns what is done by that.
    pub fn die_ready(&mut self, now: Timestamp, die: u32, operation: u32, agenda: &mut Agenda) -> Option<DieWork> {
        let state = &mut self.dies[die as usize];
        if state.operation != operation {
            return None;
        }
        state.until = None;
        let work = self.operations[state.current as usize].work;
        if matches!(work, DieWork::HostRead { .. } | DieWork::GarbageRead { .. }) {
            self.ask_channel(now, die, agenda);
            return None;
        }
        self.finish(now, die, agenda);
        Some(work)
    }

    /// `channel` has carried its data. Returns what is done by that.
    pub fn channel_ready(&mut self, now: Timestamp, channel: u32, agenda: &mut Agenda) -> Option<DieWork> {
        let index = channel as usize;
        let die = self.channels[index].carries.take().expect("a channel is ready with what it carries");
        if let Some(next) = self.channels[index].waiting.pop_front() {
            self.carry(now, next, agenda);
        }
        let work = self.operations[self.dies[die as usize].current as usize].work;
        if matches!(work, DieWork::Program { .. }) {
            self.dies[die as usize].suspensions_left = self.suspensions;
            self.work_cells(now, die, self.timing.program, true, agenda);
            return None;
        }
        self.finish(now, die, agenda);
        Some(work)
    }

    fn suspend(&mut self, now: Timestamp, die: u32, read: u32, agenda: &mut Agenda) -> bool {
        let state = &mut self.dies[die as usize];
        let Some(until) = state.until.filter(|until| *until > now && state.suspensions_left > 0) else {
            return false;
        };
        state.suspensions_left -= 1;
        state.suspended = Some((state.current, until.since(now)));
        state.current = read;
        self.work_cells(now, die, self.timing.suspend + self.timing.read, false, agenda);
        true
    }

    /// The die's current operation is over.
    fn finish(&mut self, now: Timestamp, die: u32, agenda: &mut Agenda) {
        self.spare.push(self.dies[die as usize].current);
        self.dies[die as usize].current = NONE;
        self.begin(now, die, agenda);
    }

    fn begin(&mut self, now: Timestamp, die: u32, agenda: &mut Agenda) {
        let state = &mut self.dies[die as usize];
        if let Some((operation, left)) = state.suspended.take() {
            state.current = operation;
            self.work_cells(now, die, left, true, agenda);
            return;
        }
        if state.first == NONE {
            return;
        }
        state.current = state.first;
        let DieOperation { work, next, .. } = self.operations[state.first as usize];
        state.first = next;
        if next == NONE {
            state.last = NONE;
        }
        match work {
            DieWork::HostRead { .. } | DieWork::GarbageRead { .. } => {
                self.work_cells(now, die, self.timing.read, false, agenda);
            }
            DieWork::Program { .. } => self.ask_channel(now, die, agenda),
            DieWork::Erase => {
                state.suspensions_left = self.suspensions;
                self.work_cells(now, die, self.timing.erase, true, agenda);
            }
        }
    }

    fn work_cells(&mut self, now: Timestamp, die: u32, time: Nanos, suspendable: bool, agenda: &mut Agenda) {
        let state = &mut self.dies[die as usize];
        let until = now.saturating_add(time);
        state.until = suspendable.then_some(until);
        state.operation = state.operation.wrapping_add(1);
        agenda.at(until, FlashEvent::Die { die, operation: state.operation });
    }

    fn ask_channel(&mut self, now: Timestamp, die: u32, agenda: &mut Agenda) {
        let channel = die as usize % self.channels.len();
        if self.channels[channel].carries.is_some() {
            self.channels[channel].waiting.push_back(die);
        } else {
            self.carry(now, die, agenda);
        }
    }

    fn carry(&mut self, now: Timestamp, die: u32, agenda: &mut Agenda) {
        let channel = die % self.channels.len() as u32;
        let DieOperation { work, units, .. } = self.operations[self.dies[die as usize].current as usize];
        let units = if matches!(work, DieWork::Program { .. }) { self.row_units } else { units };
        self.channels[channel as usize].carries = Some(die);
        let until = now.saturating_add(self.timing.unit_transfer * u64::from(units));
        agenda.at(until, FlashEvent::Channel(channel));
    }
}
