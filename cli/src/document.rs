//! What a result says: sentences and tables in order, which text, Markdown and a report show alike.

use anyhow::Result;
use report::Page;
use report::page::{Cell, Section, Table as PageTable};
use serde::Serialize;

use crate::output::{Table, line, print, print_json, width, wrapped, written};
use crate::output_format::OutputFormat;
use crate::report::Outputs;

/// A part of what a result says.
#[derive(Debug)]
pub enum Block {
    /// A paragraph.
    Sentence(String),
    /// Short facts, one on a line.
    Lines(Vec<String>),
    /// Sentences of our own below a heading: Markdown in them keeps its meaning.
    List { heading: String, items: Vec<String> },
    /// A table.
    Table(Table),
    /// A table whose numbers are percentages, which a report shows as bars, too.
    Shares(Table),
    /// A table whose text cells and headings are broken to these widths in a terminal.
    Broken { table: Table, text_max: usize, heading_max: usize },
}

impl Block {
    pub fn sentence(text: impl Into<String>) -> Block {
        Block::Sentence(text.into())
    }

    fn text(&self, format: OutputFormat, width: usize) -> String {
        let is_markdown = format == OutputFormat::Markdown;
        match self {
            Block::Sentence(text) if is_markdown => format!("{}\n", line(text, format)),
            Block::Sentence(text) => wrapped(&line(text, format), width),
            Block::Lines(lines) => {
                let mark = if is_markdown { "- " } else { "" };
                lines.iter().map(|text| format!("{mark}{}\n", line(text, format))).collect()
            }
            Block::List { heading, items } => {
                let heading = if is_markdown { format!("### {heading}\n") } else { heading.clone() };
                let width = if is_markdown { usize::MAX } else { width };
                let items = items.iter().map(|text| item(&line(text, OutputFormat::Table), width));
                format!("{heading}\n{}", items.collect::<String>())
            }
            Block::Table(table) | Block::Shares(table) => table.render_within(format, width),
            Block::Broken { table, text_max, heading_max } => {
                table.render_broken(format, width, *text_max, *heading_max)
            }
        }
    }
}

/// An item of a list, with further lines indented.
fn item(text: &str, width: usize) -> String {
    let lines = wrapped(text, width.saturating_sub(2).max(1));
    let lines: Vec<&str> = lines.lines().collect();
    format!("- {}\n", lines.join("\n  "))
}

/// The blocks as text of at most `width` columns, or as Markdown.
pub fn text_within(blocks: &[Block], format: OutputFormat, width: usize) -> String {
    blocks.iter().map(|block| block.text(format, width)).collect::<Vec<String>>().join("\n")
}

/// The blocks as text that fits the terminal, or as Markdown.
pub fn text(blocks: &[Block], format: OutputFormat) -> String {
    text_within(blocks, format, width())
}

/// A result for people: printed, or as a report.
#[derive(Debug)]
pub struct Document {
    /// What it is about.
    pub title: String,
    /// What it says. Sentences before the first table are the answer.
    pub blocks: Vec<Block>,
    /// The charts of a report; they stand below its first table.
    pub charts: Vec<Section>,
    /// The program that made it.
    pub program: String,
}

impl Document {
    /// The report.
    pub fn page(&self) -> Page {
        let is_sentence = |block: &&Block| matches!(block, Block::Sentence(_));
        let answers = self.blocks.iter().take_while(is_sentence).count();
        let (answer, rest) = self.blocks.split_at(answers);
        let answer = answer.iter().map(|block| block.text(OutputFormat::Json, usize::MAX).trim_end().to_owned());
        let first = rest.iter().position(|block| block.table().is_some()).map_or(0, |at| at + 1);
        let (first, details) = rest.split_at(first);
        let shown = sections("Figures", first).into_iter().chain(self.charts.iter().cloned());
        Page {
            title: self.title.clone(),
            answer: answer.collect(),
            warnings: Vec::new(),
            sections: shown.chain(sections("Details", details)).collect(),
            program: self.program.clone(),
        }
    }
}

/// The blocks as sections. In a section texts stand before tables, so a text after a table begins a section of its own
/// without a heading.
fn sections(heading: &str, blocks: &[Block]) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for block in blocks {
        let is_new = match (block, sections.last()) {
            (_, None) | (Block::List { .. }, _) => true,
            (Block::Sentence(_) | Block::Lines(_), Some(last)) => !last.tables.is_empty(),
            _ => false,
        };
        if is_new {
            let heading = match block {
                Block::List { heading, .. } => heading.clone(),
                _ if sections.is_empty() => heading.to_owned(),
                _ => String::new(),
            };
            sections.push(Section { heading, ..Section::default() });
        }
        let Some(section) = sections.last_mut() else { continue };
        match block {
            Block::Sentence(text) => section.text.push(text.clone()),
            Block::Lines(lines) | Block::List { items: lines, .. } => section.text.extend_from_slice(lines),
            _ => section.tables.extend(block.table()),
        }
    }
    sections
}

impl Block {
    /// The table of a report, if the block is one.
    fn table(&self) -> Option<PageTable> {
        let (table, has_bars) = match self {
            Block::Table(table) | Block::Broken { table, .. } => (table, false),
            Block::Shares(table) => (table, true),
            Block::Sentence(_) | Block::Lines(_) | Block::List { .. } => return None,
        };
        let cell = |(column, text): (usize, &String)| match column < table.text_columns {
            true => Cell::text(text.clone()),
            false => {
                let share = text.parse::<f64>().ok().filter(|_| has_bars).map(|percent| percent / 100.0);
                Cell::number(text.clone()).with_share(share)
            }
        };
        Some(PageTable {
            caption: table.title.clone(),
            columns: table.header.clone(),
            rows: table.rows.iter().map(|row| row.iter().enumerate().map(cell).collect()).collect(),
        })
    }
}

/// Prints a result in the form that is asked for, and writes its report. Gives the names of files that were `written`
/// before, too.
///
/// # Errors
/// A file that cannot be written, or standard output.
pub fn present(
    result: &impl Serialize,
    document: &Document,
    format: OutputFormat,
    outputs: &Outputs,
    mut files: Vec<String>,
) -> Result<()> {
    outputs.write(|| Ok(document.page()), &mut files)?;
    print_result(result, &document.blocks, format, &files)
}

/// Prints a result in the form that is asked for, and the names of files that were written.
///
/// # Errors
/// Those of standard output.
pub fn print_result(result: &impl Serialize, blocks: &[Block], format: OutputFormat, files: &[String]) -> Result<()> {
    match format {
        OutputFormat::Json => print_json(result),
        format => print(&format!("{}{}", text(blocks, format), written(files, format))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(title: &str, cells: [&str; 2]) -> Table {
        Table {
            title: title.to_owned(),
            header: ["VM", "kept, %"].map(str::to_owned).to_vec(),
            rows: vec![cells.map(str::to_owned).to_vec()],
            text_columns: 1,
        }
    }

    #[test]
    fn sentences_before_the_first_table_are_the_answer_of_a_report_and_the_rest_keeps_its_order() {
        let blocks = vec![
            Block::sentence("web slows down."),
            Block::Table(table("Assignment", ["a", "50"])),
            Block::Shares(table("Interference", ["b", "25"])),
            Block::sentence("A note."),
            Block::List { heading: "Statements".to_owned(), items: vec!["one".to_owned(), "two".to_owned()] },
        ];
        let charts = vec![Section { heading: "Charts".to_owned(), ..Section::default() }];
        let page = Document { title: "VMs".to_owned(), blocks, charts, program: "iocast".to_owned() }.page();
        assert_eq!(page.answer, ["web slows down."]);
        let headings: Vec<&str> = page.sections.iter().map(|section| section.heading.as_str()).collect();
        assert_eq!(headings, ["Figures", "Charts", "Details", "", "Statements"]);
        assert_eq!(page.sections[0].tables[0].rows[0][1].share, None);
        assert_eq!(page.sections[2].tables[0].rows[0][1].share, Some(0.25));
        assert_eq!((page.sections[3].text.len(), page.sections[4].text.len()), (1, 2));
    }

    #[test]
    fn texts_fit_the_terminal_and_are_no_markup() {
        let blocks = [
            Block::sentence("a|b of words"),
            Block::Lines(vec!["one".to_owned(), "two".to_owned()]),
            Block::List { heading: "Statements".to_owned(), items: vec!["five or `more` words".to_owned()] },
        ];
        let text = text_within(&blocks, OutputFormat::Table, 10);
        assert_eq!(text, "a|b of\nwords\n\none\ntwo\n\nStatements\n- five or\n  `more`\n  words\n");
        let markdown = text_within(&blocks, OutputFormat::Markdown, 10);
        assert_eq!(markdown, "a\\|b of words\n\n- one\n- two\n\n### Statements\n\n- five or `more` words\n");
    }
}
