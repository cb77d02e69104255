//! What a predictor has to beat: forecasts that take no thought.

use traces::results::isolation::{IsolatedOperation, IsolationProfile};
use traces::spec::Settings;

use crate::predictor::{
    Consolidation, Entry, Isolated, Method, OperationForecast, PredictError, Predictor, VmForecast,
};

/// Everybody goes on as alone.
pub const ISOLATION: Entry = Entry {
    name: "isolation",
    summary: "baseline: each machine as it is alone",
    origin: "no interference",
    tunables: &[],
    needs_traces: false,
    build: |_: &Settings| Ok(Method::Predictor(Box::new(Isolation))),
};

/// Everybody is as the mean machine is alone.
pub const CONSTANT: Entry = Entry {
    name: "constant",
    summary: "baseline: for every machine the mean over the machines alone",
    origin: "one number for all",
    tunables: &[],
    needs_traces: false,
    build: |_: &Settings| Ok(Method::Predictor(Box::new(Constant))),
};

/// Throughputs add up to what the device has.
pub const SUM: Entry = Entry {
    name: "sum",
    summary: "baseline: throughputs as alone, scaled down in one proportion where the device would be busy for more than all the time",
    origin: "utilisation law",
    tunables: &[],
    needs_traces: false,
    build: |_: &Settings| Ok(Method::Predictor(Box::new(Sum))),
};

struct Isolation;
struct Constant;
struct Sum;

impl Predictor for Isolation {
    fn predict(&self, Isolated { profiles: alone, .. }: Isolated<'_>) -> Result<Consolidation, PredictError> {
        Ok(Consolidation::measured(alone))
    }
}

impl Predictor for Constant {
    fn predict(&self, Isolated { profiles: alone, .. }: Isolated<'_>) -> Result<Consolidation, PredictError> {
        let mean = |of: fn(&IsolationProfile) -> &IsolatedOperation| {
            let with: Vec<&IsolatedOperation> = alone.iter().map(of).filter(|operation| operation.iops > 0.0).collect();
            let count = with.len() as f64;
            let over = |figure: fn(&IsolatedOperation) -> f64| {
                (!with.is_empty()).then(|| with.iter().map(|operation| figure(operation)).sum::<f64>() / count)
            };
            OperationForecast::of_means(
                over(|operation| operation.iops),
                over(|operation| operation.response_ns.unwrap_or(0.0)),
            )
        };
        let (reads, writes) = (mean(|profile| &profile.reads), mean(|profile| &profile.writes));
        let only = |forecast: OperationForecast, operation: &IsolatedOperation| {
            if operation.iops > 0.0 { forecast } else { OperationForecast::default() }
        };
        let of = |profile: &IsolationProfile| VmForecast {
            reads: only(reads, &profile.reads),
            writes: only(writes, &profile.writes),
        };
        Ok(Consolidation { vms: alone.iter().map(of).collect(), ..Consolidation::default() })
    }
}

impl Predictor for Sum {
    fn predict(&self, Isolated { profiles: alone, .. }: Isolated<'_>) -> Result<Consolidation, PredictError> {
        let share = |profile: &IsolationProfile| {
            profile.busy_share.ok_or_else(|| {
                PredictError::profile(
                    profile,
                    "sum needs busy_share, the share of time during which its device was busy",
                )
            })
        };
        let busy = alone.iter().map(share).sum::<Result<f64, PredictError>>()?;
        let scale = if busy > 1.0 { 1.0 / busy } else { 1.0 };
        let scaled = |operation: &IsolatedOperation| {
            OperationForecast::of_means((operation.iops > 0.0).then_some(operation.iops * scale), None)
        };
        let of =
            |profile: &IsolationProfile| VmForecast { reads: scaled(&profile.reads), writes: scaled(&profile.writes) };
        let note = format!(
            "alone the device is busy for {:.0} % of the time in the sum; response times are not said",
            100.0 * busy
        );
        Ok(Consolidation { vms: alone.iter().map(of).collect(), notes: vec![note], ..Consolidation::default() })
    }
}
