//! Dies and channels. A die does one thing at a time, first come, first served. A channel carries the data of one
//! operation at a time, in the order in which they became ready.
//!
//! A read occupies its die until its data has left over the channel. A program occupies it from the moment its data
//! begins to arrive (no cache registers). If the drive can suspend, a read of the host that finds its die programming
//! or erasing goes ahead, and the other operation resumes where it was.

use std::collections::VecDeque;

use traces::{Nanos, RequestId, Timestamp};

use crate::flash::agenda::{Agenda, EventKind};
use crate::flash::buffer::NONE;
use crate::flash::description::{FlashGeometry, Timing};

/// The work of a die: two registers, since it goes through many calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DieWork {
    /// Read for a command of the host.
    HostRead {
        /// Which.
        id: RequestId,
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

/// What a read wants of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PagePart {
    /// Units, which go over the channel.
    pub units: u32,
    /// Sectors of them, which go to the host.
    pub sectors: u32,
}

#[derive(Clone, Copy, Debug)]
struct DieOperation {
    work: DieWork,
    wanted: PagePart,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Die {
    channel: u32,
    first: u32,
    last: u32,
    current: u32,
    /// Until when it works on its cells, if it can be suspended.
    until: Option<Timestamp>,
    /// The sequence number of the event that it waits for.
    event: u64,
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
        let die = |die| Die {
            channel: die % geometry.channels,
            first: NONE,
            last: NONE,
            current: NONE,
            until: None,
            event: 0,
            suspended: None,
            suspensions_left: 0,
        };
        Medium {
            timing,
            row_units: geometry.row_units,
            suspensions,
            dies: (0..geometry.dies).map(die).collect(),
            channels: vec![Channel::default(); geometry.channels as usize],
            operations: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Gives `die` work; `wanted` is of a read.
    pub fn submit(&mut self, now: Timestamp, die: u32, work: DieWork, wanted: PagePart, agenda: &mut Agenda) {
        let operation = DieOperation { work, wanted, next: NONE };
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

    /// The `event` of that sequence number: `die` has programmed or erased its cells. Returns what is done by that.
    pub fn die_ready(&mut self, now: Timestamp, die: u32, event: u64, agenda: &mut Agenda) -> Option<DieWork> {
        let state = &mut self.dies[die as usize];
        if state.event != event {
            return None;
        }
        state.until = None;
        let work = self.operations[state.current as usize].work;
        self.finish(now, die, agenda);
        Some(work)
    }

    /// `channel` has carried its data. Returns the read that is done by that.
    pub fn channel_ready(&mut self, now: Timestamp, channel: u32, agenda: &mut Agenda) -> Option<(DieWork, PagePart)> {
        let index = channel as usize;
        let die = self.channels[index].carries.take().expect("a channel is ready with what it carries");
        if let Some(next) = self.channels[index].waiting.pop_front() {
            self.carry(now, next, agenda);
        }
        let DieOperation { work, wanted, .. } = self.operations[self.dies[die as usize].current as usize];
        if matches!(work, DieWork::Program { .. }) {
            self.dies[die as usize].suspensions_left = self.suspensions;
            self.work_cells(now, die, self.timing.program, EventKind::Program, agenda);
            return None;
        }
        self.finish(now, die, agenda);
        Some((work, wanted))
    }

    fn suspend(&mut self, now: Timestamp, die: u32, read: u32, agenda: &mut Agenda) -> bool {
        let state = &mut self.dies[die as usize];
        let Some(until) = state.until.filter(|until| *until > now && state.suspensions_left > 0) else {
            return false;
        };
        state.suspensions_left -= 1;
        state.suspended = Some((state.current, until.since(now)));
        state.current = read;
        self.work_cells(now, die, self.timing.suspend + self.timing.read, EventKind::Read, agenda);
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
            self.work_cells(now, die, left, EventKind::Erase, agenda);
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
                self.work_cells(now, die, self.timing.read, EventKind::Read, agenda);
            }
            DieWork::Program { .. } => self.ask_channel(now, die, agenda),
            DieWork::Erase => {
                state.suspensions_left = self.suspensions;
                self.work_cells(now, die, self.timing.erase, EventKind::Erase, agenda);
            }
        }
    }

    fn work_cells(&mut self, now: Timestamp, die: u32, time: Nanos, kind: EventKind, agenda: &mut Agenda) {
        let state = &mut self.dies[die as usize];
        let until = now.saturating_add(time);
        state.until = (kind != EventKind::Read).then_some(until);
        state.event = agenda.at(until, kind, die);
    }

    /// `die` has read its cells, or is to program them: its data goes over the channel when that is free.
    pub fn ask_channel(&mut self, now: Timestamp, die: u32, agenda: &mut Agenda) {
        let channel = &mut self.channels[self.dies[die as usize].channel as usize];
        if channel.carries.is_some() {
            channel.waiting.push_back(die);
        } else {
            self.carry(now, die, agenda);
        }
    }

    fn carry(&mut self, now: Timestamp, die: u32, agenda: &mut Agenda) {
        let Die { channel, current, .. } = self.dies[die as usize];
        let DieOperation { work, wanted, .. } = self.operations[current as usize];
        let units = if matches!(work, DieWork::Program { .. }) { self.row_units } else { wanted.units };
        self.channels[channel as usize].carries = Some(die);
        let until = now.saturating_add(self.timing.unit_transfer * u64::from(units));
        agenda.at(until, EventKind::Channel, channel);
    }
}
