//! Discrete-event simulation of queueing Petri nets.
//!
//! [`simulate`] runs one replication or several, each from a seed of its own, until the intervals of the watched
//! quantities are narrow enough. The warm-up of each replication is dropped by MSER-5. Intervals come from batch means
//! (all replications' batches together) or from one mean per replication. The results are the same for any number of
//! threads.

mod batches;
mod engine;
mod estimate;
mod events;
mod histogram;
mod result;
mod waiting;

pub use histogram::Histogram;
pub use result::{ColorResult, Estimate, Measure, PlaceResult, Quantity, QueueResult, SimulationResult};

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use crate::net::Net;
use crate::net::compiled::Compiled;
use crate::net::validate::{self, NetError};
use batches::{Batches, Ratio};
use engine::Engine;

/// How intervals are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// From the means of 31 groups of batches.
    BatchMeans,
    /// From one mean for each replication: replication and deletion.
    Replications,
}

/// How to simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The seed of the random numbers.
    pub seed: u64,
    /// How intervals are made.
    pub method: Method,
    /// Number of independent replications, from 1 on; at least 2 for [`Method::Replications`].
    pub replications: u32,
    /// Stop once the half-width of each watched interval is at most this share of its mean. `None` runs to the bounds.
    pub precision: Option<f64>,
    /// The least and the most events of each replication.
    pub events: [u64; 2],
    /// The most simulated time of each replication, time units.
    pub time: f64,
    /// The quantities whose precision counts; empty for throughput and residence in all queueing places.
    pub watched: Vec<Quantity>,
    /// Whether to count residence times in histograms, after the first tenth of the least events.
    pub histograms: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            seed: 1,
            method: Method::BatchMeans,
            replications: 1,
            precision: Some(0.005),
            events: [200_000, 1_000_000_000],
            time: f64::INFINITY,
            watched: Vec::new(),
            histograms: false,
        }
    }
}

/// Why a simulation gave no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimulationError {
    /// The net is unsound.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The settings are unsound.
    #[error("{0}")]
    Settings(String),
    /// No event is left.
    #[error(
        "nothing can happen after time {time}: no token is in service and no transition is enabled; check that \
             the tokens that a transition needs come back"
    )]
    Stuck {
        /// When, time units.
        time: f64,
    },
    /// Immediate transitions fire without end.
    #[error("immediate transitions fire without end at time {time}: {}; give one of them a place that takes time",
            transitions.join(", "))]
    Loop {
        /// When, time units.
        time: f64,
        /// The names of the transitions.
        transitions: Vec<String>,
    },
    /// Services of no length follow one another without end.
    #[error("time stands still at {time}: services of no length follow one another without end{}; give one of them \
             a service time above zero", place.as_ref().map(|place| format!(", the last in place {place}")).unwrap_or_default())]
    Standing {
        /// When, time units.
        time: f64,
        /// The name of the place where the last service ended.
        place: Option<String>,
    },
    /// Tokens grow without bound.
    #[error(
        "place {place} holds {tokens} tokens at time {time}, and the net more than {TOKENS_MAX}: more come than \
             are served; lower the arrival rate or the service times"
    )]
    Grows {
        /// When, time units.
        time: f64,
        /// The fullest place.
        place: String,
        /// Its tokens.
        tokens: u64,
    },
}

/// The most tokens of a net.
pub const TOKENS_MAX: u64 = 10_000_000;

/// An error of the engine, which knows no names.
#[derive(Clone, Debug)]
enum EngineError {
    Stuck { time: f64 },
    ImmediateLoop { time: f64, transitions: Vec<usize> },
    TimeStands { time: f64, place: Option<usize> },
    Grows { time: f64, place: usize, tokens: u64 },
}

impl EngineError {
    fn named(self, net: &Net) -> SimulationError {
        match self {
            EngineError::Stuck { time } => SimulationError::Stuck { time },
            EngineError::ImmediateLoop { time, transitions } => SimulationError::Loop {
                time,
                transitions: transitions.into_iter().map(|index| net.transitions[index].name.clone()).collect(),
            },
            EngineError::TimeStands { time, place } => {
                SimulationError::Standing { time, place: place.map(|index| net.places[index].name.clone()) }
            }
            EngineError::Grows { time, place, tokens } => {
                SimulationError::Grows { time, place: net.places[place].name.clone(), tokens }
            }
        }
    }
}

/// A replication.
#[derive(Clone, Debug)]
struct Replication {
    engine: Engine,
    batches: Batches,
}

impl Replication {
    /// Runs to `events` events or past `time`, whichever comes first, in whole batches.
    fn run(&mut self, events: u64, time: f64, done: &AtomicU64) -> Result<(), EngineError> {
        while self.engine.event_count < events && self.engine.now < time {
            for _ in 0..self.batches.events {
                self.engine.step()?;
            }
            self.batches.close(&mut self.engine);
            done.fetch_add(self.batches.events, Ordering::Relaxed);
            self.check_tokens()?;
        }
        Ok(())
    }

    fn check_tokens(&self) -> Result<(), EngineError> {
        let tokens = |slot: &engine::SlotState| u64::from(slot.in_queue) + u64::from(slot.in_depository);
        if self.engine.slots.iter().map(tokens).sum::<u64>() <= TOKENS_MAX {
            return Ok(());
        }
        let fullest = self.engine.slots.iter().enumerate().max_by_key(|(_, slot)| tokens(slot));
        let (index, tokens) = fullest.map_or((0, 0), |(index, slot)| (index, tokens(slot)));
        Err(EngineError::Grows { time: self.engine.now, place: self.engine.net.slots[index].place, tokens })
    }
}

/// Simulates a net.
///
/// # Errors
/// An unsound net or setting; a net in which nothing can happen any more, time stands still, or tokens grow without
/// bound.
pub fn simulate(net: &Net, settings: &Settings) -> Result<SimulationResult, SimulationError> {
    simulate_counted(net, settings, &AtomicU64::new(0))
}

/// Simulates a net like [`simulate`], and counts the events of all replications in `done` while it runs.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_counted(net: &Net, settings: &Settings, done: &AtomicU64) -> Result<SimulationResult, SimulationError> {
    validate::check(net)?;
    check(settings)?;
    let compiled = Compiled::new(net);
    let watched = result::watched(net, &compiled, &settings.watched)?;
    let new = |index: u32| {
        // The generator spreads neighbouring seeds over its whole state.
        let seed = settings.seed.wrapping_add(u64::from(index).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let engine = Engine::new(compiled.clone(), seed, settings.histograms)?;
        Ok(Replication { batches: Batches::new(compiled.slots.len(), compiled.queues.len()), engine })
    };
    let named = |error: EngineError| error.named(net);
    let mut replications: Vec<Replication> =
        (0..settings.replications).map(new).collect::<Result<_, EngineError>>().map_err(named)?;
    let [least, most] = settings.events;
    let mut target = (least / 10).max(1);
    loop {
        let outcomes: Vec<Result<(), EngineError>> =
            replications.par_iter_mut().map(|replication| replication.run(target, settings.time, done)).collect();
        outcomes.into_iter().collect::<Result<(), EngineError>>().map_err(named)?;
        let warm_ups = warm_ups(&replications, &watched);
        let over = target >= most || replications.iter().any(|replication| replication.engine.now >= settings.time);
        let reached = is_precise(&replications, &warm_ups, &watched, settings);
        if over || (target >= least && reached) {
            return Ok(result::result(net, &compiled, &replications, &warm_ups, settings, reached));
        }
        for replication in &mut replications {
            replication.engine.recording = settings.histograms;
        }
        // Each look at the intervals is a chance to stop by luck, so the looks grow apart.
        target = if target < least { least } else { target.saturating_add(target / 2).max(target + 1) }.min(most);
    }
}

fn check(settings: &Settings) -> Result<(), SimulationError> {
    let refused = |problem: String| Err(SimulationError::Settings(problem));
    let least = if settings.method == Method::Replications { 2 } else { 1 };
    if !(least..=1000).contains(&settings.replications) {
        return refused(format!("{} replications: give {least} to 1000", settings.replications));
    }
    if let Some(precision) = settings.precision.filter(|share| !(*share > 0.0 && *share < 1.0)) {
        return refused(format!("precision {precision}: give a share above 0 and below 1"));
    }
    let [low, high] = settings.events;
    if low == 0 || low > high || high > 1 << 46 {
        return refused(format!("{low} to {high} events: give at least 1, at most 2^46, and the least first"));
    }
    if settings.time.is_nan() || settings.time <= 0.0 {
        return refused(format!("time {}: give a number above 0", settings.time));
    }
    Ok(())
}

/// The batches to drop of each replication: the most that a watched quantity asks for.
fn warm_ups(replications: &[Replication], watched: &[Ratio]) -> Vec<usize> {
    let of =
        |replication: &Replication| watched.iter().map(|ratio| replication.batches.warm_up(ratio)).max().unwrap_or(0);
    replications.iter().map(of).collect()
}

/// Whether each watched quantity is as precise as asked for.
fn is_precise(replications: &[Replication], warm_ups: &[usize], watched: &[Ratio], settings: &Settings) -> bool {
    let Some(precision) = settings.precision else { return false };
    let batches: Vec<&Batches> = replications.iter().map(|replication| &replication.batches).collect();
    watched.iter().all(|ratio| {
        let Estimate { mean, half_width } = estimate::estimate(&batches, warm_ups, ratio, settings.method);
        // What never happens is as precise as it gets.
        mean == 0.0 || half_width.is_some_and(|width| width <= precision * mean.abs())
    })
}

#[cfg(test)]
mod tests;
