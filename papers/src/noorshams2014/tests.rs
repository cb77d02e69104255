use traces::Nanos;
use traces::results::reproduction::Verdict;

use predictors::qpn::storage::Storage;

use super::experiment::Part;
use super::testbed::{Responses, Threads, VmResponses};
use super::*;

/// What a storage of the published model gives VMs: reads of 0.5 ms, writes of 1 ms, w_r / w_w = 2 (t_r / t_w)^0.7.
fn of_model(vms: &[Threads]) -> Vec<VmResponses> {
    let mix = |threads: [f64; 2]| {
        let weight = 2.0 * (threads[0] / threads[1]).powf(0.7);
        let cycle = (weight * 0.0005 + 0.001) / (1.0 + weight);
        let rates = [weight / (1.0 + weight) / cycle, 1.0 / (1.0 + weight) / cycle];
        MeasuredMix { threads, responses: [threads[0] / rates[0], threads[1] / rates[1]] }
    };
    let mixes = [mix([10.0, 10.0]), mix([10.0, 50.0])];
    let storage = Storage::published([0.0005, 0.001], [1.0; 2], &mixes);
    let total = [0, 1].map(|kind| f64::from(vms.iter().map(|vm| vm[kind]).sum::<u32>()));
    let responses = storage.responses(total);
    let of = |vm: &Threads| {
        [0, 1].map(|kind| Responses {
            count: u64::from(vm[kind]),
            mean: if vm[kind] > 0 { responses[kind].unwrap() } else { 0.0 },
            deviation: 0.0005,
        })
    };
    vms.iter().map(of).collect()
}

fn made() -> Vec<Seed> {
    let measured: Vec<_> = plan().iter().map(|(_, vms)| of_model(vms)).collect();
    let measured = Measurements::of(&measured);
    vec![Seed { models: Models::calibrated(&measured).unwrap(), measured }]
}

#[test]
fn plan_has_both_kinds_alone_and_three_grids() {
    let count = |wanted: Part| plan().iter().filter(|(part, _)| *part == wanted).count();
    let parts = [Part::Alone(0), Part::Alone(1), Part::OneVm, Part::TwoVms, Part::Between];
    assert_eq!(parts.map(count), [11, 11, 25, 25, 16]);
    let kinds_of_vms = |vms: &[Threads]| vms.iter().all(|vm| vm.contains(&0));
    assert!(plan().iter().all(|(part, vms)| kinds_of_vms(vms) == (*part != Part::OneVm)));
    assert_eq!((PAPER.jobs)(3, false), 3 * 88);
    assert_eq!((PAPER.jobs)(3, true), (3 + Testbed::alternatives().len() as u64) * 88);
}

#[test]
fn models_forecast_a_storage_that_is_as_they_assume_without_error() {
    let seeds = made();
    let cells = results::cells(&seeds);
    let errors: Vec<f64> = cells.iter().filter(|cell| cell.table != "Figure 1").map(|cell| cell.ours).collect();
    assert_eq!(errors.len(), 6 + 12 + 4);
    // The refined model is exact where it was measured. It interpolates for a mix that is left out, and between.
    for (nth, error) in errors.iter().enumerate() {
        let is_between = matches!(nth, 4 | 5 | 20 | 21);
        assert!(if is_between { (1e-9..2.0).contains(error) } else { *error < 1e-6 }, "{nth}: {errors:?}");
    }
    assert!(results::bars(&cells).iter().all(|bar| bar.reached));
    assert!(searched(&seeds[0]).unwrap() < 0.05);
}

#[test]
fn spreads_are_those_of_ten_clients_beside_ten_to_fifty() {
    let cells = results::cells(&made());
    let response = |threads: [u32; 2], kind: usize| of_model(&[[threads[0], 0], [0, threads[1]]])[kind][kind].mean;
    let expected = [response([10, 50], 0) / response([10, 10], 0), response([50, 10], 1) / response([10, 10], 1)];
    for (cell, expected) in cells.iter().zip(expected) {
        assert!((cell.ours / 100.0 + 1.0 - expected).abs() < 1e-9, "{cell:?}");
    }
    let series = results::series(&made());
    assert_eq!(series[0].points.len(), 5);
    assert!((series[0].points[4][1] - 1e3 * response([10, 50], 0)).abs() < 1e-9);
    assert_eq!(series.iter().map(|series| series.points.len()).collect::<Vec<_>>(), [5, 5, 25, 25, 25, 25, 25, 25]);
}

#[test]
fn claims_hold_of_a_storage_that_is_as_the_paper_says() {
    // Without priorities reads would take as long as writes, which this storage gives more time to.
    let claims = claims::claims(&made());
    assert_eq!(Claim::count(&claims), [5, 5], "{claims:?}");
    // With one VM twice as fast as two, nothing can be said of two by one.
    let mut odd = made();
    odd[0]
        .measured
        .one_vm
        .iter_mut()
        .for_each(|point| point.responses = point.responses.map(|response| response / 2.0));
    odd[0].models = Models::calibrated(&odd[0].measured).unwrap();
    let verdicts: Vec<Verdict> = claims::claims(&odd).iter().map(|claim| claim.verdict).collect();
    assert_eq!(verdicts[0], Verdict::Holds);
    assert_eq!(verdicts[2], Verdict::Contradicts);
}

#[test]
fn testbed_measures_each_vm_by_itself_after_the_warm_up() {
    let brief = Testbed { warm_up: Nanos::from_s(1), measured: Nanos::from_s(2), ..Testbed::FROZEN };
    let vms = [[4, 0], [0, 6]];
    let measured = brief.measure(&vms, 1).unwrap();
    assert_eq!(measured, brief.measure(&vms, 1).unwrap());
    assert_ne!(measured, brief.measure(&vms, 2).unwrap());
    let [[reads, none], [nothing, writes]] = measured[..] else { panic!("two VMs") };
    assert_eq!((none.count, nothing.count), (0, 0));
    // By Little's law, over the measured time alone.
    for (responses, threads) in [(reads, 4.0), (writes, 6.0)] {
        let at_once = responses.count as f64 * responses.mean / 2.0;
        assert!((at_once / threads - 1.0).abs() < 0.05, "{responses:?}");
    }
    assert!(reads.deviation > 0.0 && reads.deviation < 10.0 * reads.mean);
}
