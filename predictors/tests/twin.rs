//! The twin against synthetic setups, whose truth is known, and the input that it refuses.
#![allow(clippy::unwrap_used)]

use predictors::synthetic::{Campaign, Ran, SYNTHETIC_SETUPS};
use predictors::{Isolated, IsolatedTrace, IsolatedTraceBuilder, PredictError, build, predictor, twin};
use traces::results::isolation::IsolationProfile;
use traces::{Lba, Nanos, Observed, Operation, Record, Request, Sectors, Timestamp};

fn forecast(alone: &[IsolationProfile], traces: &[IsolatedTrace]) -> Result<predictors::Consolidation, PredictError> {
    let twin = build(&"twin".parse().unwrap()).unwrap().predictor().unwrap();
    predictor::predict(&*twin, Isolated { profiles: alone, traces })
}

/// The traces of some VMs, followed by those of all others.
fn own_then_others(alone: &[Ran], members: &[usize]) -> Vec<IsolatedTrace> {
    let others = (0..alone.len()).filter(|other| !members.contains(other));
    members.iter().copied().chain(others).map(|vm| alone[vm].trace.clone()).collect()
}

/// Absolute relative errors over groups of VMs: of mean read response, of reads/s, and of the 99th percentiles of read
/// and of write response.
#[derive(Default)]
struct Errors([Vec<f64>; 4]);

impl Errors {
    fn add(&mut self, vm: &predictors::VmForecast, truth: &IsolationProfile) {
        let of_truth = predictors::VmForecast::measured(truth);
        let mut add = |place: usize, ours: Option<f64>, truth: Option<f64>| {
            self.0[place].extend(ours.zip(truth).map(|(ours, truth)| (ours / truth - 1.0).abs()));
        };
        add(0, vm.reads.response_ns, of_truth.reads.response_ns);
        add(1, vm.reads.iops, of_truth.reads.iops.filter(|_| truth.reads.requests > 0));
        add(2, vm.reads.percentiles_ns[2], of_truth.reads.percentiles_ns[2]);
        add(3, vm.writes.percentiles_ns[2], of_truth.writes.percentiles_ns[2]);
    }

    fn means(&self) -> [f64; 4] {
        self.0.each_ref().map(|errors| errors.iter().sum::<f64>() / errors.len() as f64)
    }
}

/// Adds the errors of all groups of `size` VMs of a setup. The twin gets `all` traces of the setup or only the group's.
fn add_errors(errors: &mut Errors, campaign: &Campaign, setup: usize, size: usize, all: bool) {
    let alone = campaign.alone(SYNTHETIC_SETUPS[setup], setup).unwrap();
    for members in campaign.groups().into_iter().filter(|members| members.len() == size) {
        let truth = campaign.together(SYNTHETIC_SETUPS[setup], setup, &members).unwrap().together;
        let profiles: Vec<IsolationProfile> = members.iter().map(|&vm| alone[vm].profile.clone()).collect();
        let mut traces = own_then_others(&alone, &members);
        traces.truncate(if all { alone.len() } else { size });
        let together = forecast(&profiles, &traces).unwrap();
        together.vms.iter().zip(&truth).for_each(|(vm, truth)| errors.add(vm, truth));
    }
}

fn errors(campaign: &Campaign, setup: usize, size: usize, all: bool) -> [f64; 4] {
    let mut errors = Errors::default();
    add_errors(&mut errors, campaign, setup, size, all);
    errors.means()
}

#[test]
fn disks_are_forecast_within_a_tenth_from_own_traces() {
    // The error that is reached now with the VMs' own traces. The aim is 0.05.
    let campaign = Campaign { vms: 4, ..Campaign::default() };
    let found = [errors(&campaign, 0, 2, false), errors(&campaign, 1, 2, false)];
    let within = |[response, rate, ..]: &[f64; 4], most: f64| *response <= most && *rate <= most;
    assert!(within(&found[0], 0.10) && within(&found[1], 0.10), "{found:.3?}");
}

#[test]
fn disks_meet_the_aims_with_all_traces_of_the_setup() {
    let campaign = Campaign::default();
    for (setup, name) in [(0, "fcfs"), (1, "read-priority"), (4, "weighted")] {
        let (pairs, triples) = (errors(&campaign, setup, 2, true), errors(&campaign, setup, 3, true));
        assert!(pairs[0] <= 0.05 && pairs[1] <= 0.05, "{name}: {pairs:.3?}");
        assert!(triples[0] <= 0.08 && triples[1] <= 0.08, "{name}: {triples:.3?}");
    }
}

#[test]
fn all_setups_together_meet_the_aims_with_all_traces() {
    let campaign = Campaign::default();
    for (size, aim) in [(2, 0.05), (3, 0.08)] {
        let mut errors = Errors::default();
        (0..SYNTHETIC_SETUPS.len()).for_each(|setup| add_errors(&mut errors, &campaign, setup, size, true));
        let found = errors.means();
        assert!(errors.0[0].len() > 60, "{}", errors.0[0].len());
        assert!(found[0] <= aim && found[1] <= aim && found[2] <= 0.15 && found[3] <= 0.15, "{size}: {found:.3?}");
    }
}

#[test]
fn policy_is_right_in_nineteen_of_twenty_setups_with_all_traces() {
    let (mut total, mut right) = (0u32, 0u32);
    for seed in 11..15 {
        let campaign = Campaign { seed, ..Campaign::default() };
        for (index, &setup) in SYNTHETIC_SETUPS.iter().enumerate() {
            let policy = twin::policy(&own_then_others(&campaign.alone(setup, index).unwrap(), &[]));
            total += 1;
            right += u32::from(policy.name == setup.policy);
            assert!(policy.name == setup.policy || !policy.sure, "seed {seed}, setup {index}: {policy:?}");
        }
    }
    assert!(f64::from(right) >= 0.95 * f64::from(total), "{right} of {total}");
}

#[test]
fn array_is_forecast_within_a_tenth_from_own_traces() {
    // With this seed all VMs also read at random, and none alone fills the controller's cache.
    let campaign = Campaign { seed: 104, vms: 4, ..Campaign::default() };
    let found = errors(&campaign, 3, 2, false);
    assert!(found[0] <= 0.10 && found[1] <= 0.10, "{found:.3?}");
}

#[test]
fn reading_ahead_after_random_reads_slows_vms_on_an_array() {
    // Both VMs find ever more of their reads in the cache. Neither isolated trace contains the reason.
    let campaign = Campaign { seed: 7, ..Campaign::default() };
    let alone = campaign.alone(SYNTHETIC_SETUPS[3], 3).unwrap();
    let members = [0, 1, 4];
    for pair in [[0, 1], [1, 2], [1, 4]] {
        let truth = campaign.together(SYNTHETIC_SETUPS[3], 3, &pair).unwrap().together;
        let profiles = pair.map(|vm| alone[vm].profile.clone());
        let together = forecast(&profiles, &own_then_others(&alone, &pair)).unwrap();
        for ((vm, truth), member) in together.vms.iter().zip(&truth).zip(pair) {
            let off = vm.reads.response_ns.unwrap() / truth.reads.response_ns.unwrap() - 1.0;
            // The third VM reads sequentially and never waits alone.
            assert!(off.abs() < if members.contains(&member) { 0.22 } else { 0.45 }, "{pair:?}, {member}: {off}");
        }
        assert!(
            together.notes[0].contains("7 members with a stripe unit of 256 KiB")
                && together.notes[0].contains("1024 KiB ahead")
        );
    }
}

/// The writes of two VMs of a setup together, by VM: response time in ms and writes/s, each forecast and true. Also the
/// notes of the forecast.
fn written(setup: usize, members: [usize; 2]) -> (Vec<[(f64, f64); 2]>, Vec<String>) {
    let campaign = Campaign::default();
    let alone = members.map(|vm| campaign.together(SYNTHETIC_SETUPS[setup], setup, &[vm]).unwrap().together.remove(0));
    let traces = campaign.alone(SYNTHETIC_SETUPS[setup], setup).unwrap();
    let traces = members.map(|vm| traces[vm].trace.clone());
    let truth = campaign.together(SYNTHETIC_SETUPS[setup], setup, &members).unwrap().together;
    let ours = forecast(&alone, &traces).unwrap();
    let of = |(vm, truth): (&predictors::VmForecast, &IsolationProfile)| {
        let ms = |ns: Option<f64>| ns.unwrap_or_default() / 1e6;
        let (writes, truth) = (vm.writes, &truth.writes);
        [(ms(writes.response_ns), ms(truth.response_ns)), (writes.iops.unwrap_or_default(), truth.iops)]
    };
    (ours.vms.iter().zip(&truth).map(of).collect(), ours.notes)
}

#[test]
fn writes_that_queue_for_longer_than_an_excerpt_are_forecast() {
    // Page caches are written in bursts. The drive serves three reads for each write, so the queue grows to 15 s.
    let (found, _) = written(4, [0, 1]);
    for [(ours, truth), _] in &found {
        assert!(*truth > 10_000.0 && (ours / truth - 1.0).abs() < 0.3, "{found:?}");
    }
}

#[test]
fn syncing_vm_beside_page_cache_writes_is_forecast_to_starve() {
    // Alone the VM writes twelve times a second, each time after its journal. Together each write waits for thousands.
    let (found, _) = written(4, [0, 5]);
    let [_, (ours, truth)] = found[1];
    assert!(truth < 0.5 && (0.3..3.0).contains(&(ours / truth)), "{found:?}");
}

#[test]
fn writer_beside_others_on_an_array_keeps_its_rate() {
    let (found, _) = written(3, [2, 3]);
    let [_, (ours, truth)] = found[1];
    assert!(truth > 400.0 && (ours / truth - 1.0).abs() < 0.02, "{found:?}");
}

#[test]
fn durable_writes_ahead_of_all_are_detected_and_forecast() {
    let (found, notes) = written(0, [0, 4]);
    assert!(notes[0].contains("durable writes ahead of all"), "{notes:?}");
    for [(ours, truth), _] in &found {
        assert!((ours / truth - 1.0).abs() < 0.15, "{found:?}");
    }
}

#[test]
fn policy_from_own_traces_is_mostly_right_and_never_wrong_when_sure() {
    let (mut total, mut right, mut sure, mut wrong) = (0u32, 0u32, 0u32, Vec::new());
    for seed in [11, 12] {
        let campaign = Campaign { seed, ..Campaign::default() };
        for (index, &setup) in SYNTHETIC_SETUPS.iter().enumerate() {
            let alone = campaign.alone(setup, index).unwrap();
            for members in campaign.groups() {
                let traces: Vec<IsolatedTrace> = members.iter().map(|&vm| alone[vm].trace.clone()).collect();
                let policy = twin::policy(&traces);
                total += 1;
                right += u32::from(policy.name == setup.policy);
                sure += u32::from(policy.sure);
                if policy.name != setup.policy {
                    wrong.push((seed, index, members, policy));
                }
            }
        }
    }
    assert!(wrong.iter().all(|(.., policy)| !policy.sure), "{wrong:?}");
    // The aim is 0.95. It is missed where the VMs alone never queue, or never queue long enough for a drain.
    assert!(f64::from(right) >= 0.70 * f64::from(total), "{right} of {total}");
    assert!(f64::from(sure) >= 0.35 * f64::from(total), "{sure} of {total}");
}

#[test]
fn missing_short_and_misplaced_traces_are_refused() {
    let campaign = Campaign { vms: 2, ..Campaign::default() };
    let alone = campaign.alone(SYNTHETIC_SETUPS[0], 0).unwrap();
    let profiles: Vec<IsolationProfile> = alone.iter().map(|ran| ran.profile.clone()).collect();
    let said = forecast(&profiles, &[]).unwrap_err().to_string();
    assert!(said.contains("give the captures themselves"), "{said}");
    let traces = vec![alone[0].trace.clone(), IsolatedTrace::default()];
    let said = forecast(&profiles, &traces).unwrap_err().to_string();
    assert!(said.contains("room1-vm2") && said.contains("0 requests with completions"), "{said}");
    let mut beyond = IsolatedTraceBuilder::new(Sectors::new(u64::MAX - 1000), None);
    for n in 0..200 {
        let at = Timestamp::from_ns(n * 10_000_000);
        let request = Request::new(at, Operation::Read, Lba::new(n * 8), Sectors::new(8));
        let completed = Some(at + Nanos::from_ms(5));
        beyond.record(&Record { request, observed: Observed { issued: Some(at), completed, ..Observed::default() } });
    }
    let (own, beyond) = (alone[0].trace.clone(), beyond.finish());
    let said = forecast(&profiles, &[own.clone(), beyond.clone()]).unwrap_err().to_string();
    assert!(said.contains("room1-vm2") && said.contains("last address or beyond"), "{said}");
    let said = forecast(&profiles, &[own.clone(), own, beyond]).unwrap_err().to_string();
    assert!(said.contains("further capture 1") && said.contains("last address or beyond"), "{said}");
}

#[test]
fn forecast_is_repeatable_for_the_same_seed() {
    let campaign = Campaign { vms: 2, ..Campaign::default() };
    let alone = campaign.alone(SYNTHETIC_SETUPS[0], 0).unwrap();
    let profiles: Vec<IsolationProfile> = alone.iter().map(|ran| ran.profile.clone()).collect();
    let traces: Vec<IsolatedTrace> = alone.iter().map(|ran| ran.trace.clone()).collect();
    assert_eq!(forecast(&profiles, &traces), forecast(&profiles, &traces));
}
