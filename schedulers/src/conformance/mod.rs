//! What every scheduler promises, checked on any candidate under random calls: each request is given back once, none is
//! stranded, waits lie in the future, capacity is respected, copies decide alike, rules are counted, and the same calls
//! have the same answers.
//!
//! `iocast validate scheduler` and the tests of this crate run it. A broken promise comes with the shortest sequence of
//! calls that was found to break it.

mod owner;
mod steps;

use std::panic::{AssertUnwindSafe, catch_unwind};

use traces::{Lba, Nanos, Operation, Request, RequestId, Sectors, Timestamp};

use crate::cost::DistanceCost;
use crate::registry::Built;
use crate::scheduler::{Capacity, Dispatch, Scheduler};

use owner::Owner;
pub use steps::{Step, random_steps};

/// What a scheduler promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// It sends only requests that wait, each once.
    SendsWhatWaits,
    /// It sends nothing for which there is no capacity.
    RespectsCapacity,
    /// The times that it waits for lie in the future.
    WaitsForTheFuture,
    /// It sends what waits when nothing else is to come.
    StrandsNothing,
    /// It knows how many requests wait.
    CountsWhatWaits,
    /// Each request that it sends counts for one of its rules.
    CountsRules,
    /// A copy, and a follower of its decisions, are in the same state.
    CopiesAlike,
    /// The same calls have the same answers.
    RepeatsItself,
    /// It does not panic.
    DoesNotPanic,
    /// Of a plug-in: it gives no answer that no scheduler may give.
    IsSound,
}

impl Promise {
    /// Every promise.
    pub const ALL: [Promise; 10] = [
        Promise::SendsWhatWaits,
        Promise::RespectsCapacity,
        Promise::WaitsForTheFuture,
        Promise::StrandsNothing,
        Promise::CountsWhatWaits,
        Promise::CountsRules,
        Promise::CopiesAlike,
        Promise::RepeatsItself,
        Promise::DoesNotPanic,
        Promise::IsSound,
    ];

    /// The promise in words.
    pub const fn says(self) -> &'static str {
        match self {
            Promise::SendsWhatWaits => "sends only requests that wait, each once",
            Promise::RespectsCapacity => "sends nothing for which there is no capacity",
            Promise::WaitsForTheFuture => "waits for times in the future",
            Promise::StrandsNothing => "sends everything when nothing else is to come",
            Promise::CountsWhatWaits => "knows how many requests wait",
            Promise::CountsRules => "counts each request for one rule",
            Promise::CopiesAlike => "has copies that decide as it does",
            Promise::RepeatsItself => "gives the same answers to the same calls",
            Promise::DoesNotPanic => "does not panic",
            Promise::IsSound => "gives answers that a scheduler may give",
        }
    }
}

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise.
    pub promise: Promise,
    /// What happened.
    pub what: String,
}

/// The answers of a scheduler, with their times.
pub type Answers = Vec<(Timestamp, Dispatch)>;

/// Takes the steps, then sends everything that waits. Returns the answers.
///
/// # Errors
/// The first promise that is not kept.
pub fn run(built: Built, steps: &[Step]) -> Result<Answers, Violation> {
    let whole = || {
        let mut owner = Owner::new(built);
        steps.iter().try_for_each(|step| owner.take(step))?;
        owner.drain()?;
        Ok(owner.answers())
    };
    catch_unwind(AssertUnwindSafe(whole)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let what = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(Violation { promise: Promise::DoesNotPanic, what })
    })
}

/// Runs the steps on two schedulers that `make` makes.
///
/// # Errors
/// The first promise that is not kept.
pub fn check(make: &dyn Fn() -> Built, steps: &[Step]) -> Result<(), Violation> {
    let (first, second) = (run(make(), steps)?, run(make(), steps)?);
    let Some(place) = (0..first.len().max(second.len())).find(|&place| first.get(place) != second.get(place)) else {
        return Ok(());
    };
    let what = format!("answer {} was {:?}, then {:?}", place + 1, first.get(place), second.get(place));
    Err(Violation { promise: Promise::RepeatsItself, what })
}

/// The steps without all that are not needed to break the promise of `violation`, and how it is broken then.
pub fn shortened(make: &dyn Fn() -> Built, steps: &[Step], violation: Violation) -> (Vec<Step>, Violation) {
    let (mut steps, mut violation) = (steps.to_vec(), violation);
    let mut piece = steps.len().div_ceil(2);
    while piece > 0 {
        let mut begin = 0;
        let mut shorter = false;
        while begin < steps.len() {
            let end = (begin + piece).min(steps.len());
            let without = [&steps[..begin], &steps[end..]].concat();
            match check(make, &without) {
                Err(found) if found.promise == violation.promise => {
                    (steps, violation, shorter) = (without, found, true);
                }
                _ => begin = end,
            }
        }
        piece = if shorter && piece == 1 { 1 } else { piece / 2 };
    }
    (steps, violation)
}

/// Makes `decisions` decisions with `waiting` requests waiting at each. Whoever calls it measures the time.
pub fn decide(scheduler: &mut dyn Scheduler, waiting: u32, decisions: u32) {
    let mut cost = DistanceCost { position: Lba::ZERO, capacity: Sectors::new(1 << 24) };
    let mut now = Timestamp::ZERO;
    let mut place: u64 = 1;
    let mut next = |now| {
        // A full period of a linear congruential generator: scattered addresses, the same each time.
        place = (place.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)) % (1 << 24);
        Request::new(now, Operation::Read, Lba::new(place), Sectors::new(8))
    };
    let mut requests: Vec<Request> = Vec::new();
    for id in 0..waiting {
        let request = next(now);
        scheduler.insert(now, RequestId(id), &request);
        requests.push(request);
    }
    for _ in 0..decisions {
        now += Nanos::from_us(100);
        match scheduler.dispatch(now, Capacity::UNLIMITED, &cost) {
            Dispatch::Send(id) => {
                let Some(request) = requests.get_mut(id.index()) else { return };
                cost.position = request.end();
                scheduler.completed(now, id, request);
                *request = next(now);
                scheduler.insert(now, id, request);
            }
            Dispatch::WaitUntil(time) => now = now.max(time),
            Dispatch::Idle => {}
        }
    }
}
