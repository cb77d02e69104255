//! The page cache's writes, which nobody waits for: when they come, and whether the drive held back their programs.

use std::collections::{BTreeMap, BTreeSet};

use traces::{Nanos, Operation, Record, StreamId, Timestamp, VmId};

/// Shorter gaps lie within a burst of writes, whose times the kernel and the device make. Chosen from 1 and 100 ms on the
/// shipped mail server, and on the suite's training and validation parts.
const BURST_GAP_MIN: Nanos = Nanos::from_ms(100);
/// Fewest writes that nobody waits for, and share of the time in which some are outstanding, from which on the drive has
/// held back the programs that wrote. Set by judgement; not varied.
const HELD_BACK_WRITES_MIN: u64 = 100;
const HELD_BACK_SHARE: f64 = 0.9;

/// One thread writes back at a time if at most one in so many changes of the thread comes within a burst. Set by
/// judgement: one in a hundred does in the captures of a lab, and none in most of them.
const CHANGES_WITHIN_BURST: u64 = 20;

/// The VMs of which all write-back is one sequence, though several threads sent it. Linux has one work item for each disk,
/// and any kernel thread takes it (`wb_workfn`, `fs/fs-writeback.c`, Linux 6.1). With cgroups there are several.
pub(super) fn vms_with_one_flusher(records: &[Record]) -> BTreeSet<VmId> {
    let mut flushers: BTreeMap<VmId, Flushers> = BTreeMap::new();
    for Record { request, .. } in records {
        if request.operation == Operation::Write && !request.is_sync() {
            flushers.entry(request.vm).or_default().add(request.stream, request.arrival);
        }
    }
    flushers.into_iter().filter(|(_, flushers)| flushers.take_turns()).map(|(vm, _)| vm).collect()
}

/// The threads that write back a VM's page cache.
#[derive(Clone, Copy, Debug, Default)]
struct Flushers {
    latest: Option<(StreamId, Timestamp)>,
    changes: u64,
    within_burst: u64,
}

impl Flushers {
    /// Adds the next write that nobody waits for.
    fn add(&mut self, stream: StreamId, arrival: Timestamp) {
        if let Some((_, before)) = self.latest.replace((stream, arrival)).filter(|(latest, _)| *latest != stream) {
            self.changes += 1;
            self.within_burst += u64::from(arrival.since(before) < BURST_GAP_MIN);
        }
    }

    /// Whether several threads have written, one at a time.
    fn take_turns(self) -> bool {
        self.changes > 0 && CHANGES_WITHIN_BURST * self.within_burst <= self.changes
    }
}

/// How far the processes of a VM that write synchronously have come in the trace. All its writes of the page cache follow
/// them, so that bursts of several kernel threads stay apart as in the trace.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// The sum of the time by which each of them is later than in the trace, ns. Wide, since a trace may have any times.
    late_ns: i128,
    processes: i128,
}

impl Progress {
    /// One of the processes sends a request at `now`, in the trace at `arrival`. `late_ns` is by how much its request before
    /// was late; it is replaced.
    pub(super) fn sends(&mut self, now: Timestamp, arrival: Timestamp, late_ns: &mut Option<i64>) {
        let late = now.as_ns() as i64 - arrival.as_ns() as i64;
        self.processes += i128::from(late_ns.is_none());
        self.late_ns += i128::from(late) - i128::from(late_ns.replace(late).unwrap_or(0));
    }

    /// When a burst of writes comes that came `gap` after the write before, in the trace at `arrival`. Nothing for
    /// shorter gaps than [`BURST_GAP_MIN`]. Processes that never sync do not wait for their writes, so their bursts come
    /// when they came.
    pub(super) fn burst(self, arrival: Timestamp, gap: Nanos) -> Option<Timestamp> {
        (gap >= BURST_GAP_MIN).then(|| {
            // A mean of numbers of 64 bits is one.
            let late = (self.late_ns / self.processes.max(1)) as i64;
            Timestamp::from_ns(arrival.as_ns().saturating_add_signed(late))
        })
    }
}

/// The recorded writes of a VM that nobody waits for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WriteBack {
    writes: u64,
    /// How long some were outstanding.
    outstanding: Nanos,
    until: Timestamp,
}

impl WriteBack {
    pub(super) fn add(&mut self, arrival: Timestamp, completed: Timestamp) {
        self.writes += 1;
        self.outstanding += completed.saturating_since(self.until.max(arrival));
        self.until = self.until.max(completed);
    }

    /// Whether the drive has held back the programs whose writes these are.
    pub(super) fn is_held_back(self) -> bool {
        let share = self.outstanding.as_ns() as f64 / self.until.as_ns().max(1) as f64;
        self.writes >= HELD_BACK_WRITES_MIN && share >= HELD_BACK_SHARE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether threads take turns that write at these times, in milliseconds.
    fn take_turns(writes: &[(u32, u64)]) -> bool {
        let mut flushers = Flushers::default();
        writes.iter().for_each(|&(thread, ms)| flushers.add(StreamId(thread), Timestamp::from_ns(ms * 1_000_000)));
        flushers.take_turns()
    }

    #[test]
    fn threads_take_turns_if_hardly_one_follows_another_within_a_burst() {
        assert!(take_turns(&[(1, 0), (1, 5), (2, 105), (2, 110), (1, 300)]));
        assert!(!take_turns(&[(1, 0), (1, 5)]), "one thread");
        assert!(!take_turns(&[(1, 0), (2, 99), (1, 300)]), "one of two changes");
        let with = |turns: u64| -> Vec<(u32, u64)> {
            [(1, 0)].into_iter().chain((0..turns).map(|n| (2 + n as u32 % 2, 50 + n * 200))).collect()
        };
        assert!(take_turns(&with(20)) && !take_turns(&with(19)));
    }

    #[test]
    fn processes_may_be_late_by_any_time() {
        let (mut progress, late) = (Progress::default(), Timestamp::from_ns(1 << 62));
        let mut by = [None; 9];
        by.iter_mut().for_each(|by| progress.sends(late, Timestamp::ZERO, by));
        let gap = BURST_GAP_MIN;
        assert_eq!(progress.burst(Timestamp::from_ns(5), gap), Some(Timestamp::from_ns((1 << 62) + 5)));
        // Early ones, too, and no burst comes before the start.
        by.iter_mut().for_each(|by| progress.sends(Timestamp::ZERO, late, by));
        assert_eq!(progress.burst(Timestamp::from_ns(5), gap), Some(Timestamp::ZERO));
        assert_eq!(progress.burst(Timestamp::from_ns(5), Nanos::ZERO), None);
    }
}
