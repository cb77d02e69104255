//! Solvers without simulation against the stored answers of Octave's package `queueing`.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use iocast_queueing::exact::network::{ClosedNetwork, Discipline, Station};
use iocast_queueing::exact::open::{Arrivals, first_come_first_served};
use iocast_queueing::exact::{approximate, convolution, mva};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answers {
    closed: Vec<Closed>,
    open: Vec<Open>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Closed {
    servers: Vec<u32>,
    customers: Vec<u32>,
    think: Vec<f64>,
    visits: Vec<Vec<f64>>,
    service: Vec<Vec<f64>>,
    throughput: Vec<f64>,
    residence: Vec<Vec<f64>>,
    schweitzer: Option<Vec<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Open {
    rate: f64,
    service: f64,
    service_square: f64,
    response: f64,
}

fn answers() -> Answers {
    toml::from_str(include_str!("../oracles/networks.toml")).unwrap()
}

impl Closed {
    fn network(&self) -> ClosedNetwork {
        let station = |number: usize| {
            let service = self.service[number].clone();
            let equal = service.iter().all(|time| *time == service[0]);
            let discipline = match (self.servers[number], equal) {
                (0, _) => Discipline::Delay,
                (servers, true) => Discipline::FirstComeFirstServed { servers },
                (servers, false) => Discipline::ProcessorSharing { servers },
            };
            Station { discipline, visits: self.visits[number].clone(), service }
        };
        ClosedNetwork {
            customers: self.customers.clone(),
            think: self.think.clone(),
            stations: (0..self.servers.len()).map(station).collect(),
        }
    }
}

fn agree(found: &[f64], expected: &[f64], off: f64) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found / expected - 1.0).abs() <= off, "{found} instead of {expected}");
    }
}

#[test]
fn exact_solvers_agree_with_octave() {
    let answers = answers();
    assert_eq!(answers.closed.len(), 40);
    for answer in &answers.closed {
        for solved in [mva::solve(&answer.network()).unwrap(), convolution::solve(&answer.network()).unwrap()] {
            agree(&solved.throughput, &answer.throughput, 1e-10);
            agree(&solved.residence.concat(), &answer.residence.concat(), 1e-10);
        }
    }
}

#[test]
fn schweitzer_s_estimate_agrees_with_octave() {
    let answers = answers();
    let estimated = answers.closed.iter().filter_map(|answer| Some((answer, answer.schweitzer.as_ref()?)));
    assert_eq!(estimated.clone().count(), 20);
    for (answer, expected) in estimated {
        agree(&approximate::schweitzer(&answer.network()).unwrap().throughput, expected, 1e-8);
    }
}

#[test]
fn pollaczek_and_khinchine_agree_with_octave() {
    let answers = answers();
    assert_eq!(answers.open.len(), 10);
    for Open { rate, service, service_square, response } in answers.open {
        let stays = first_come_first_served(&[Arrivals { rate, service, service_square }]).unwrap();
        agree(&[stays[0].response], &[response], 1e-12);
    }
}
