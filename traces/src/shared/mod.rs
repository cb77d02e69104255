//! One trace for several replays that run at the same time: it is decoded once.
//!
//! [`share`] makes several readers of one. Whichever of them comes first to the end of what is decoded decodes the next
//! records, and the others find them there. A reader that is far ahead of the slowest one waits for it, so that memory
//! does not depend on the length of the trace.
//!
//! All readers of a trace must be read at the same time, each on a thread of its own: a thread that has not begun holds
//! the others back. [`Turns`] bounds how many of those threads run. Threads that read several shared traces must read
//! them in the same order, such as by arrival, or they may wait for one another for ever.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::{Place, Problem, ReadError};
use crate::record::Record;
use crate::trace::{Losses, TraceMeta, TraceReader};

/// Records that are decoded at a time.
const RECORDS: usize = 2048;
/// How many times as many the first reader may be ahead of the last.
const CHUNKS_MAX: usize = 8;

/// How many threads may still begin to run. A reader that waits lets another thread run.
#[derive(Debug)]
pub struct Turns {
    free: Mutex<usize>,
    changed: Condvar,
    stopped: AtomicBool,
}

/// The right to run. Whoever does not come to a good end stops the others.
struct Turn<'a> {
    turns: &'a Turns,
    ends_well: bool,
}

impl Turns {
    /// Turns for `threads` threads, at least one.
    pub fn new(threads: usize) -> Turns {
        Turns { free: Mutex::new(threads.max(1)), changed: Condvar::new(), stopped: AtomicBool::new(false) }
    }

    /// Does `work` once the thread may run. `work` drops the readers that it reads. If it fails or panics, the next
    /// records that other readers want are an error ([`Problem::Stopped`]).
    ///
    /// # Errors
    /// Those of `work`.
    pub fn run<T, E>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.take();
        let mut turn = Turn { turns: self, ends_well: false };
        let result = work();
        turn.ends_well = result.is_ok();
        result
    }

    fn take(&self) {
        let free = lock(&self.free);
        let mut free = self.changed.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
    }

    fn give(&self) {
        *lock(&self.free) += 1;
        self.changed.notify_one();
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Nobody needs to be woken. Who waits does so for a reader that does not wait. That one learns of it at its next
        // chunk, and wakes the others when it is dropped.
        if !self.ends_well {
            self.turns.stopped.store(true, Ordering::Relaxed);
        }
        self.turns.give();
    }
}

/// The lock. What it guards is whole between any two statements, so a thread that panicked leaves nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is known of the trace besides its records. A copy is made of it when devices are added, which readers must know
/// at once, and at the end. Between them more processes and losses become known than it says.
#[derive(Debug)]
struct Facts {
    meta: TraceMeta,
    losses: Losses,
}

impl Facts {
    fn of(reader: &dyn TraceReader) -> Facts {
        Facts { meta: reader.meta().clone(), losses: reader.losses().clone() }
    }

    fn lacks_devices(&self, meta: &TraceMeta) -> bool {
        self.meta.vms.len() != meta.vms.len() || self.meta.address_space != meta.address_space
    }
}

/// Decoded records, and what is known behind them.
struct Chunk {
    records: Vec<Record>,
    facts: Arc<Facts>,
    position_bytes: u64,
}

/// What the readers share.
struct State {
    /// `None` while a reader decodes, and behind the end.
    reader: Option<Box<dyn TraceReader>>,
    /// Chunks that a reader has still to take, and the number of the first of them.
    chunks: VecDeque<Arc<Chunk>>,
    first: u64,
    /// The chunk that each reader takes next; `None` of those that read no more.
    next: Vec<Option<u64>>,
    /// What is known so far.
    facts: Arc<Facts>,
    ended: bool,
    /// The fault in the trace behind the last chunk.
    failure: Option<ReadError>,
    /// Memory of chunks that all have read.
    spare: Vec<Vec<Record>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// One of several readers of a trace.
pub struct SharedReader {
    shared: Arc<Shared>,
    turns: Arc<Turns>,
    number: usize,
    chunk: Arc<Chunk>,
    /// The next record of the chunk.
    at: usize,
}

/// Readers of the trace that `reader` reads, as many as `readers`. `turns` are those of the threads that will read.
pub fn share(reader: Box<dyn TraceReader>, readers: usize, turns: &Arc<Turns>) -> Vec<SharedReader> {
    let facts = Arc::new(Facts::of(&*reader));
    let chunk =
        Arc::new(Chunk { records: Vec::new(), facts: Arc::clone(&facts), position_bytes: reader.position_bytes() });
    let state = State {
        reader: Some(reader),
        chunks: VecDeque::new(),
        first: 0,
        next: vec![Some(0); readers],
        facts,
        ended: false,
        failure: None,
        spare: Vec::new(),
    };
    let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
    let reader = |number| SharedReader {
        shared: Arc::clone(&shared),
        turns: Arc::clone(turns),
        number,
        chunk: Arc::clone(&chunk),
        at: 0,
    };
    (0..readers).map(reader).collect()
}

impl State {
    /// Drops the chunks that no reader has still to take; whether there were any.
    fn drop_taken(&mut self) -> bool {
        let least = self.next.iter().flatten().min().copied().unwrap_or(u64::MAX);
        let before = self.first;
        while self.first < least
            && let Some(chunk) = self.chunks.pop_front()
        {
            self.first += 1;
            if let Some(chunk) = Arc::into_inner(chunk) {
                self.spare.push(chunk.records);
            }
        }
        self.first > before
    }
}

impl Shared {
    /// Decodes the next chunk and adds it.
    fn decode(&self, mut reader: Box<dyn TraceReader>, mut records: Vec<Record>, known: &Arc<Facts>) {
        let panics = Panics(self);
        records.clear();
        records.reserve_exact(RECORDS);
        let mut end = None;
        while records.len() < RECORDS && end.is_none() {
            match reader.next() {
                Ok(Some(record)) => records.push(record),
                Ok(None) => end = Some(None),
                Err(failure) => end = Some(Some(failure)),
            }
        }
        let is_known = end.is_none() && !known.lacks_devices(reader.meta());
        let facts = if is_known { Arc::clone(known) } else { Arc::new(Facts::of(&*reader)) };
        let position_bytes = reader.position_bytes();
        std::mem::forget(panics);
        let mut state = lock(&self.state);
        state.facts = Arc::clone(&facts);
        state.chunks.push_back(Arc::new(Chunk { records, facts, position_bytes }));
        match end {
            None => state.reader = Some(reader),
            Some(failure) => (state.ended, state.failure) = (true, failure),
        }
        drop(state);
        self.changed.notify_all();
    }
}

/// Ends the trace for all if the one that decodes it panics: nobody else has its reader.
struct Panics<'a>(&'a Shared);

impl Drop for Panics<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.ended = true;
        let problem = Problem::Malformed("the thread that decoded it has panicked".to_owned());
        state.failure = Some(ReadError::new("the trace".as_ref(), Place::Whole, problem));
        drop(state);
        self.0.changed.notify_all();
    }
}

impl SharedReader {
    /// Goes to the next chunk; false at the end of the trace.
    fn next_chunk(&mut self) -> Result<bool, ReadError> {
        // The memory of the last one may be used again.
        let none = Chunk {
            records: Vec::new(),
            facts: Arc::clone(&self.chunk.facts),
            position_bytes: self.chunk.position_bytes,
        };
        let last = std::mem::replace(&mut self.chunk, Arc::new(none));
        self.at = 0;
        let mut state = lock(&self.shared.state);
        if let Some(last) = Arc::into_inner(last).filter(|last| last.records.capacity() > 0) {
            state.spare.push(last.records);
        }
        loop {
            if self.turns.stopped.load(Ordering::Relaxed) {
                return Err(ReadError::new("the trace".as_ref(), Place::Whole, Problem::Stopped));
            }
            let next = state.next[self.number].unwrap_or_default();
            if let Some(chunk) = state.chunks.get((next - state.first) as usize) {
                self.chunk = Arc::clone(chunk);
                state.next[self.number] = Some(next + 1);
                if state.drop_taken() {
                    self.shared.changed.notify_all();
                }
                return Ok(true);
            }
            if state.ended {
                return state.failure.as_ref().map_or(Ok(false), |failure| Err(same(failure)));
            }
            let reader = if state.chunks.len() < CHUNKS_MAX { state.reader.take() } else { None };
            if let Some(reader) = reader {
                let (records, known) = (state.spare.pop().unwrap_or_default(), Arc::clone(&state.facts));
                drop(state);
                self.shared.decode(reader, records, &known);
            } else {
                // A turn is taken without the lock, which the threads that have one need.
                self.turns.give();
                drop(self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner));
                self.turns.take();
            }
            state = lock(&self.shared.state);
        }
    }
}

/// The same error for another reader. Errors of the operating system cannot be copied and become their text.
fn same(error: &ReadError) -> ReadError {
    ReadError {
        path: error.path.clone(),
        place: error.place,
        problem: Problem::Malformed(error.problem.to_string()),
        remedy: error.remedy.clone(),
    }
}

impl TraceReader for SharedReader {
    fn meta(&self) -> &TraceMeta {
        &self.chunk.facts.meta
    }

    fn next(&mut self) -> Result<Option<Record>, ReadError> {
        loop {
            if let Some(record) = self.chunk.records.get(self.at) {
                self.at += 1;
                return Ok(Some(*record));
            }
            if !self.next_chunk()? {
                return Ok(None);
            }
        }
    }

    fn losses(&self) -> &Losses {
        &self.chunk.facts.losses
    }

    fn position_bytes(&self) -> u64 {
        self.chunk.position_bytes
    }
}

impl Drop for SharedReader {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.next[self.number] = None;
        state.drop_taken();
        drop(state);
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests;
