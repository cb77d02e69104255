//! Forecasts by formulas against the formulas written out by hand, the profiles that are refused, and finite figures
//! for any profile.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use iocast_predictors::qpn::net::{self, Group, Served};
use iocast_predictors::{
    Consolidation, Isolated, OperationForecast, Outcomes, PREDICTORS, PredictError, VmForecast, build, predictor,
};
use proptest::prelude::*;
use traces::results::isolation::{BatchFigures, IsolatedOperation, IsolationProfile, StreamProfile};
use traces::results::prediction::{Forecast, Outcome, PairPrediction};
use traces::spec::Spec;

fn operation(iops: f64, response_ms: f64, found: [f64; 2], own: usize) -> IsolatedOperation {
    let service = response_ms * 1e6 / (1.0 + found[0] + found[1]);
    IsolatedOperation {
        requests: (iops * 100.0) as u64,
        iops,
        response_ns: Some(response_ms * 1e6),
        service_ns: Some(service),
        service_square_ns2: Some(1.5 * service * service),
        found_total: Some(found[0] + found[1]),
        found_reads: Some(found[0]),
        found_writes: Some(found[1]),
        batches: Some(BatchFigures { count: 10, mean: 2.0 + own as f64, mean_square: 12.0, max: 9 }),
        ..IsolatedOperation::default()
    }
}

/// A profile. For reads, then writes: rate in 1/s, response time in ms, reads found and writes found.
fn vm_profile(vm: &str, reads: [f64; 4], writes: [f64; 4]) -> IsolationProfile {
    let of = |[iops, response, reads, writes]: [f64; 4], own| {
        if iops > 0.0 { operation(iops, response, [reads, writes], own) } else { IsolatedOperation::default() }
    };
    IsolationProfile {
        vm: vm.to_owned(),
        busy_share: Some(0.6),
        reads: of(reads, 0),
        writes: of(writes, 1),
        streams: vec![StreamProfile { reads: (reads[0] * 100.0) as u64, ..StreamProfile::default() }],
        ..IsolationProfile::default()
    }
}

fn three() -> Vec<IsolationProfile> {
    vec![
        vm_profile("a", [100.0, 9.0, 0.5, 0.25], [50.0, 20.0, 1.0, 3.0]),
        vm_profile("b", [300.0, 4.0, 1.0, 0.0], [10.0, 6.0, 0.5, 0.5]),
        vm_profile("c", [20.0, 6.0, 0.1, 2.0], [200.0, 12.0, 0.2, 5.0]),
    ]
}

fn ask(spec: &str, alone: &[IsolationProfile]) -> Result<Consolidation, PredictError> {
    let predictor = build(&spec.parse::<Spec>().unwrap()).unwrap().predictor().unwrap();
    predictor::predict(&*predictor, Isolated::of_profiles(alone))
}

fn near(ours: Option<f64>, expected: f64) {
    let ours = ours.unwrap();
    assert!((ours / expected - 1.0).abs() < 1e-9, "{ours} instead of {expected}");
}

#[test]
fn casale_matches_its_equations() {
    let two = &three()[..2];
    let together = ask("casale", two).unwrap();
    // Rates: a has 150 and b 310 requests a second of 460.
    near(together.mix_read, 400.0 / 460.0);
    let forecast = together.forecast();
    near(forecast.total_read_iops, (100.0 * 150.0 + 300.0 * 310.0) / 460.0);
    near(forecast.total_write_iops, (50.0 * 150.0 + 10.0 * 310.0) / 460.0);
    // b adds 4/2·1 of reads and half of 6/2·1 of writes.
    near(together.vms[0].reads.response_ns, (9.0 + 2.0 + 1.5) * 1e6);
    near(together.vms[0].writes.response_ns, (20.0 + 2.0 + 1.5) * 1e6);
    // a adds 9/1.75·0.75 and half of 20/5·4.
    near(together.vms[1].reads.response_ns, (4.0 + 9.0 / 1.75 * 0.75 + 8.0) * 1e6);
}

#[test]
fn casale_found_own_counts_the_own_type_and_connection_limits_weigh_writes() {
    let two = &three()[..2];
    let own = ask("casale:found=own", two).unwrap();
    near(own.vms[1].reads.response_ns, (4.0 + 9.0 / 1.5 * 0.5 + 0.5 * 20.0 / 4.0 * 3.0) * 1e6);
    let few = ask("casale:max_conn=8,max_write_conn=2", two).unwrap();
    near(few.vms[0].reads.response_ns, (9.0 + 2.0 + 0.25 * 3.0) * 1e6);
    assert!(build(&"casale:max_write_conn=33".parse::<Spec>().unwrap()).is_err());
}

#[test]
fn casale_adds_each_further_vm_as_it_adds_the_second() {
    let all = three();
    let together = ask("casale", &all).unwrap();
    let with =
        |other: usize| ask("casale", &[all[0].clone(), all[other].clone()]).unwrap().vms[0].reads.response_ns.unwrap();
    near(together.vms[0].reads.response_ns, with(1) + with(2) - 9e6);
    near(together.forecast().total_read_iops, (100.0 * 150.0 + 300.0 * 310.0 + 20.0 * 220.0) / 680.0);
}

#[test]
fn casale_refined_weights_minimise_squares_and_its_mix_follows_from_rates() {
    let two = &three()[..2];
    let together = ask("casale-refined", two).unwrap();
    // The best q of a fine grid by the definition of the error.
    let error = |q: f64| {
        let weight = |all: f64, of: f64| all.powf(1.0 - q) * of.powf(q);
        let reads = (weight(150.0, 100.0) / weight(310.0, 300.0)).ln() - (100.0 * 9.0 / (300.0 * 4.0f64)).ln();
        let writes = (weight(150.0, 50.0) / weight(310.0, 10.0)).ln() - (50.0 * 20.0 / (10.0 * 6.0f64)).ln();
        reads * reads + writes * writes
    };
    let best = (0..=1000)
        .map(|step| f64::from(step) / 1000.0)
        .min_by(|one, other| error(*one).total_cmp(&error(*other)))
        .unwrap();
    let weights = [150f64.powf(1.0 - best) * 100f64.powf(best), 310f64.powf(1.0 - best) * 300f64.powf(best)];
    let expected = (100.0 * weights[0] + 300.0 * weights[1]) / (weights[0] + weights[1]);
    let forecast = together.forecast();
    assert!((forecast.total_read_iops.unwrap() / expected - 1.0).abs() < 1e-3);
    let (reads, writes) = (forecast.total_read_iops.unwrap(), forecast.total_write_iops.unwrap());
    near(forecast.mix_read, reads / (reads + writes));
    assert_eq!(together.vms[0].reads.response_ns, ask("casale", two).unwrap().vms[0].reads.response_ns);
}

#[test]
fn baselines_match_their_definitions() {
    let two = &three()[..2];
    let alone = ask("isolation", two).unwrap();
    assert_eq!((alone.vms[1].reads.iops, alone.vms[0].writes.response_ns), (Some(300.0), Some(20e6)));
    let constant = ask("constant", two).unwrap();
    near(constant.vms[0].reads.iops, 200.0);
    near(constant.vms[1].writes.response_ns, 13e6);
    // Each VM keeps the device busy for 60 % of the time: 120 % together, of which the device has 100 %.
    let sum = ask("sum", two).unwrap();
    near(sum.vms[0].reads.iops, 100.0 / 1.2);
    near(sum.forecast().total_write_iops, 60.0 / 1.2);
    assert_eq!(sum.vms[0].reads.response_ns, None);
}

#[test]
fn qpn_reproduces_the_net_that_it_was_calibrated_with() {
    // Clients of a net with 4 ms reads, 9 ms writes and weights as their threads, alone.
    let of = |vm: &str, threads: [f64; 2]| {
        let share = threads[0] / (threads[0] + threads[1]);
        let [reads, writes] = queueing::exact::closed_form::throughput(share, [0.004, 0.009]);
        let response = |threads: f64, rate: f64| threads / rate * 1e3;
        let mut profile = vm_profile(
            vm,
            [reads, response(threads[0], reads), threads[0] - 1.0, threads[1]],
            [writes, response(threads[1], writes), threads[0], threads[1] - 1.0],
        );
        profile.busy_share = Some(1.0);
        profile
    };
    let together = ask("qpn", &[of("a", [3.0, 1.0]), of("b", [2.0, 4.0])]).unwrap();
    let expected = queueing::exact::closed_form::throughput(0.5, [0.004, 0.009]);
    near(together.forecast().total_read_iops, expected[0]);
    near(together.forecast().total_write_iops, expected[1]);
    near(together.vms[0].reads.response_ns, 5.0 / expected[0] * 1e9);
    near(together.vms[1].writes.iops, expected[1] * 0.8);
    let given = ask("qpn:read_service=8ms,write_service=18ms", &[of("a", [3.0, 1.0]), of("b", [2.0, 4.0])]).unwrap();
    near(given.forecast().total_read_iops, expected[0] / 2.0);
    assert_eq!(iocast_predictors::qpn::storage::service_of_line(2.0, 50.0), 4.0);
}

/// Clients of a VM alone that think, at a storage of 2 ms reads and 5 ms writes with weights 3:1, and what they get.
fn thinking(groups: &[Group]) -> Vec<Served> {
    net::solve(groups, [(0.002, 1.0), (0.005, 1.0)], [3.0, 1.0], 1_000_000).unwrap()
}

#[test]
fn qpn_of_vms_that_think_forecasts_the_net_that_their_profiles_come_from() {
    let vms = [
        [Group { kind: 0, clients: 6.0, think: 0.02 }, Group { kind: 1, clients: 2.0, think: 0.05 }],
        [Group { kind: 0, clients: 2.0, think: 0.03 }, Group { kind: 1, clients: 5.0, think: 0.04 }],
    ];
    let profile = |vm: &str, groups: &[Group; 2]| {
        let served = thinking(groups);
        let of = |kind: usize| {
            // The last of the clients finds all others at the device often enough.
            let others = groups[kind].clients as u64 - 1;
            let found_joint = vec![if kind == 0 { (others, 0, 100) } else { (0, others, 100) }];
            let ms = served[kind].response * 1e3;
            IsolatedOperation { found_joint, ..operation(served[kind].rate, ms, [0.0; 2], kind) }
        };
        let busy = served[0].rate * 0.002 + served[1].rate * 0.005;
        assert!(busy < 0.89, "{busy}");
        IsolationProfile { busy_share: Some(busy), reads: of(0), writes: of(1), ..vm_profile(vm, [1.0; 4], [1.0; 4]) }
    };
    let alone = [profile("a", &vms[0]), profile("b", &vms[1])];
    let together = ask("qpn:read_deviation=2ms,write_deviation=5ms", &alone).unwrap();
    let truth = thinking(&vms.concat());
    let forecast: Vec<OperationForecast> = together.vms.iter().flat_map(|vm| [vm.reads, vm.writes]).collect();
    for ((found, truth), alone) in forecast.iter().zip(&truth).zip(vms.iter().flat_map(|vm| thinking(vm))) {
        let [rate, response] = [found.iops.unwrap() / truth.rate, found.response_ns.unwrap() / 1e9 / truth.response];
        assert!((rate - 1.0).abs() < 0.03 && (response - 1.0).abs() < 0.1, "{forecast:?} instead of {truth:?}");
        assert!(truth.response > 1.3 * alone.response, "the VMs hardly disturb each other");
    }
    // Service times that vary more make requests wait longer.
    let varied = ask("qpn:read_deviation=10ms,write_deviation=25ms", &alone).unwrap();
    assert!(varied.vms[0].reads.response_ns > together.vms[0].reads.response_ns.map(|ns| 1.1 * ns), "{varied:?}");
}

#[test]
fn qpn_gives_no_vm_more_writes_than_it_has_alone_beside_vms_that_think() {
    let busy = |share: f64, vm: &str, reads: [f64; 4], writes: [f64; 4]| IsolationProfile {
        busy_share: Some(share),
        ..vm_profile(vm, reads, writes)
    };
    // Less than one write in a second, of which 4 % of a client is outstanding.
    let web = busy(0.95, "web", [200.0, 12.0, 2.0, 0.0], [0.8, 43.0, 2.0, 0.0]);
    let file = busy(0.5, "file", [77.0, 9.0, 1.0, 0.0], [11.0, 29.0, 1.0, 0.0]);
    let together = ask("qpn", &[web, file]).unwrap();
    let writes = together.vms[0].writes.iops.unwrap();
    assert!((0.4..0.8).contains(&writes), "{writes}");
}

/// Simulates the closed net step by step: clients without think time share a storage with these `service` times (ms).
/// The weight of reads to writes is `weight` times the ratio of their threads to the power `slope`. The scheduler picks
/// a kind, one request is served, and its client queues again behind the others of its kind. Returns the responses of
/// both, ms.
fn simulated(threads: [u64; 2], service: [f64; 2], weight: f64, slope: f64) -> [f64; 2] {
    let weight = weight * (threads[0] as f64 / threads[1] as f64).powf(slope);
    let mut waiting = threads.map(|threads| std::collections::VecDeque::from(vec![0.0; threads as usize]));
    let (mut now, mut credit, mut responses) = (0.0, 0.0, [(0.0, 0.0); 2]);
    for step in 0..400_000 {
        credit += weight / (1.0 + weight);
        let kind = if threads[1] == 0 || (threads[0] > 0 && credit >= 1.0) { 0 } else { 1 };
        credit -= if kind == 0 { 1.0 } else { 0.0 };
        now += service[kind];
        let came = waiting[kind].pop_front().unwrap();
        waiting[kind].push_back(now);
        if step > 10_000 {
            responses[kind] = (responses[kind].0 + now - came, responses[kind].1 + 1.0);
        }
    }
    responses.map(|(sum, count)| sum / count)
}

#[test]
fn qpn_is_calibrated_by_responses_at_a_few_thread_counts() {
    let (service, weight, slope) = ([6.0, 2.5], 1.7, 0.8);
    let us = |ms: f64| format!("{}us", (ms * 1e3).round());
    let alone = |kind: usize| {
        let at = |threads: u64| {
            let threads_of = if kind == 0 { [threads, 0] } else { [0, threads] };
            let [reads, writes] = simulated(threads_of, service, weight, slope);
            format!("{threads}x{}", us(if kind == 0 { reads } else { writes }))
        };
        [10, 20, 40].map(at).join("+")
    };
    let mixed = [[10, 10], [10, 30], [40, 10]].map(|threads: [u64; 2]| {
        let [reads, writes] = simulated(threads, service, weight, slope);
        format!("{}/{}x{}/{}", threads[0], threads[1], us(reads), us(writes))
    });
    let spec =
        format!("qpn:read_responses={},write_responses={},mixed_responses={}", alone(0), alone(1), mixed.join("+"));
    // The VMs alone give the number of threads of each, and nothing else.
    let of = |vm: &str, threads: [u64; 2]| {
        let [read, write] = simulated(threads, [1.0, 9.0], 0.3, 0.0);
        let rate = |threads: u64, response: f64| threads as f64 / response * 1e3;
        let of = |kind: usize, response: f64| [rate(threads[kind], response), response, 3.0, 3.0];
        IsolationProfile { busy_share: Some(1.0), ..vm_profile(vm, of(0, read), of(1, write)) }
    };
    let together = ask(&spec, &[of("a", [12, 9]), of("b", [8, 21])]).unwrap();
    let expected = simulated([20, 30], service, weight, slope);
    let close = |ns: Option<f64>, ms: f64| assert!((ns.unwrap() / 1e6 / ms - 1.0).abs() < 0.002, "{ns:?} ns, {ms} ms");
    close(together.vms[0].reads.response_ns, expected[0]);
    close(together.vms[1].writes.response_ns, expected[1]);
    let unlike = ask("qpn", &[of("a", [12, 9]), of("b", [8, 21])]).unwrap();
    assert!((unlike.vms[0].reads.response_ns.unwrap() / 1e6 / expected[0] - 1.0).abs() > 0.2);
}

#[test]
fn qpn_service_times_are_those_of_the_line_at_25_threads() {
    let of = |vm: &str, reads: [f64; 4]| IsolationProfile { busy_share: Some(1.0), ..vm_profile(vm, reads, [0.0; 4]) };
    let two = [of("a", [100.0, 9.0, 0.5, 0.0]), of("b", [50.0, 4.0, 0.2, 0.0])];
    let note = |spec: &str| ask(spec, &two).unwrap().notes.join(" ");
    // A line of 50 ms and 2 ms a thread gives 4 ms at 25 threads. A single count gives the response time by thread.
    assert!(note("qpn:read_responses=10x70ms+20x90ms+30x110ms").contains("a read takes 4.000 ms"));
    assert!(note("qpn:read_responses=10x70ms").contains("a read takes 7.000 ms"));
    let both = "qpn:read_service=4ms,read_responses=10x70ms".parse().unwrap();
    let Err(error) = iocast_predictors::build(&both) else { panic!("it takes both") };
    assert!(error.to_string().contains("not given beside read_service: give one of them"), "{error}");
    // Responses must grow with the number of threads, and the line must be positive at 25 threads.
    for odd in ["10x100ms+20x10ms", "10x50ms+20x49ms", "100x1ms+200x2000ms"] {
        let Err(error) = iocast_predictors::build(&format!("qpn:read_responses={odd}").parse().unwrap()) else {
            panic!("{odd} is taken")
        };
        assert!(error.to_string().contains("grow with the number of threads"), "{error}");
    }
    // A cycle is 10 ms for two reads and three writes. A given time of one kind leaves the rest to the other.
    let mixed = |vm: &str| {
        let profile = vm_profile(vm, [200.0, 9.0, 3.0, 3.0], [300.0, 9.0, 3.0, 3.0]);
        IsolationProfile { busy_share: Some(1.0), ..profile }
    };
    let both = [mixed("a"), mixed("b")];
    let note = |spec: &str| ask(spec, &both).unwrap().notes.join(" ");
    assert!(note("qpn:read_service=3.5ms").contains("a read takes 3.500 ms and a write 1.000 ms"));
    assert!(note("qpn:write_service=2ms").contains("a read takes 2.000 ms and a write 2.000 ms"));
    let none_left = ask("qpn:read_service=6ms", &both).unwrap_err().to_string();
    assert!(none_left.contains("6.000 ms for reads and -0.667 ms for writes"), "{none_left}");
}

#[test]
fn vm_without_writes_has_no_forecast_of_writes() {
    let alone = [
        vm_profile("a", [100.0, 9.0, 0.5, 0.0], [0.0; 4]),
        vm_profile("b", [50.0, 4.0, 0.2, 0.1], [10.0, 6.0, 0.5, 0.5]),
    ];
    for name in ["casale", "casale-refined", "hol", "isolation", "constant", "sum"] {
        let together = ask(name, &alone).unwrap();
        assert_eq!((together.vms[0].writes.iops, together.vms[0].writes.response_ns), (None, None), "{name}");
        assert!(together.vms[1].writes.iops.is_some(), "{name}");
    }
}

#[test]
fn impossible_profiles_are_refused_with_the_reason() {
    let mut no_response = three();
    no_response[1].reads.response_ns = None;
    let mut not_a_number = three();
    not_a_number[0].writes.iops = f64::NAN;
    let mut milliseconds = three();
    let IsolationProfile { reads, writes, .. } = &mut milliseconds[2];
    for operation in [reads, writes] {
        operation.response_ns = operation.response_ns.map(|ns| ns / 1e6);
    }
    let mut twice = three();
    twice[2].vm = "a".to_owned();
    let mut idle = three();
    idle[0] = vm_profile("a", [0.0; 4], [0.0; 4]);
    let mut single = three();
    single[0] = vm_profile("a", [0.0; 4], [0.0; 4]);
    single[0].reads = IsolatedOperation { requests: 1, response_ns: Some(1e6), ..IsolatedOperation::default() };
    let mut share = three();
    share[0].busy_share = Some(60.0);
    let many = 1 << 41;
    let mut countless = [three(), three(), three()];
    countless[0][0].reads.found_joint = vec![(1, 2, many)];
    countless[1][0].streams = vec![StreamProfile { reads: many, ..StreamProfile::default() }];
    countless[2][0].writes.requests = many;
    for alone in countless {
        let error = ask("isolation", &alone).unwrap_err().to_string();
        assert!(
            error.ends_with("a: a count of 2199023255552; counts must be numbers of at most 1099511627776"),
            "{error}"
        );
    }
    let cases = [
        (three()[..1].to_vec(), "at least two VMs, and there is 1"),
        (no_response, "b: 300 reads a second without a response time"),
        (not_a_number, "a: writes have a figure of NaN"),
        (milliseconds, "c: 220.0 requests a second with their response times make 2.5"),
        (twice, "two VMs are called a"),
        (idle, "a: neither reads nor writes"),
        (single, "a: a single request (reads) gives no rate"),
        (share, "a: busy_share must be a share of time, from 0 to 1"),
    ];
    for (alone, words) in cases {
        let error = ask("isolation", &alone).unwrap_err().to_string();
        assert!(error.contains(words), "{error}\n  instead of {words}");
    }
}

#[test]
fn predictors_refuse_vms_that_violate_their_assumptions() {
    let all = three();
    let error = ask("qpn-refined", &all).unwrap_err().to_string();
    assert!(error.contains("qpn-refined needs response times of the storage at several thread counts"), "{error}");
    let busy = [
        vm_profile("a", [100.0, 8.0, 0.5, 0.5], [150.0, 12.0, 0.5, 0.5]),
        vm_profile("b", [100.0, 8.0, 0.5, 0.5], [90.0, 12.0, 0.5, 0.5]),
    ];
    let error = ask("hol", &busy).unwrap_err().to_string();
    assert!(error.contains("a utilisation of 0.95") && error.contains("writes would wait without end"), "{error}");
    let reading = |vm: &str| vm_profile(vm, [250.0, 8.0, 0.5, 0.0], [0.0; 4]);
    let error = ask("hol", &[reading("a"), reading("b")]).unwrap_err().to_string();
    assert!(error.contains("time: reads would wait without end"), "{error}");
    let mut bare = three();
    bare[0].busy_share = None;
    assert!(ask("sum", &bare).unwrap_err().to_string().contains("a: sum needs busy_share"));
    bare[0].writes.found_total = None;
    assert!(ask("casale", &bare).unwrap_err().to_string().contains("a: Casale's formulas need found_total of writes"));
    bare[0].reads.service_ns = None;
    assert!(ask("hol", &bare).unwrap_err().to_string().contains("a: hol needs service_ns"));
}

proptest! {
    #[test]
    fn predictors_give_finite_figures_or_an_error(
        rates in prop::array::uniform4(prop_oneof![Just(0.0), 0.001f64..5000.0]),
        responses in prop::array::uniform4(prop_oneof![Just(0.0), 1e-3f64..1e5]),
        found in prop::array::uniform4(prop_oneof![Just(0.0), 0.0f64..200.0]),
        busy in 0.0f64..=1.0,
    ) {
        let of = |vm: &str, at: usize| {
            let mut profile = vm_profile(
                vm,
                [rates[at], responses[at], found[at], found[at + 1]],
                [rates[at + 1], responses[at + 1], found[at], found[at + 1]],
            );
            profile.busy_share = Some(busy);
            profile
        };
        let alone = [of("a", 0), of("b", 2)];
        // Correctors have a property of their own.
        for entry in PREDICTORS.iter().filter(|entry| entry.by_default().unwrap().predictor().is_some()) {
            match ask(entry.name, &alone) {
                Ok(together) => {
                    let forecast = serde_json::to_value(together.forecast()).unwrap();
                    prop_assert_eq!(together.vms.len(), 2);
                    prop_assert!(forecast["read_response_ns"].as_array().is_some_and(|figures| figures.len() == 2));
                    for vm in &together.vms {
                        let [reads, writes] = [vm.reads, vm.writes];
                        let figures = [reads.iops, reads.response_ns, writes.iops, writes.response_ns];
                        for figure in figures.into_iter().flatten() {
                            prop_assert!(figure.is_finite() && figure >= 0.0);
                        }
                    }
                }
                Err(error) => prop_assert!(!error.to_string().contains("NaN ") && !error.to_string().is_empty()),
            }
        }
    }

    #[test]
    fn correctors_give_finite_figures_or_an_error(
        // Four figures each of two VMs, of as many forecasts as there may be: the truth first.
        figures in prop::collection::vec(prop::option::weighted(0.9, odd_figure()), 8 * 8),
        corrected in prop::collection::vec(prop::option::weighted(0.9, odd_figure()), 8 * 8),
    ) {
        for mut corrector in PREDICTORS.iter().filter_map(|entry| entry.by_default().unwrap().corrector()) {
            let outcomes = |figures: &[Option<f64>]| -> Outcomes {
                let names = corrector.learns_from().iter();
                let named = |(name, of): (&&str, &[Option<f64>])| ((*name).to_owned(), Outcome::Forecast(forecast(of)));
                names.zip(figures.chunks(8)).map(named).collect()
            };
            let vms = vec!["a".to_owned(), "b".to_owned()];
            let (truth, predictors) = (Some(forecast(&figures[..8])), outcomes(&figures[8..]));
            let known = PairPrediction { vms, truth, predictors };
            let others = outcomes(&corrected);
            corrector.learn(&[&known]);
            let Ok(together) = corrector.correct(&others) else { continue };
            prop_assert_eq!(together.vms.len(), 2);
            for operation in together.vms.iter().flat_map(|vm| [vm.reads, vm.writes]) {
                let spread = operation.spread.map(|spread| [spread.iops, spread.response]);
                let figures = [operation.iops, operation.response_ns].into_iter().flatten();
                for figure in figures.chain(spread.into_iter().flatten()) {
                    prop_assert!(figure.is_finite() && figure >= 0.0, "{}", figure);
                }
            }
        }
    }
}

/// A finite figure: zero, one of a device, or one of any magnitude.
fn odd_figure() -> impl Strategy<Value = f64> {
    prop_oneof![1 => Just(0.0), 4 => 1e-3f64..1e9, 2 => (-300f64..300.0).prop_map(|exponent| 10f64.powf(exponent))]
}

/// A stored forecast of two VMs, from response time and throughput of reads and of writes.
fn forecast(figures: &[Option<f64>]) -> Forecast {
    let of = |figures: &[Option<f64>]| OperationForecast::of_means(figures[0], figures[1]);
    let vm = |figures: &[Option<f64>]| VmForecast { reads: of(&figures[..2]), writes: of(&figures[2..]) };
    Consolidation { vms: figures.chunks(4).map(vm).collect(), ..Consolidation::default() }.forecast()
}
