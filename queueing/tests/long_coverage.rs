//! How often the 95 % intervals of simulations hold the exact answer, over many seeds.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod coverage;

use coverage::{EXACT, papers_net, share_covered};
use iocast_queueing::simulation::{Method, Settings};

/// With these many runs the share of a sound 95 % interval lies within 93 to 97 % nearly always.
const SEEDS: u64 = 500;

#[test]
fn batch_means_hold_the_exact_answer_in_93_to_97_of_100_runs() {
    let settings = Settings { precision: None, events: [1_000_000; 2], ..Settings::default() };
    let covered = share_covered(&papers_net(), EXACT, &settings, SEEDS);
    println!("batch means: {covered:?}");
    assert!(covered.iter().all(|share| (0.93..=0.97).contains(share)), "{covered:?}");
}

#[test]
fn replications_hold_the_exact_answer_in_93_to_97_of_100_runs() {
    let method = Method::Replications;
    let settings = Settings { precision: None, method, replications: 20, events: [50_000; 2], ..Settings::default() };
    let covered = share_covered(&papers_net(), EXACT, &settings, SEEDS);
    println!("replications: {covered:?}");
    assert!(covered.iter().all(|share| (0.93..=0.97).contains(share)), "{covered:?}");
}

#[test]
fn stopping_at_a_precision_holds_the_exact_answer_in_93_to_97_of_100_runs() {
    let settings = Settings { precision: Some(0.005), ..Settings::default() };
    let covered = share_covered(&papers_net(), EXACT, &settings, SEEDS);
    println!("stop at 0.5 %: {covered:?}");
    assert!(covered.iter().all(|share| (0.93..=0.97).contains(share)), "{covered:?}");
}
