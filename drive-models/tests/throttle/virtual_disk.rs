//! The virtual disk's behaviours, each against a slow version or a closed form.

use iocast_drives::Completion;
use proptest::prelude::*;
use traces::{Operation, Request};

use crate::submission::{SECTORS, drive, load, one_by_one, open, read, request};

const MS: u64 = 1_000_000;

fn services(tunables: &str, requests: &[Request]) -> Vec<u64> {
    let done = open(&mut *drive(&format!("virtual-disk:capacity={},{tunables}", SECTORS * 512)), requests);
    done.iter().map(|done| done.finished.since(done.started).as_ns()).collect()
}

#[test]
fn by_itself_it_takes_the_same_for_everything_one_at_a_time() {
    let requests =
        [read(0, 0), read(0, 90_000), request(Operation::Write, 0, 5, 64), request(Operation::Flush, 0, 0, 0)];
    let done = open(&mut *drive("virtual-disk:service=7ms"), &requests);
    assert_eq!(done.iter().map(|done| done.finished.as_ns()).collect::<Vec<_>>(), [7, 14, 21, 28].map(|ms| ms * MS));
    assert!(done.iter().all(|done: &Completion| !done.hit));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_host_cache_is_a_list_of_regions_by_last_use(
        requests in load(), regions in 1usize..12, sectors in prop::sample::select(vec![8u64, 100, 801, 5000, 12_000]),
    ) {
        let region = sectors * 512;
        let tunables = format!("cache={},region={region},cached=10us,service=1ms", region * regions as u64);
        let mut list: Vec<u64> = Vec::new();
        let expected = |request: &Request| {
            // By the sector, however slow that is.
            let mut asked: Vec<u64> =
                (request.lba.sector()..request.end().sector()).map(|sector| sector / sectors).collect();
            asked.dedup();
            let hit = asked.iter().all(|region| list.contains(region));
            for region in asked {
                list.retain(|&held| held != region);
                list.push(region);
                let excess = list.len().saturating_sub(regions);
                list.drain(..excess);
            }
            if hit { 10_000 } else { MS }
        };
        let expected: Vec<u64> = requests.iter().map(expected).collect();
        prop_assert_eq!(services(&tunables, &requests), expected);
    }

    #[test]
    fn the_mean_drifts_as_the_formula_says(
        from in 0u64..50_000_000, to in 0u64..50_000_000, over in 1u64..200_000_000, steps in 1u64..9,
        at in 0u64..300_000_000,
    ) {
        let spec = format!("service={from}ns,drift_to={to}ns,drift_over={over}ns,drift_steps={steps}");
        let at_once = |kind: &str| services(&format!("{spec},drift={kind}"), &[read(at, 0)])[0];
        let (start, span) = (i128::from(from), i128::from(to) - i128::from(from));
        let passed = i128::from(at.min(over));
        prop_assert_eq!(at_once("off"), from);
        prop_assert_eq!(i128::from(at_once("linear")), start + span * passed / i128::from(over));
        let step = passed * i128::from(steps) / i128::from(over);
        prop_assert_eq!(i128::from(at_once("steps")), start + span * step / i128::from(steps));
    }
}

#[test]
fn the_least_recently_used_region_goes_first() {
    // Two regions of 8 sectors: the third takes the place of the one not used since.
    let requests = [0, 8, 0, 16, 0, 8].map(|lba| read(0, lba));
    let hits = services("cache=8k,region=4k", &requests).into_iter().map(|time| time == 100_000).collect::<Vec<_>>();
    assert_eq!(hits, [false, false, true, false, true, false]);
}

#[test]
fn noise_has_the_mean_and_deviation_asked_for_and_is_lognormal() {
    let requests: Vec<Request> = (0..200_000).map(|_| read(0, 0)).collect();
    for (cv, mean) in [(0.2, 1e6), (1.0, 1e6), (0.5, 1e5)] {
        let tunables = format!("service={mean}ns,cv={cv},seed=3,cache=1m,cached={mean}ns");
        let times: Vec<f64> = services(&tunables, &requests).into_iter().map(|ns| ns as f64).collect();
        let count = times.len() as f64;
        let average = times.iter().sum::<f64>() / count;
        let deviation = (times.iter().map(|time| (time - average).powi(2)).sum::<f64>() / count).sqrt();
        assert!((average / mean - 1.0).abs() < 0.01, "{average} for {mean}");
        assert!((deviation / mean / cv - 1.0).abs() < 0.03, "{} for {cv}", deviation / mean);
        // A lognormal's median is its mean over the root of 1 + cv², and its logarithm is symmetric.
        let median = mean / (1.0 + cv * cv).sqrt();
        let share = |limit: f64| times.iter().filter(|&&time| time <= limit).count() as f64 / count;
        assert!((share(median) - 0.5).abs() < 0.005);
        let sigma = (1.0 + cv * cv).ln().sqrt();
        assert!((share(median * sigma.exp()) - 0.841_34).abs() < 0.004);
        assert!((share(median / sigma.exp()) - 0.158_66).abs() < 0.004);
    }
}

#[test]
fn noise_is_the_same_for_a_seed_and_another_for_another() {
    let requests: Vec<Request> = (0..50).map(|_| read(0, 0)).collect();
    let drawn = |seed: u64| services(&format!("cv=0.3,seed={seed}"), &requests);
    assert_eq!(drawn(4), drawn(4));
    assert_ne!(drawn(4), drawn(5));
}

#[test]
fn scheduler_sees_the_mean_and_the_time_of_cached_requests() {
    let mut disk = drive("virtual-disk:cache=8m,service=5ms,drift=linear,drift_to=1ms,drift_over=1s");
    one_by_one(&mut *disk, &[read(0, 0)], traces::Nanos::ZERO);
    let cost = |at: u64, lba: u64| disk.cost().access(traces::Timestamp::from_ns(at), &read(0, lba)).as_ns();
    assert_eq!((cost(0, 8), cost(0, 50_000), cost(500 * MS, 50_000)), (100_000, 5 * MS, 3 * MS));
}
