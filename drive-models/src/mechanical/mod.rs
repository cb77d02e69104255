//! A disk drive by its mechanics: the positions of platter and arm decide how long an access takes.
//!
//! A request passes through command processing, a seek or head switch (writes settle longer), the wait for the first
//! sector at its absolute rotational phase, the transfer, and the bus. The transfer covers as many tracks as the
//! request does, with their skews. The form is that of Ruemmler and Wilkes 1994 ("An introduction to disk drive
//! modeling") and of Worthington, Ganger, Patt and Wilkes 1995 (on-line extraction of SCSI disk drive parameters).
//! Times are integers. The cost of simulating a request does not depend on its number of sectors.
//!
//! A buffer, if the drive has one, is a read cache in segments with read-ahead, and a write cache that writes runs to
//! the medium while the drive is idle. Both are advanced to the present when the next request comes, so that an idle
//! drive costs nothing to simulate.
//!
//! Leaves out speed variation within a turn, retries, thermal recalibration, and every dependence of overheads on the
//! request before other than on its operation.

mod arm;
mod description;
mod layout;
mod placed;
mod read_cache;
mod rotation;
mod seek;
mod tunables;
mod write_cache;

use schedulers::AccessCost;
use traces::spec::Settings;
use traces::{Flags, Lba, Nanos, Operation, Request, Sectors, Timestamp};

use crate::drive::WriteCache;
use crate::model_row::{ModelRow, memory_without_tables, never_contradict, queue_of_one_at_a_time};
use crate::single_server::{Service, ServiceModel};
use arm::{Arm, ArmAccess, ArmState};
use placed::{PlacedRequests, Transfer};
use read_cache::{ReadLookup, SegmentCache};
use tunables::TUNABLES;
use write_cache::WriteBack;

pub use description::Mechanics;
pub use layout::{PhysicalExtent, PlatterLayout, SectorPosition};
pub use rotation::{Angle, Rotation};
pub use seek::SeekCurve;

/// The registry's row.
pub const MODEL: ModelRow = ModelRow {
    name: "mechanical",
    summary: "arm, platter, zones and skews at absolute rotational phase; needs a profile with [seek] and [layout]",
    tunables: TUNABLES,
    one_at_a_time: true,
    queue_depth: queue_of_one_at_a_time,
    is_rotational: true,
    check: never_contradict,
    memory: memory_without_tables,
    sections: description::SECTIONS,
    describe: description::describe,
};

/// The drive's service times.
#[derive(Clone, Debug)]
pub struct Mechanical {
    arm: Arm,
    /// Where the last access left the arm.
    standing: ArmState,
    read_cache: Option<SegmentCache>,
    write_cache: Option<WriteBack>,
    read_hit: Hit,
    write_hit: Hit,
    /// How soon a request has to come after the one it follows to count as sequential.
    sequential_pause: Nanos,
    last: Option<Last>,
    position: Lba,
}

/// Service times of requests that the buffer serves, without the bus.
#[derive(Clone, Copy, Debug)]
struct Hit {
    any: Nanos,
    /// Of a request that goes on where one of its kind ended.
    sequential: Nanos,
}

/// The request before.
#[derive(Clone, Copy, Debug)]
struct Last {
    operation: Operation,
    end: u64,
    done: Timestamp,
}

impl Mechanical {
    /// A drive with the settings of [`MODEL`], its heads over the first sector.
    pub fn new(settings: &Settings, mechanics: &Mechanics) -> Mechanical {
        let arm = Arm::new(settings, mechanics);
        Mechanical {
            standing: ArmState { heads: arm.mechanics.layout.place(0), free: Timestamp::ZERO, after_read: false },
            read_cache: SegmentCache::new(settings),
            write_cache: WriteBack::new(settings),
            read_hit: Hit { any: settings.nanos("read_hit"), sequential: settings.nanos("read_hit_sequential") },
            write_hit: Hit { any: settings.nanos("write_hit"), sequential: settings.nanos("write_hit_sequential") },
            sequential_pause: settings.nanos("sequential_pause"),
            last: None,
            position: Lba::ZERO,
            arm,
        }
    }

    /// Its spindle.
    pub fn rotation(&self) -> Rotation {
        self.arm.rotation
    }

    /// A spindle for it with another period (in ps) and phase.
    pub fn rotation_of(&self, period_ps: u64, start: Angle) -> Rotation {
        Rotation::new(period_ps, start)
    }

    /// Gives it another spindle.
    pub fn turn_at(&mut self, rotation: Rotation) {
        self.arm.turn_at(rotation);
    }

    /// Where a platter that turns with `rotation` stands when `request` completes, whenever that is: what follows the
    /// last sector takes the same time in every turn. `None` for a write that does not wait for the platter.
    pub fn completes_at(&self, rotation: &Rotation, request: &Request) -> Option<Angle> {
        let extent = self.arm.mechanics.layout.extent(request.lba.sector(), request.sectors().count());
        let write = request.operation == Operation::Write;
        if write && self.write_cache.is_some() {
            return None;
        }
        let after = if write {
            self.arm.write.after
        } else {
            self.arm.bus_behind(extent.turned, request.sectors().count()) + self.arm.read.after
        };
        Some(Angle(extent.first.angle.0.wrapping_add(extent.turned.wrapping_add(rotation.angle(after)) as u32)))
    }

    /// Destages the runs that the drive writes by itself before `now`.
    fn background(&mut self, now: Timestamp) {
        while let Some(cache) = &self.write_cache
            && let Some(run) = cache.oldest()
        {
            let start = self.standing.free.max(run.since.saturating_add(cache.delay));
            if start >= now {
                break;
            }
            self.destage(start);
        }
    }

    /// Writes the oldest dirty run to the medium, from `at` on or when the arm is free.
    fn destage(&mut self, at: Timestamp) {
        let Some(run) = self.write_cache.as_ref().and_then(WriteBack::oldest) else { return };
        self.stop_reading_ahead(at);
        let access = self.arm.write(at, &self.standing, run.start, run.end - run.start);
        self.leave(&access);
        if let Some(cache) = &mut self.write_cache {
            cache.pop();
        }
    }

    /// Writes all dirty runs to the medium.
    fn destage_all(&mut self, at: Timestamp) {
        while self.write_cache.as_ref().is_some_and(|cache| cache.oldest().is_some()) {
            self.destage(at);
        }
    }

    fn leave(&mut self, access: &ArmAccess) {
        (self.standing.heads, self.standing.free) = (access.last, access.ended);
    }

    fn stop_reading_ahead(&mut self, at: Timestamp) {
        if let Some((heads, free)) = self.read_cache.as_mut().and_then(|cache| cache.stop(&self.arm, at)) {
            self.standing.heads = heads;
            if free > at {
                self.standing.free = self.standing.free.max(free);
            }
        }
    }

    /// Looks for the sectors of a read that comes at `now` in the buffer.
    #[inline]
    fn find(&self, now: Timestamp, start: u64, end: u64) -> Buffered {
        match self.write_cache.as_ref().and_then(|cache| cache.find(start, end)) {
            Some(true) => return Buffered::Written,
            Some(false) => return Buffered::PartlyWritten,
            None => {}
        }
        match self.read_cache.as_ref().map(|cache| cache.find(&self.arm, now, start, end)) {
            Some(ReadLookup::Segment(segment, at)) => Buffered::Segment(segment, at),
            Some(ReadLookup::Absent) | None => Buffered::Nothing,
        }
    }

    /// Which of two service times a request has that comes at `now` and begins at `start`.
    fn hit(&self, hit: Hit, now: Timestamp, operation: Operation, start: u64) -> Nanos {
        let follows = self.last.is_some_and(|last| {
            let soon = now.saturating_since(last.done) <= self.sequential_pause;
            last.operation == operation && last.end == start && soon
        });
        if follows { hit.sequential } else { hit.any }
    }

    /// When a read completes whose last sector is in the buffer from `at` on.
    fn sent_from_buffer(&self, now: Timestamp, at: Timestamp, start: u64, end: u64) -> Timestamp {
        let hit = self.hit(self.read_hit, now, Operation::Read, start);
        let sent = now.saturating_add(hit + self.arm.bus(end - start));
        sent.max(at.saturating_add(self.arm.bus(1))).saturating_add(self.arm.read.after)
    }

    /// Serves a read and says when it completes and whether it was a hit.
    fn read(&mut self, now: Timestamp, start: u64, end: u64) -> (Timestamp, bool) {
        match self.find(now, start, end) {
            Buffered::Written => return (self.sent_from_buffer(now, now, start, end), true),
            Buffered::Segment(segment, at) => {
                if let Some(cache) = &mut self.read_cache {
                    cache.hit(&self.arm, now, segment, end, self.standing);
                }
                return (self.sent_from_buffer(now, at, start, end), true);
            }
            Buffered::PartlyWritten => self.destage_all(now),
            Buffered::Nothing => {}
        }
        self.stop_reading_ahead(now);
        let access = self.arm.read(now, &self.standing, start, end - start);
        self.leave(&access);
        if let Some(cache) = &mut self.read_cache {
            cache.fill(&self.arm, start, end, &access);
        }
        (access.done, false)
    }

    /// Serves a write likewise; `durable` asks for it to be on the medium.
    fn write(&mut self, now: Timestamp, start: u64, end: u64, durable: bool) -> (Timestamp, bool) {
        self.stop_reading_ahead(now);
        if let Some(cache) = &mut self.read_cache {
            cache.written(start, end);
        }
        if self.write_cache.as_ref().is_some_and(|cache| !durable && cache.could_hold(end - start)) {
            return (self.write_to_buffer(now, start, end), true);
        }
        self.destage_all(now);
        let access = self.arm.write(now, &self.standing, start, end - start);
        self.leave(&access);
        (access.done, false)
    }

    /// How the arm is at `now` if the drive did nothing by itself until then but read ahead.
    fn standing_at(&self, now: Timestamp) -> ArmState {
        match self.read_cache.as_ref().and_then(|cache| cache.heads(&self.arm, now)) {
            Some((heads, free)) if free > now => {
                ArmState { heads, free: self.standing.free.max(free), ..self.standing }
            }
            Some((heads, _)) => ArmState { heads, ..self.standing },
            None => self.standing,
        }
    }

    /// The time of a request that comes at `now` with the arm as in `standing`.
    #[inline]
    fn access_from(
        &self,
        standing: &ArmState,
        placed: &mut PlacedRequests,
        now: Timestamp,
        request: &Request,
    ) -> Nanos {
        let (start, sectors) = (request.lba.sector(), request.sectors().count().max(1));
        let end = start.saturating_add(sectors);
        let (buffered, transfer) = match request.operation {
            Operation::Write => match &self.write_cache {
                Some(cache) if !request.flags.contains(Flags::FUA) && cache.has_capacity(start, end) => {
                    let hit = self.hit(self.write_hit, now, Operation::Write, start);
                    (Some(now.saturating_add(hit + self.arm.bus(end - start))), Transfer::Write)
                }
                _ => (None, Transfer::Write),
            },
            Operation::Read => match self.find(now, start, end) {
                Buffered::Segment(_, at) => (Some(self.sent_from_buffer(now, at, start, end)), Transfer::Read),
                Buffered::Written => (Some(self.sent_from_buffer(now, now, start, end)), Transfer::Read),
                Buffered::PartlyWritten | Buffered::Nothing => (None, Transfer::Read),
            },
            Operation::Flush | Operation::Discard => (Some(self.nothing_moved(now)), Transfer::Read),
        };
        let on_medium = || self.arm.access(now, standing, placed.find(&self.arm, transfer, start, end - start)).done;
        buffered.unwrap_or_else(on_medium).saturating_since(now)
    }

    /// When a request for no data that comes at `now` completes, once all is on the medium.
    fn nothing_moved(&self, now: Timestamp) -> Timestamp {
        self.standing.free.max(now.saturating_add(self.arm.write.before))
    }

    /// Takes a write into the buffer, after runs have been destaged that it needs the capacity of.
    fn write_to_buffer(&mut self, now: Timestamp, start: u64, end: u64) -> Timestamp {
        let mut begin = now;
        while self.write_cache.as_ref().is_some_and(|cache| !cache.has_capacity(start, end)) {
            self.destage(now);
            begin = begin.max(self.standing.free);
        }
        let hit = self.hit(self.write_hit, now, Operation::Write, start);
        let done = begin.saturating_add(hit + self.arm.bus(end - start));
        if let Some(cache) = &mut self.write_cache {
            cache.push(start, end, done);
        }
        done
    }
}

/// The sectors of a read that the buffer has.
enum Buffered {
    /// None that helps.
    Nothing,
    /// All, in a segment, the last of it at this time.
    Segment(usize, Timestamp),
    /// All, written and not yet on the medium.
    Written,
    /// Some, likewise, so that it must be there first.
    PartlyWritten,
}

impl AccessCost for Mechanical {
    fn position(&self) -> Lba {
        self.position
    }

    fn capacity(&self) -> Sectors {
        Sectors::new(self.arm.mechanics.layout.capacity())
    }

    /// The time of a read with half a turn of waiting.
    fn between(&self, from: Lba, to: Lba, sectors: Sectors) -> Nanos {
        let arm = &self.arm;
        let layout = &arm.mechanics.layout;
        let from = layout.place(from.sector().saturating_sub(1));
        let positioned = arm.read.before + arm.positioning(from, layout.place(to.sector()), arm.read.settle);
        if sectors == Sectors::ZERO {
            return positioned;
        }
        let turned = layout.extent(to.sector(), sectors.count()).turned;
        positioned
            + Nanos::from_ns(arm.turn.as_ns() / 2)
            + arm.rotation.time(turned)
            + arm.bus_behind(turned, sectors.count())
            + arm.read.after
    }

    /// The time of the request if the drive did nothing by itself until `now` but read ahead.
    fn access(&self, now: Timestamp, request: &Request) -> Nanos {
        self.access_from(&self.standing_at(now), &mut self.arm.placed.borrow_mut(), now, request)
    }

    fn access_all(&self, now: Timestamp, requests: &[Request], into: &mut Vec<Nanos>) {
        let standing = self.standing_at(now);
        let mut placed = self.arm.placed.borrow_mut();
        into.extend(requests.iter().map(|request| self.access_from(&standing, &mut placed, now, request)));
    }
}

impl ServiceModel for Mechanical {
    fn serve(&mut self, started: Timestamp, request: &Request) -> Service {
        self.background(started);
        let (start, sectors) = (request.lba.sector(), request.sectors().count().max(1));
        let end = start.saturating_add(sectors);
        let (done, hit) = match request.operation {
            Operation::Write => self.write(started, start, end, request.flags.contains(Flags::FUA)),
            Operation::Read => self.read(started, start, end),
            Operation::Flush | Operation::Discard => {
                self.destage_all(started);
                (self.nothing_moved(started), false)
            }
        };
        self.standing.after_read = request.operation == Operation::Read;
        self.last = Some(Last { operation: request.operation, end, done });
        let time = done.saturating_since(started);
        if hit || !request.operation.moves_data() {
            return Service { time, seek: Sectors::ZERO, hit };
        }
        let seek = self.position.distance(request.lba);
        self.position = request.end();
        Service { time, seek, hit }
    }

    fn write_cache(&self) -> WriteCache {
        match self.write_cache {
            Some(_) => WriteCache::Volatile { fua: true },
            None => WriteCache::Through,
        }
    }
}

#[cfg(test)]
mod tests;
