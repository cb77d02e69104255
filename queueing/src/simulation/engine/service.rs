//! Queues: who is served, and when service ends.

use super::super::events::{Event, Events, SLOT_BITS};
use super::super::waiting::{Token, Waiting};
use super::Engine;
use crate::net::Discipline;
use crate::net::compiled::CompiledQueue;

/// A queue: its waiting tokens and servers.
#[derive(Clone, Debug)]
pub(in crate::simulation) struct QueueState {
    pub(super) waiting: Waiting,
    /// Tokens in service: with processor sharing all of the queue, which may be more than the servers.
    pub(in crate::simulation) busy: u32,
    /// As in a slot, of busy servers.
    pub(in crate::simulation) busy_sum: f64,
    /// Of processor sharing: the service that each token has got since the queue was empty, and when it was updated.
    attained: f64,
    updated: f64,
    /// Of processor sharing: tokens by the attained service at which they leave.
    sharing: Events,
}

impl QueueState {
    pub(super) fn new(queue: &CompiledQueue) -> QueueState {
        QueueState {
            waiting: Waiting::new(queue.discipline, queue.ranks),
            busy: 0,
            busy_sum: 0.0,
            attained: 0.0,
            updated: 0.0,
            sharing: Events::default(),
        }
    }

    /// Service of a token begins, `elapsed` after the start of the batch.
    #[inline]
    fn join(&mut self, servers: u32, elapsed: f64) {
        if self.busy < servers {
            self.busy_sum += elapsed;
        }
        self.busy += 1;
    }

    /// Service of a token ends.
    #[inline]
    fn leave(&mut self, servers: u32, elapsed: f64) {
        self.busy -= 1;
        if self.busy < servers {
            self.busy_sum -= elapsed;
        }
    }
}

impl Engine {
    /// The token of a queue with processor sharing that is served first has been served.
    pub(super) fn complete_shared(&mut self, queue: usize) {
        self.update_sharing(queue);
        let Some(event) = self.queues[queue].sharing.pop() else { return };
        // Exactly the service of the token that leaves, so that rounding does not add up.
        self.queues[queue].attained = event.time;
        self.leave_queue(event.slot(), queue);
        self.set_sharing_clock(queue);
        self.deposit(event.slot(), event.entered);
    }

    #[inline]
    pub(super) fn leave_queue(&mut self, slot: usize, queue: usize) {
        let elapsed = self.now - self.batch_start;
        let state = &mut self.slots[slot];
        state.in_queue -= 1;
        state.completions += 1;
        state.queue_sum -= elapsed;
        self.queues[queue].leave(self.net.queues[queue].servers, elapsed);
    }

    /// A token comes to the queue of its place.
    #[inline]
    pub(super) fn enqueue(&mut self, slot: usize, queue: usize) {
        let elapsed = self.now - self.batch_start;
        let state = &mut self.slots[slot];
        state.in_queue += 1;
        state.queue_sum += elapsed;
        let token = Token { slot, entered: self.now };
        let compiled = self.net.queues[queue];
        match compiled.discipline {
            Discipline::Ps => self.share(token, queue),
            Discipline::Is => self.serve(token),
            _ if self.queues[queue].busy < compiled.servers => self.serve(token),
            _ => self.queues[queue].waiting.add(token, self.net.slots[slot].rank),
        }
    }

    /// A server begins with a token.
    #[inline]
    pub(super) fn serve(&mut self, token: Token) {
        let Some((queue, service)) = &self.net.slots[token.slot].service else { return };
        let time = self.now + service.draw(&mut self.random);
        self.queues[*queue].join(self.net.queues[*queue].servers, self.now - self.batch_start);
        self.made += 1;
        self.events.push(Event { time, key: (self.made << SLOT_BITS) | token.slot as u64, entered: token.entered });
    }

    /// A token joins a queue with processor sharing.
    fn share(&mut self, token: Token, queue: usize) {
        self.update_sharing(queue);
        let Some((_, service)) = &self.net.slots[token.slot].service else { return };
        let service = service.draw(&mut self.random);
        self.made += 1;
        let key = (self.made << SLOT_BITS) | token.slot as u64;
        let state = &mut self.queues[queue];
        state.join(self.net.queues[queue].servers, self.now - self.batch_start);
        state.sharing.push(Event { time: state.attained + service, key, entered: token.entered });
        self.set_sharing_clock(queue);
    }

    /// Brings the attained service up to now.
    fn update_sharing(&mut self, queue: usize) {
        let servers = self.net.queues[queue].servers;
        let state = &mut self.queues[queue];
        if state.busy == 0 {
            state.attained = 0.0;
        } else {
            let rate = f64::from(servers.min(state.busy)) / f64::from(state.busy);
            state.attained += (self.now - state.updated) * rate;
        }
        state.updated = self.now;
    }

    fn set_sharing_clock(&mut self, queue: usize) {
        let compiled = self.net.queues[queue];
        let state = &mut self.queues[queue];
        let rate = f64::from(compiled.servers.min(state.busy)) / f64::from(state.busy.max(1));
        let rest = (state.sharing.next_time() - state.attained).max(0.0);
        self.clocks[compiled.clock] = if state.busy == 0 { f64::INFINITY } else { self.now + rest / rate };
    }
}
