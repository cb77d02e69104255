//! The twin: the device, and each machine, as their recordings alone show them, put together and played.
//!
//! 1. *The device* (`service`, which `serving` plays): service times (`samples`) by operation, length and distance (`line`), by machine
//!    where the platter decides (`drawn`), the caches, of which that of reads shows in short times (`hits`) and that of writes is emptied
//!    later (`destage`), the delay to the place of the recording; what longer seeks cost than any machine alone makes comes from the
//!    shapes of measured drives (`shapes`). Recordings of other machines alone on it tell of it, too (`learned`).
//! 2. *The order* in which it takes requests (`policy`, and for durable writes `ahead`), and in which each machine issues them, and how many
//!    at once.
//! 3. *What each request waited for* (`causes`): think times, other processes, timers.
//! 4. All machines are played closed loop (`play`) through a [`replay::Room`]: a stage for each above one for the device. What machines
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
use traces::{Nanos, Timestamp};

use self::causes::Cause;
use self::device::{Fit, Played};
use self::learned::Learned;
use self::locks::Locks;
use self::meter::Got;
use self::play::{Table, play};
use self::policy::{Policy, in_machine};
use self::recording::Recorded;
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
        enough(alone, recordings)?;
        let machines = alone.len();
        let recordings = if self.own { &recordings[..machines] } else { recordings };
        let learned = Learned::of_machines(recordings, machines);
        let others = learned.told_by_others(machines);
        let Learned { recordings, one_by_one, policy, sure, .. } = learned;
        // Of others only what an array's streams wait for is told.
        let one_after_another = one_by_one.is_some() && policy != Policy::Unknown;
        let telling = if one_after_another { machines } else { recordings.len() };
        let inferred: Vec<Inferred> = recordings[..telling].iter().map(infer).collect();
        let delay = one_by_one.as_ref().map_or(Nanos::ZERO, |fitted| fitted.delay);
        let order = Order { policy, durable_first: ahead::goes_ahead(recordings, delay) };
        let played = device::fit(recordings, &inferred, machines, order, one_by_one, self.seed)?;
        let Played { fitted, alone: played, .. } = played.ok_or_else(|| {
            PredictError::DoesNotHold(
                "the recordings' service times follow no line; their times cannot be right".to_owned(),
            )
        })?;
        let table = Table { fitted: &fitted, order, seed: self.seed, machines: 0..machines, most: play::ALL };
        let together = play(recordings, &inferred, &table)?;
        let several = matches!(fitted, Fit::Several(_));
        let vm = |((together, played), recording): ((&VmForecast, &VmForecast), &Recording)| {
            let recorded = recorded(recording);
            VmForecast {
                reads: scaled(together.reads, played.reads, recorded.reads, several),
                writes: scaled(together.writes, played.writes, recorded.writes, several),
            }
        };
        let vms = together.iter().zip(&played).zip(recordings).map(vm).collect();
        let incomplete = alone.iter().zip(recordings).filter(|(_, recording)| recording.incomplete > 0);
        let not_played = |(profile, recording): (&IsolationProfile, &Recording)| {
            let plural =
                if recording.incomplete == 1 { " without a completion is" } else { "s without completions are" };
            format!("{}: {} record{plural} left out", profile.vm, recording.incomplete)
        };
        let notes = [shown(&fitted, order, sure)].into_iter().chain(others);
        let notes = notes.chain(incomplete.map(not_played)).collect();
        let policy = Some(DevicePolicy { name: policy.kind().to_owned(), sure });
        Ok(Consolidation { vms, policy, notes, ..Consolidation::default() })
    }

    fn plays(&self) -> bool {
        true
    }
}

/// That there is a recording of each machine, with requests in it.
fn enough(alone: &[IsolationProfile], recordings: &[Recording]) -> Result<(), PredictError> {
    if recordings.len() < alone.len() {
        return Err(PredictError::DoesNotHold(
            "the twin plays captures, and a profile tells no single requests; give the captures themselves".to_owned(),
        ));
    }
    let few = alone.iter().zip(recordings).find(|(_, recording)| recording.len() < REQUESTS_MIN);
    few.map_or(Ok(()), |(profile, recording)| {
        let few = recording.len();
        let what = format!("{few} requests with completions; the twin learns the device from {REQUESTS_MIN} at least");
        Err(PredictError::profile(profile, what))
    })
}

/// What the device is, in words.
fn shown(fitted: &Fit, order: Order, sure: bool) -> String {
    match fitted {
        Fit::OneByOne(_) => format!(
            "the device takes requests in this order{}: {}{}; it is {} away",
            if sure { "" } else { ", which is not sure" },
            order.policy,
            if order.durable_first { ", durable writes ahead of all" } else { "" },
            Nanos::from_us(fitted.delay().as_ns() / 1000)
        ),
        Fit::Members(fitted) => fitted.to_string(),
        Fit::Several(_) => "the device serves several at once, or in no known order: response times go by what is \
                            under way"
            .to_owned(),
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
        limits: Limits { depth, merge: recording.merges, ..Limits::default() },
        scheduler: if waits.prefers_reads() { "mq-deadline" } else { "fifo" },
    }
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
    let of = |request: &&Recorded| !request.sync && request.moves_data();
    let mut issued: Vec<&Recorded> = recording.requests.iter().filter(of).collect();
    let mut completed: Vec<Timestamp> = issued.iter().map(|request| request.completed).collect();
    issued.sort_by_key(|request| request.issued);
    completed.sort();
    let mut done = 0;
    let mut found = Vec::new();
    for (index, request) in issued.iter().enumerate() {
        done += completed[done..].iter().take_while(|completed| **completed <= request.issued).count();
        if request.issued.saturating_since(request.arrival) > HAD_TO_WAIT {
            found.push(index - done);
        }
    }
    found.sort_unstable();
    if found.len() < WAITED_MIN { u32::MAX } else { found[found.len() / 2] as u32 + 1 }
}

/// The most requests that were at the device at once.
fn deepest(recording: &Recording) -> u32 {
    let moving = || recording.requests.iter().filter(|request| request.moves_data());
    let mut issued: Vec<Timestamp> = moving().map(|request| request.issued).collect();
    let mut completed: Vec<Timestamp> = moving().map(|request| request.completed).collect();
    issued.sort();
    completed.sort();
    let mut done = 0;
    let at_once = issued.iter().enumerate().map(|(index, at)| {
        done += completed[done..].iter().take_while(|completed| *completed <= at).count();
        index + 1 - done
    });
    at_once.max().map_or(1, |deepest| deepest.max(1) as u32)
}

/// What a recording shows that its machine got alone.
fn recorded(recording: &Recording) -> VmForecast {
    let mut got = Got::default();
    for request in recording.requests.iter().filter(|request| request.moves_data()) {
        got[request.operation as usize].add(request.completed.saturating_since(request.issued));
    }
    forecast(&got, recording.span().saturating_since(Timestamp::ZERO))
}

/// By what power of the share that is left of a figure's own time what it is off by alone counts.
const FADES: f64 = 0.5;

/// The forecast is what the twin makes of machines together. What it is off by alone is put right, but the less the longer responses get:
/// then they are other machines' doing, of which it says nothing.
fn scaled(
    together: OperationForecast,
    played: OperationForecast,
    recorded: OperationForecast,
    several: bool,
) -> OperationForecast {
    let responses = played.response_ns.zip(together.response_ns);
    let own = responses.map_or(1.0, |(played, together)| (played / together).clamp(0.0, 1.0));
    let counts = own.powf(FADES);
    let figure = |together: Option<f64>, played: Option<f64>, recorded: Option<f64>| {
        let off = recorded.zip(played.filter(|played| *played > 0.0)).map(|(recorded, played)| recorded / played);
        together.map(|together| together * off.map_or(1.0, |off| off.powf(counts)))
    };
    OperationForecast {
        iops: figure(together.iops, played.iops, recorded.iops),
        response_ns: figure(together.response_ns, played.response_ns, recorded.response_ns),
        percentiles_ns: std::array::from_fn(|index| {
            let of = |operation: &OperationForecast| operation.percentiles_ns[index];
            figure(of(&together), of(&played), of(&recorded))
        }),
        spread: spread::of(&together, &played, &recorded, several),
    }
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

    use super::*;

    fn operation(response_ms: f64, iops: f64) -> OperationForecast {
        OperationForecast::of_means(Some(iops), Some(response_ms * 1e6))
    }

    #[test]
    fn what_the_twin_is_off_by_alone_fades_as_others_make_it_wait() {
        let (played, recorded) = (operation(10.0, 100.0), operation(20.0, 50.0));
        let forecast = |response_ms: f64, iops: f64| {
            let scaled = scaled(operation(response_ms, iops), played, recorded, false);
            (scaled.response_ns.unwrap() / 1e6, scaled.iops.unwrap())
        };
        // Nobody else: all of it.
        assert_eq!(forecast(10.0, 100.0), (20.0, 50.0));
        // Four times as long: the square root of the factor.
        let (response, iops) = forecast(40.0, 25.0);
        assert!((response - 40.0 * 2f64.sqrt()).abs() < 1e-9 && (iops - 25.0 / 2f64.sqrt()).abs() < 1e-9);
        // Faster than alone is no less its own.
        assert_eq!(forecast(5.0, 200.0), (10.0, 100.0));
    }

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
