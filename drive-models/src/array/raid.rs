//! Times array operations, such as a RAID-5 write: decides when each access to a member starts and ends.
//!
//! An *operation* is one read, one write or one flush of the array, begun by the controller. (The type [`Operation`] is
//! something else: whether a request reads, writes or flushes.) `plan` turns an operation into accesses to members:
//!
//! - A read queues all accesses at the members at once.
//! - A write to rows with parity has up to three *steps*: the partial row at its start, the full rows, and the partial row
//!   at its end. Each step queues its reads at once, and its writes when the last of its reads has ended. A
//!   step without reads, such as one of full rows, queues its writes at once. Steps do not wait for one another.
//! - A write without parity is one step without reads.
//! - A flush goes to all members with a volatile write cache at once.
//!
//! An access starts when the member's queue sends it to the drive, and ends when the drive completes it. An operation
//! ends with its last access.

use std::ops::Range;

use traces::{Flags, Lba, Nanos, Operation, Request, Sectors, Timestamp};

use super::geometry::{Geometry, StripePosition};
use super::member::{ArrayMember, EndedAccess};
use super::plan::{MemberAccess, Planner, UnitWrite};
use crate::drive::WriteCache;

/// The number of an outstanding operation; small and reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationId(pub u32);

/// An operation that has ended, now.
#[derive(Clone, Copy, Debug)]
pub struct EndedOperation {
    /// Its number.
    pub id: OperationId,
    /// When a member began to serve its first access.
    pub started: Timestamp,
    /// The distance that arms moved for it, all members together.
    pub seek: Sectors,
    /// Whether the members' own caches had all of it.
    pub hit: bool,
}

#[derive(Clone, Copy, Debug)]
struct RunningOperation {
    request: Request,
    steps: u32,
    started: Timestamp,
    seek: Sectors,
    hit: bool,
}

#[derive(Debug, Default)]
struct OperationStep {
    operation: u32,
    /// Accesses that have not ended.
    pending: u32,
    /// The writes that follow the reads.
    writes: Vec<MemberAccess>,
}

/// Values at small numbers that are reused; a freed one keeps its buffers.
#[derive(Debug)]
struct Slab<T> {
    values: Vec<T>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    fn new() -> Slab<T> {
        Slab { values: Vec::new(), free: Vec::new() }
    }

    /// A free number, its value the last one's or `fresh`.
    fn take(&mut self, fresh: impl FnOnce() -> T) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.values.push(fresh());
            self.values.len() as u32 - 1
        })
    }
}

/// An array without a cache.
pub struct Raid {
    planner: Planner,
    members: Vec<ArrayMember>,
    running: Slab<RunningOperation>,
    steps: Slab<OperationStep>,
    /// Members that have new accesses or a free drive.
    touched: Vec<bool>,
    // Reused so that nothing is allocated per request.
    reads: Vec<MemberAccess>,
    writes: Vec<MemberAccess>,
    ended: Vec<EndedAccess>,
    done: Vec<EndedOperation>,
}

impl Raid {
    /// An array over `members`, all idle.
    pub fn new(geometry: Geometry, failed: Option<u64>, members: Vec<ArrayMember>) -> Raid {
        Raid {
            planner: Planner::new(geometry, failed),
            running: Slab::new(),
            steps: Slab::new(),
            touched: vec![false; members.len()],
            members,
            reads: Vec::new(),
            writes: Vec::new(),
            ended: Vec::new(),
            done: Vec::new(),
        }
    }

    /// The address map.
    pub fn geometry(&self) -> &Geometry {
        self.planner.geometry()
    }

    /// The expected time of a read of at most a stripe unit by one member, with its head at the place of `from`.
    pub fn expected(&self, from: Lba, to: Lba, sectors: Sectors) -> Nanos {
        let map = self.geometry();
        let on_member = |lba| {
            let StripePosition { row, offset, .. } = map.place(lba);
            Lba::new(map.row_start(row) + offset)
        };
        let StripePosition { row, unit, .. } = map.place(to);
        let sectors = sectors.min(Sectors::new(map.stripe_unit()));
        self.members[map.data_member(row, unit) as usize].expected(on_member(from), on_member(to), sectors)
    }

    /// The write cache of the members: volatile if any of them is, forced unit access if all of those support it.
    pub fn write_cache(&self) -> WriteCache {
        let live = self.members.iter().zip(0..).filter(|&(_, number)| self.planner.failed() != Some(number));
        live.fold(WriteCache::Through, |all, (member, _)| match (all, member.write_cache()) {
            (cache, WriteCache::Through) | (WriteCache::Through, cache) => cache,
            (WriteCache::Volatile { fua: a }, WriteCache::Volatile { fua: b }) => WriteCache::Volatile { fua: a && b },
        })
    }

    /// Begins a read of `request`.
    pub fn read(&mut self, now: Timestamp, request: &Request) -> OperationId {
        let id = self.begin(*request);
        self.planner.read(request.lba.sector(), request.end().sector(), &mut self.reads);
        self.begin_step(now, id);
        self.dispatch(now);
        id
    }

    /// Begins a write of `request`.
    pub fn write(&mut self, now: Timestamp, request: &Request) -> OperationId {
        let id = self.begin(*request);
        let (start, end) = (request.lba.sector(), request.end().sector());
        if self.geometry().level().parities() == 0 {
            self.write_step(now, id, start, end);
        } else {
            let row = self.geometry().row_sectors();
            // The full rows, empty and at the end of the first row where there are none.
            let first = start.next_multiple_of(row).min(end);
            let last = (end / row * row).max(first);
            for (start, end) in [(start, first), (first, last), (last, end)] {
                if start < end {
                    self.write_step(now, id, start, end);
                }
            }
        }
        self.dispatch(now);
        id
    }

    /// Begins a write of some sectors of one row, with the flags of `like`.
    pub fn write_row(&mut self, now: Timestamp, like: Request, row: u64, written: &[UnitWrite]) -> OperationId {
        let id = self.begin(like);
        self.planner.write_row(row, written, &mut self.reads, &mut self.writes);
        self.begin_step(now, id);
        self.dispatch(now);
        id
    }

    /// Begins a flush of all members whose write cache is volatile; there must be one.
    pub fn flush(&mut self, now: Timestamp, request: &Request) -> OperationId {
        let id = self.begin(*request);
        let step = self.steps.take(OperationStep::default);
        self.running.values[id.0 as usize].steps += 1;
        self.steps.values[step as usize].operation = id.0;
        for number in 0..self.members.len() {
            let live = self.planner.failed() != Some(number as u64);
            if live && self.members[number].write_cache() != WriteCache::Through {
                self.steps.values[step as usize].pending += 1;
                self.members[number].insert(now, step, request);
                self.touched[number] = true;
            }
        }
        self.dispatch(now);
        id
    }

    fn begin(&mut self, mut request: Request) -> OperationId {
        // The stage makes the flush sequence that the flag is part of. Only its write reaches the members.
        request.flags.remove(Flags::PREFLUSH);
        let running = RunningOperation { request, steps: 0, started: Timestamp::MAX, seek: Sectors::ZERO, hit: true };
        let id = self.running.take(|| running);
        self.running.values[id as usize] = running;
        OperationId(id)
    }

    fn write_step(&mut self, now: Timestamp, id: OperationId, start: u64, end: u64) {
        self.planner.write(start, end, &mut self.reads, &mut self.writes);
        self.begin_step(now, id);
    }

    /// Begins a step with the reads and writes that were planned.
    fn begin_step(&mut self, now: Timestamp, id: OperationId) {
        let step = self.steps.take(OperationStep::default);
        self.running.values[id.0 as usize].steps += 1;
        let values = &mut self.steps.values[step as usize];
        values.operation = id.0;
        std::mem::swap(&mut values.writes, &mut self.writes);
        let mut reads = std::mem::take(&mut self.reads);
        if reads.is_empty() {
            std::mem::swap(&mut reads, &mut self.steps.values[step as usize].writes);
        }
        self.insert(now, step, &mut reads);
        self.reads = reads;
    }

    /// Puts accesses into the queues of their members.
    fn insert(&mut self, now: Timestamp, step: u32, accesses: &mut Vec<MemberAccess>) {
        let like = self.running.values[self.steps.values[step as usize].operation as usize].request;
        for access in accesses.drain(..) {
            let mut request = like;
            request.operation = access.operation;
            request.lba = Lba::new(access.start);
            request.set_sectors(Sectors::new(access.end - access.start));
            let copies = access.member..access.member + self.geometry().copies();
            if access.operation == Operation::Read {
                self.insert_one(now, step, self.copy_to_read(copies, request.lba), request);
                continue;
            }
            for member in copies {
                if self.planner.failed() != Some(member) {
                    self.insert_one(now, step, member as usize, request);
                }
            }
        }
    }

    fn insert_one(&mut self, now: Timestamp, step: u32, member: usize, request: Request) {
        self.steps.values[step as usize].pending += 1;
        self.members[member].insert(now, step, &request);
        self.touched[member] = true;
    }

    /// Chooses the member to read from among those that hold the same: the one with the fewest outstanding accesses,
    /// then the one whose last access ends nearest, then the first.
    fn copy_to_read(&self, copies: Range<u64>, lba: Lba) -> usize {
        let live = copies.filter(|&member| self.planner.failed() != Some(member)).map(|member| member as usize);
        live.min_by_key(|&member| {
            let member = &self.members[member];
            (member.held(), member.heading_for().distance(lba))
        })
        .expect("at most one member has failed")
    }

    fn dispatch(&mut self, now: Timestamp) {
        for (member, touched) in self.members.iter_mut().zip(&mut self.touched) {
            if std::mem::take(touched) {
                member.dispatch(now);
            }
        }
    }

    /// The time of the next event, [`Timestamp::MAX`] for never.
    pub fn next_event(&self) -> Timestamp {
        self.members.iter().map(ArrayMember::next_event).min().unwrap_or(Timestamp::MAX)
    }

    /// Simulates the events at `now`, the time of the next event, and appends the operations that have ended; the
    /// caller that began one has to forget it.
    pub fn advance(&mut self, now: Timestamp, done: &mut Vec<EndedOperation>) {
        let mut ended = std::mem::take(&mut self.ended);
        for (member, touched) in self.members.iter_mut().zip(&mut self.touched) {
            if member.next_event() <= now {
                member.advance(now, &mut ended);
                *touched = true;
            }
        }
        for ended in ended.drain(..) {
            self.access_ended(now, &ended);
        }
        self.ended = ended;
        self.dispatch(now);
        done.append(&mut self.done);
    }

    /// Frees the number of an operation that has ended, for another one.
    pub fn forget(&mut self, id: OperationId) {
        self.running.free.push(id.0);
    }

    fn access_ended(&mut self, now: Timestamp, ended: &EndedAccess) {
        let step = &mut self.steps.values[ended.step as usize];
        let (number, id) = (ended.step, step.operation);
        step.pending -= 1;
        let running = &mut self.running.values[id as usize];
        running.started = running.started.min(ended.completion.started);
        running.seek += ended.completion.seek;
        running.hit &= ended.completion.hit;
        if step.pending > 0 {
            return;
        }
        if !step.writes.is_empty() {
            let mut writes = std::mem::take(&mut step.writes);
            self.insert(now, number, &mut writes);
            self.steps.values[number as usize].writes = writes;
            return;
        }
        self.steps.free.push(number);
        running.steps -= 1;
        if running.steps == 0 {
            let RunningOperation { started, seek, hit, .. } = *running;
            self.done.push(EndedOperation { id: OperationId(id), started, seek, hit });
        }
    }
}
