//! What a VM does, inferred from its isolated trace: what each request depends on, what its journal holds back, and the limits of its queue.

pub(crate) mod dependencies;
pub(crate) mod journal_waits;

use replay::Limits;
use traces::{Nanos, Sectors, Timestamp};

use self::dependencies::Dependency;
use self::journal_waits::JournalWaits;
use crate::isolated_trace::{IsolatedTrace, each_issued};
use crate::twin::device::policy::in_vm;

/// No device that has an arm is done with two requests within so little.
const TOLD_TOGETHER: Nanos = Nanos::from_us(200);
/// What goes to the device at once takes less.
const HAD_TO_WAIT: Nanos = Nanos::from_ms(1);
/// Fewer that had to wait tell no limit.
const WAITED_MIN: usize = 50;

/// A machine as its recording shows it.
pub(crate) struct Workload {
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) journal_waits: JournalWaits,
    pub(crate) ends: Vec<Option<u32>>,
    pub(crate) coalesced: f64,
    /// How many writes that nobody waits for it lets be under way at once.
    pub(crate) background: u32,
    pub(crate) limits: Limits,
    /// The scheduler that is most like its own.
    pub(crate) scheduler: &'static str,
}

pub(crate) fn infer(trace: &IsolatedTrace) -> Workload {
    let waits = in_vm(trace);
    // Who never keeps anything back shows no limit.
    let depth = if waits.any() { deepest(trace) } else { u32::MAX };
    let mut dependencies = dependencies::infer(&trace.requests);
    let journal_waits = journal_waits::infer(&trace.requests, &mut dependencies);
    Workload {
        dependencies,
        journal_waits,
        ends: dependencies::ends(&trace.requests),
        coalesced: coalesced(trace),
        background: background(trace),
        limits: Limits { depth, merge: trace.merges, max_sectors: longest(trace), ..Limits::default() },
        scheduler: if waits.prefers_reads() { "mq-deadline" } else { "fifo" },
    }
}

/// How long a request its machine's stage makes of several, and lets pass whole: as long as Linux does, or the longest that was recorded if that
/// is longer.
fn longest(trace: &IsolatedTrace) -> Sectors {
    let longest = trace.moving().map(|request| Sectors::new(request.sectors.into())).max();
    longest.unwrap_or_default().max(Limits::default().max_sectors)
}

/// Which share of completions comes with the next: a host that is busy, or an interrupt that is held back, tells several at once, while a
/// device that serves one after another is done with them at different times. Machines whose requests so come in step go on in step, and
/// the device moves between machines less often.
fn coalesced(trace: &IsolatedTrace) -> f64 {
    let moving = trace.requests.iter().filter(|request| request.moves_data());
    let mut served: Vec<(Timestamp, Timestamp)> = moving.map(|request| (request.completed, request.issued)).collect();
    served.sort();
    // The machine has to have another request at the device for a completion to wait for.
    let waited = || served.windows(2).map(|pair| (pair[0].0, pair[1])).filter(|(before, (_, issued))| issued < before);
    let between = |from: Nanos, to: Nanos| {
        waited().filter(|(before, (completed, _))| (from..to).contains(&completed.since(*before))).count() as f64
    };
    // Some come so close to one another by chance, as many as come in the next such time.
    let by_chance = between(TOLD_TOGETHER, TOLD_TOGETHER + TOLD_TOGETHER);
    (between(Nanos::ZERO, TOLD_TOGETHER) - by_chance).max(0.0) / waited().count().max(1) as f64
}

/// How many writes that nobody waits for a machine lets be at the device at once: those that had to wait went when one fewer was there.
/// Linux throttles them so that they do not stand in the way of reads (`block/blk-wbt.c`).
pub(crate) fn background(trace: &IsolatedTrace) -> u32 {
    let writes = trace.moving().filter(|request| !request.sync);
    let mut found = Vec::new();
    each_issued(writes, |request, in_flight| {
        if request.issued.saturating_since(request.arrival) > HAD_TO_WAIT {
            found.push(in_flight.len());
        }
    });
    found.sort_unstable();
    if found.len() < WAITED_MIN { u32::MAX } else { found[found.len() / 2] as u32 + 1 }
}

/// The most requests that were at the device at once.
fn deepest(trace: &IsolatedTrace) -> u32 {
    let mut deepest = 1;
    each_issued(trace.moving(), |_, in_flight| deepest = deepest.max(in_flight.len() as u32 + 1));
    deepest
}

#[cfg(test)]
mod tests {
    use traces::Operation;

    use super::*;
    use crate::isolated_trace::TracedRequest;

    /// Pairs of requests under way at once, whose second completes so many microseconds after the first.
    fn pairs(apart_us: impl Fn(u64) -> u64) -> IsolatedTrace {
        let mut trace = IsolatedTrace::default();
        for n in 0..1000 {
            let at = n * 20_000;
            let first = TracedRequest::sent(Operation::Read, 0, at, 3000);
            trace.requests.extend([first, TracedRequest::sent(Operation::Read, 1, at + 100, 2900 + apart_us(n))]);
        }
        trace
    }

    #[test]
    fn completions_that_come_together_count_but_for_those_that_do_by_chance() {
        assert_eq!(coalesced(&pairs(|_| 3000)), 0.0);
        assert_eq!(coalesced(&pairs(|n| if n % 2 == 0 { 50 } else { 3000 })), 0.5);
        // As many come within one time as within the next: they have nothing to do with one another.
        assert!(coalesced(&pairs(|n| n * 7 % 4000)) < 0.02);
    }
}
