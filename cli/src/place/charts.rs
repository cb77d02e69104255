//! What each VM gets on its LUN: alone, as forecast and as replayed, on one axis.

use super::tables::by_replay;
use report::page::{Axis, Ranged, Ranges, RangesRow, Section};
use traces::results::placement::{PlacedVm, Placement, Share};

/// A VM's share of one kind: alone, forecast or replayed.
type ShareOf = fn(&PlacedVm) -> Option<Share>;

const KINDS: [(&str, ShareOf); 3] =
    [("alone", |vm| Some(vm.alone)), ("forecast", |vm| Some(vm.forecast)), ("replayed", |vm| vm.replayed)];

/// A figure of reads or writes.
type Figure = (&'static str, fn(&Share) -> Option<f64>);

const RESPONSES: [Figure; 2] = [
    ("reads", |share| share.read_response_ns.map(|ns| ns / 1e6)),
    ("writes", |share| share.write_response_ns.map(|ns| ns / 1e6)),
];
const RATES: [Figure; 2] = [("reads", |share| share.read_iops), ("writes", |share| share.write_iops)];

/// The charts of an assignment.
pub fn sections(placement: &Placement) -> Vec<Section> {
    let kinds = KINDS.iter().filter(|(kind, _)| *kind != "forecast" || !by_replay(placement));
    let ranges = |figures: [Figure; 2]| {
        let vms = placement.luns.iter().flat_map(|lun| lun.vms.iter().map(move |vm| (lun, vm)));
        let rows = vms.flat_map(|(lun, vm)| {
            figures.map(|(what, of)| RangesRow {
                name: format!("{} on {}: {what}", vm.vm, lun.lun),
                values: kinds
                    .clone()
                    .map(|(_, share)| Some(Ranged { value: of(&share(vm)?)?, interval: None }))
                    .collect(),
            })
        });
        Ranges { kinds: kinds.clone().map(|(kind, _)| (*kind).to_owned()).collect(), rows: rows.collect() }
    };
    let about = "Means of each VM alone on the LUN, and beside the other VMs there.";
    let mut charts = ranges(RESPONSES).charts("Response times", about, &Axis::powers("response time, ms"));
    charts.extend(ranges(RATES).charts("Rates", about, &Axis::linear("requests/s").reaching([0.0])));
    vec![Section { heading: "What each VM gets".to_owned(), charts, ..Section::default() }]
}
