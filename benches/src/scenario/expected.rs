//! The tables `[[scheduler]]` of a scenario: a scheduler with the figures expected of it, each with its line.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};
use traces::described::line_of;
use traces::quantity::parse_thousandths;
use traces::spec::nearest;

use super::ExpectedFigure;

/// The bytes of a text that an error is about, and the error.
pub(super) type Problem = (Range<usize>, String);

/// A table as it is written.
#[derive(Debug)]
pub(super) struct Table {
    pub spec: String,
    /// Where the spec stands, or the table if it has none.
    pub at: Range<usize>,
    /// The drive and where it stands, if the scheduler has one of its own.
    pub drive: Option<Spanned<String>>,
    pub tolerance: u64,
    pub figures: Vec<ExpectedFigure>,
    pub reason: String,
}

/// The keys that are no figures.
const KEYS: [&str; 4] = ["spec", "drive", "tolerance", "reason"];

/// Reads the tables of a scenario that is known to be TOML with an array of tables of this name. A figure is one of
/// `known`, and has a value for each of so many `seeds`.
///
/// # Errors
/// The first mistake, with its place in the text.
pub(super) fn read(text: &str, known: &[String], seeds: usize) -> Result<Vec<Table>, Problem> {
    let file = DeTable::parse(text).map_err(|error| (error.span().unwrap_or(0..0), error.message().to_owned()))?;
    let tables = file.get_ref().iter().find(|(key, _)| key.get_ref() == "scheduler");
    let tables = tables.and_then(|(_, value)| value.get_ref().as_array()).into_iter().flat_map(|array| array.iter());
    tables
        .map(|table| match table.get_ref() {
            DeValue::Table(table_of) => Reading { text, known, seeds }.table(table_of, table.span()),
            _ => Err((table.span(), "a scheduler is a table [[scheduler]]".to_owned())),
        })
        .collect()
}

struct Reading<'a> {
    text: &'a str,
    known: &'a [String],
    seeds: usize,
}

impl Reading<'_> {
    fn table(&self, table: &DeTable<'_>, at: Range<usize>) -> Result<Table, Problem> {
        let (spec, reason) = (String::new(), String::new());
        let mut read = Table { spec, at, drive: None, tolerance: 0, figures: Vec::new(), reason };
        for (key, value) in table {
            let (name, span) = (key.get_ref().as_ref(), value.span());
            match (name, value.get_ref()) {
                ("spec", DeValue::String(spec)) => (read.spec, read.at) = (spec.to_string(), span),
                ("drive", DeValue::String(drive)) => read.drive = Some(Spanned::new(span, drive.to_string())),
                ("reason", DeValue::String(reason)) => read.reason = reason.trim().to_owned(),
                ("tolerance", DeValue::String(share)) => {
                    read.tolerance = percent(share).ok_or_else(|| (span, PERCENT.to_owned()))?;
                }
                (name, _) if KEYS.contains(&name) => return Err((span, format!("`{name}` is a text"))),
                (vm, DeValue::Table(of_vm)) => {
                    for (figure, value) in of_vm {
                        let name = format!("{vm}.{}", figure.get_ref());
                        read.figures.push(self.figure(name, figure.span(), value.get_ref())?);
                    }
                }
                (name, value) => read.figures.push(self.figure(name.to_owned(), key.span(), value)?),
            }
        }
        read.figures.sort_by_key(|figure| figure.line);
        if read.spec.is_empty() {
            return Err((read.at, "a scheduler needs a `spec`, as --schedulers takes it".to_owned()));
        }
        if read.reason.is_empty() && !read.figures.is_empty() {
            let problem = format!("the figures of `{}` need a `reason`: why are they what they are?", read.spec);
            return Err((read.at, problem));
        }
        Ok(read)
    }

    fn figure(&self, name: String, at: Range<usize>, value: &DeValue<'_>) -> Result<ExpectedFigure, Problem> {
        if !self.known.contains(&name) {
            return Err((at, unknown_figure(&name, self.known)));
        }
        let by_seed: Option<Vec<u64>> = match value {
            DeValue::Integer(value) => whole(value).map(|value| vec![value]),
            DeValue::Array(values) => values.iter().map(|value| whole(value.get_ref().as_integer()?)).collect(),
            _ => None,
        };
        let seeds = self.seeds;
        let line = line_of(self.text, at.start);
        match by_seed {
            Some(by_seed) if by_seed.len() == seeds => Ok(ExpectedFigure { name, by_seed, line }),
            _ if seeds == 1 => Err((at, format!("`{name}` is a whole number"))),
            _ => Err((at, format!("`{name}` is a list of {seeds} whole numbers, one for each seed"))),
        }
    }
}

/// The message for a figure that there is not.
pub(super) fn unknown_figure(name: &str, known: &[String]) -> String {
    let near = match nearest(name, known.iter().map(String::as_str)) {
        near if near.is_empty() => known.to_vec(),
        near => near,
    };
    format!("there is no figure `{name}`; did you mean {}?", near.join(", "))
}

const PERCENT: &str = "a tolerance is a text such as \"2%\" or \"0.5%\", of at most three places";

/// A share in thousandths of a percent.
fn percent(text: &str) -> Option<u64> {
    parse_thousandths(text.strip_suffix('%')?).ok()
}

fn whole(value: &DeInteger<'_>) -> Option<u64> {
    u64::from_str_radix(value.as_str(), value.radix()).ok()
}
