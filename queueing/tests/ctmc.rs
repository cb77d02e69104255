//! Nets as Markov chains against published figures, mean value analysis, simulation and choices computed by hand.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod nets;

use iocast_queueing::exact::ctmc::{ColorFigures, CtmcError, STATES_MAX, SteadyState, solve};
use iocast_queueing::exact::mva;
use iocast_queueing::exact::network::{ClosedNetwork, Discipline, Station};
use iocast_queueing::net::Net;
use iocast_queueing::simulation::{Estimate, Settings, simulate};
use nets::{HEAD, arrow, head_of_line, net, paper, queue, station};
use serde::Deserialize;

fn solved(net: &Net) -> SteadyState {
    solve(net, STATES_MAX).unwrap()
}

fn place(net: &Net, name: &str) -> Vec<ColorFigures> {
    let at = net.places.iter().position(|place| place.name == name).unwrap();
    solved(net).places[at].clone()
}

fn near(found: f64, expected: f64, off: f64) {
    assert!((found - expected).abs() <= off, "{found} instead of {expected}");
}

#[test]
fn papers_net_has_the_agreed_throughput() {
    let think = |mean: u32| format!("exponential = {{ mean = {mean} }}");
    for (net, expected) in [
        (paper([30, 10], &think(20), 1), [0.829_257_9, 0.340_624_3]),
        (paper([5, 3], &think(4), 1), [0.723_855_9, 0.408_547_5]),
    ] {
        let storage = place(&net, "storage");
        near(storage[0].throughput, expected[0], 6e-8);
        near(storage[1].throughput, expected[1], 6e-8);
        // The storage is busy for what it serves.
        let busy = storage[0].throughput + 0.5 * storage[1].throughput;
        near(solved(&net).utilisation[1], busy, 1e-10);
    }
}

#[test]
fn closed_head_of_line_has_the_agreed_response() {
    let cpu = place(&head_of_line(), "cpu");
    near(cpu[0].residence, 1.897, 5e-4);
    near(cpu[1].residence, 3.4558, 5e-5);
}

/// Networks that LINE solved as Markov chains: `oracles/line.py`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LineNetwork {
    name: String,
    clients: [u32; 2],
    think: [f64; 2],
    order: String,
    servers: u32,
    service: [f64; 2],
    throughput: [f64; 2],
    population: [f64; 2],
}

#[test]
fn chains_agree_with_line() {
    #[derive(Deserialize)]
    struct Answers {
        networks: Vec<LineNetwork>,
    }
    let Answers { networks } = toml::from_str(include_str!("../oracles/line.toml")).unwrap();
    assert_eq!(networks.len(), 6);
    for LineNetwork { name, clients, think, order, servers, service, throughput, population } in networks {
        let initial = clients.map(|clients| format!(", initial = {clients}"));
        let text = [
            HEAD.to_owned(),
            queue("think", "is") + &queue("cpu", &order) + &format!("servers = {servers}\n"),
            station("think", think, [&initial[0], &initial[1]]),
            station("cpu", service, [", priority = 2", ", priority = 1"]),
            arrow("think", "cpu") + &arrow("cpu", "think"),
        ];
        let cpu = place(&net(&text.concat()), "cpu");
        for class in [0, 1] {
            // LINE's answers are stored to nine digits.
            let off = [cpu[class].throughput / throughput[class], cpu[class].population / population[class]];
            assert!(off.iter().all(|ratio| (ratio - 1.0).abs() < 1e-7), "{name}: {cpu:?}");
        }
    }
}

/// Three and two clients that think, a processor and a disk.
fn two_stations(cpu: &str, cpu_means: [f64; 2], disk: &str, disk_means: [f64; 2], servers: u32) -> Net {
    let text = [
        HEAD.to_owned(),
        queue("think", "is"),
        queue("cpu", cpu) + &format!("servers = {servers}\n") + &queue("disk", disk),
        station("think", [4.0, 6.0], [", initial = 3", ", initial = 2"]),
        station("cpu", cpu_means, [", priority = 1", ", priority = 2"]) + &station("disk", disk_means, ["", ""]),
        arrow("think", "cpu") + &arrow("cpu", "disk") + &arrow("disk", "think"),
    ];
    net(&text.concat())
}

#[test]
fn product_form_networks_agree_with_mean_value_analysis() {
    for servers in [1, 2] {
        for disk in ["fcfs", "random", "priority"] {
            // Orders of service are alike where both classes are.
            let net = two_stations("ps", [1.0, 2.5], disk, [1.5, 1.5], servers);
            let visits = vec![1.0; 2];
            let stations = vec![
                Station {
                    discipline: Discipline::ProcessorSharing { servers },
                    visits: visits.clone(),
                    service: vec![1.0, 2.5],
                },
                Station { discipline: Discipline::FirstComeFirstServed { servers: 1 }, visits, service: vec![1.5; 2] },
            ];
            let exact = mva::solve(&ClosedNetwork { customers: vec![3, 2], think: vec![4.0, 6.0], stations }).unwrap();
            let cpu = place(&net, "cpu");
            for class in [0, 1] {
                near(cpu[class].throughput, exact.throughput[class], 1e-9);
                near(cpu[class].residence, exact.residence[0][class], 1e-8);
            }
        }
    }
}

/// Every figure lies within four half-widths of a 95 % interval, or eight standard errors.
fn agrees_with_simulation(net: &Net) {
    let exact = solved(net);
    let settings = Settings { events: [1_000_000, 1_000_000], precision: None, ..Settings::default() };
    let simulated = simulate(net, &settings).unwrap();
    let check = |estimate: Estimate, exact: f64, what: &str| {
        let width = 4.0 * estimate.half_width.unwrap() + 1e-9;
        assert!((estimate.mean - exact).abs() <= width, "{what}: {estimate:?} beside {exact}");
    };
    for (place, figures) in simulated.places.iter().zip(&exact.places) {
        for (color, exact) in place.colors.iter().zip(figures) {
            let name = format!("{} in {}", color.name, place.name);
            check(color.throughput, exact.throughput, &format!("throughput of {name}"));
            check(color.population, exact.population, &format!("population of {name}"));
            check(color.residence, exact.residence, &format!("residence of {name}"));
        }
    }
    for (queue, exact) in simulated.queues.iter().zip(&exact.utilisation) {
        check(queue.utilisation, *exact, &queue.name);
    }
}

#[test]
fn orders_of_service_agree_with_the_simulation() {
    for (cpu, servers) in [("fcfs", 1), ("fcfs", 2), ("random", 1), ("random", 2), ("priority", 1), ("ps", 2)] {
        agrees_with_simulation(&two_stations(cpu, [0.5, 4.0], "fcfs", [1.5, 0.2], servers));
    }
}

/// Tokens of two colors wait in a place behind a station, and leave it by a timed transition or two by two.
fn gathering(departure: &str) -> Net {
    let gate = format!(
        "[[places]]\nname = \"gate\"\ndeparture = \"{departure}\"\ncolors = [{{ color = \"1\" }}, {{ color = \"2\" }}]\n"
    );
    let text = [
        HEAD.to_owned() + &queue("cpu", "fcfs"),
        station("cpu", [1.0, 3.0], [", initial = 3", ", initial = 2"]) + &gate,
        arrow("cpu", "gate"),
        "[[transitions]]\nname = \"leave\"\ntimed = true\nmodes = [\n\
         { name = \"1\", delay = { exponential = { mean = 0.7 } }, take = [\"gate.1\"], put = [\"cpu.1\"] },\n\
         { name = \"2\", delay = { exponential = { mean = 2 } }, take = [\"gate.2\"], put = [\"cpu.2\"] }]\n"
            .to_owned(),
    ];
    net(&text.concat())
}

#[test]
fn departures_in_order_and_timed_transitions_agree_with_the_simulation() {
    for departure in ["normal", "fifo"] {
        agrees_with_simulation(&gathering(departure));
    }
    let differ = |net: &Net| place(net, "gate")[0].population;
    assert!((differ(&gathering("normal")) - differ(&gathering("fifo"))).abs() > 0.1);
}

/// One token is served for 1, then goes to `a`, `b` or `c`, which serve it for 1 each, and back.
fn choosing(transitions: &str) -> Net {
    let place = |name: &str, initial: u32| {
        format!(
            "[[places]]\nname = \"{name}\"\nqueue = \"{name}\"\ncolors = [{{ color = \"t\", initial = {initial}, \
             service = {{ exponential = {{ mean = 1 }} }} }}]\n"
        )
    };
    let back = ["a", "b", "c"].map(|from| {
        format!(
            "[[transitions]]\nname = \"back {from}\"\nmodes = [{{ name = \"m\", take = [\"{from}.t\"], put = [\"s.t\"] }}]\n"
        )
    });
    let places: String = [("s", 1), ("a", 0), ("b", 0), ("c", 0)].map(|(name, initial)| place(name, initial)).concat();
    let queues: String = ["s", "a", "b", "c"].map(|name| queue(name, "fcfs")).concat();
    net(&format!("name = \"choosing\"\ncolors = [\"t\"]\n{queues}{places}{transitions}{}", back.concat()))
}

#[test]
fn choices_follow_priority_then_transition_weight_then_firing_weight() {
    let mode = |name: &str, weight: u32| {
        format!("{{ name = \"{name}\", weight = {weight}, take = [\"s.t\"], put = [\"{name}.t\"] }}")
    };
    let transition = |name: &str, more: &str, modes: &[String]| {
        format!("[[transitions]]\nname = \"{name}\"\n{more}\nmodes = [{}]\n", modes.join(", "))
    };
    let shares = |net: &Net| ["a", "b", "c"].map(|name| place(net, name)[0].throughput * 2.0);
    // Of four, three times one transition, whose modes share one to two; the weights of modes count among them alone.
    let both = transition("one", "weight = 3", &[mode("a", 10), mode("b", 20)])
        + &transition("two", "weight = 1", &[mode("c", 50)]);
    for (found, expected) in shares(&choosing(&both)).into_iter().zip([0.25, 0.5, 0.25]) {
        near(found, expected, 1e-10);
    }
    let first = transition("one", "weight = 3", &[mode("a", 1), mode("b", 3)])
        + &transition("two", "weight = 9\npriority = 1", &[mode("c", 1)]);
    for (found, expected) in shares(&choosing(&first)).into_iter().zip([0.0, 0.0, 1.0]) {
        near(found, expected, 1e-10);
    }
}

#[test]
fn rates_that_lie_far_apart_keep_their_digits() {
    // A token goes to `b` once in ten million times, and stays there ten million times as long.
    let mut net = choosing(&EACH.replace("name = \"b\",", "name = \"b\", weight = 1e-7,"));
    net.places[2].colors[0].service = Some(iocast_queueing::distribution::Distribution::Exponential { mean: 1e7 });
    net.transitions[0].modes[2].weight = 1e-7;
    let parts = ["s", "a", "b", "c"].map(|name| place(&net, name)[0].population);
    for (found, expected) in parts.into_iter().zip([1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, 1e-7 / 3.0]) {
        assert!((found / expected - 1.0).abs() < 1e-6, "{parts:?}");
    }
}

#[test]
fn nets_that_are_no_small_chain_are_refused_with_a_remedy() {
    let refused = |net: &Net, states_max: usize| solve(net, states_max).unwrap_err();
    let gamma = refused(&paper([3, 2], "exponential = { mean = 4 }", 4), STATES_MAX).to_string();
    assert_eq!(
        gamma,
        "the service of read in place storage is not exponential with a mean above zero, as a Markov chain needs it: \
         simulate the net"
    );
    let think = refused(&paper([3, 2], "deterministic = { value = 0 }", 1), STATES_MAX).to_string();
    assert!(think.contains("the service of read in place clients"), "{think}");
    // Each of a million tokens that wait in order is a number of every state.
    let mut crowded = choosing(EACH);
    crowded.places[0].colors[0].initial = 1_000_000;
    assert_eq!(refused(&crowded, STATES_MAX), CtmcError::TooLarge);
    // They lie where an immediate transition moves them one by one.
    crowded.places[0].kind = iocast_queueing::net::PlaceKind::Ordinary;
    crowded.places[0].colors[0].service = None;
    assert_eq!(refused(&crowded, STATES_MAX), CtmcError::TooLarge);
    let large = paper([30, 10], "exponential = { mean = 20 }", 1);
    assert_eq!(refused(&large, 500), CtmcError::States(500));
    assert!(solved(&large).states > 500);
}

/// A transition from `s` to each of the others.
const EACH: &str = "[[transitions]]\nname = \"go\"\nmodes = [{ name = \"a\", take = [\"s.t\"], put = [\"a.t\"] }, \
                  { name = \"b\", take = [\"s.t\"], put = [\"b.t\"] }, { name = \"c\", take = [\"s.t\"], put = [\"c.t\"] }]\n";

#[test]
fn nets_without_a_single_steady_state_are_refused() {
    let mut net = choosing(EACH);
    // The token never comes back from two of the places.
    for transition in net.transitions.iter_mut().filter(|transition| ["back a", "back b"].contains(&&*transition.name))
    {
        transition.modes[0].outputs = transition.modes[0].inputs.clone();
    }
    assert_eq!(solve(&net, STATES_MAX), Err(CtmcError::Several));
    for transition in net.transitions.iter_mut().filter(|transition| transition.name == "back b") {
        transition.modes[0].outputs[0].place = 1;
    }
    // From one of them alone it never comes back: in the end it is there.
    near(place(&net, "a")[0].population, 1.0, 1e-12);
    near(place(&net, "s")[0].throughput, 0.0, 1e-12);
}

#[test]
fn nets_without_a_future_are_refused() {
    // Two tokens are taken to give one back, until one is left.
    let mut dwindles = choosing(EACH);
    dwindles.places[0].colors[0].initial = 3;
    dwindles.transitions[0].modes.iter_mut().for_each(|mode| mode.inputs[0].count = 2);
    assert_eq!(solve(&dwindles, STATES_MAX), Err(CtmcError::Stuck));
    // A token runs in circles between places that take no time.
    let mut runs = choosing(EACH);
    for place in &mut runs.places {
        place.kind = iocast_queueing::net::PlaceKind::Ordinary;
        place.colors[0].service = None;
    }
    let error = solve(&runs, STATES_MAX).unwrap_err().to_string();
    assert!(error.starts_with("immediate transitions fire without end: go, back a, back b, back c; give"), "{error}");
}
