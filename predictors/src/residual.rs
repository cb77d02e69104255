//! Corrects the twin's forecasts by its usual errors, which it learns from consolidations whose truth is known.
//!
//! Each VM has four figures: mean response time and throughput of reads and of writes. For each figure,
//!
//! ln(truth / twin) = b0 + b1 ln(twin / alone) + e
//!
//! where b0 is the same for all VMs, the term of b1 grows with the interference between VMs, and e is chance. Ridge
//! regression (Hoerl, Kennard 1970: least squares with a normal prior around zero) finds b0 and b1, so that a few
//! examples change the forecast little. The variance of e follows from the residuals together with its prior. A figure
//! without examples, or one that either forecast lacks, is not corrected.
//!
//! A correction may be judged only on VMs that it has not learned from: leave out every group in which either VM
//! occurs.

use traces::results::prediction::{Forecast, Outcome, PairPrediction};
use traces::spec::Settings;

use crate::predictor::{
    Consolidation, Corrector, Entry, Method, OperationForecast, Outcomes, PredictError, Spread, VmForecast,
};
use crate::solve::solve;
use crate::twin::is_of_wide_intervals;

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "residual",
    summary: "the twin, corrected by its errors for consolidations whose truth is known",
    origin: "ridge regression (Hoerl, Kennard 1970) on the twin's errors",
    tunables: &[],
    needs_traces: true,
    baseline: false,
    build: |_: &Settings| Ok(Method::Corrector(Box::new(Residual::default()))),
};

/// The predictor that is corrected.
const CORRECTED_PREDICTOR: &str = "twin";
/// The predictor that forecasts the figures of each VM alone.
const ALONE_PREDICTOR: &str = "isolation";

/// Standard deviation of e before anything is learned (prior). Set by judgement; not varied.
const ERROR_DEVIATION_PRIOR: f64 = 0.1;
/// Number of examples that this prior counts for. Set by judgement; not varied.
const ERROR_DEVIATION_PRIOR_EXAMPLES: f64 = 4.0;
/// Standard deviations of b0 and b1 before anything is learned (prior). Set by judgement; not varied.
const COEFFICIENT_DEVIATIONS_PRIOR: [f64; 2] = [0.1, 0.25];
/// Number of figures of a VM.
const FIGURES: usize = 4;

/// What was learned about a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Learned {
    /// b0 and b1.
    coefficients: [f64; 2],
    /// Standard deviation of e.
    error_deviation: f64,
}

#[derive(Debug, Default)]
struct Residual {
    /// By figure ([`figures`]); `None` before anything is learned.
    learned: Option<[Learned; FIGURES]>,
}

/// The figures of a VM: response time and throughput of reads, then of writes.
fn figures(vm: &VmForecast) -> [Option<f64>; FIGURES] {
    [vm.reads.response_ns, vm.reads.iops, vm.writes.response_ns, vm.writes.iops]
}

/// ln(one / other), if both are known and positive.
fn log_ratio(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    let (one, other) = one.zip(other)?;
    (one > 0.0 && other > 0.0).then(|| libm::log(one / other))
}

fn forecast_of<'a>(pair: &'a PairPrediction, name: &str) -> Option<&'a Forecast> {
    match pair.predictors.get(name)? {
        Outcome::Forecast(forecast) => Some(forecast),
        Outcome::Refused { .. } => None,
    }
}

/// A VM as an example, by figure: ln(twin / alone) and ln(truth / twin).
type Examples = [Option<(f64, f64)>; FIGURES];

/// The examples of a pair: one for each VM.
fn examples(pair: &PairPrediction) -> Option<Vec<Examples>> {
    let vms = |forecast: &Forecast| Consolidation::from(forecast).vms;
    let twin = vms(forecast_of(pair, CORRECTED_PREDICTOR)?);
    let alone = vms(forecast_of(pair, ALONE_PREDICTOR)?);
    let truth = vms(pair.truth.as_ref()?);
    let of_vm = |((twin, alone), truth): ((&VmForecast, &VmForecast), &VmForecast)| {
        let [twin, alone, truth] = [twin, alone, truth].map(figures);
        std::array::from_fn(|figure| {
            Some((log_ratio(twin[figure], alone[figure])?, log_ratio(truth[figure], twin[figure])?))
        })
    };
    Some(twin.iter().zip(&alone).zip(&truth).map(of_vm).collect())
}

/// Fits a figure to examples (interference ln(twin / alone), error ln(truth / twin)).
fn fit(examples: &[(f64, f64)]) -> Learned {
    let row = |interference: f64| [1.0, interference];
    let mut square = [[0.0; 2]; 2];
    let mut right = [0.0; 2];
    for (index, deviation) in COEFFICIENT_DEVIATIONS_PRIOR.iter().enumerate() {
        square[index][index] = (ERROR_DEVIATION_PRIOR / deviation).powi(2);
    }
    for &(interference, error) in examples {
        for (one, left) in row(interference).into_iter().enumerate() {
            right[one] += left * error;
            row(interference).into_iter().enumerate().for_each(|(other, value)| square[one][other] += left * value);
        }
    }
    let coefficients = solve(square, right).unwrap_or_default();
    let squared_error =
        |&(interference, error): &(f64, f64)| (error - coefficients[0] - coefficients[1] * interference).powi(2);
    let squares = examples.iter().map(squared_error).sum::<f64>()
        + ERROR_DEVIATION_PRIOR_EXAMPLES * ERROR_DEVIATION_PRIOR * ERROR_DEVIATION_PRIOR;
    Learned {
        coefficients,
        error_deviation: (squares / (examples.len() as f64 + ERROR_DEVIATION_PRIOR_EXAMPLES)).sqrt(),
    }
}

impl Residual {
    fn learned(&self) -> Result<&[Learned; FIGURES], PredictError> {
        self.learned.as_ref().ok_or_else(|| {
            PredictError::DoesNotHold(
                "residual has learned nothing; give consolidations whose truth is known (--learn-from with the output \
                 of iocast validate consolidation --output-format json)"
                    .to_owned(),
            )
        })
    }

    fn corrected(&self, twin: &Consolidation, alone: &Consolidation) -> Result<Consolidation, PredictError> {
        let learned = self.learned()?;
        let of_vm = |(twin, alone): (&VmForecast, &VmForecast)| {
            let factors: [f64; FIGURES] = std::array::from_fn(|figure| {
                let [b0, b1] = learned[figure].coefficients;
                log_ratio(figures(twin)[figure], figures(alone)[figure]).map_or(1.0, |log| libm::exp(b0 + b1 * log))
            });
            let spread = |figure: usize| Spread {
                response: learned[figure].error_deviation,
                iops: learned[figure + 1].error_deviation,
                p99: None,
            };
            VmForecast {
                reads: scaled(twin.reads, factors[0], factors[1], spread(0)),
                writes: scaled(twin.writes, factors[2], factors[3], spread(2)),
            }
        };
        let vms = twin.vms.iter().zip(&alone.vms).map(of_vm).collect();
        let notes = twin.notes.iter().filter(|note| !is_of_wide_intervals(note)).cloned().collect();
        Ok(Consolidation { vms, notes, ..Consolidation::default() })
    }
}

/// `forecast` with response times and throughput multiplied by these factors.
fn scaled(forecast: OperationForecast, response: f64, iops: f64, spread: Spread) -> OperationForecast {
    OperationForecast {
        iops: forecast.iops.map(|figure| figure * iops),
        response_ns: forecast.response_ns.map(|figure| figure * response),
        percentiles_ns: forecast.percentiles_ns.map(|figure| figure.map(|figure| figure * response)),
        requests: None,
        spread: Some(spread),
    }
}

impl Corrector for Residual {
    fn learns_from(&self) -> &'static [&'static str] {
        &[CORRECTED_PREDICTOR, ALONE_PREDICTOR]
    }

    fn learn(&mut self, known: &[&PairPrediction]) {
        let mut of_figure: [Vec<(f64, f64)>; FIGURES] = Default::default();
        for vm in known.iter().filter_map(|pair| examples(pair)).flatten() {
            of_figure.iter_mut().zip(vm).for_each(|(all, example)| all.extend(example));
        }
        let any = of_figure.iter().any(|examples| !examples.is_empty());
        self.learned = any.then(|| of_figure.map(|examples| fit(&examples)));
    }

    fn correct(&self, others: &Outcomes) -> Result<Consolidation, PredictError> {
        let of = |name: &str| match others.get(name) {
            Some(Outcome::Forecast(forecast)) => Ok(Consolidation::from(forecast)),
            Some(Outcome::Refused { refused }) => Err(PredictError::DoesNotHold(refused.clone())),
            None => Err(PredictError::DoesNotHold(format!("residual corrects {name}, which has no forecast"))),
        };
        self.learned()?;
        let corrected = self.corrected(&of(CORRECTED_PREDICTOR)?, &of(ALONE_PREDICTOR)?)?;
        corrected.check()?;
        Ok(corrected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forecast(reads_ms: [f64; 2]) -> Forecast {
        let vm = |ms: f64| VmForecast {
            reads: OperationForecast::of_means(Some(1000.0 / ms), Some(ms * 1e6)),
            ..VmForecast::default()
        };
        Consolidation { vms: reads_ms.map(vm).to_vec(), ..Consolidation::default() }.forecast()
    }

    /// A pair whose VMs respond in 5 ms alone, in `twin_ms` together by the twin, and in `truth_ms` in truth.
    fn pair(twin_ms: f64, truth_ms: f64) -> PairPrediction {
        let of = |ms: f64| Outcome::Forecast(forecast([ms, ms]));
        let predictors = [("twin", of(twin_ms)), ("isolation", of(5.0))];
        PairPrediction {
            vms: vec!["a".to_owned(), "b".to_owned()],
            truth: Some(forecast([truth_ms, truth_ms])),
            predictors: predictors.map(|(name, outcome)| (name.to_owned(), outcome)).into(),
        }
    }

    fn corrected(known: &[PairPrediction], twin_ms: f64) -> VmForecast {
        let mut residual = Residual::default();
        residual.learn(&known.iter().collect::<Vec<_>>());
        residual.correct(&pair(twin_ms, 1.0).predictors).unwrap().vms[0]
    }

    #[test]
    fn constant_error_is_corrected_and_narrows_the_spread() {
        // The truth is the twin times the square root of (twin / alone): b0 is 0 and b1 is 1/2.
        let law = |twin: f64| twin * (twin / 5.0f64).sqrt();
        let known: Vec<PairPrediction> =
            (0..400).map(|n| 6.0 + f64::from(n) / 20.0).map(|twin| pair(twin, law(twin))).collect();
        let reads = corrected(&known, 12.0).reads;
        assert!((reads.response_ns.unwrap() / 1e6 / law(12.0) - 1.0).abs() < 0.01, "{reads:?}");
        assert!(reads.spread.unwrap().response < 0.02);
        // Throughput is the reciprocal of the response time here.
        assert!((reads.iops.unwrap() * law(12.0) / 1000.0 - 1.0).abs() < 0.01, "{reads:?}");
    }

    #[test]
    fn single_example_changes_little_and_contradicting_examples_keep_the_spread() {
        let one = corrected(&[pair(10.0, 12.0)], 10.0).reads.response_ns.unwrap() / 1e6;
        assert!(one > 10.2 && one < 11.9, "{one}");
        let known: Vec<PairPrediction> = (0..100).map(|n| pair(10.0, if n % 2 == 0 { 8.0 } else { 12.5 })).collect();
        let contradicted = corrected(&known, 10.0).reads;
        assert!((contradicted.response_ns.unwrap() / 1e7 - 1.0).abs() < 0.02, "{contradicted:?}");
        assert!((contradicted.spread.unwrap().response - libm::log(1.25)).abs() < 0.01, "{contradicted:?}");
    }

    #[test]
    fn corrector_that_has_learned_nothing_refuses() {
        let mut residual = Residual::default();
        let said = residual.correct(&pair(10.0, 10.0).predictors).unwrap_err().to_string();
        assert!(said.contains("--learn-from"), "{said}");
        residual.learn(&[&PairPrediction { truth: None, ..pair(10.0, 10.0) }]);
        assert!(residual.learned.is_none());
        residual.learn(&[&pair(10.0, 10.0)]);
        let said = residual.correct(&Outcomes::new()).unwrap_err().to_string();
        assert!(said.contains("no forecast"), "{said}");
    }
}
