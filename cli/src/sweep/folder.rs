//! The folder of a sweep: its tasks, the parts of its results, and the results.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use traces::whole_file::WholeFile;

use super::expansion::Expansion;
use super::rows::{Cell, Row, RowFile, RowReader, count, whole, write_file};
use super::task::{ERROR, PROGRAM, RESULT_COLUMNS, TASK_COLUMNS, TRACES};

/// The most tasks of a part: a kill loses the unfinished part of every core.
const TASKS_PER_PART_MAX: u64 = 256;
/// Parts that a small sweep is cut into, so that all cores have something to do until the end.
const PARTS: u64 = 64;

/// How many tasks a part has, by the number of all.
pub fn tasks_per_part(tasks: u64) -> u64 {
    tasks.div_ceil(PARTS).clamp(1, TASKS_PER_PART_MAX)
}

/// The folder.
pub struct Folder {
    path: PathBuf,
}

/// What stands in a table of results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Joined {
    pub tasks: u64,
    /// Tasks that failed.
    pub failed: u64,
    /// The first of their errors, and how many tasks have it.
    pub errors: BTreeMap<String, u64>,
}

/// Errors that are told apart.
const ERRORS_MAX: usize = 20;

impl Folder {
    /// Opens or creates the folder for the tasks of a plan.
    ///
    /// # Errors
    /// A folder that holds another sweep, or that cannot be written to.
    pub fn open(path: &Path, expansion: &Expansion) -> Result<Folder> {
        let folder = Folder { path: path.to_owned() };
        fs::create_dir_all(folder.parts()).with_context(|| folder.parts().display().to_string())?;
        let tasks = folder.tasks();
        if !tasks.exists() {
            write_file(&tasks, &TASK_COLUMNS, expansion.tasks(0..expansion.len()).map(|task| Ok(task.row())))?;
        }
        folder.check(&tasks, expansion)?;
        Ok(folder)
    }

    /// Checks that the tasks in the folder are those of the plan.
    fn check(&self, tasks: &Path, expansion: &Expansion) -> Result<()> {
        let other = || {
            format!(
                "{} holds the tasks of another plan, or the plan's folder, traces, profiles or stacks have changed since; \
                 choose another --out, or remove the folder",
                self.path.display()
            )
        };
        let mut planned = expansion.tasks(0..expansion.len()).map(|task| task.row());
        for row in RowReader::open(tasks, &TASK_COLUMNS)? {
            ensure!(Some(row?) == planned.next(), other());
        }
        ensure!(planned.next().is_none(), other());
        Ok(())
    }

    fn parts(&self) -> PathBuf {
        self.path.join("parts")
    }

    /// The table of tasks.
    pub fn tasks(&self) -> PathBuf {
        self.path.join(TASKS)
    }

    /// The table of results.
    pub fn results(&self) -> PathBuf {
        self.path.join(RESULTS)
    }

    /// Where Spark writes.
    pub fn spark(&self) -> PathBuf {
        self.path.join("spark")
    }

    /// The file of a part of the results.
    pub fn part(&self, part: u64) -> PathBuf {
        self.parts().join(format!("{part:07}.parquet"))
    }

    /// Joins the tables of results in `files` into one, sorted by task.
    ///
    /// # Errors
    /// A task that is missing or there twice; results of different versions of the program or of a trace.
    pub fn join(&self, files: Vec<PathBuf>, tasks: u64) -> Result<Joined> {
        let mut sorted = Vec::new();
        for file in files {
            if let Some(row) = read(&file)?.next() {
                sorted.push((whole(&row?, 0)?, file));
            }
        }
        sorted.sort();
        let mut check = Check::default();
        let mut file = RowFile::begin(&RESULT_COLUMNS, WholeFile::create(&self.results())?)?;
        for (_, path) in sorted {
            for row in read(&path)? {
                file.push(check.next(row?)?)?;
            }
        }
        // The file has no name yet, so that results that lack a task leave none.
        let found = check.joined.tasks;
        ensure!(found == tasks, "results of {found} tasks are there, and the plan has {tasks}");
        file.finish()?.finish_once()?;
        Ok(check.joined)
    }
}

/// The names of the tables in the folder.
const TASKS: &str = "tasks.parquet";
const RESULTS: &str = "results.parquet";

/// What is wrong with joined results that cannot be read, and the remedy.
pub const DAMAGED_RESULTS: &str = "the results are damaged, or of another version of the program; remove the file, and \
                                   `iocast sweep` with the plan and `--out` of the folder makes it anew";

/// The folder of the sweep that `path` is, or whose results it is; none if it is neither.
pub fn of_sweep(path: &Path) -> Option<&Path> {
    let of_results = path.parent().filter(|folder| path.ends_with(RESULTS) && folder.join(TASKS).is_file());
    let is_sweep = [TASKS, RESULTS].iter().any(|name| path.join(name).is_file());
    is_sweep.then_some(path).or(of_results)
}

/// The table of results in the folder of a sweep that is complete.
///
/// # Errors
/// Tasks without results, with their number and the way to go on.
pub fn complete_results(path: &Path) -> Result<PathBuf> {
    let folder = Folder { path: path.to_owned() };
    let tasks = if folder.tasks().is_file() { Some(count(&folder.tasks())?) } else { None };
    let go_on = format!("`iocast sweep PLAN.toml --out {}`", path.display());
    if !folder.results().is_file() {
        let tasks = tasks.unwrap_or_default();
        let mut done = 0;
        for part in parquet_files(&folder.parts())?.iter().chain(&parquet_files(&folder.spark())?) {
            done += count(part)?;
        }
        match tasks.saturating_sub(done) {
            0 => {
                bail!("{}: all {tasks} tasks have run, but their results are not joined; {go_on} does", path.display())
            }
            missing => bail!("{}: {missing} of {tasks} tasks have no result yet; {go_on} goes on", path.display()),
        }
    }
    let found = count(&folder.results()).context(DAMAGED_RESULTS)?;
    ensure!(
        tasks.is_none_or(|tasks| tasks == found),
        "{}: it has results of {found} tasks, and its table of tasks {}; remove {RESULTS}, and {go_on} makes it anew",
        path.display(),
        tasks.unwrap_or_default()
    );
    Ok(folder.results())
}

/// The Parquet files in a folder that may be missing.
fn parquet_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    if !folder.is_dir() {
        return Ok(found);
    }
    let named = || folder.display().to_string();
    for entry in fs::read_dir(folder).with_context(named)? {
        let path = entry.with_context(named)?.path();
        if path.extension().is_some_and(|ending| ending == "parquet") {
            found.push(path);
        }
    }
    Ok(found)
}

/// The rows of a file of results.
fn read(path: &Path) -> Result<impl Iterator<Item = Result<Row>> + use<>> {
    const DAMAGED: &str = "it is damaged; remove it and repeat the command, which runs its tasks again";
    let rows = RowReader::open(path, &RESULT_COLUMNS).context(DAMAGED)?;
    Ok(rows.map(|row| row.context(DAMAGED)))
}

/// Checks results one after another.
#[derive(Default)]
struct Check {
    joined: Joined,
    program: Option<String>,
    /// The digest of each trace.
    digests: BTreeMap<String, (String, i64)>,
}

impl Check {
    fn next(&mut self, row: Row) -> Result<Row> {
        let task = whole(&row, 0)?;
        let expected = self.joined.tasks.cast_signed();
        ensure!(
            task == expected,
            "the results have task {task} where task {expected} should follow; remove the sweep's folder and repeat the \
             command"
        );
        let Cell::Text(by) = &row[PROGRAM] else { bail!("the result of task {task} names no program") };
        let program = self.program.get_or_insert_with(|| by.clone());
        ensure!(
            program == by,
            "task {task} was run by {by}, and the tasks before it by {program}; remove the results of one of them and \
             repeat the command"
        );
        for (trace, digest) in TRACES {
            let (Cell::Text(trace), Cell::Text(digest)) = (&row[trace], &row[digest]) else { continue };
            match self.digests.entry(trace.clone()) {
                Entry::Vacant(entry) => {
                    entry.insert((digest.clone(), task));
                }
                Entry::Occupied(known) if known.get().0 != *digest => {
                    let first = known.get().1;
                    bail!(
                        "{trace} has changed during the sweep: tasks {first} and {task} have read different bytes; remove \
                         the folder and repeat the command"
                    );
                }
                Entry::Occupied(_) => {}
            }
        }
        self.joined.tasks += 1;
        if let Cell::Text(error) = &row[ERROR] {
            self.joined.failed += 1;
            let errors = &mut self.joined.errors;
            if errors.len() < ERRORS_MAX || errors.contains_key(error) {
                *errors.entry(error.clone()).or_default() += 1;
            }
        }
        Ok(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_that_lack_a_task_or_were_made_by_two_programs_are_not_joined() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Folder { path: folder.path().to_owned() };
        fs::create_dir_all(folder.parts()).unwrap();
        let part = |part: u64, tasks: &[i64], program: &str| {
            let row = |task: i64| {
                let mut row = vec![Cell::Empty; RESULT_COLUMNS.0.len()];
                (row[0], row[PROGRAM]) = (Cell::Whole(task), Cell::Text(program.to_owned()));
                row
            };
            let rows = tasks.iter().map(|task| Ok(row(*task)));
            write_file(&folder.part(part), &RESULT_COLUMNS, rows).unwrap();
            folder.part(part)
        };
        let fails = |files: Vec<PathBuf>| {
            let error = folder.join(files, 4).unwrap_err().to_string();
            assert!(!folder.results().exists());
            error
        };
        let first = part(0, &[0, 1], "one");
        assert_eq!(fails(vec![first.clone()]), "results of 2 tasks are there, and the plan has 4");
        let gap = part(1, &[3], "one");
        assert_eq!(
            fails(vec![gap, first.clone()]),
            "the results have task 3 where task 2 should follow; remove the sweep's folder and repeat the command"
        );
        let other = part(1, &[2, 3], "other");
        assert!(
            fails(vec![first.clone(), other]).starts_with("task 2 was run by other, and the tasks before it by one")
        );
        let rest = part(1, &[2, 3], "one");
        assert_eq!(folder.join(vec![rest, first], 4).unwrap().tasks, 4);
    }
}
