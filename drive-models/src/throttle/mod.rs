//! The virtual performance throttle (VPT) of Geist, Jones and Westall 2010 ("Predicting disk scheduling performance
//! with virtual machines"), section 4. It is a drive before a virtual disk, whose completions it delays so that every
//! request takes k times as long as on the real disk.
//!
//! The real disk is the paper's line X_r = a + b·d/D with its on-board cache ([`crate::linear`]). D is the capacity of
//! the virtual disk, so that a distance is the same share of both. When a request leaves for the virtual disk, its
//! target time is computed. It is k·X_r from now, or from the target of the request before if that is later, as the
//! real disk serves one request at a time. The virtual disk completes the request after a time X_v of its own.
//!
//! - Before the target, the completion is held. A timer checks the held completions: each is released at the first
//!   multiple of the timer's period that is not before its target, or at the target itself without a period.
//! - At or after the target, the completion is released at once. After the target it is *late*: k is too small. A
//!   dynamic k is raised; with a fixed k, late completions are counted.
//! - With many held completions, k is larger than necessary, and a dynamic k is lowered. With one request at a time at
//!   most one completion is ever held, so that only `lower_at=1` lowers k then.
//!
//! The [`Report`] has every change of k. [`find_k`] is the paper's procedure: dynamic runs, then a run with k fixed.
//! Times of a throttled drive are on the virtual system's clock; [`ThrottleScale::real_time`] converts them into the
//! real disk's scale. Timers of the scheduler and of the workload are not slowed by k here: scale them where they are
//! set.
//!
//! A throttle may also be driven by a clock that runs k times slower ([`ThrottleSettings::on_slowed_clock`]). Targets are
//! then X_r on that clock, and all that follows the clock is in the real disk's scale. The caller slows the clock by the
//! k of the [`Report`].
//!
//! Section 7 of the paper names sources of error. They are the time of a hit, fixed at an observed maximum (`hit`), and
//! the overhead of measuring (`overhead`, on top of every completion). The granularity of the timer is another.
//! `timer=0,overhead=0` is without the last two.
//!
//! To the stage above, the throttle is the real disk: writes are durable once completed, and discards do not reach it.
//! A flush that reaches it nonetheless costs the real disk nothing. Leaves out the time that the virtual system itself
//! takes to send a request.

mod control;
mod description;
mod find;
mod report;
mod scale;
mod settings;
pub mod virtual_disk;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use schedulers::AccessCost;
use traces::{Lba, Nanos, Operation, Request, RequestId, Sectors, Timestamp};

use crate::drive::{Completion, DriveModel, WriteCache};
use crate::linear::Linear;
use crate::model_row::{ModelRow, memory_without_tables};
use crate::single_server::ServiceModel;
use control::{Control, Stamp};

pub use control::Rules;
pub use description::{AnyThrottle, ThrottleTarget};
pub use find::{FoundScale, Procedure, find_k};
pub use report::{CHANGES_MAX, Change, ChangeCause, Report};
pub use scale::ThrottleScale;
pub use settings::ThrottleSettings;

/// The registry's row.
pub const MODEL: ModelRow = ModelRow {
    name: "throttle",
    summary: "delays a virtual disk's completions to k times a real disk's (Geist et al. 2010, section 4); virtual=DRIVE \
              names the virtual disk, virtual.X=V its tunables",
    tunables: settings::TUNABLES,
    one_at_a_time: false,
    // The disk whose times it gives serves one request at a time.
    queue_depth: |_| 1,
    is_rotational: true,
    check: |settings| ThrottleSettings::new(settings).map(|_| ()),
    memory: memory_without_tables,
    sections: description::SECTIONS,
    describe: description::describe,
};

/// The values computed for a request when it left for the virtual disk.
#[derive(Clone, Copy, Debug)]
struct RequestTarget {
    at: Timestamp,
    started: Timestamp,
    seek: Sectors,
    hit: bool,
    stamp: Stamp,
    /// How many left before it.
    nth: u64,
}

/// A held completion: the time of its release, the number of requests that left before, and the request.
type HeldCompletion = (Timestamp, u64, RequestId);

/// The real disk's line as the virtual system is to see it.
#[derive(Debug)]
struct RealDisk {
    line: Linear,
    /// The factor between the line's times and those of the clock that drives the throttle.
    k: ThrottleScale,
}

/// A virtual disk behind a throttle.
#[derive(Debug)]
pub struct Throttle<D> {
    disk: D,
    real: RealDisk,
    settings: ThrottleSettings,
    control: Control,
    report: Report,
    /// By request id.
    targets: Vec<RequestTarget>,
    sent: u64,
    /// The target of the last request that left.
    busy_until: Timestamp,
    held: BinaryHeap<Reverse<HeldCompletion>>,
    /// Released completions, the earliest first.
    ready: VecDeque<Completion>,
    // Reused so that nothing is allocated per request.
    arrived: Vec<Completion>,
}

impl<D: DriveModel> Throttle<D> {
    /// A throttle in front of an idle virtual disk.
    pub fn new(disk: D, settings: &ThrottleSettings) -> Throttle<D> {
        let capacity = disk.capacity().max(Sectors::new(1));
        Throttle {
            disk,
            real: RealDisk { line: Linear::with_capacity(&settings.line, capacity), k: settings.slows(settings.k) },
            control: Control::new(settings.k, settings.dynamic.then_some(settings.rules)),
            report: Report::new(settings.k),
            settings: settings.clone(),
            targets: Vec::new(),
            sent: 0,
            busy_until: Timestamp::ZERO,
            held: BinaryHeap::new(),
            ready: VecDeque::new(),
            arrived: Vec::new(),
        }
    }

    /// The report of the run so far.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The report without the throttle.
    pub fn into_report(self) -> Report {
        self.report
    }

    /// The virtual disk.
    pub fn disk_mut(&mut self) -> &mut D {
        &mut self.disk
    }

    /// Of the request that last had this id: when the real disk would have begun to serve it, and its target time.
    pub fn target_of(&self, id: RequestId) -> (Timestamp, Timestamp) {
        let target = self.targets[id.index()];
        (target.started, target.at)
    }

    /// How many times slower than real time the clock that drives it is to run from now on.
    pub fn clock_scale(&self) -> ThrottleScale {
        self.settings.slows_clock(self.report.k)
    }

    /// The settings that it was made with.
    pub fn settings(&self) -> &ThrottleSettings {
        &self.settings
    }

    /// Computes the target of a request that leaves now.
    fn target(&mut self, now: Timestamp, request: &Request) -> RequestTarget {
        let started = now.max(self.busy_until);
        let (time, seek, hit) = if request.operation == Operation::Flush {
            (Nanos::ZERO, Sectors::ZERO, false)
        } else {
            let service = self.real.line.serve(started, request);
            (self.real.k.virtual_time(service.time), service.seek, service.hit)
        };
        self.busy_until = started.saturating_add(time);
        self.sent += 1;
        RequestTarget { at: self.busy_until, started, seek, hit, stamp: self.control.stamp(), nth: self.sent - 1 }
    }

    /// Simulates everything up to and including `now`.
    fn run(&mut self, now: Timestamp) {
        while let Some(time) = self.disk.next_event().filter(|&time| time <= now) {
            let mut arrived = std::mem::take(&mut self.arrived);
            self.disk.advance(time, &mut arrived);
            for completion in arrived.drain(..) {
                self.arrive(completion.finished, completion.id);
            }
            self.arrived = arrived;
        }
        self.release(now);
    }

    /// The virtual disk has completed a request.
    fn arrive(&mut self, at: Timestamp, id: RequestId) {
        self.release(at);
        let target = self.targets[id.index()];
        self.report.completions += 1;
        self.report.last = at;
        if at >= target.at {
            if at > target.at {
                self.report.late += 1;
                self.report.lateness_max = self.report.lateness_max.max(at.since(target.at));
                let cause = self.control.late(target.stamp);
                self.changed(at, cause);
            }
            self.go_on(at, id);
            return;
        }
        self.held.push(Reverse((self.checked_at(target.at), target.nth, id)));
        self.report.held_max = self.report.held_max.max(self.held.len() as u64);
        let cause = self.control.holds(target.stamp);
        self.changed(at, cause);
    }

    fn changed(&mut self, at: Timestamp, cause: Option<ChangeCause>) {
        if let Some(cause) = cause {
            let (from, to) = (self.report.k, self.control.k());
            self.real.k = self.settings.slows(to);
            self.report.changed(Change { at, from, to, cause });
        }
    }

    /// When the timer first finds that a target has passed.
    fn checked_at(&self, target: Timestamp) -> Timestamp {
        match self.settings.timer.as_ns() {
            0 => target,
            period => Timestamp::from_ns(target.as_ns().checked_next_multiple_of(period).unwrap_or(u64::MAX)),
        }
    }

    /// Releases the completions that are held until `now` at most.
    fn release(&mut self, now: Timestamp) {
        while let Some(&Reverse((until, _, id))) = self.held.peek() {
            if until > now {
                break;
            }
            self.held.pop();
            self.control.released(self.targets[id.index()].stamp);
            self.go_on(until, id);
        }
    }

    fn go_on(&mut self, at: Timestamp, id: RequestId) {
        let RequestTarget { started, seek, hit, .. } = self.targets[id.index()];
        let finished = at.saturating_add(self.settings.overhead);
        self.ready.push_back(Completion { id, started, finished, seek, hit });
    }
}

impl AccessCost for RealDisk {
    fn position(&self) -> Lba {
        self.line.position()
    }

    fn capacity(&self) -> Sectors {
        AccessCost::capacity(&self.line)
    }

    fn between(&self, from: Lba, to: Lba, sectors: Sectors) -> Nanos {
        self.k.virtual_time(self.line.between(from, to, sectors))
    }

    fn access(&self, now: Timestamp, request: &Request) -> Nanos {
        self.k.virtual_time(self.line.access(now, request))
    }
}

impl<D: DriveModel> DriveModel for Throttle<D> {
    fn capacity(&self) -> Sectors {
        self.disk.capacity()
    }

    fn accepts(&self, request: &Request) -> bool {
        self.disk.accepts(request)
    }

    fn submit(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.run(now);
        let target = self.target(now, request);
        if id.index() >= self.targets.len() {
            self.targets.resize(id.index() + 1, target);
        }
        self.targets[id.index()] = target;
        self.disk.submit(now, id, request);
    }

    fn next_event(&self) -> Option<Timestamp> {
        let held = self.held.peek().map(|&Reverse((until, ..))| until.saturating_add(self.settings.overhead));
        let ready = self.ready.front().map(|completion| completion.finished);
        [self.disk.next_event(), held, ready].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Timestamp, completions: &mut Vec<Completion>) {
        self.run(now);
        while let Some(completion) = self.ready.front().copied() {
            if completion.finished > now {
                break;
            }
            self.ready.pop_front();
            completions.push(completion);
        }
    }

    fn cost(&self) -> &dyn AccessCost {
        &self.real
    }

    fn write_cache(&self) -> WriteCache {
        WriteCache::Through
    }

    fn discards(&self) -> bool {
        false
    }
}
