//! What people read: tables and sentences as text, fitted to the terminal, or as Markdown; messages on standard error.
//!
//! Names in them may come from anyone who could run a process or name a file on a recorded host. So everything that is
//! printed passes [`traces::printable`] here, and Markdown loses its meaning in cells and sentences.

use std::borrow::Cow;
use std::io::{self, Write};
use std::ops::Range;

use anyhow::{Context, Result};
use chrono::{DateTime, SecondsFormat};
use comfy_table::{CellAlignment, ContentArrangement, Table as TextTable, presets};
use serde::Serialize;
use traces::WriteError;
use traces::error::WriteProblem;
use traces::printable::{printable, printable_json, printable_lines, printable_markdown};

use crate::output_format::OutputFormat;
use crate::units::ABSENT;

/// A table with a title.
#[derive(Debug)]
pub struct Table {
    pub title: String,
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// How many leading columns are text; the others are numbers and aligned to the right.
    pub text_columns: usize,
}

/// Columns that a cell takes beside its text: a border, and a space on either side.
const AROUND_CELL: usize = 3;

impl Table {
    /// Renders the table as text no wider than the terminal. Columns that do not fit follow below, after the text
    /// columns again.
    pub fn render(&self, format: OutputFormat) -> String {
        self.render_within(format, width())
    }

    /// Renders like [`Table::render`], for a terminal of `width` columns.
    pub fn render_within(&self, format: OutputFormat, width: usize) -> String {
        self.escaped(format).render_escaped(format, width)
    }

    /// Renders like [`Table::render_within`], with text cells and the headings of numbers broken between words so that
    /// they have at most so many columns. Markdown breaks nothing.
    pub fn render_broken(&self, format: OutputFormat, width: usize, text_max: usize, heading_max: usize) -> String {
        let mut table = self.escaped(format);
        if format != OutputFormat::Markdown {
            let broken = |cell: &mut String, max| *cell = wrapped(cell, max).trim_end().to_owned();
            table
                .rows
                .iter_mut()
                .flat_map(|row| row.iter_mut().take(self.text_columns))
                .for_each(|cell| broken(cell, text_max));
            table.header.iter_mut().skip(self.text_columns).for_each(|cell| broken(cell, heading_max));
        }
        table.render_escaped(format, width)
    }

    /// The table with texts that are safe to show and break no line and no cell.
    fn escaped(&self, format: OutputFormat) -> Table {
        let cells = |row: &Vec<String>| row.iter().map(|cell| line(cell, format)).collect();
        Table {
            title: line(&self.title, format),
            header: cells(&self.header),
            rows: self.rows.iter().map(cells).collect(),
            text_columns: self.text_columns,
        }
    }

    fn render_escaped(&self, format: OutputFormat, width: usize) -> String {
        if format == OutputFormat::Markdown {
            let mut table = self.of_columns(&(0..self.header.len()).collect::<Vec<usize>>());
            table.load_style(presets::ASCII_MARKDOWN);
            return format!("### {}\n\n{}\n", self.title, table.trim_fmt());
        }
        let mut text = wrapped(&self.title, width);
        for numbers in self.parts(width) {
            let mut table = self.of_columns(&(0..self.text_columns).chain(numbers).collect::<Vec<usize>>());
            table.load_style(presets::UTF8_FULL_CONDENSED);
            table.set_content_arrangement(ContentArrangement::Dynamic);
            if let Ok(width) = u16::try_from(width) {
                table.set_width(width);
            }
            text.push_str(&format!("{}\n", table.trim_fmt()));
        }
        text
    }

    /// The number columns in runs that fit `width` beside the text columns. A column that is too wide stands alone.
    fn parts(&self, width: usize) -> Vec<Range<usize>> {
        let of_column = |column: usize| {
            let cells = self.rows.iter().chain([&self.header]).filter_map(|row| row.get(column));
            let lines = cells.flat_map(|cell| cell.lines());
            lines.map(|line| line.chars().count()).max().unwrap_or(0) + AROUND_CELL
        };
        let text = 1 + (0..self.text_columns).map(of_column).sum::<usize>();
        let mut parts = Vec::new();
        let (mut begin, mut taken) = (self.text_columns, text);
        for column in self.text_columns..self.header.len() {
            let more = of_column(column);
            if taken + more > width && column > begin {
                parts.push(begin..column);
                (begin, taken) = (column, text);
            }
            taken += more;
        }
        parts.push(begin..self.header.len());
        parts
    }

    fn of_columns(&self, columns: &[usize]) -> TextTable {
        let cells = |row: &Vec<String>| -> Vec<String> {
            columns.iter().map(|&column| row.get(column).cloned().unwrap_or_default()).collect()
        };
        let mut table = TextTable::new();
        table.set_header(cells(&self.header));
        table.add_rows(self.rows.iter().map(cells));
        for column in table.column_iter_mut().skip(self.text_columns) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }
}

/// The width of the terminal in columns. Where standard output is no terminal, or one that does not know its width (a
/// serial line), it is the width that the environment variable COLUMNS states; `None` if it states none.
pub fn terminal_width() -> Option<u16> {
    let stated = || std::env::var("COLUMNS").ok()?.parse().ok();
    let known = |width: &u16| *width > 0;
    TextTable::new().width().filter(known).or_else(|| stated().filter(known))
}

/// The width of text that is printed: that of [`terminal_width`], or [`PIPE_WIDTH`] where it is not known.
pub fn width() -> usize {
    terminal_width().map_or(PIPE_WIDTH, usize::from)
}

/// The width of text in columns if nothing states another.
const PIPE_WIDTH: usize = 120;

/// `text` in lines of at most `width` columns, broken between words; a longer word has a line of its own.
pub fn wrapped(text: &str, width: usize) -> String {
    let mut lines = String::new();
    let mut taken = 0;
    for word in text.split_whitespace() {
        let columns = word.chars().count();
        if taken > 0 && taken + 1 + columns > width {
            lines.push('\n');
            taken = 0;
        } else if taken > 0 {
            lines.push(' ');
            taken += 1;
        }
        lines.push_str(word);
        taken += columns;
    }
    lines.push('\n');
    lines
}

/// `text` in one line that is safe to show; in Markdown, nothing in it is markup.
pub fn line(text: &str, format: OutputFormat) -> String {
    match format {
        OutputFormat::Markdown => printable_markdown(text),
        _ => printable(text).into_owned(),
    }
}

/// `text` as lines of a paragraph: one in Markdown, else as many as the terminal's width asks for.
pub fn sentence(text: &str, format: OutputFormat) -> String {
    match format {
        OutputFormat::Markdown => format!("{}\n", line(text, format)),
        _ => wrapped(&line(text, format), width()),
    }
}

/// States the files that were written, below a table; nothing in other formats or without files.
pub fn written(files: &[String], format: OutputFormat) -> String {
    if files.is_empty() || format != OutputFormat::Table {
        return String::new();
    }
    format!("\n{}", sentence(&format!("Written: {}", files.join(", ")), format))
}

/// Prints to standard output, with escapes for characters that a terminal obeys or hides.
///
/// # Errors
/// An error of the operating system, such as a closed pipe.
pub fn print(text: &str) -> Result<()> {
    print_as_it_is(&printable_lines(text))
}

/// A message as it is printed on standard error. It may have several lines, but a name in it cannot begin a line as if
/// it were a message of its own: all lines but the first are indented.
pub fn message(text: &str) -> Cow<'_, str> {
    match printable_lines(text) {
        lines if lines.lines().skip(1).all(|line| line.is_empty() || line.starts_with(' ')) => lines,
        lines => Cow::Owned(lines.replace('\n', "\n  ")),
    }
}

/// Prints text of the program itself to standard output.
///
/// # Errors
/// As [`print()`].
pub fn print_as_it_is(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("standard output")
}

/// Prints as indented JSON.
///
/// # Errors
/// As [`print()`].
pub fn print_json(value: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    print_as_it_is(&printable_json(&text))
}

/// Whether the error is a closed pipe on standard output, as with `iocast … | head`.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let written = error.downcast_ref::<WriteError>().and_then(|error| match &error.problem {
        WriteProblem::Io(error) => Some(error),
        _ => None,
    });
    let closed = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    error.downcast_ref::<io::Error>().or(written).is_some_and(closed)
}

/// A time since 1970 as a date in UTC, to the second.
pub fn date(unix_ns: i64) -> String {
    DateTime::from_timestamp_nanos(unix_ns).to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// A count with its noun.
pub fn counted(count: u64, one: &str, several: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {several}") }
}

/// A number with decimals that suit its size; [`ABSENT`] if there is none.
pub fn number(value: Option<f64>) -> String {
    match value {
        None => ABSENT.to_owned(),
        Some(value) if value.abs() >= 1000.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 100.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_of_utc() {
        assert_eq!(date(0), "1970-01-01T00:00:00Z");
        assert_eq!(date(1_795_325_207_999_999_999), "2026-11-22T05:26:47Z");
        assert_eq!(date(-1), "1969-12-31T23:59:59Z");
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrapped("a line  of five words", 9), "a line of\nfive\nwords\n");
        assert_eq!(wrapped("extraordinarily so", 5), "extraordinarily\nso\n");
        assert_eq!(wrapped("one line", usize::MAX), "one line\n");
        assert_eq!(wrapped("", 5), "\n");
    }

    #[test]
    fn columns_that_do_not_fit_stand_below() {
        let row = |cells: [&str; 5]| cells.map(str::to_owned).to_vec();
        let table = Table {
            title: "Reads".to_owned(),
            header: row(["", "fifo", "sstf", "deadline", "a-scheduler-with-a-long-name"]),
            rows: vec![row(["mean", "1", "2", "3", "4"])],
            text_columns: 1,
        };
        let begins = |table: &Table, width| {
            let parts = table.parts(width);
            assert!(parts.windows(2).all(|two| two[0].end == two[1].start));
            assert_eq!(parts.last().unwrap().end, 5);
            parts.iter().map(|part| part.start).collect::<Vec<usize>>()
        };
        assert_eq!(begins(&table, usize::MAX), [1]);
        // 8 of the text with its outer border, 7, 7, 11 and 31.
        assert_eq!(begins(&table, 64), [1]);
        assert_eq!(begins(&table, 63), [1, 4]);
        assert_eq!(begins(&table, 32), [1, 3, 4]);
        assert_eq!(begins(&table, 1), [1, 2, 3, 4]);
        let words = Table { text_columns: 5, ..table };
        assert_eq!(begins(&words, 20), [5]);
    }
}
