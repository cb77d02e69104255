//! A task of a sweep: one replay of `iocast compare`, of one VM or of two that share a drive. Its row says all of it, so
//! that any process on any host makes the same result of it.

use std::io::ErrorKind::NotFound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::{Result, anyhow, ensure};
use clap::{Args as _, FromArgMatches as _};
use replay::stack::StackSpec;
use serde::Serialize;
use traces::input::digest;
use traces::results::{Part, Provenance};
use traces::spec::Spec;
use traces::{Problem, ReadError};

use super::columns;
use super::rows::{Cell, Columns, Kind, Row};
use crate::arguments::Compare;
use crate::compare::one::replay_one;

/// The names of the VMs of a task.
pub const VM: &str = "vm";
pub const BESIDE: &str = "beside";

/// A task. Paths are relative to `folder`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub number: i64,
    pub folder: String,
    /// The trace of the VM.
    pub trace: String,
    /// The trace of a second VM on the same drive.
    pub beside: Option<String>,
    pub drive: String,
    /// The scheduler, unless there is a stack.
    pub scheduler: Option<String>,
    pub stack: Option<String>,
    /// The checksum of the drive's profile and of the stack's file; none without such files.
    pub files_sha256: Option<String>,
    pub depth: Option<i64>,
    pub pacing: String,
    pub map: String,
    pub start_ns: i64,
    pub end_ns: Option<i64>,
    pub limit: Option<i64>,
    /// The wanted quantities, by commas; all if none is named.
    pub quantities: Option<String>,
}

const COLUMNS: [(&str, Kind); 15] = [
    ("task", Kind::Whole),
    ("folder", Kind::Text),
    ("trace", Kind::Text),
    ("beside", Kind::Text),
    ("drive", Kind::Text),
    ("scheduler", Kind::Text),
    ("stack", Kind::Text),
    ("files_sha256", Kind::Text),
    ("depth", Kind::Whole),
    ("pacing", Kind::Text),
    ("map", Kind::Text),
    ("start_ns", Kind::Whole),
    ("end_ns", Kind::Whole),
    ("limit", Kind::Whole),
    ("quantities", Kind::Text),
];

/// The columns of tasks.
pub static TASK_COLUMNS: LazyLock<Columns> =
    LazyLock::new(|| Columns(COLUMNS.map(|(name, kind)| (name.to_owned(), kind)).into()));

/// The columns of tasks that a result repeats.
const REPEATED: [&str; 12] =
    ["task", "trace", "beside", "drive", "scheduler", "stack", "depth", "pacing", "map", "start_ns", "end_ns", "limit"];

/// What stands before the figures of a result, beside the columns of its task.
const ORIGIN: [(&str, Kind); 5] = [
    ("error", Kind::Text),
    ("program", Kind::Text),
    ("trace_sha256", Kind::Text),
    ("beside_sha256", Kind::Text),
    ("provenance", Kind::Text),
];

/// The columns of results: those of the task, its error, where it comes from, then the figures.
pub static RESULT_COLUMNS: LazyLock<Columns> = LazyLock::new(|| {
    let of_task = COLUMNS.into_iter().filter(|(name, _)| REPEATED.contains(name));
    let named = of_task.chain(ORIGIN).map(|(name, kind)| (name.to_owned(), kind));
    Columns(named.chain(columns::FIGURES.iter().map(|figure| (figure.name.clone(), figure.kind))).collect())
});

/// The place of the column `error` in a row of results.
pub const ERROR: usize = REPEATED.len();
/// The place of the column `program`.
pub const PROGRAM: usize = ERROR + 1;
/// The places of the columns `trace` and `trace_sha256`, and of those of the second VM.
pub const TRACES: [(usize, usize); 2] = [(1, ERROR + 2), (2, ERROR + 3)];

/// What the column `provenance` holds, as JSON.
#[derive(Serialize)]
struct Origin {
    #[serde(flatten)]
    provenance: Provenance,
    scheduler: Part,
}

impl Task {
    pub fn row(&self) -> Row {
        let text = |text: &String| Cell::Text(text.clone());
        let some = |text: &Option<String>| Cell::text(text.clone());
        let whole = |number: Option<i64>| number.map_or(Cell::Empty, Cell::Whole);
        vec![
            Cell::Whole(self.number),
            text(&self.folder),
            text(&self.trace),
            some(&self.beside),
            text(&self.drive),
            some(&self.scheduler),
            some(&self.stack),
            some(&self.files_sha256),
            whole(self.depth),
            text(&self.pacing),
            text(&self.map),
            Cell::Whole(self.start_ns),
            whole(self.end_ns),
            whole(self.limit),
            some(&self.quantities),
        ]
    }

    /// The task of a row.
    ///
    /// # Errors
    /// An empty column that a task needs.
    pub fn of(row: Row) -> Result<Task> {
        let mut cells = COLUMNS.iter().zip(row);
        let mut next = || cells.next().map_or(("", Cell::Empty), |((name, _), cell)| (*name, cell));
        fn text((_, cell): (&str, Cell)) -> Option<String> {
            if let Cell::Text(text) = cell { Some(text) } else { None }
        }
        fn whole((_, cell): (&str, Cell)) -> Option<i64> {
            if let Cell::Whole(number) = cell { Some(number) } else { None }
        }
        fn need<T>(of: (&'static str, Cell), get: fn((&str, Cell)) -> Option<T>) -> Result<T> {
            let name = of.0;
            get(of).ok_or_else(|| anyhow!("a task has nothing in its column {name}"))
        }
        Ok(Task {
            number: need(next(), whole)?,
            folder: need(next(), text)?,
            trace: need(next(), text)?,
            beside: text(next()),
            drive: need(next(), text)?,
            scheduler: text(next()),
            stack: text(next()),
            files_sha256: text(next()),
            depth: whole(next()),
            pacing: need(next(), text)?,
            map: need(next(), text)?,
            start_ns: need(next(), whole)?,
            end_ns: whole(next()),
            limit: whole(next()),
            quantities: text(next()),
        })
    }

    /// The path of a file of the task.
    fn path(&self, file: &str) -> String {
        Path::new(&self.folder).join(file).display().to_string()
    }

    /// The options of `iocast compare` that make this replay.
    pub fn words(&self) -> Vec<String> {
        let mut words = vec!["compare".to_owned(), format!("--vm={VM}={}", self.path(&self.trace))];
        if let Some(beside) = &self.beside {
            words.extend([format!("--vm={BESIDE}={}", self.path(beside)), "--per-vm".to_owned()]);
        }
        words.push(format!("--drive={}", self.drive_in_folder()));
        words.extend(self.scheduler.iter().map(|scheduler| format!("--schedulers={scheduler}")));
        words.extend(self.stack.iter().map(|stack| {
            let path = if StackSpec::is_file(stack) { self.path(stack) } else { stack.clone() };
            format!("--stack={path}")
        }));
        words.extend(self.depth.iter().map(|depth| format!("--depth={depth}")));
        words.extend([format!("--pacing={}", self.pacing), format!("--map={}", self.map)]);
        words.push(format!("--start={}ns", self.start_ns));
        words.extend(self.end_ns.iter().map(|end| format!("--end={end}ns")));
        words.extend(self.limit.iter().map(|limit| format!("--limit={limit}")));
        words
    }

    /// The drive; the paths of profiles with the task's folder.
    fn drive_in_folder(&self) -> String {
        let drive = self.drive.parse::<Spec>();
        drive.map_or_else(|_| self.drive.clone(), |spec| with_folder(spec, Path::new(&self.folder)).to_string())
    }

    /// Runs the task. Whatever is wrong with its input is in the column `error`. No text of the row has a path of this
    /// host.
    pub fn run(&self) -> Row {
        // A fault of the program in one task must not take the results of all others with it.
        let outcome = catch_unwind(AssertUnwindSafe(|| self.replay()))
            .unwrap_or_else(|_| Err(anyhow!("a fault of the program ended this task; standard error has the place")));
        let wanted: Option<Vec<&str>> = self.quantities.as_ref().map(|names| names.split(',').collect());
        let repeated = COLUMNS.iter().zip(self.row()).filter(|((name, _), _)| REPEATED.contains(name));
        let mut row: Row = repeated.map(|(_, cell)| cell).collect();
        let folder = Path::new(&self.folder).join("").display().to_string();
        let without_folder = |cell: Cell| match cell {
            Cell::Text(text) => Cell::Text(text.replace(&folder, "")),
            other => other,
        };
        match outcome {
            Ok((origin, figures)) => {
                row.extend(origin);
                let is_wanted = |name: &str| wanted.as_ref().is_none_or(|wanted| wanted.contains(&name));
                let known = columns::FIGURES.iter().zip(figures.into_iter().map(without_folder));
                row.extend(known.map(|(figure, cell)| if is_wanted(&figure.name) { cell } else { Cell::Empty }));
            }
            Err(error) => {
                let text = without_folder(Cell::Text(without_neighbours(&error)));
                row.extend([text, Cell::Text(traces::program_version())]);
                row.resize(RESULT_COLUMNS.0.len(), Cell::Empty);
            }
        }
        row
    }

    fn replay(&self) -> Result<([Cell; ORIGIN.len()], Vec<Cell>)> {
        let found = digest_of_files(Path::new(&self.folder), &self.drive, self.stack.as_deref())?;
        ensure!(
            found == self.files_sha256,
            "the profile of the drive or the file of the stack has changed since the sweep began; remove the sweep's \
             folder and repeat the command"
        );
        let command = Compare::augment_args(clap::Command::new("compare"));
        let matches = command.try_get_matches_from(self.words()).map_err(|error| anyhow!(error.to_string()))?;
        let one = replay_one(&Compare::from_arg_matches(&matches)?)?;
        let figures = columns::figures(&one);
        let digest = |vm: &str| {
            let trace = one.provenance.traces.iter().find(|trace| trace.vm == vm);
            Cell::text(trace.map(|trace| trace.sha256.clone()))
        };
        let digests = [digest(VM), digest(BESIDE)];
        let origin = Origin { provenance: one.provenance, scheduler: one.run.scheduler };
        let provenance = serde_json::to_string(&origin)?;
        let [trace, beside] = digests;
        Ok(([Cell::Empty, Cell::Text(origin.provenance.program), trace, beside, Cell::Text(provenance)], figures))
    }
}

/// The text of an error. What is said of a missing file does not depend on the files beside it.
fn without_neighbours(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    let is_missing = |problem: &Problem| matches!(problem, Problem::Io(error) if error.kind() == NotFound);
    let missing = error.chain().filter_map(|cause| cause.downcast_ref::<ReadError>());
    let remedy = missing.filter(|cause| is_missing(&cause.problem)).find_map(|cause| cause.remedy.as_ref());
    remedy.map_or_else(|| text.clone(), |remedy| text.replace(&format!("; {remedy}"), ""))
}

/// Whether a drive is the path of a profile.
fn is_profile_file(drive: &str) -> bool {
    drive.contains('/') || drive.ends_with(".toml")
}

/// The checksum of the profiles that a drive names, and of a stack's file; none if these are no files.
///
/// # Errors
/// A file that cannot be read.
pub fn digest_of_files(folder: &Path, drive: &str, stack: Option<&str>) -> Result<Option<String>, ReadError> {
    let spec = drive.parse::<Spec>().ok();
    let words = spec.iter().flat_map(|spec| [&spec.name].into_iter().chain(spec.given.iter().map(|(_, value)| value)));
    let of_drive = words.map(String::as_str).filter(|word| is_profile_file(word));
    let of_stack = stack.filter(|stack| StackSpec::is_file(stack));
    let files: Vec<PathBuf> = of_drive.chain(of_stack).map(|file| folder.join(file)).collect();
    if files.is_empty() { Ok(None) } else { digest(&files).map(Some) }
}

/// A drive whose profile, and those of the drives that it is made of, are in `folder`.
pub fn with_folder(mut drive: Spec, folder: &Path) -> Spec {
    let inside = |name: &str| folder.join(name).display().to_string();
    if is_profile_file(&drive.name) {
        drive.name = inside(&drive.name);
    }
    for (_, value) in &mut drive.given {
        if is_profile_file(value) {
            *value = inside(value);
        }
    }
    drive
}
