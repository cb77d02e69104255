#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;

/// One of each kind, with finite fourth moments so that the sample's second moment settles.
fn each() -> Vec<Distribution> {
    vec![
        Distribution::Exponential { mean: 2.0 },
        Distribution::Gamma { mean: 2.0, shape: 4.0 },
        Distribution::Gamma { mean: 3.0, shape: 0.5 },
        Distribution::Gamma { mean: 3.0, shape: 12.5 },
        Distribution::Deterministic { value: 1.5 },
        Distribution::Uniform { low: 1.0, high: 4.0 },
        Distribution::Normal { mean: 1.0, deviation: 1.0 },
        Distribution::Lognormal { mu: 0.5, sigma: 0.4 },
        Distribution::Pareto { scale: 1.0, shape: 9.0 },
        Distribution::Empirical { points: vec![(1.0, 3.0), (9.0, 0.0), (5.0, 1.0)] },
        Distribution::Hyperexponential { probability: 0.3, means: [1.0, 4.0] },
    ]
}

#[test]
fn draws_have_the_stated_moments() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    for distribution in each() {
        let sampler = distribution.sampler();
        let count = 400_000;
        let (mut first, mut second, mut fourth) = (0.0, 0.0, 0.0);
        for _ in 0..count {
            let value = sampler.draw(&mut random);
            assert!(value >= 0.0, "{distribution:?} drew {value}");
            first += value;
            second += value * value;
            fourth += value * value * value * value;
        }
        let n = f64::from(count);
        let (first, second, fourth) = (first / n, second / n, fourth / n);
        let error = |variance: f64| 4.5 * libm::sqrt(variance.max(0.0) / n) + 1e-9;
        let exact = (distribution.mean(), distribution.second_moment());
        assert!((first - exact.0).abs() < error(second - first * first), "{distribution:?}: mean {first}, {exact:?}");
        assert!((second - exact.1).abs() < error(fourth - second * second), "{distribution:?}: {second}, {exact:?}");
    }
}

#[test]
fn sound_parameters_pass_and_unsound_ones_name_their_remedy() {
    for distribution in each() {
        distribution.check().unwrap();
    }
    let nan = f64::NAN;
    let bad = [
        Distribution::Exponential { mean: -1.0 },
        Distribution::Exponential { mean: nan },
        Distribution::Gamma { mean: 1.0, shape: 0.0 },
        Distribution::Deterministic { value: f64::INFINITY },
        Distribution::Uniform { low: 2.0, high: 1.0 },
        Distribution::Normal { mean: -9.0, deviation: 1.0 },
        Distribution::Normal { mean: nan, deviation: 1.0 },
        Distribution::Lognormal { mu: 0.0, sigma: -1.0 },
        Distribution::Lognormal { mu: 1e9, sigma: 1.0 },
        Distribution::Pareto { scale: 1.0, shape: 1.0 },
        Distribution::Empirical { points: vec![] },
        Distribution::Empirical { points: vec![(1.0, -1.0)] },
        Distribution::Hyperexponential { probability: 1.5, means: [1.0, 1.0] },
    ];
    for distribution in bad {
        let problem = distribution.check().unwrap_err();
        assert!(problem.contains("give "), "{distribution:?}: {problem}");
    }
}

#[test]
fn moments_that_do_not_exist_are_infinite() {
    let heavy = Distribution::Pareto { scale: 1.0, shape: 1.5 };
    assert_eq!((heavy.mean(), heavy.second_moment()), (3.0, f64::INFINITY));
}
