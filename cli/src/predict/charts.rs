//! Each VM alone, as forecast and as replayed, on one axis.

use predictors::Consolidation;
use report::page::{Axis, Ranged, Ranges, RangesRow, Section};
use traces::results::isolation::IsolationProfile;
use traces::results::prediction::{Forecast, PairPrediction};

use super::tables::{Figures, FiguresOf, forecasts};

const KINDS: [(&str, FiguresOf); 2] = [("reads", Figures::reads), ("writes", Figures::writes)];

/// A value of a forecast with its interval.
type Value = fn(&Figures) -> Option<Ranged>;

/// The charts of a group; none without a forecast to rely on.
pub fn section(pair: &PairPrediction, recommended: Option<&str>, profiles: &[IsolationProfile]) -> Option<Section> {
    let (name, forecast) = forecasts(pair).find(|(name, _)| Some(*name) == recommended)?;
    let alone = Consolidation::measured(profiles).forecast();
    let forecast_by = format!("forecast by {name}");
    let of: Vec<(&str, &Forecast)> = [("alone", &alone), (&forecast_by, forecast)]
        .into_iter()
        .chain(pair.truth.iter().map(|truth| ("replayed together", truth)))
        .collect();
    let ranges = |value: Value| {
        let row = |(vm, (kind, figures)): (usize, &(&str, FiguresOf))| RangesRow {
            name: format!("{}: {kind}", pair.vms[vm]),
            values: of.iter().map(|(_, forecast)| value(&figures(forecast, vm, &profiles[vm]))).collect(),
        };
        let rows = (0..pair.vms.len()).flat_map(|vm| KINDS.iter().map(move |kind| (vm, kind)));
        Ranges { kinds: of.iter().map(|(kind, _)| (*kind).to_owned()).collect(), rows: rows.map(row).collect() }
    };
    let ms = |ns: f64| ns / 1e6;
    let response: Value = |of| Some(Ranged { value: of.response_ns?, interval: of.response_interval });
    let iops: Value = |of| Some(Ranged { value: of.iops?, interval: of.iops_interval });
    let mut responses = ranges(response);
    for value in responses.rows.iter_mut().flat_map(|row| &mut row.values).flatten() {
        *value = Ranged { value: ms(value.value), interval: value.interval.map(|ends| ends.map(ms)) };
    }
    let about = match &forecast.intervals_90 {
        Some(_) => "Means; a thin line is the interval that should hold 90 % of true values.",
        None => "Means; the forecast states no intervals.",
    };
    let mut charts = responses.charts("Response times", about, &Axis::powers("response time, ms"));
    charts.extend(ranges(iops).charts("Rates", about, &Axis::linear("requests/s").reaching([0.0])));
    Some(Section { heading: format!("{} together", pair.vms.join(", ")), charts, ..Section::default() })
}
