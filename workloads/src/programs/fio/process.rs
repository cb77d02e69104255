//! A process of a fio job (fio 3.33, `backend.c` and `io_u.c`): the sequence of its accesses, syncs and pauses.

use std::collections::VecDeque;

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::{Nanos, Operation, Timestamp};

use super::jobs::Plan;
use super::options::{Kind, Options};
use super::places::{Piece, Places, longest, shortest};
use crate::guest::files::{FileId, Files, OutOfSpace};
use crate::guest::program::{Event, Program, Step};
use crate::programs::transfer::Transfer;

const READ: usize = 0;
const WRITE: usize = 1;
const TRIM: usize = 2;
const OPERATIONS: [Operation; 3] = [Operation::Read, Operation::Write, Operation::Discard];

pub(super) struct Process {
    job: Options,
    plan: Plan,
    file: FileId,
    /// The event posted when it ends.
    ends: Event,
    /// The number of accesses to keep in flight.
    depth: u32,
    longest: u64,
    /// Bytes per second of each direction, 0 for no limit.
    rates: [u64; 3],
    /// The generator in its initial state.
    seeded: Xoshiro256PlusPlus,
    generator: Xoshiro256PlusPlus,
    places: Places,
    steps: VecDeque<Step>,
    stage: Stage,
    began: Timestamp,
    progress: Progress,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It has not accessed any data.
    New,
    Running,
    Ended,
}

/// The progress of the process.
#[derive(Default)]
struct Progress {
    /// The bytes that count towards the limit.
    bytes: u64,
    passes: u64,
    accesses: u64,
    /// The bytes in each direction, for the rates.
    moved: [u64; 3],
    writes: u64,
    /// Whether it has synced since the last access.
    synced: bool,
    since_think: u64,
    /// The direction of the access that a rate limit has delayed.
    delayed: Option<usize>,
    /// The part that was trimmed and is to be written next.
    trimmed: Option<Piece>,
}

/// The result of the search for the next access.
enum Found {
    Steps,
    PassIsOver,
}

impl Process {
    pub(super) fn new(
        job: &Options,
        plan: Plan,
        file: FileId,
        ends: Event,
        awaited: &[Step],
        generator: Xoshiro256PlusPlus,
    ) -> Process {
        let rates = std::array::from_fn(|direction| match (job.rate[direction], job.rate_iops[direction]) {
            (0, iops) => iops.saturating_mul(shortest(&job.lengths[direction])),
            (bytes, 0) => bytes,
            (bytes, iops) => bytes.min(iops.saturating_mul(shortest(&job.lengths[direction]))),
        });
        let mut steps: VecDeque<Step> = awaited.iter().copied().collect();
        steps.push_back(Step::Sleep(Nanos::from_us(job.start_delay_us)));
        Process {
            depth: if job.asynchronous { u32::try_from(job.depth).unwrap_or(u32::MAX) } else { 1 },
            longest: (0..3).filter(|&way| job.kind.has(way)).map(|way| longest(&job.lengths[way])).max().unwrap_or(1),
            rates,
            seeded: generator.clone(),
            generator,
            places: Places::new(job, plan.start, plan.region),
            steps,
            stage: Stage::New,
            began: Timestamp::ZERO,
            progress: Progress::default(),
            job: job.clone(),
            plan,
            file,
            ends,
        }
    }

    /// Queues the next steps; none once the process has ended.
    fn queue_next(&mut self, now: Timestamp) {
        if self.stage == Stage::New {
            self.stage = Stage::Running;
            self.began = now;
        }
        if self.stage == Stage::Ended {
            return;
        }
        if self.is_over(now) {
            self.queue_end();
        } else if self.is_sync_due() {
            self.progress.synced = true;
            self.queue_drain();
            self.steps.push_back(Step::Sync(self.file));
        } else if matches!(self.queue_access(now), Found::PassIsOver) {
            if self.begin_pass() {
                if let Found::PassIsOver = self.queue_access(now) {
                    self.queue_end();
                }
            } else {
                self.queue_end();
            }
        }
    }

    fn is_over(&self, now: Timestamp) -> bool {
        let passed = now.saturating_since(self.began);
        let time_is_over = self.job.runtime_us > 0 && passed >= self.runtime();
        let count_is_over = self.job.most_ios.is_some_and(|most| self.progress.accesses >= most);
        time_is_over || count_is_over || (!self.job.time_based && self.progress.bytes >= self.plan.limit)
    }

    /// The run time, including the time that is not measured.
    fn runtime(&self) -> Nanos {
        Nanos::from_ns((self.job.runtime_us.saturating_add(self.job.ramp_us)).saturating_mul(1000))
    }

    fn is_sync_due(&self) -> bool {
        let writes = self.progress.writes;
        let due = |every: u64| every > 0 && writes > 0 && writes.is_multiple_of(every);
        !self.progress.synced && (due(self.job.sync_every) || due(self.job.datasync_every))
    }

    fn queue_access(&mut self, now: Timestamp) -> Found {
        let direction = match self.progress.delayed.take() {
            Some(direction) => direction,
            None => {
                let wanted = self.draw_direction();
                match self.rated(wanted, now) {
                    Ok(direction) => direction,
                    Err((direction, wait)) => {
                        self.progress.delayed = Some(direction);
                        self.queue_drain();
                        self.steps.push_back(Step::Sleep(wait));
                        return Found::Steps;
                    }
                }
            }
        };
        let place = match self.progress.trimmed.take() {
            Some(piece) => Some(piece),
            None => self.places.next(direction, &mut self.generator),
        };
        let Some(piece) = place else { return Found::PassIsOver };
        self.queue_transfer(direction, piece);
        Found::Steps
    }

    fn queue_transfer(&mut self, direction: usize, piece: Piece) {
        let transfer = Transfer {
            operation: OPERATIONS[direction],
            file: self.file,
            offset: piece.offset,
            bytes: piece.bytes,
            direct: self.job.direct || direction == TRIM,
        };
        if self.depth > 1 && transfer.direct {
            self.steps.push_back(Step::AwaitAtMost(self.depth - 1));
            self.steps.push_back(Step::Start(transfer.access()));
        } else {
            transfer.queue(&mut self.steps);
        }
        self.count(direction, piece);
        if self.job.think_us > 0 && self.progress.since_think >= self.job.think_blocks {
            self.progress.since_think = 0;
            self.queue_drain();
            self.steps.push_back(Step::Sleep(Nanos::from_us(self.job.think_us)));
        }
    }

    fn count(&mut self, direction: usize, piece: Piece) {
        let progress = &mut self.progress;
        progress.accesses += 1;
        // Until the next write, fio syncs again after every read.
        progress.synced = false;
        progress.since_think += 1;
        progress.moved[direction] += piece.bytes;
        if direction == WRITE {
            progress.writes += 1;
        }
        if self.job.kind == Kind::TrimWrite && direction == TRIM {
            progress.trimmed = Some(piece);
        } else {
            progress.bytes += piece.bytes;
        }
    }

    fn draw_direction(&mut self) -> usize {
        match self.job.kind {
            Kind::Only(direction) => direction,
            Kind::TrimWrite if self.progress.trimmed.is_some() => WRITE,
            Kind::TrimWrite => TRIM,
            Kind::Mixed if self.generator.random_range(0..100) < self.job.reads_percent => READ,
            Kind::Mixed => WRITE,
        }
    }

    /// The direction of the next access, now or after a wait. A direction that is behind its rate has priority over the
    /// wanted one.
    fn rated(&self, wanted: usize, now: Timestamp) -> Result<usize, (usize, Nanos)> {
        let wait = |direction: usize| self.due(direction).saturating_since(now);
        let other = wanted ^ 1;
        let may_switch = self.job.kind == Kind::Mixed && (1..100).contains(&self.job.reads_percent);
        if wait(wanted) == Nanos::ZERO {
            Ok(wanted)
        } else if may_switch && wait(other) == Nanos::ZERO {
            Ok(other)
        } else if may_switch && wait(other) < wait(wanted) {
            Err((other, wait(other)))
        } else {
            Err((wanted, wait(wanted)))
        }
    }

    /// The time at which a direction may continue, given the bytes that it has moved.
    fn due(&self, direction: usize) -> Timestamp {
        let rate = self.rates[direction];
        if rate == 0 {
            return self.began;
        }
        let ns = u128::from(self.progress.moved[direction]) * 1_000_000_000 / u128::from(rate);
        self.began.saturating_add(Nanos::from_ns(u64::try_from(ns).unwrap_or(u64::MAX)))
    }

    /// Begins another pass, if one is left.
    fn begin_pass(&mut self) -> bool {
        let progress = &mut self.progress;
        progress.passes += 1;
        let left = self.plan.limit.saturating_sub(progress.bytes);
        let goes_on = self.job.time_based
            || progress.passes < self.job.loops
            || (self.job.io_size.is_some() && left >= self.longest);
        if goes_on {
            self.places.restart();
            if self.job.repeatable && !self.job.time_based {
                self.generator = self.seeded.clone();
            }
        }
        goes_on
    }

    fn queue_drain(&mut self) {
        if self.depth > 1 {
            self.steps.push_back(Step::AwaitAtMost(0));
        }
    }

    fn queue_end(&mut self) {
        self.stage = Stage::Ended;
        self.queue_drain();
        if self.job.end_sync && self.job.kind.has(WRITE) {
            self.steps.push_back(Step::Sync(self.file));
        }
        self.steps.push_back(Step::Post(self.ends));
    }
}

impl Program for Process {
    fn step(&mut self, now: Timestamp, _files: &mut Files) -> Result<Step, OutOfSpace> {
        if self.steps.is_empty() {
            self.queue_next(now);
        }
        Ok(self.steps.pop_front().unwrap_or(Step::Exit))
    }
}
