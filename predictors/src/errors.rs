//! Errors of forecasts against the measured or replayed truth.
//!
//! The error of a figure is |forecast - truth| / truth. Means come with their 95 % confidence intervals. A true value
//! without a forecast counts as left out. The module also counts the true values within stated intervals and the
//! dispatch orders that were identified, and averages forecasts over repetitions.

use std::collections::BTreeMap;

use traces::results::prediction::{
    DevicePolicy, Forecast, ForecastError, Identified, Intervals, Outcome, PairPrediction,
};
use traces::statistics::mean_and_half_width;

/// A figure of a forecast.
struct Figure {
    name: &'static str,
    /// Its values in a forecast: one for each VM, or one for all VMs together.
    values: fn(&Forecast) -> Vec<Option<f64>>,
    /// The stated intervals of these values.
    stated: fn(&Intervals) -> &[Option<[f64; 2]>],
}

const FIGURES: [Figure; 9] = [
    Figure {
        name: "read_response",
        values: |forecast| forecast.read_response_ns.clone(),
        stated: |intervals| &intervals.read_response_ns,
    },
    Figure {
        name: "write_response",
        values: |forecast| forecast.write_response_ns.clone(),
        stated: |intervals| &intervals.write_response_ns,
    },
    Figure {
        name: "read_p99",
        values: |forecast| p99(&forecast.read_percentiles_ns),
        stated: |intervals| &intervals.read_p99_ns,
    },
    Figure {
        name: "write_p99",
        values: |forecast| p99(&forecast.write_percentiles_ns),
        stated: |intervals| &intervals.write_p99_ns,
    },
    Figure {
        name: "read_iops",
        values: |forecast| forecast.read_iops.clone(),
        stated: |intervals| &intervals.read_iops,
    },
    Figure {
        name: "write_iops",
        values: |forecast| forecast.write_iops.clone(),
        stated: |intervals| &intervals.write_iops,
    },
    Figure { name: "total_read_iops", values: |forecast| vec![forecast.total_read_iops], stated: |_| &[] },
    Figure { name: "total_write_iops", values: |forecast| vec![forecast.total_write_iops], stated: |_| &[] },
    Figure { name: "mix_read", values: |forecast| vec![forecast.mix_read], stated: |_| &[] },
];

fn p99(percentiles: &BTreeMap<String, Vec<Option<f64>>>) -> Vec<Option<f64>> {
    percentiles.get("p99").cloned().unwrap_or_default()
}

/// Errors by predictor and figure.
pub type Errors = BTreeMap<String, BTreeMap<String, ForecastError>>;

/// The errors of every predictor over `pairs` with a truth, by figure. If a predictor refuses, all true values count as
/// left out.
pub fn errors(pairs: &[PairPrediction]) -> Errors {
    of(&pairs.iter().collect::<Vec<&PairPrediction>>())
}

/// The errors by the number of VMs that share a device; empty if that number is the same for all pairs.
pub fn by_size(pairs: &[PairPrediction]) -> BTreeMap<usize, Errors> {
    let mut sizes: BTreeMap<usize, Vec<&PairPrediction>> = BTreeMap::new();
    pairs.iter().for_each(|pair| sizes.entry(pair.vms.len()).or_default().push(pair));
    if sizes.len() < 2 {
        return BTreeMap::new();
    }
    sizes.into_iter().map(|(size, pairs)| (size, of(&pairs))).collect()
}

/// How often each predictor identifies the device's dispatch order, over groups with a known order and predictors that
/// state one.
pub fn policies(pairs: &[PairPrediction]) -> BTreeMap<String, Identified> {
    let mut policies: BTreeMap<String, Identified> = BTreeMap::new();
    for pair in pairs {
        let Some(truth) = pair.truth.as_ref().and_then(|truth| truth.policy.as_ref()) else { continue };
        for (name, outcome) in &pair.predictors {
            let Outcome::Forecast(Forecast { policy: Some(stated), .. }) = outcome else { continue };
            let right = stated.name == truth.name;
            let found = policies.entry(name.clone()).or_default();
            found.groups += 1;
            found.right += u64::from(right);
            found.right_and_sure += u64::from(right && stated.sure);
            found.wrong_but_sure += u64::from(!right && stated.sure);
        }
    }
    policies
}

fn of(pairs: &[&PairPrediction]) -> Errors {
    let mut errors = Errors::new();
    let names = pairs.iter().flat_map(|pair| pair.predictors.keys());
    for name in names {
        errors.entry(name.clone()).or_insert_with(|| {
            FIGURES.iter().map(|figure| (figure.name.to_owned(), of_figure(pairs, name, figure))).collect()
        });
    }
    errors
}

fn of_figure(pairs: &[&PairPrediction], name: &str, figure: &Figure) -> ForecastError {
    let values = figure.values;
    let mut relative = Vec::new();
    let mut left_out = 0;
    let mut within = Vec::new();
    for (truth, outcome) in pairs.iter().filter_map(|pair| Some((pair.truth.as_ref()?, pair.predictors.get(name)?))) {
        let forecast = match outcome {
            Outcome::Forecast(forecast) => values(forecast),
            Outcome::Refused { .. } => Vec::new(),
        };
        let stated = match outcome {
            Outcome::Forecast(Forecast { intervals_90: Some(intervals), .. }) => (figure.stated)(intervals),
            _ => &[],
        };
        for (index, truth) in values(truth).into_iter().enumerate() {
            match (truth.filter(|truth| *truth > 0.0), forecast.get(index).copied().flatten()) {
                (Some(truth), Some(forecast)) => relative.push((forecast - truth).abs() / truth),
                (Some(_), None) => left_out += 1,
                (None, _) => {}
            }
            if let (Some(truth), Some([low, high])) = (truth, stated.get(index).copied().flatten()) {
                within.push((low..=high).contains(&truth));
            }
        }
    }
    if relative.is_empty() {
        return ForecastError { left_out, ..ForecastError::default() };
    }
    let (mean, half) = mean_and_half_width(&relative);
    ForecastError {
        forecasts: relative.len() as u64,
        left_out,
        mean: Some(mean),
        ci95: half.map(|half| [mean - half, mean + half]),
        max: relative.iter().copied().reduce(f64::max),
        within_stated: (!within.is_empty())
            .then(|| within.iter().filter(|within| **within).count() as f64 / within.len() as f64),
    }
}

/// The dispatch order that most of `forecasts` state, the first among equals. It is sure only if all forecasts state it
/// and all are sure.
fn agreed(forecasts: &[Forecast]) -> Option<DevicePolicy> {
    let stated: Vec<&DevicePolicy> = forecasts.iter().filter_map(|forecast| forecast.policy.as_ref()).collect();
    let votes = |policy: &DevicePolicy| stated.iter().filter(|other| other.name == policy.name).count();
    let most = stated.iter().rev().max_by_key(|policy| votes(policy))?;
    let sure = votes(most) == forecasts.len() && stated.iter().all(|policy| policy.sure);
    Some(DevicePolicy { name: most.name.clone(), sure })
}

/// The mean of each figure over `forecasts` of the same VMs; `None` for a figure that any of them lacks.
pub fn mean(forecasts: &[Forecast]) -> Forecast {
    let over = |values: Vec<Option<f64>>| -> Option<f64> {
        let all = values.iter().copied().collect::<Option<Vec<f64>>>()?;
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    };
    let one = |of: fn(&Forecast) -> Option<f64>| over(forecasts.iter().map(of).collect());
    let each = |of: fn(&Forecast) -> &Vec<Option<f64>>| {
        let vms = forecasts.first().map_or(0, |forecast| of(forecast).len());
        let at =
            |index: usize| over(forecasts.iter().map(|forecast| of(forecast).get(index).copied().flatten()).collect());
        (0..vms).map(at).collect::<Vec<Option<f64>>>()
    };
    let named = |of: fn(&Forecast) -> &BTreeMap<String, Vec<Option<f64>>>| {
        let names = forecasts.iter().flat_map(|forecast| of(forecast).keys().cloned());
        let of_name = |name: String| {
            let vms = forecasts.iter().map(|forecast| of(forecast).get(&name).map_or(0, Vec::len)).max();
            let at =
                |index: usize| over(forecasts.iter().map(|forecast| *of(forecast).get(&name)?.get(index)?).collect());
            let each = (0..vms.unwrap_or(0)).map(at).collect();
            (name, each)
        };
        names.map(of_name).collect::<BTreeMap<String, Vec<Option<f64>>>>()
    };
    let intervals = |of: fn(&Intervals) -> &Vec<Option<[f64; 2]>>| {
        let all: Vec<&Vec<Option<[f64; 2]>>> =
            forecasts.iter().filter_map(|forecast| forecast.intervals_90.as_ref().map(of)).collect();
        let vms = all.first().map_or(0, |each| each.len());
        let end = |index: usize, end: usize| {
            over(all.iter().map(|each| each.get(index).copied().flatten().map(|ends| ends[end])).collect())
        };
        let at = |index: usize| Some([end(index, 0)?, end(index, 1)?]);
        (0..vms).map(at).collect::<Vec<Option<[f64; 2]>>>()
    };
    let stated = !forecasts.is_empty() && forecasts.iter().all(|forecast| forecast.intervals_90.is_some());
    let mut notes: Vec<String> = forecasts.iter().flat_map(|forecast| forecast.notes.clone()).collect();
    notes.dedup();
    Forecast {
        read_response_ns: each(|forecast| &forecast.read_response_ns),
        write_response_ns: each(|forecast| &forecast.write_response_ns),
        read_iops: each(|forecast| &forecast.read_iops),
        write_iops: each(|forecast| &forecast.write_iops),
        read_percentiles_ns: named(|forecast| &forecast.read_percentiles_ns),
        write_percentiles_ns: named(|forecast| &forecast.write_percentiles_ns),
        // A mean of means: no percentile of it rests on a number of requests.
        read_requests: Vec::new(),
        write_requests: Vec::new(),
        intervals_90: stated.then(|| Intervals {
            read_response_ns: intervals(|intervals| &intervals.read_response_ns),
            write_response_ns: intervals(|intervals| &intervals.write_response_ns),
            read_iops: intervals(|intervals| &intervals.read_iops),
            write_iops: intervals(|intervals| &intervals.write_iops),
            read_p99_ns: intervals(|intervals| &intervals.read_p99_ns),
            write_p99_ns: intervals(|intervals| &intervals.write_p99_ns),
        }),
        total_read_iops: one(|forecast| forecast.total_read_iops),
        total_write_iops: one(|forecast| forecast.total_write_iops),
        mix_read: one(|forecast| forecast.mix_read),
        policy: agreed(forecasts),
        notes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forecast(reads: [Option<f64>; 2], total: f64) -> Forecast {
        Forecast { read_response_ns: reads.to_vec(), total_read_iops: Some(total), ..Forecast::default() }
    }

    fn pair(truth: Forecast, predictors: &[(&str, Outcome)]) -> PairPrediction {
        let predictors = predictors.iter().map(|(name, outcome)| ((*name).to_owned(), outcome.clone())).collect();
        PairPrediction { vms: vec!["a".to_owned(), "b".to_owned()], truth: Some(truth), predictors }
    }

    #[test]
    fn errors_are_relative_to_the_truth_and_missing_forecasts_count_as_left_out() {
        let refused = Outcome::Refused { refused: "no".to_owned() };
        let pairs = [
            pair(
                forecast([Some(10.0), Some(20.0)], 100.0),
                &[("one", Outcome::Forecast(forecast([Some(12.0), None], 80.0))), ("other", refused.clone())],
            ),
            pair(
                forecast([Some(10.0), None], 100.0),
                &[("one", Outcome::Forecast(forecast([Some(6.0), Some(1.0)], 110.0))), ("other", refused)],
            ),
        ];
        let errors = errors(&pairs);
        let reads = errors["one"]["read_response"];
        assert_eq!((reads.forecasts, reads.left_out), (2, 1));
        assert!((reads.mean.unwrap() - 0.3).abs() < 1e-12 && (reads.max.unwrap() - 0.4).abs() < 1e-12);
        assert!((errors["one"]["total_read_iops"].mean.unwrap() - 0.15).abs() < 1e-12);
        assert_eq!(errors["other"]["read_response"], ForecastError { left_out: 3, ..ForecastError::default() });
        assert_eq!(errors["one"]["mix_read"], ForecastError::default());
    }

    #[test]
    fn policies_are_right_or_wrong_and_sure_or_not() {
        let of = |name: &str, sure: bool| {
            let policy = Some(DevicePolicy { name: name.to_owned(), sure });
            Forecast { policy, ..Forecast::default() }
        };
        let stated =
            |truth: &str, name: &str, sure: bool| pair(of(truth, true), &[("one", Outcome::Forecast(of(name, sure)))]);
        let unknown = pair(Forecast::default(), &[("one", Outcome::Forecast(of("fcfs", true)))]);
        let pairs =
            [stated("fcfs", "fcfs", true), stated("fcfs", "fcfs", false), stated("fcfs", "weighted", true), unknown];
        let found = Identified { groups: 3, right: 2, right_and_sure: 1, wrong_but_sure: 1 };
        assert_eq!(policies(&pairs), BTreeMap::from([("one".to_owned(), found)]));
        let agreed = mean(&[of("fcfs", true), of("weighted", true), of("fcfs", true)]).policy;
        assert_eq!(agreed, Some(DevicePolicy { name: "fcfs".to_owned(), sure: false }));
        assert_eq!(mean(&[of("fcfs", true), of("fcfs", true)]).policy.map(|policy| policy.sure), Some(true));
    }

    #[test]
    fn within_stated_is_the_share_of_truths_inside_their_intervals() {
        let of = |stated: [f64; 2]| {
            let intervals = Intervals { read_response_ns: vec![Some(stated), None], ..Intervals::default() };
            let said = Forecast { intervals_90: Some(intervals), ..forecast([Some(10.0), Some(1.0)], 1.0) };
            pair(forecast([Some(10.0), Some(1.0)], 1.0), &[("one", Outcome::Forecast(said))])
        };
        let pairs = [of([9.0, 11.0]), of([11.0, 12.0]), of([8.0, 9.0]), of([10.0, 10.0])];
        let errors = errors(&pairs);
        assert_eq!(errors["one"]["read_response"].within_stated, Some(0.5));
        assert_eq!(errors["one"]["read_iops"].within_stated, None);
    }

    #[test]
    fn errors_by_size_are_empty_unless_sizes_differ() {
        let of = |size: usize, forecast_is: f64| PairPrediction {
            vms: vec!["a".to_owned(); size],
            ..pair(
                forecast([Some(10.0), None], 1.0),
                &[("one", Outcome::Forecast(forecast([Some(forecast_is), None], 1.0)))],
            )
        };
        assert!(by_size(&[of(2, 10.0), of(2, 12.0)]).is_empty());
        let apart = by_size(&[of(2, 10.0), of(2, 12.0), of(3, 15.0)]);
        let mean = |size: usize| apart[&size]["one"]["read_response"].mean.unwrap();
        assert!((mean(2) - 0.1).abs() < 1e-12 && (mean(3) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn mean_lacks_figures_that_any_forecast_lacks() {
        let all = [forecast([Some(10.0), Some(1.0)], 3.0), forecast([Some(20.0), None], 5.0)];
        assert_eq!(mean(&all), forecast([Some(15.0), None], 4.0));
        assert_eq!(mean(&[]), Forecast::default());
    }
}
