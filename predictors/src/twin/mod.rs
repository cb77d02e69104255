//! The twin: the device, and each machine, as their recordings alone show them, put together and played.
//!
//! 1. *The device* (`service`, which `serving` plays): service times (`samples`) by operation, length and distance (`line`), by machine
//!    where the platter decides (`drawn`), the caches, of which that of reads shows in short times (`hits`) and that of writes is emptied
//!    later (`destage`), the delay to the place of the recording; what longer seeks cost than any machine alone makes comes from the
//!    shapes of measured drives (`shapes`). Recordings of other machines alone on it tell of it, too (`learned`).
//! 2. *The order* in which it takes requests (`policy`, and for durable writes `ahead`), and in which each machine issues them, and how many
//!    at once.
//! 3. *What each request waited for* (`causes`): think times, other processes, timers.
//! 4. All machines are played closed loop (`play`) through a [`replay::Stack`]: a stage for each above one for the device. What machines
//!    do changes in the course of a recording, and together they come less far in it; so several excerpts are played, each much longer than
//!    anybody waits there.
//!
//! A device that serves one request after another is told apart from one with several members by address (`members`, `layout`), behind a
//! controller that answers from a cache (`front`, `cached`) which is followed (`contents`), and from any other that serves several at once
//! (`several`), of which only response times by what is under way are told. Flushes and discards take what they took alone. Where several requests
//! are merged only because others wait longer, the machine's own stage merges them, if it merged any alone.

mod ahead;
mod cached;
mod causes;
mod contents;
mod course;
mod destage;
mod device;
mod drawn;
mod front;
mod hits;
mod layout;
mod learned;
mod line;
mod locks;
mod members;
mod meter;
mod model;
mod play;
mod player;
mod policy;
mod recording;
mod samples;
mod service;
mod serving;
mod several;
mod shapes;
mod spread;
mod superposed;
mod times;

use replay::Limits;
use traces::results::isolation::IsolationProfile;
use traces::results::prediction::{DevicePolicy, FORECAST_PERCENTILES};
use traces::spec::{Settings, Tunable, Unit};
use traces::statistics::Distribution;
use traces::{Nanos, Sectors, Timestamp};

use self::causes::Cause;
use self::learned::Learned;
use self::locks::Locks;
use self::meter::Got;
pub use self::model::Model;
use self::policy::{Policy, in_machine};
use self::recording::each_issued;
pub use self::recording::{Recorder, Recording};
use crate::predictor::{Consolidation, OperationForecast, PredictError, Predictor, VmForecast};
use crate::registry::Entry;

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
    build: |settings: &Settings| {
        Ok(Box::new(Twin { own: settings.word("device") == "own", seed: settings.count("seed") }))
    },
};

/// No device that has an arm is done with two requests within so little.
const TOLD_TOGETHER: Nanos = Nanos::from_us(200);
/// What goes to the device at once takes less.
const HAD_TO_WAIT: Nanos = Nanos::from_ms(1);
/// Fewer that had to wait tell no limit.
const WAITED_MIN: usize = 50;
/// Fewer requests tell no device.
const REQUESTS_MIN: usize = 100;

struct Twin {
    /// Only the machines' own recordings tell of the device.
    own: bool,
    seed: u64,
}

/// In which order the device takes what waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Order {
    policy: Policy,
    /// Writes that are to be durable go ahead of all others.
    durable_first: bool,
}

/// A machine as its recording shows it.
struct Inferred {
    causes: Vec<Cause>,
    locks: Locks,
    ends: Vec<Option<u32>>,
    coalesced: f64,
    /// How many writes that nobody waits for it lets be under way at once.
    background: u32,
    limits: Limits,
    /// The scheduler that is most like its own.
    scheduler: &'static str,
}

impl Predictor for Twin {
    fn predict(&self, alone: &[IsolationProfile], recordings: &[Recording]) -> Result<Consolidation, PredictError> {
        let (own, _) = recordings.split_at(recordings.len().min(alone.len()));
        let recordings = if self.own { own } else { recordings };
        let model = Model::infer(alone, recordings, self.seed)?;
        let vms = model.forecast()?;
        let incomplete = alone.iter().zip(recordings).filter(|(_, recording)| recording.incomplete > 0);
        let not_played = |(profile, recording): (&IsolationProfile, &Recording)| {
            let plural =
                if recording.incomplete == 1 { " without a completion is" } else { "s without completions are" };
            format!("{}: {} record{plural} left out", profile.vm, recording.incomplete)
        };
        let notes = model.shown().into_iter().chain(incomplete.map(not_played)).collect();
        Ok(Consolidation { vms, policy: Some(model.policy()), notes, ..Consolidation::default() })
    }

    fn plays(&self) -> bool {
        true
    }
}

/// In which order the device of these recordings takes what waits for it, as far as they tell.
pub fn policy(recordings: &[Recording]) -> DevicePolicy {
    let Learned { policy, sure, .. } = Learned::of(recordings);
    DevicePolicy { name: policy.kind().to_owned(), sure }
}

fn infer(recording: &Recording) -> Inferred {
    let waits = in_machine(recording);
    // Who never keeps anything back shows no limit.
    let depth = if waits.any() { deepest(recording) } else { u32::MAX };
    let mut causes = causes::infer(&recording.requests);
    let locks = locks::infer(&recording.requests, &mut causes);
    Inferred {
        causes,
        locks,
        ends: causes::ends(&recording.requests),
        coalesced: coalesced(recording),
        background: background(recording),
        limits: Limits { depth, merge: recording.merges, max_sectors: longest(recording), ..Limits::default() },
        scheduler: if waits.prefers_reads() { "mq-deadline" } else { "fifo" },
    }
}

/// How long a request its machine's stage makes of several, and lets pass whole: as long as Linux does, or the longest that was recorded if that
/// is longer.
fn longest(recording: &Recording) -> Sectors {
    let longest = recording.moving().map(|request| Sectors::new(request.sectors.into())).max();
    longest.unwrap_or_default().max(Limits::default().max_sectors)
}

/// Which share of completions comes with the next: a host that is busy, or an interrupt that is held back, tells several at once, while a
/// device that serves one after another is done with them at different times. Machines whose requests so come in step go on in step, and
/// the device moves between machines less often.
fn coalesced(recording: &Recording) -> f64 {
    let moving = recording.requests.iter().filter(|request| request.moves_data());
    let mut served: Vec<(Timestamp, Timestamp)> = moving.map(|request| (request.completed, request.issued)).collect();
    served.sort();
    // The machine has to have another request at the device for a completion to wait for.
    let waited = || served.windows(2).map(|pair| (pair[0].0, pair[1])).filter(|(before, (_, issued))| issued < before);
    let between = |from: Nanos, to: Nanos| {
        waited().filter(|(before, (completed, _))| (from..to).contains(&completed.since(*before))).count() as f64
    };
    // Some come so close to one another by chance, as many as come in the next such time.
    let by_chance = between(TOLD_TOGETHER, TOLD_TOGETHER + TOLD_TOGETHER);
    (between(Nanos::ZERO, TOLD_TOGETHER) - by_chance).max(0.0) / waited().count().max(1) as f64
}

/// How many writes that nobody waits for a machine lets be at the device at once: those that had to wait went when one fewer was there.
/// Linux throttles them so that they do not stand in the way of reads (`block/blk-wbt.c`).
fn background(recording: &Recording) -> u32 {
    let writes = recording.moving().filter(|request| !request.sync);
    let mut found = Vec::new();
    each_issued(writes, |request, under_way| {
        if request.issued.saturating_since(request.arrival) > HAD_TO_WAIT {
            found.push(under_way.len());
        }
    });
    found.sort_unstable();
    if found.len() < WAITED_MIN { u32::MAX } else { found[found.len() / 2] as u32 + 1 }
}

/// The most requests that were at the device at once.
fn deepest(recording: &Recording) -> u32 {
    let mut deepest = 1;
    each_issued(recording.moving(), |_, under_way| deepest = deepest.max(under_way.len() as u32 + 1));
    deepest
}

/// What a recording shows that its machine got alone.
fn recorded(recording: &Recording) -> VmForecast {
    let mut got = Got::default();
    for request in recording.requests.iter().filter(|request| request.moves_data()) {
        got[request.operation as usize].add(request.completed.saturating_since(request.issued));
    }
    forecast(&got, recording.span().saturating_since(Timestamp::ZERO))
}

fn forecast(got: &Got, played: Nanos) -> VmForecast {
    let of = |times: &Distribution| OperationForecast {
        iops: (times.count() > 0).then(|| times.count() as f64 / played.as_s_f64()),
        response_ns: times.moments().mean_ns,
        percentiles_ns: FORECAST_PERCENTILES.map(|(share, _)| times.percentile_ns(share).map(|ns| ns as f64)),
        spread: None,
    };
    let [reads, writes] = got;
    VmForecast { reads: of(reads), writes: of(writes) }
}

#[cfg(test)]
mod tests {
    use traces::Operation;

    use super::recording::Recorded;
    use super::*;

    /// Pairs of requests under way at once, whose second completes so many microseconds after the first.
    fn pairs(apart_us: impl Fn(u64) -> u64) -> Recording {
        let mut recording = Recording::default();
        for n in 0..1000 {
            let at = n * 20_000;
            let first = Recorded::sent(Operation::Read, 0, at, 3000);
            recording.requests.extend([first, Recorded::sent(Operation::Read, 1, at + 100, 2900 + apart_us(n))]);
        }
        recording
    }

    #[test]
    fn completions_that_come_together_count_but_for_those_that_do_by_chance() {
        assert_eq!(coalesced(&pairs(|_| 3000)), 0.0);
        assert_eq!(coalesced(&pairs(|n| if n % 2 == 0 { 50 } else { 3000 })), 0.5);
        // As many come within one time as within the next: they have nothing to do with one another.
        assert!(coalesced(&pairs(|n| n * 7 % 4000)) < 0.02);
    }
}
