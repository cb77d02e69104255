//! `iocast report`: one HTML file from a result.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use report::Page;
use serde_json::Value;
use traces::results::{Comparison, SCHEMA_VERSION};
use traces::whole_file::{WholeFile, write_whole};

use crate::arguments::{Report, ReportFile};
use crate::compare::answer;
use crate::error::UsageError;
use crate::files::refuse_existing;
use crate::output::{print, written};
use crate::output_format::OutputFormat;

/// Runs the subcommand.
///
/// # Errors
/// A result that cannot be read or is of another kind or version; a file that cannot be written.
pub fn run(arguments: &Report) -> Result<()> {
    let file = HtmlFile::planned(&arguments.output, arguments.force)?;
    let comparison = read(&arguments.result)?;
    let mut names = Vec::new();
    file.write(&Page::of_comparison(&comparison, &answer::lines(&comparison)), &mut names)?;
    print(written(&names, OutputFormat::Table).trim_start())
}

/// The stored result at `path`.
fn read(path: &Path) -> Result<Comparison> {
    let name = || path.display().to_string();
    let text = traces::read_text(path).with_context(name)?;
    let value: Value = serde_json::from_str(&text).with_context(|| format!("{}: it is no JSON", path.display()))?;
    let version = value.get("schema_version").and_then(Value::as_u64);
    let Some(version) = version else {
        bail!("{}: it is no result of iocast; `iocast compare … --output-format json` prints one", path.display())
    };
    ensure!(
        version == u64::from(SCHEMA_VERSION),
        "{}: it has version {version} of the results' form, and this program reads {SCHEMA_VERSION}; make it again",
        path.display()
    );
    let is_comparison = value.get("runs").is_some_and(Value::is_array);
    ensure!(
        is_comparison,
        UsageError(format!("{}: reports are made of results of `compare` and `replay`, and it is none", path.display()))
    );
    serde_json::from_value(value).with_context(name)
}

/// A report's file, which is checked before any work.
pub struct HtmlFile(PathBuf);

impl HtmlFile {
    /// # Errors
    /// A file that exists without `force`, or that cannot be written.
    pub fn planned(path: &Path, force: bool) -> Result<HtmlFile> {
        if !force {
            refuse_existing(std::slice::from_ref(&path.to_path_buf()), "another file")?;
        }
        // Begun and dropped, so that a folder that takes no file is known at once.
        WholeFile::create(path).map(drop)?;
        Ok(HtmlFile(path.to_owned()))
    }

    /// Writes the report and appends its name to `written`.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write(&self, page: &Page, written: &mut Vec<String>) -> Result<()> {
        write_whole(&self.0, page.html()?.as_bytes())?;
        written.push(self.0.display().to_string());
        Ok(())
    }
}

impl ReportFile {
    /// Whether replays keep what happens over time.
    pub fn keeps_history(&self) -> bool {
        self.history || self.report.is_some()
    }

    /// The file, if a report is asked for.
    ///
    /// # Errors
    /// As [`HtmlFile::planned`].
    pub fn planned(&self, force: bool) -> Result<Option<HtmlFile>> {
        self.report.as_deref().map(|path| HtmlFile::planned(path, force)).transpose()
    }
}
