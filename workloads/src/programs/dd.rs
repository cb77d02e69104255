//! `dd` (coreutils 9.1): one file read or written from start to end in blocks.
//!
//! Simplified: `conv=notrunc` is always in force, so a file that is written again keeps its blocks. The other side of
//! the copy (`/dev/zero`, `/dev/null`) costs nothing.

use std::collections::VecDeque;

use traces::spec::{Settings, Tunable, Unit};
use traces::{Operation, Sectors, Timestamp};

use super::transfer::Transfer;
use super::{Build, Entry, Processes};
use crate::guest::files::{FileId, Files, OutOfSpace};
use crate::guest::program::{Event, Program, Step};

pub(super) const ENTRY: Entry = Entry {
    name: "dd",
    summary: "one file read or written from start to end",
    origin: "dd of coreutils 9.1; Kim 2015, section 2.2, runs it on 1 GB in every VM",
    tunables: &[
        Tunable::new(
            "operation",
            Unit::Choice(&["read", "write"]),
            "read",
            "whether the file is read (if=) or written (of=)",
        ),
        Tunable::new("size", Unit::Bytes, "1g", "bytes of the file, bs times count").within(1, 1 << 43),
        Tunable::new("bs", Unit::Bytes, "1m", "bytes of a block").within(1, 1 << 30),
        Tunable::new(
            "direct",
            Unit::Switch,
            "off",
            "whether accesses bypass the page cache (iflag=direct, oflag=direct)",
        ),
        Tunable::new("fsync", Unit::Switch, "off", "whether the written data is made durable at the end (conv=fsync)"),
        Tunable::new("repeat", Unit::Count, "1", "number of runs; 0 for no end"),
    ],
    events: &["run ends"],
    ends: |settings| settings.count("repeat") > 0,
    build: Build::Processes(build),
};

/// The end of a run.
const RUN_ENDS: Event = Event(0);

fn build(settings: &Settings, files: &mut Files, _seed: u64) -> Result<Processes, OutOfSpace> {
    let size = settings.bytes("size");
    let file = files.create(0, Sectors::holding(size))?;
    let operation = if settings.word("operation") == "read" { Operation::Read } else { Operation::Write };
    Ok(vec![Box::new(Dd {
        whole: Transfer { operation, file, offset: 0, bytes: size, direct: settings.switch("direct") },
        block: settings.bytes("bs"),
        sync: (settings.switch("fsync") && operation == Operation::Write).then_some(file),
        runs_left: match settings.count("repeat") {
            0 => None,
            runs => Some(runs),
        },
        position: 0,
        steps: VecDeque::with_capacity(4),
    })])
}

struct Dd {
    whole: Transfer,
    block: u64,
    sync: Option<FileId>,
    /// The number of runs left, `None` for an endless repetition.
    runs_left: Option<u64>,
    position: u64,
    steps: VecDeque<Step>,
}

impl Program for Dd {
    fn step(&mut self, _now: Timestamp, _files: &mut Files) -> Result<Step, OutOfSpace> {
        if self.steps.is_empty() {
            self.queue_next();
        }
        Ok(self.steps.pop_front().unwrap_or(Step::Exit))
    }
}

impl Dd {
    fn queue_next(&mut self) {
        if self.runs_left == Some(0) {
            return;
        }
        let bytes = self.block.min(self.whole.bytes - self.position);
        Transfer { offset: self.position, bytes, ..self.whole }.queue(&mut self.steps);
        self.position += bytes;
        if self.position == self.whole.bytes {
            self.steps.extend(self.sync.map(Step::Sync));
            self.steps.push_back(Step::Post(RUN_ENDS));
            self.position = 0;
            self.runs_left = self.runs_left.map(|runs| runs - 1);
        }
    }
}
