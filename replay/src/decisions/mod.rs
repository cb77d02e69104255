//! Compares a scheduler with the decisions of Linux in a capture of its block layer (the insert, issue and complete
//! events of one device).
//!
//! The kernel decides one issue ahead. Right after it has issued a request it takes the next one from its scheduler;
//! that request then waits until the device has capacity. So the candidates of a choice are the requests that had been
//! inserted, and not chosen, when the *previous* request was issued.
//!
//! If nothing was chosen then (no request waited, or the scheduler idled), the kernel asks again at four occasions
//! (Linux 6.18, `block/blk-mq-sched.c`):
//! - when requests are inserted, once for all requests that a process had collected;
//! - when a request completes after another one had waited for capacity;
//! - when the scheduler calls for it ([`Scheduler::calls_for_dispatch`]) or its own timer expires;
//! - after one or two ticks.
//!
//! The scheduler learns of a completion at its event. If a request was inserted after the previous issue and is the
//! next to be issued, its decision must have fallen later: the scheduler is then asked at its insertion.
//!
//! After a miss the replay follows the choice of the capture ([`Scheduler::follow`]), from the state before the
//! decision if the scheduler can be forked.
//!
//! Left out: the kernel takes several requests at once while the device has had capacity for some time; two CPUs that
//! ask at the same time.

pub mod arrivals;
mod clock;
pub mod free;
mod known;
mod plugs;
mod reason;
mod steps;

use schedulers::{DistanceCost, Scheduler};
use traces::events::{Event, Watch, action};
use traces::results::SCHEMA_VERSION;
use traces::results::decisions::{Agreement, Choice, Miss};
use traces::{Lba, Request, RequestId, Sectors, Timestamp};

use self::clock::Clock;
use self::known::{Known, Requests};
use self::plugs::Plugs;
use self::steps::{Span, Step, What};

/// Why a scheduler cannot be compared with a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecisionsError {
    /// The capture holds no insertions.
    #[error(
        "the capture holds no insertions, as with the scheduler `none`, which requests bypass: there are no decisions \
         to compare"
    )]
    NoInsertions,
    /// The capture holds no issues.
    #[error("the capture holds no issues of inserted requests: there are no decisions to compare")]
    NoIssues,
    /// The capture holds no completions.
    #[error("the capture holds no completions of issued requests: there is nothing to run a scheduler against")]
    NoCompletions,
}

/// Reads a capture and asks a scheduler for each of its decisions.
pub struct Decisions {
    name: String,
    scheduler: Box<dyn Scheduler>,
    requests: Requests,
    plugs: Plugs,
    clock: Clock,
    /// The steps since the last issue, which the scheduler has not received yet.
    steps: Vec<Step>,
    /// The time of the last issue.
    opened: Timestamp,
    /// The number of the first insertion after the last issue.
    inserted_then: u64,
    restart: bool,
    cost: DistanceCost,
    issues: u64,
    decisions: u64,
    agreed: u64,
    oldest: u64,
    upwards: u64,
    misses: Vec<Miss>,
}

impl Decisions {
    /// A comparison before the first event. The scheduler is new, and `name` is its specification on the command line.
    pub fn new(name: impl Into<String>, scheduler: Box<dyn Scheduler>) -> Decisions {
        Decisions {
            name: name.into(),
            scheduler,
            requests: Requests::default(),
            plugs: Plugs::default(),
            clock: Clock::default(),
            steps: Vec::new(),
            opened: Timestamp::ZERO,
            inserted_then: 0,
            restart: false,
            cost: DistanceCost { position: Lba::ZERO, capacity: Sectors::new(1) },
            issues: 0,
            decisions: 0,
            agreed: 0,
            oldest: 0,
            upwards: 0,
            misses: Vec::new(),
        }
    }

    /// Decisions so far: choices among at least two candidates.
    pub fn decisions(&self) -> u64 {
        self.decisions
    }

    /// The agreement of the scheduler with the capture.
    ///
    /// # Errors
    /// If the capture holds no decision, with the reason.
    pub fn finish(self) -> Result<Agreement, DecisionsError> {
        if self.requests.next_number() == 0 {
            return Err(DecisionsError::NoInsertions);
        }
        if self.issues == 0 {
            return Err(DecisionsError::NoIssues);
        }
        let share = |count: u64| (self.decisions > 0).then(|| count as f64 / self.decisions as f64);
        Ok(Agreement {
            schema_version: SCHEMA_VERSION,
            scheduler: self.name,
            decisions: self.decisions,
            agreed: self.agreed,
            agreement: share(self.agreed),
            baseline_fifo: share(self.oldest),
            baseline_cscan: share(self.upwards),
            misses: self.misses,
        })
    }

    /// The candidates when `id` was chosen. The simple orders choose from the same requests as the scheduler: also from
    /// those inserted after the previous issue, up to `id`, if `id` came after it.
    fn decided(&self, id: RequestId) -> Decided {
        let before = self.inserted_then.max(self.requests.known(id).number + 1);
        Decided {
            candidates: self.scheduler.waiting(),
            oldest: self.requests.oldest(before),
            upwards: self.requests.upwards(self.cost.position.sector(), before),
        }
    }

    fn step(&mut self, at: Timestamp, what: What) {
        self.steps.push(Step { at, what, has_more: false });
    }

    /// Handles the next choice of the capture: asks the scheduler, compares, and continues with the choice of the
    /// capture.
    fn issue(&mut self, now: Timestamp, id: RequestId, decided: &Decided) {
        let steps = std::mem::take(&mut self.steps);
        // A request cannot be chosen before its insertion.
        let not_before = steps.iter().position(|step| step.inserts(id)).map_or(0, |index| index + 1);
        let before = self.scheduler.fork();
        let span = |not_before| Span {
            steps: &steps,
            opened: self.opened,
            inserted_then: self.inserted_then,
            closed: now,
            not_before,
            restart: self.restart,
            cost: &self.cost,
        };
        let mut chosen = span(if before.is_some() { 0 } else { not_before }).ask(&mut *self.scheduler);
        if let Some(before) = before.as_ref().filter(|_| not_before > 0 && chosen.id != Some(id)) {
            self.scheduler = before.fork().expect("it was forked before");
            chosen = span(not_before).ask(&mut *self.scheduler);
        }
        let agrees = chosen.id == Some(id);
        if decided.candidates >= 2 {
            self.decisions += 1;
            self.agreed += u64::from(agrees);
            self.oldest += u64::from(decided.oldest == Some(id));
            self.upwards += u64::from(decided.upwards == Some(id));
            if !agrees {
                let (reason, is_race) =
                    reason::reason(&self.requests, id, chosen.id, before.as_deref(), &span(not_before));
                self.misses.push(Miss {
                    at_ns: self.clock.since_first(now),
                    kernel: choice(now, self.requests.known(id)),
                    ours: chosen.id.map(|ours| choice(now, self.requests.known(ours))),
                    reason,
                    is_race,
                });
            }
        }
        // The time after so many steps.
        let at = |applied: usize| applied.checked_sub(1).map_or(self.opened, |last| steps[last].at);
        let is_reported = if agrees {
            apply_without(id, &steps[chosen.steps_applied..], &mut *self.scheduler);
            true
        } else if let Some(before) = before {
            self.scheduler = before;
            apply(&steps[..not_before], &mut *self.scheduler);
            let is_reported = self.scheduler.follow(at(not_before), id);
            apply_without(id, &steps[not_before..], &mut *self.scheduler);
            is_reported
        } else {
            // The request that the scheduler chose instead still waits; its age is lost.
            if let Some(ours) = chosen.id {
                let request = &self.requests.known(ours).request;
                self.scheduler.insert(at(chosen.steps_applied), ours, request);
            }
            apply(&steps[chosen.steps_applied..], &mut *self.scheduler);
            self.scheduler.follow(now, id)
        };
        if is_reported {
            self.scheduler.issued(now, id);
        }
        let known = self.requests.known_mut(id);
        known.is_completion_reported = is_reported;
        self.cost.position = known.request.end();
        // A completion since the decision means that the request had waited for capacity.
        let since = if agrees { chosen.steps_applied } else { not_before };
        self.restart = chosen.restart || steps[since..].iter().any(Step::completes);
        self.opened = now;
        self.inserted_then = self.requests.next_number();
    }
}

/// The number of candidates of a decision, and the choices of two simple orders.
struct Decided {
    candidates: usize,
    oldest: Option<RequestId>,
    upwards: Option<RequestId>,
}

fn apply(steps: &[Step], scheduler: &mut dyn Scheduler) {
    for step in steps {
        step.apply_to(scheduler);
    }
}

/// Applies steps that come after the choice of `gone`: a merge into it no longer concerns the scheduler.
fn apply_without(gone: RequestId, steps: &[Step], scheduler: &mut dyn Scheduler) {
    for step in steps {
        match step.what {
            What::Merge { into, .. } if into == gone => {}
            What::Join { into, from, .. } if into == gone => scheduler.remove(from),
            _ => step.apply_to(scheduler),
        }
    }
}

fn choice(now: Timestamp, known: &Known) -> Choice {
    let Request { operation, lba, stream, priority, .. } = known.request;
    Choice {
        operation,
        sector: lba,
        sectors: known.request.sectors(),
        process: stream,
        priority,
        waited_ns: now.saturating_since(known.inserted),
    }
}

impl Watch for Decisions {
    fn event(&mut self, since_first: Timestamp, event: &Event) {
        let now = self.clock.at(since_first, event);
        if event.bytes == 0 {
            return;
        }
        self.cost.capacity = self.cost.capacity.max(Sectors::new(event.end()));
        match event.code() {
            action::GET_REQUEST => {
                self.plugs.allocate(event.pid);
                self.requests.allocate(event);
            }
            action::INSERT => {
                let again = self.requests.insert_again(event);
                let id = again.unwrap_or_else(|| self.requests.insert(now, event));
                let known = self.requests.known(id);
                // A request that the scheduler has only forgotten is a new one to it.
                let what = if again.is_some() && known.is_completion_reported {
                    What::InsertAgain(id, known.request)
                } else {
                    What::Insert(id, known.request)
                };
                let has_more = self.plugs.insert(event.pid);
                self.steps.push(Step { at: now, what, has_more });
            }
            action::BACK_MERGE | action::FRONT_MERGE => {
                if let Some((into, joined)) = self.requests.merge(event, event.code() == action::BACK_MERGE) {
                    let request = self.requests.known(into).request;
                    let what = match joined {
                        Some(from) => What::Join { into, from, request },
                        None => What::Merge { into, request },
                    };
                    self.step(now, what);
                }
            }
            action::ISSUE => {
                if let Some(id) = self.requests.find_to_issue(event) {
                    let decided = self.decided(id);
                    self.requests.issue(id);
                    self.issues += 1;
                    self.issue(now, id, &decided);
                }
            }
            action::REQUEUE => {
                self.requests.take_back(event);
            }
            action::COMPLETE => {
                if let Some((id, known)) = self.requests.complete(event) {
                    let what =
                        if known.is_completion_reported { What::Complete(id, known.request) } else { What::Other };
                    self.step(now, what);
                }
            }
            _ => {}
        }
    }
}
