//! Whose recordings tell of the device, and in which order they say that it takes what waits.

use traces::Nanos;

use crate::isolated_trace::IsolatedTrace;
use crate::twin::device::disk::FittedDisk;
use crate::twin::device::policy::{Choices, Policy, at_device};
use crate::twin::device::{array, fit_disk};

/// Fewer requests tell no device.
pub(crate) const REQUESTS_MIN: usize = 100;

/// What tells of the device, and what it tells.
pub(crate) struct Evidence<'a> {
    /// First those of the machines that are played.
    pub(crate) traces: &'a [IsolatedTrace],
    /// It as one that serves one request after another, if it can be.
    pub(crate) disk: Option<FittedDisk>,
    pub(crate) policy: Policy,
    pub(crate) sure: bool,
    /// So many recordings are left out.
    left_out: usize,
}

impl<'a> Evidence<'a> {
    /// All that recordings of one device tell.
    pub(crate) fn of(traces: &'a [IsolatedTrace]) -> Evidence<'a> {
        let disk = fit_disk(traces);
        let delay = disk.as_ref().map_or(Nanos::ZERO, |fitted| fitted.delay);
        let each: Vec<Choices> = traces.iter().map(|trace| at_device(trace, delay)).collect();
        let (policy, sure) = Choices::of_all(&each).policy();
        Evidence { traces, disk, policy, sure, left_out: 0 }
    }

    /// What recordings tell of which the first are of the `vms`. If those of others show no order and the machines' own do, the others
    /// went another way, of which the machines know nothing: data of their writes came behind other requests over a network.
    pub(crate) fn of_vms(traces: &'a [IsolatedTrace], vms: usize) -> Evidence<'a> {
        let (own, others) = traces.split_at(vms);
        let all = Evidence::of(traces);
        if others.is_empty() || all.policy != Policy::Unknown {
            return all;
        }
        let own = Evidence::of(own);
        if own.policy == Policy::Unknown || array::show(traces) {
            return all;
        }
        // Where captures contradict one another nothing is sure.
        Evidence { left_out: others.len(), sure: false, ..own }
    }

    /// From how many captures of others than the `vms` it was learned, or why from none; nothing if there are none.
    pub(crate) fn told_by_others(&self, vms: usize) -> Option<String> {
        let captures = |count: usize| format!("{count} further capture{}", if count == 1 { "" } else { "s" });
        if self.left_out > 0 {
            let why = "shows several requests served at once or in no order, and the machines' own do not";
            return Some(format!("nothing was learned from {}: one {why}", captures(self.left_out)));
        }
        let others = &self.traces[vms..];
        let few = others.iter().filter(|other| other.len() < REQUESTS_MIN).count();
        let nothing = format!(", of which {few} with fewer than {REQUESTS_MIN} requests that tell hardly anything");
        let learned = format!("the device was learned from {}, too", captures(others.len()));
        (!others.is_empty()).then(|| if few > 0 { learned + &nothing } else { learned })
    }
}

#[cfg(test)]
mod tests {
    use traces::Operation;

    use super::*;
    use crate::isolated_trace::TracedRequest;
    use crate::synthetic::{Campaign, SYNTHETIC_SETUPS};

    #[test]
    fn others_tell_of_the_device_unless_they_show_no_order_and_the_machines_do() {
        let alone = Campaign { vms: 3, ..Campaign::default() }.alone(SYNTHETIC_SETUPS[0], 0).unwrap();
        let mut traces: Vec<IsolatedTrace> = alone.into_iter().map(|ran| ran.trace).collect();
        let learn = |traces: &[IsolatedTrace]| {
            let learned = Evidence::of_vms(traces, 2);
            let says = learned.told_by_others(2).unwrap_or_default();
            ((learned.policy, learned.sure, learned.traces.len()), says)
        };
        assert_eq!(learn(&traces[..2]), ((Policy::Fcfs, true, 2), String::new()));
        let (found, says) = learn(&traces);
        assert_eq!(found, (Policy::Fcfs, true, 3));
        assert_eq!(says, "the device was learned from 1 further capture, too");
        traces.push(IsolatedTrace::default());
        let (found, says) = learn(&traces);
        assert_eq!(found, (Policy::Fcfs, true, 4));
        assert!(says.contains("2 further captures, too, of which 1 with fewer than 100"), "{says}");
        // Reads that pass what was there before them, whenever it came.
        for n in 0..20_000 {
            let at = n * 10_000;
            let first = TracedRequest::sent(Operation::Write, 0, at, 9000);
            traces[3].requests.extend([first, TracedRequest::sent(Operation::Read, 1, at + 2000, 3000)]);
        }
        let (found, says) = learn(&traces);
        assert_eq!(found, (Policy::Fcfs, false, 2));
        assert!(says.contains("nothing was learned from 2 further captures"), "{says}");
        assert_eq!(learn(&traces[2..]).0.0, Policy::Unknown);
    }

    #[test]
    fn members_that_show_are_everybodys() {
        use drive_models::array::{Geometry, Level};
        use traces::{Lba, Sectors};

        use crate::twin::device::array::layout::tests::{CAPACITY, served};
        let own = Geometry::new(Level::Raid5, 5, Sectors::new(128), CAPACITY);
        let member = |lba: Lba| own.data_member(own.place(lba).row, own.place(lba).unit) as usize;
        // Who reads one after another sees no members, and others do.
        let of = |requests: Vec<TracedRequest>| IsolatedTrace {
            requests,
            device: Some(CAPACITY),
            ..IsolatedTrace::default()
        };
        let mut lone = served(|_| 0);
        lone.truncate(400);
        let traces = [of(lone), of(served(member))];
        assert_ne!(Evidence::of(&traces[..1]).policy, Policy::Unknown);
        let learned = Evidence::of_vms(&traces, 1);
        assert_eq!((learned.policy, learned.traces.len(), learned.left_out), (Policy::Unknown, 2, 0));
    }
}
