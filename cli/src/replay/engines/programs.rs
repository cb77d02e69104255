//! The programs, their inputs and how they are run.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use capture::scratch::Scratch;
use replay::sources::{Pacing, TraceRead};
use rustix::process::{Pid, Signal, kill_process_group};
use traces::formats::replayer::{Replay as ReplayOf, quoted};
use traces::formats::{Format, btreplay, csv, fio_iolog};
use traces::trace::{AddressSpace, Layer, WriteOptions};
use traces::{Nanos, Operation, Timestamp, TraceMeta};

use crate::arguments::Replay;
use crate::needs::{Use, uses};
use crate::replay::{Plan, Survey};

/// A program that replays traces.
#[derive(Debug)]
pub struct Program {
    /// Its name, which is that of its executable unless it is this program.
    pub name: &'static str,
    /// The run of `iocast replay` that needs it, unless it is this program.
    pub run: Option<Use>,
    /// The format that it reads, and the name of its input.
    format: fn() -> &'static Format,
    input: &'static str,
    /// Whether it can replay a flush. btreplay 1.2 makes a write without data of it, and never ends.
    flushes: bool,
}

/// This program.
const OURS: &str = "iocast";

/// The requests as this program reads them.
const ASKED: &str = "asked.csv";

/// All programs.
pub const PROGRAMS: &[Program] = &[
    Program { name: OURS, run: None, format: || &csv::FORMAT, input: ASKED, flushes: true },
    Program {
        name: "fio",
        run: Some(uses::REPLAY_FIO),
        format: || &fio_iolog::FORMAT,
        input: "asked.iolog",
        flushes: true,
    },
    Program {
        name: "btreplay",
        run: Some(uses::REPLAY_BTREPLAY),
        format: || &btreplay::FORMAT,
        input: "asked.replay.0",
        flushes: false,
    },
];

/// How long a program may take beyond the span of the trace, and how many times that span.
const PATIENCE: (Duration, u32) = (Duration::from_secs(60), 4);
/// How long a program may cause no I/O, beyond the span of the trace: no pause in the trace is longer.
const QUIET: Duration = Duration::from_secs(10);
/// How often it is looked whether a program has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The most bytes of a program's messages that are shown.
const SAID_BYTES_MAX: u64 = 400;

/// The input of a program.
pub struct Input {
    /// The folder of the engine's files.
    pub folder: PathBuf,
    path: PathBuf,
    /// The same requests, readable by iocast, as the program can express them.
    pub asked: PathBuf,
    /// Records that the format cannot express.
    pub left_out: u64,
}

impl Program {
    /// The command line that replays `input`, with `more` arguments.
    ///
    /// # Errors
    /// A device that the program cannot use.
    pub fn command(&self, input: &Input, arguments: &Replay, more: &str) -> Result<String> {
        let device = arguments.target.display().to_string();
        let command = match &(self.format)().replayer {
            Some(replayer) => (replayer.command)(&ReplayOf { file: &input.path, device: Some(&device), devices: 1 })
                .map_err(|error| anyhow!("{}: {error}", self.name))?,
            None => {
                let writes = if arguments.allow_writes { " --allow-writes" } else { "" };
                // Other programs do not merge requests either.
                let (device, path) = (quoted(&device), quoted(&input.path.display().to_string()));
                let options = format!("--device {device}{writes} --merge off --output-format json");
                format!("{OURS} replay {path} {options}")
            }
        };
        Ok(if more.is_empty() { command } else { format!("{command} {more}") })
    }
}

/// The requests of the traces as all programs are asked for them.
pub struct Prepared {
    folder: Scratch,
    asked: PathBuf,
    device: String,
    span: Nanos,
    read: Vec<TraceRead>,
}

impl Prepared {
    /// Writes the requests of the plan's traces.
    ///
    /// # Errors
    /// The temporary folder cannot be written.
    pub(super) fn new(plan: &Plan, survey: &Survey) -> Result<Prepared> {
        // btreplay makes a `/` of each `_`, and fio ends a name at a colon.
        let folder = Scratch::new().context("a temporary folder")?;
        let asked = folder.path().join(ASKED);
        let (mut merged, _) = plan.merged(survey.capacity)?;
        let create = csv::FORMAT.create.context("CSV is written")?;
        let mut writer = create(&asked, &WriteOptions::default())?;
        let (mut first, mut last) = (None, Timestamp::ZERO);
        while let Some(mut record) = merged.take()? {
            if let Pacing::Scaled(factor) = plan.arguments.replaying.pacing {
                let since_zero = record.request.arrival.since(Timestamp::ZERO);
                let scaled = factor.of(since_zero).context("an arrival is too late for this scale")?;
                record.request.arrival = Timestamp::ZERO + scaled;
                record.observed = traces::Observed::default();
            }
            first.get_or_insert(record.request.arrival);
            last = record.request.arrival;
            writer.write(&record)?;
        }
        writer.finish(&TraceMeta::new(csv::FORMAT.name, Layer::GuestQueue, "recorded"))?;
        let device = plan.arguments.target.display().to_string();
        let span = first.map_or(Nanos::ZERO, |first| last.since(first));
        Ok(Prepared { asked, device, span, read: merged.read(), folder })
    }

    /// From the first arrival to the last.
    pub fn span(&self) -> Nanos {
        self.span
    }

    /// What was read of each trace.
    pub fn read(&self) -> &[TraceRead] {
        &self.read
    }

    /// How long a program may take.
    pub fn patience(&self) -> Duration {
        PATIENCE.0 + Duration::from_nanos(self.span.as_ns()) * PATIENCE.1
    }

    /// How long a program may cause no I/O.
    pub fn quiet(&self) -> Duration {
        QUIET + Duration::from_nanos(self.span.as_ns())
    }

    /// The requests in the format of `program`, in the folder of the engine with this number.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn written_for(&self, program: &Program, number: usize) -> Result<Input> {
        let folder = self.folder.path().join(number.to_string());
        std::fs::create_dir(&folder).context("a temporary folder")?;
        if program.name == OURS {
            return Ok(Input { folder, path: self.asked.clone(), asked: self.asked.clone(), left_out: 0 });
        }
        let path = folder.join(program.input);
        let mut reader = traces::formats::open(&self.asked, &traces::trace::ReadOptions::default())?;
        let options =
            WriteOptions { lossy: true, address_space: AddressSpace::Shared, replay_device: Some(self.device.clone()) };
        let create = (program.format)().create.context("a program's format is written")?;
        let mut writer = create(&path, &options)?;
        let mut flushes = 0;
        while let Some(record) = reader.next()? {
            if record.request.operation == Operation::Flush && !program.flushes {
                flushes += 1;
            } else {
                writer.write(&record)?;
            }
        }
        let written = writer.finish(reader.meta())?;
        let left_out = written.left_out.values().sum::<u64>() + flushes;
        let asked = if left_out == 0 { &self.asked } else { &path };
        Ok(Input { folder, asked: asked.clone(), path, left_out })
    }
}

/// What is watched while a program runs.
pub struct Watched<'a> {
    /// The number of I/Os that the device has completed; `None` if the kernel does not count them.
    pub ios: &'a dyn Fn() -> Option<u64>,
    /// A program that causes no further I/O for so long has nothing left to do.
    pub quiet: Duration,
    /// How long a program may take.
    pub patience: Duration,
    /// Whether the user has asked to stop.
    pub stop: &'a AtomicBool,
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramEnd {
    /// As it should.
    Ended,
    /// It was stopped, since it still ran so long after its last I/O.
    Quiet(Duration),
    /// It failed: why, in its own words.
    Failed(String),
}

/// Runs a command line to its end.
///
/// # Errors
/// It cannot be started.
pub fn run(command: &str, watched: &Watched) -> Result<ProgramEnd> {
    let mut said = tempfile::tempfile().context("a temporary file")?;
    let mut shell = Command::new("sh");
    // The program that runs, whether or not it is the one on the PATH.
    let ours = format!("{OURS}() {{ /proc/{}/exe \"$@\"; }}; {command}", std::process::id());
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    shell.args(["-c", &ours]).env("PATH", path).process_group(0);
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said.try_clone().context("a temporary file")?);
    let mut child = shell.spawn().context("cannot start a shell")?;
    let begun = Instant::now();
    let before = (watched.ios)();
    let (mut ios, mut last_io) = (before, begun);
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for a program")? {
            return Ok(match status.success() {
                true => ProgramEnd::Ended,
                false => ProgramEnd::Failed(format!("{status}: {}", last_words(&mut said).unwrap_or_default())),
            });
        }
        let now = (watched.ios)();
        if now != ios {
            (ios, last_io) = (now, Instant::now());
        }
        // Before its first I/O it may read a long input.
        let is_quiet = ios != before && last_io.elapsed() > watched.quiet;
        if is_quiet || begun.elapsed() > watched.patience || watched.stop.load(Ordering::Relaxed) {
            // It fails only if the program has ended meanwhile.
            let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
            child.wait().context("cannot wait for a program")?;
            return Ok(match is_quiet {
                true => ProgramEnd::Quiet(last_io.elapsed()),
                false => ProgramEnd::Failed(format!("it was stopped after {:.0} s", begun.elapsed().as_secs_f64())),
            });
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// The end of a program's messages, in one line.
fn last_words(said: &mut File) -> std::io::Result<String> {
    let length = said.seek(SeekFrom::End(0))?;
    said.seek(SeekFrom::Start(length.saturating_sub(SAID_BYTES_MAX)))?;
    let mut bytes = Vec::new();
    said.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn end_of(command: &str, ios: &dyn Fn() -> Option<u64>, [quiet, patience]: [u64; 2]) -> ProgramEnd {
        let [quiet, patience] = [quiet, patience].map(Duration::from_millis);
        run(command, &Watched { ios, quiet, patience, stop: &AtomicBool::new(false) }).unwrap()
    }

    #[test]
    fn program_that_runs_on_after_its_last_io_is_stopped_and_has_not_failed() {
        let looks = Cell::new(0);
        // The counter rises at the first five looks, one every 20 ms.
        let ios = || {
            looks.set(looks.get() + 1);
            Some(looks.get().min(5))
        };
        let end = end_of("sleep 60", &ios, [150, 30_000]);
        assert!(matches!(end, ProgramEnd::Quiet(after) if after >= Duration::from_millis(150)), "{end:?}");
        assert!(looks.get() > 10, "the counter was watched until it stood still");
    }

    #[test]
    fn program_that_never_ceases_or_cannot_be_watched_is_stopped_when_patience_ends() {
        let looks = Cell::new(0);
        let ceaseless = || {
            looks.set(looks.get() + 1);
            Some(looks.get())
        };
        let stopped = ProgramEnd::Failed("it was stopped after 0 s".to_owned());
        assert_eq!(end_of("sleep 60", &ceaseless, [100, 300]), stopped);
        for uncounted in [None, Some(7)] {
            assert_eq!(end_of("sleep 60", &|| uncounted, [0, 300]), stopped, "no I/O was seen yet");
        }
    }

    #[test]
    fn program_that_ends_by_itself_is_judged_by_its_exit_code() {
        assert_eq!(end_of("true", &|| Some(0), [9000, 9000]), ProgramEnd::Ended);
        let failed = ProgramEnd::Failed("exit status: 3: no such thing".to_owned());
        assert_eq!(end_of("echo no such thing >&2; exit 3", &|| Some(0), [9000, 9000]), failed);
    }
}
