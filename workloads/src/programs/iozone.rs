//! IOzone (3.4xx, `iozone -i 0 -i 1`): a file is written, written again, read and read again, record by record. With
//! `threads` it is the throughput mode (`-t`): each thread has its own file, and all begin a phase together.
//!
//! A written file is made durable before the next phase: within the time of the phase with `-e`, after it without, as
//! IOzone does before it closes the file. Left out: tests other than 0 and 1, and unmounting between phases (`-U`), so
//! that a file smaller than the page cache is read from it.

use std::collections::VecDeque;

use traces::spec::{Settings, Tunable, Unit};
use traces::{Operation, Sectors, Timestamp};

use super::transfer::{CALL, Transfer};
use super::{Build, Entry, Processes};
use crate::guest::files::{FileId, Files, OutOfSpace};
use crate::guest::program::{Event, Program, Step};

pub(super) const ENTRY: Entry = Entry {
    name: "iozone",
    summary: "a file written, written again, read and read again",
    origin: "IOzone 3, iozone.c, tests 0 and 1; Kim 2015, section 4, runs it in every VM",
    tunables: &[
        Tunable::new(
            "tests",
            Unit::Choice(&["0+1", "0", "1"]),
            "0+1",
            "0 writes and rewrites, 1 reads and rereads (-i)",
        ),
        Tunable::new("size", Unit::Bytes, "512m", "bytes of a file (-s)").within(1, 1 << 43),
        Tunable::new("record", Unit::Bytes, "64k", "bytes of a record (-r)").within(1, 1 << 30),
        Tunable::new("direct", Unit::Switch, "off", "whether accesses bypass the page cache (-I)"),
        Tunable::new("fsync", Unit::Switch, "off", "whether a phase's time includes making its data durable (-e)"),
        Tunable::new("threads", Unit::Count, "1", "processes, each with a file of its own (-t)").within(1, 256),
    ],
    events: &[
        "write begins",
        "write ends",
        "rewrite begins",
        "rewrite ends",
        "read begins",
        "read ends",
        "reread begins",
        "reread ends",
    ],
    ends: |_| true,
    build: Build::Processes(build),
};

/// The phases in their order; each has two events, for its begin and its end.
const PHASES: [Operation; 4] = [Operation::Write, Operation::Write, Operation::Read, Operation::Read];

fn begins(phase: usize) -> Event {
    Event(2 * phase as u32)
}

fn ends(phase: usize) -> Event {
    Event(2 * phase as u32 + 1)
}

fn build(settings: &Settings, files: &mut Files, _seed: u64) -> Result<Processes, OutOfSpace> {
    let threads = settings.count("threads");
    let (phase, last) = match settings.word("tests") {
        "0" => (0, 2),
        "1" => (2, 4),
        _ => (0, 4),
    };
    let mut processes: Processes = Vec::new();
    for _ in 0..threads {
        processes.push(Box::new(Iozone {
            file: files.create(0, Sectors::holding(settings.bytes("size")))?,
            size: settings.bytes("size"),
            record: settings.bytes("record"),
            direct: settings.switch("direct"),
            sync_in_time: settings.switch("fsync"),
            threads,
            phase,
            last,
            position: None,
            steps: VecDeque::with_capacity(4),
        }));
    }
    Ok(processes)
}

struct Iozone {
    file: FileId,
    size: u64,
    record: u64,
    direct: bool,
    sync_in_time: bool,
    threads: u64,
    phase: usize,
    /// The number of the phase after the last.
    last: usize,
    /// The offset in the file, once the phase has begun.
    position: Option<u64>,
    steps: VecDeque<Step>,
}

impl Program for Iozone {
    fn step(&mut self, _now: Timestamp, _files: &mut Files) -> Result<Step, OutOfSpace> {
        if self.steps.is_empty() && self.phase < self.last {
            self.queue_next();
        }
        Ok(self.steps.pop_front().unwrap_or(Step::Exit))
    }
}

impl Iozone {
    fn queue_next(&mut self) {
        match self.position {
            None => {
                self.steps.push_back(Step::Post(begins(self.phase)));
                self.steps.push_back(Step::Await(begins(self.phase), self.threads));
                self.position = Some(0);
            }
            Some(position) if position < self.size => {
                let (operation, file, direct) = (PHASES[self.phase], self.file, self.direct);
                let bytes = self.record.min(self.size - position);
                Transfer { operation, file, offset: position, bytes, direct }.queue(&mut self.steps);
                self.position = Some(position + bytes);
            }
            Some(_) => self.queue_end(),
        }
    }

    fn queue_end(&mut self) {
        let durable = (PHASES[self.phase] == Operation::Write).then_some(Step::Sync(self.file));
        self.steps.push_back(Step::Sleep(CALL));
        self.steps.extend(durable.filter(|_| self.sync_in_time));
        self.steps.push_back(Step::Post(ends(self.phase)));
        self.steps.extend(durable.filter(|_| !self.sync_in_time));
        self.phase += 1;
        self.position = None;
    }
}
