//! The times themselves, as distributions to draw from ([`crate::empirical`]). Of a device they are those of its random
//! reads. Of a trace they are those of every completed request, since the requests that wait at a drive change its
//! times.
//!
//! Of the reads that are split into halves only the fitted half counts. Of a trace's other requests half are drawn, so
//! that reads and other requests keep their proportion in the cells.

use traces::Operation;
use traces::results::calibration::Parameter;

use super::{FitError, FitEvidence, FittedModel, MeasuredDevice, ModelFit, ProfileText};
use crate::empirical::Condition;

/// The table's row.
pub(super) const FIT: ModelFit = ModelFit {
    name: "empirical",
    summary: "distributions of measured times by operation, size, distance and queue length",
    fit,
};

fn fit(evidence: &FitEvidence, device: Option<&mut dyn MeasuredDevice>) -> Result<FittedModel, FitError> {
    let found = evidence.reads.served.clone().finish().map_err(|error| FitError::NotFitted(error.to_string()))?;
    let any = found.cells.iter().find(|cell| cell.condition == Condition::default());
    let (samples, median) = any.map_or((0, 0), |cell| (cell.samples, cell.quantiles.median().as_ns()));
    let discards = found.cells.iter().any(|cell| cell.condition.operation == Some(Operation::Discard));
    let origin = evidence.origin;
    let (what, note) = device.map_or_else(
        || {
            let alone = "reads that another was issued in the middle of are drawn from and do not judge: where they are \
                         the slow ones, the judged half looks faster than the drive";
            let depth = format!("nothing is known of more than {} requests at a time: more wait", found.depth);
            ("completed requests", format!("{alone}; {depth}"))
        },
        |_| {
            let alone = "random reads of one size were measured, one at a time: writes, other sizes and queued \
                         requests, of which nothing is known, draw the same times";
            ("random reads, one at a time,", alone.to_owned())
        },
    );
    let source = format!("times of {samples} {what} of {origin}: the half that is fitted");
    let depth = format!("the most requests that were there at a time in {samples} {what} of {origin}");
    let profile = ProfileText::new("empirical", &format!("measured times of {origin}"))
        .setting("capacity", &evidence.capacity.bytes().to_string(), "as measured or given")
        .setting("depth", &found.depth.to_string(), &depth)
        .setting("write_cache", "through", "not measured")
        .setting("discards", if discards { "on" } else { "off" }, "on if there was one among the requests")
        .setting("seed", "1", "free")
        .section("empirical", &source, &found.cells.to_text());
    let parameters = vec![
        Parameter::new("requests", samples as f64, "whose times are drawn from"),
        Parameter::new("cells", found.cells.iter().count() as f64, "distributions, the coarser ones among them"),
        Parameter::new("depth", f64::from(found.depth), "the most requests that were there at a time"),
        Parameter::new("median_ns", median as f64, "median of all"),
    ];
    Ok(FittedModel { profile, parameters, notes: vec![note] })
}
