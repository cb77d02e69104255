//! The mean errors of forecasts, by predictor, on one axis.

use report::page::{Axis, Ranged, Ranges, RangesRow, Section};
use traces::results::prediction::Consolidations;

/// The figures that people ask for first, with their names.
pub const FIRST: [(&str, &str); 4] = [
    ("read_response", "response times of reads"),
    ("write_response", "response times of writes"),
    ("read_iops", "reads/s"),
    ("write_iops", "writes/s"),
];

/// The chart, with a row for each predictor.
pub fn sections(result: &Consolidations) -> Vec<Section> {
    let percent = |share: f64| share * 100.0;
    let rows = result.summary.iter().map(|(predictor, errors)| RangesRow {
        name: predictor.clone(),
        values: FIRST
            .iter()
            .map(|(figure, _)| {
                let error = errors.get(*figure)?;
                Some(Ranged { value: percent(error.mean?), interval: error.ci95.map(|ends| ends.map(percent)) })
            })
            .collect(),
    });
    let ranges = Ranges { kinds: FIRST.map(|(_, name)| name.to_owned()).to_vec(), rows: rows.collect() };
    let about = "Mean absolute relative errors of each predictor; a thin line is the 95 % interval over VMs.";
    let charts = ranges.charts("Errors", about, &Axis::linear("error, %").reaching([0.0]));
    vec![Section { heading: "Errors by predictor".to_owned(), charts, ..Section::default() }]
}
