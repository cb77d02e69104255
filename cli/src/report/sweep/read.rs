//! The results of a sweep as a report needs them: a few numbers of each task, read row by row.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use traces::results::supports_percentile;

use crate::sweep::folder::DAMAGED_RESULTS;
use crate::sweep::rows::{Cell, Columns, Kind, Row, RowReader};
use crate::tune::Figure;

/// The most results of a report, at some 200 bytes each.
const ROWS_MAX: u64 = 1_000_000;
/// Errors that are told apart.
const ERRORS_MAX: usize = 20;
/// The percentile of the Pareto front.
const P99: &str = "p99";

/// Columns of text, then those of numbers. The figure that is asked for stands behind them.
const TEXTS: [&str; 9] = ["trace", "beside", "drive", "scheduler", "stack", "error", "status", "pacing", "map"];
const COUNTS: [&str; 8] =
    ["depth", "start_ns", "end_ns", "limit", "span_ns", "read_requests", "write_requests", "all_requests"];
const REALS: [&str; 6] =
    ["all_iops", "read_response_mean_ns", "vm_read_iops", "vm_write_iops", "beside_read_iops", "beside_write_iops"];
const MORE: [(&str, Kind); 3] = [
    ("read_response_p99_ns", Kind::Whole),
    ("vm_read_response_mean_ns", Kind::Real),
    ("beside_read_response_mean_ns", Kind::Real),
];

/// Numbers for names, in the order in which they come.
#[derive(Clone, Debug, Default)]
pub struct Names {
    numbers: BTreeMap<String, u32>,
    pub names: Vec<String>,
}

impl Names {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.numbers.insert(name.to_owned(), number);
        self.names.push(name.to_owned());
        number
    }

    pub fn of(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("", String::as_str)
    }
}

/// What all candidates are compared on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Context {
    pub trace: u32,
    /// The trace of a second VM.
    pub beside: Option<u32>,
    pub drive: u32,
    /// Start, end and most requests.
    pub window: (i64, Option<i64>, Option<i64>),
}

/// A task whose figures may be compared. A figure that it lacks is `None`, and so is one that is not above 0.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub context: u32,
    pub candidate: u32,
    /// The figure that is asked for.
    pub figure: Option<f64>,
    /// Requests per second.
    pub throughput: Option<f64>,
    pub p99_read: Option<f64>,
    /// From the first arrival to the last completion.
    pub span_ns: i64,
    /// Of the VM, or of both VMs of a pair: mean response of reads and requests per second.
    pub vms: [[Option<f64>; 2]; 2],
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Results {
    pub tasks: u64,
    pub failed: u64,
    /// The first errors, and how many tasks have each.
    pub errors: BTreeMap<String, u64>,
    pub overloaded: u64,
    /// Tasks that may be compared but lack the figure, or have too few requests for it.
    pub lacking: u64,
    /// Short, if the short names differ.
    pub traces: Names,
    /// The traces as the plan names them, without the folder that all of them lie in if it is absolute: it tells about
    /// the host, and nothing to others.
    pub paths: Vec<String>,
    /// Whether traces are replayed in several windows.
    pub has_windows: bool,
    pub drives: Names,
    /// Schedulers with their tunables; a stack as `stack …`.
    pub candidates: Names,
    /// Pacing, map and depth of the tasks.
    pub settings: Names,
    pub contexts: Vec<Context>,
    pub runs: Vec<Run>,
}

impl Results {
    /// Reads the table at `path`. `figure` is what is asked for.
    ///
    /// # Errors
    /// A table that cannot be read, lacks a column or has too many rows.
    pub fn read(path: &Path, figure: &Figure) -> Result<Results> {
        let columns = columns(figure);
        let mut results = Results::default();
        let mut numbers: BTreeMap<Context, u32> = BTreeMap::new();
        for row in RowReader::open(path, &columns).context(DAMAGED_RESULTS)? {
            results.add(&Fields { columns: &columns, row: &row.context(DAMAGED_RESULTS)?, figure }, &mut numbers);
            if results.tasks > ROWS_MAX {
                bail!(
                    "{}: a report is made of at most {ROWS_MAX} results; query the table with DuckDB or polars, or sweep \
                     fewer traces",
                    path.display()
                );
            }
        }
        let first = results.contexts.first().map(|context| context.window);
        results.has_windows = results.contexts.iter().any(|context| Some(context.window) != first);
        let short: Vec<&str> = results.traces.names.iter().map(|path| short(path)).collect();
        results.paths = without_common_folder(&results.traces.names);
        results.traces.names = match short.iter().collect::<BTreeSet<_>>().len() == short.len() {
            true => short.into_iter().map(str::to_owned).collect(),
            false => results.paths.clone(),
        };
        Ok(results)
    }

    fn add(&mut self, of: &Fields<'_>, numbers: &mut BTreeMap<Context, u32>) {
        self.tasks += 1;
        let context = Context {
            trace: self.traces.number(of.text("trace").unwrap_or_default()),
            beside: of.text("beside").map(|beside| self.traces.number(beside)),
            drive: self.drives.number(of.text("drive").unwrap_or_default()),
            window: (of.whole("start_ns").unwrap_or_default(), of.whole("end_ns"), of.whole("limit")),
        };
        let candidate = match (of.text("scheduler"), of.text("stack")) {
            (Some(scheduler), _) => self.candidates.number(scheduler),
            (None, stack) => self.candidates.number(&format!("stack {}", stack.unwrap_or_default())),
        };
        self.settings.number(&of.setting());
        if let Some(error) = of.text("error") {
            self.failed += 1;
            if self.errors.len() < ERRORS_MAX || self.errors.contains_key(error) {
                *self.errors.entry(error.to_owned()).or_default() += 1;
            }
            return;
        }
        if of.text("status") == Some("overloaded") {
            self.overloaded += 1;
            return;
        }
        let contexts = &mut self.contexts;
        let context = *numbers.entry(context).or_insert_with(|| {
            contexts.push(context);
            contexts.len() as u32 - 1
        });
        let run = of.run(context, candidate, self.contexts[context as usize].beside.is_some());
        self.lacking += u64::from(run.figure.is_none());
        self.runs.push(run);
    }

    /// The runs of each context, in the order of contexts and candidates.
    pub fn by_context(&self) -> Vec<Vec<&Run>> {
        let mut grouped: Vec<Vec<&Run>> = vec![Vec::new(); self.contexts.len()];
        for run in &self.runs {
            grouped[run.context as usize].push(run);
        }
        grouped
    }

    /// The names of a context: its VMs, and its window if there are several.
    pub fn load(&self, context: Context) -> String {
        let mut text = self.traces.of(context.trace).to_owned();
        if let Some(beside) = context.beside {
            text = format!("{text} beside {}", self.traces.of(beside));
        }
        if self.has_windows {
            text.push_str(&window(context));
        }
        text
    }
}

/// The part of its traces that a context has, behind their names; nothing if that is all.
pub fn window(context: Context) -> String {
    let s = |ns: i64| format!("{}s", ns as f64 / 1e9);
    let (start, end, limit) = context.window;
    let mut text = String::new();
    if start > 0 {
        text.push_str(&format!(" from {}", s(start)));
    }
    text.push_str(&end.map(|end| format!(" to {}", s(end))).unwrap_or_default());
    text.push_str(&limit.map(|limit| format!(", at most {limit} requests")).unwrap_or_default());
    text
}

/// A path without its folders and the ending of Parquet.
fn short(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.strip_suffix(".parquet").unwrap_or(name)
}

/// Paths without the folders that all of them begin with, if those are absolute.
fn without_common_folder(paths: &[String]) -> Vec<String> {
    let folder = |path: &String| path.rfind('/').map_or(0, |end| end + 1);
    let Some(first) = paths.first() else { return Vec::new() };
    let mut common = &first[..folder(first)];
    for path in paths {
        while !path.starts_with(common) {
            common =
                common.trim_end_matches('/').rsplit_once('/').map_or("", |(before, _)| &common[..before.len() + 1]);
        }
    }
    let cut = if common.starts_with('/') { common.len() } else { 0 };
    paths.iter().map(|path| path[cut..].to_owned()).collect()
}

fn columns(figure: &Figure) -> Columns {
    let named = |names: &[&str], kind: Kind| names.iter().map(|name| ((*name).to_owned(), kind)).collect::<Vec<_>>();
    let mut all = named(&TEXTS, Kind::Text);
    all.extend(named(&COUNTS, Kind::Whole));
    all.extend(named(&REALS, Kind::Real));
    all.extend(MORE.map(|(name, kind)| (name.to_owned(), kind)));
    if all.iter().all(|(name, _)| *name != figure.column) {
        // Percentiles are whole numbers, means and rates are not.
        let kind = if figure.percentile.is_some() { Kind::Whole } else { Kind::Real };
        all.push((figure.column.clone(), kind));
    }
    Columns(all)
}

/// A row by the names of its columns.
struct Fields<'a> {
    columns: &'a Columns,
    row: &'a Row,
    figure: &'a Figure,
}

impl Fields<'_> {
    fn cell(&self, name: &str) -> &Cell {
        let at = self.columns.0.iter().position(|(known, _)| known == name);
        at.and_then(|at| self.row.get(at)).unwrap_or(&Cell::Empty)
    }

    fn text(&self, name: &str) -> Option<&str> {
        if let Cell::Text(text) = self.cell(name) { Some(text) } else { None }
    }

    fn whole(&self, name: &str) -> Option<i64> {
        if let Cell::Whole(number) = self.cell(name) { Some(*number) } else { None }
    }

    /// A number that has a logarithm.
    fn positive(&self, name: &str) -> Option<f64> {
        let number = match self.cell(name) {
            Cell::Whole(number) => *number as f64,
            Cell::Real(number) => *number,
            _ => return None,
        };
        (number > 0.0 && number.is_finite()).then_some(number)
    }

    /// A percentile, if there are requests enough for it.
    fn percentile(&self, column: &str, class: &str, name: &str) -> Option<f64> {
        let requests = self.whole(&format!("{class}_requests")).unwrap_or(0).unsigned_abs();
        self.positive(column).filter(|_| supports_percentile(requests, name))
    }

    fn setting(&self) -> String {
        let depth = self.whole("depth").map_or(String::new(), |depth| format!(", depth {depth}"));
        let [pacing, map] = ["pacing", "map"].map(|name| self.text(name).unwrap_or_default());
        format!("pacing {pacing}, addresses {map}{depth}")
    }

    fn run(&self, context: u32, candidate: u32, is_pair: bool) -> Run {
        let figure = match self.figure.percentile {
            Some(name) => self.percentile(&self.figure.column, self.figure.class, name),
            None => self.positive(&self.figure.column),
        };
        let sum = |names: [&str; 2]| {
            let sum: f64 = names.iter().filter_map(|name| self.positive(name)).sum();
            (sum > 0.0).then_some(sum)
        };
        let alone = [self.positive("read_response_mean_ns"), self.positive("all_iops")];
        let vm = [self.positive("vm_read_response_mean_ns"), sum(["vm_read_iops", "vm_write_iops"])];
        let beside = [self.positive("beside_read_response_mean_ns"), sum(["beside_read_iops", "beside_write_iops"])];
        Run {
            context,
            candidate,
            figure,
            throughput: self.positive("all_iops"),
            p99_read: self.percentile("read_response_p99_ns", "read", P99),
            span_ns: self.whole("span_ns").unwrap_or_default(),
            vms: if is_pair { [vm, beside] } else { [alone, [None; 2]] },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absolute_folder_that_all_traces_lie_in_is_not_told() {
        let cut =
            |paths: &[&str]| without_common_folder(&paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>());
        assert_eq!(cut(&["/home/eve/a/x.parquet", "/home/eve/ab/x.parquet"]), ["a/x.parquet", "ab/x.parquet"]);
        assert_eq!(cut(&["/home/eve/x.parquet"]), ["x.parquet"]);
        assert_eq!(cut(&["/home/x", "/data/x"]), ["home/x", "data/x"]);
        assert_eq!(cut(&["a/x", "a/y", "/b/z"]), ["a/x", "a/y", "/b/z"]);
        assert_eq!(cut(&["a/x", "a/y"]), ["a/x", "a/y"]);
        assert_eq!(cut(&[]), [""; 0]);
    }
}
