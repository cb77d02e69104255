//! The twin: the device, and each machine, as their recordings alone show them, put together and played.
//!
//! 1. *The device* (`device/disk/`: `fit`, which `model` plays): service times (`samples`) by operation, length and distance (`regression`), by
//!    machine where the platter decides (`residuals`), the caches, of which that of reads shows in short times (`read_hits`) and that of writes
//!    is emptied later (`destage`), the delay to the place of the recording; what longer seeks cost than any machine alone makes comes from the
//!    shapes of measured drives (`seek_curves`). Recordings of other machines alone on it tell of it, too (`device/evidence`).
//! 2. *The order* in which it takes requests (`device/policy/`, and for durable writes `device/durable_first`), and in which each machine issues them, and how many
//!    at once.
//! 3. *What each request waited for* (`workload/dependencies/`): think times, other processes, timers.
//! 4. All machines are played closed loop (`simulation/`) through a [`replay::Stack`]: a stage for each above one for the device. What machines
//!    do changes in the course of a recording, and together they come less far in it; so several excerpts are played, each much longer than
//!    anybody waits there.
//!
//! A device that serves one request after another is told apart from one with several members by address (`device/array/`), behind a
//! controller that answers from a cache (`device/controller_cache/`) which is followed (`device/array/read_cache`), and from any other that serves several at once
//! (`device/concurrent`), of which only response times by what is under way are told. Flushes and discards take what they took alone. Where several requests
//! are merged only because others wait longer, the machine's own stage merges them, if it merged any alone.

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
pub use self::model::Model;
use crate::isolated_trace::IsolatedTrace;
use crate::predictor::{Consolidation, Entry, Isolated, Method, PredictError, Predictor};

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "twin",
    summary: "device, order and causes told from the recordings alone, machines played together closed loop; needs captures",
    origin: "Casale, Kraft, Krishnamurthy 2011 (the question); simulation",
    tunables: &[
        Tunable::new(
            "device",
            Unit::Choice(&["all", "own"]),
            "all",
            "whose captures tell of the device: all that are given, or the machines' own",
        ),
        Tunable::new("seed", Unit::Count, "1", "seed of the service times that are drawn"),
    ],
    needs_traces: true,
    build: |settings: &Settings| {
        let twin = Twin { own: settings.word("device") == "own", seed: settings.count("seed") };
        Ok(Method::Predictor(Box::new(twin)))
    },
};

struct Twin {
    /// Only the machines' own recordings tell of the device.
    own: bool,
    seed: u64,
}

impl Predictor for Twin {
    fn predict(&self, Isolated { profiles: alone, traces }: Isolated<'_>) -> Result<Consolidation, PredictError> {
        let (own, _) = traces.split_at(traces.len().min(alone.len()));
        let traces = if self.own { own } else { traces };
        let model = Model::infer(alone, traces, self.seed)?;
        let vms = model.forecast()?;
        let incomplete = alone.iter().zip(traces).filter(|(_, trace)| trace.incomplete > 0);
        let not_simulated = |(profile, trace): (&IsolationProfile, &IsolatedTrace)| {
            let plural = if trace.incomplete == 1 { " without a completion is" } else { "s without completions are" };
            format!("{}: {} record{plural} left out", profile.vm, trace.incomplete)
        };
        let notes = model.shown().into_iter().chain(incomplete.map(not_simulated)).collect();
        Ok(Consolidation { vms, policy: Some(model.policy()), notes, ..Consolidation::default() })
    }
}

/// In which order the device of these recordings takes what waits for it, as far as they tell.
pub fn policy(traces: &[IsolatedTrace]) -> DevicePolicy {
    let Evidence { policy, sure, .. } = Evidence::of(traces);
    DevicePolicy { name: policy.kind().to_owned(), sure }
}
