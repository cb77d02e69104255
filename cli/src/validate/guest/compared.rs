//! Figures measured and simulated under several schedulers: ratios to the baseline, and ranks.

use traces::results::guest::{GuestFigure, GuestRanks, GuestScheduler};
use traces::statistics::mean_and_half_width;

/// A figure under one scheduler, the baseline's first.
pub struct Under {
    pub scheduler: String,
    /// Of each repetition.
    pub measured: Vec<f64>,
    pub simulated: Option<f64>,
}

/// Compares a figure under several schedulers. `unders` has the baseline first, and the same number of repetitions for
/// each scheduler, at least one.
pub fn compare(figure: &str, more_is_better: bool, unders: Vec<Under>) -> GuestFigure {
    let baseline: Vec<f64> = unders.first().map(|under| under.measured.clone()).unwrap_or_default();
    let simulated_baseline = unders.first().and_then(|under| under.simulated);
    let mut schedulers: Vec<GuestScheduler> = Vec::new();
    for (index, under) in unders.into_iter().enumerate() {
        let (measured_mean, half) = mean_and_half_width(&under.measured);
        let ratios: Option<Vec<f64>> =
            under.measured.iter().zip(&baseline).map(|(&of, &base)| over(of, base)).collect();
        let (measured_ratio, ratio_half) = match ratios.as_deref().map(mean_and_half_width) {
            Some((mean, half)) => (Some(mean), half),
            None => (None, None),
        };
        let simulated_ratio = under.simulated.zip(simulated_baseline).and_then(|(of, base)| over(of, base));
        let ratio_error = simulated_ratio.zip(measured_ratio).and_then(|(ours, theirs)| over(ours, theirs));
        schedulers.push(GuestScheduler {
            scheduler: under.scheduler,
            measured: under.measured,
            measured_mean,
            measured_ci95: half.map(|half| [measured_mean - half, measured_mean + half]),
            simulated: under.simulated,
            measured_ratio,
            measured_ratio_ci95: measured_ratio.zip(ratio_half).map(|(mean, half)| [mean - half, mean + half]),
            simulated_ratio,
            ratio_error: ratio_error.filter(|_| index > 0).map(|both| both - 1.0),
            measured_ranks: [1, 1],
            simulated_rank: None,
        });
    }
    rank(&mut schedulers, more_is_better);
    let errors = schedulers.iter().filter_map(|of| of.ratio_error).map(f64::abs);
    GuestFigure {
        figure: figure.to_owned(),
        more_is_better,
        largest_ratio_error: errors.max_by(f64::total_cmp),
        ranks: ranks(&schedulers, more_is_better),
        schedulers,
    }
}

fn over(value: f64, base: f64) -> Option<f64> {
    (base > 0.0).then(|| value / base)
}

/// Whether a scheduler is measured to be better than another: its whole interval is.
fn is_better(one: &GuestScheduler, other: &GuestScheduler, more_is_better: bool) -> bool {
    let (Some([low, high]), Some([other_low, other_high])) = (one.measured_ci95, other.measured_ci95) else {
        return false;
    };
    if more_is_better { low > other_high } else { high < other_low }
}

/// Whether a scheduler is simulated to be better than another.
fn is_simulated_better(one: &GuestScheduler, other: &GuestScheduler, more_is_better: bool) -> bool {
    let both = one.simulated.zip(other.simulated);
    both.is_some_and(|(one, other)| if more_is_better { one > other } else { one < other })
}

/// Gives each scheduler its ranks: behind all that are better for certain, and before all that are worse for certain.
fn rank(schedulers: &mut [GuestScheduler], more_is_better: bool) {
    let all = schedulers.to_vec();
    for scheduler in schedulers {
        let better = all.iter().filter(|other| is_better(other, scheduler, more_is_better)).count();
        let worse = all.iter().filter(|other| is_better(scheduler, other, more_is_better)).count();
        scheduler.measured_ranks = [1 + better, all.len() - worse];
        let before = all.iter().filter(|other| is_simulated_better(other, scheduler, more_is_better)).count();
        scheduler.simulated_rank = scheduler.simulated.map(|_| 1 + before);
    }
}

/// Compares the order of each pair whose order is known.
fn ranks(schedulers: &[GuestScheduler], more_is_better: bool) -> GuestRanks {
    let mut ranks = GuestRanks::default();
    for (index, one) in schedulers.iter().enumerate() {
        for other in &schedulers[index + 1..] {
            let (better, worse) = if is_better(one, other, more_is_better) {
                (one, other)
            } else if is_better(other, one, more_is_better) {
                (other, one)
            } else {
                ranks.tied.push([&one.scheduler, &other.scheduler].map(String::clone));
                continue;
            };
            ranks.ordered += 1;
            if is_simulated_better(better, worse, more_is_better) {
                ranks.agreeing += 1;
            } else {
                ranks.reversed.push([&better.scheduler, &worse.scheduler].map(String::clone));
            }
        }
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn under(scheduler: &str, measured: &[f64], simulated: f64) -> Under {
        Under { scheduler: scheduler.to_owned(), measured: measured.to_vec(), simulated: Some(simulated) }
    }

    /// Three schedulers: `c` is far above the others, whose intervals overlap.
    fn figure(more_is_better: bool) -> GuestFigure {
        let unders =
            vec![under("a", &[10.0, 12.0], 20.0), under("b", &[11.0, 12.0], 19.0), under("c", &[100.0, 101.0], 150.0)];
        compare("x", more_is_better, unders)
    }

    #[test]
    fn ratios_are_means_over_repetitions_with_students_intervals() {
        let found = figure(true);
        let b = &found.schedulers[1];
        // 11/10 and 12/12: mean 1.05, half width t(1) · s/√2 = 12.706 · 0.05.
        let [low, high] = b.measured_ratio_ci95.unwrap();
        assert!((b.measured_ratio.unwrap() - 1.05).abs() < 1e-12);
        assert!((low - (1.05 - 0.6353)).abs() < 1e-3 && (high - (1.05 + 0.6353)).abs() < 1e-3, "{low} {high}");
        assert_eq!(b.simulated_ratio, Some(0.95));
        assert!((b.ratio_error.unwrap() - (0.95 / 1.05 - 1.0)).abs() < 1e-12);
        // 11 and 12: mean 11.5, half width 12.706 · 0.5.
        assert_eq!(b.measured_mean, 11.5);
        assert!((b.measured_ci95.unwrap()[1] - (11.5 + 6.353)).abs() < 1e-3);
        // The baseline's ratio is 1, and has no error. c is 100/10 and 101/12 against 7.5.
        assert_eq!((found.schedulers[0].measured_ratio, found.schedulers[0].ratio_error), (Some(1.0), None));
        let c = 7.5 / ((10.0 + 101.0 / 12.0) / 2.0) - 1.0;
        assert!((found.largest_ratio_error.unwrap() + c).abs() < 1e-12, "{:?}", found.largest_ratio_error);
    }

    #[test]
    fn overlapping_intervals_are_ties_and_only_others_have_an_order() {
        let found = figure(true);
        let ranks: Vec<_> = found.schedulers.iter().map(|of| (of.measured_ranks, of.simulated_rank)).collect();
        assert_eq!(ranks, [([2, 3], Some(2)), ([2, 3], Some(3)), ([1, 1], Some(1))]);
        assert_eq!((found.ranks.ordered, found.ranks.agreeing), (2, 2));
        assert_eq!(found.ranks.tied, [["a", "b"]]);
        assert!(found.ranks.reversed.is_empty());
        // Of a response time the least is best.
        let found = figure(false);
        let ranks: Vec<_> = found.schedulers.iter().map(|of| (of.measured_ranks, of.simulated_rank)).collect();
        assert_eq!(ranks, [([1, 2], Some(2)), ([1, 2], Some(1)), ([3, 3], Some(3))]);
        assert_eq!((found.ranks.ordered, found.ranks.agreeing), (2, 2));
    }

    #[test]
    fn reversed_and_equal_simulations_of_known_orders_are_named() {
        let of = |simulated| vec![under("a", &[10.0, 10.1], 5.0), under("b", &[50.0, 50.1], simulated)];
        for simulated in [4.0, 5.0] {
            let found = compare("x", true, of(simulated));
            assert_eq!((found.ranks.ordered, found.ranks.agreeing), (1, 0), "{simulated}");
            assert_eq!(found.ranks.reversed, [["b", "a"]], "{simulated}");
        }
        assert_eq!(compare("x", true, of(6.0)).ranks.agreeing, 1);
    }

    #[test]
    fn one_repetition_orders_nothing() {
        let found = compare("x", true, vec![under("a", &[1.0], 1.0), under("b", &[9.0], 9.0)]);
        assert_eq!((found.ranks.ordered, found.ranks.tied.len()), (0, 1));
        assert_eq!(found.schedulers[1].measured_ci95, None);
        assert_eq!(found.schedulers[1].measured_ranks, [1, 2]);
    }

    #[test]
    fn figures_without_a_value_have_no_ratio() {
        let mut unders = vec![under("a", &[0.0, 1.0], 0.0), under("b", &[2.0, 2.0], 3.0)];
        let found = compare("x", true, vec![unders.remove(0), unders.remove(0)]);
        let b = &found.schedulers[1];
        assert_eq!((b.measured_ratio, b.simulated_ratio, b.ratio_error), (None, None, None));
        let unsimulated = Under { scheduler: "b".to_owned(), measured: vec![2.0, 2.0], simulated: None };
        let found = compare("x", true, vec![under("a", &[1.0, 1.0], 1.0), unsimulated]);
        assert_eq!((found.schedulers[1].simulated_rank, found.largest_ratio_error), (None, None));
        assert_eq!(found.ranks.reversed, [["b", "a"]]);
    }
}
