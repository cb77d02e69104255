//! Means with confidence intervals from the batches of replications.

use traces::statistics::mean_and_half_width;

use super::batches::{Batches, Ratio};
use super::{Estimate, Method};

/// Groups of batches of all replications together. The means of more groups are less independent and less normal, and
/// fewer make a wide interval; this many have 30 degrees of freedom.
const GROUPS: usize = 31;

/// The mean of a ratio and its 95 % confidence interval. `warm_ups` has the batches to drop of each replication.
pub(super) fn estimate(replications: &[&Batches], warm_ups: &[usize], of: &Ratio, method: Method) -> Estimate {
    let groups_each = match method {
        Method::BatchMeans => GROUPS.div_ceil(replications.len()),
        Method::Replications => 1,
    };
    let mut parts = Vec::with_capacity(groups_each * replications.len());
    for (batches, &first) in replications.iter().zip(warm_ups) {
        let count = batches.len() - first;
        let groups = groups_each.min(count);
        for group in 0..groups {
            let range = first + group * count / groups..first + (group + 1) * count / groups;
            let sums = range.map(|index| of.parts(batches.row(index)));
            parts.push(sums.fold((0.0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1)));
        }
    }
    interval(&parts)
}

/// The ratio of sums, and its interval by the delta method (Law 2015, Simulation Modeling and Analysis, 9.5.3): for
/// groups (a, b) with ratio r, the values r + (a - r b) / mean(b) have the mean r and the spread of the ratio.
fn interval(parts: &[(f64, f64)]) -> Estimate {
    let (above, below) = parts.iter().fold((0.0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
    if below <= 0.0 {
        return Estimate { mean: 0.0, half_width: None };
    }
    let ratio = above / below;
    let mean_below = below / parts.len() as f64;
    let values: Vec<f64> = parts.iter().map(|part| ratio + (part.0 - ratio * part.1) / mean_below).collect();
    Estimate { mean: ratio, half_width: mean_and_half_width(&values).1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_denominators_give_the_interval_of_a_plain_mean() {
        let estimate = interval(&[(1.0, 1.0), (2.0, 1.0), (3.0, 1.0)]);
        assert_eq!((estimate.mean, estimate.half_width), (2.0, mean_and_half_width(&[1.0, 2.0, 3.0]).1));
    }

    #[test]
    fn a_ratio_without_visits_has_no_interval() {
        assert_eq!(interval(&[(0.0, 0.0), (0.0, 0.0)]), Estimate { mean: 0.0, half_width: None });
    }
}
