//! A net as flat arrays, made once before it is solved.
//!
//! A *slot* is one color in one place. Places, colors, modes and arcs become ranges of indices, so that a firing
//! touches only what is next to it.

use std::ops::Range;

use super::{Arc, Departure, Discipline, Net, PlaceKind, Timing};
use crate::distribution::Sampler;

/// A color in a place.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) place: usize,
    pub(crate) color: usize,
    /// The queue and the service of a timed queueing place.
    pub(crate) service: Option<(usize, Sampler)>,
    /// Rank among the priorities of its queue; 0 goes first.
    pub(crate) rank: usize,
    /// Index of the place's line, where tokens leave in the order in which they came.
    pub(crate) line: Option<usize>,
    pub(crate) initial: u32,
    /// The immediate mode that takes the tokens of this slot one by one, if no other mode takes them and it takes
    /// nothing else. If nothing else is enabled, a token passes straight through it.
    pub(crate) pass: Option<usize>,
    /// Modes that take tokens from here: a range of [`Compiled::takers`].
    pub(crate) takers: Range<usize>,
}

/// A mode that takes `count` tokens from a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taker {
    pub(crate) mode: usize,
    pub(crate) count: u32,
}

/// A mode.
#[derive(Clone, Debug)]
pub(crate) struct CompiledMode {
    pub(crate) transition: usize,
    pub(crate) weight: f64,
    /// The delay and the clock of a mode of a timed transition.
    pub(crate) timer: Option<(usize, Sampler)>,
    /// Ranges of [`Compiled::arcs`].
    pub(crate) inputs: Range<usize>,
    pub(crate) outputs: Range<usize>,
}

/// A transition.
#[derive(Clone, Debug)]
pub(crate) struct CompiledTransition {
    pub(crate) weight: f64,
    /// Rank among the priorities of immediate transitions; 0 goes first.
    pub(crate) rank: usize,
    pub(crate) modes: Range<usize>,
}

/// A queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompiledQueue {
    pub(crate) discipline: Discipline,
    /// All that there are for an infinite server.
    pub(crate) servers: u32,
    /// Number of different priorities of its tokens.
    pub(crate) ranks: usize,
    /// The clock of a queue with processor sharing.
    pub(crate) clock: usize,
}

/// What a clock times.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Clock {
    Queue(usize),
    Mode(usize),
}

/// The net.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    pub(crate) slots: Vec<Slot>,
    pub(crate) takers: Vec<Taker>,
    pub(crate) modes: Vec<CompiledMode>,
    /// Slots and counts.
    pub(crate) arcs: Vec<(usize, u32)>,
    pub(crate) transitions: Vec<CompiledTransition>,
    pub(crate) queues: Vec<CompiledQueue>,
    pub(crate) clocks: Vec<Clock>,
    /// Number of priorities of immediate transitions.
    pub(crate) ranks: usize,
    /// Number of places with departures in order of arrival.
    pub(crate) lines: usize,
}

impl Compiled {
    /// Compiles a net that [`crate::net::validate::check`] has accepted.
    pub(crate) fn new(net: &Net) -> Compiled {
        let mut compiled = Compiled {
            slots: Vec::new(),
            takers: Vec::new(),
            modes: Vec::new(),
            arcs: Vec::new(),
            transitions: Vec::new(),
            queues: Vec::new(),
            clocks: Vec::new(),
            ranks: 0,
            lines: 0,
        };
        for queue in &net.queues {
            let clock = compiled.clocks.len();
            if queue.discipline == Discipline::Ps {
                compiled.clocks.push(Clock::Queue(compiled.queues.len()));
            }
            compiled.queues.push(CompiledQueue {
                discipline: queue.discipline,
                servers: if queue.discipline == Discipline::Is { u32::MAX } else { queue.servers },
                ranks: 1,
                clock,
            });
        }
        compiled.add_places(net);
        compiled.add_transitions(net);
        for index in 0..compiled.slots.len() {
            let start = compiled.takers.len();
            for (mode, compiled_mode) in compiled.modes.iter().enumerate() {
                for &(slot, count) in &compiled.arcs[compiled_mode.inputs.clone()] {
                    if slot == index {
                        compiled.takers.push(Taker { mode, count });
                    }
                }
            }
            if let [Taker { mode, count: 1 }] = compiled.takers[start..] {
                let compiled_mode = &compiled.modes[mode];
                let alone = compiled_mode.inputs.len() == 1 && compiled_mode.timer.is_none();
                compiled.slots[index].pass = (alone && compiled.slots[index].line.is_none()).then_some(mode);
            }
            compiled.slots[index].takers = start..compiled.takers.len();
        }
        compiled
    }

    fn add_places(&mut self, net: &Net) {
        for (place_index, place) in net.places.iter().enumerate() {
            let line = (place.departure == Departure::Fifo).then_some(self.lines);
            self.lines += usize::from(line.is_some());
            for color in &place.colors {
                let service = match (place.kind, &color.service) {
                    (PlaceKind::Queueing(queue), Some(service)) => Some((queue, service.sampler())),
                    _ => None,
                };
                let mut rank = 0;
                if let PlaceKind::Queueing(queue) = place.kind {
                    let priorities = ranked(
                        net.places
                            .iter()
                            .filter(|other| other.kind == place.kind)
                            .flat_map(|other| other.colors.iter().map(|color| color.priority)),
                    );
                    rank = priorities.iter().position(|&priority| priority == color.priority).unwrap_or(0);
                    self.queues[queue].ranks = priorities.len();
                }
                self.slots.push(Slot {
                    place: place_index,
                    color: color.color,
                    service,
                    rank,
                    line,
                    initial: color.initial,
                    pass: None,
                    takers: 0..0,
                });
            }
        }
    }

    fn add_transitions(&mut self, net: &Net) {
        let priority = |timing: &Timing| match timing {
            Timing::Immediate { priority, .. } => Some(*priority),
            Timing::Timed => None,
        };
        let priorities = ranked(net.transitions.iter().filter_map(|transition| priority(&transition.timing)));
        self.ranks = priorities.len();
        for (index, transition) in net.transitions.iter().enumerate() {
            let start = self.modes.len();
            for mode in &transition.modes {
                let inputs = self.add_arcs(&mode.inputs);
                let outputs = self.add_arcs(&mode.outputs);
                let timer = match (transition.timing, &mode.delay) {
                    (Timing::Timed, Some(delay)) => {
                        self.clocks.push(Clock::Mode(self.modes.len()));
                        Some((self.clocks.len() - 1, delay.sampler()))
                    }
                    _ => None,
                };
                self.modes.push(CompiledMode { transition: index, weight: mode.weight, timer, inputs, outputs });
            }
            let (weight, rank) = match transition.timing {
                Timing::Immediate { priority, weight } => {
                    (weight, priorities.iter().position(|&other| other == priority).unwrap_or(0))
                }
                Timing::Timed => (1.0, 0),
            };
            self.transitions.push(CompiledTransition { weight, rank, modes: start..self.modes.len() });
        }
    }

    /// Adds arcs, those to the same slot as one.
    fn add_arcs(&mut self, arcs: &[Arc]) -> Range<usize> {
        let start = self.arcs.len();
        for arc in arcs.iter().filter(|arc| arc.count > 0) {
            let found = self.slots.iter().position(|slot| slot.place == arc.place && slot.color == arc.color);
            let Some(slot) = found else { continue };
            match self.arcs[start..].iter_mut().find(|(other, _)| *other == slot) {
                Some((_, count)) => *count = count.saturating_add(arc.count),
                None => self.arcs.push((slot, arc.count)),
            }
        }
        start..self.arcs.len()
    }
}

/// The different priorities, the greatest first.
fn ranked(priorities: impl Iterator<Item = i32>) -> Vec<i32> {
    let mut ranked: Vec<i32> = priorities.collect();
    ranked.sort_unstable_by(|one, other| other.cmp(one));
    ranked.dedup();
    ranked
}
