//! Scales of values: where they begin and end, and which of them are labelled.

/// Values as far apart as this are shown on a scale of powers of ten.
const FAR_APART: f64 = 100.0;

/// Panels share an axis only if the largest value of each is at least this share of the largest one on it.
const SHARED_MIN: f64 = 0.2;

/// The axis of each panel, given the largest value of each. Axis 0 is that of the largest value, and later ones are
/// finer.
pub(crate) fn axes(largest: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..largest.len()).collect();
    order.sort_by(|&one, &other| largest[other].total_cmp(&largest[one]));
    let mut of_panels = vec![0; largest.len()];
    let mut ends: Vec<f64> = Vec::new();
    for panel in order {
        if ends.last().is_none_or(|end| largest[panel] < SHARED_MIN * end) {
            ends.push(largest[panel]);
        }
        of_panels[panel] = ends.len() - 1;
    }
    of_panels
}

/// The largest of the values, whatever their sign.
pub(crate) fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.filter(|value| value.is_finite()).fold(0.0, |most, value| most.max(value.abs()))
}

/// The name of a panel, with what is special about its axis, whose number is `axis`.
pub(crate) fn with_axis(name: &str, is_logarithmic: bool, axis: usize) -> String {
    let special = [(is_logarithmic, "powers of ten"), (axis == 1, "finer axis"), (axis > 1, "even finer axis")];
    let special: Vec<&str> = special.into_iter().filter(|(is, _)| *is).map(|(_, what)| what).collect();
    if special.is_empty() { name.to_owned() } else { format!("{name} ({})", special.join(", ")) }
}

/// A scale from the lowest to the highest value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    /// Where it begins.
    pub low: f64,
    /// Where it ends.
    pub high: f64,
    /// Whether equal ratios are equally long.
    pub is_logarithmic: bool,
}

impl Scale {
    /// For lines: from zero, unless all values lie in the upper half of what that would show.
    pub fn of_lines(values: impl Iterator<Item = f64>) -> Scale {
        let (low, high) = ends(values);
        let low = if low > 0.0 && low < high / 2.0 { 0.0 } else { low };
        Scale { low, high: if high > low { high } else { low + 1.0 }, is_logarithmic: false }
    }

    /// For values that are far apart, of powers of ten: from the least that is above zero.
    pub fn of_powers(values: impl Iterator<Item = f64>) -> Scale {
        let (low, high) = ends(values.filter(|value| *value > 0.0));
        let low = if low > 0.0 { low } else { 1.0 };
        Scale { low, high: if high > low { high } else { low * 10.0 }, is_logarithmic: true }
    }

    /// For bars: from zero, or of powers of ten where values are far apart, with a little room above.
    pub fn of_bars(values: impl Iterator<Item = f64> + Clone) -> Scale {
        let (low, high) = ends(values);
        if low > 0.0 && high / low > FAR_APART {
            let low = libm::pow(10.0, libm::floor(libm::log10(low) - 0.2));
            return Scale { low, high: high * 1.5, is_logarithmic: true };
        }
        let (low, high) = (low.min(0.0) * 1.08, high.max(0.0) * 1.08);
        Scale { low, high: if high > low { high } else { low + 1.0 }, is_logarithmic: false }
    }

    /// Where a value is, 0 at the lower end and 1 at the upper; what lies beyond is at the end.
    pub fn at(&self, value: f64) -> f64 {
        let share = if self.is_logarithmic {
            let log = |value: f64| libm::log10(value.max(self.low));
            (log(value) - log(self.low)) / (log(self.high) - log(self.low))
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) }
    }

    /// About `count` round values at even distances, two at least unless powers of ten are too far apart, with
    /// their labels.
    pub fn ticks(&self, count: usize) -> Vec<(f64, String)> {
        if self.is_logarithmic {
            return self.powers(count.max(2));
        }
        let count = count.max(2);
        let denser = (count..count + 4).map(|count| self.even(count));
        denser.reduce(|one, next| if one.len() < 2 { next } else { one }).unwrap_or_default()
    }

    fn even(&self, count: usize) -> Vec<(f64, String)> {
        let step = step((self.high - self.low) / count as f64);
        let decimals = (-libm::floor(libm::log10(step) + 1e-9)).max(0.0) as i32;
        let first = libm::ceil(self.low / step - 1e-9);
        let tick = |index: u32| {
            let value = (first + f64::from(index)) * step;
            (value, short(if value == 0.0 { 0.0 } else { value }, decimals))
        };
        (0..=count as u32).map(tick).take_while(|(value, _)| *value <= self.high + step * 1e-9).collect()
    }

    fn powers(&self, count: usize) -> Vec<(f64, String)> {
        let first = libm::ceil(libm::log10(self.low) - 1e-9) as i32;
        let last = libm::floor(libm::log10(self.high)) as i32;
        let every = ((last - first).max(0) as usize + 1).div_ceil(count);
        let power = |exponent: i32| {
            let value = libm::pow(10.0, f64::from(exponent));
            (value, short(value, (-exponent).max(0)))
        };
        let powers: Vec<(f64, String)> = (first..=last).step_by(every).map(power).collect();
        if powers.len() >= 2 {
            return powers;
        }
        // Within about a decade: 1, 2 and 5 times a power of ten, or even steps where these are too far apart.
        let multiples = (first - 1..=last).flat_map(|exponent| [1.0, 2.0, 5.0].map(|of| (of, exponent)));
        let shown = multiples.map(|(of, exponent)| {
            let value = of * libm::pow(10.0, f64::from(exponent));
            (value, short(value, (-exponent).max(0)))
        });
        let shown: Vec<(f64, String)> = shown.filter(|(value, _)| (self.low..=self.high).contains(value)).collect();
        if shown.len() >= 2 { shown } else { self.even(count) }
    }
}

/// The least and the greatest; 0 and 0 if there is none.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let ends = values.filter(|value| value.is_finite()).fold(None, |ends: Option<(f64, f64)>, value| {
        Some(ends.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
    });
    // So far apart that their difference is beyond any number.
    let limited = |value: f64| value.clamp(-1e300, 1e300);
    ends.map_or((0.0, 0.0), |(low, high)| (limited(low), limited(high)))
}

/// The least of 1, 2 and 5 times a power of ten that is at least so long.
fn step(least: f64) -> f64 {
    let power = libm::pow(10.0, libm::floor(libm::log10(least)));
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|times| times * power >= least * (1.0 - 1e-9));
    step.unwrap_or(10.0) * power
}

/// A number with so many decimals; large and small ones as powers of ten.
fn short(value: f64, decimals: i32) -> String {
    if value.abs() >= 1e7 || decimals > 5 { format!("{value:.0e}") } else { format!("{value:.0$}", decimals as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, count: usize) -> Vec<String> {
        scale.ticks(count).into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn panels_share_an_axis_if_none_is_below_a_fifth_of_it() {
        assert_eq!(axes(&[20.0, 100.0, 19.9, 3.9, 4.0]), [0, 0, 1, 2, 1]);
        assert_eq!(axes(&[0.0, 0.0]), [0, 0]);
        assert_eq!(largest([2.0, -7.0, f64::NAN].into_iter()), 7.0);
        assert_eq!(with_axis("response, ms", true, 1), "response, ms (powers of ten, finer axis)");
        assert_eq!(with_axis("response, ms", false, 2), "response, ms (even finer axis)");
        assert_eq!(with_axis("response, ms", false, 0), "response, ms");
    }

    #[test]
    fn ticks_are_round_and_as_many_as_fit() {
        let to = |high: f64| Scale { low: 0.0, high, is_logarithmic: false };
        assert_eq!(labels(to(10.0), 5), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(labels(to(9.9), 4), ["0", "5"]);
        assert_eq!(labels(to(4.6), 2), ["0", "2", "4"]);
        assert_eq!(labels(to(0.97), 5), ["0.0", "0.2", "0.4", "0.6", "0.8"]);
        assert_eq!(labels(to(0.07), 4), ["0.00", "0.02", "0.04", "0.06"]);
        assert_eq!(labels(to(3e8), 3), ["0", "1e8", "2e8", "3e8"]);
        assert_eq!(
            labels(Scale { low: -0.3, high: 0.2, is_logarithmic: false }, 5),
            ["-0.3", "-0.2", "-0.1", "0.0", "0.1", "0.2"]
        );
        let years = Scale::of_lines([1995.0, 2010.0].into_iter());
        assert_eq!(
            (years.low, labels(years, 3)),
            (1995.0, vec!["1995".to_owned(), "2000".to_owned(), "2005".to_owned(), "2010".to_owned()])
        );
    }

    #[test]
    fn bars_begin_at_zero_unless_they_are_far_apart() {
        let near = Scale::of_bars([40.0, 120.0].into_iter());
        assert_eq!((near.low, near.is_logarithmic), (0.0, false));
        assert!((near.at(60.0) - 60.0 / 129.6).abs() < 1e-12);
        let far = Scale::of_bars([561.0, 839_270.0].into_iter());
        assert_eq!((far.low, far.is_logarithmic), (100.0, true));
        assert_eq!(labels(far, 5), ["100", "1000", "10000", "100000", "1000000"]);
        assert_eq!(labels(far, 3), ["100", "10000", "1000000"]);
        assert!((far.at(1000.0) - 1.0 / libm::log10(12_589.05)).abs() < 1e-6);
        let below = Scale::of_bars([-2.0, 1.0].into_iter());
        assert!(below.low < -2.0 && below.high > 1.0 && below.at(0.0) > 0.5);
    }

    #[test]
    fn scale_of_empty_equal_or_non_finite_values_is_valid() {
        for values in [vec![], vec![0.0], vec![f64::NAN, f64::INFINITY], vec![-1e308, 1e308], vec![5.0]] {
            for scale in [Scale::of_bars(values.iter().copied()), Scale::of_lines(values.iter().copied())] {
                assert!(scale.high > scale.low && (1..=6).contains(&scale.ticks(5).len()), "{values:?}: {scale:?}");
                assert!((0.0..=1.0).contains(&scale.at(f64::NAN)) && (0.0..=1.0).contains(&scale.at(7.0)));
            }
        }
    }
}
