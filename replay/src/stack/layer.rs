//! One layer of a stack: a single stage for all VMs, or one stage for each VM, above one line to the layer below.
//! A layer translates request ids between the layers, takes its stages in turn and keeps its own counts.

use drive_models::{Completion, DriveModel};
use schedulers::Scheduler;
use traces::{Flags, Nanos, Operation, Priority, Request, RequestId, Sectors, StreamId, Timestamp, VmId};

use super::id_map::{IdMap, Sender};
use super::line::Line;
use super::watch::{Counts, Watch};
use crate::observer::Observer;
use crate::source::Arrival;
use crate::stage::{Limits, Stage};

/// The settings of a layer, apart from its schedulers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerConfig {
    /// The limits of each stage.
    pub limits: Limits,
    /// Whether each VM has a stage of its own.
    pub per_vm: bool,
    /// The most requests that the layer holds, waiting or sent on (`nr_requests`, the length of a ring). Further
    /// requests wait above the layer.
    pub queue: u32,
    /// Whether the layer distinguishes requests by VM only and drops their stream and priority: a back end serves a whole
    /// guest in one thread.
    pub by_vm: bool,
    /// Whether writes become synchronous here, as in a back end that submits them as direct I/O
    /// (Linux 3.x `drivers/block/xen-blkback/blkback.c`, `WRITE_ODIRECT`).
    pub sync_writes: bool,
    /// The time that a request takes from here to the layer below.
    pub delay_down: Nanos,
    /// The time that a completion takes from the layer below to here.
    pub delay_up: Nanos,
    /// The data that pass between here and the layer below, in bytes per second each way; unlimited if it is zero.
    pub bandwidth: u64,
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
            bandwidth: 0,
        }
    }
}

/// Makes the scheduler of each stage of a layer.
pub type MakeScheduler = Box<dyn Fn() -> Box<dyn Scheduler> + Send>;

/// The state of an arrival at a layer until it completes.
#[derive(Clone, Copy, Debug)]
struct ArrivalState {
    /// Its id in the layer above.
    above: RequestId,
    /// When the drive began to serve the first part of it.
    started: Option<Timestamp>,
    /// How far the head has moved for it.
    seek: Sectors,
    /// Whether all its parts so far were served from the drive's cache.
    hit: bool,
}

/// A stage and the state of its arrivals, by their id in the stage.
struct LayerStage {
    stage: Stage<Box<dyn Scheduler>>,
    states: Vec<ArrivalState>,
}

/// A layer of a stack.
pub struct Layer {
    config: LayerConfig,
    make: MakeScheduler,
    stages: Vec<LayerStage>,
    /// The index of the stage of each VM that was seen, by VM number.
    stage_of: Vec<Option<usize>>,
    /// The stage that may send next.
    turn: usize,
    /// Arrivals that have not completed.
    held: u32,
    ids: IdMap,
    pub(super) line: Line,
    /// Completions that the layer above has not received yet.
    pub(super) finished: Vec<Completion>,
    counts: Counts,
    last_vm: Option<VmId>,
    // Reused so that nothing is allocated per request.
    done: Vec<Arrival>,
}

/// Which events of a layer the observer of the replay sees.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched {
    /// Whether the observer sees the decisions of the layer.
    pub(super) decides: bool,
    /// Whether the layer is the last one: the observer sees the requests that it sends to the drive.
    pub(super) last: bool,
}

impl Layer {
    /// An idle layer. `make` makes the scheduler of each stage.
    pub fn new(make: MakeScheduler, config: LayerConfig) -> Layer {
        let stages = if config.per_vm { Vec::new() } else { vec![LayerStage::new(make(), config.limits)] };
        Layer {
            config,
            make,
            stages,
            stage_of: Vec::new(),
            turn: 0,
            held: 0,
            ids: IdMap::default(),
            line: Line::new(config.delay_down, config.delay_up, config.bandwidth),
            finished: Vec::new(),
            counts: Counts::default(),
            last_vm: None,
            done: Vec::new(),
        }
    }

    /// Adds a stage for `vm` with a scheduler and limits of its own; for layers with one stage for each VM.
    ///
    /// # Panics
    /// If all VMs share a stage, or if `vm` has a stage already.
    #[must_use]
    pub fn with_stage(mut self, vm: VmId, scheduler: Box<dyn Scheduler>, limits: Limits) -> Layer {
        assert!(self.config.per_vm, "all VMs share the stage of this layer");
        let vm = usize::from(vm.0);
        if vm >= self.stage_of.len() {
            self.stage_of.resize(vm + 1, None);
        }
        let before = self.stage_of[vm].replace(self.stages.len());
        assert!(before.is_none(), "VM {vm} has a stage");
        self.stages.push(LayerStage::new(scheduler, limits));
        self
    }

    /// The counts of the layer so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The schedulers of its stages so far.
    pub fn schedulers(&self) -> impl Iterator<Item = &dyn Scheduler> {
        self.stages.iter().map(|layer_stage| &**layer_stage.stage.scheduler() as &dyn Scheduler)
    }

    /// Arrivals and parts of arrivals that have not completed.
    pub(super) fn outstanding(&self) -> usize {
        self.stages.iter().map(|layer_stage| layer_stage.stage.outstanding()).sum()
    }

    /// Whether the layer accepts one more request when `coming` requests are on their way to it.
    pub(super) fn has_capacity(&self, coming: usize) -> bool {
        self.held as usize + coming < self.config.queue as usize
    }

    /// The earliest time at which one of its schedulers wants to be asked again.
    pub(super) fn wake(&self) -> Option<Timestamp> {
        self.stages.iter().filter_map(|layer_stage| layer_stage.stage.wake()).min()
    }

    /// Accepts a request whose id in the layer above is `above`.
    pub(super) fn arrive<D: DriveModel, O: Observer>(
        &mut self,
        now: Timestamp,
        above: RequestId,
        mut request: Request,
        drive: &D,
        watched: Watched,
        observer: &mut O,
    ) {
        if self.config.by_vm {
            request.stream = StreamId(0);
            request.priority = Priority::NONE;
        }
        if self.config.sync_writes && request.operation == Operation::Write {
            request.flags |= Flags::SYNC;
        }
        let index = self.stage_for(request.vm);
        self.held += 1;
        let Layer { stages, counts, last_vm, done, .. } = self;
        let layer_stage = &mut stages[index];
        layer_stage.take(above);
        let mut watch = Watch { counts, last_vm, decides: watched.decides, last: watched.last, observer };
        layer_stage.stage.arrive(now, request, drive, &mut watch, done);
        self.hand_up(now, index, now);
    }

    /// A request that the layer sent down has completed.
    pub(super) fn complete<O: Observer>(
        &mut self,
        now: Timestamp,
        completion: &Completion,
        watched: Watched,
        observer: &mut O,
    ) {
        let Sender { stage: index, id } = self.ids.take(completion.id);
        let Layer { stages, counts, last_vm, done, .. } = self;
        let layer_stage = &mut stages[index];
        layer_stage.account(id, completion);
        let mut watch = Watch { counts, last_vm, decides: watched.decides, last: watched.last, observer };
        // For this layer the request completes when the completion reaches it.
        let completion = Completion { id, finished: now, ..*completion };
        layer_stage.stage.complete(now, &completion, &mut watch, done);
        self.hand_up(now, index, completion.started);
    }

    /// Lets the next stage in turn that has a request, and capacity below for it, send one request down the line.
    /// Returns false if no stage has. After sending, a stage is the last in turn.
    pub(super) fn send_one<O: Observer>(
        &mut self,
        now: Timestamp,
        below: Option<&Layer>,
        drive: &mut dyn DriveModel,
        watched: Watched,
        observer: &mut O,
    ) -> bool {
        let Layer { config, stages, turn, ids, line, counts, last_vm, .. } = self;
        let several = stages.len() > 1;
        for _ in 0..stages.len() {
            // Wrapped here and not before, since a VM may have been added in between.
            let index = if *turn < stages.len() { *turn } else { 0 };
            *turn = index + 1;
            let stage = &mut stages[index].stage;
            if several && stage.outstanding() == 0 && stage.wake().is_none() {
                continue;
            }
            let full = below.map(|below| !below.has_capacity(line.travelling()));
            // Without a look-ahead a scheduler keeps its choice until the layer below has capacity.
            if full == Some(true) && !config.limits.look_ahead {
                stage.wait_for_capacity();
                continue;
            }
            let mut watch = Watch { counts, last_vm, decides: watched.decides, last: watched.last, observer };
            let mut below = Below { full, drive, line, ids, stage: index };
            if stage.dispatch_one(now, &mut below, &mut watch) {
                return true;
            }
        }
        false
    }

    /// The index of the stage of a VM. The first request of a VM creates its stage.
    fn stage_for(&mut self, vm: VmId) -> usize {
        if !self.config.per_vm {
            return 0;
        }
        let vm = usize::from(vm.0);
        if vm >= self.stage_of.len() {
            self.stage_of.resize(vm + 1, None);
        }
        *self.stage_of[vm].get_or_insert_with(|| {
            self.stages.push(LayerStage::new((self.make)(), self.config.limits));
            self.stages.len() - 1
        })
    }

    /// Hands the completed arrivals to the layer above. An arrival without a served part counts as begun at `started`.
    fn hand_up(&mut self, now: Timestamp, index: usize, started: Timestamp) {
        let Layer { stages, held, finished, done, .. } = self;
        let layer_stage = &mut stages[index];
        for (id, _) in done.drain(..) {
            let ArrivalState { above, started: begun, seek, hit } = layer_stage.states[id.index()];
            *held -= 1;
            let (started, hit) = (begun.unwrap_or(started), hit && begun.is_some());
            finished.push(Completion { id: above, started, finished: now, seek, hit });
        }
    }
}

impl LayerStage {
    fn new(scheduler: Box<dyn Scheduler>, limits: Limits) -> LayerStage {
        LayerStage { stage: Stage::new(scheduler, limits), states: Vec::new() }
    }

    /// Registers the next arrival, whose id in the layer above is `above`.
    fn take(&mut self, above: RequestId) {
        let state = ArrivalState { above, started: None, seek: Sectors::ZERO, hit: true };
        let id = self.stage.next_id().index();
        if id >= self.states.len() {
            self.states.resize(id + 1, state);
        }
        self.states[id] = state;
    }

    /// Adds a served request to the state of the arrivals that it was made of. The seek distance goes to the first
    /// arrival, so that it is counted once.
    fn account(&mut self, id: RequestId, completion: &Completion) {
        let mut seek = completion.seek;
        for arrival in self.stage.arrivals(id) {
            let state = &mut self.states[arrival.index()];
            let earliest = state.started.map_or(completion.started, |started| started.min(completion.started));
            state.started = Some(earliest);
            state.hit &= completion.hit;
            state.seek += std::mem::replace(&mut seek, Sectors::ZERO);
        }
    }
}

/// The line and the layer or drive below a layer, as one of its stages sees them: a drive that accepts requests while
/// there is capacity.
struct Below<'a> {
    /// Whether the layer below is without capacity; absent above the drive, which answers for itself.
    full: Option<bool>,
    drive: &'a mut dyn DriveModel,
    line: &'a mut Line,
    ids: &'a mut IdMap,
    stage: usize,
}

impl DriveModel for Below<'_> {
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
        let below = self.ids.put(Sender { stage: self.stage, id });
        self.line.send(now, below, request);
    }

    fn next_event(&self) -> Option<Timestamp> {
        None
    }

    fn advance(&mut self, _now: Timestamp, _completions: &mut Vec<Completion>) {}

    drive_models::forward_properties!(drive);
}
