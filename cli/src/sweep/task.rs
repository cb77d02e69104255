//! A task of a sweep: one replay of `iocast compare`, of one VM or of two that share a drive. Its row says all of it, so
//! that any process on any host makes the same result of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::LazyLock;

use anyhow::{Result, anyhow};
use clap::{Args as _, FromArgMatches as _};
use replay::stack::StackSpec;
use serde::Serialize;
use traces::results::{Part, Provenance};
use traces::spec::Spec;

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
    pub depth: Option<i64>,
    pub pacing: String,
    pub map: String,
    pub start_ns: i64,
    pub end_ns: Option<i64>,
    pub limit: Option<i64>,
    /// The wanted quantities, by commas; all if none is named.
    pub quantities: Option<String>,
}

const COLUMNS: [(&str, Kind); 14] = [
    ("task", Kind::Whole),
    ("folder", Kind::Text),
    ("trace", Kind::Text),
    ("beside", Kind::Text),
    ("drive", Kind::Text),
    ("scheduler", Kind::Text),
    ("stack", Kind::Text),
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

    /// The drive; the path of a profile with the task's folder.
    fn drive_in_folder(&self) -> String {
        match self.drive.parse::<Spec>() {
            Ok(spec) if is_profile_file(&spec) => Spec { name: self.path(&spec.name), ..spec }.to_string(),
            _ => self.drive.clone(),
        }
    }

    /// Runs the task. Whatever is wrong with its input is in the column `error`, where no path of this host is.
    pub fn run(&self) -> Row {
        // A fault of the program in one task must not take the results of all others with it.
        let outcome = catch_unwind(AssertUnwindSafe(|| self.replay()))
            .unwrap_or_else(|_| Err(anyhow!("a fault of the program ended this task; standard error has the place")));
        let wanted: Option<Vec<&str>> = self.quantities.as_ref().map(|names| names.split(',').collect());
        let repeated = COLUMNS.iter().zip(self.row()).filter(|((name, _), _)| REPEATED.contains(name));
        let mut row: Row = repeated.map(|(_, cell)| cell).collect();
        match outcome {
            Ok((origin, figures)) => {
                row.extend(origin);
                let is_wanted = |name: &str| wanted.as_ref().is_none_or(|wanted| wanted.contains(&name));
                let known = columns::FIGURES.iter().zip(figures);
                row.extend(known.map(|(figure, cell)| if is_wanted(&figure.name) { cell } else { Cell::Empty }));
            }
            Err(error) => {
                let folder = Path::new(&self.folder).join("").display().to_string();
                let text = format!("{error:#}").replace(&folder, "");
                row.extend([Cell::Text(text), Cell::Text(traces::program_version())]);
                row.resize(RESULT_COLUMNS.0.len(), Cell::Empty);
            }
        }
        row
    }

    fn replay(&self) -> Result<([Cell; ORIGIN.len()], Vec<Cell>)> {
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

/// Whether a drive is the path of a profile.
pub fn is_profile_file(drive: &Spec) -> bool {
    drive.name.contains('/') || drive.name.ends_with(".toml")
}
