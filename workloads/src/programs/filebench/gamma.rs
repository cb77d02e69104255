//! The gamma distribution of file sizes.

use rand::Rng;

use crate::programs::generators::unit;

/// A gamma-distributed number with this shape, at least 1, and this mean (Marsaglia and Tsang 2000, "A simple method
/// for generating gamma variables").
pub(super) fn gamma(generator: &mut impl Rng, shape: f64, mean: f64) -> f64 {
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / libm::sqrt(9.0 * d);
    loop {
        let x = normal(generator);
        let v = 1.0 + c * x;
        let v = v * v * v;
        if v > 0.0 && libm::log(1.0 - unit(generator)) < 0.5 * x * x + d - d * v + d * libm::log(v) {
            return d * v * mean / shape;
        }
    }
}

/// A standard normal number (Marsaglia's polar method).
fn normal(generator: &mut impl Rng) -> f64 {
    loop {
        let (x, y) = (2.0 * unit(generator) - 1.0, 2.0 * unit(generator) - 1.0);
        let s = x * x + y * y;
        if s > 0.0 && s < 1.0 {
            return x * libm::sqrt(-2.0 * libm::log(s) / s);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::generators::Generators;

    #[test]
    fn mean_variance_and_skewness_are_those_of_the_gamma_distribution() {
        let mut generator = Generators::new(1).take();
        let numbers: Vec<f64> = (0..400_000).map(|_| gamma(&mut generator, 1.5, 16_384.0)).collect();
        let moment = |power: i32, about: f64| {
            numbers.iter().map(|number| (number - about).powi(power)).sum::<f64>() / numbers.len() as f64
        };
        let mean = moment(1, 0.0);
        let deviation = libm::sqrt(moment(2, mean));
        assert!((mean / 16_384.0 - 1.0).abs() < 0.01, "{mean}");
        assert!((deviation / (16_384.0 / libm::sqrt(1.5)) - 1.0).abs() < 0.01, "{deviation}");
        let skewness = moment(3, mean) / (deviation * deviation * deviation);
        assert!((skewness / (2.0 / libm::sqrt(1.5)) - 1.0).abs() < 0.03, "{skewness}");
    }
}
