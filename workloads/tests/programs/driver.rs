//! A simple guest for the tests: every access and every sync takes the same time, however many run at once.

use std::collections::BTreeMap;

use iocast_workloads::guest::{Access, Event, FileId, Files, OutOfSpace, Step};
use iocast_workloads::programs::{Processes, Workload};
use traces::{Nanos, Operation, Sectors, Timestamp};

/// A step of a process, when it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub at: Timestamp,
    pub process: usize,
    pub step: Step,
}

/// The actions of a guest.
pub struct Run {
    pub seen: Vec<Seen>,
    pub files: Files,
    /// Whether all processes have ended.
    pub ended: bool,
    /// Why a process could not go on.
    pub full: Option<OutOfSpace>,
    /// Most accesses that a process had in flight.
    pub most_in_flight: usize,
    /// When it was over.
    pub end: Timestamp,
}

/// Bytes of the disks that tests use.
pub const DISK: u64 = 64 << 30;

struct State {
    ready: Timestamp,
    in_flight: Vec<Timestamp>,
    waits: Option<Wait>,
    ended: bool,
}

#[derive(Clone, Copy)]
enum Wait {
    AtMost(u32),
    For(Event, u64),
}

/// Runs a workload until it ends, or for a number of steps, on a disk of `DISK` bytes.
pub fn run(workload: &Workload, seed: u64, delay: Nanos, most: usize) -> Run {
    let mut files = Files::new(Sectors::new(DISK / 512));
    let processes = workload.processes(&mut files, seed).unwrap();
    drive(processes, files, delay, most)
}

/// The workload that a spec names, run.
pub fn run_spec(spec: &str, most: usize) -> Run {
    run(&iocast_workloads::programs::build(&spec.parse().unwrap()).unwrap(), 1, Nanos::from_us(100), most)
}

/// The jobs of a fio job file, run to their end.
pub fn run_jobs(text: &str) -> Run {
    let run = run(&iocast_workloads::programs::build_jobs("test", text).unwrap(), 1, Nanos::from_us(100), 10_000_000);
    assert!(run.ended);
    run
}

fn is_over(state: &State, posted: &BTreeMap<Event, u64>) -> bool {
    match state.waits {
        None => true,
        Some(Wait::AtMost(most)) => state.in_flight.len() <= most as usize,
        Some(Wait::For(event, count)) => posted.get(&event).copied().unwrap_or(0) >= count,
    }
}

/// Runs processes until they end, or for a number of steps.
pub fn drive(processes: Processes, files: Files, delay: Nanos, most: usize) -> Run {
    drive_each(processes, files, &[delay], most)
}

/// The same with a delay for each process, in turn.
pub fn drive_each(mut processes: Processes, mut files: Files, delays: &[Nanos], most: usize) -> Run {
    let new = || State { ready: Timestamp::ZERO, in_flight: Vec::new(), waits: None, ended: false };
    let mut states: Vec<State> = processes.iter().map(|_| new()).collect();
    let mut posted: BTreeMap<Event, u64> = BTreeMap::new();
    let mut seen = Vec::new();
    let mut now = Timestamp::ZERO;
    let (mut full, mut most_in_flight) = (None, 0);
    while seen.len() < most && full.is_none() {
        for state in &mut states {
            state.in_flight.retain(|&done| done > now);
            if !state.ended && state.waits.is_some() && is_over(state, &posted) {
                state.waits = None;
                state.ready = now;
            }
        }
        let next = states.iter().enumerate().filter(|(_, state)| !state.ended && state.waits.is_none());
        let next = next.map(|(index, state)| (state.ready.max(now), index)).min();
        let completion = states.iter().filter(|state| state.waits.is_some()).flat_map(|state| state.in_flight.iter());
        let completion = completion.min().copied();
        let Some((at, index)) = next.filter(|&(at, _)| completion.is_none_or(|done| at < done)) else {
            match completion {
                Some(done) => now = done,
                None => break,
            }
            continue;
        };
        now = at;
        states[index].in_flight.retain(|&done| done > now);
        let step = match processes[index].step(now, &mut files) {
            Ok(step) => step,
            Err(error) => {
                full = Some(error);
                break;
            }
        };
        let delay = delays[index % delays.len()];
        seen.push(Seen { at: now, process: index, step });
        let state = &mut states[index];
        state.ready = now;
        match step {
            Step::Sleep(span) | Step::Compute(span) => state.ready = now.saturating_add(span),
            Step::Access(access) => {
                check(&access, &files);
                state.ready = now.saturating_add(delay);
            }
            Step::Start(access) => {
                check(&access, &files);
                assert!(access.direct, "only what goes past the cache is asynchronous");
                state.in_flight.push(now.saturating_add(delay));
                most_in_flight = most_in_flight.max(state.in_flight.len());
            }
            Step::AwaitAtMost(most) => state.waits = Some(Wait::AtMost(most)),
            Step::Sync(file) => {
                files.size(file);
                state.ready = now.saturating_add(delay);
            }
            Step::Post(event) => *posted.entry(event).or_default() += 1,
            Step::Await(event, count) => state.waits = Some(Wait::For(event, count)),
            Step::Exit => {
                assert!(state.in_flight.is_empty(), "a process ends when its accesses have");
                state.ended = true;
            }
        }
    }
    let ended = states.iter().all(|state| state.ended);
    Run { seen, files, ended, full, most_in_flight, end: now }
}

/// An access lies within its file and is not empty.
fn check(access: &Access, files: &Files) {
    assert!(access.sectors > Sectors::ZERO, "{access:?}");
    assert!(access.offset + access.sectors <= files.size(access.file), "{access:?} of {:?}", files.size(access.file));
    assert!(access.direct || access.operation != Operation::Discard, "{access:?}");
}

impl Run {
    /// Accesses in order: process, operation, file, offset and length in bytes.
    pub fn accesses(&self) -> Vec<(usize, Operation, FileId, u64, u64)> {
        let access = |seen: &Seen| match seen.step {
            Step::Access(access) | Step::Start(access) => {
                Some((seen.process, access.operation, access.file, access.offset.bytes(), access.sectors.bytes()))
            }
            _ => None,
        };
        self.seen.iter().filter_map(access).collect()
    }

    /// Bytes read and written.
    pub fn moved(&self) -> (u64, u64) {
        let of = |wanted: Operation| {
            self.accesses().iter().filter(|&&(_, operation, ..)| operation == wanted).map(|access| access.4).sum()
        };
        (of(Operation::Read), of(Operation::Write))
    }

    pub fn count(&self, wanted: impl Fn(&Step) -> bool) -> usize {
        self.seen.iter().filter(|seen| wanted(&seen.step)).count()
    }

    /// When an event occurred for the nth time, from 1 on.
    pub fn posted(&self, event: u32, nth: usize) -> Timestamp {
        let mut posts = self.seen.iter().filter(|seen| seen.step == Step::Post(Event(event)));
        posts.nth(nth - 1).unwrap().at
    }

    /// The steps without their times.
    pub fn steps(&self) -> Vec<(usize, Step)> {
        self.seen.iter().map(|seen| (seen.process, seen.step)).collect()
    }
}
