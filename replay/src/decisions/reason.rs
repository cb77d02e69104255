//! Explains a miss: the difference between the two choices, and whether a race or a tick accounts for it.

use schedulers::{Capacity, Dispatch, Scheduler};
use traces::{Nanos, RequestId};

use super::clock::TICK;
use super::known::Requests;
use super::steps::{Span, What};

/// The most time, on the clock of the capture, between the event of an issue and the decision after it.
const RACE: Nanos = Nanos::from_us(500);

/// Describes the difference between the two choices, and tries whether a somewhat later or earlier decision would have
/// agreed with the capture. Returns whether one would have.
pub(super) fn reason(
    requests: &Requests,
    kernel: RequestId,
    ours: Option<RequestId>,
    before: Option<&dyn Scheduler>,
    span: &Span<'_>,
) -> (String, bool) {
    let difference = difference(requests, kernel, ours);
    match before.and_then(|before| race(before, kernel, span, requests)) {
        Some(race) => (format!("{difference}; {race}"), true),
        None => (difference, false),
    }
}

fn race(before: &dyn Scheduler, kernel: RequestId, span: &Span<'_>, requests: &Requests) -> Option<String> {
    let mut later = before.fork()?;
    let mut inserted = 0;
    for step in span.steps.iter().take_while(|step| step.at.saturating_since(span.opened) <= RACE) {
        step.apply_to(&mut *later);
        inserted += u32::from(matches!(step.what, What::Insert(..)));
        let answer = later.fork()?.dispatch(step.at, Capacity::UNLIMITED, span.cost);
        if answer == Dispatch::Send(kernel) {
            let late = step.at.saturating_since(span.opened);
            return Some(format!("it agrees {late} after the issue before, with {inserted} more inserted"));
        }
    }
    // The kernel counts expiries in ticks, so they may come up to one tick early.
    if before.fork()?.dispatch(span.opened.saturating_add(TICK), Capacity::UNLIMITED, span.cost)
        == Dispatch::Send(kernel)
    {
        return Some(format!("it agrees a tick later ({TICK}), as where an expiry is rounded to ticks"));
    }
    // Requests inserted just before the decision may have been missing in the kernel.
    let mut earlier = before.fork()?;
    let mut missing = 0;
    for (id, known) in requests.youngest_before(span.inserted_then) {
        let early = span.opened.saturating_since(known.inserted);
        if early > RACE || id == kernel {
            break;
        }
        // Taken back and inserted again since: it was not there.
        if span.steps.iter().any(|step| step.inserts(id)) {
            continue;
        }
        earlier.remove(id);
        missing += 1;
        if earlier.fork()?.dispatch(span.opened, Capacity::UNLIMITED, span.cost) == Dispatch::Send(kernel) {
            return Some(format!("it agrees {early} before the issue before, with {missing} fewer inserted"));
        }
    }
    None
}

fn difference(requests: &Requests, kernel: RequestId, ours: Option<RequestId>) -> String {
    let Some(ours) = ours else { return "the scheduler would have waited".to_owned() };
    let (kernel, ours) = (requests.known(kernel), requests.known(ours));
    let (theirs, own) = (&kernel.request, &ours.request);
    if theirs.priority.class() != own.priority.class() {
        return format!("I/O class {} instead of {}", theirs.priority.class(), own.priority.class());
    }
    if theirs.operation != own.operation {
        return format!("a {} instead of a {}", theirs.operation, own.operation);
    }
    let whose = if theirs.stream == own.stream { "the same process" } else { "another process" };
    let place = if theirs.lba < own.lba { "below" } else { "above" };
    let age = if kernel.number < ours.number { "older" } else { "younger" };
    format!("another {} of {whose}, {place} and {age}", theirs.operation)
}
