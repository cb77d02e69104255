//! The stack: layers of stages above one drive, as requests pass them in a data centre. Examples of layers are guests
//! with a scheduler each, a hypervisor that divides the device among VMs, a queue for each LUN, and an array or a disk.
//!
//! Each layer is one stage, or one stage for each VM. Together they form a tree: its leaves are the guests and its root
//! stands above the drive. A request that a layer sends down arrives at the next layer. When the next layer completes
//! it, it completes in the layer that sent it.
//!
//! At one point of time all completions come first, from the drive up, then the arrivals, then the dispatches from the
//! top down. So each stage sees at its turn all events that have reached it by then, as a single stage does in
//! [`crate::Engine`].
//!
//! The first layer makes the flush sequences; the layers below it see plain flushes and join them to their own.
//! Simplified: every layer knows the drive's [`schedulers::AccessCost`] and the position of its head, which is more
//! than a guest knows.

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
use crate::source::Arrival;
use layer::Watched;

pub use layer::{Layer, LayerConfig, MakeScheduler};
pub use presets::{PRESETS, Preset};
pub use shares::Shares;
pub use spec::{LAYER_SETTINGS, LayerSpec, StackError, StackSpec};
pub use watch::Counts;

/// Layers of stages above a drive.
pub struct Stack {
    /// From the guests down; at least one.
    layers: Vec<Layer>,
    drive: Box<dyn DriveModel>,
    /// The layer whose decisions the observer sees.
    watched: usize,
    now: Timestamp,
    /// Arrivals as the source sent them, by id.
    arrivals: Vec<Request>,
    free: Vec<RequestId>,
    // Reused so that nothing is allocated per request.
    completions: Vec<Completion>,
}

impl Stack {
    /// An idle stack of `layers`, the layer of the guests first, above `drive`.
    ///
    /// # Panics
    /// If there is no layer.
    pub fn new(layers: Vec<Layer>, drive: Box<dyn DriveModel>) -> Stack {
        assert!(!layers.is_empty(), "a stack has at least one layer");
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

    /// Shows the observer the decisions of this layer instead of those of the last one. The requests sent to the drive
    /// and served by it are always those of the last layer.
    ///
    /// # Panics
    /// If there is no such layer.
    #[must_use]
    pub fn watching(mut self, layer: usize) -> Stack {
        assert!(layer < self.layers.len(), "there are {} layers", self.layers.len());
        self.watched = layer;
        self
    }

    /// The layers, the layer of the guests first.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    fn watched_of(&self, layer: usize) -> Watched {
        Watched { decides: layer == self.watched, last: layer + 1 == self.layers.len() }
    }

    /// Delivers to the layer or drive below `layer` the requests that have reached the end of the line.
    fn deliver<O: Observer>(&mut self, now: Timestamp, layer: usize, observer: &mut O) {
        self.now = now;
        let watched = if layer + 1 < self.layers.len() { Some(self.watched_of(layer + 1)) } else { None };
        let (upper, lower) = self.layers.split_at_mut(layer + 1);
        let line = &mut upper[layer].line;
        while let Some((id, request)) = line.arriving(now) {
            match (lower.first_mut(), watched) {
                (Some(below), Some(watched)) => {
                    below.arrive(now, id, request, &self.drive, watched, observer);
                }
                _ if self.drive.accepts(&request) => self.drive.submit(now, id, &request),
                _ => return,
            }
            line.arrived();
        }
    }

    /// Moves the completions of the first layer to `done`.
    fn leave(&mut self, done: &mut Vec<Arrival>) {
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

    /// Counts the first layer only: the requests below it are parts of these.
    fn outstanding(&self) -> usize {
        self.layers[0].outstanding()
    }

    fn next_event(&self) -> Option<Timestamp> {
        let drive = if self.outstanding() > 0 { self.drive.next_event() } else { None };
        let of_layer = |layer: &Layer| [layer.wake(), layer.line.next_event(self.now)].into_iter().flatten().min();
        // A flush that a layer above sequences has nothing to do in this one if completed writes are durable.
        let finished = self.layers[1..].iter().any(|layer| !layer.finished.is_empty());
        self.layers.iter().filter_map(of_layer).chain(drive).chain(finished.then_some(self.now)).min()
    }

    fn complete<O: Observer>(&mut self, now: Timestamp, observer: &mut O, done: &mut Vec<Arrival>) {
        self.now = now;
        self.drive.advance(now, &mut self.completions);
        for layer in (0..self.layers.len()).rev() {
            let watched = self.watched_of(layer);
            let (upper, lower) = self.layers.split_at_mut(layer + 1);
            let current = &mut upper[layer];
            let finished = lower.first_mut().map_or(&mut self.completions, |below| &mut below.finished);
            for completion in finished.drain(..) {
                current.line.give_back(now, completion);
            }
            while let Some(completion) = current.line.returned(now) {
                current.complete(now, &completion, watched, observer);
            }
        }
        self.leave(done);
    }

    fn arrive<O: Observer>(&mut self, now: Timestamp, request: Request, observer: &mut O, done: &mut Vec<Arrival>) {
        let id = self.next_id();
        if self.free.pop().is_some() {
            self.arrivals[id.index()] = request;
        } else {
            self.arrivals.push(request);
        }
        observer.arrived(now, id, &request);
        let watched = self.watched_of(0);
        self.layers[0].arrive(now, id, request, &self.drive, watched, observer);
        self.leave(done);
    }

    fn fault(&self) -> Option<String> {
        let mut schedulers = self.layers.iter().flat_map(Layer::schedulers);
        schedulers.find_map(|scheduler| scheduler.fault().map(str::to_owned))
    }

    fn dispatch<O: Observer>(&mut self, now: Timestamp, observer: &mut O) {
        for layer in 0..self.layers.len() {
            let watched = self.watched_of(layer);
            loop {
                self.deliver(now, layer, observer);
                let (upper, lower) = self.layers.split_at_mut(layer + 1);
                if !upper[layer].send_one(now, lower.first(), &mut *self.drive, watched, observer) {
                    break;
                }
            }
        }
    }
}
