//! Events of several CPUs merged while more are still to come.

use std::collections::VecDeque;

use super::Findings;
use crate::events::Placed;

/// Up to which time events were released, so that none that is earlier follows.
#[derive(Default)]
pub(in crate::formats) struct Released {
    until: u64,
}

impl Released {
    /// Appends the events up to the time `until` to `into`, in the order in which a capture of several files is
    /// merged: time, then CPU. One that comes after later ones have been released is left out and counted.
    pub(in crate::formats) fn release<'a>(
        &mut self,
        cpus: impl Iterator<Item = &'a mut VecDeque<Placed>>,
        until: u64,
        into: &mut Vec<Placed>,
        findings: &mut Findings,
    ) {
        let begin = into.len();
        for waiting in cpus {
            let due = waiting.partition_point(|placed| placed.event.time <= until);
            into.extend(waiting.drain(..due));
        }
        // Stable: events of one time and CPU stay as they were written.
        into[begin..].sort_by_key(|placed| (placed.event.time, placed.event.cpu));
        let late = into[begin..].partition_point(|placed| placed.event.time < self.until);
        for _ in 0..late {
            findings.losses.skip("event out of order");
        }
        into.drain(begin..begin + late);
        self.until = self.until.max(until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Event;

    fn of(cpu: u32, times: &[u64]) -> VecDeque<Placed> {
        let event = |time: &u64| Placed { event: Event { time: *time, cpu, ..Event::default() }, at: 0 };
        times.iter().map(event).collect()
    }

    #[test]
    fn what_is_due_leaves_in_the_order_of_time_and_cpu_and_what_comes_too_late_is_counted() {
        let mut findings = Findings::new(true);
        let mut order = Released::default();
        let mut cpus = [of(1, &[3, 5, 9]), of(0, &[5, 6])];
        let mut into = Vec::new();
        order.release(cpus.iter_mut(), 5, &mut into, &mut findings);
        let keys = |into: &[Placed]| into.iter().map(|p| (p.event.time, p.event.cpu)).collect::<Vec<_>>();
        assert_eq!(keys(&into), [(3, 1), (5, 0), (5, 1)]);
        cpus[1].push_front(of(0, &[4])[0]);
        order.release(cpus.iter_mut(), u64::MAX, &mut into, &mut findings);
        assert_eq!(keys(&into), [(3, 1), (5, 0), (5, 1), (6, 0), (9, 1)]);
        assert_eq!(findings.losses.skipped.values().sum::<u64>(), 1);
    }
}
