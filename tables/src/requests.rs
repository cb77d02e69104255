//! The rows that tables are made of, from files of `iocast compare --per-request` and from captures.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use polars::prelude::*;
use traces::formats::parquet::ParquetReader as CaptureReader;
use traces::results::requests::{VERSION, VERSION_KEY, column_names};
use traces::trace::{ReadOptions, TraceReader as _};
use traces::{Operation, TraceMeta};

use crate::arguments::UsageError;
use crate::query::did_you_mean;

/// The key that only captures have.
const TRACE_KEY: &str = "iocast.trace";
/// What stands in the place of a scheduler for requests of a capture.
const RECORDED: &str = "recorded";
/// The column that several files are told apart by.
pub const FILE: &str = "file";

/// The rows of all files.
pub struct Requests {
    pub rows: LazyFrame,
    /// The names of their columns.
    pub columns: Vec<String>,
    /// The columns whose values are never mixed: the scheduler, and the file if there are several.
    pub run: Vec<&'static str>,
}

impl Requests {
    /// Opens the files. With several, a column [`FILE`] has each one's path.
    ///
    /// # Errors
    /// A file that cannot be read, is no Parquet, or has no requests of iocast.
    pub fn open(paths: &[PathBuf]) -> Result<Requests> {
        let several = paths.len() > 1;
        let mut parts = Vec::new();
        for path in paths {
            let rows = open(path).with_context(|| path.display().to_string())?;
            let file = lit(path.display().to_string()).alias(FILE);
            parts.push(if several { rows.with_columns([file]) } else { rows });
        }
        let rows = if several { concat(parts, UnionArgs::default())? } else { parts.swap_remove(0) };
        let names = column_names().map(str::to_owned);
        let columns = names.chain(several.then(|| FILE.to_owned())).collect();
        let run = if several { vec![FILE, "scheduler"] } else { vec!["scheduler"] };
        Ok(Requests { rows, columns, run })
    }

    /// # Errors
    /// A column that does not exist, with the nearest names.
    pub fn check_column(&self, name: &str) -> Result<()> {
        if self.columns.iter().any(|column| column == name) { Ok(()) } else { Err(self.unknown_column(name)) }
    }

    /// The error of a column that does not exist.
    pub fn unknown_column(&self, name: &str) -> anyhow::Error {
        let known: Vec<&str> = self.columns.iter().map(String::as_str).collect();
        let near = did_you_mean(name, &known);
        UsageError(format!("no column is called `{name}`{near}; there are {}", known.join(", "))).into()
    }
}

/// The rows of one file.
fn open(path: &Path) -> Result<LazyFrame> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    ensure!(metadata.is_file(), "it is no file");
    ensure!(metadata.len() > 0, "the file is empty");
    let mut reader = ParquetReader::new(file);
    let Ok(footer) = reader.get_metadata().cloned() else {
        bail!("it is no Parquet file, or not whole; `iocast compare --per-request` writes one");
    };
    let keys: BTreeMap<&str, Option<&str>> =
        footer.key_value_metadata().iter().flatten().map(|pair| (pair.key.as_str(), pair.value.as_deref())).collect();
    if let Some(version) = keys.get(VERSION_KEY) {
        let version = version.unwrap_or_default();
        ensure!(
            version == VERSION,
            "its rows have version {version} of their form, and this program reads {VERSION}; make it again"
        );
    }
    if keys.contains_key(TRACE_KEY) {
        let reader = CaptureReader::open(path, &ReadOptions::default())?;
        return capture(scan(path)?, reader.meta());
    }
    let schema = reader.schema()?;
    let missing: Vec<&str> = column_names().filter(|name| !schema.contains(name)).collect();
    ensure!(
        missing.is_empty(),
        "it has no requests of iocast: the columns {} are missing; `iocast compare --per-request` writes them",
        missing.join(", ")
    );
    Ok(scan(path)?.select(column_names().map(col).collect::<Vec<Expr>>()))
}

fn scan(path: &Path) -> Result<LazyFrame> {
    // An absolute path is never taken for a pattern or an address of a cloud.
    let path = PlRefPath::try_from_pathbuf(path.canonicalize()?)?;
    Ok(LazyFrame::scan_parquet(path, ScanArgsParquet { glob: false, cache: false, ..ScanArgsParquet::default() })?)
}

/// The rows of a capture, with the columns of the table of requests.
fn capture(rows: LazyFrame, meta: &TraceMeta) -> Result<LazyFrame> {
    let rows = rows.with_row_index("number", None);
    let vms = meta.vms.iter().enumerate().map(|(number, name)| (number as u32, name.as_str()));
    let rows = named(rows, "vm", "vm_name", vms.collect())?;
    let streams = meta.streams.iter().map(|(&number, name)| (number, name.as_str()));
    let rows = named(rows, "stream", "process", streams.collect())?;
    let is = |operation: Operation| col("operation").eq(lit(operation as u8));
    let operation = Operation::ALL.into_iter().fold(lit(NULL).cast(DataType::String), |others, operation| {
        when(is(operation)).then(lit(operation.name())).otherwise(others)
    });
    let since = |later: &str, earlier: &str| {
        let span = when(col(later).gt_eq(col(earlier))).then(col(later) - col(earlier));
        span.otherwise(lit(NULL))
    };
    // Sync, forced unit access or pre-flush, as Request::is_sync has it.
    let is_marked = col("flags").and(lit(7_u8)).neq(lit(0_u8));
    let absent = |dtype: DataType| lit(NULL).cast(dtype);
    let columns = column_names().map(|name| {
        let column = match name {
            "scheduler" => lit(RECORDED),
            "drive" => absent(DataType::String),
            "vm" => col("vm_name"),
            "number" => col("number").cast(DataType::UInt64),
            "operation" => operation.clone(),
            "is_sync" => is(Operation::Read).or(is_marked.clone()),
            "dispatched_ns" | "started_ns" | "seek_sectors" => absent(DataType::UInt64),
            "response_ns" => since("completed_ns", "arrival_ns"),
            "device_ns" => since("completed_ns", "issued_ns"),
            "cache_hit" => absent(DataType::Boolean),
            "all_active" => lit(true),
            same => col(same),
        };
        column.alias(name)
    });
    Ok(rows.select(columns.collect::<Vec<Expr>>()))
}

/// `rows` with a further column of the names that the numbers in `column` stand for.
fn named(rows: LazyFrame, column: &str, into: &str, names: Vec<(u32, &str)>) -> Result<LazyFrame> {
    if names.is_empty() {
        return Ok(rows.with_columns([lit(NULL).cast(DataType::String).alias(into)]));
    }
    let (numbers, texts): (Vec<u32>, Vec<&str>) = names.into_iter().unzip();
    let table = df!("name_of" => numbers, into => texts)?.lazy();
    let key = col(column).cast(DataType::UInt32);
    Ok(rows.join(table, [key], [col("name_of")], JoinArgs::new(JoinType::Left)))
}
