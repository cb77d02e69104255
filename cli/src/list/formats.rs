//! The trace formats in `iocast list`.

use anyhow::Result;
use serde::Serialize;
use traces::Timestamp;
use traces::formats::{FORMATS, IMPOSSIBLE_PERCENT_MAX};

use super::chosen;
use crate::arguments::List;
use crate::output::{Table, print, print_json, terminal_width};
use crate::output_format::OutputFormat;

/// A trace format.
#[derive(Serialize)]
struct ListedFormat {
    name: &'static str,
    summary: &'static str,
    /// Whether the format is written as well as read.
    written: bool,
    extensions: &'static [&'static str],
    units: &'static str,
    /// The layer at which its traces are usually recorded.
    layer: &'static str,
    traps: &'static str,
}

/// Prints the formats as paragraphs, because their texts are too long for a table.
pub fn run(arguments: &List) -> Result<()> {
    let listed = |format: &traces::formats::Format| ListedFormat {
        name: format.name,
        summary: format.summary,
        written: format.create.is_some(),
        extensions: format.extensions,
        units: format.units,
        layer: format.layer.name(),
        traps: format.traps,
    };
    let formats = chosen(FORMATS.iter().map(listed).collect(), arguments, |format: &ListedFormat| format.name)?;
    match arguments.output_format {
        OutputFormat::Json => print_json(&formats),
        OutputFormat::Markdown => print(&format!("{}\n{}\n", markdown(&formats), rules())),
        OutputFormat::Table => {
            let width = usize::from(terminal_width().unwrap_or(WIDTH)).min(WIDTH_MAX);
            let blocks: Vec<String> = formats.iter().map(|format| block(format, width)).collect();
            print(&format!("Trace formats\n\n{}\n{}", blocks.join("\n"), wrapped(String::new(), 0, &rules(), width)))
        }
    }
}

/// The rules that hold for traces of every format.
fn rules() -> String {
    format!(
        "Of every format: times are at most {} after the zero of the trace. If more than {IMPOSSIBLE_PERCENT_MAX} % of \
         the requests have times in an impossible order (completed before issued, say), that is an error; with \
         --lenient, and up to {IMPOSSIBLE_PERCENT_MAX} %, they are counted, and the times between such events are left \
         out. A trace of which no request can be read is an error, also with --lenient.",
        Timestamp::TRACE_MAX_TEXT
    )
}

/// Width of the text without a terminal, and the greatest width with one, in columns.
const WIDTH: u16 = 80;
const WIDTH_MAX: usize = 110;
/// The column at which the text beside a heading begins.
const INDENT: usize = 10;

fn access(format: &ListedFormat) -> String {
    let endings: Vec<String> = format.extensions.iter().map(|extension| format!(".{extension}")).collect();
    match (format.written, endings.is_empty()) {
        (true, false) => format!("read and written ({})", endings.join(", ")),
        (true, true) => "read and written".to_owned(),
        (false, _) => "read".to_owned(),
    }
}

/// The paragraphs of a format, in lines of at most `width` columns.
fn block(format: &ListedFormat, width: usize) -> String {
    let mut text = format!("{}: {}\n", format.name, access(format));
    let paragraphs = [("", format.summary), ("units", format.units), ("layer", format.layer), ("traps", format.traps)];
    for (heading, paragraph) in paragraphs {
        let indent = if heading.is_empty() { 2 } else { INDENT };
        let mut line = format!("  {heading}");
        line.push_str(&" ".repeat(indent - line.len()));
        text.push_str(&wrapped(line, indent, paragraph, width));
    }
    text
}

/// The paragraph behind `line`, in lines of at most `width` columns; all but the first are indented.
fn wrapped(mut line: String, indent: usize, paragraph: &str, width: usize) -> String {
    let mut text = String::new();
    let mut fresh = true;
    for word in paragraph.split_whitespace() {
        if !fresh && line.chars().count() + 1 + word.chars().count() > width {
            text.push_str(&line);
            text.push('\n');
            line = " ".repeat(indent);
            fresh = true;
        }
        if !fresh {
            line.push(' ');
        }
        line.push_str(word);
        fresh = false;
    }
    text.push_str(&line);
    text.push('\n');
    text
}

fn markdown(formats: &[ListedFormat]) -> String {
    let row = |format: &ListedFormat| {
        let cells = [format.name, format.summary, &access(format), format.units, format.layer, format.traps];
        cells.map(str::to_owned).to_vec()
    };
    let header = ["name", "description", "access", "units", "usual layer", "traps"].map(str::to_owned).to_vec();
    let title = "Trace formats".to_owned();
    let rows = formats.iter().map(row).collect();
    Table { title, header, rows, text_columns: 6 }.render(OutputFormat::Markdown)
}
