//! Uniform numbers made from the 64 random bits that a generator gives.

/// 2^53: a floating-point number holds all smaller integers exactly.
const STEPS: f64 = (1_u64 << 53) as f64;

/// A number in `[0, 1)`, a multiple of 2^-53, made from the upper 53 of `bits`.
pub fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / STEPS
}

/// A number in `(0, 1]`, a multiple of 2^-53, made from the upper 53 of `bits`. It is never 0, so it has a
/// logarithm.
pub fn unit_above_zero(bits: u64) -> f64 {
    ((bits >> 11) + 1) as f64 / STEPS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_excludes_one_and_unit_above_zero_excludes_zero() {
        assert_eq!((unit(0), unit(u64::MAX)), (0.0, 1.0 - f64::EPSILON / 2.0));
        assert_eq!((unit_above_zero(0), unit_above_zero(u64::MAX)), (f64::EPSILON / 2.0, 1.0));
    }
}
