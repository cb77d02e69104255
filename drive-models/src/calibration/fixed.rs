//! The mean time, whatever the distance: what every other fit has to beat, and all there is to say of a device whose
//! times depend on nothing that was varied.

use traces::results::calibration::Parameter;

use super::{FitError, FitEvidence, FittedModel, MeasuredDevice, ModelFit, ProfileText};

/// The table's row.
pub(super) const FIT: ModelFit = ModelFit { name: "fixed", summary: "the mean time of random reads", fit };

fn fit(evidence: &FitEvidence, _: Option<&mut dyn MeasuredDevice>) -> Result<FittedModel, FitError> {
    let half = evidence.reads.half(true);
    let sum: u128 = half.iter().map(|(_, time)| u128::from(time.as_ns())).sum();
    let mean = sum / half.len().max(1) as u128;
    let origin = evidence.origin;
    let profile = ProfileText::new("fixed", &format!("mean of reads of {origin}"))
        .setting("service", &format!("{mean}ns"), &format!("mean of {} reads of {origin}", half.len()))
        .setting("flush", "0ns", "not measured; unused with write_cache = through")
        .setting("capacity", &evidence.capacity.bytes().to_string(), "as measured or given")
        .setting("write_cache", "through", "not measured");
    let parameters = vec![Parameter::new("service_ns", mean as f64, "mean")];
    Ok(FittedModel { profile, parameters, notes: Vec::new() })
}
