//! Selects the isolated traces from which the device is inferred, and infers its dispatch order from them.
//!
//! The caller may give traces of further VMs beside those of the VMs that are forecast. All of them ran alone on the
//! same device, so all are used, with one exception. If a dispatch order is inferred from the forecast VMs' own traces
//! but not from all traces, only their own are used, unless the device is an array or serves several reads at once.

use traces::Nanos;

use crate::isolated_trace::IsolatedTrace;
use crate::twin::device::disk::FittedDisk;
use crate::twin::device::policy::{Choices, Policy, at_device};
use crate::twin::device::{array, fit_disk};

/// A trace with fewer requests is too short to infer the device from. Set by judgement; not varied.
pub(crate) const REQUESTS_MIN: usize = 100;

/// The traces that the device is inferred from, with the disk and the dispatch order inferred from them.
pub(crate) struct Evidence<'a> {
    /// The traces used; those of the forecast VMs come first.
    pub(crate) traces: &'a [IsolatedTrace],
    /// The device as a disk that serves one request after another, if the fit succeeds.
    pub(crate) disk: Option<FittedDisk>,
    pub(crate) policy: Policy,
    /// Whether every other policy is clearly worse and the traces do not contradict one another.
    pub(crate) sure: bool,
    /// Whether the device serves several reads at once. Then it is no disk.
    pub(crate) serves_reads_at_once: bool,
    /// The number of further traces that are not used.
    left_out: usize,
}

impl<'a> Evidence<'a> {
    /// Infers disk and dispatch order from all `traces` of one device.
    pub(crate) fn of(traces: &'a [IsolatedTrace]) -> Evidence<'a> {
        let disk = fit_disk(traces);
        let delay = disk.as_ref().map_or(Nanos::ZERO, |fitted| fitted.delay);
        let each: Vec<Choices> = traces.iter().map(|trace| at_device(trace, delay)).collect();
        let choices = Choices::of_all(&each);
        let (policy, sure) = choices.policy();
        let serves_reads_at_once = choices.serves_reads_at_once();
        Evidence {
            traces,
            disk: disk.filter(|_| !serves_reads_at_once),
            policy,
            sure,
            serves_reads_at_once,
            left_out: 0,
        }
    }

    /// Infers from `traces`, of which the first `vms` are those of the forecast VMs. If all traces together show no
    /// dispatch order and the own traces do, the further traces are left out. Their requests took a path that the own
    /// requests do not: over iSCSI, the data of long writes came behind other requests (`traces/samples/lab-iscsi`).
    pub(crate) fn of_vms(traces: &'a [IsolatedTrace], vms: usize) -> Evidence<'a> {
        let (own, others) = traces.split_at(vms);
        let all = Evidence::of(traces);
        if others.is_empty() || all.policy != Policy::Unknown {
            return all;
        }
        let own = Evidence::of(own);
        if own.policy == Policy::Unknown || all.serves_reads_at_once || array::show(traces) {
            return all;
        }
        // Own and further traces contradict one another, so the order is not sure.
        Evidence { left_out: others.len(), sure: false, ..own }
    }

    /// A note on how many further traces were used, or why none was. `None` if no further traces were given.
    pub(crate) fn further_traces_note(&self, vms: usize) -> Option<String> {
        let further = |count: usize| format!("{count} further trace{}", if count == 1 { "" } else { "s" });
        if self.left_out > 0 {
            let why = "at least one shows requests served side by side or out of order, and the VMs' own traces do not";
            return Some(format!("the device was not inferred from {}: {why}", further(self.left_out)));
        }
        let others = &self.traces[vms..];
        let few = others.iter().filter(|other| other.len() < REQUESTS_MIN).count();
        let short = format!("; {few} of them with fewer than {REQUESTS_MIN} requests, which is too few to add much");
        let used = format!("the device was also inferred from {}", further(others.len()));
        (!others.is_empty()).then(|| if few > 0 { used + &short } else { used })
    }
}

#[cfg(test)]
mod tests {
    use traces::Operation;

    use super::*;
    use crate::isolated_trace::TracedRequest;
    use crate::synthetic::{Campaign, SYNTHETIC_SETUPS};

    #[test]
    fn further_traces_are_used_unless_they_show_no_order_and_the_own_ones_do() {
        let alone = Campaign { vms: 3, ..Campaign::default() }.alone(SYNTHETIC_SETUPS[0], 0).unwrap();
        let mut traces: Vec<IsolatedTrace> = alone.into_iter().map(|ran| ran.trace).collect();
        let learn = |traces: &[IsolatedTrace]| {
            let learned = Evidence::of_vms(traces, 2);
            let says = learned.further_traces_note(2).unwrap_or_default();
            ((learned.policy, learned.sure, learned.traces.len()), says)
        };
        assert_eq!(learn(&traces[..2]), ((Policy::Fcfs, true, 2), String::new()));
        let (found, says) = learn(&traces);
        assert_eq!(found, (Policy::Fcfs, true, 3));
        assert_eq!(says, "the device was also inferred from 1 further trace");
        traces.push(IsolatedTrace::default());
        let (found, says) = learn(&traces);
        assert_eq!(found, (Policy::Fcfs, true, 4));
        assert!(says.contains("2 further traces; 1 of them with fewer than 100"), "{says}");
        // Reads that overtake the write in service.
        for n in 0..20_000 {
            let at = n * 10_000;
            let first = TracedRequest::sent(Operation::Write, 0, at, 9000);
            traces[3].requests.extend([first, TracedRequest::sent(Operation::Read, 1, at + 2000, 3000)]);
        }
        let (found, says) = learn(&traces);
        assert_eq!(found, (Policy::Fcfs, false, 2));
        assert!(says.contains("the device was not inferred from 2 further traces"), "{says}");
        assert_eq!(learn(&traces[2..]).0.0, Policy::Unknown);
        // Reads that overtake reads: all traces are used, and no disk is.
        traces[3].requests.iter_mut().for_each(|request| request.operation = Operation::Read);
        let (found, says) = learn(&traces);
        assert_eq!(found, (Policy::Unknown, false, 4));
        assert_eq!(says, "the device was also inferred from 2 further traces");
        assert!(Evidence::of_vms(&traces, 2).disk.is_none() && Evidence::of_vms(&traces[..3], 2).disk.is_some());
    }

    #[test]
    fn further_traces_of_an_array_are_used_though_they_show_no_order() {
        use drive_models::array::{Geometry, Level};
        use traces::{Lba, Sectors};

        use crate::twin::device::array::layout::tests::{CAPACITY, served};
        let own = Geometry::new(Level::Raid5, 5, Sectors::new(128), CAPACITY);
        let member = |lba: Lba| own.data_member(own.place(lba).row, own.place(lba).unit) as usize;
        // The first trace is of one server; the second shows the array's members.
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
