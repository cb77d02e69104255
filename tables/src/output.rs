//! Where a table goes: to standard output as text, or to a file as Parquet, CSV or Markdown.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, anyhow, bail, ensure};
use comfy_table::{CellAlignment, Table, presets};
use polars::io::utils::file::Writable;
use polars::prelude::*;
use traces::WriteError;
use traces::error::WriteProblem;
use traces::printable::{printable, printable_markdown};
use traces::whole_file::WholeFile;

use crate::arguments::UsageError;

/// The most rows of a table as text.
const ROWS_MAX: usize = 1000;
/// Nanoseconds in the unit of printed times.
const NS_PER_MS: f64 = 1e6;

/// How a table is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Parquet,
    Csv,
    Markdown,
}

/// Where a table goes.
pub struct Output(Option<(PathBuf, Form, WholeFile)>);

impl Output {
    /// Checks before any work that the output can be written; without a path it is standard output.
    ///
    /// # Errors
    /// An ending that is not known; a file that exists without `force`, or cannot be written.
    pub fn planned(path: Option<&Path>, force: bool) -> Result<Output> {
        let Some(path) = path else { return Ok(Output(None)) };
        let form = match path.extension().and_then(|ending| ending.to_str()) {
            Some("parquet") => Form::Parquet,
            Some("csv") => Form::Csv,
            Some("md") => Form::Markdown,
            _ => bail!(UsageError(format!("{}: name a file that ends with .parquet, .csv or .md", path.display()))),
        };
        let name = || path.display().to_string();
        ensure!(force || !path.exists(), "{} exists; overwrite it with --force, or choose another file", name());
        if path.is_file() {
            OpenOptions::new().write(true).open(path).with_context(name)?;
        }
        Ok(Output(Some((path.to_owned(), form, WholeFile::create(path)?))))
    }

    /// Runs the query of `table`, and writes its rows.
    ///
    /// # Errors
    /// Files that cannot be read; an output that cannot be written.
    pub fn write(self, table: LazyFrame) -> Result<()> {
        let Some((path, form, mut file)) = self.0 else { return print(table) };
        match form {
            Form::Markdown => {
                let rows = collect(table.limit(ROWS_MAX as u32 + 1))?;
                let most = format!("{}: the table has more than {ROWS_MAX} rows; write it as .csv", path.display());
                ensure!(rows.height() <= ROWS_MAX, UsageError(most));
                let io = |error| WriteError::new(&path, WriteProblem::Io(error));
                file.write_all(text(&rows, true)?.as_bytes()).map_err(io)?;
            }
            Form::Parquet => sink(table, &path, &file, FileWriteFormat::Parquet(Arc::default()))?,
            Form::Csv => sink(table, &path, &file, FileWriteFormat::Csv(CsvWriterOptions::default()))?,
        }
        file.finish()?;
        println(&format!("Written: {}\n", printable(&path.display().to_string())))
    }
}

/// Writes the rows as they come.
fn sink(table: LazyFrame, path: &Path, file: &WholeFile, format: FileWriteFormat) -> Result<()> {
    let name = || path.display().to_string();
    let writable = Writable::Local(file.handle().with_context(name)?);
    let target = SinkTarget::Dyn(SpecialEq::new(Arc::new(Mutex::new(Some(writable)))));
    collect(table.sink(SinkDestination::File { target }, format, UnifiedSinkArgs::default())?).with_context(name)?;
    Ok(())
}

/// The rows of a query, by polars' streaming engine.
///
/// # Errors
/// Files that cannot be read; a value that the query cannot work with.
pub fn collect(query: LazyFrame) -> Result<DataFrame> {
    let answer = query.collect_with_engine(Engine::Streaming).map_err(|error| {
        let text = error.to_string();
        // polars goes on with its plan of the query.
        anyhow!("{}", text.lines().next().unwrap_or_default())
    })?;
    Ok(answer.unwrap_single())
}

fn print(table: LazyFrame) -> Result<()> {
    let rows = collect(table.limit(ROWS_MAX as u32 + 1))?;
    println(&text(&rows.head(Some(ROWS_MAX)), false)?)?;
    if rows.height() > ROWS_MAX {
        let _ =
            writeln!(io::stderr(), "iocast: these are the first {ROWS_MAX} rows; -o FILE.csv or FILE.parquet has all");
    }
    Ok(())
}

fn println(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("standard output")
}

/// Whether the error is a closed pipe on standard output, as with `… | head`.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// The rows as a table for people. Times and spans, the columns that end with `_ns`, are in ms there.
fn text(rows: &DataFrame, is_markdown: bool) -> Result<String> {
    let cell = |text: &str| if is_markdown { printable_markdown(text) } else { printable(text).into_owned() };
    let mut table = Table::new();
    table.load_style(if is_markdown { presets::ASCII_MARKDOWN } else { presets::UTF8_FULL_CONDENSED });
    let names: Vec<&str> = rows.columns().iter().map(|column| column.name().as_str()).collect();
    let heading = |name: &&str| name.strip_suffix("_ns").map_or_else(|| cell(name), |span| cell(&format!("{span}_ms")));
    table.set_header(names.iter().map(heading).collect::<Vec<String>>());
    for row in 0..rows.height() {
        let value = |column: &Column| Ok(cell(&shown(&column.get(row)?, column.name().ends_with("_ns"))));
        table.add_row(rows.columns().iter().map(value).collect::<Result<Vec<String>>>()?);
    }
    for (index, column) in rows.columns().iter().enumerate() {
        if let (true, Some(numbers)) = (column.dtype().is_primitive_numeric(), table.column_mut(index)) {
            numbers.set_cell_alignment(CellAlignment::Right);
        }
    }
    Ok(format!("{}\n", table.trim_fmt()))
}

/// A value as text.
fn shown(value: &AnyValue<'_>, is_ns: bool) -> String {
    match value {
        AnyValue::Null => "–".to_owned(),
        AnyValue::String(text) => (*text).to_owned(),
        AnyValue::StringOwned(text) => text.to_string(),
        value if is_ns && value.is_primitive_numeric() => match value.extract::<f64>() {
            Some(ns) => format!("{:.3}", ns / NS_PER_MS),
            None => value.to_string(),
        },
        AnyValue::Float64(number) => format!("{number:.3}"),
        AnyValue::Float32(number) => format!("{number:.3}"),
        value => value.to_string(),
    }
}
