//! Sums and products of positive numbers beyond a float's range.

/// 2^512, the step of exponents.
const STEP: f64 = f64::from_bits((1023 + 512) << 52);

/// 2^-512.
const SHRINK: f64 = f64::from_bits((1023 - 512) << 52);

/// 2^256: the upper end of mantissas.
const HIGH: f64 = f64::from_bits((1023 + 256) << 52);

/// 2^-256: the lower end of mantissas.
const LOW: f64 = f64::from_bits((1023 - 256) << 52);

/// A number from 0 on: mantissa · 2^(512 · exponent). The mantissa is 0, or from 2^-256 to below 2^256; steps are
/// exact, so sums and products round as those of floats do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scaled {
    mantissa: f64,
    exponent: i64,
}

impl Scaled {
    pub const ZERO: Scaled = Scaled { mantissa: 0.0, exponent: i64::MIN / 2 };
    pub const ONE: Scaled = Scaled { mantissa: 1.0, exponent: 0 };

    /// `mantissa` is within 2^±768.
    fn new(mantissa: f64, exponent: i64) -> Scaled {
        if mantissa >= HIGH {
            Scaled { mantissa: mantissa * SHRINK, exponent: exponent + 1 }
        } else if mantissa >= LOW {
            Scaled { mantissa, exponent }
        } else if mantissa > 0.0 {
            Scaled { mantissa: mantissa * STEP, exponent: exponent - 1 }
        } else {
            Scaled::ZERO
        }
    }

    pub fn plus(self, other: Scaled) -> Scaled {
        let (large, small) = if self.exponent >= other.exponent { (self, other) } else { (other, self) };
        match large.exponent - small.exponent {
            0 => Scaled::new(large.mantissa + small.mantissa, large.exponent),
            1 => Scaled::new(large.mantissa + small.mantissa * SHRINK, large.exponent),
            _ => large,
        }
    }

    /// `factor` is 0 or within 2^±256.
    pub fn times(self, factor: f64) -> Scaled {
        Scaled::new(self.mantissa * factor, self.exponent)
    }

    pub fn product(self, other: Scaled) -> Scaled {
        Scaled::new(self.mantissa * other.mantissa, self.exponent + other.exponent)
    }

    /// This number divided by `other`: 0 or infinite where it is beyond a float's range.
    pub fn over(self, other: Scaled) -> f64 {
        let ratio = self.mantissa / other.mantissa;
        match self.exponent.saturating_sub(other.exponent) {
            0 => ratio,
            1 => ratio * STEP,
            -1 => ratio * SHRINK,
            more if more > 1 => f64::INFINITY,
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn power(factor: f64, times: u32) -> Scaled {
        (0..times).fold(Scaled::ONE, |all, _| all.times(factor))
    }

    #[test]
    fn products_beyond_a_float_s_range_keep_their_digits() {
        // Powers of two are exact.
        let (large, small) = (power(1024.0, 1000), power(1.0 / 1024.0, 1000));
        assert_eq!(large.product(small), Scaled::ONE);
        assert_eq!(large.times(3.0).over(large), 3.0);
        assert_eq!((large.over(small), small.over(large)), (f64::INFINITY, 0.0));
    }

    #[test]
    fn sums_cross_steps_of_the_exponent() {
        let (below, above) = (power(2.0, 250), power(2.0, 260));
        assert_eq!(below.plus(above).over(below), 1025.0);
        assert_eq!(above.plus(below), below.plus(above));
        assert_eq!(Scaled::ZERO.plus(below), below);
        assert_eq!(power(2.0, 5000).plus(below), power(2.0, 5000));
        assert_eq!(below.times(0.0), Scaled::ZERO);
        // Doubling a large number carries.
        assert_eq!(power(2.0, 255).plus(power(2.0, 255)), power(2.0, 256));
    }
}
