//! QPME's example `pepsy-bcmp2` against exact mean value analysis.

use iocast_queueing::net::description::parse;
use iocast_queueing::simulation::{Estimate, Settings, simulate};

/// How much wider ten intervals are that all hold with 95 %, than ten of which each does (Bonferroni): the normal's
/// 99.75 % over its 97.5 % quantile.
const ALL_TEN: f64 = 2.807 / 1.960;

/// The estimate's interval, widened by a factor, holds `exact`, and is narrower on each side than this share of it.
fn holds(what: &str, estimate: Estimate, exact: f64, rounding: f64, [width_max, factor]: [f64; 2]) {
    let width = estimate.half_width.unwrap();
    assert!(width < width_max * estimate.mean, "{what}: {estimate:?} is wide");
    assert!((estimate.mean - exact).abs() <= factor * width + rounding, "{what}: {estimate:?} beside {exact}");
}

/// Simulates so many events in each of two replications. The intervals of throughputs and of residences are narrower
/// than `widths`. `all` widens them so that all ten hold with 95 %. Few customers go to the slow disk 3, whose interval
/// narrows last.
pub fn agrees(events: u64, [rate_width, residence_width]: [f64; 2], all: bool) {
    let factor = if all { ALL_TEN } else { 1.0 };
    let settings = Settings { precision: None, replications: 2, events: [events; 2], ..Settings::default() };
    let net = parse(include_str!("../../nets/pepsy-bcmp2.toml"), "pepsy-bcmp2.toml").unwrap();
    let result = simulate(&net, &settings).unwrap();
    let color =
        |place: &str, at: usize| &result.places.iter().find(|candidate| candidate.name == place).unwrap().colors[at];
    let rates = [6.204_338_2e-4, 7.338_951_0e-4];
    let residences = [
        ("CPU", [476.723, 588.791]),
        ("disk 1", [2054.57, 2056.49]),
        ("disk 2", [513.605, 513.632]),
        ("disk 3", [40856.8, 40941.1]),
    ];
    for at in [0, 1] {
        holds("terminals", color("terminals", at).throughput, rates[at], 1e-11, [rate_width, factor]);
        for (place, exact) in residences {
            holds(place, color(place, at).residence, exact[at], 0.05, [residence_width, factor]);
        }
    }
}
