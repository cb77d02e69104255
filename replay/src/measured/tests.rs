//! The judgement of drives, on traces that drive models have made.

use traces::{Lba, Observed, Operation, Request, RequestId, Sectors, Timestamp};

use super::*;

fn spec(text: &str) -> Spec {
    text.parse().unwrap()
}

/// The service times of a drive model for random reads and writes, in the form of a measured trace.
fn measurements(drive: &str, requests: u64) -> Measurements {
    let mut drive = drive_models::build(&spec(drive)).unwrap().drive;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let (mut all, mut at, mut done) = (Measurements::default(), Timestamp::ZERO, Vec::new());
    for _ in 0..requests {
        let operation = if random.random_range(0..3) == 0 { Operation::Write } else { Operation::Read };
        let lba = random.random_range(0..drive.capacity().count() - 128);
        let request = Request::new(at, operation, Lba::new(lba), Sectors::new(random.random_range(1..128)));
        drive.submit(at, RequestId(0), &request);
        drive.advance(Timestamp::MAX, &mut done);
        let completed = done.pop().unwrap().finished;
        let observed = Observed { issued: Some(at), completed: Some(completed), ..Observed::default() };
        all.push(&Record { request, observed }).unwrap();
        at = completed.saturating_add(Nanos::from_us(random.random_range(100..20_000)));
    }
    all
}

#[test]
fn period_and_phase_of_a_simulated_drive_are_recovered() {
    let measured = measurements("cheetah-15k5:period_ps=3995900000,phase=1ms", 1500);
    let judged = measured.judge(&spec("cheetah-15k5"), None).unwrap().result;
    let fitted = judged.per_request.unwrap();
    assert!((fitted.period_ns - 3_995_900.0).abs() < 0.2, "{fitted:?}");
    assert!((fitted.offset_ns - 1_000_000.0).abs() < 4_000.0, "{fitted:?}");
    assert!(fitted.within_250us > 0.99 && fitted.mean_abs_error_ns < 20_000.0, "{fitted:?}");
    assert!(judged.closed_loop.relative_rms < 0.02, "{judged:?}");
    assert!(judged.empirical.within_250us < 0.2, "{:?}", judged.empirical);
    assert!(judged.floor.unwrap().rms_ns > 0.0);
}

#[test]
fn distance_of_equal_runs_is_zero_and_of_a_shifted_run_the_shift() {
    let measured = measurements("cheetah-15k5", 300);
    assert_eq!(measured.judge(&spec("cheetah-15k5"), None).unwrap().result.closed_loop.rms_ns, 0.0);
    let times: Vec<Nanos> = [5, 1, 9].map(Nanos::from_us).to_vec();
    let later: Vec<Nanos> = [11, 7, 3].map(Nanos::from_us).to_vec();
    let off = distance(&times, &later, 5000.0);
    assert_eq!((off.rms_ns, off.relative_rms), (2000.0, 0.4));
}

#[test]
fn reading_of_think_times_that_is_in_phase_is_chosen() {
    let right = measurements("cheetah-15k5", 300);
    // The same pauses, each before the request that it followed.
    let mut wrong = Measurements::default();
    let pauses =
        right.0.windows(2).map(|pair| pair[1].issued.saturating_since(pair[0].issued.saturating_add(pair[0].service)));
    let mut at = Timestamp::ZERO;
    for (one, pause) in right.0.iter().zip(pauses) {
        let issued = at.saturating_add(pause);
        wrong.0.push(Measurement { issued, ..*one });
        at = issued.saturating_add(one.service);
    }
    let judge = |measured: Measurements, think| measured.judge(&spec("cheetah-15k5"), Some(think)).unwrap();
    let (right, wrong) = (judge(right, ThinkTime::After), judge(wrong, ThinkTime::Before));
    assert!(wrong.result.per_request.unwrap().within_1ms < 0.7, "{:?}", wrong.result.per_request);
    for judged in [right.clone().or_nearer(wrong.clone()), wrong.or_nearer(right)] {
        assert_eq!(judged.result.think_time, Some(ThinkTime::After));
    }
}

#[test]
fn drive_without_a_phase_has_no_floor() {
    let judged = measurements("cheetah-15k4", 50).judge(&spec("cheetah-15k4"), None).unwrap().result;
    assert!(judged.floor.is_none() && judged.per_request.is_none());
    assert_eq!(judged.closed_loop.rms_ns, 0.0);
}

#[test]
fn unusable_traces_are_refused_with_the_reason() {
    let judged = |measured: Measurements| measured.judge(&spec("cheetah-15k4"), None).unwrap_err().to_string();
    assert!(judged(Measurements::default()).starts_with("the trace holds no request"));
    assert!(judged(measurements("cheetah-15k5", 20)).contains("is it the right profile?"));
    let mut measured = measurements("cheetah-15k5", 1);
    let first = measured.0[0];
    let observed = Observed { issued: Some(first.issued), completed: Some(first.issued), ..Observed::default() };
    let error = measured.push(&Record { request: first.request, observed }).unwrap_err().to_string();
    assert!(error.starts_with("request 2 was issued before"), "{error}");
    let error = measured.push(&Record { request: first.request, observed: Observed::default() }).unwrap_err();
    assert!(error.to_string().starts_with("request 2 has no issue or completion time"), "{error}");
}
