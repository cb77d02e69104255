//! Baselines: simple forecasts that every other predictor must beat.
//!
//! `isolation` ignores interference, `constant` ignores differences between VMs, and `sum` scales throughputs by the
//! utilisation law. `sum` forecasts no response times.

use traces::results::isolation::{IsolatedOperation, IsolationProfile};
use traces::spec::Settings;

use crate::predictor::{
    Consolidation, Entry, Isolated, Method, OperationForecast, PredictError, Predictor, VmForecast,
};

/// Every VM gets the same as alone.
pub const ISOLATION: Entry = Entry {
    name: "isolation",
    summary: "baseline: each VM as it is alone",
    origin: "no interference",
    tunables: &[],
    needs_traces: false,
    baseline: true,
    build: |_: &Settings| Ok(Method::Predictor(Box::new(Isolation))),
};

/// Every VM gets the mean over the VMs alone.
pub const CONSTANT: Entry = Entry {
    name: "constant",
    summary: "baseline: for every VM the mean over the VMs alone",
    origin: "one number for all",
    tunables: &[],
    needs_traces: false,
    baseline: true,
    build: |_: &Settings| Ok(Method::Predictor(Box::new(Constant))),
};

/// Throughputs as alone, scaled down to the throughput of the device.
pub const SUM: Entry = Entry {
    name: "sum",
    summary: "baseline: throughputs as alone, all scaled alike if the device would be busy beyond 100 % of the time",
    origin: "utilisation law",
    tunables: &[],
    needs_traces: false,
    baseline: true,
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
            "the busy shares of the device with each VM alone sum up to {:.0} %; response times are not forecast",
            100.0 * busy
        );
        Ok(Consolidation { vms: alone.iter().map(of).collect(), notes: vec![note], ..Consolidation::default() })
    }
}
