//! A mean with its confidence interval.

/// Student's t at 97.5 % for 1 to 30 degrees of freedom (any table); the normal's beyond.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// A mean, and half the width of its 95 % confidence interval if there are two values or more.
pub fn mean_and_half_width(values: &[f64]) -> (f64, Option<f64>) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    if values.len() < 2 {
        return (mean, None);
    }
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let t = T.get(values.len() - 2).copied().unwrap_or(1.96);
    (mean, Some(t * (variance / n).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_width_follows_students_t_and_one_value_has_none() {
        // 2, 4, 9: mean 5, standard deviation 3.6056, t(2) = 4.303.
        let (mean, half) = mean_and_half_width(&[2.0, 4.0, 9.0]);
        assert!((mean - 5.0).abs() < 1e-12 && (half.unwrap() - 4.303 * 3.605_551 / 3.0_f64.sqrt()).abs() < 1e-5);
        assert_eq!(mean_and_half_width(&[7.0]), (7.0, None));
    }
}
