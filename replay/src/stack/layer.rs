//! One layer of a room: a stage for all, or a stage for each VM, above one way down.

use drive_models::{Completion, DriveModel, WriteCache};
use schedulers::{AccessCost, Scheduler};
use traces::{Flags, Nanos, Operation, Priority, Request, RequestId, Sectors, StreamId, Timestamp, VmId};

use super::id_map::{IdMap, Sender};
use super::line::Line;
use super::watch::{Counts, Watch};
use crate::observer::Observer;
use crate::stage::{Limits, Stage};

/// What a layer does beside scheduling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerConfig {
    /// Each stage's limits.
    pub limits: Limits,
    /// Whether each VM has a stage of its own.
    pub per_vm: bool,
    /// Requests that the layer holds, waiting or sent on (`nr_requests`, a ring's length); what comes
    /// beyond waits above it.
    pub queue: u32,
    /// Whether the layer knows VMs alone, and neither their processes nor their priorities: a back end
    /// serves a whole guest in one thread.
    pub by_vm: bool,
    /// Whether writes become synchronous here, as in a back end that submits them as direct I/O
    /// (Linux 3.x `drivers/block/xen-blkback/blkback.c`, `WRITE_ODIRECT`).
    pub sync_writes: bool,
    /// How long a request takes from here to the layer below.
    pub delay_down: Nanos,
    /// How long a completion takes from the layer below to here.
    pub delay_up: Nanos,
}

impl Default for LayerConfig {
    fn default() -> LayerConfig {
        LayerConfig {
            limits: Limits::default(),
            per_vm: false,
            queue: u32::MAX,
            by_vm: false,
            sync_writes: false,
            delay_down: Nanos::ZERO,
            delay_up: Nanos::ZERO,
        }
    }
}

/// Makes a scheduler for each stage of a layer.
pub type MakeScheduler = Box<dyn Fn() -> Box<dyn Scheduler> + Send>;

/// What a layer knows of an arrival that is not done.
#[derive(Clone, Copy, Debug)]
struct Taken {
    /// Its id above.
    above: RequestId,
    /// When the drive began with the first part of it.
    started: Option<Timestamp>,
    /// What it has moved the head by.
    seek: Sectors,
    /// Whether everything so far came from the drive's cache.
    hit: bool,
}

/// A stage and its arrivals, by their id in the stage.
struct LayerStage {
    stage: Stage<Box<dyn Scheduler>>,
    taken: Vec<Taken>,
}

/// A layer.
pub struct Layer {
    passage: LayerConfig,
    make: MakeScheduler,
    desks: Vec<LayerStage>,
    /// The desk of each VM that was seen, by number.
    desk_of: Vec<Option<usize>>,
    /// Whose turn it is to send when there is room.
    turn: usize,
    /// Arrivals that are not done.
    held: u32,
    sent: IdMap,
    pub(super) line: Line,
    /// What is done and was not handed up yet.
    pub(super) finished: Vec<Completion>,
    counts: Counts,
    last_vm: Option<VmId>,
    // Reused so that nothing is allocated per request.
    done: Vec<(RequestId, Request)>,
}

/// Where in the room a layer stands, for who watches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) decides: bool,
    pub(super) last: bool,
}

impl Layer {
    /// An empty layer whose stages have a scheduler of `make` each.
    pub fn new(make: MakeScheduler, passage: LayerConfig) -> Layer {
        let desks = if passage.per_vm { Vec::new() } else { vec![LayerStage::new(make(), passage.limits)] };
        Layer {
            passage,
            make,
            desks,
            desk_of: Vec::new(),
            turn: 0,
            held: 0,
            sent: IdMap::default(),
            line: Line::new(passage.delay_down, passage.delay_up),
            finished: Vec::new(),
            counts: Counts::default(),
            last_vm: None,
            done: Vec::new(),
        }
    }

    /// With a stage for `vm` that has a scheduler and limits of its own; for layers with a stage for each VM.
    ///
    /// # Panics
    /// If all VMs share a stage, or this one has its own already.
    #[must_use]
    pub fn with_stage(mut self, vm: VmId, scheduler: Box<dyn Scheduler>, limits: Limits) -> Layer {
        assert!(self.passage.per_vm, "all VMs share the stage of this layer");
        let vm = usize::from(vm.0);
        if vm >= self.desk_of.len() {
            self.desk_of.resize(vm + 1, None);
        }
        let before = self.desk_of[vm].replace(self.desks.len());
        assert!(before.is_none(), "VM {vm} has a stage");
        self.desks.push(LayerStage::new(scheduler, limits));
        self
    }

    /// What it has counted.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Arrivals and parts that are not done.
    pub(super) fn outstanding(&self) -> usize {
        self.desks.iter().map(|desk| desk.stage.outstanding()).sum()
    }

    /// Whether it takes one more when `coming` are on their way to it.
    pub(super) fn has_room(&self, coming: usize) -> bool {
        self.held as usize + coming < self.passage.queue as usize
    }

    /// When one of its schedulers wants to be asked again.
    pub(super) fn wake(&self) -> Option<Timestamp> {
        self.desks.iter().filter_map(|desk| desk.stage.wake()).min()
    }

    /// Takes a request in that is `above` in the layer above.
    pub(super) fn arrive<D: DriveModel, O: Observer>(
        &mut self,
        now: Timestamp,
        above: RequestId,
        mut request: Request,
        drive: &D,
        place: Place,
        observer: &mut O,
    ) {
        if self.passage.by_vm {
            request.stream = StreamId(0);
            request.priority = Priority::NONE;
        }
        if self.passage.sync_writes && request.operation == Operation::Write {
            request.flags |= Flags::SYNC;
        }
        let index = self.desk(request.vm);
        self.held += 1;
        let Layer { desks, counts, last_vm, done, .. } = self;
        let desk = &mut desks[index];
        desk.take(above);
        let mut watch = Watch { counts, last_vm, decides: place.decides, last: place.last, observer };
        desk.stage.arrive(now, request, drive, &mut watch, done);
        self.hand_up(now, index, now);
    }

    /// Something sent down is done.
    pub(super) fn complete<O: Observer>(
        &mut self,
        now: Timestamp,
        completion: &Completion,
        place: Place,
        observer: &mut O,
    ) {
        let Sender { stage: index, id } = self.sent.take(completion.id);
        let Layer { desks, counts, last_vm, done, .. } = self;
        let desk = &mut desks[index];
        desk.account(id, completion);
        let mut watch = Watch { counts, last_vm, decides: place.decides, last: place.last, observer };
        // For this layer it is done when it hears of it.
        let completion = Completion { id, finished: now, ..*completion };
        desk.stage.complete(now, &completion, &mut watch, done);
        self.hand_up(now, index, completion.started);
    }

    /// The next stage in turn that has something to send, and room for it, sends one request down the
    /// line; false when none has. Who has sent goes to the end of the row.
    pub(super) fn send_one<O: Observer>(
        &mut self,
        now: Timestamp,
        below: Option<&Layer>,
        drive: &mut dyn DriveModel,
        place: Place,
        observer: &mut O,
    ) -> bool {
        let Layer { passage, desks, turn, sent, line, counts, last_vm, .. } = self;
        let several = desks.len() > 1;
        for _ in 0..desks.len() {
            // Wrapped here and not before, since a VM may have come in between.
            let index = if *turn < desks.len() { *turn } else { 0 };
            *turn = index + 1;
            let stage = &mut desks[index].stage;
            if several && stage.outstanding() == 0 && stage.wake().is_none() {
                continue;
            }
            let full = below.map(|below| !below.has_room(line.travelling()));
            // Without a look-ahead a scheduler keeps its choice until the layer below has room.
            if full == Some(true) && !passage.limits.look_ahead {
                stage.wait_for_room();
                continue;
            }
            let mut watch = Watch { counts, last_vm, decides: place.decides, last: place.last, observer };
            let mut way = WayDown { full, drive, line, sent, stage: index };
            if stage.dispatch_one(now, &mut way, &mut watch) {
                return true;
            }
        }
        false
    }

    /// The desk of a VM, set up when its first request comes.
    fn desk(&mut self, vm: VmId) -> usize {
        if !self.passage.per_vm {
            return 0;
        }
        let vm = usize::from(vm.0);
        if vm >= self.desk_of.len() {
            self.desk_of.resize(vm + 1, None);
        }
        *self.desk_of[vm].get_or_insert_with(|| {
            self.desks.push(LayerStage::new((self.make)(), self.passage.limits));
            self.desks.len() - 1
        })
    }

    /// What is done goes to the layer above. What no part of was served began when `started`.
    fn hand_up(&mut self, now: Timestamp, index: usize, started: Timestamp) {
        let Layer { desks, held, finished, done, .. } = self;
        let desk = &mut desks[index];
        for (id, _) in done.drain(..) {
            let Taken { above, started: begun, seek, hit } = desk.taken[id.index()];
            *held -= 1;
            let (started, hit) = (begun.unwrap_or(started), hit && begun.is_some());
            finished.push(Completion { id: above, started, finished: now, seek, hit });
        }
    }
}

impl LayerStage {
    fn new(scheduler: Box<dyn Scheduler>, limits: Limits) -> LayerStage {
        LayerStage { stage: Stage::new(scheduler, limits), taken: Vec::new() }
    }

    /// The next arrival is `above` in the layer above.
    fn take(&mut self, above: RequestId) {
        let taken = Taken { above, started: None, seek: Sectors::ZERO, hit: true };
        let id = self.stage.next_id().index();
        if id >= self.taken.len() {
            self.taken.resize(id + 1, taken);
        }
        self.taken[id] = taken;
    }

    /// Charges what was served to the arrivals it was made of: the way of the head to the first, so
    /// that it is counted once.
    fn account(&mut self, id: RequestId, completion: &Completion) {
        let mut seek = completion.seek;
        for arrival in self.stage.arrivals(id) {
            let taken = &mut self.taken[arrival.index()];
            let earliest = taken.started.map_or(completion.started, |started| started.min(completion.started));
            taken.started = Some(earliest);
            taken.hit &= completion.hit;
            taken.seek += std::mem::replace(&mut seek, Sectors::ZERO);
        }
    }
}

/// What lies below a layer, as one of its stages sees it.
struct WayDown<'a> {
    /// Whether the layer below has no room for another; the drive answers for itself.
    full: Option<bool>,
    drive: &'a mut dyn DriveModel,
    line: &'a mut Line,
    sent: &'a mut IdMap,
    stage: usize,
}

impl DriveModel for WayDown<'_> {
    fn capacity(&self) -> Sectors {
        self.drive.capacity()
    }

    fn accepts(&self, request: &Request) -> bool {
        match self.full {
            Some(full) => !full,
            None => self.line.delays() || (self.line.travelling() == 0 && self.drive.accepts(request)),
        }
    }

    fn submit(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        let below = self.sent.put(Sender { stage: self.stage, id });
        self.line.send(now, below, request);
    }

    fn next_event(&self) -> Option<Timestamp> {
        None
    }

    fn advance(&mut self, _now: Timestamp, _completions: &mut Vec<Completion>) {}

    fn cost(&self) -> &dyn AccessCost {
        self.drive.cost()
    }

    fn write_cache(&self) -> WriteCache {
        self.drive.write_cache()
    }

    fn discards(&self) -> bool {
        self.drive.discards()
    }
}
