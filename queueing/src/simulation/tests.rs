#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use super::*;
use crate::net::description::parse;

const PAPER: &str = include_str!("../../nets/noorshams2014.toml");

fn net(text: &str) -> Net {
    parse(text, "test").unwrap()
}

fn fixed(events: u64) -> Settings {
    Settings { precision: None, events: [events; 2], ..Settings::default() }
}

/// One color that goes from place `a`, an infinite server, to the place that `rest` describes, and back.
fn ring(initial: u32, place: &str, queue: &str) -> Net {
    net(&format!(
        r#"name = "ring"
        colors = ["x"]
        queues = [{{ name = "a", discipline = "is" }}, {{ name = "b", {queue} }}]
        places = [
            {{ name = "a", queue = "a", colors = [
                {{ color = "x", initial = {initial}, service = {{ exponential = {{ mean = 4 }} }} }}] }},
            {{ name = "b", {place} }},
        ]
        transitions = [
            {{ name = "go", modes = [{{ name = "x", take = ["a.x"], put = ["b.x"] }}] }},
            {{ name = "back", modes = [{{ name = "x", take = ["b.x"], put = ["a.x"] }}] }},
        ]"#
    ))
}

const EXPONENTIAL: &str = r#"queue = "b", colors = [{ color = "x", service = { exponential = { mean = 1 } } }]"#;

#[test]
fn results_are_the_same_for_any_number_of_threads() {
    let settings = Settings { replications: 5, histograms: true, ..fixed(50_000) };
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| simulate(&net(PAPER), &settings).unwrap())
    };
    assert_eq!(with(1), with(4));
    assert_ne!(with(1), simulate(&net(PAPER), &Settings { seed: 2, ..settings.clone() }).unwrap());
}

#[test]
fn one_client_each_alternates_strictly_for_services_of_fixed_length() {
    let text = PAPER.replace("exponential = { mean = 20 }", "deterministic = { value = 0 }");
    let text = text.replace("gamma = { mean = 1, shape = 4 }", "deterministic = { value = 1 }");
    let text = text.replace("gamma = { mean = 0.5, shape = 4 }", "deterministic = { value = 0.5 }");
    let text = text.replace("initial = 30", "initial = 1").replace("initial = 10", "initial = 1");
    let result = simulate(&net(&text), &fixed(100_000)).unwrap();
    for color in &result.places[3].colors {
        // A choice by weight would spread the counts by some hundreds.
        assert!((color.throughput.mean - 2.0 / 3.0).abs() < 1e-4, "{color:?}");
    }
}

#[test]
fn transitions_are_chosen_by_weight_then_modes_and_counts_play_no_part() {
    // Nine tokens of x and one of y always wait; a third transition of lower priority never fires.
    let result = simulate(
        &net(r#"name = "choice"
        colors = ["x", "y", "s"]
        queues = [{ name = "q" }]
        places = [
            { name = "p", colors = [{ color = "x", initial = 9 }, { color = "y", initial = 2 }] },
            { name = "s", colors = [{ color = "s", initial = 1 }] },
            { name = "q", queue = "q", colors = [
                { color = "x", service = { deterministic = { value = 1 } } },
                { color = "y", service = { deterministic = { value = 1 } } },
                { color = "s", service = { deterministic = { value = 1 } } }] },
        ]
        transitions = [
            { name = "heavy", weight = 3, modes = [
                { name = "x", weight = 1, take = ["p.x", "s.s"], put = ["q.x"] },
                { name = "y", weight = 4, take = ["p.y", "s.s"], put = ["q.y"] }] },
            { name = "light", weight = 1, modes = [{ name = "x", take = ["p.x", "s.s"], put = ["q.x"] }] },
            { name = "low", priority = -1, modes = [{ name = "s", take = ["s.s"], put = ["q.s"] }] },
            { name = "back", modes = [
                { name = "x", take = ["q.x"], put = ["p.x", "s.s"] },
                { name = "y", take = ["q.y"], put = ["p.y", "s.s"] },
                { name = "s", take = ["q.s"], put = ["s.s"] }] },
        ]"#),
        &fixed(200_000),
    )
    .unwrap();
    let rates: Vec<f64> = result.places[2].colors.iter().map(|color| color.throughput.mean).collect();
    // y is served with probability 3/4 times 4/5.
    assert!((rates[1] - 0.6).abs() < 0.01 && (rates[0] - 0.4).abs() < 0.01 && rates[2] == 0.0, "{rates:?}");
}

#[test]
fn fifo_departure_keeps_tokens_behind_the_first() {
    // y can leave only with a key, which is away for 10 of 10.1; with FIFO x waits behind y.
    let text = r#"name = "fifo"
        colors = ["x", "y", "key"]
        queues = [{ name = "a", discipline = "is" }]
        places = [
            { name = "a", queue = "a", colors = [
                { color = "x", initial = 1, service = { exponential = { mean = 1 } } },
                { color = "y", initial = 1, service = { exponential = { mean = 1 } } },
                { color = "key", initial = 1, service = { deterministic = { value = 10 } } }] },
            { name = "b", departure = "fifo", colors = [{ color = "x" }, { color = "y" }] },
        ]
        transitions = [
            { name = "go", modes = [
                { name = "x", take = ["a.x"], put = ["b.x"] }, { name = "y", take = ["a.y"], put = ["b.y"] }] },
            { name = "back", modes = [
                { name = "x", take = ["b.x"], put = ["a.x"] },
                { name = "y", take = ["b.y", "a.key"], put = ["a.y", "a.key"] }] },
        ]"#;
    let rate = |text: &str| simulate(&net(text), &fixed(50_000)).unwrap().places[1].colors[0].throughput.mean;
    let normal = rate(&text.replace("departure = \"fifo\"", "departure = \"normal\""));
    assert!((normal - 1.0).abs() < 0.03, "{normal}");
    let fifo = rate(text);
    assert!(fifo < 0.5, "{fifo}");
    // The same behind a queue, from which tokens come one by one.
    let served = "service = { deterministic = { value = 0.01 } }";
    let queued = text.replace("name = \"b\", departure", "name = \"b\", queue = \"a\", departure").replace(
        "[{ color = \"x\" }, { color = \"y\" }]",
        &format!("[{{ color = \"x\", {served} }}, {{ color = \"y\", {served} }}]"),
    );
    assert!(queued.contains(served));
    let fifo = rate(&queued);
    assert!(fifo < 0.5, "{fifo}");
}

#[test]
fn random_order_has_the_mean_of_first_come_first_served_and_a_longer_tail() {
    let run = |discipline: &str| {
        let net = ring(8, EXPONENTIAL, &format!("discipline = \"{discipline}\""));
        let result = simulate(&net, &Settings { histograms: true, ..fixed(1_000_000) }).unwrap();
        let color = &result.places[1].colors[0];
        (color.residence.mean, color.histogram.as_ref().unwrap().quantile(0.99).unwrap())
    };
    let (fcfs, random) = (run("fcfs"), run("random"));
    assert!((fcfs.0 - random.0).abs() < 0.02 * fcfs.0 && random.1 > 1.2 * fcfs.1, "{fcfs:?} {random:?}");
}

#[test]
fn parts_of_a_residence_add_up_and_histograms_have_its_mean() {
    let result = simulate(&net(PAPER), &Settings { histograms: true, ..fixed(400_000) }).unwrap();
    for place in &result.places {
        for color in &place.colors {
            if let (Some(queue), Some(depository)) = (color.queue_residence, color.depository_residence) {
                let both = queue.mean + depository.mean;
                assert!((both - color.residence.mean).abs() < 1e-3 * both, "{} {color:?}", place.name);
            }
            let histogram = color.histogram.as_ref().unwrap();
            let sum: f64 = histogram.buckets().map(|(low, high, often)| (low + high) / 2.0 * often as f64).sum();
            let mean = sum / histogram.count() as f64;
            // The scheduler's token rests so rarely that its mean is mostly chance.
            let close = (mean - color.residence.mean).abs() < 0.02 * mean + 1e-4;
            assert!(close, "{} {mean} {color:?}", place.name);
            let little = color.throughput.mean * color.residence.mean;
            assert!((little - color.population.mean).abs() < 1e-9 * little, "{} {color:?}", place.name);
        }
    }
    let busy = result.queues[1].utilisation.mean;
    let demand = result.places[3].colors[0].throughput.mean + 0.5 * result.places[3].colors[1].throughput.mean;
    assert!((busy - demand).abs() < 0.005, "{busy} {demand}");
}

#[test]
fn nets_without_a_future_end_with_an_error_that_names_the_part() {
    let stuck = ring(3, r#"colors = [{ color = "x" }]"#, "servers = 1");
    // Two are taken to give one back, until one is left.
    let mut dwindles = stuck.clone();
    dwindles.transitions[1].modes[0].inputs[0].count = 2;
    let error = simulate(&dwindles, &fixed(100_000)).unwrap_err();
    assert!(matches!(error, SimulationError::Stuck { .. }), "{error}");

    let instant = r#"queue = "b", colors = [{ color = "x", service = { deterministic = { value = 0 } } }]"#;
    let mut standing = ring(1, instant, "discipline = \"is\"");
    standing.places[0].colors[0].service = standing.places[1].colors[0].service.clone();
    let error = simulate(&standing, &fixed(10_000_000)).unwrap_err().to_string();
    assert!(error.contains("time stands still") && error.contains("place"), "{error}");

    let mut looping = stuck;
    looping.places[0].kind = crate::net::PlaceKind::Ordinary;
    looping.places[0].colors[0].service = None;
    let error = simulate(&looping, &fixed(100_000)).unwrap_err().to_string();
    assert!(error.contains("fire without end at time 0: go, back"), "{error}");
}

#[test]
fn a_queue_that_grows_without_bound_is_named() {
    let text = r#"name = "open"
        colors = ["x"]
        queues = [{ name = "q" }]
        places = [{ name = "full", queue = "q", colors = [{ color = "x", service = { exponential = { mean = 1 } } }] }]
        transitions = [
            { name = "in", timed = true, modes = [
                { name = "x", delay = { exponential = { mean = 1 } }, put = ["10000 full.x"] }] },
            { name = "out", modes = [{ name = "x", take = ["full.x"] }] },
        ]"#;
    let error = simulate(&net(text), &fixed(100_000)).unwrap_err().to_string();
    assert!(error.starts_with("place full holds 10"), "{error}");
}

#[test]
fn a_run_ends_at_its_bounds_and_says_that_it_is_not_precise() {
    let ring = ring(8, EXPONENTIAL, "servers = 2");
    let short = Settings { precision: Some(1e-6), events: [1000, 20_000], ..Settings::default() };
    let result = simulate(&ring, &short).unwrap();
    assert!(!result.precise && result.events < 21_000, "{}", result.events);
    let timed = simulate(&ring, &Settings { time: 100.0, ..short }).unwrap();
    assert!(timed.time >= 100.0 && timed.time < 150.0, "{}", timed.time);
}

#[test]
fn warm_up_is_dropped_where_a_net_starts_far_from_its_mean() {
    // A hundred slow customers begin in the think place, and take long to spread.
    let mut slow = ring(100, EXPONENTIAL, "discipline = \"is\"");
    slow.places[1].colors[0].service = Some(crate::distribution::Distribution::Exponential { mean: 400.0 });
    let result = simulate(&slow, &fixed(3000)).unwrap();
    assert!(result.warm_up[0] > 0.02, "{:?}", result.warm_up);
}

#[test]
fn unsound_settings_are_refused_with_a_remedy() {
    let ring = ring(1, EXPONENTIAL, "servers = 1");
    let base = Settings::default();
    let bad = [
        Settings { replications: 0, ..base.clone() },
        Settings { method: Method::Replications, ..base.clone() },
        Settings { precision: Some(f64::NAN), ..base.clone() },
        Settings { events: [10, 5], ..base.clone() },
        Settings { time: f64::NAN, ..base.clone() },
        Settings { watched: vec![Quantity { measure: Measure::Residence, place: 7, color: 0 }], ..base },
    ];
    for settings in bad {
        let error = simulate(&ring, &settings).unwrap_err();
        assert!(matches!(error, SimulationError::Settings(_)), "{error}");
    }
}
