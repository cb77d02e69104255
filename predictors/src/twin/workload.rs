//! Infers the workload of a VM from its isolated trace.
//!
//! A [`Workload`] holds the facts that the simulation needs, beside the trace, to send the VM's requests again on
//! another device:
//!
//! - which of its streams are journals, which wait for their commits, and which have a pace ([`StreamRoles`]),
//! - the limits of the VM's own queue: depth, length of a request, merging, throttled background writes, scheduler,
//! - the share of completions that the host reports together with the next one.
//!
//! What each request waits for is found by the closed replay as it reads the trace. The guest's page cache and file
//! system are not modelled here: the trace already holds the requests that leave them.

use replay::Limits;
use replay::sources::StreamRoles;
use traces::{Nanos, Operation, Record, Sectors, Timestamp, VmId};

use crate::isolated_trace::{IsolatedTrace, TracedRequest, each_issued};
use crate::twin::device::policy::in_vm;

/// Longest time between two completions that may have been reported together. A device with an arm needs more for a
/// request. Set by judgement; not varied.
const COALESCED_GAP_MAX: Nanos = Nanos::from_us(200);
/// Shortest time between arrival and issue (Q2D) of a background write that was throttled. A write that is issued at
/// once takes less. Set by judgement; not varied.
const THROTTLED_WAIT_MIN: Nanos = Nanos::from_ms(1);
/// Fewest throttled writes from which their limit is inferred. Set by judgement; not varied.
const THROTTLED_WRITES_MIN: usize = 50;

/// The workload of a VM, inferred from its isolated trace.
pub(crate) struct Workload {
    /// The journals among its streams, the streams that wait for them, and those with a pace, as of VM 0.
    pub(crate) roles: StreamRoles,
    /// Share of completions that are reported only with the next one.
    pub(crate) coalesced_share: f64,
    /// The number of background writes (which no process waits for) and flushes in flight from which on no further
    /// background write is issued.
    pub(crate) background_depth: u32,
    /// The same for flushes.
    pub(crate) flush_depth: u32,
    /// Limits of the VM's own queue.
    pub(crate) limits: Limits,
    /// The scheduler that is most like the VM's own.
    pub(crate) scheduler: &'static str,
}

/// Infers the workload of the VM that `trace` was recorded of.
pub(crate) fn infer(trace: &IsolatedTrace) -> Workload {
    let choices = in_vm(trace);
    // The depth is known only if it was reached: a VM that never kept a request waiting may have no limit.
    let depth = if choices.any() { max_in_flight(trace) } else { u32::MAX };
    let records: Vec<Record> = trace.requests.iter().map(|request| request.record(VmId::default())).collect();
    let background_depth = background_depth(trace);
    Workload {
        roles: StreamRoles::of(&records),
        coalesced_share: coalesced_share(trace),
        background_depth,
        flush_depth: flush_depth(trace, background_depth),
        limits: Limits { depth, merge: trace.merges, max_sectors: max_sectors(trace), ..Limits::default() },
        scheduler: if choices.prefers_reads() { "mq-deadline" } else { "fifo" },
    }
}

/// The longest request that the VM's stage merges or passes unsplit: Linux's limit, or the longest recorded request if
/// that is longer.
fn max_sectors(trace: &IsolatedTrace) -> Sectors {
    let longest = trace.moving().map(|request| Sectors::new(request.sectors.into())).max();
    longest.unwrap_or_default().max(Limits::default().max_sectors)
}

/// Share of completions that are reported only with the next one.
///
/// A busy host or a held-back interrupt reports several completions at once. A device that serves one request after
/// another completes them at different times. Processes of a VM that resume together stay in step, so the device
/// switches between VMs less often.
fn coalesced_share(trace: &IsolatedTrace) -> f64 {
    let moving = trace.requests.iter().filter(|request| request.moves_data());
    let mut served: Vec<(Timestamp, Timestamp)> = moving.map(|request| (request.completed, request.issued)).collect();
    served.sort();
    // A completion can be held back only if another request of the VM is in flight.
    let waited = || served.windows(2).map(|pair| (pair[0].0, pair[1])).filter(|(before, (_, issued))| issued < before);
    let between = |from: Nanos, to: Nanos| {
        waited().filter(|(before, (completed, _))| (from..to).contains(&completed.since(*before))).count() as f64
    };
    // Some completions are close by chance: as many as lie in the next window of the same length.
    let by_chance = between(COALESCED_GAP_MAX, COALESCED_GAP_MAX + COALESCED_GAP_MAX);
    (between(Nanos::ZERO, COALESCED_GAP_MAX) - by_chance).max(0.0) / waited().count().max(1) as f64
}

/// The number of background writes and flushes in flight from which on no further background write is issued.
///
/// Linux throttles background writes so that they do not delay reads (`block/blk-wbt.c`). A throttled write is issued
/// as soon as one fewer is in flight, so the limit is one more than the median number in flight at that time.
pub(crate) fn background_depth(trace: &IsolatedTrace) -> u32 {
    depth_of(trace.moving().filter(|request| !request.sync), |_| true).unwrap_or(u32::MAX)
}

/// The same for flushes, which have no lower limit (`get_limit`: that of background writes is the lowest).
fn flush_depth(trace: &IsolatedTrace, background_depth: u32) -> u32 {
    let is_flush = |request: &TracedRequest| request.operation == Operation::Flush;
    let throttled = trace.requests.iter().filter(|request| is_flush(request) || request.moves_data() && !request.sync);
    depth_of(throttled, is_flush).map_or(background_depth, |depth| depth.max(background_depth))
}

/// One more than the median number of `requests` in flight when one of them of a `kind` that had waited is issued.
/// `None` if too few have waited.
fn depth_of<'a>(
    requests: impl Iterator<Item = &'a TracedRequest>,
    kind: impl Fn(&TracedRequest) -> bool,
) -> Option<u32> {
    let mut found = Vec::new();
    each_issued(requests, |request, in_flight| {
        if kind(request) && request.issued.saturating_since(request.arrival) > THROTTLED_WAIT_MIN {
            found.push(in_flight.len());
        }
    });
    found.sort_unstable();
    (found.len() >= THROTTLED_WRITES_MIN).then(|| found[found.len() / 2] as u32 + 1)
}

/// The most requests that the VM had in flight at once.
fn max_in_flight(trace: &IsolatedTrace) -> u32 {
    let mut most = 1;
    each_issued(trace.moving(), |_, in_flight| most = most.max(in_flight.len() as u32 + 1));
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs of requests in flight at once. The second completes `apart_us` microseconds after the first.
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
    fn most_in_flight_counts_the_request_that_is_issued() {
        assert_eq!(max_in_flight(&pairs(|_| 100)), 2);
        assert_eq!(max_in_flight(&IsolatedTrace::default()), 1);
    }

    #[test]
    fn limits_of_background_writes_and_of_flushes_are_those_at_which_they_were_issued() {
        // A write is in flight for 4 ms. The next one is issued when it completes, and a flush one millisecond before.
        let mut trace = IsolatedTrace::default();
        for n in 0..100 {
            let at = n * 50_000;
            let issued = |us: u64| Timestamp::from_ns((at + us) * 1000);
            let write = TracedRequest { sync: false, ..TracedRequest::sent(Operation::Write, 1, at, 4000) };
            let waits = TracedRequest { issued: issued(4000), completed: issued(8000), ..write };
            let flush = TracedRequest { sectors: 0, ..TracedRequest::sent(Operation::Flush, 2, at, 3100) };
            trace.requests.extend([write, waits, TracedRequest { issued: issued(3000), ..flush }]);
        }
        let workload = infer(&trace);
        assert_eq!((workload.background_depth, workload.flush_depth), (1, 2));
        trace.requests.retain(|request| request.moves_data());
        assert_eq!(infer(&trace).flush_depth, 1, "no flush has waited");
        trace.requests.iter_mut().for_each(|request| request.issued = request.arrival);
        assert_eq!(infer(&trace).flush_depth, u32::MAX, "nothing has waited");
    }

    #[test]
    fn coalesced_share_counts_close_completions_beyond_those_expected_by_chance() {
        assert_eq!(coalesced_share(&pairs(|_| 3000)), 0.0);
        assert_eq!(coalesced_share(&pairs(|n| if n % 2 == 0 { 50 } else { 3000 })), 0.5);
        // As many lie in the first window as in the second, so they are close by chance.
        assert!(coalesced_share(&pairs(|n| n * 7 % 4000)) < 0.02);
    }
}
