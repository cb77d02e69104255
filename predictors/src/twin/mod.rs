//! The twin: forecasts throughput and response times of VMs on a shared device by simulating them together.
//!
//! It infers each VM and the device from isolated traces, in which each VM ran alone on the device:
//!
//! 1. *Workload* (`workload`): the VM's own queue, its journals, and the throttling of its background writes.
//! 2. *Device* (`device/`): `evidence` selects the traces that describe it, `policy/` and `durable_first` infer its
//!    dispatch order. It is a `disk/` (one request at a time), an `array/` (members by address) or `concurrent`
//!    (response times by requests in flight). `controller_cache/` answers in front of the last two.
//! 3. *Calibration* (`calibration`): simulates each VM alone on each fitted device and selects the fit that is closest
//!    to the traces.
//! 4. *Simulation* (`simulation/`): simulates all VMs together in a closed replay ([`replay::sources::Closed`]), in
//!    several excerpts of their traces.
//! 5. *Intervals* (`intervals`): states how far each figure may be off.
//!
//! ```text
//!              isolated traces, one for each VM
//!                 |                     |
//!                 v                     v
//!   workload                       device/
//!                 |                  evidence
//!                 |                  policy/, durable_first
//!                 |                  disk/ | array/ | concurrent
//!                 |                  controller_cache/
//!                 |                     |
//!                 +----------+----------+
//!                            v
//!                       calibration        each VM alone, against its trace
//!                            |
//!                            v
//!                       simulation/        all VMs together
//!                            |
//!                            v
//!                        intervals         forecast with its 90 % intervals
//! ```
//!
//! [`Model`] runs these steps. It also corrects each figure by its error in the simulation of the VM alone.
//!
//! Details of the device: `disk/` fits service times (`samples`) by operation, length and seek distance (`regression`).
//! The simulation draws the residuals of each VM (`residuals`). Short times are hits of the drive's read cache
//! (`read_hits`); its write cache is emptied later (`destage`). Seeks longer than any trace contains follow the curves
//! of measured drives (`seek_curves`). `array/read_cache` follows the contents of the controller's cache. The fit also
//! has the delay between the layer at which the trace was recorded and the device.
//!
//! Flushes and discards take as long as they took alone. If a VM's requests were merged alone, its stage also merges
//! those that meet only because they now wait longer.
//!
//! The twin leaves out what no isolated trace contains, such as the capacity of a drive's write cache that no VM alone
//! fills. Most of its rules were found with synthetic setups of seeds 1 and 101 to 104 and the lab;
//! `docs/validation/forecasts.md` states on which setups each rule was chosen, and the errors on others.

mod calibration;
mod device;
mod intervals;
mod model;
mod simulation;
mod workload;

use traces::results::isolation::IsolationProfile;
use traces::results::prediction::DevicePolicy;
use traces::spec::{Settings, Tunable, Unit};

use self::device::evidence::Evidence;
pub(crate) use self::intervals::is_of_wide_intervals;
pub use self::model::Model;
use crate::isolated_trace::IsolatedTrace;
use crate::predictor::{Consolidation, Entry, Isolated, Method, PredictError, Predictor};

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "twin",
    summary: "infers device and dependencies from captures of VMs alone and simulates the VMs together; needs captures",
    origin: "Casale, Kraft, Krishnamurthy 2011 (the question); simulation",
    tunables: &[
        Tunable::new(
            "device",
            Unit::Choice(&["all", "own"]),
            "all",
            "captures that the device is inferred from: all that are given, or the forecast VMs' own",
        ),
        Tunable::new("seed", Unit::Count, "1", "seed of the drawn service times"),
    ],
    needs_traces: true,
    baseline: false,
    build: |settings: &Settings| {
        let twin = Twin { own_only: settings.word("device") == "own", seed: settings.count("seed") };
        Ok(Method::Predictor(Box::new(twin)))
    },
};

struct Twin {
    /// The device is inferred only from the traces of the forecast VMs.
    own_only: bool,
    seed: u64,
}

impl Predictor for Twin {
    fn predict(&self, Isolated { profiles: alone, traces }: Isolated<'_>) -> Result<Consolidation, PredictError> {
        let (own, _) = traces.split_at(traces.len().min(alone.len()));
        let traces = if self.own_only { own } else { traces };
        let model = Model::infer(alone, traces, self.seed)?;
        let (vms, wide): (Vec<_>, Vec<_>) = model.forecast_with_doubts()?.into_iter().unzip();
        let wide: Vec<_> = alone.iter().map(|profile| profile.vm.as_str()).zip(&wide).collect();
        let incomplete = alone.iter().zip(traces).filter(|(_, trace)| trace.incomplete > 0);
        let left_out = |(profile, trace): (&IsolationProfile, &IsolatedTrace)| {
            let plural = if trace.incomplete == 1 { " without a completion is" } else { "s without completions are" };
            format!("{}: {} record{plural} left out", profile.vm, trace.incomplete)
        };
        let notes = model.notes().into_iter().chain(incomplete.map(left_out)).chain(intervals::notes(&wide)).collect();
        Ok(Consolidation { vms, policy: Some(model.policy()), notes, ..Consolidation::default() })
    }
}

/// The dispatch order of the device, as far as `traces` of it determine it.
pub fn policy(traces: &[IsolatedTrace]) -> DevicePolicy {
    let Evidence { policy, sure, .. } = Evidence::of(traces);
    DevicePolicy { name: policy.kind().to_owned(), sure }
}
