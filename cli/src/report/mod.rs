//! `iocast report`: one HTML file from a result; tables of requests.

mod kinds;
mod sweep;
mod tables;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use capture::lab::RESULTS_FILE;
use report::{Drawing as _, Page, Size};
use serde_json::Value;
use traces::formats;
use traces::results::{Comparison, SCHEMA_VERSION};
use traces::trace::ReadOptions;
use traces::whole_file::write_whole;

pub use kinds::kind_of;

use crate::arguments::{OnlyReport, Report, ReportFile};
use crate::compare::answer;
use crate::error::UsageError;
use crate::files::{refuse_existing, try_writing};
use crate::interrupts::remove_unfinished_outputs;
use crate::output::{counted, print, written};
use crate::output_format::OutputFormat;
use crate::replay::tables::lines;
use crate::sweep::folder::of_sweep;
use crate::tune::{FIRST_ROUND, TUNING_FILE};

/// The size of figures in pixels.
const FIGURE: Size = Size { width: 900, height: 560 };
/// The longest title in a file's name.
const NAME_MAX: usize = 80;

/// Runs the subcommand.
///
/// # Errors
/// A result that cannot be read or is of another kind or version; a file that cannot be written.
pub fn run(arguments: &Report) -> Result<()> {
    if arguments.table.is_wanted() {
        return tables::run(arguments);
    }
    let [result] = arguments.inputs.as_slice() else {
        bail!(UsageError("a report is made of one result; several files are for --table, --by or --sql".to_owned()));
    };
    remove_unfinished_outputs()?;
    let outputs = Outputs::planned(arguments.output.as_deref(), arguments.figures.as_deref(), arguments.force)?;
    let page = match of_sweep(result) {
        Some(folder) => sweep::page(folder, arguments.figure.as_deref())?,
        None => {
            let without_effect = "--for has an effect on the folder of a sweep only";
            ensure!(arguments.figure.is_none(), UsageError(without_effect.to_owned()));
            of_stored(result)?
        }
    };
    let mut names = Vec::new();
    outputs.write(|| Ok(page), &mut names)?;
    print(written(&names, OutputFormat::Table).trim_start())
}

/// The page of a result: its answer, and of a replay on a device whether it is faithful.
pub fn page(comparison: &Comparison) -> Page {
    let on_devices = comparison.runs.iter().filter_map(|run| Some((run, run.live.as_ref()?)));
    let notes: Vec<String> = on_devices.flat_map(|(run, live)| lines(comparison, run, live)).collect();
    Page::of_comparison(comparison, &answer::lines(comparison), &notes)
}

/// The stored result in the folder of a lab or of a tuning.
fn result_in(folder: &Path) -> Result<PathBuf> {
    let known = [RESULTS_FILE, TUNING_FILE].map(|name| folder.join(name));
    if let Some(path) = known.into_iter().find(|path| path.is_file()) {
        return Ok(path);
    }
    let says = match folder.join(FIRST_ROUND).is_dir() {
        true => "its tuning has not ended; repeat the command of `iocast tune`, which goes on",
        false => {
            "it is not the folder of a sweep, a lab or a tuning; give the folder that `--out` named, or the file of a \
             result"
        }
    };
    bail!(UsageError(format!("{}: {says}", folder.display())))
}

/// The report of the stored result at `path`, or of the lab or tuning in the folder at `path`.
fn of_stored(path: &Path) -> Result<Page> {
    let path = &if path.is_dir() { result_in(path)? } else { path.to_owned() };
    let name = || path.display().to_string();
    let parsed = traces::read_text(path).map_err(anyhow::Error::from).and_then(|text| {
        serde_json::from_str::<Value>(&text).context("it is no JSON; `--output-format json` prints it")
    });
    let value = match parsed {
        Err(_) if formats::recognise(path, &ReadOptions::default()).is_ok() => {
            let path = path.display();
            let error = format!(
                "{path} is a trace; `iocast stat {path} --report FILE.html` makes a report of it, `iocast compare` one of \
                 its replays, and `iocast report {path} --table responses` a table if it is Parquet"
            );
            bail!(UsageError(error));
        }
        parsed => parsed.with_context(name)?,
    };
    let version = value.get("schema_version").and_then(Value::as_u64);
    let Some(version) = version else {
        bail!("{}: it is no result of iocast; `--output-format json` prints one", path.display())
    };
    ensure!(
        version == u64::from(SCHEMA_VERSION),
        "{}: it has version {version} of the results' form, and this program reads {SCHEMA_VERSION}; make it again",
        path.display()
    );
    if let Some((place, count)) = beyond_counts(&value, "") {
        bail!("{}: {place} is {count}, and no count is above {COUNT_MAX}", path.display());
    }
    let Some(kind) = kind_of(&value) else {
        let kinds: BTreeSet<&str> = kinds::KINDS.iter().map(|kind| kind.name).collect();
        let kinds = kinds.into_iter().collect::<Vec<&str>>().join(", ");
        bail!(UsageError(format!("{}: it is another result than those that have reports: {kinds}", path.display())));
    };
    kind.page(value).with_context(|| format!("{}: it is no whole result of `{}`", path.display(), kind.name))
}

/// The largest count of a result: up to there every program reads the numbers of JSON exactly, and a report adds counts
/// without overflow.
const COUNT_MAX: u64 = 1 << 53;

/// A number of `value` that is above [`COUNT_MAX`] and neither a seed nor a time, with its place in `value`. `key` is the
/// last one on the way to `value`.
fn beyond_counts(value: &Value, key: &str) -> Option<(String, u64)> {
    let within = |step: &str, (place, count): (String, u64)| (format!("/{step}{place}"), count);
    match value {
        Value::Object(members) => members.iter().find_map(|(key, value)| Some(within(key, beyond_counts(value, key)?))),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(at, value)| Some(within(&at.to_string(), beyond_counts(value, key)?)))
        }
        _ if key.ends_with("_ns") || key.starts_with("seed") => None,
        number => number.as_u64().filter(|count| *count > COUNT_MAX).map(|count| (String::new(), count)),
    }
}

/// The files of a report, which are checked before any work.
pub struct Outputs {
    page: Option<PathBuf>,
    /// The folder of the pictures.
    figures: Option<PathBuf>,
}

impl Outputs {
    /// # Errors
    /// A page that exists, or a folder with anything in it, without `force`; what cannot be written. With `force` the
    /// folder keeps what has other names.
    pub fn planned(page: Option<&Path>, figures: Option<&Path>, force: bool) -> Result<Outputs> {
        if let Some(path) = page {
            if !force {
                refuse_existing(std::slice::from_ref(&path.to_path_buf()), "another file")?;
            }
            try_writing(path, "another file")?;
        }
        if let Some(folder) = figures {
            let named = || folder.display().to_string();
            ensure!(!folder.exists() || folder.is_dir(), UsageError(format!("{} is no folder", named())));
            fs::create_dir_all(folder).with_context(named)?;
            let is_empty = fs::read_dir(folder).with_context(named)?.next().is_none();
            ensure!(
                is_empty || force,
                "{}: it is not empty; add to it with --force, or choose another folder",
                named()
            );
        }
        Ok(Outputs { page: page.map(Path::to_owned), figures: figures.map(Path::to_owned) })
    }

    /// Writes what is asked for, and appends the names to `written`. Without a file, the page is not made.
    ///
    /// # Errors
    /// Those of the page; a file that cannot be written.
    pub fn write(&self, page: impl FnOnce() -> Result<Page>, written: &mut Vec<String>) -> Result<()> {
        if self.page.is_none() && self.figures.is_none() {
            return Ok(());
        }
        let page = page()?;
        if let Some(path) = &self.page {
            write_whole(path, page.html()?.as_bytes())?;
            written.push(path.display().to_string());
        }
        let Some(folder) = &self.figures else { return Ok(()) };
        let mut number = 0;
        let mut add = |title: &str, svg: &str, png: &[u8]| {
            number += 1;
            let stem = format!("{number:02}-{}", as_file_name(title));
            write_whole(&folder.join(format!("{stem}.svg")), svg.as_bytes())?;
            write_whole(&folder.join(format!("{stem}.png")), png)
        };
        for chart in page.charts().filter(|chart| chart.has_marks()) {
            add(&chart.title, &chart.svg(FIGURE)?, &chart.png(FIGURE)?)?;
        }
        for picture in page.pictures() {
            add(&picture.title, &picture.svg, &picture.png)?;
        }
        written.push(match number {
            0 => format!("no figures in {}: this result has no charts", folder.display()),
            _ => format!("{} in {}, each as SVG and PNG", counted(number, "figure", "figures"), folder.display()),
        });
        Ok(())
    }
}

/// A title in small letters, digits and hyphens.
fn as_file_name(title: &str) -> String {
    let words = title.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<String>>().join("-").chars().take(NAME_MAX).collect()
}

impl ReportFile {
    /// Whether a file is asked for.
    pub fn is_written(&self) -> bool {
        self.report.is_some() || self.figures.is_some()
    }

    /// The files that are asked for.
    ///
    /// # Errors
    /// As [`Outputs::planned`].
    pub fn planned(&self, force: bool) -> Result<Outputs> {
        Outputs::planned(self.report.as_deref(), self.figures.as_deref(), force)
    }
}

impl OnlyReport {
    /// The files that are asked for.
    ///
    /// # Errors
    /// As [`Outputs::planned`].
    pub fn planned(&self) -> Result<Outputs> {
        if self.file.is_written() {
            remove_unfinished_outputs()?;
        }
        self.file.planned(self.force)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_plain() {
        assert_eq!(as_file_name("p99 of reads: ../<bfq>/π over time"), "p99-of-reads-bfq-over-time");
        assert_eq!(as_file_name(&"x".repeat(500)).len(), NAME_MAX);
    }
}
