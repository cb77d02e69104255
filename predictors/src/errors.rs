//! Forecasts held against the truth.

use std::collections::BTreeMap;

use traces::results::prediction::{Forecast, ForecastError, Outcome, PairPrediction};
use traces::statistics::mean_and_half_width;

/// A figure's name, and its values in a forecast: one for each machine, or one for all.
type Figure = (&'static str, fn(&Forecast) -> Vec<Option<f64>>);

const FIGURES: [Figure; 7] = [
    ("read_response", |forecast| forecast.read_response_ns.clone()),
    ("write_response", |forecast| forecast.write_response_ns.clone()),
    ("read_iops", |forecast| forecast.read_iops.clone()),
    ("write_iops", |forecast| forecast.write_iops.clone()),
    ("total_read_iops", |forecast| vec![forecast.total_read_iops]),
    ("total_write_iops", |forecast| vec![forecast.total_write_iops]),
    ("mix_read", |forecast| vec![forecast.mix_read]),
];

/// The errors of every predictor over `pairs` with a truth, by figure. A predictor that refuses leaves out what there is a truth of.
pub fn errors(pairs: &[PairPrediction]) -> BTreeMap<String, BTreeMap<String, ForecastError>> {
    let mut errors: BTreeMap<String, BTreeMap<String, ForecastError>> = BTreeMap::new();
    let names = pairs.iter().flat_map(|pair| pair.predictors.keys());
    for name in names {
        errors.entry(name.clone()).or_insert_with(|| {
            FIGURES.iter().map(|(figure, values)| ((*figure).to_owned(), of_figure(pairs, name, *values))).collect()
        });
    }
    errors
}

fn of_figure(pairs: &[PairPrediction], name: &str, values: fn(&Forecast) -> Vec<Option<f64>>) -> ForecastError {
    let mut relative = Vec::new();
    let mut left_out = 0;
    for (truth, outcome) in pairs.iter().filter_map(|pair| Some((pair.truth.as_ref()?, pair.predictors.get(name)?))) {
        let forecast = match outcome {
            Outcome::Forecast(forecast) => values(forecast),
            Outcome::Refused { .. } => Vec::new(),
        };
        for (index, truth) in values(truth).into_iter().enumerate() {
            match (truth.filter(|truth| *truth > 0.0), forecast.get(index).copied().flatten()) {
                (Some(truth), Some(forecast)) => relative.push((forecast - truth).abs() / truth),
                (Some(_), None) => left_out += 1,
                (None, _) => {}
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
    }
}

/// The mean of each figure over `forecasts` of the same machines, where all of them have it.
pub fn mean(forecasts: &[Forecast]) -> Forecast {
    let over = |values: Vec<Option<f64>>| -> Option<f64> {
        let all = values.iter().copied().collect::<Option<Vec<f64>>>()?;
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    };
    let one = |of: fn(&Forecast) -> Option<f64>| over(forecasts.iter().map(of).collect());
    let each = |of: fn(&Forecast) -> &Vec<Option<f64>>| {
        let machines = forecasts.first().map_or(0, |forecast| of(forecast).len());
        let at =
            |index: usize| over(forecasts.iter().map(|forecast| of(forecast).get(index).copied().flatten()).collect());
        (0..machines).map(at).collect::<Vec<Option<f64>>>()
    };
    let mut notes: Vec<String> = forecasts.iter().flat_map(|forecast| forecast.notes.clone()).collect();
    notes.dedup();
    Forecast {
        read_response_ns: each(|forecast| &forecast.read_response_ns),
        write_response_ns: each(|forecast| &forecast.write_response_ns),
        read_iops: each(|forecast| &forecast.read_iops),
        write_iops: each(|forecast| &forecast.write_iops),
        total_read_iops: one(|forecast| forecast.total_read_iops),
        total_write_iops: one(|forecast| forecast.total_write_iops),
        mix_read: one(|forecast| forecast.mix_read),
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
    fn errors_are_relative_to_the_truth_and_what_is_not_said_is_counted() {
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
    fn a_mean_is_over_what_all_have() {
        let all = [forecast([Some(10.0), Some(1.0)], 3.0), forecast([Some(20.0), None], 5.0)];
        assert_eq!(mean(&all), forecast([Some(15.0), None], 4.0));
        assert_eq!(mean(&[]), Forecast::default());
    }
}
