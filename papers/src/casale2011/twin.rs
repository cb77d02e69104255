//! The twin's forecasts of the replayed pairs, which the paper's formulas are also held against. It sees the traces of
//! the VMs alone at the storage, and nothing of the environment.

use traces::results::reproduction::{Evidence, GroupError};

use super::own::{PAIRS, Run};
use predictors::IsolatedTrace;
use predictors::predictor::{Isolated, PredictError, VmForecast, predict};
use predictors::twin;

/// The most that the mean error may be: of reads' response times, and of writes'.
const BARS: [(&str, f64); 2] = [("reads", 0.10), ("writes", 0.15)];

/// The mean errors of response times in one run, reads and writes apart, with their bounds. `traces` are of the VMs
/// alone.
///
/// # Errors
/// The traces do not suffice for a forecast.
pub(super) fn errors(run: &Run, traces: &[IsolatedTrace]) -> Result<Vec<GroupError>, PredictError> {
    let method = twin::ENTRY.by_default().map_err(|error| PredictError::DoesNotHold(error.to_string()))?;
    let twin = method.predictor().expect("it forecasts");
    let mut missed: [Vec<f64>; 2] = Default::default();
    for (pair, together) in PAIRS.iter().zip(&run.together) {
        let profiles = pair.map(|vm| run.alone[vm].clone());
        let traces = pair.map(|vm| traces[vm].clone());
        let forecast = predict(&*twin, Isolated { profiles: &profiles, traces: &traces })?;
        for (vm, profile) in forecast.vms.iter().zip(together) {
            let truth = VmForecast::measured(profile);
            for (errors, [ours, truth]) in
                missed.iter_mut().zip([[&vm.reads, &truth.reads], [&vm.writes, &truth.writes]])
            {
                if let (Some(ours), Some(truth)) = (ours.response_ns, truth.response_ns) {
                    errors.push((ours - truth).abs() / truth);
                }
            }
        }
    }
    let group = |((kind, bar), errors): (&(&str, f64), &Vec<f64>)| GroupError {
        group: format!("Table III, replayed, {kind}, first seed: twin"),
        cells: errors.len() as u64,
        mean_absolute_relative_error: errors.iter().sum::<f64>() / errors.len() as f64,
        bar: Some(*bar),
        evidence: Evidence::Forecast,
    };
    Ok(BARS.iter().zip(&missed).map(group).collect())
}
