//! The state of a net and the events that change it.

mod service;

use std::collections::VecDeque;

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::random::unit;

use super::EngineError;
use super::events::Events;
use super::histogram::Histogram;
use crate::net::compiled::{Clock, Compiled};
use service::QueueState;

/// More firings or events than this at one time, beyond ten for each token at the start, count as a loop.
const SAME_TIME_MAX: u64 = 1_000_000;

/// Firings after that, whose transitions the error names.
const NAMED_FIRINGS: u64 = 1_000;

/// Counts and integrals of a slot since the last batch began, and its tokens now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SlotState {
    /// Tokens that transitions may take.
    available: u32,
    /// Tokens in the queue and in the depository.
    pub(super) in_queue: u32,
    pub(super) in_depository: u32,
    /// Services that ended; tokens that left the place.
    pub(super) completions: u64,
    pub(super) departures: u64,
    /// Sum of change times time since the batch began. The integral is tokens times length less this sum.
    pub(super) queue_sum: f64,
    pub(super) depository_sum: f64,
}

/// A net in motion.
#[derive(Clone, Debug)]
pub(super) struct Engine {
    pub(super) net: Compiled,
    pub(super) now: f64,
    random: Xoshiro256PlusPlus,
    events: Events,
    clocks: Vec<f64>,
    made: u64,
    pub(super) slots: Vec<SlotState>,
    pub(super) queues: Vec<QueueState>,
    /// For each place with departures in order: tokens of its depository.
    lines: Vec<VecDeque<usize>>,
    /// Inputs of each mode that lack tokens.
    unmet: Vec<u32>,
    /// Enabled modes of each transition.
    enabled_modes: Vec<u32>,
    /// Enabled immediate transitions by rank.
    enabled: Vec<Vec<usize>>,
    enabled_count: usize,
    pub(super) batch_start: f64,
    pub(super) event_count: u64,
    /// Events since time last advanced.
    standing: u64,
    same_time_max: u64,
    /// Arrival times of the tokens in each depository, if residence times are kept.
    entered: Option<Vec<VecDeque<f64>>>,
    pub(super) histograms: Vec<Histogram>,
    pub(super) recording: bool,
}

impl Engine {
    /// The net at its start.
    ///
    /// # Errors
    /// Immediate transitions fire without end.
    pub(super) fn new(net: Compiled, seed: u64, histograms: bool) -> Result<Engine, EngineError> {
        let initial: u64 = net.slots.iter().map(|slot| u64::from(slot.initial)).sum();
        let mut engine = Engine {
            now: 0.0,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            events: Events::default(),
            clocks: vec![f64::INFINITY; net.clocks.len()],
            made: 0,
            slots: vec![SlotState::default(); net.slots.len()],
            queues: net.queues.iter().map(QueueState::new).collect(),
            lines: vec![VecDeque::new(); net.lines],
            unmet: net.modes.iter().map(|mode| mode.inputs.len() as u32).collect(),
            enabled_modes: vec![0; net.transitions.len()],
            enabled: vec![Vec::new(); net.ranks],
            enabled_count: 0,
            batch_start: 0.0,
            event_count: 0,
            standing: 0,
            same_time_max: SAME_TIME_MAX.saturating_add(initial.saturating_mul(10)),
            entered: histograms.then(|| vec![VecDeque::new(); net.slots.len()]),
            histograms: if histograms { vec![Histogram::default(); net.slots.len()] } else { Vec::new() },
            recording: false,
            net,
        };
        for mode in 0..engine.net.modes.len() {
            if engine.unmet[mode] == 0 {
                engine.enable(mode);
            }
        }
        for slot in 0..engine.net.slots.len() {
            engine.put(slot, engine.net.slots[slot].initial);
        }
        engine.fire_immediates()?;
        Ok(engine)
    }

    /// Makes the next event happen, and all firings that follow at once.
    ///
    /// # Errors
    /// No event is left; immediate transitions fire without end; time stands still.
    #[inline]
    pub(super) fn step(&mut self) -> Result<(), EngineError> {
        let next = self.events.next_time();
        let (mut clock, mut clock_time) = (0, f64::INFINITY);
        for (index, &time) in self.clocks.iter().enumerate() {
            if time < clock_time {
                (clock, clock_time) = (index, time);
            }
        }
        let time = next.min(clock_time);
        if time == f64::INFINITY {
            return Err(EngineError::Stuck { time: self.now });
        }
        self.event_count += 1;
        self.standing = if time > self.now { 0 } else { self.standing + 1 };
        self.now = time;
        let mut place = None;
        if next <= clock_time {
            if let Some(event) = self.events.pop() {
                place = Some(self.net.slots[event.slot()].place);
                self.complete(event.slot(), event.entered);
            }
        } else {
            match self.net.clocks[clock] {
                Clock::Queue(queue) => self.complete_shared(queue),
                Clock::Mode(mode) => self.fire(mode),
            }
        }
        if self.standing > self.same_time_max {
            return Err(EngineError::TimeStands { time: self.now, place });
        }
        if self.enabled_count > 0 { self.fire_immediates() } else { Ok(()) }
    }

    /// A token has been served in a queue without processor sharing.
    #[inline]
    fn complete(&mut self, slot: usize, entered: f64) {
        let Some((queue, _)) = &self.net.slots[slot].service else { return };
        let queue = *queue;
        self.leave_queue(slot, queue);
        if let Some(token) = self.queues[queue].waiting.next(&mut self.random) {
            self.serve(token);
        }
        match self.net.slots[slot].pass {
            // The only choice there is, without its detours.
            Some(mode) if self.enabled_count == 0 => self.pass(slot, mode, entered),
            _ => self.deposit(slot, entered),
        }
    }

    /// Fires `mode` with a token that has just been served and that it alone takes.
    #[inline]
    fn pass(&mut self, slot: usize, mode: usize, entered: f64) {
        self.slots[slot].departures += 1;
        if self.recording {
            self.histograms[slot].add(self.now - entered);
        }
        for index in self.net.modes[mode].outputs.clone() {
            let (slot, count) = self.net.arcs[index];
            self.put(slot, count);
        }
    }

    /// A token comes to the depository of its place.
    #[inline]
    fn deposit(&mut self, slot: usize, entered: f64) {
        let state = &mut self.slots[slot];
        state.in_depository += 1;
        state.depository_sum += self.now - self.batch_start;
        if let Some(kept) = &mut self.entered {
            kept[slot].push_back(entered);
        }
        match self.net.slots[slot].line {
            None => self.set_available(slot, self.slots[slot].available + 1),
            Some(line) => {
                self.lines[line].push_back(slot);
                if self.lines[line].len() == 1 {
                    self.set_available(slot, 1);
                }
            }
        }
    }

    /// Takes tokens out of a depository.
    #[inline]
    fn take(&mut self, slot: usize, count: u32) {
        let state = &mut self.slots[slot];
        state.in_depository -= count;
        state.departures += u64::from(count);
        state.depository_sum -= f64::from(count) * (self.now - self.batch_start);
        if let Some(kept) = &mut self.entered {
            for entered in kept[slot].drain(..count as usize) {
                if self.recording {
                    self.histograms[slot].add(self.now - entered);
                }
            }
        }
        match self.net.slots[slot].line {
            None => self.set_available(slot, self.slots[slot].available - count),
            Some(line) => {
                self.lines[line].pop_front();
                self.set_available(slot, 0);
                if let Some(&next) = self.lines[line].front() {
                    self.set_available(next, 1);
                }
            }
        }
    }

    /// Puts tokens into a place.
    #[inline]
    fn put(&mut self, slot: usize, count: u32) {
        let queue = self.net.slots[slot].service.as_ref().map(|service| service.0);
        for _ in 0..count {
            match queue {
                Some(queue) => self.enqueue(slot, queue),
                None => self.deposit(slot, self.now),
            }
        }
    }

    /// Sets how many tokens of a slot may be taken, and enables and disables the modes that this concerns.
    #[inline]
    fn set_available(&mut self, slot: usize, after: u32) {
        let before = std::mem::replace(&mut self.slots[slot].available, after);
        for index in self.net.slots[slot].takers.clone() {
            let taker = self.net.takers[index];
            match (before >= taker.count, after >= taker.count) {
                (false, true) => {
                    self.unmet[taker.mode] -= 1;
                    if self.unmet[taker.mode] == 0 {
                        self.enable(taker.mode);
                    }
                }
                (true, false) => {
                    self.unmet[taker.mode] += 1;
                    if self.unmet[taker.mode] == 1 {
                        self.disable(taker.mode);
                    }
                }
                _ => {}
            }
        }
    }

    #[inline]
    fn enable(&mut self, mode: usize) {
        let compiled = &self.net.modes[mode];
        if let Some((clock, delay)) = &compiled.timer {
            self.clocks[*clock] = self.now + delay.draw(&mut self.random);
            return;
        }
        let transition = compiled.transition;
        self.enabled_modes[transition] += 1;
        if self.enabled_modes[transition] == 1 {
            self.enabled[self.net.transitions[transition].rank].push(transition);
            self.enabled_count += 1;
        }
    }

    #[inline]
    fn disable(&mut self, mode: usize) {
        let compiled = &self.net.modes[mode];
        if let Some((clock, _)) = &compiled.timer {
            self.clocks[*clock] = f64::INFINITY;
            return;
        }
        let transition = compiled.transition;
        self.enabled_modes[transition] -= 1;
        if self.enabled_modes[transition] == 0 {
            let enabled = &mut self.enabled[self.net.transitions[transition].rank];
            if let Some(at) = enabled.iter().position(|&other| other == transition) {
                enabled.swap_remove(at);
                self.enabled_count -= 1;
            }
        }
    }

    /// Fires enabled immediate transitions until none is left.
    #[inline]
    fn fire_immediates(&mut self) -> Result<(), EngineError> {
        let mut fired = 0;
        let mut looping = Vec::new();
        while let Some(mode) = self.choose() {
            fired += 1;
            if fired > self.same_time_max {
                looping.push(self.net.modes[mode].transition);
                if fired > self.same_time_max + NAMED_FIRINGS {
                    looping.sort_unstable();
                    looping.dedup();
                    return Err(EngineError::ImmediateLoop { time: self.now, transitions: looping });
                }
            }
            self.fire(mode);
        }
        Ok(())
    }

    /// The mode that fires next.
    #[inline]
    fn choose(&mut self) -> Option<usize> {
        if self.enabled_count == 0 {
            return None;
        }
        let Engine { net, random, enabled, unmet, enabled_modes, .. } = self;
        let candidates = enabled.iter().find(|candidates| !candidates.is_empty())?;
        let transition = match candidates.as_slice() {
            [only] => *only,
            several => pick(several.iter().map(|&index| (index, net.transitions[index].weight)), random)?,
        };
        let modes = net.transitions[transition].modes.clone();
        let mut modes = modes.filter(|&mode| unmet[mode] == 0);
        if enabled_modes[transition] == 1 {
            return modes.next();
        }
        pick(modes.map(|mode| (mode, net.modes[mode].weight)), random)
    }

    #[inline]
    fn fire(&mut self, mode: usize) {
        let CompiledArcs { inputs, outputs, clock } = self.arcs_of(mode);
        if let Some(clock) = clock {
            self.clocks[clock] = f64::INFINITY;
        }
        for index in inputs {
            let (slot, count) = self.net.arcs[index];
            self.take(slot, count);
        }
        for index in outputs {
            let (slot, count) = self.net.arcs[index];
            self.put(slot, count);
        }
        // A timed mode that stayed enabled throughout begins a new delay.
        if let Some(clock) = clock
            && self.unmet[mode] == 0
            && self.clocks[clock] == f64::INFINITY
        {
            self.enable(mode);
        }
    }

    #[inline]
    fn arcs_of(&self, mode: usize) -> CompiledArcs {
        let mode = &self.net.modes[mode];
        CompiledArcs {
            inputs: mode.inputs.clone(),
            outputs: mode.outputs.clone(),
            clock: mode.timer.as_ref().map(|timer| timer.0),
        }
    }
}

/// The arcs and the clock of a mode.
struct CompiledArcs {
    inputs: std::ops::Range<usize>,
    outputs: std::ops::Range<usize>,
    clock: Option<usize>,
}

/// One of the candidates in proportion to their weights.
#[inline]
fn pick(candidates: impl Iterator<Item = (usize, f64)> + Clone, random: &mut impl Rng) -> Option<usize> {
    let total: f64 = candidates.clone().map(|(_, weight)| weight).sum();
    let mut left = total * unit(random.next_u64());
    let mut chosen = None;
    for (index, weight) in candidates {
        chosen = Some(index);
        left -= weight;
        if left < 0.0 {
            break;
        }
    }
    chosen
}
