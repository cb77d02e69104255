//! What was taken of what waited, at a device or in a VM.

use traces::{Nanos, Operation, Timestamp};

use crate::isolated_trace::{IsolatedTrace, TracedRequest};

/// A request that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    /// Reads and writes that waited, itself among them.
    pub(super) reads: u32,
    pub(super) writes: u32,
    /// Whether it is a read.
    pub(super) read: bool,
    /// Whether the oldest was a read, where it came clearly before all of the other kind.
    pub(super) oldest_read: Option<bool>,
    /// Whether it was the oldest of its kind.
    pub(super) in_order: bool,
}

impl Choice {
    pub(super) fn waiting(&self) -> u32 {
        self.reads + self.writes
    }

    pub(super) fn tells(&self) -> bool {
        self.reads > 0 && self.writes > 0 && self.oldest_read.is_some()
    }
}

/// What was taken of what waited, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choices {
    pub(super) taken: Vec<Choice>,
    /// Requests that found nobody there, so that they were served at once, while others came.
    pub(super) first: u64,
    /// Of them: another that came later was done clearly before.
    pub(super) overtaken: u64,
}

/// Requests that come within so little of one another come at once, and more so far away from the device.
const AT_ONCE: Nanos = Nanos::from_ms(1);
/// Requests in service that are overtaken more often than in so large a share are not alone there.
const OVERTAKEN: f64 = 0.1;
/// Fewer telling choices leave the policy open.
pub(super) const TELLING_MIN: usize = 20;
/// A policy is one if it explains so many of the choices.
pub(super) const EXPLAINED: f64 = 0.88;
/// So many choices are looked at.
pub(super) const LOOKED_AT: usize = 20_000;

impl Choices {
    /// Those of several recordings, first as many of each as make what is looked at.
    pub(crate) fn of_all(each: &[Choices]) -> Choices {
        let most = LOOKED_AT / each.len().max(1);
        let first = each.iter().flat_map(|choices| choices.taken.iter().take(most));
        let further = each.iter().flat_map(|choices| choices.taken.iter().skip(most));
        Choices {
            taken: first.chain(further).copied().collect(),
            first: each.iter().map(|choices| choices.first).sum(),
            overtaken: each.iter().map(|choices| choices.overtaken).sum(),
        }
    }

    /// Whether the device serves several at once, or takes those of one kind in another order than they came in.
    pub(super) fn is_no_queue(&self) -> bool {
        let out_of_order = |read: bool| {
            let several =
                |choice: &&Choice| choice.read == read && (if read { choice.reads } else { choice.writes }) > 1;
            let all = self.taken.iter().filter(several).count();
            let in_order = self.taken.iter().filter(several).filter(|choice| choice.in_order).count();
            all >= TELLING_MIN && (in_order as f64) < EXPLAINED * all as f64
        };
        let overtaken = self.first >= TELLING_MIN as u64 && self.overtaken as f64 > OVERTAKEN * self.first as f64;
        overtaken || out_of_order(true) || out_of_order(false)
    }

    pub(super) fn looked_at(&self) -> &[Choice] {
        &self.taken[..self.taken.len().min(LOOKED_AT)]
    }

    /// Whether reads pass waiting writes more often than chance would have it.
    pub(crate) fn prefers_reads(&self) -> bool {
        let passable = || self.taken.iter().filter(|choice| choice.tells() && choice.oldest_read == Some(false));
        let telling = passable().count();
        telling >= TELLING_MIN && 2 * passable().filter(|choice| choice.read && choice.in_order).count() > telling
    }

    /// Whether anything ever waited for anything else.
    pub(crate) fn any(&self) -> bool {
        self.taken.iter().any(|choice| choice.waiting() > 1)
    }

    fn add(&mut self, waiting: &[(Timestamp, &TracedRequest)], taken: (Timestamp, &TracedRequest), at_once: Nanos) {
        let oldest = |operation: Operation| {
            waiting.iter().find(|(_, request)| request.operation == operation).map(|(since, _)| *since)
        };
        let of = |operation: Operation| waiting.iter().filter(|(_, request)| request.operation == operation).count();
        let reads = of(Operation::Read) as u32;
        // What came at about the same time may have changed places on its way.
        let clearly = |first: Timestamp, second: Timestamp| first.saturating_add(at_once) < second;
        let oldest_read = match (oldest(Operation::Read), oldest(Operation::Write)) {
            (Some(read), Some(write)) if clearly(read, write) => Some(true),
            (Some(read), Some(write)) if clearly(write, read) => Some(false),
            _ => None,
        };
        self.taken.push(Choice {
            reads,
            writes: waiting.len() as u32 - reads,
            read: taken.1.operation == Operation::Read,
            oldest_read,
            in_order: oldest(taken.1.operation).is_some_and(|since| !clearly(since, taken.0)),
        });
    }
}

/// What a device that serves one request after another, `delay` away both ways together, took next, of those that were at it.
pub(crate) fn at_device(trace: &IsolatedTrace, delay: Nanos) -> Choices {
    let at_once = AT_ONCE.max(delay);
    let mut end = Timestamp::ZERO;
    let mut seen = choices(
        trace,
        &trace.unfinished,
        |request| request.issued,
        |request| request.completed,
        move |request| {
            let started = request.issued.max(end);
            end = request.completed;
            started
        },
        at_once,
    );
    (seen.first, seen.overtaken) = overtaken(trace, at_once);
    seen
}

/// Of the requests that found nobody at the device and were joined there, how many there are, and how many a later one was done before.
fn overtaken(trace: &IsolatedTrace, at_once: Nanos) -> (u64, u64) {
    let mut by_issue: Vec<&TracedRequest> = trace.requests.iter().filter(|request| request.moves_data()).collect();
    by_issue.sort_by_key(|request| (request.issued, request.completed, request.lba));
    let (mut first, mut overtaken) = (0, 0);
    let mut busy_until = Timestamp::ZERO;
    for (index, request) in by_issue.iter().enumerate() {
        // One with a flush of its own waits for that first.
        let alone = request.issued >= busy_until && !request.durable;
        busy_until = busy_until.max(request.completed);
        let mut joined = by_issue[index + 1..].iter().take_while(|other| other.issued < request.completed).peekable();
        if alone && joined.peek().is_some() {
            first += 1;
            let before = |other: &&TracedRequest| other.completed.saturating_add(at_once) < request.completed;
            overtaken += u64::from(joined.any(before));
        }
    }
    (first, overtaken)
}

/// What the machine itself issued next, of those that had arrived.
pub(crate) fn in_vm(trace: &IsolatedTrace) -> Choices {
    choices(trace, &[], |request| request.arrival, |request| request.issued, |request| request.issued, AT_ONCE)
}

/// The choices of a server that requests come to `since`, and that is done with them in the order of `done`; it chose each `when`, and
/// of the `unfinished` none.
fn choices(
    trace: &IsolatedTrace,
    unfinished: &[TracedRequest],
    since: fn(&TracedRequest) -> Timestamp,
    done: fn(&TracedRequest) -> Timestamp,
    mut when: impl FnMut(&TracedRequest) -> Timestamp,
    at_once: Nanos,
) -> Choices {
    let mut coming: Vec<&TracedRequest> = trace.requests.iter().filter(|request| request.moves_data()).collect();
    let mut taken = coming.clone();
    coming.extend(unfinished.iter().filter(|request| request.moves_data()));
    coming.sort_by_key(|request| (since(request), done(request), request.lba));
    taken.sort_by_key(|request| (done(request), since(request), request.lba));
    let mut coming = coming.into_iter().peekable();
    let mut waiting: Vec<(Timestamp, &TracedRequest)> = Vec::new();
    let mut choices = Choices::default();
    for request in taken {
        let chosen = when(request);
        while let Some(next) = coming.next_if(|next| since(next) <= chosen.max(since(request))) {
            // One with a flush of its own waits for that, wherever it is; nobody knows when it could have been taken.
            if !next.durable {
                waiting.push((since(next), next));
            }
        }
        if !request.durable {
            choices.add(&waiting, (since(request), request), at_once);
        }
        if let Some(place) = waiting.iter().position(|(_, other)| std::ptr::eq(*other, request)) {
            waiting.remove(place);
        }
    }
    choices
}
