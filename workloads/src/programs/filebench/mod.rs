//! FileBench (1.5-alpha3): the personalities varmail, webserver and fileserver, with the flowops, sizes and numbers of
//! threads of the published `workloads/*.f`.
//!
//! File sizes are gamma-distributed (`cvar-gamma`, shape 1.5). A file is open in one thread at a time. Creating,
//! opening, removing and looking up a file read the metadata that the file system reads for it
//! ([`crate::guest::metadata`]); the journal writes the changes. Left out: random widths of directories, and
//! FileBench's limits on operations per second.

mod fileset;
mod gamma;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::spec::{Settings, Tunable, Unit};
use traces::{Nanos, Operation, Timestamp};

use super::generators::Generators;
use super::transfer::{CALL, Transfer};
use super::{Build, Entry as Row, Processes};
use crate::guest::files::{FileId, Files, OutOfSpace};
use crate::guest::metadata::Metadata;
use crate::guest::program::{Event, Program, Step};
use fileset::{Design, Entry, Fileset};

/// One operation of a thread. A thread works on the file that it opened or created last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flowop {
    /// `deletefile`: removes any file.
    Delete,
    /// `createfile`: creates an empty file.
    Create,
    /// `openfile`: opens any file.
    Open,
    /// `writewholefile`: writes the file in its full size.
    WriteWhole,
    /// `appendfilerand`: writes from 1 to `meanappendsize` bytes after the end of the file.
    Append,
    /// `readwholefile`: reads all of it.
    ReadWhole,
    /// `fsync`.
    Sync,
    /// `closefile`.
    Close,
    /// `statfile`: looks a file up.
    Stat,
    /// `appendfilerand` to the one log.
    AppendLog,
}

use Flowop::{Append, AppendLog, Close, Create, Delete, Open, ReadWhole, Stat, Sync, WriteWhole};

const VARMAIL_LOOP: &[Flowop] =
    &[Delete, Create, Append, Sync, Close, Open, ReadWhole, Append, Sync, Close, Open, ReadWhole, Close];

const WEBSERVER_LOOP: &[Flowop] = &[
    Open, ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole,
    Close, Open, ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole, Close, Open,
    ReadWhole, Close, AppendLog,
];

const FILESERVER_LOOP: &[Flowop] =
    &[Create, WriteWhole, Close, Open, Append, Close, Open, ReadWhole, Close, Delete, Stat];

const NFILES: Tunable = Tunable::new("nfiles", Unit::Count, "50000", "files of the set").within(1000, 10_000_000);
const IOSIZE: Tunable =
    Tunable::new("iosize", Unit::Bytes, "1m", "bytes of a call while a whole file is read or written")
        .within(512, 1 << 30);
const APPEND: Tunable =
    Tunable::new("meanappendsize", Unit::Bytes, "16k", "most bytes of an append; sizes are drawn evenly from 1")
        .within(1, 1 << 30);

const METADATA: Tunable = Tunable::new(
    "metadata",
    Unit::Switch,
    "on",
    "whether creating, opening, removing and looking up a file reads its name and its inode",
);

const PROCESSOR: Tunable = Tunable::new(
    "processor",
    Unit::Time,
    "0ns",
    "processor time of an operation, on the one processor of the guest; 0: 1 us each on a processor of its own",
)
.within(0, 1_000_000_000);

const fn filesize(default: &'static str) -> Tunable {
    Tunable::new("filesize", Unit::Bytes, default, "mean bytes of a file").within(512, 1 << 30)
}

const fn threads(default: &'static str) -> Tunable {
    // Fewer than the existing files and than the others, so that each thread finds one.
    Tunable::new("nthreads", Unit::Count, default, "processes").within(1, 200)
}

const fn dirwidth(default: &'static str) -> Tunable {
    Tunable::new("meandirwidth", Unit::Count, default, "files of a directory").within(1, 10_000_000)
}

pub(super) const VARMAIL: Row = Row {
    name: "varmail",
    summary: "a mail server: small files removed, created, read and appended to, each write made durable",
    origin: "FileBench 1.5-alpha3, workloads/varmail.f, with 50,000 files instead of 1000",
    tunables: &[NFILES, filesize("16k"), dirwidth("1000000"), threads("16"), IOSIZE, APPEND, METADATA, PROCESSOR],
    events: EVENTS,
    ends: |_| false,
    build: Build::Processes(|settings, files, seed| build(settings, files, seed, VARMAIL_LOOP, 80)),
};

pub(super) const WEBSERVER: Row = Row {
    name: "webserver",
    summary: "a web server: ten small files read, then a line to the log",
    origin: "FileBench 1.5-alpha3, workloads/webserver.f, with 50,000 files instead of 1000",
    tunables: &[NFILES, filesize("16k"), dirwidth("20"), threads("100"), IOSIZE, APPEND, METADATA, PROCESSOR],
    events: EVENTS,
    ends: |_| false,
    build: Build::Processes(|settings, files, seed| build(settings, files, seed, WEBSERVER_LOOP, 100)),
};

pub(super) const FILESERVER: Row = Row {
    name: "fileserver",
    summary: "a file server: files written, appended to, read and removed",
    origin: "FileBench 1.5-alpha3, workloads/fileserver.f, with 50,000 files instead of 10,000",
    tunables: &[NFILES, filesize("128k"), dirwidth("20"), threads("50"), IOSIZE, APPEND, METADATA, PROCESSOR],
    events: EVENTS,
    ends: |_| false,
    build: Build::Processes(|settings, files, seed| build(settings, files, seed, FILESERVER_LOOP, 80)),
};

const EVENTS: &[&str] = &["loop ends"];
const LOOP_ENDS: Event = Event(0);

fn build(
    settings: &Settings,
    files: &mut Files,
    seed: u64,
    flowops: &'static [Flowop],
    preallocated: u64,
) -> Result<Processes, OutOfSpace> {
    let design = Design {
        entries: settings.count("nfiles"),
        mean_bytes: settings.bytes("filesize"),
        files_per_directory: settings.count("meandirwidth"),
        preallocated,
    };
    let metadata = match settings.switch("metadata") {
        true => {
            let names = design.files_per_directory.min(design.entries);
            let directories = design.entries.div_ceil(names);
            Some(Arc::new(Metadata::new(files, directories as u32, names as u32)?))
        }
        false => None,
    };
    let mut generators = Generators::new(seed);
    let set = Arc::new(Mutex::new(Fileset::new(design, files, &mut generators.take())?));
    let processor = settings.nanos("processor");
    let call = if processor == Nanos::ZERO { Step::Sleep(CALL) } else { Step::Compute(processor) };
    let thread = |_| -> Box<dyn Program> {
        Box::new(Thread {
            flowops,
            next: 0,
            set: Arc::clone(&set),
            metadata: metadata.clone(),
            generator: generators.take(),
            open: None,
            io_bytes: settings.bytes("iosize"),
            append_bytes: settings.bytes("meanappendsize"),
            call,
            moving: None,
            steps: VecDeque::with_capacity(4),
        })
    };
    Ok((0..settings.count("nthreads")).map(thread).collect())
}

/// A thread of a personality.
struct Thread {
    flowops: &'static [Flowop],
    next: usize,
    set: Arc<Mutex<Fileset>>,
    metadata: Option<Arc<Metadata>>,
    generator: Xoshiro256PlusPlus,
    open: Option<Entry>,
    io_bytes: u64,
    append_bytes: u64,
    /// What every operation begins with.
    call: Step,
    /// The rest of a read or write of a whole file.
    moving: Option<Transfer>,
    steps: VecDeque<Step>,
}

impl Program for Thread {
    fn step(&mut self, _now: Timestamp, files: &mut Files) -> Result<Step, OutOfSpace> {
        while self.steps.is_empty() {
            match self.moving.take() {
                Some(left) => self.queue_part(left),
                None => self.queue_flowop(files)?,
            }
        }
        Ok(self.steps.pop_front().unwrap_or(Step::Exit))
    }
}

impl Thread {
    /// Queues one call of a read or write of a whole file.
    fn queue_part(&mut self, left: Transfer) {
        let bytes = left.bytes.min(self.io_bytes);
        Transfer { bytes, ..left }.queue(&mut self.steps);
        let rest = Transfer { offset: left.offset + bytes, bytes: left.bytes - bytes, ..left };
        self.moving = Some(rest).filter(|rest| rest.bytes > 0);
    }

    /// Queues the reads of the name and the inode of a file.
    fn look_up(&mut self, entry: Entry) {
        if let Some(metadata) = &self.metadata {
            self.steps.extend(metadata.to_open(entry.name()).map(Step::Access));
        }
    }

    fn queue_flowop(&mut self, files: &mut Files) -> Result<(), OutOfSpace> {
        let flowop = self.flowops[self.next];
        self.next = (self.next + 1) % self.flowops.len();
        self.steps.push_back(self.call);
        let shared = Arc::clone(&self.set);
        let mut set = shared.lock().unwrap_or_else(PoisonError::into_inner);
        match (flowop, self.open) {
            (Delete, _) => {
                let entry = set.delete(files, &mut self.generator);
                self.look_up(entry);
            }
            (Create, _) => {
                let entry = set.create(files, &mut self.generator)?;
                self.look_up(entry);
                self.open = Some(entry);
            }
            (Open, _) => {
                let entry = set.open(&mut self.generator);
                self.look_up(entry);
                self.open = Some(entry);
            }
            (Stat, _) => {
                let entry = set.any(&mut self.generator);
                self.look_up(entry);
            }
            (AppendLog, _) => {
                let bytes = self.generator.random_range(1..=self.append_bytes);
                let (log, offset) = set.extend_log(bytes, files)?;
                write(log, offset, bytes).queue(&mut self.steps);
            }
            (WriteWhole, Some(entry)) => {
                let (bytes, (file, length)) = (set.whole(entry), set.file(entry));
                set.set_length(entry, bytes.max(length), files)?;
                self.moving = Some(write(file, 0, bytes));
            }
            (Append, Some(entry)) => {
                let bytes = self.generator.random_range(1..=self.append_bytes);
                let (file, length) = set.file(entry);
                set.set_length(entry, length + bytes, files)?;
                write(file, length, bytes).queue(&mut self.steps);
            }
            (ReadWhole, Some(entry)) => {
                let (file, bytes) = set.file(entry);
                self.moving = Some(Transfer { operation: Operation::Read, ..write(file, 0, bytes) });
            }
            (Sync, Some(entry)) => self.steps.push_back(Step::Sync(set.file(entry).0)),
            (Close, Some(entry)) => {
                set.close(entry);
                self.open = None;
            }
            (WriteWhole | Append | ReadWhole | Sync | Close, None) => {}
        }
        if self.next == 0 {
            self.steps.push_back(Step::Post(LOOP_ENDS));
        }
        Ok(())
    }
}

fn write(file: FileId, offset: u64, bytes: u64) -> Transfer {
    Transfer { operation: Operation::Write, file, offset, bytes, direct: false }
}
