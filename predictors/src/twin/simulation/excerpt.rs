//! The part of a VM's isolated trace that an excerpt of the simulation replays.

use std::path::PathBuf;

use replay::sources::{AddressMap, Closed, MergedTraces, StreamRoles, TimeWindow, VmTrace};
use traces::trace::Layer;
use traces::{InMemoryTrace, Record, Sectors, Timestamp, TraceMeta, VmId};

use crate::isolated_trace::{IsolatedTrace, TracedRequest};
use crate::twin::workload::Workload;

/// The most requests before an excerpt from which the replay learns what its first requests wait for. Chosen on train
/// and validation of the lab suite: from 256 to 4096 no mean error changes by more than 2 percentage points.
pub(super) const BEFORE_MAX: usize = 512;

/// The requests of a trace that arrive from `from` on and before `to`, with [`BEFORE_MAX`] before these. Also the first
/// one after these: a simulation ends when a VM has sent its last request, and a VM that pauses has not.
pub(crate) fn within(trace: &IsolatedTrace, from: Timestamp, to: Timestamp) -> &[TracedRequest] {
    let before = |time: Timestamp| trace.requests.partition_point(|request| request.arrival < time);
    &trace.requests[before(from).saturating_sub(BEFORE_MAX)..(before(to) + 1).min(trace.len())]
}

/// The closed replay of parts of traces, by VM, which begins at the time `start` of the traces.
pub(crate) fn closed(parts: &[&[TracedRequest]], workloads: &[Workload], start: Timestamp) -> Closed {
    // A replay asks for none of it.
    let meta = TraceMeta::new("isolated", Layer::GuestQueue, "trace");
    let mut roles = StreamRoles::default();
    let mut throttled = Vec::new();
    let trace = |(vm, (part, workload)): (usize, (&&[TracedRequest], &Workload))| {
        let vm = VmId(vm as u16);
        let records: Vec<Record> = part.iter().map(|request| request.record(vm)).collect();
        roles.add_vm(vm, &workload.roles);
        throttled.extend((workload.background_depth < u32::MAX).then_some(vm));
        VmTrace {
            name: String::new(),
            path: PathBuf::new(),
            reader: Box::new(InMemoryTrace::new(meta.clone(), records)),
            map: AddressMap::Shift { place: Sectors::ZERO },
        }
    };
    let vms = parts.iter().zip(workloads).enumerate().map(trace).collect();
    let traces = MergedTraces::new(vms, TimeWindow::default(), Sectors::new(u64::MAX));
    let closed = Closed::new(traces.on_clock_from(Timestamp::ZERO)).with_roles(roles.with_timed_flushes());
    closed.with_throttled_flushes(&throttled).starting_at(start)
}
