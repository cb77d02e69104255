//! Tables for people: as text, fitted to the terminal, or as Markdown.

use std::io::{self, Write};

use anyhow::Result;
use comfy_table::{CellAlignment, ContentArrangement, Table as TextTable, presets};
use serde::Serialize;
use traces::WriteError;
use traces::error::WriteProblem;

use crate::arguments::OutputFormat;

/// A table with a title.
pub struct Table {
    pub title: String,
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// How many leading columns are text; the others are numbers and aligned to the right.
    pub text_columns: usize,
}

impl Table {
    pub fn render(&self, format: OutputFormat) -> String {
        let mut table = TextTable::new();
        table.set_header(&self.header);
        table.add_rows(&self.rows);
        for column in table.column_iter_mut().skip(self.text_columns) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        if format == OutputFormat::Markdown {
            table.load_style(presets::ASCII_MARKDOWN);
            return format!("### {}\n\n{}\n", self.title, table.trim_fmt());
        }
        table.load_style(presets::UTF8_FULL_CONDENSED);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        format!("{}\n{}\n", self.title, table.trim_fmt())
    }
}

/// Columns of the terminal that standard output is, `None` if it is none.
pub fn terminal_width() -> Option<u16> {
    TextTable::new().width()
}

/// Prints to standard output.
///
/// # Errors
/// What the operating system says, e.g. that the pipe is closed.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Prints as indented JSON.
///
/// # Errors
/// As [`print()`].
pub fn print_json(value: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    print(&text)
}

/// Whether the error is that nobody reads our output any more, as with `iocast … | head`.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let written = error.downcast_ref::<WriteError>().and_then(|error| match &error.problem {
        WriteProblem::Io(error) => Some(error),
        _ => None,
    });
    let closed = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    error.downcast_ref::<io::Error>().or(written).is_some_and(closed)
}

/// A number with as many decimals as make sense at its size, `-` if there is none.
pub fn number(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value.abs() >= 1000.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 100.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    }
}
