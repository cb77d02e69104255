//! The machine room: layers of stages above one drive, as requests pass them in a data centre. Guests
//! with a scheduler each, a hypervisor that shares out, a queue for each LUN, an array or a disk.
//!
//! Each layer is one stage, or one for each VM; together they form a tree whose leaves are the guests
//! and whose root stands above the drive. What a layer sends down arrives at the next; what the next is
//! done with completes in the layer. At one time all completions come first, from the drive up,
//! then the arrivals, then the dispatches from the top down, so that each stage sees at its
//! turn everything that has reached it by then, as a stage alone does in [`crate::Engine`].
//!
//! Flush sequences are made by the first layer; those below it see plain flushes and join them to
//! their own. Every layer knows the drive's [`schedulers::AccessCost`] and where its head is, which
//! is more than a guest does.

mod id_map;
mod layer;
mod line;
pub mod presets;
mod shares;
pub mod spec;
mod watch;

use drive_models::{Completion, DriveModel};
use traces::{Request, RequestId, Timestamp};

use crate::host::Host;
use crate::observer::Observer;
use layer::Place;

pub use layer::{Layer, LayerConfig, MakeScheduler};
pub use presets::{PRESETS, Preset};
pub use shares::Shares;
pub use spec::{LAYER_SETTINGS, LayerSpec, StackError, StackSpec};
pub use watch::Counts;

/// A room.
pub struct Stack {
    /// From the guests down; at least one.
    layers: Vec<Layer>,
    drive: Box<dyn DriveModel>,
    /// The layer whose decisions the observer sees.
    watched: usize,
    now: Timestamp,
    /// Arrivals as they came, by id.
    arrivals: Vec<Request>,
    free: Vec<RequestId>,
    // Reused so that nothing is allocated per request.
    completions: Vec<Completion>,
}

impl Stack {
    /// An idle room of `layers`, the guests' first, above `drive`.
    ///
    /// # Panics
    /// If there is no layer.
    pub fn new(layers: Vec<Layer>, drive: Box<dyn DriveModel>) -> Stack {
        assert!(!layers.is_empty(), "a room has at least one layer");
        Stack {
            watched: layers.len() - 1,
            layers,
            drive,
            now: Timestamp::ZERO,
            arrivals: Vec::new(),
            free: Vec::new(),
            completions: Vec::new(),
        }
    }

    /// Shows the observer the decisions of this layer instead of the last one's. What was sent to the
    /// drive and served by it is the last layer's in any case.
    ///
    /// # Panics
    /// If there is no such layer.
    #[must_use]
    pub fn watching(mut self, layer: usize) -> Stack {
        assert!(layer < self.layers.len(), "there are {} layers", self.layers.len());
        self.watched = layer;
        self
    }

    /// The layers, the guests' first.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    fn place(&self, layer: usize) -> Place {
        Place { decides: layer == self.watched, last: layer + 1 == self.layers.len() }
    }

    /// Takes to the layer or drive below `layer` what has come to the end of the line.
    fn deliver<O: Observer>(&mut self, now: Timestamp, layer: usize, observer: &mut O) {
        let place = if layer + 1 < self.layers.len() { Some(self.place(layer + 1)) } else { None };
        let (upper, lower) = self.layers.split_at_mut(layer + 1);
        let line = &mut upper[layer].line;
        while let Some((id, request)) = line.arriving(now) {
            match (lower.first_mut(), place) {
                (Some(below), Some(place)) => {
                    below.arrive(now, id, request, &self.drive, place, observer);
                    // What there is nothing to do for has ended in the first layer.
                    debug_assert!(below.finished.is_empty(), "below the first layer every request is the drive's");
                }
                _ if self.drive.accepts(&request) => self.drive.submit(now, id, &request),
                _ => return,
            }
            line.arrived();
        }
    }

    /// What the first layer is done with leaves the room.
    fn leave(&mut self, done: &mut Vec<(RequestId, Request)>) {
        for completion in self.layers[0].finished.drain(..) {
            self.free.push(completion.id);
            done.push((completion.id, self.arrivals[completion.id.index()]));
        }
    }
}

impl Host for Stack {
    fn next_id(&self) -> RequestId {
        self.free.last().copied().unwrap_or_else(|| {
            RequestId(u32::try_from(self.arrivals.len()).expect("fewer than 2^32 requests are outstanding"))
        })
    }

    /// Of the first layer: what lies below is a part of these.
    fn outstanding(&self) -> usize {
        self.layers[0].outstanding()
    }

    fn next_event(&self) -> Option<Timestamp> {
        let drive = if self.outstanding() > 0 { self.drive.next_event() } else { None };
        let of_layer = |layer: &Layer| [layer.wake(), layer.line.next_event(self.now)].into_iter().flatten().min();
        self.layers.iter().filter_map(of_layer).chain(drive).min()
    }

    fn complete<O: Observer>(&mut self, now: Timestamp, observer: &mut O, done: &mut Vec<(RequestId, Request)>) {
        self.now = now;
        self.drive.advance(now, &mut self.completions);
        for layer in (0..self.layers.len()).rev() {
            let place = self.place(layer);
            let (upper, lower) = self.layers.split_at_mut(layer + 1);
            let current = &mut upper[layer];
            let finished = lower.first_mut().map_or(&mut self.completions, |below| &mut below.finished);
            for completion in finished.drain(..) {
                current.line.give_back(now, completion);
            }
            while let Some(completion) = current.line.returned(now) {
                current.complete(now, &completion, place, observer);
            }
        }
        self.leave(done);
    }

    fn arrive<O: Observer>(
        &mut self,
        now: Timestamp,
        request: Request,
        observer: &mut O,
        done: &mut Vec<(RequestId, Request)>,
    ) {
        let id = self.next_id();
        if self.free.pop().is_some() {
            self.arrivals[id.index()] = request;
        } else {
            self.arrivals.push(request);
        }
        observer.arrived(now, id, &request);
        let place = self.place(0);
        self.layers[0].arrive(now, id, request, &self.drive, place, observer);
        self.leave(done);
    }

    fn dispatch<O: Observer>(&mut self, now: Timestamp, observer: &mut O) {
        for layer in 0..self.layers.len() {
            let place = self.place(layer);
            loop {
                self.deliver(now, layer, observer);
                let (upper, lower) = self.layers.split_at_mut(layer + 1);
                if !upper[layer].send_one(now, lower.first(), &mut *self.drive, place, observer) {
                    break;
                }
            }
        }
    }
}
