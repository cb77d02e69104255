//! Extracts dispatch decisions from an isolated trace, at the device or inside the VM.
//!
//! A queue is rebuilt from the times of the trace. At the device a request waits from its issue, and completions give
//! the order of service; in the VM a request waits from its arrival, and issues give the order. Each dispatch becomes a
//! [`Choice`] with the queue that it saw.
//!
//! Durable writes are left out: they wait for their own flush first, and the trace does not show when that is done.
//! Addresses are not used.

use traces::{Nanos, Operation, Timestamp};

use crate::isolated_trace::{IsolatedTrace, TracedRequest};

/// One dispatch, with the queue from which the request was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    /// Reads that waited, with the dispatched request.
    pub(super) reads: u32,
    /// Writes that waited, with the dispatched request.
    pub(super) writes: u32,
    /// Whether the dispatched request is a read.
    pub(super) read: bool,
    /// Whether the oldest waiting request was a read; `None` unless it came clearly before all requests of the other
    /// kind.
    pub(super) oldest_read: Option<bool>,
    /// Whether the dispatched request was the oldest of its kind.
    pub(super) in_order: bool,
}

impl Choice {
    pub(super) fn waiting(&self) -> u32 {
        self.reads + self.writes
    }

    /// Whether the choice distinguishes policies: both kinds waited, and one of them clearly longer.
    pub(super) fn is_decisive(&self) -> bool {
        self.reads > 0 && self.writes > 0 && self.oldest_read.is_some()
    }
}

/// All dispatches of a queue in order, and how often later requests finished before one in service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choices {
    pub(super) dispatches: Vec<Choice>,
    /// Requests that found the device idle and so were in service at once, and that others joined before completion.
    pub(super) joined: u64,
    /// Of the `joined` requests, those that a later request clearly overtook: it completed first.
    pub(super) overtaken: u64,
    /// The reads that other reads joined so.
    pub(super) joined_reads: u64,
    /// Of these, those that a later read clearly overtook.
    pub(super) overtaken_reads: u64,
}

/// Requests whose times differ by at most this count as simultaneous, as they may have changed places on their way to
/// the device. If the device's delay is longer, that bound holds. Set by judgement; not varied.
const SIMULTANEOUS_MAX: Nanos = Nanos::from_ms(1);
/// If a larger share of the joined requests is overtaken, the device serves several requests at once. Set by judgement;
/// not varied.
const OVERTAKEN_SHARE_MAX: f64 = 0.1;
/// Fewer observations than this decide nothing about the order. Set by judgement; not varied.
pub(super) const OBSERVATIONS_MIN: usize = 20;
/// A policy is sure only if it explains at least this share of the decisive choices. A kind of requests is served in
/// order only if this share of its dispatches takes the oldest. Set by judgement; 0.9 at first.
pub(super) const EXPLAINED_SHARE_SURE_MIN: f64 = 0.88;
/// At most this many choices are followed through the candidate policies, which bounds the time of the inference. Set
/// by judgement; not varied.
pub(super) const CHOICES_FOLLOWED_MAX: usize = 20_000;

impl Choices {
    /// Joins the choices of several traces. Equal numbers of each trace come first, so that each weighs the same in
    /// [`Choices::followed`].
    pub(crate) fn of_all(each: &[Choices]) -> Choices {
        let most = CHOICES_FOLLOWED_MAX / each.len().max(1);
        let first = each.iter().flat_map(|choices| choices.dispatches.iter().take(most));
        let further = each.iter().flat_map(|choices| choices.dispatches.iter().skip(most));
        Choices {
            dispatches: first.chain(further).copied().collect(),
            joined: each.iter().map(|choices| choices.joined).sum(),
            overtaken: each.iter().map(|choices| choices.overtaken).sum(),
            joined_reads: each.iter().map(|choices| choices.joined_reads).sum(),
            overtaken_reads: each.iter().map(|choices| choices.overtaken_reads).sum(),
        }
    }

    /// Whether the device serves several requests at once, or serves requests of one kind out of order.
    pub(super) fn is_concurrent_or_reordering(&self) -> bool {
        let out_of_order = |read: bool| {
            let several =
                |choice: &&Choice| choice.read == read && (if read { choice.reads } else { choice.writes }) > 1;
            let all = self.dispatches.iter().filter(several).count();
            let in_order = self.dispatches.iter().filter(several).filter(|choice| choice.in_order).count();
            all >= OBSERVATIONS_MIN && (in_order as f64) < EXPLAINED_SHARE_SURE_MIN * all as f64
        };
        self.serves_reads_at_once()
            || clearly_overtaken(self.overtaken, self.joined)
            || out_of_order(true)
            || out_of_order(false)
    }

    /// Whether the device serves several reads at once. A write may overtake a read in a cache, and a read a write whose
    /// data are still on their way. Only a device that serves both at once lets a read overtake another in service.
    pub(crate) fn serves_reads_at_once(&self) -> bool {
        clearly_overtaken(self.overtaken_reads, self.joined_reads)
    }

    /// The choices that candidate policies are followed through.
    pub(super) fn followed(&self) -> &[Choice] {
        &self.dispatches[..self.dispatches.len().min(CHOICES_FOLLOWED_MAX)]
    }

    /// Whether reads overtake older writes in more than half of the cases where they could.
    pub(crate) fn prefers_reads(&self) -> bool {
        let passable =
            || self.dispatches.iter().filter(|choice| choice.is_decisive() && choice.oldest_read == Some(false));
        let count = passable().count();
        count >= OBSERVATIONS_MIN && 2 * passable().filter(|choice| choice.read && choice.in_order).count() > count
    }

    /// Whether any request ever waited while another was dispatched.
    pub(crate) fn any(&self) -> bool {
        self.dispatches.iter().any(|choice| choice.waiting() > 1)
    }

    /// Counts the requests that found the device idle and were joined by others, and those of them that a later request
    /// clearly overtook.
    fn count_overtaken(&mut self, trace: &IsolatedTrace, simultaneous: Nanos) {
        let mut by_issue: Vec<&TracedRequest> = trace.requests.iter().filter(|request| request.moves_data()).collect();
        by_issue.sort_by_key(|request| (request.issued, request.completed, request.lba));
        let mut busy_until = Timestamp::ZERO;
        for (index, request) in by_issue.iter().enumerate() {
            // A durable write waits for its own flush first.
            let alone = request.issued >= busy_until && !request.durable;
            busy_until = busy_until.max(request.completed);
            if !alone {
                continue;
            }
            let later = || by_issue[index + 1..].iter().take_while(|other| other.issued < request.completed);
            let before = |other: &&TracedRequest| other.completed.saturating_add(simultaneous) < request.completed;
            let is_read = |other: &TracedRequest| other.operation == Operation::Read;
            self.joined += u64::from(later().next().is_some());
            self.overtaken += u64::from(later().any(before));
            if is_read(request) {
                self.joined_reads += u64::from(later().any(|other| is_read(other)));
                self.overtaken_reads += u64::from(later().any(|other| is_read(other) && before(other)));
            }
        }
    }

    /// Adds the dispatch of a request out of the `waiting` ones, each with the time since which it waits.
    fn add(&mut self, waiting: &[(Timestamp, &TracedRequest)], sent: (Timestamp, &TracedRequest), simultaneous: Nanos) {
        let oldest = |operation: Operation| {
            waiting.iter().find(|(_, request)| request.operation == operation).map(|(since, _)| *since)
        };
        let of = |operation: Operation| waiting.iter().filter(|(_, request)| request.operation == operation).count();
        let reads = of(Operation::Read) as u32;
        // Requests that came at about the same time may have changed places on their way.
        let clearly = |first: Timestamp, second: Timestamp| first.saturating_add(simultaneous) < second;
        let oldest_read = match (oldest(Operation::Read), oldest(Operation::Write)) {
            (Some(read), Some(write)) if clearly(read, write) => Some(true),
            (Some(read), Some(write)) if clearly(write, read) => Some(false),
            _ => None,
        };
        self.dispatches.push(Choice {
            reads,
            writes: waiting.len() as u32 - reads,
            read: sent.1.operation == Operation::Read,
            oldest_read,
            in_order: oldest(sent.1.operation).is_some_and(|since| !clearly(since, sent.0)),
        });
    }
}

/// Whether so many of the requests that others joined were overtaken that it was no chance.
fn clearly_overtaken(overtaken: u64, joined: u64) -> bool {
    joined >= OBSERVATIONS_MIN as u64 && overtaken as f64 > OVERTAKEN_SHARE_MAX * joined as f64
}

/// The choices of the device, as if it served one request after another. `delay` is the round trip between the tracing
/// point and the device.
pub(crate) fn at_device(trace: &IsolatedTrace, delay: Nanos) -> Choices {
    let simultaneous = SIMULTANEOUS_MAX.max(delay);
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
        simultaneous,
    );
    seen.count_overtaken(trace, simultaneous);
    seen
}

/// The choices of the VM's own scheduler: which of the arrived requests it issued next.
pub(crate) fn in_vm(trace: &IsolatedTrace) -> Choices {
    choices(trace, &[], |request| request.arrival, |request| request.issued, |request| request.issued, SIMULTANEOUS_MAX)
}

/// The choices of a server. A request waits there from the time `since`. The server dispatches requests in the order of
/// `done`, each at the time `dispatched`. The `unfinished` requests wait for ever.
fn choices(
    trace: &IsolatedTrace,
    unfinished: &[TracedRequest],
    since: fn(&TracedRequest) -> Timestamp,
    done: fn(&TracedRequest) -> Timestamp,
    mut dispatched: impl FnMut(&TracedRequest) -> Timestamp,
    simultaneous: Nanos,
) -> Choices {
    let mut coming: Vec<&TracedRequest> = trace.requests.iter().filter(|request| request.moves_data()).collect();
    let mut served = coming.clone();
    coming.extend(unfinished.iter().filter(|request| request.moves_data()));
    coming.sort_by_key(|request| (since(request), done(request), request.lba));
    served.sort_by_key(|request| (done(request), since(request), request.lba));
    let mut coming = coming.into_iter().peekable();
    let mut waiting: Vec<(Timestamp, &TracedRequest)> = Vec::new();
    let mut choices = Choices::default();
    for request in served {
        let chosen = dispatched(request);
        while let Some(next) = coming.next_if(|next| since(next) <= chosen.max(since(request))) {
            // A durable write waits for its own flush, so the trace does not show when it could have been dispatched.
            if !next.durable {
                waiting.push((since(next), next));
            }
        }
        if !request.durable {
            choices.add(&waiting, (since(request), request), simultaneous);
        }
        if let Some(place) = waiting.iter().position(|(_, other)| std::ptr::eq(*other, request)) {
            waiting.remove(place);
        }
    }
    choices
}
