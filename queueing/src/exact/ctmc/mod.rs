//! Small nets whose services and delays are all exponential, as a continuous-time Markov chain.
//!
//! A state says how many tokens are served and lie in each depository, and which wait in which order. Immediate
//! transitions are fired at once, with the probabilities of the simulation ([`crate::net`]), so that the chain has only
//! states in which time passes. Its balance equations are solved by elimination, those of more states by
//! Gauss-Seidel sweeps.

mod balance;
mod state;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use crate::distribution::Distribution;
use crate::net::compiled::Compiled;
use crate::net::validate::{self, NetError};
use crate::net::{Discipline, Net};
use balance::balance;
use state::State;

/// The most states, unless another number is given.
pub const STATES_MAX: usize = 200_000;

/// The most numbers, of eight bytes at most, that all states together hold, and that all states behind one event do.
const HELD_MAX: usize = 8_000_000;

/// The most numbers that are copied from state to state while they are found. It takes about ten seconds.
const COPIED_MAX: usize = 2_000_000_000;

/// The most firings of immediate transitions behind one event, beyond ten for each token at the start.
const FIRINGS_MAX: usize = 100_000;

/// Firings after that, whose transitions the error names.
const NAMED_FIRINGS: usize = 1_000;

/// The steady state of a net. Times and rates are in the net's time unit.
#[derive(Clone, Debug, PartialEq)]
pub struct SteadyState {
    /// Number of states.
    pub states: usize,
    /// By place, in the order of the net, and by color, in the order of the place.
    pub places: Vec<Vec<ColorFigures>>,
    /// By queue: the mean share of servers that are busy; of an infinite server the mean number of tokens.
    pub utilisation: Vec<f64>,
}

/// A color in a place.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ColorFigures {
    /// Tokens that leave the place, per time unit.
    pub throughput: f64,
    /// Mean number of tokens, in queue and depository.
    pub population: f64,
    /// Mean time of a visit, in queue and depository, by Little's law; 0 without visits.
    pub residence: f64,
}

/// Why a net has no solution as a chain.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CtmcError {
    /// The net is unsound.
    #[error(transparent)]
    Net(#[from] NetError),
    /// A time that is not exponential.
    #[error("the {what} is not exponential with a mean above zero, as a Markov chain needs it: simulate the net")]
    NotExponential {
        /// Which time.
        what: String,
    },
    /// Too many states.
    #[error("it has more than {0} states: simulate it, or give it fewer tokens")]
    States(usize),
    /// States that are too large.
    #[error("its states hold too many tokens and places to be listed: simulate it, or give it fewer tokens")]
    TooLarge,
    /// Immediate transitions fire without end.
    #[error("immediate transitions fire without end: {}; give one of them a place that takes time", transitions.join(", "))]
    Loop {
        /// The names of the transitions.
        transitions: Vec<String>,
    },
    /// A state without a way out.
    #[error(
        "nothing can happen any more in one of its states: check that the tokens that a transition needs come back"
    )]
    Stuck,
    /// Several steady states.
    #[error("it ends in one of several sets of states that it never leaves, so it has no single steady state")]
    Several,
    /// The sweeps did not end.
    #[error("its probabilities did not settle, since it is large and its rates lie far apart: simulate it")]
    NotSettled,
}

/// The steady state of a net of at most `states_max` states.
///
/// # Errors
/// An unsound net; a service or delay that is not exponential; too many states; a net without a single steady state.
pub fn solve(net: &Net, states_max: usize) -> Result<SteadyState, CtmcError> {
    validate::check(net)?;
    let compiled = Compiled::new(net);
    let chain = Chain::new(net, &compiled)?;
    let Explored { states, transitions } = chain.explore(states_max)?;
    let probabilities = balance(states.len(), &transitions)?;
    chain.figures(net, &states, &probabilities)
}

struct Chain<'a> {
    net: &'a Compiled,
    /// Names of the transitions.
    names: Vec<&'a str>,
    /// Numbers that have been copied from state to state.
    copied: Cell<usize>,
    /// By slot: services per time unit of one token on one server; 0 without a queue.
    service_rates: Vec<f64>,
    /// By mode: firings per time unit while enabled; 0 of an immediate one.
    firing_rates: Vec<f64>,
}

/// All states that are reached, and the rates between them: from, to, per time unit.
struct Explored {
    states: Vec<Rc<State>>,
    transitions: Vec<(usize, usize, f64)>,
}

/// The rate of an exponential time.
fn rate(time: &Distribution, what: impl Fn() -> String) -> Result<f64, CtmcError> {
    match time {
        Distribution::Exponential { mean } if *mean > 0.0 => Ok(1.0 / mean),
        Distribution::Gamma { mean, shape } if *mean > 0.0 && *shape == 1.0 => Ok(1.0 / mean),
        _ => Err(CtmcError::NotExponential { what: what() }),
    }
}

impl<'a> Chain<'a> {
    fn new(net: &'a Net, compiled: &'a Compiled) -> Result<Chain<'a>, CtmcError> {
        let service_rate = |slot: &crate::net::compiled::Slot| {
            let place = &net.places[slot.place];
            let color = place.colors.iter().find(|color| color.color == slot.color);
            let service = color.and_then(|color| color.service.as_ref()).filter(|_| slot.service.is_some());
            let what = || format!("service of {} in place {}", net.colors[slot.color], place.name);
            service.map_or(Ok(0.0), |service| rate(service, what))
        };
        let mut firing_rates = Vec::new();
        for transition in &net.transitions {
            for mode in &transition.modes {
                let what = || format!("delay of mode {} of transition {}", mode.name, transition.name);
                firing_rates.push(mode.delay.as_ref().map_or(Ok(0.0), |delay| rate(delay, what))?);
            }
        }
        let service_rates = compiled.slots.iter().map(service_rate).collect::<Result<_, _>>()?;
        let names = net.transitions.iter().map(|transition| transition.name.as_str()).collect();
        Ok(Chain { net: compiled, names, copied: Cell::new(0), service_rates, firing_rates })
    }

    fn explore(&self, states_max: usize) -> Result<Explored, CtmcError> {
        let mut numbers: HashMap<Rc<State>, usize> = HashMap::new();
        let mut states: Vec<Rc<State>> = Vec::new();
        let mut transitions = Vec::new();
        let mut number = |state: State, states: &mut Vec<Rc<State>>| {
            let next = states.len();
            let state = Rc::new(state);
            let number = *numbers.entry(Rc::clone(&state)).or_insert(next);
            if number == next {
                states.push(state);
            }
            (number < states_max).then_some(number).ok_or(CtmcError::States(states_max))
        };
        let mut held = 0;
        let mut unused = vec![0.0; self.net.slots.len()];
        for (state, _) in self.settle(self.initial(), 1.0, &mut unused)? {
            number(state, &mut states)?;
        }
        let mut from = 0;
        while from < states.len() {
            held += states[from].size();
            if held > HELD_MAX {
                return Err(CtmcError::TooLarge);
            }
            let events = self.events(&states[from], &mut unused);
            if events.is_empty() {
                return Err(CtmcError::Stuck);
            }
            for (next, rate) in events {
                for (next, rate) in self.settle(next, rate, &mut unused)? {
                    transitions.push((from, number(next, &mut states)?, rate));
                }
            }
            from += 1;
        }
        Ok(Explored { states, transitions })
    }

    /// What may happen next, before anything fires at once: the states and their rates. Tokens that leave a place are
    /// added to `departures` with the rate at which they do.
    fn events(&self, state: &State, departures: &mut [f64]) -> Vec<(State, f64)> {
        let mut events = Vec::new();
        for (slot, compiled) in self.net.slots.iter().enumerate() {
            let Some((queue, _)) = &compiled.service else { continue };
            if state.served[slot] > 0 {
                self.complete(state, slot, *queue, &mut events);
            }
        }
        for (mode, compiled) in self.net.modes.iter().enumerate() {
            if compiled.timer.is_some() && self.is_enabled(state, mode) {
                let rate = self.firing_rates[mode];
                events.push((self.fire(state, mode, rate, departures), rate));
            }
        }
        events
    }

    /// A token of a slot has been served; the next waiting one begins.
    fn complete(&self, state: &State, slot: usize, queue: usize, events: &mut Vec<(State, f64)>) {
        let compiled = self.net.queues[queue];
        let served: u32 = self.served(state, queue);
        let share = if compiled.discipline == Discipline::Ps {
            f64::from(compiled.servers.min(served)) / f64::from(served)
        } else {
            1.0
        };
        let rate = f64::from(state.served[slot]) * self.service_rates[slot] * share;
        let mut left = state.clone();
        left.served[slot] -= 1;
        let waiting = state.waiting[queue].len();
        let choices = match compiled.discipline {
            Discipline::Random => 0..waiting,
            _ => 0..waiting.min(1),
        };
        if choices.is_empty() {
            self.deposit(&mut left, slot);
            events.push((left, rate));
            return;
        }
        for chosen in choices.clone() {
            let mut next = left.clone();
            let token = next.waiting[queue].remove(chosen);
            next.served[token] += 1;
            self.deposit(&mut next, slot);
            events.push((next, rate / choices.len() as f64));
        }
    }

    /// Fires immediate transitions until none is enabled: the states that are reached, with `mass` shared among them.
    fn settle(&self, state: State, mass: f64, departures: &mut [f64]) -> Result<BTreeMap<State, f64>, CtmcError> {
        let mut settled = BTreeMap::new();
        let mut pending = BTreeMap::from([(state, mass)]);
        let initial: u64 = self.net.slots.iter().map(|slot| u64::from(slot.initial)).sum();
        let firings_max = FIRINGS_MAX.saturating_add(10 * initial as usize);
        let (mut firings, mut held) = (0, 0);
        let mut looping = BTreeSet::new();
        while let Some((state, mass)) = pending.pop_first() {
            let modes = self.choices(&state);
            let size = (1 + modes.len()) * state.size();
            self.copied.set(self.copied.get() + size);
            held += size;
            if self.copied.get() > COPIED_MAX || held > HELD_MAX {
                return Err(CtmcError::TooLarge);
            }
            if modes.is_empty() {
                *settled.entry(state).or_default() += mass;
                continue;
            }
            for (mode, probability) in modes {
                firings += 1;
                if firings > firings_max {
                    looping.insert(self.net.modes[mode].transition);
                }
                let mass = mass * probability;
                // A loop that is left at times has lost all its mass before long.
                if mass > 0.0 {
                    let next = self.fire(&state, mode, mass, departures);
                    *pending.entry(next).or_default() += mass;
                }
            }
            if firings > firings_max + NAMED_FIRINGS {
                let name = |transition: usize| self.names[transition].to_owned();
                return Err(CtmcError::Loop { transitions: looping.into_iter().map(name).collect() });
            }
        }
        Ok(settled)
    }

    /// The immediate modes that may fire next, with their probabilities: a transition of the highest priority by its
    /// weight, then one of its modes by its own.
    fn choices(&self, state: &State) -> Vec<(usize, f64)> {
        let enabled_modes = |transition: usize| -> Vec<usize> {
            let modes = self.net.transitions[transition].modes.clone();
            modes.filter(|&mode| self.net.modes[mode].timer.is_none() && self.is_enabled(state, mode)).collect()
        };
        let enabled: Vec<(usize, Vec<usize>)> = (0..self.net.transitions.len())
            .map(|transition| (transition, enabled_modes(transition)))
            .filter(|(_, modes)| !modes.is_empty())
            .collect();
        let rank = |transition: usize| self.net.transitions[transition].rank;
        let Some(highest) = enabled.iter().map(|(transition, _)| rank(*transition)).min() else { return Vec::new() };
        let first = || enabled.iter().filter(|(transition, _)| rank(*transition) == highest);
        let all: f64 = first().map(|(transition, _)| self.net.transitions[*transition].weight).sum();
        let mut choices = Vec::new();
        for (transition, modes) in first() {
            let of_modes: f64 = modes.iter().map(|&mode| self.net.modes[mode].weight).sum();
            let share = self.net.transitions[*transition].weight / all;
            choices.extend(modes.iter().map(|&mode| (mode, share * self.net.modes[mode].weight / of_modes)));
        }
        choices
    }

    fn figures(&self, net: &Net, states: &[Rc<State>], probabilities: &[f64]) -> Result<SteadyState, CtmcError> {
        let slots = self.net.slots.len();
        let (mut departures, mut population) = (vec![0.0; slots], vec![0.0; slots]);
        let mut utilisation = vec![0.0; self.net.queues.len()];
        for (state, &probability) in states.iter().zip(probabilities) {
            for (slot, population) in population.iter_mut().enumerate() {
                *population += probability * f64::from(state.served[slot] + state.depository[slot]);
            }
            state.waiting.iter().flatten().for_each(|&token| population[token] += probability);
            for (queue, utilisation) in utilisation.iter_mut().enumerate() {
                let compiled = self.net.queues[queue];
                let served = self.served(state, queue);
                let of = if compiled.discipline == Discipline::Is { 1.0 } else { f64::from(compiled.servers) };
                *utilisation += probability * f64::from(served.min(compiled.servers)) / of;
            }
            let mut of_state = vec![0.0; slots];
            for (next, rate) in self.events(state, &mut of_state) {
                self.settle(next, rate, &mut of_state)?;
            }
            departures.iter_mut().zip(of_state).for_each(|(sum, of_state)| *sum += probability * of_state);
        }
        let mut places: Vec<Vec<ColorFigures>> = vec![Vec::new(); net.places.len()];
        for (slot, compiled) in self.net.slots.iter().enumerate() {
            let (throughput, population) = (departures[slot], population[slot]);
            let residence = if throughput > 0.0 { population / throughput } else { 0.0 };
            places[compiled.place].push(ColorFigures { throughput, population, residence });
        }
        Ok(SteadyState { states: states.len(), places, utilisation })
    }
}
