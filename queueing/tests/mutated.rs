//! Descriptions of nets with random changes: they are refused with a reason, or the net that they describe is solved or
//! refused. Nothing panics, and all of it ends.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod nets;

use iocast_queueing::exact::ctmc;
use iocast_queueing::net::{Net, description, draw, qpe};
use iocast_queueing::simulation::{Settings, simulate};
use nets::PAPER;
use proptest::prelude::*;

const QPE: &str = r#"<net><colors><color id="c" name="job"/></colors>
  <queues><queue id="q0" name="think" strategy="IS" number-of-servers="1"/>
    <queue id="q1" name="cpu" strategy="PRIO" number-of-servers="2"/></queues>
  <places><place id="p0" name="think" queue-ref="q0" type="queueing-place" departure-discipline="NORMAL"><color-refs>
      <color-ref id="r0" color-id="c" initial-population="3" distribution-function="Exponential" lambda="0.05"/>
    </color-refs></place>
    <place id="p1" name="cpu" queue-ref="q1" type="queueing-place" departure-discipline="FIFO"><color-refs>
      <color-ref id="r1" color-id="c" distribution-function="Exponential" lambda="2"/></color-refs></place></places>
  <transitions><transition id="t0" name="go" weight="1" priority="0" type="immediate-transition">
      <modes><mode id="m0" name="m" firing-weight="1"/></modes><connections>
        <connection source-id="r0" target-id="m0" count="1"/>
        <connection source-id="m0" target-id="r1" count="1"/></connections></transition>
    <transition id="t1" name="back" weight="1" priority="0" type="immediate-transition">
      <modes><mode id="m1" name="m" firing-weight="1"/></modes><connections>
        <connection source-id="r1" target-id="m1" count="1"/>
        <connection source-id="m1" target-id="r0" count="1"/></connections></transition></transitions></net>"#;

/// What changes put into a text.
const WORDS: &[&str] =
    &["0", "-1", "9", "1e300", "2", "\"", "]", "{", "<", "fcfs", "ps", "random", "read", "weight = 3", "\n", "é"];

/// A change of a text: at a place, so many characters go and these come.
fn change() -> impl Strategy<Value = (usize, usize, String)> {
    let comes = prop_oneof![prop::sample::select(WORDS).prop_map(str::to_owned), ".{0,3}"];
    (0..4000_usize, 0..4_usize, comes)
}

fn changed(text: &str, changes: &[(usize, usize, String)]) -> String {
    let mut letters: Vec<char> = text.chars().collect();
    for (at, goes, comes) in changes {
        let at = at % letters.len();
        let end = (at + goes).min(letters.len());
        letters.splice(at..end, comes.chars());
    }
    letters.into_iter().collect()
}

/// Draws and solves a net that was accepted.
fn solve(net: &Net) {
    assert!(draw::svg(net).contains("</svg>") && draw::dot(net).contains("digraph"));
    if let Ok(state) = ctmc::solve(net, 300) {
        for color in state.places.iter().flatten() {
            let figures = [color.throughput, color.population, color.residence];
            assert!(figures.iter().all(|figure| figure.is_finite() && *figure >= 0.0), "{color:?}");
        }
    }
    // What a simulation refuses it says; it may have no result of so few events.
    if let Err(error) = simulate(net, &Settings { events: [2000, 2000], precision: None, ..Settings::default() }) {
        assert!(!error.to_string().is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_toml_is_refused_or_solved(changes in prop::collection::vec(change(), 1..4)) {
        match description::parse(&changed(PAPER, &changes), "changed.toml") {
            Ok(net) => solve(&net),
            Err(error) => prop_assert!(error.to_string().contains("changed.toml")),
        }
    }

    #[test]
    fn changed_files_of_qpme_are_refused_or_solved(changes in prop::collection::vec(change(), 1..4)) {
        match qpe::parse(&changed(QPE, &changes), "changed.qpe") {
            Ok(net) => solve(&net),
            Err(error) => prop_assert!(error.to_string().contains("changed.qpe")),
        }
    }
}
