//! Terasort on Hadoop 1.0: the part of one guest, a data node with its task trackers (Kim 2015, sections 2.2 and 4;
//! Herodotou and Babu 2011 for the buffers).
//!
//! A map task reads its chunk into a buffer. Whenever the buffer is filled to `io.sort.spill.percent` of `io.sort.mb`,
//! it writes the buffer out sorted, and in the end it merges these spills. A reduce task fetches its part of the output
//! of every map as the maps end. It writes the fetched data whenever its memory is full, merges it and writes its
//! result. Buffered data is written all at once, which makes the load bursty.
//!
//! Approximations: the exchange between guests is replaced by local reads and writes of the same sizes. A spill holds
//! up its task (Hadoop lets the map continue with the rest of the buffer). A file gets its blocks when its task begins.
//! Outputs have one copy, as Terasort asks for. Tasks neither fail nor straggle, and the tasks of the guest are
//! assigned in order.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use traces::spec::{Settings, Tunable, Unit};
use traces::{Nanos, Operation, Sectors, Timestamp};

use super::transfer::{CALL, Transfer};
use super::{Build, Entry, Processes};
use crate::guest::files::{FileId, Files, OutOfSpace};
use crate::guest::program::{Event, Program, Step};

pub(super) const ENTRY: Entry = Entry {
    name: "terasort",
    summary: "a guest's part of a sort on Hadoop: map, spill, merge, shuffle, reduce",
    origin: "Kim 2015, sections 2.2 and 4 (Hadoop 1.0.0, chunks of 128 MB, one data node in every VM)",
    tunables: &[
        Tunable::new("data", Unit::Bytes, "1g", "bytes of this guest's part of the data").within(1, 1 << 40),
        Tunable::new("chunk", Unit::Bytes, "128m", "bytes of a map task (dfs.block.size)").within(1 << 20, 1 << 32),
        Tunable::new("io.sort.mb", Unit::Bytes, "100m", "bytes of a map's buffer").within(1 << 20, 1 << 32),
        Tunable::new(
            "io.sort.spill.percent",
            Unit::Decimal,
            "0.8",
            "share of the buffer that is filled before a spill",
        )
        .within(100, 1000),
        Tunable::new("io.sort.factor", Unit::Count, "10", "files that are merged at a time").within(2, 1000),
        Tunable::new(
            "shuffle_buffer",
            Unit::Bytes,
            "92m",
            "bytes that a reduce fetches before it writes them: 0.66 of 0.70 of a heap of 200 MB",
        )
        .within(1 << 20, 1 << 40),
        Tunable::new("map_slots", Unit::Count, "2", "map tasks at a time (mapred.tasktracker.map.tasks.maximum)")
            .within(1, 64),
        Tunable::new(
            "reduce_slots",
            Unit::Count,
            "2",
            "reduce tasks at a time (mapred.tasktracker.reduce.tasks.maximum)",
        )
        .within(1, 64),
        Tunable::new("reduces", Unit::Count, "2", "reduce tasks of this guest (mapred.reduce.tasks)").within(1, 4096),
        Tunable::new("request", Unit::Bytes, "64k", "bytes of a read or write call").within(512, 1 << 26),
        Tunable::new("map_compute", Unit::Time, "10ms", "processor time for a MiB that is mapped and sorted")
            .within(0, SECOND),
        Tunable::new("merge_compute", Unit::Time, "5ms", "processor time for a MiB that is merged").within(0, SECOND),
        Tunable::new("reduce_compute", Unit::Time, "10ms", "processor time for a MiB that is reduced")
            .within(0, SECOND),
    ],
    events: &["map ends", "shuffle ends", "reduce ends"],
    ends: |_| true,
    build: Build::Processes(build),
};

const SECOND: u64 = 1_000_000_000;
const MAP_ENDS: Event = Event(0);
const SHUFFLE_ENDS: Event = Event(1);
const REDUCE_ENDS: Event = Event(2);

/// A file and its size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Data {
    bytes: u64,
    file: FileId,
}

/// The state that all tasks of a guest share.
struct Shared {
    chunks: Vec<Data>,
    next_map: usize,
    /// Outputs of maps, in the order in which the maps ended.
    outputs: Vec<Data>,
    next_reduce: u64,
}

/// Settings of the tasks.
#[derive(Clone, Copy)]
struct Setup {
    spill: u64,
    factor: usize,
    shuffle: u64,
    reduces: u64,
    request: u64,
    map_compute: Nanos,
    merge_compute: Nanos,
    reduce_compute: Nanos,
}

fn build(settings: &Settings, files: &mut Files, _seed: u64) -> Result<Processes, OutOfSpace> {
    let (data, chunk) = (settings.bytes("data"), settings.bytes("chunk"));
    let mut chunks = Vec::new();
    for start in (0..data).step_by(chunk as usize) {
        let bytes = chunk.min(data - start);
        chunks.push(Data { bytes, file: files.create(0, Sectors::holding(bytes))? });
    }
    let setup = Setup {
        spill: settings.bytes("io.sort.mb") * settings.thousandths("io.sort.spill.percent") / 1000,
        factor: settings.count("io.sort.factor") as usize,
        shuffle: settings.bytes("shuffle_buffer"),
        reduces: settings.count("reduces"),
        request: settings.bytes("request"),
        map_compute: settings.nanos("map_compute"),
        merge_compute: settings.nanos("merge_compute"),
        reduce_compute: settings.nanos("reduce_compute"),
    };
    let shared = Arc::new(Mutex::new(Shared { chunks, next_map: 0, outputs: Vec::new(), next_reduce: 0 }));
    let slot = |kind| -> Box<dyn Program> {
        let (actions, steps) = (VecDeque::new(), VecDeque::with_capacity(4));
        Box::new(Slot { kind, setup, shared: Arc::clone(&shared), actions, steps })
    };
    let maps = (0..settings.count("map_slots")).map(|_| Kind::Map);
    Ok(maps.chain((0..settings.count("reduce_slots")).map(|_| Kind::Reduce)).map(slot).collect())
}

#[derive(Clone, Copy)]
enum Kind {
    Map,
    Reduce,
}

/// The work that a task has left.
enum Action {
    /// Reads or writes bytes call by call, each call after its processor time, given per MiB.
    Move {
        left: Transfer,
        compute: Nanos,
    },
    Merge(Merge),
    /// Fetches the part of a reduce from the output of the map that ends as number n, from 0.
    Fetch {
        reduce: u64,
        map: usize,
        fetched: Fetched,
    },
    /// All parts are fetched: merges them into the result.
    Reduce(Fetched),
    /// Removes a file that is no longer needed.
    Remove(FileId),
    /// The output of the map is complete.
    Publish(Data),
    Step(Step),
}

/// Files that are read alternately, the bytes of one call from each in turn, and written to one file.
struct Merge {
    /// The rest of each file, and its offset.
    inputs: VecDeque<Transfer>,
    output: Transfer,
    compute: Nanos,
}

/// The data that a reduce has fetched.
#[derive(Default)]
struct Fetched {
    written: Vec<Data>,
    in_memory: u64,
}

/// A slot of a task tracker, which runs one task after another.
struct Slot {
    kind: Kind,
    setup: Setup,
    shared: Arc<Mutex<Shared>>,
    actions: VecDeque<Action>,
    steps: VecDeque<Step>,
}

impl Program for Slot {
    fn step(&mut self, _now: Timestamp, files: &mut Files) -> Result<Step, OutOfSpace> {
        while self.steps.is_empty() {
            match self.actions.pop_front() {
                Some(action) => self.act(action, files)?,
                None if self.begin_task(files)? => self.steps.push_back(Step::Sleep(CALL)),
                None => return Ok(Step::Exit),
            }
        }
        Ok(self.steps.pop_front().unwrap_or(Step::Exit))
    }
}

impl Slot {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there was a task to begin.
    fn begin_task(&mut self, files: &mut Files) -> Result<bool, OutOfSpace> {
        let mut shared = self.shared();
        match self.kind {
            Kind::Map => {
                let Some(&chunk) = shared.chunks.get(shared.next_map) else { return Ok(false) };
                shared.next_map += 1;
                drop(shared);
                self.begin_map(chunk, files)?;
            }
            Kind::Reduce => {
                let reduce = shared.next_reduce;
                if reduce == self.setup.reduces {
                    return Ok(false);
                }
                shared.next_reduce += 1;
                drop(shared);
                self.actions.push_back(Action::Fetch { reduce, map: 0, fetched: Fetched::default() });
            }
        }
        Ok(true)
    }

    fn begin_map(&mut self, chunk: Data, files: &mut Files) -> Result<(), OutOfSpace> {
        let mut spills = Vec::new();
        let mut offset = 0;
        while offset < chunk.bytes {
            let bytes = self.setup.spill.min(chunk.bytes - offset);
            let spill = Data { bytes, file: files.create(1, Sectors::holding(bytes))? };
            self.actions.push_back(Action::Move {
                left: Transfer { offset, bytes, ..read(chunk) },
                compute: self.setup.map_compute,
            });
            self.actions.push_back(Action::Move { left: write(spill), compute: Nanos::ZERO });
            spills.push(spill);
            offset += bytes;
        }
        let output = match *spills {
            [only] => only,
            _ => {
                self.merge_to_factor(&mut spills, files)?;
                let output = Data { bytes: chunk.bytes, file: files.create(1, Sectors::holding(chunk.bytes))? };
                self.merge(&spills, output, self.setup.merge_compute);
                output
            }
        };
        self.actions.push_back(Action::Publish(output));
        self.actions.push_back(Action::Step(Step::Post(MAP_ENDS)));
        Ok(())
    }

    /// Merges the smallest files until one merge can take all that are left. As in the `Merger` of Hadoop, the first
    /// merge takes fewer files if needed, so that all later ones are full.
    fn merge_to_factor(&mut self, data: &mut Vec<Data>, files: &mut Files) -> Result<(), OutOfSpace> {
        let factor = self.setup.factor;
        let over = (data.len().max(1) - 1) % (factor - 1);
        let mut taken = if over == 0 { factor } else { over + 1 };
        while data.len() > factor {
            data.sort_unstable();
            let rest = data.split_off(taken);
            let bytes = data.iter().map(|data| data.bytes).sum();
            let merged = Data { bytes, file: files.create(1, Sectors::holding(bytes))? };
            self.merge(data, merged, self.setup.merge_compute);
            *data = rest;
            data.push(merged);
            taken = factor;
        }
        Ok(())
    }

    /// Merges files into one and removes them.
    fn merge(&mut self, inputs: &[Data], output: Data, compute: Nanos) {
        let merge = Merge { inputs: inputs.iter().map(|&data| read(data)).collect(), output: write(output), compute };
        self.actions.push_back(Action::Merge(merge));
        self.actions.extend(inputs.iter().map(|data| Action::Remove(data.file)));
    }

    fn act(&mut self, action: Action, files: &mut Files) -> Result<(), OutOfSpace> {
        match action {
            Action::Move { left, compute } => {
                let (now, rest) = self.cut(left);
                self.compute(now.bytes, compute);
                now.queue(&mut self.steps);
                if rest.bytes > 0 {
                    self.actions.push_front(Action::Move { left: rest, compute });
                }
            }
            Action::Merge(mut merge) => {
                if let Some(input) = merge.inputs.pop_front() {
                    let (now, rest) = self.cut(input);
                    now.queue(&mut self.steps);
                    self.compute(now.bytes, merge.compute);
                    Transfer { bytes: now.bytes, ..merge.output }.queue(&mut self.steps);
                    merge.output.offset += now.bytes;
                    if rest.bytes > 0 {
                        merge.inputs.push_back(rest);
                    }
                    self.actions.push_front(Action::Merge(merge));
                }
            }
            Action::Fetch { reduce, map, fetched } => self.fetch(reduce, map, fetched, files)?,
            Action::Reduce(fetched) => self.reduce(fetched, files)?,
            Action::Remove(file) => files.remove(file),
            Action::Publish(output) => self.shared().outputs.push(output),
            Action::Step(step) => self.steps.push_back(step),
        }
        Ok(())
    }

    fn fetch(&mut self, reduce: u64, map: usize, mut fetched: Fetched, files: &mut Files) -> Result<(), OutOfSpace> {
        let (output, maps) = {
            let shared = self.shared();
            (shared.outputs.get(map).copied(), shared.chunks.len())
        };
        let Some(output) = output.filter(|_| map < maps) else {
            if map < maps {
                self.steps.push_back(Step::Await(MAP_ENDS, map as u64 + 1));
                self.actions.push_front(Action::Fetch { reduce, map, fetched });
            } else {
                self.flush(&mut fetched, files)?;
                self.actions.push_back(Action::Step(Step::Post(SHUFFLE_ENDS)));
                self.actions.push_back(Action::Reduce(fetched));
            }
            return Ok(());
        };
        let part =
            |reduce: u64| (u128::from(output.bytes) * u128::from(reduce) / u128::from(self.setup.reduces)) as u64;
        let bytes = part(reduce + 1) - part(reduce);
        if bytes > 0 {
            let left = Transfer { offset: part(reduce), bytes, ..read(output) };
            self.actions.push_back(Action::Move { left, compute: Nanos::ZERO });
        }
        fetched.in_memory += bytes;
        if fetched.in_memory >= self.setup.shuffle {
            self.flush(&mut fetched, files)?;
        }
        self.actions.push_back(Action::Fetch { reduce, map: map + 1, fetched });
        Ok(())
    }

    /// Writes the data in memory to a new file.
    fn flush(&mut self, fetched: &mut Fetched, files: &mut Files) -> Result<(), OutOfSpace> {
        let bytes = std::mem::take(&mut fetched.in_memory);
        if bytes > 0 {
            let data = Data { bytes, file: files.create(1, Sectors::holding(bytes))? };
            self.actions.push_back(Action::Move { left: write(data), compute: self.setup.merge_compute });
            fetched.written.push(data);
        }
        Ok(())
    }

    fn reduce(&mut self, fetched: Fetched, files: &mut Files) -> Result<(), OutOfSpace> {
        let mut inputs = fetched.written;
        self.merge_to_factor(&mut inputs, files)?;
        let bytes = inputs.iter().map(|data| data.bytes).sum();
        let result = Data { bytes, file: files.create(0, Sectors::holding(bytes))? };
        self.merge(&inputs, result, self.setup.reduce_compute);
        self.actions.push_back(Action::Step(Step::Post(REDUCE_ENDS)));
        Ok(())
    }

    /// The bytes of one call of a transfer, and the rest of the transfer.
    fn cut(&self, left: Transfer) -> (Transfer, Transfer) {
        let bytes = left.bytes.min(self.setup.request);
        (Transfer { bytes, ..left }, Transfer { offset: left.offset + bytes, bytes: left.bytes - bytes, ..left })
    }

    fn compute(&mut self, bytes: u64, per_mib: Nanos) {
        let ns = ((u128::from(bytes) * u128::from(per_mib.as_ns())) >> 20) as u64;
        if ns > 0 {
            self.steps.push_back(Step::Sleep(Nanos::from_ns(ns)));
        }
    }
}

fn read(data: Data) -> Transfer {
    Transfer { operation: Operation::Read, ..write(data) }
}

fn write(data: Data) -> Transfer {
    Transfer { operation: Operation::Write, file: data.file, offset: 0, bytes: data.bytes, direct: false }
}
