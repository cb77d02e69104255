//! Solvers without simulation against published figures, against one another and against laws that must hold.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use iocast_queueing::exact::network::{ClosedNetwork, Discipline, NetworkError, Solved, Station};
use iocast_queueing::exact::{approximate, convolution, mva};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

const PS: Discipline = Discipline::ProcessorSharing { servers: 1 };

fn fcfs(servers: u32) -> Discipline {
    Discipline::FirstComeFirstServed { servers }
}

fn station(discipline: Discipline, visits: &[f64], service: &[f64]) -> Station {
    Station { discipline, visits: visits.to_vec(), service: service.to_vec() }
}

fn near(found: f64, expected: f64, off: f64) {
    assert!((found / expected - 1.0).abs() <= off, "{found} instead of {expected}");
}

/// Ten and twelve clients that think for 20, a shared processor, and a disk.
fn two_classes() -> ClosedNetwork {
    ClosedNetwork {
        customers: vec![10, 12],
        think: vec![20.0; 2],
        stations: vec![station(PS, &[1.0; 2], &[2.0, 3.0]), station(fcfs(1), &[1.0; 2], &[1.5; 2])],
    }
}

/// An example of SimQPN (pepsy-bcmp2), with disks of one, two and three servers.
fn pepsy() -> ClosedNetwork {
    ClosedNetwork {
        customers: vec![10, 12],
        think: vec![10_000.0; 2],
        stations: vec![
            station(PS, &[2.0; 2], &[200.0, 250.0]),
            station(fcfs(1), &[0.4; 2], &[1000.0; 2]),
            station(fcfs(2), &[0.5; 2], &[500.0; 2]),
            station(fcfs(3), &[0.1; 2], &[20_000.0; 2]),
        ],
    }
}

#[test]
fn mean_value_analysis_has_the_agreed_throughput_of_two_classes() {
    let solved = mva::solve(&two_classes()).unwrap();
    near(solved.throughput[0], 0.204_419_9, 3e-7);
    near(solved.throughput[1], 0.196_720_5, 3e-7);
}

#[test]
fn mean_value_analysis_has_simqpn_s_example_with_disks_of_several_servers() {
    let network = pepsy();
    let solved = mva::solve(&network).unwrap();
    near(solved.throughput[0], 6.204_338_2e-4, 1e-8);
    near(solved.throughput[1], 7.338_951_0e-4, 1e-8);
    let of_visits = [[476.723, 588.791], [2054.57, 2056.49], [513.605, 513.632], [40_856.8, 40_941.1]];
    for (number, expected) in of_visits.iter().enumerate() {
        for (class, expected) in expected.iter().enumerate() {
            near(solved.residence[number][class] / network.stations[number].visits[class], *expected, 3e-6);
        }
    }
}

/// Up to three classes and four stations, which are delays or have up to four servers. Some demands are zero.
fn networks(servers_max: u32) -> impl Strategy<Value = ClosedNetwork> {
    let time = || prop_oneof![1 => Just(0.0), 4 => 0.1_f64..5.0];
    (1..=3_usize, 1..=4_usize).prop_flat_map(move |(classes, stations)| {
        let of_classes = move || prop::collection::vec(time(), classes);
        let station = (0..4_u32, 1..=servers_max, of_classes(), 0.1_f64..5.0, of_classes()).prop_map(
            |(kind, servers, visits, service, own)| match kind {
                0 => station(Discipline::Delay, &visits, &own),
                1 => station(fcfs(servers), &visits, &vec![service; visits.len()]),
                _ => station(Discipline::ProcessorSharing { servers }, &visits, &own),
            },
        );
        let network = (
            prop::collection::vec(0..=6_u32, classes),
            prop::collection::vec(0.0..20.0_f64, classes),
            prop::collection::vec(station, stations),
        );
        network.prop_map(|(customers, think, stations)| {
            let served = |class: usize| stations.iter().any(|of: &Station| of.visits[class] * of.service[class] > 0.0);
            // Some classes never think, but each takes time somewhere.
            let think = think.iter().enumerate().map(|(class, think)| match (*think < 5.0, served(class)) {
                (true, true) => 0.0,
                (true, false) => 5.0,
                (false, _) => *think,
            });
            ClosedNetwork { think: think.collect(), customers, stations }
        })
    })
}

fn agree(one: &Solved, other: &Solved, off: f64) {
    let figures = |solved: &Solved| -> Vec<f64> {
        solved.residence.iter().flatten().chain(&solved.throughput).copied().collect()
    };
    for (one, other) in figures(one).into_iter().zip(figures(other)) {
        assert!((one - other).abs() <= off * other.abs(), "{one} and {other}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mean_value_analysis_and_convolution_agree(network in networks(4)) {
        agree(&mva::solve(&network).unwrap(), &convolution::solve(&network).unwrap(), 1e-11);
    }

    #[test]
    fn customers_of_a_class_are_all_somewhere(network in networks(4)) {
        let solved = mva::solve(&network).unwrap();
        for class in 0..network.customers.len() {
            let there = (0..network.stations.len()).map(|station| solved.customers(station, class));
            let all = solved.throughput[class] * network.think[class] + there.sum::<f64>();
            prop_assert!((all - f64::from(network.customers[class])).abs() < 1e-9);
        }
    }
}

#[test]
fn convolution_has_the_agreed_figures() {
    agree(&convolution::solve(&two_classes()).unwrap(), &mva::solve(&two_classes()).unwrap(), 1e-12);
    agree(&convolution::solve(&pepsy()).unwrap(), &mva::solve(&pepsy()).unwrap(), 1e-12);
}

/// One class at a station of many servers and at a faster one of a single server: a birth and death process. It is
/// solved by its balance: from most likely state outwards.
fn birth_and_death(customers: u32, servers: u32, mean: f64, single: f64) -> f64 {
    let speed = |there: u32| f64::from(there.min(servers)) / mean;
    let logs: Vec<f64> = (0..=customers)
        .scan(0.0, |log, there| {
            if there > 0 {
                *log -= libm::log(single * speed(there));
            }
            Some(*log)
        })
        .collect();
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let chances: Vec<f64> = logs.iter().map(|log| libm::exp(log - most)).collect();
    let rate: f64 = (0..=customers).zip(&chances).map(|(there, chance)| speed(there) * chance).sum();
    rate / chances.iter().sum::<f64>()
}

#[test]
fn busy_stations_of_many_servers_keep_their_digits() {
    // The usual recursion takes one minus the other probabilities. It ends with negative throughput here.
    for (customers, servers, single) in [(200, 64, 1.0 / 60.0), (300, 64, 1e-3), (1000, 500, 1e-5), (1000, 500, 0.01)] {
        let network = ClosedNetwork {
            customers: vec![customers],
            think: vec![0.0],
            stations: vec![station(fcfs(servers), &[1.0], &[1.0]), station(PS, &[1.0], &[single])],
        };
        let expected = birth_and_death(customers, servers, 1.0, single);
        near(mva::solve(&network).unwrap().throughput[0], expected, 1e-10);
        near(convolution::solve(&network).unwrap().throughput[0], expected, 1e-10);
    }
}

#[test]
fn constants_beyond_a_float_s_range_do_not_matter() {
    // G of 2000 customers is about (1e18)^2000.
    for scale in [1e-17, 1.0, 1e17] {
        let network = ClosedNetwork {
            customers: vec![1000, 1000],
            think: vec![2.0 * scale, 0.0],
            stations: vec![station(PS, &[1.0; 2], &[scale, 3.0 * scale]), station(PS, &[1.0, 2.0], &[scale; 2])],
        };
        agree(&convolution::solve(&network).unwrap(), &mva::solve(&network).unwrap(), 1e-9);
    }
}

#[test]
fn networks_that_are_too_large_are_refused_at_once() {
    let of = |customers: Vec<u32>, discipline, stations| {
        let classes = customers.len();
        let stations = vec![station(discipline, &vec![1.0; classes], &vec![1.0; classes]); stations];
        let network = ClosedNetwork { customers, think: vec![1.0; classes], stations };
        [mva::solve(&network), convolution::solve(&network)].map(|solved| solved.unwrap_err().to_string())
    };
    for refused in [of(vec![u32::MAX; 3], PS, 1), of(vec![1; 40], PS, 1), of(vec![100; 3], fcfs(40), 60)] {
        assert!(refused.iter().all(|text| text.contains("approximate or simulate")), "{refused:?}");
    }
}

/// Errors of throughput, sorted, of an approximation of random networks: the largest one over the classes of each.
fn errors_of(solve: fn(&ClosedNetwork) -> Result<Solved, NetworkError>, networks: &[ClosedNetwork]) -> Vec<f64> {
    let error = |network: &ClosedNetwork| {
        let (exact, found) = (mva::solve(network).unwrap().throughput, solve(network).unwrap().throughput);
        let by_class = found.iter().zip(&exact).filter(|(_, exact)| **exact > 0.0);
        by_class.map(|(found, exact)| (found / exact - 1.0).abs()).fold(0.0, f64::max)
    };
    let mut errors: Vec<f64> = networks.iter().map(error).collect();
    errors.sort_by(f64::total_cmp);
    errors
}

#[test]
fn approximations_are_near_the_exact_throughput() {
    let networks = |servers_max| -> Vec<ClosedNetwork> {
        let mut runner = TestRunner::deterministic();
        (0..4_000).map(|_| networks(servers_max).new_tree(&mut runner).unwrap().current()).collect()
    };
    let quantiles = |errors: &[f64]| [0.5, 0.99, 1.0].map(|share| errors[((errors.len() - 1) as f64 * share) as usize]);
    let [median, nearly_all, all] = quantiles(&errors_of(approximate::linearizer, &networks(1)));
    assert!(median < 0.001 && nearly_all < 0.01 && all < 0.05, "{median} {nearly_all} {all}");
    // Schweitzer's and Bard's estimate is further off for a class of one customer that never thinks.
    let [median, nearly_all, all] = quantiles(&errors_of(approximate::schweitzer, &networks(1)));
    assert!(median < 0.05 && nearly_all < 0.20 && all < 0.30, "{median} {nearly_all} {all}");
    // Several servers are approximated once more.
    let [median, nearly_all, all] = quantiles(&errors_of(approximate::linearizer, &networks(4)));
    assert!(median < 0.005 && nearly_all < 0.15 && all < 0.25, "{median} {nearly_all} {all}");
    let [median, nearly_all, all] = quantiles(&errors_of(approximate::schweitzer, &networks(4)));
    assert!(median < 0.05 && nearly_all < 0.20 && all < 0.30, "{median} {nearly_all} {all}");
}

#[test]
fn results_say_whether_they_are_approximations() {
    let network = two_classes();
    let solved = [mva::solve, convolution::solve, approximate::schweitzer, approximate::linearizer]
        .map(|solve| solve(&network).unwrap().method);
    assert_eq!(solved.map(|method| method.is_exact()), [true, true, false, false]);
    assert_eq!(solved[3].to_string(), "Linearizer (an approximation)");
}

#[test]
fn linearizer_solves_millions_of_customers() {
    let mut network = two_classes();
    network.customers = vec![u32::MAX, 1];
    for solve in [approximate::schweitzer, approximate::linearizer] {
        // The processor alone is the bottleneck.
        near(solve(&network).unwrap().throughput[0], 0.5, 1e-6);
    }
}

#[test]
fn networks_that_take_too_long_are_refused() {
    let of = |customers: u32, stations: Vec<Station>| ClosedNetwork {
        customers: vec![customers],
        think: vec![0.0],
        stations,
    };
    // 2^10 networks of 20 000 sizes fit into memory, but each needs the probabilities of 400 numbers of customers.
    let several = of(20_000, vec![station(fcfs(41), &[1.0], &[1.0]); 10]);
    assert!(mva::solve(&several).unwrap_err().to_string().contains("steps, more than"));
    let classes = 5_000;
    let of_many = ClosedNetwork {
        customers: vec![1; classes],
        think: vec![1.0; classes],
        stations: vec![station(PS, &vec![1.0; classes], &vec![1.0; classes])],
    };
    let refused = approximate::linearizer(&of_many).unwrap_err().to_string();
    assert!(refused.contains("takes 25000000 numbers in memory"), "{refused}");
    assert!(approximate::schweitzer(&of_many).is_ok());
}

#[test]
fn approximations_settle_where_stations_are_nearly_alike() {
    let network = ClosedNetwork {
        customers: vec![u32::MAX],
        think: vec![0.0],
        stations: [1.0, 1.0 - 1e-4].map(|service| station(PS, &[1.0], &[service])).to_vec(),
    };
    for solve in [approximate::schweitzer, approximate::linearizer] {
        // The slower station is always busy, so the other one has open arrivals.
        near(solve(&network).unwrap().residence[1][0], (1.0 - 1e-4) / 1e-4, 1e-3);
    }
}
