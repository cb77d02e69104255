//! Replays on a real device: the sources, stages and observers of a simulated replay, against `CLOCK_MONOTONIC`.
//!
//! [`LiveEngine`] gives the engine the time of the clock instead of the time of the next event. Everything else is the
//! same: on a device with the times of a drive model, and on a clock that stands still while the replay computes, a
//! live replay has the arrivals, decisions and figures of a simulated one (`replay/tests/live.rs`).

mod aligned;
mod clock;
mod device;
mod faithful;
mod null;
mod punctuality;
mod ring;
mod target;
mod thread_pool;
mod throttled;

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use schedulers::Scheduler;
use traces::{Nanos, Timestamp};

pub use clock::{Clock, MonotonicClock};
pub use device::{DeviceDrive, Failure, Finished, LiveDevice, LiveDrive};
pub use faithful::{BOUNDS, THROTTLE_BOUND, broken_by_throttle};
pub use null::NullDevice;
pub use punctuality::{LATE, Punctuality};
pub use ring::Ring;
pub use target::{LONGEST_REQUEST, Target};
pub use thread_pool::{THREADS, ThreadPool};
pub use throttled::{ServiceTimes, Throttled};

use crate::engine::{Engine, Pending};
use crate::host::{Host, Single};
use crate::observer::Observer;
use crate::source::{ReplayError, Source};
use crate::stage::Stage;
use clock::SlowedClock;
use punctuality::TimedSource;

/// The last part of a wait for an arrival spins instead of sleeping, since sleeps end late.
const SPIN: Nanos = Nanos::from_ns(150_000);
/// The longest wait before the replay looks again whether it was asked to stop.
const WAIT_MAX: Nanos = Nanos::from_ns(100_000_000);
/// How long a replay that stops early waits for the requests in flight.
const GRACE: Nanos = Nanos::from_ns(2_000_000_000);

/// What the replay does when a request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// It goes on, unless the device has disappeared.
    GoOn,
    /// It stops.
    Stop,
}

/// How a live replay ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All arrivals have completed.
    Complete,
    /// It was asked to stop.
    Interrupted,
    /// A request failed, and the replay was to stop then.
    Failed,
    /// The device has disappeared.
    DeviceGone,
}

/// Why a live replay has no result.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The source cannot go on.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// Requests cannot be handed to the device any more.
    #[error("requests cannot be handed to the device: {0}")]
    Device(#[from] io::Error),
}

/// A live replay that has ended.
pub struct LiveEnded<Src, Obs, Drv = ()> {
    /// How it ended.
    pub end: End,
    /// How punctual it was.
    pub punctuality: Punctuality,
    /// Arrivals whose time came while the bound on outstanding arrivals was reached.
    pub held_back: u64,
    /// Failed device requests by the reason.
    pub failures: BTreeMap<Failure, u64>,
    /// Arrivals that had not completed at the end.
    pub unfinished: usize,
    /// How many requests each rule of the scheduler has sent ([`Scheduler::sent_by_rule`]).
    pub sent_by_rule: Vec<u64>,
    /// The source.
    pub source: Src,
    /// The observer, with its measurements.
    pub observer: Obs,
    /// The drive.
    pub drive: Drv,
}

impl<Src, Obs, Drv> LiveEnded<Src, Obs, Drv> {
    /// The drive, and the replay without it.
    pub fn split(self) -> (Drv, LiveEnded<Src, Obs>) {
        let LiveEnded { end, punctuality, held_back, failures, unfinished, sent_by_rule, source, observer, drive } =
            self;
        let drive_is_apart =
            LiveEnded { end, punctuality, held_back, failures, unfinished, sent_by_rule, source, observer, drive: () };
        (drive, drive_is_apart)
    }
}

/// A replay on a device.
pub struct LiveEngine<Src, Sch, Drv, Obs, Clk> {
    engine: Engine<TimedSource<Src>, Single<Sch, Drv>, Obs>,
    clock: SlowedClock<Clk>,
    spin: Nanos,
    on_error: OnError,
    stop: Arc<AtomicBool>,
    device_is_gone: bool,
}

impl<Src: Source, Sch: Scheduler, Drv: LiveDrive, Obs: Observer, Clk: Clock> LiveEngine<Src, Sch, Drv, Obs, Clk> {
    /// A replay on `drive`, before its start.
    pub fn new(source: Src, stage: Stage<Sch>, drive: Drv, observer: Obs, clock: Clk) -> Self {
        LiveEngine {
            engine: Engine::new(TimedSource::new(source), stage, drive, observer),
            clock: SlowedClock::new(clock),
            spin: SPIN,
            on_error: OnError::GoOn,
            stop: Arc::default(),
            device_is_gone: false,
        }
    }

    /// Bounds the number of outstanding arrivals and parts; further arrivals are held back at the source.
    #[must_use]
    pub fn max_outstanding(mut self, arrivals: usize) -> Self {
        self.engine = self.engine.max_outstanding(arrivals);
        self
    }

    /// Spins instead of sleeping for the last `spin` of a wait.
    #[must_use]
    pub fn spin(mut self, spin: Nanos) -> Self {
        self.spin = spin;
        self
    }

    /// What happens when a request fails.
    #[must_use]
    pub fn on_error(mut self, on_error: OnError) -> Self {
        self.on_error = on_error;
        self
    }

    /// Ends the replay early once `stop` is set.
    #[must_use]
    pub fn stop(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = stop;
        self
    }

    /// Runs until the source is exhausted and nothing is outstanding, or until the replay is to stop. A replay that
    /// stops early sends nothing more, and waits two seconds for the requests in flight.
    ///
    /// # Errors
    /// The errors of the source, of the way to the device, or of a scheduler, as of [`Engine::run`](crate::Engine::run).
    pub fn run(mut self) -> Result<LiveEnded<Src, Obs, Drv>, LiveError> {
        // Sleeps end on time; where that cannot be set, the issue-time error shows it.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        // The first records are read before the clock starts.
        let mut pending = self.engine.pending()?;
        self.clock.start();
        self.clock.slow(self.engine.host.drive.clock_scale());
        let end = loop {
            let due = match (self.reason_to_stop(), pending) {
                (Some(end), _) => break end,
                (None, Pending::Nothing) => break End::Complete,
                (None, Pending::At(time)) => Some(time),
                (None, Pending::Completion) if self.device().in_flight == 0 => {
                    return Err(self.engine.nothing_will_happen().into());
                }
                (None, Pending::Completion) => None,
            };
            let Some(now) = self.wait(due)? else { continue };
            if self.engine.is_full() {
                self.engine.source.full(now);
            }
            self.report_failures(now);
            self.engine.step(now)?;
            self.device().device.start()?;
            self.engine.source.handed_on(self.clock.now());
            self.clock.slow(self.engine.host.drive.clock_scale());
            pending = self.engine.pending()?;
        };
        if end != End::Complete {
            self.wait_for_requests_in_flight()?;
        }
        let unfinished = self.engine.host.outstanding();
        let failures = std::mem::take(&mut self.device().failures);
        let Engine { source, host, observer, .. } = self.engine;
        Ok(LiveEnded {
            end,
            held_back: source.held_back,
            punctuality: source.punctuality,
            failures,
            unfinished,
            sent_by_rule: host.stage().scheduler().sent_by_rule().to_vec(),
            source: source.source,
            observer,
            drive: host.drive,
        })
    }

    /// Waits until `due` or the next completion, whichever comes first, and returns the time. `None`: the replay was
    /// asked to stop.
    fn wait(&mut self, due: Option<Timestamp>) -> io::Result<Option<Timestamp>> {
        loop {
            let has_finished = self.device().poll();
            let now = self.clock.now();
            self.device().looked_at(now);
            if has_finished || due.is_some_and(|due| due <= now) {
                return Ok(Some(now));
            }
            if self.stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let left = due.map_or(WAIT_MAX, |due| self.clock.real(due.since(now)).saturating_sub(self.spin));
            if left == Nanos::ZERO {
                std::hint::spin_loop();
            } else {
                self.device().device.wait(left.min(WAIT_MAX))?;
            }
        }
    }

    fn reason_to_stop(&mut self) -> Option<End> {
        if self.stop.load(Ordering::Relaxed) {
            return Some(End::Interrupted);
        }
        if self.device_is_gone {
            return Some(End::DeviceGone);
        }
        (self.on_error == OnError::Stop && !self.device().failures.is_empty()).then_some(End::Failed)
    }

    fn wait_for_requests_in_flight(&mut self) -> Result<(), LiveError> {
        let until = self.clock.now() + self.clock.slowed(GRACE);
        while self.device().in_flight > 0 && self.clock.now() < until {
            if self.device().poll() {
                let now = self.clock.now();
                self.device().looked_at(now);
                self.report_failures(now);
                self.engine.complete(now);
            } else {
                self.device().device.wait(WAIT_MAX)?;
            }
        }
        Ok(())
    }

    fn report_failures(&mut self, now: Timestamp) {
        let Engine { host, observer, .. } = &mut self.engine;
        let (mut any, mut gone) = (false, false);
        for (id, failure) in host.drive.device().failed() {
            observer.failed(now, id, failure.errno());
            (any, gone) = (true, gone || failure.is_gone());
        }
        self.device_is_gone |= any && (gone || self.device().device.is_gone());
    }

    fn device(&mut self) -> &mut DeviceDrive<Drv::Device> {
        self.engine.host.drive.device()
    }
}
