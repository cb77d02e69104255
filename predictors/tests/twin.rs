//! The twin against synthetic setups, whose truth is known, and the input that it refuses. `long_twin.rs` has all
//! setups.
#![allow(clippy::unwrap_used)]

mod synthetic;

use iocast_predictors::synthetic::{Campaign, SYNTHETIC_SETUPS};
use iocast_predictors::{IsolatedTrace, IsolatedTraceBuilder, twin};
use synthetic::{check_reading_ahead, errors, forecast, own_then_others};
use traces::results::isolation::IsolationProfile;
use traces::{Lba, Nanos, Observed, Operation, Record, Request, Sectors, Timestamp};

#[test]
fn disks_are_forecast_within_a_tenth_from_own_traces() {
    // The error that is reached now with the VMs' own traces. The aim is 0.05.
    let campaign = Campaign { vms: 4, ..Campaign::default() };
    let found = [errors(&campaign, 0, 2, false), errors(&campaign, 1, 2, false)];
    let within = |[response, rate, ..]: &[f64; 4], most: f64| *response <= most && *rate <= most;
    assert!(within(&found[0], 0.10) && within(&found[1], 0.10), "{found:.3?}");
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
    let of = |(vm, truth): (&iocast_predictors::VmForecast, &IsolationProfile)| {
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
fn missing_short_and_misplaced_traces_are_refused() {
    let campaign = Campaign { vms: 2, ..Campaign::default() };
    let alone = campaign.alone(SYNTHETIC_SETUPS[0], 0).unwrap();
    let profiles: Vec<IsolationProfile> = alone.iter().map(|ran| ran.profile.clone()).collect();
    let said = forecast(&profiles, &[]).unwrap_err().to_string();
    assert!(said.contains("give the captures themselves"), "{said}");
    let traces = vec![alone[0].trace.clone(), IsolatedTrace::default()];
    let said = forecast(&profiles, &traces).unwrap_err().to_string();
    assert!(said.contains("setup1-vm2") && said.contains("0 requests with completions"), "{said}");
    let mut beyond = IsolatedTraceBuilder::new(Sectors::new(u64::MAX - 1000), None);
    for n in 0..200 {
        let at = Timestamp::from_ns(n * 10_000_000);
        let request = Request::new(at, Operation::Read, Lba::new(n * 8), Sectors::new(8));
        let completed = Some(at + Nanos::from_ms(5));
        beyond.record(&Record { request, observed: Observed { issued: Some(at), completed, ..Observed::default() } });
    }
    let (own, beyond) = (alone[0].trace.clone(), beyond.finish());
    let said = forecast(&profiles, &[own.clone(), beyond.clone()]).unwrap_err().to_string();
    assert!(said.contains("setup1-vm2") && said.contains("last address or beyond"), "{said}");
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

#[test]
fn policy_is_never_wrong_when_sure() {
    let campaign = Campaign { seed: 11, ..Campaign::default() };
    let mut sure = 0;
    for (index, &setup) in SYNTHETIC_SETUPS.iter().enumerate() {
        let policy = twin::policy(&own_then_others(&campaign.alone(setup, index).unwrap(), &[]));
        assert!(policy.name == setup.policy || !policy.sure, "setup {index}: {policy:?}");
        sure += u32::from(policy.sure);
    }
    assert!(sure > 0, "no policy is inferred for sure");
}

#[test]
fn reading_ahead_after_random_reads_slows_vms_on_an_array() {
    check_reading_ahead(&[[0, 1]]);
}
