//! Guests whose processes generate the requests of a replay: a closed loop. A process takes its steps in zero time
//! until it sleeps or waits. Its requests arrive when it makes them, and it continues when they have completed. So a
//! slow drive delays its own arrivals.

use std::collections::VecDeque;

use traces::{Lba, Request, RequestId, StreamId, Timestamp, VmId};

use self::due::{Due, Wake};
use self::process::{Process, Waits};
use self::running_guest::RunningGuest;
use crate::guest::journal::Journal;
use crate::guest::memory::{Memory, MemorySettings, PageRun};
use crate::guest::{Event, FileId, Files, OutOfSpace, Program};
use replay::{Next, ReplayError, Source};

mod due;
mod process;
mod running_guest;
mod steps;
mod writing;

/// A guest before the start of the replay.
pub struct Guest {
    /// Its name.
    pub name: String,
    /// The first sector of its disk on the drive.
    pub place: Lba,
    /// The files on its disk.
    pub files: Files,
    /// The journal of its file system, if it has one.
    pub journal: Option<Journal>,
    /// Its page cache, if it has one.
    pub memory: Option<MemorySettings>,
    /// Its processes.
    pub programs: Vec<Box<dyn Program>>,
}

/// The times at which an event of a guest has occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occurrences {
    /// How often.
    pub count: u64,
    /// When first.
    pub first: Timestamp,
    /// When last.
    pub last: Timestamp,
}

/// The end of a source whose processes are endless.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Until {
    /// Ends after this number of requests.
    pub requests: Option<u64>,
    /// Ends at this time; outstanding requests still complete.
    pub time: Option<Timestamp>,
}

const NO_PROCESS: u32 = u32::MAX;

/// The stream of the writes that the kernel of a guest makes on its own; the streams of processes count from 1.
const KERNEL: StreamId = StreamId(0);

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// A part of a direct access.
    Access(u32),
    /// Pages to be read.
    Load,
    /// Dirty pages of a file.
    WriteBack(FileId),
    /// A step of a commit of the journal.
    Journal,
    /// The flush for the sync of a process.
    Flush(u32),
}

/// A direct access that has not completed.
#[derive(Clone, Copy, Debug)]
struct Group {
    process: u32,
    parts: u32,
    is_awaited: bool,
}

/// Why guests cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// A guest's file system is full.
    #[error("guest {guest}: {full}")]
    DiskFull {
        /// The guest's name.
        guest: String,
        /// The allocation that failed.
        full: OutOfSpace,
    },
    /// All processes of a guest wait for events that none of them will post.
    #[error("guest {guest}: all {processes} processes that have not ended wait for events that none of them will post")]
    Deadlock {
        /// The guest's name.
        guest: String,
        /// The number of waiting processes.
        processes: usize,
    },
}

impl From<GuestError> for ReplayError {
    fn from(error: GuestError) -> ReplayError {
        ReplayError::Generator(Box::new(error))
    }
}

/// The source of the requests of guests.
pub struct Guests {
    guests: Vec<RunningGuest>,
    processes: Vec<Process>,
    until: Until,
    due: Due,
    emitted: VecDeque<(Request, Purpose)>,
    purposes: Vec<Purpose>,
    groups: Vec<Group>,
    free_groups: Vec<u32>,
    /// Processes that are ready to continue.
    runnable: VecDeque<u32>,
    running: usize,
    /// Guests whose last process has ended, until [`Source::ended_vm`] gives them.
    ended: VecDeque<VmId>,
    taken: u64,
    outstanding: u64,
    now: Timestamp,
    // Reused so that nothing is allocated per request.
    reads: Vec<PageRun>,
    woken: Vec<u32>,
}

impl Guests {
    /// Guests whose processes begin at time zero, in their order.
    pub fn new(guests: Vec<Guest>, until: Until) -> Guests {
        let mut source = Guests {
            guests: Vec::new(),
            processes: Vec::new(),
            until,
            due: Due::default(),
            emitted: VecDeque::new(),
            purposes: Vec::new(),
            groups: Vec::new(),
            free_groups: Vec::new(),
            runnable: VecDeque::new(),
            running: 0,
            ended: VecDeque::new(),
            taken: 0,
            outstanding: 0,
            now: Timestamp::ZERO,
            reads: Vec::new(),
            woken: Vec::new(),
        };
        for guest in guests {
            source.boot(guest);
        }
        source.running = source.processes.len();
        source
    }

    /// The names of the guests, in the order of their numbers.
    pub fn names(&self) -> Vec<String> {
        self.guests.iter().map(|running| running.name.clone()).collect()
    }

    /// The occurrences of an event of a guest, if it has occurred.
    pub fn occurred(&self, guest: usize, event: Event) -> Option<Occurrences> {
        self.guests[guest].events.get(event.0 as usize).copied().flatten()
    }

    fn boot(&mut self, guest: Guest) {
        let number = self.guests.len() as u16;
        let mut files = guest.files;
        files.drain_freed(|_, _, _| {});
        files.take_changes();
        let memory = guest.memory.map(Memory::new);
        if let Some(memory) = &memory {
            let interval = memory.settings().writeback_interval;
            self.due.add(Timestamp::ZERO + interval, Wake::Sweep(number));
        }
        let running = guest.programs.len();
        for (index, program) in guest.programs.into_iter().enumerate() {
            let process = self.processes.len() as u32;
            self.processes.push(Process::new(program, number, StreamId(index as u32 + 1)));
            self.due.add(Timestamp::ZERO, Wake::Process(process));
        }
        self.guests.push(RunningGuest {
            name: guest.name,
            place: guest.place,
            files,
            journal: guest.journal,
            memory,
            page_waiters: Vec::new(),
            starved: Vec::new(),
            syncing: Vec::new(),
            events: Vec::new(),
            waiting_for_events: Vec::new(),
            processor_free: Timestamp::ZERO,
            running,
        });
    }

    fn has_ended(&self) -> bool {
        (self.running == 0 && self.emitted.is_empty())
            || self.until.requests.is_some_and(|most| self.taken >= most)
            || self.until.time.is_some_and(|end| self.now >= end)
    }

    /// Runs every ready process until it waits.
    fn run(&mut self, now: Timestamp) -> Result<(), ReplayError> {
        while let Some(process) = self.runnable.pop_front() {
            self.continue_process(now, process)?;
        }
        Ok(())
    }

    fn continue_process(&mut self, now: Timestamp, index: u32) -> Result<(), ReplayError> {
        loop {
            let process = &mut self.processes[index as usize];
            if let Waits::Transfer(transfer) = process.waits {
                process.waits = Waits::Nothing;
                if !self.transfer(now, index, transfer) {
                    return Ok(());
                }
                continue;
            }
            let running = &mut self.guests[usize::from(process.guest)];
            let step = process
                .program
                .step(now, &mut running.files)
                .map_err(|full| GuestError::DiskFull { guest: running.name.clone(), full })?;
            if running.files.has_freed()
                && let Some(memory) = &mut running.memory
            {
                running.files.drain_freed(|file, start, pages| memory.forget(PageRun { file, start, pages }));
            }
            if !self.begin(now, index, step) {
                return Ok(());
            }
        }
    }

    /// Without an outstanding request, processes that all wait for events wait for ever.
    fn check_for_deadlock(&self) -> Result<(), ReplayError> {
        let waiting = |running: &RunningGuest| running.waiting_for_events.len();
        let waits: usize = self.guests.iter().map(waiting).sum();
        if waits == 0 || waits < self.running || !self.runnable.is_empty() {
            return Ok(());
        }
        let running = self.guests.iter().find(|running| waiting(running) > 0).expect("some wait");
        Err(GuestError::Deadlock { guest: running.name.clone(), processes: waiting(running) }.into())
    }
}

impl Source for Guests {
    fn next(&mut self) -> Result<Next, ReplayError> {
        if self.outstanding == 0 && self.emitted.is_empty() {
            self.check_for_deadlock()?;
        }
        Ok(if self.has_ended() {
            Next::Exhausted
        } else if !self.emitted.is_empty() {
            Next::At(self.now)
        } else {
            self.due.time().map_or(Next::Blocked, |time| Next::At(time.max(self.now)))
        })
    }

    fn advance(&mut self, now: Timestamp) -> Result<(), ReplayError> {
        self.now = now;
        self.run(now)?;
        while !self.has_ended()
            && let Some(wake) = self.due.take(now)
        {
            match wake {
                Wake::Process(process) => self.continue_process(now, process)?,
                Wake::Sweep(guest) => self.sweep(now, guest),
            }
            self.run(now)?;
        }
        Ok(())
    }

    fn acts_alone(&self) -> bool {
        true
    }

    fn run_ahead(&mut self, until: Timestamp) -> Result<Option<Timestamp>, ReplayError> {
        while let Next::At(time) = self.next()?
            && time < until
        {
            self.advance(time)?;
            if !self.emitted.is_empty() || !self.ended.is_empty() {
                return Ok(Some(time));
            }
        }
        Ok(None)
    }

    fn take(&mut self, _now: Timestamp, id: RequestId) -> Result<Request, ReplayError> {
        let (request, purpose) = self.emitted.pop_front().expect("the engine takes what was announced");
        if id.index() >= self.purposes.len() {
            self.purposes.resize(id.index() + 1, Purpose::Load);
        }
        self.purposes[id.index()] = purpose;
        self.taken += 1;
        self.outstanding += 1;
        Ok(request)
    }

    fn completed(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.now = now;
        self.outstanding -= 1;
        match self.purposes[id.index()] {
            Purpose::Access(group) => self.access_completed(group),
            Purpose::Load => self.loaded(request),
            Purpose::WriteBack(file) => self.written(now, request, file),
            Purpose::Journal => self.journal_completed(now, request.vm.0),
            Purpose::Flush(process) => self.woken.push(process),
        }
        self.runnable.extend(self.woken.drain(..));
    }

    fn ended_vm(&mut self) -> Option<VmId> {
        self.ended.pop_front()
    }
}
