//! The long form of the check against `pepsy-bcmp2`, whose slow disk few customers visit.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod pepsy;

#[test]
fn pepsy_bcmp2_agrees_with_mean_value_analysis_within_half_a_per_cent() {
    pepsy::agrees(30_000_000, [0.0051, 0.02], false);
}
