//! Casale's formulas with two changes.
//!
//! First, the mix is that of the forecast throughputs, so that mix and throughputs cannot contradict one another.
//!
//! Second, the weight of VM k for type c is T_k^{1-q} (T_k^c)^q instead of T_k; q = 0 gives the published weight. The
//! weights state the share of the device that each VM has. Alone, VM k has T_k^c C_k^c requests of type c outstanding
//! (Little's law). q makes the weights most similar to these numbers: least squares of the logarithms of ratios between
//! VMs, over both types and all pairs, within 0 to 1. So q is fitted on the VMs alone.

use traces::results::isolation::{IsolatedOperation, IsolationProfile};
use traces::spec::Settings;

use super::{FOUND, MAX_CONN, MAX_WRITE_CONN, Responses, rate};
use crate::predictor::{
    Consolidation, Entry, Isolated, Method, OperationForecast, PredictError, Predictor, VmForecast,
};

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "casale-refined",
    summary: "casale with the mix of its own throughputs, and weights fitted on the VMs alone",
    origin: "Casale, Kraft, Krishnamurthy 2011, weights generalised",
    tunables: &[FOUND, MAX_CONN, MAX_WRITE_CONN],
    needs_traces: false,
    baseline: false,
    build: |settings: &Settings| Ok(Method::Predictor(Box::new(Refined { responses: Responses::of(settings)? }))),
};

struct Refined {
    responses: Responses,
}

type Of = fn(&IsolationProfile) -> &IsolatedOperation;
const TYPES: [Of; 2] = [|profile| &profile.reads, |profile| &profile.writes];

impl Predictor for Refined {
    fn predict(&self, Isolated { profiles: alone, .. }: Isolated<'_>) -> Result<Consolidation, PredictError> {
        let exponent = exponent(alone);
        let rates = TYPES.map(|of| {
            let weights: Vec<f64> = alone.iter().map(|profile| weight(profile, of(profile).iops, exponent)).collect();
            let all: f64 = weights.iter().sum();
            let shared = |(profile, weight): (&IsolationProfile, &f64)| {
                (of(profile).iops > 0.0).then(|| of(profile).iops * weight / all)
            };
            alone.iter().zip(&weights).map(shared).collect::<Vec<Option<f64>>>()
        });
        let [read_rates, write_rates] = rates;
        let mut vms = Vec::new();
        for (index, (read_rate, write_rate)) in read_rates.into_iter().zip(write_rates).enumerate() {
            let [reads, writes] = self.responses.together(alone, index)?;
            vms.push(VmForecast {
                reads: OperationForecast::of_means(read_rate, reads),
                writes: OperationForecast::of_means(write_rate, writes),
            });
        }
        Ok(Consolidation { vms, notes: vec![format!("weights with q = {exponent:.3}")], ..Consolidation::default() })
    }
}

/// T^{1-q} (T^c)^q. At q = 0 a VM without requests of the type still has the weight T, as published.
fn weight(profile: &IsolationProfile, of_type: f64, exponent: f64) -> f64 {
    libm::pow(rate(profile), 1.0 - exponent) * libm::pow(of_type, exponent)
}

/// The q whose weights are most similar to the outstanding requests of the VMs.
fn exponent(alone: &[IsolationProfile]) -> f64 {
    let (mut products, mut squares) = (0.0, 0.0);
    for of in TYPES {
        let with: Vec<&IsolationProfile> = alone.iter().filter(|profile| of(profile).iops > 0.0).collect();
        for (index, one) in with.iter().enumerate() {
            for other in &with[..index] {
                let log = |figure: fn(&IsolationProfile, Of) -> f64| libm::log(figure(one, of) / figure(other, of));
                let slope = log(|profile, of| of(profile).iops / rate(profile));
                let missing =
                    log(|profile, of| of(profile).iops * of(profile).response_ns.unwrap_or(1.0) / rate(profile));
                products += slope * missing;
                squares += slope * slope;
            }
        }
    }
    if squares > 0.0 { (products / squares).clamp(0.0, 1.0) } else { 0.0 }
}
