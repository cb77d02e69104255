//! The short form of the check of intervals: forty seeds.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod coverage;

use coverage::{EXACT, papers_net, share_covered};
use iocast_queueing::simulation::Settings;

#[test]
fn intervals_hold_the_exact_answer_about_as_often_as_they_say() {
    let settings = Settings { precision: None, events: [200_000; 2], ..Settings::default() };
    let covered = share_covered(&papers_net(), EXACT, &settings, 40);
    assert!(covered.iter().all(|share| *share >= 0.85), "{covered:?}");
}
