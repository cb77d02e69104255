//! Offset and drift between two clocks, by medians.

/// A map from the times of one clock to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockMap {
    /// Added at `origin_ns`.
    pub offset_ns: i64,
    /// The time on the mapped clock at which the offset holds.
    pub origin_ns: u64,
    /// Added per unit of time from there on, in parts per 10¹²: at most an hour in a year of either sign.
    pub drift_ppt: i64,
}

impl ClockMap {
    /// The time on the other clock, which may be before its zero.
    pub fn exact(&self, time_ns: u64) -> i128 {
        let since = i128::from(time_ns) - i128::from(self.origin_ns);
        i128::from(time_ns)
            + i128::from(self.offset_ns)
            + (since * i128::from(self.drift_ppt)).div_euclid(1_000_000_000_000)
    }

    /// The time on the other clock, at least zero.
    pub fn apply(&self, time_ns: u64) -> u64 {
        u64::try_from(self.exact(time_ns).max(0)).unwrap_or(u64::MAX)
    }

    /// The differences of pairs of times after mapping the first, in ascending order.
    pub fn residuals(&self, pairs: impl Iterator<Item = (u64, u64)>) -> Vec<u64> {
        let off = |(mapped, other): (u64, u64)| self.exact(mapped).abs_diff(i128::from(other)) as u64;
        let mut residuals: Vec<u64> = pairs.map(off).collect();
        residuals.sort_unstable();
        residuals
    }
}

/// The median, the lower of two; `None` without values.
pub(super) fn median(values: &mut [i64]) -> Option<i64> {
    let middle = values.len().checked_sub(1)? / 2;
    Some(*values.select_nth_unstable(middle).1)
}

/// The largest drift that is believed: clocks of computers are off by less than 1 in 1000.
const DRIFT_MAX_PPT: i128 = 1_000_000_000;
/// Pairs below which a drift is noise.
const DRIFT_PAIRS_MIN: usize = 32;

/// The map from the first times to the second. Drift is the median of the slopes between pairs half of the run apart,
/// offset the median of the residuals. This is Theil's incomplete method of 1950, which takes time linear in the number
/// of pairs; that of Theil and Sen takes its square.
pub fn fit(pairs: &[(u64, u64)]) -> ClockMap {
    let mut pairs = pairs.to_vec();
    pairs.sort_unstable();
    let Some(&(first, _)) = pairs.first() else { return ClockMap::default() };
    let last = pairs[pairs.len() - 1].0;
    let origin_ns = first + (last - first) / 2;
    let difference = |&(from, to): &(u64, u64)| i128::from(to) - i128::from(from);
    let half = pairs.len() / 2;
    let slopes = pairs.iter().zip(&pairs[half..]).filter_map(|(one, other)| {
        let span = i128::from(other.0 - one.0);
        let slope = ((difference(other) - difference(one)) * 1_000_000_000_000).checked_div(span)?;
        i64::try_from(slope.clamp(-DRIFT_MAX_PPT, DRIFT_MAX_PPT)).ok()
    });
    let mut slopes: Vec<i64> = if pairs.len() < DRIFT_PAIRS_MIN { Vec::new() } else { slopes.collect() };
    let mut map = ClockMap { offset_ns: 0, origin_ns, drift_ppt: median(&mut slopes).unwrap_or(0) };
    let left = pairs
        .iter()
        .map(|&(from, to)| (i128::from(to) - map.exact(from)).clamp(i64::MIN.into(), i64::MAX.into()) as i64);
    map.offset_ns = median(&mut left.collect::<Vec<i64>>()).unwrap_or(0);
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_and_drift_come_back_in_spite_of_wrong_matches() {
        let truth = ClockMap { offset_ns: -5_000_000_000, origin_ns: 30_000_000_000, drift_ppt: 37_000_000 };
        let mut pairs: Vec<(u64, u64)> = (0..2_000u64)
            .map(|step| {
                let time = 10_000_000_000 + step * 20_000_000;
                // Up to 2 us later, in no order.
                (time, truth.apply(time) + step * 7919 % 2_000)
            })
            .collect();
        for pair in pairs.iter_mut().step_by(5) {
            pair.1 += 77_000_000;
        }
        let found = fit(&pairs);
        assert!((found.drift_ppt - truth.drift_ppt).abs() < 100_000, "{found:?}");
        for time in [10_000_000_000u64, 30_000_000_000, 50_000_000_000] {
            let off = found.exact(time) - truth.exact(time);
            assert!((0..3_000).contains(&off), "{off} at {time}");
        }
        assert_eq!(found.residuals(pairs.iter().copied())[1_000] / 3_000, 0);
    }

    #[test]
    fn few_pairs_give_an_offset_only_and_times_before_zero_are_told() {
        let map = fit(&[(100, 50), (200, 150), (300, 240)]);
        assert_eq!((map.drift_ppt, map.offset_ns), (0, -50));
        assert_eq!(map.exact(20), -30);
        assert_eq!(map.apply(20), 0);
        assert_eq!(fit(&[]), ClockMap::default());
    }
}
