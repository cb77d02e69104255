//! Guests whose processes generate the requests: a closed loop. A process takes steps in no time
//! until it sleeps or waits; its requests arrive when it asks for them, and it goes on when they are
//! done, so that a slow drive slows its own arrivals down.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use traces::{Flags, Lba, Nanos, Operation, Request, RequestId, Sectors, StreamId, Timestamp, VmId};

use self::process::{Process, Waits};
use super::{Next, ReplayError, Source};
use crate::guest::files::BLOCK;
use crate::guest::journal::Journal;
use crate::guest::memory::{Memory, MemorySettings, PageRun};
use crate::guest::page_cache::PageFlags;
use crate::guest::transfer::{Progress, Transfer};
use crate::guest::{Access, Event, FileId, Files, Program, Step};

mod process;

/// A guest before the replay.
pub struct Guest {
    /// Its name.
    pub name: String,
    /// Where its disk begins on the drive.
    pub place: Lba,
    /// Its disk.
    pub files: Files,
    /// The journal of its file system, if it keeps one.
    pub journal: Option<Journal>,
    /// Its page cache, if it has one.
    pub memory: Option<MemorySettings>,
    /// Its processes.
    pub programs: Vec<Box<dyn Program>>,
}

/// When a source of endless processes ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Until {
    /// After so many requests.
    pub requests: Option<u64>,
    /// At this time; requests under way are still completed.
    pub time: Option<Timestamp>,
}

struct Host {
    name: String,
    place: Lba,
    files: Files,
    journal: Option<Journal>,
    memory: Option<Memory>,
    /// The first process that waits for a page, by slot.
    page_waiters: Vec<u32>,
    /// Processes that wait for memory, or until less is dirty.
    starved: Vec<u32>,
    /// Processes that wait until a file's writes are done.
    syncing: Vec<(u32, FileId)>,
    /// How often each event has occurred and when last, and who waits for how many.
    events: Vec<(u64, Timestamp)>,
    waiting_for_events: Vec<(u32, u32, u64)>,
}

const NOBODY: u32 = u32::MAX;

/// The stream of what a guest's kernel writes on its own; processes count from 1.
const KERNEL: StreamId = StreamId(0);

/// Something that happens at a time of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wake {
    Process(u32),
    /// A guest's periodic sweep.
    Sweep(u16),
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// A part of a direct access.
    Access(u32),
    /// Pages to be read.
    Load,
    /// Dirty pages of a file.
    WriteBack(FileId),
    /// A step of the journal's commit.
    Journal,
    /// The flush of a process's sync.
    Flush(u32),
}

/// A direct access under way.
#[derive(Clone, Copy, Debug)]
struct Group {
    process: u32,
    parts: u32,
    is_awaited: bool,
}

/// The source.
pub struct Guests {
    hosts: Vec<Host>,
    processes: Vec<Process>,
    until: Until,
    due: BinaryHeap<Reverse<(Timestamp, u64, Wake)>>,
    sequence: u64,
    emitted: VecDeque<(Request, Purpose)>,
    purposes: Vec<Purpose>,
    groups: Vec<Group>,
    free_groups: Vec<u32>,
    /// Processes that go on now.
    runnable: VecDeque<u32>,
    running: usize,
    taken: u64,
    under_way: u64,
    now: Timestamp,
    // Reused so that nothing is allocated per request.
    reads: Vec<PageRun>,
    woken: Vec<u32>,
}

impl Guests {
    /// Guests whose processes begin at time zero, in their order.
    pub fn new(guests: Vec<Guest>, until: Until) -> Guests {
        let mut source = Guests {
            hosts: Vec::new(),
            processes: Vec::new(),
            until,
            due: BinaryHeap::new(),
            sequence: 0,
            emitted: VecDeque::new(),
            purposes: Vec::new(),
            groups: Vec::new(),
            free_groups: Vec::new(),
            runnable: VecDeque::new(),
            running: 0,
            taken: 0,
            under_way: 0,
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

    /// Names of the guests, in the order of their numbers.
    pub fn names(&self) -> Vec<String> {
        self.hosts.iter().map(|host| host.name.clone()).collect()
    }

    /// How often an event of a guest has occurred, and when last.
    pub fn occurred(&self, guest: usize, event: Event) -> Option<(u64, Timestamp)> {
        self.hosts[guest].events.get(event.0 as usize).copied().filter(|(count, _)| *count > 0)
    }

    fn boot(&mut self, guest: Guest) {
        let number = self.hosts.len() as u16;
        let mut files = guest.files;
        files.drain_freed(|_, _, _| {});
        files.take_changes();
        let memory = guest.memory.map(Memory::new);
        if let Some(memory) = &memory {
            let interval = memory.settings().writeback_interval;
            self.wake_at(Timestamp::ZERO + interval, Wake::Sweep(number));
        }
        for (index, program) in guest.programs.into_iter().enumerate() {
            let process = self.processes.len() as u32;
            self.processes.push(Process::new(program, number, StreamId(index as u32 + 1)));
            self.wake_at(Timestamp::ZERO, Wake::Process(process));
        }
        self.hosts.push(Host {
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
        });
    }

    fn wake_at(&mut self, time: Timestamp, wake: Wake) {
        self.sequence += 1;
        self.due.push(Reverse((time, self.sequence, wake)));
    }

    fn has_ended(&self) -> bool {
        (self.running == 0 && self.emitted.is_empty())
            || self.until.requests.is_some_and(|most| self.taken >= most)
            || self.until.time.is_some_and(|end| self.now >= end)
    }

    /// Lets every process that can go on do so until it waits.
    fn run(&mut self, now: Timestamp) -> Result<(), ReplayError> {
        while let Some(process) = self.runnable.pop_front() {
            self.go_on(now, process)?;
        }
        Ok(())
    }

    fn go_on(&mut self, now: Timestamp, index: u32) -> Result<(), ReplayError> {
        loop {
            if let Waits::Transfer(transfer) = self.processes[index as usize].waits {
                if !self.transfer(now, index, transfer) {
                    return Ok(());
                }
                continue;
            }
            let process = &mut self.processes[index as usize];
            let host = &mut self.hosts[usize::from(process.guest)];
            let step = process
                .program
                .step(now, &mut host.files)
                .map_err(|full| ReplayError::GuestDiskFull { guest: host.name.clone(), full })?;
            if let Some(memory) = &mut host.memory {
                host.files.drain_freed(|file, start, pages| memory.forget(PageRun { file, start, pages }));
            }
            if !self.begin(now, index, step) {
                return Ok(());
            }
        }
    }

    /// Begins a step; whether it is already done.
    fn begin(&mut self, now: Timestamp, index: u32, step: Step) -> bool {
        let process = &mut self.processes[index as usize];
        let host = &mut self.hosts[usize::from(process.guest)];
        match step {
            Step::Sleep(span) => {
                self.wake_at(now.saturating_add(span), Wake::Process(index));
                false
            }
            Step::Access(access) | Step::Start(access) if host.memory.is_some() && is_cached(&access) => {
                process.waits = Waits::Transfer(Transfer::new(access, &host.files));
                true
            }
            Step::Access(access) => !self.access(now, index, access, true),
            Step::Start(access) => {
                self.access(now, index, access, false);
                true
            }
            Step::AwaitAtMost(most) if process.started <= most => true,
            Step::AwaitAtMost(most) => {
                process.waits = Waits::Started(most);
                false
            }
            Step::Sync(file) => {
                self.sync(now, index, file);
                false
            }
            Step::Post(event) => {
                let event = event.0 as usize;
                if event >= host.events.len() {
                    host.events.resize(event + 1, (0, now));
                }
                let count = host.events[event].0 + 1;
                host.events[event] = (count, now);
                let runnable = &mut self.runnable;
                host.waiting_for_events.retain(|&(process, awaited, least)| {
                    let waits = awaited as usize != event || count < least;
                    if !waits {
                        runnable.push_back(process);
                    }
                    waits
                });
                true
            }
            Step::Await(event, least) => {
                let has_occurred = host.events.get(event.0 as usize).is_some_and(|(count, _)| *count >= least);
                if !has_occurred {
                    host.waiting_for_events.push((index, event.0, least));
                }
                has_occurred
            }
            Step::Exit => {
                self.running -= 1;
                false
            }
        }
    }

    /// Emits the requests of a direct access, one for each piece of the file; whether there are any.
    fn access(&mut self, now: Timestamp, index: u32, access: Access, is_awaited: bool) -> bool {
        let group = self.free_groups.pop().unwrap_or_else(|| {
            self.groups.push(Group { process: 0, parts: 0, is_awaited: false });
            self.groups.len() as u32 - 1
        });
        let Process { guest, stream, .. } = self.processes[index as usize];
        let host = &self.hosts[usize::from(guest)];
        let end = access.offset.count().saturating_add(access.sectors.count());
        let mut offset = access.offset;
        let mut parts = 0;
        while offset.count() < end
            && let Some(extent) = host.files.extent_at(access.file, offset)
        {
            let sectors = extent.sectors.min(Sectors::new(end - offset.count())).min(Request::SECTORS_MAX);
            let mut request = Request::new(now, access.operation, host.place_of(extent.lba), sectors);
            request.flags = access.flags | Flags::SYNC;
            (request.vm, request.stream) = (VmId(guest), stream);
            self.emitted.push_back((request, Purpose::Access(group)));
            parts += 1;
            offset += sectors;
        }
        if parts == 0 {
            self.free_groups.push(group);
            return false;
        }
        self.groups[group as usize] = Group { process: index, parts, is_awaited };
        self.processes[index as usize].started += u32::from(!is_awaited);
        true
    }

    /// Lets an access through the page cache go on; whether the process can take its next step.
    fn transfer(&mut self, now: Timestamp, index: u32, mut transfer: Transfer) -> bool {
        let process = &mut self.processes[index as usize];
        let host = &mut self.hosts[usize::from(process.guest)];
        let memory = host.memory.as_mut().expect("only guests with memory have transfers");
        let ahead = process.read_ahead_of(transfer.file());
        let progress = transfer.proceed(now, memory, &host.files, ahead, &mut self.reads);
        process.waits = Waits::Transfer(transfer);
        match progress {
            Progress::Done(pages) => {
                process.waits = Waits::Nothing;
                let copied = Nanos::from_ns(memory.settings().page_copy.as_ns() * pages);
                self.emit_reads(now, index);
                if copied > Nanos::ZERO {
                    self.wake_at(now.saturating_add(copied), Wake::Process(index));
                    return false;
                }
                return true;
            }
            Progress::AwaitsPage(slot) => {
                let slot = slot.index();
                if slot >= host.page_waiters.len() {
                    host.page_waiters.resize(slot + 1, NOBODY);
                }
                process.next_waiter = std::mem::replace(&mut host.page_waiters[slot], index);
            }
            Progress::AwaitsMemory | Progress::AwaitsWriting => host.starved.push(index),
        }
        let guest = process.guest;
        self.emit_reads(now, index);
        self.write_back(now, guest);
        false
    }

    fn emit_reads(&mut self, now: Timestamp, index: u32) {
        let Process { guest, stream, .. } = self.processes[index as usize];
        for run in self.reads.drain(..) {
            let request = self.hosts[usize::from(guest)].request(now, Operation::Read, run, (VmId(guest), stream));
            self.emitted.push_back((request, Purpose::Load));
        }
    }

    /// Writes what is to be written in the background now.
    fn write_back(&mut self, now: Timestamp, guest: u16) {
        let host = &mut self.hosts[usize::from(guest)];
        while let Some(run) = host.memory.as_mut().and_then(Memory::next_write) {
            let request = host.request(now, Operation::Write, run, (VmId(guest), KERNEL));
            self.emitted.push_back((request, Purpose::WriteBack(run.file)));
        }
    }

    fn sync(&mut self, now: Timestamp, index: u32, file: FileId) {
        let Process { guest, stream, .. } = self.processes[index as usize];
        let host = &mut self.hosts[usize::from(guest)];
        while let Some(run) = host.memory.as_mut().and_then(|memory| memory.take_run(file)) {
            let mut request = host.request(now, Operation::Write, run, (VmId(guest), stream));
            request.flags = Flags::SYNC;
            self.emitted.push_back((request, Purpose::WriteBack(file)));
        }
        if host.memory.as_ref().is_none_or(|memory| memory.is_quiet(file)) {
            self.commit(now, index);
        } else {
            host.syncing.push((index, file));
        }
    }

    /// The data of a process's sync is written: now the journal, or a flush where there is none.
    fn commit(&mut self, now: Timestamp, index: u32) {
        let Process { guest, stream, .. } = self.processes[index as usize];
        let host = &mut self.hosts[usize::from(guest)];
        if let Some(journal) = &mut host.journal {
            journal.wait(index);
            self.begin_commit(now, guest);
        } else {
            let mut request = Request::new(now, Operation::Flush, Lba::ZERO, Sectors::ZERO);
            (request.vm, request.stream, request.flags) = (VmId(guest), stream, Flags::SYNC);
            self.emitted.push_back((request, Purpose::Flush(index)));
        }
    }

    fn begin_commit(&mut self, now: Timestamp, guest: u16) {
        let host = &mut self.hosts[usize::from(guest)];
        let request = host.journal.as_mut().and_then(|journal| journal.begin(now, &mut host.files));
        self.emit_journal(guest, request);
    }

    fn emit_journal(&mut self, guest: u16, request: Option<Request>) {
        if let Some(mut request) = request {
            request.lba = self.hosts[usize::from(guest)].place_of(request.lba);
            (request.vm, request.stream) = (VmId(guest), KERNEL);
            self.emitted.push_back((request, Purpose::Journal));
        }
    }

    fn sweep(&mut self, now: Timestamp, guest: u16) {
        let host = &mut self.hosts[usize::from(guest)];
        let memory = host.memory.as_mut().expect("only guests with memory sweep");
        let interval = memory.settings().writeback_interval;
        memory.begin_sweep(now);
        if host.files.has_changes()
            && let Some(journal) = &mut host.journal
        {
            journal.want();
        }
        self.write_back(now, guest);
        self.begin_commit(now, guest);
        self.wake_at(now.saturating_add(interval), Wake::Sweep(guest));
    }

    /// With nothing under way, processes that all wait for events wait for ever.
    fn check_for_deadlock(&self) -> Result<(), ReplayError> {
        let waiting = |host: &Host| host.waiting_for_events.len();
        let waits: usize = self.hosts.iter().map(waiting).sum();
        if waits == 0 || waits < self.running || !self.runnable.is_empty() {
            return Ok(());
        }
        let host = self.hosts.iter().find(|host| waiting(host) > 0).expect("some wait");
        Err(ReplayError::Deadlock { guest: host.name.clone(), processes: waiting(host) })
    }

    fn loaded(&mut self, request: &Request) {
        let host = &mut self.hosts[usize::from(request.vm.0)];
        let memory = host.memory.as_mut().expect("only guests with memory load pages");
        let run = host_pages(host.place, request, FileId(0));
        for number in run.start..run.start + run.pages {
            let Some(slot) = memory.cache.find(number) else { continue };
            memory.cache.set(slot, PageFlags::LOADING, false);
            if let Some(waiter) = host.page_waiters.get_mut(slot.index()) {
                let mut next = std::mem::replace(waiter, NOBODY);
                // The last that began to wait comes first in the list.
                let first = self.woken.len();
                while next != NOBODY {
                    self.woken.push(next);
                    next = std::mem::replace(&mut self.processes[next as usize].next_waiter, NOBODY);
                }
                self.woken[first..].reverse();
            }
        }
        self.woken.append(&mut host.starved);
    }

    fn written(&mut self, now: Timestamp, request: &Request, file: FileId) {
        let guest = request.vm.0;
        let host = &mut self.hosts[usize::from(guest)];
        let run = host_pages(host.place, request, file);
        let memory = host.memory.as_mut().expect("only guests with memory write back");
        memory.written(run);
        self.woken.append(&mut host.starved);
        if memory.is_quiet(file) {
            let mut ready = Vec::new();
            host.syncing.retain(|&(process, waits_for)| {
                if waits_for == file {
                    ready.push(process);
                }
                waits_for != file
            });
            for process in ready {
                self.commit(now, process);
            }
        }
        self.write_back(now, guest);
    }

    fn access_completed(&mut self, group: u32) {
        let Group { process, parts, is_awaited } = &mut self.groups[group as usize];
        *parts -= 1;
        if *parts > 0 {
            return;
        }
        let (index, is_awaited) = (*process, *is_awaited);
        self.free_groups.push(group);
        if is_awaited {
            self.woken.push(index);
            return;
        }
        let process = &mut self.processes[index as usize];
        process.started -= 1;
        if let Waits::Started(most) = process.waits
            && process.started <= most
        {
            process.waits = Waits::Nothing;
            self.woken.push(index);
        }
    }

    fn journal_completed(&mut self, now: Timestamp, guest: u16) {
        let host = &mut self.hosts[usize::from(guest)];
        let journal = host.journal.as_mut().expect("only a guest with a journal writes to it");
        let next = journal.completed(now, &host.files, &mut self.woken);
        if next.is_some() {
            self.emit_journal(guest, next);
        } else {
            self.begin_commit(now, guest);
        }
    }
}

fn is_cached(access: &Access) -> bool {
    !access.direct && access.operation.moves_data()
}

/// The pages that a request of a guest's memory moves.
fn host_pages(place: Lba, request: &Request, file: FileId) -> PageRun {
    let start = (request.lba.sector() - place.sector()) / BLOCK.count();
    PageRun { file, start: start as u32, pages: (request.sectors().count() / BLOCK.count()) as u32 }
}

impl Host {
    fn place_of(&self, lba: Lba) -> Lba {
        Lba::new(self.place.sector() + lba.sector())
    }

    fn request(&self, now: Timestamp, operation: Operation, run: PageRun, (vm, stream): (VmId, StreamId)) -> Request {
        let lba = self.place_of(Lba::new(u64::from(run.start) * BLOCK.count()));
        let mut request = Request::new(now, operation, lba, Sectors::new(u64::from(run.pages) * BLOCK.count()));
        (request.vm, request.stream) = (vm, stream);
        request
    }
}

impl Source for Guests {
    fn next(&mut self) -> Result<Next, ReplayError> {
        if self.under_way == 0 && self.emitted.is_empty() {
            self.check_for_deadlock()?;
        }
        Ok(if self.has_ended() {
            Next::Exhausted
        } else if !self.emitted.is_empty() {
            Next::At(self.now)
        } else {
            self.due.peek().map_or(Next::Blocked, |&Reverse((time, _, _))| Next::At(time.max(self.now)))
        })
    }

    fn advance(&mut self, now: Timestamp) -> Result<(), ReplayError> {
        self.now = now;
        while let Some(&Reverse((time, _, wake))) = self.due.peek()
            && time <= now
            && !self.has_ended()
        {
            self.due.pop();
            match wake {
                Wake::Process(process) => self.runnable.push_back(process),
                Wake::Sweep(guest) => self.sweep(now, guest),
            }
            self.run(now)?;
        }
        self.run(now)
    }

    fn take(&mut self, _now: Timestamp, id: RequestId) -> Result<Request, ReplayError> {
        let (request, purpose) = self.emitted.pop_front().expect("the engine takes what was announced");
        if id.index() >= self.purposes.len() {
            self.purposes.resize(id.index() + 1, Purpose::Load);
        }
        self.purposes[id.index()] = purpose;
        self.taken += 1;
        self.under_way += 1;
        Ok(request)
    }

    fn completed(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.now = now;
        self.under_way -= 1;
        match self.purposes[id.index()] {
            Purpose::Access(group) => self.access_completed(group),
            Purpose::Load => self.loaded(request),
            Purpose::WriteBack(file) => self.written(now, request, file),
            Purpose::Journal => self.journal_completed(now, request.vm.0),
            Purpose::Flush(process) => self.woken.push(process),
        }
        self.runnable.extend(self.woken.drain(..));
    }
}
