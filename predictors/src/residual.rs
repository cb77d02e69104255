//! What another forecast is usually off by, learned from consolidations whose truth is known.
//!
//! For each of a machine's four figures f (response and throughput of reads and of writes) the logarithm of what the twin misses it by is
//! taken for b0 + b1 ln(twin / alone) + e: a share that is the same for all, one that grows with how much machines disturb one another,
//! and chance. b is found by least squares with a normal prior around zero (ridge regression), so that a few examples move the
//! forecast little, and the variance of e from what is left over, together with its prior. Figures of which nothing is known stay as they are.
//!
//! A correction may be judged only on machines that it has not learned from: leave out every group in which either machine occurs.

use traces::results::prediction::{Forecast, Outcome, PairPrediction};
use traces::spec::Settings;

use crate::predictor::{
    Consolidation, Corrector, Entry, Method, OperationForecast, Outcomes, PredictError, Spread, VmForecast,
};
use crate::solve::solve;

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "residual",
    summary: "the twin, corrected by what it was off by where the truth is known",
    origin: "ridge regression (Hoerl, Kennard 1970) on the twin's errors",
    tunables: &[],
    needs_traces: true,
    build: |_: &Settings| Ok(Method::Corrector(Box::new(Residual::default()))),
};

const CORRECTED: &str = "twin";
const ALONE: &str = "isolation";

/// Standard deviation of what a forecast is off by, before anything is known.
const NOISE: f64 = 0.1;
/// As if so many errors of that size had been seen.
const NOISE_EXAMPLES: f64 = 4.0;
/// Standard deviations of b0 and b1 before anything is known.
const PRIOR: [f64; 2] = [0.1, 0.25];
const FIGURES: usize = 4;

/// b0 and b1, and the standard deviation of e.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Learned {
    factors: [f64; 2],
    noise: f64,
}

#[derive(Debug, Default)]
struct Residual {
    /// Of reads and of writes: response, throughput; nothing before anything is learned.
    learned: Option<[Learned; FIGURES]>,
}

/// A machine's figures in the order in which they are learned.
fn figures(vm: &VmForecast) -> [Option<f64>; FIGURES] {
    [vm.reads.response_ns, vm.reads.iops, vm.writes.response_ns, vm.writes.iops]
}

/// ln(one / other).
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

/// Of a machine and each figure: ln(twin / alone), and ln(truth / twin).
type Examples = [Option<(f64, f64)>; FIGURES];

/// Of each machine of `pair`.
fn examples(pair: &PairPrediction) -> Option<Vec<Examples>> {
    let machines = |forecast: &Forecast| Consolidation::from(forecast).vms;
    let twin = machines(forecast_of(pair, CORRECTED)?);
    let alone = machines(forecast_of(pair, ALONE)?);
    let truth = machines(pair.truth.as_ref()?);
    let of_vm = |((twin, alone), truth): ((&VmForecast, &VmForecast), &VmForecast)| {
        let [twin, alone, truth] = [twin, alone, truth].map(figures);
        std::array::from_fn(|figure| {
            Some((log_ratio(twin[figure], alone[figure])?, log_ratio(truth[figure], twin[figure])?))
        })
    };
    Some(twin.iter().zip(&alone).zip(&truth).map(of_vm).collect())
}

/// Of pairs (disturbance, what is missed).
fn fit(examples: &[(f64, f64)]) -> Learned {
    let row = |disturbed: f64| [1.0, disturbed];
    let mut square = [[0.0; 2]; 2];
    let mut right = [0.0; 2];
    for (index, deviation) in PRIOR.iter().enumerate() {
        square[index][index] = (NOISE / deviation).powi(2);
    }
    for &(disturbed, missed) in examples {
        for (one, left) in row(disturbed).into_iter().enumerate() {
            right[one] += left * missed;
            row(disturbed).into_iter().enumerate().for_each(|(other, value)| square[one][other] += left * value);
        }
    }
    let factors = solve(square, right).unwrap_or_default();
    let left_over = |&(disturbed, missed): &(f64, f64)| (missed - factors[0] - factors[1] * disturbed).powi(2);
    let squares = examples.iter().map(left_over).sum::<f64>() + NOISE_EXAMPLES * NOISE * NOISE;
    Learned { factors, noise: (squares / (examples.len() as f64 + NOISE_EXAMPLES)).sqrt() }
}

impl Residual {
    fn learned(&self) -> Result<&[Learned; FIGURES], PredictError> {
        self.learned.as_ref().ok_or_else(|| {
            PredictError::DoesNotHold(
                "it learns from consolidations whose truth is known; give them (--learn-from, what iocast validate \
                 consolidation --output-format json prints)"
                    .to_owned(),
            )
        })
    }

    fn corrected(&self, twin: &Consolidation, alone: &Consolidation) -> Result<Consolidation, PredictError> {
        let learned = self.learned()?;
        let of_vm = |(twin, alone): (&VmForecast, &VmForecast)| {
            let factors: [f64; FIGURES] = std::array::from_fn(|figure| {
                let [b0, b1] = learned[figure].factors;
                log_ratio(figures(twin)[figure], figures(alone)[figure]).map_or(1.0, |log| libm::exp(b0 + b1 * log))
            });
            let spread = |figure: usize| Spread { response: learned[figure].noise, iops: learned[figure + 1].noise };
            VmForecast {
                reads: scaled(twin.reads, factors[0], factors[1], spread(0)),
                writes: scaled(twin.writes, factors[2], factors[3], spread(2)),
            }
        };
        let vms = twin.vms.iter().zip(&alone.vms).map(of_vm).collect();
        Ok(Consolidation { vms, notes: twin.notes.clone(), ..Consolidation::default() })
    }
}

fn scaled(forecast: OperationForecast, response: f64, iops: f64, spread: Spread) -> OperationForecast {
    OperationForecast {
        iops: forecast.iops.map(|figure| figure * iops),
        response_ns: forecast.response_ns.map(|figure| figure * response),
        percentiles_ns: forecast.percentiles_ns.map(|figure| figure.map(|figure| figure * response)),
        spread: Some(spread),
    }
}

impl Corrector for Residual {
    fn learns_from(&self) -> &'static [&'static str] {
        &[CORRECTED, ALONE]
    }

    fn learn(&mut self, known: &[&PairPrediction]) {
        let mut of_figure: [Vec<(f64, f64)>; FIGURES] = Default::default();
        for machine in known.iter().filter_map(|pair| examples(pair)).flatten() {
            of_figure.iter_mut().zip(machine).for_each(|(all, example)| all.extend(example));
        }
        let any = of_figure.iter().any(|examples| !examples.is_empty());
        self.learned = any.then(|| of_figure.map(|examples| fit(&examples)));
    }

    fn correct(&self, others: &Outcomes) -> Result<Consolidation, PredictError> {
        let of = |name: &str| match others.get(name) {
            Some(Outcome::Forecast(forecast)) => Ok(Consolidation::from(forecast)),
            Some(Outcome::Refused { refused }) => Err(PredictError::DoesNotHold(refused.clone())),
            None => Err(PredictError::DoesNotHold(format!("it corrects {name}, of which there is no forecast"))),
        };
        self.learned()?;
        self.corrected(&of(CORRECTED)?, &of(ALONE)?)
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

    /// A pair whose machines take 5 ms alone, that the twin says takes so long together, and really does.
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
    fn what_is_always_off_by_the_same_is_corrected_and_made_sure() {
        // Twin times the square root of (twin / alone): b0 is 0 and b1 one half.
        let law = |twin: f64| twin * (twin / 5.0f64).sqrt();
        let known: Vec<PairPrediction> =
            (0..400).map(|n| 6.0 + f64::from(n) / 20.0).map(|twin| pair(twin, law(twin))).collect();
        let reads = corrected(&known, 12.0).reads;
        assert!((reads.response_ns.unwrap() / 1e6 / law(12.0) - 1.0).abs() < 0.01, "{reads:?}");
        assert!(reads.spread.unwrap().response < 0.02);
        // Rates go with responses here.
        assert!((reads.iops.unwrap() * law(12.0) / 1000.0 - 1.0).abs() < 0.01, "{reads:?}");
    }

    #[test]
    fn a_single_example_moves_it_little_and_contradictions_leave_it_unsure() {
        let one = corrected(&[pair(10.0, 12.0)], 10.0).reads.response_ns.unwrap() / 1e6;
        assert!(one > 10.2 && one < 11.9, "{one}");
        let known: Vec<PairPrediction> = (0..100).map(|n| pair(10.0, if n % 2 == 0 { 8.0 } else { 12.5 })).collect();
        let unsure = corrected(&known, 10.0).reads;
        assert!((unsure.response_ns.unwrap() / 1e7 - 1.0).abs() < 0.02, "{unsure:?}");
        assert!((unsure.spread.unwrap().response - libm::log(1.25)).abs() < 0.01, "{unsure:?}");
    }

    #[test]
    fn who_has_learned_nothing_says_so() {
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
