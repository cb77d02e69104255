//! The formulas of Casale et al. 2011 as published: equations (1) to (6) in sections 5.1 and 5.2.
//!
//! T_k is the number of requests per second of VM k alone, and T_k^c the number of those of type c.
//!
//! - Mix, (1) and (2): Σ α_k^c T_k / Σ T_k with α_k^c = T_k^c / T_k.
//! - Throughput, (3) and (4): Σ T_k^c T_k / Σ T_k. Each VM gets its summand.
//! - Response time, (5) and (6): the response time alone, and for every other VM
//!   S^R A^R + (max_write_conn / max_conn) S^W A^W.
//!
//! Sums run over all VMs; for two VMs they are the paper's.

use traces::spec::Settings;

use super::{FOUND, MAX_CONN, MAX_WRITE_CONN, Responses, rate};
use crate::predictor::{
    Consolidation, Entry, Isolated, Method, OperationForecast, PredictError, Predictor, VmForecast,
};

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "casale",
    summary: "mix, throughput and response from rates and arrival-queue lengths, as published",
    origin: "Casale, Kraft, Krishnamurthy 2011, equations (1) to (6)",
    tunables: &[FOUND, MAX_CONN, MAX_WRITE_CONN],
    needs_traces: false,
    baseline: false,
    build: |settings: &Settings| Ok(Method::Predictor(Box::new(Casale { responses: Responses::of(settings)? }))),
};

struct Casale {
    responses: Responses,
}

impl Predictor for Casale {
    fn predict(&self, Isolated { profiles: alone, .. }: Isolated<'_>) -> Result<Consolidation, PredictError> {
        let all: f64 = alone.iter().map(rate).sum();
        let mut vms = Vec::new();
        for (index, profile) in alone.iter().enumerate() {
            let weight = rate(profile) / all;
            let [reads, writes] = self.responses.together(alone, index)?;
            let iops = |iops: f64| (iops > 0.0).then_some(iops * weight);
            vms.push(VmForecast {
                reads: OperationForecast::of_means(iops(profile.reads.iops), reads),
                writes: OperationForecast::of_means(iops(profile.writes.iops), writes),
            });
        }
        let mix = alone.iter().map(|profile| profile.reads.iops).sum::<f64>() / all;
        Ok(Consolidation { vms, mix_read: Some(mix), ..Consolidation::default() })
    }
}
