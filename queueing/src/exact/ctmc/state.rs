//! A state of the chain, and how services, firings and arrivals change it.

use std::collections::VecDeque;

use super::Chain;
use crate::net::Discipline;

/// A state. Tokens are named by their slot: a color in a place.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct State {
    /// By slot: tokens in service, or sharing it.
    pub(super) served: Vec<u32>,
    /// By queue: tokens that wait, the next one first. In random order they are sorted by slot.
    pub(super) waiting: Vec<Vec<usize>>,
    /// By slot: tokens in the depository.
    pub(super) depository: Vec<u32>,
    /// By place with departures in order: tokens of its depository.
    pub(super) lines: Vec<VecDeque<usize>>,
}

impl State {
    /// How many numbers it holds.
    pub(super) fn size(&self) -> usize {
        let tokens = |lengths: &mut dyn Iterator<Item = usize>| lengths.map(|length| length + 3).sum::<usize>();
        let waiting = tokens(&mut self.waiting.iter().map(Vec::len));
        2 * self.served.len() + waiting + tokens(&mut self.lines.iter().map(VecDeque::len))
    }
}

impl Chain<'_> {
    /// The net at its start, before anything fires.
    pub(super) fn initial(&self) -> State {
        let mut state = State {
            served: vec![0; self.net.slots.len()],
            waiting: vec![Vec::new(); self.net.queues.len()],
            depository: vec![0; self.net.slots.len()],
            lines: vec![VecDeque::new(); self.net.lines],
        };
        for (slot, compiled) in self.net.slots.iter().enumerate() {
            self.put(&mut state, slot, compiled.initial);
        }
        state
    }

    /// Tokens in service in a queue, or sharing it.
    pub(super) fn served(&self, state: &State, queue: usize) -> u32 {
        let of_queue = self.net.slots.iter().zip(&state.served);
        of_queue
            .filter(|(slot, _)| slot.service.as_ref().is_some_and(|of| of.0 == queue))
            .map(|(_, served)| served)
            .sum()
    }

    pub(super) fn is_enabled(&self, state: &State, mode: usize) -> bool {
        let mut inputs = self.net.arcs[self.net.modes[mode].inputs.clone()].iter();
        inputs.all(|&(slot, count)| self.available(state, slot) >= count)
    }

    /// Tokens of a slot that may be taken.
    pub(super) fn available(&self, state: &State, slot: usize) -> u32 {
        match self.net.slots[slot].line {
            Some(line) => u32::from(state.lines[line].front() == Some(&slot)),
            None => state.depository[slot],
        }
    }

    /// The state behind a firing, whose departures count with `mass`.
    pub(super) fn fire(&self, state: &State, mode: usize, mass: f64, departures: &mut [f64]) -> State {
        let mut next = state.clone();
        for &(slot, count) in &self.net.arcs[self.net.modes[mode].inputs.clone()] {
            departures[slot] += mass * f64::from(count);
            next.depository[slot] -= count;
            if let Some(line) = self.net.slots[slot].line {
                next.lines[line].pop_front();
            }
        }
        for &(slot, count) in &self.net.arcs[self.net.modes[mode].outputs.clone()] {
            self.put(&mut next, slot, count);
        }
        next
    }

    /// Puts tokens into a place.
    pub(super) fn put(&self, state: &mut State, slot: usize, count: u32) {
        for _ in 0..count {
            match &self.net.slots[slot].service {
                Some((queue, _)) => self.enqueue(state, slot, *queue),
                None => self.deposit(state, slot),
            }
        }
    }

    pub(super) fn enqueue(&self, state: &mut State, slot: usize, queue: usize) {
        let compiled = self.net.queues[queue];
        let at_once = matches!(compiled.discipline, Discipline::Ps | Discipline::Is);
        if at_once || self.served(state, queue) < compiled.servers {
            state.served[slot] += 1;
            return;
        }
        let rank = |token: usize| self.net.slots[token].rank;
        let waiting = &mut state.waiting[queue];
        let place = match compiled.discipline {
            Discipline::Random => waiting.partition_point(|&token| token <= slot),
            Discipline::Priority => waiting.partition_point(|&token| rank(token) <= rank(slot)),
            _ => waiting.len(),
        };
        waiting.insert(place, slot);
    }

    pub(super) fn deposit(&self, state: &mut State, slot: usize) {
        state.depository[slot] += 1;
        if let Some(line) = self.net.slots[slot].line {
            state.lines[line].push_back(slot);
        }
    }
}
