//! The formulas as they are published: (1) to (6) of the paper's sections 5.1 and 5.2.
//!
//! With T_k the requests per second of machine k alone and T_k^c those of type c: the mix (1), (2) is Σ α_k^c T_k / Σ T_k with
//! α_k^c = T_k^c / T_k; throughput (3), (4) is Σ T_k^c T_k / Σ T_k, of which machine k has its summand; response (5), (6) is that
//! alone and, for every other machine, S^R A^R + (max_write_conn / max_conn) S^W A^W. Sums run over all machines, which for two are
//! the paper's.

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
