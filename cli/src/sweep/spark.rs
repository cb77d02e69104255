//! The engine on Apache Spark: `spark-submit` runs a driver in Python, which gives the tasks to `iocast worker`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::expansion::Expansion;
use super::folder::{Folder, tasks_per_part};
use super::task::RESULT_COLUMNS;
use crate::arguments::TaskEngine;
use crate::error::UsageError;
use crate::needs;
use crate::needs::uses::Use;

const DRIVER: &str = include_str!("spark_driver.py");

/// What Spark leaves in a folder that it has written to the end.
const SUCCESS: &str = "_SUCCESS";

/// Properties that a user may set otherwise. Ranges of tasks are not merged, so that they stay one for each part.
const DEFAULTS: [&str; 3] = [
    "spark.app.name=iocast sweep",
    "spark.sql.adaptive.enabled=false",
    "spark.sql.execution.arrow.maxRecordsPerBatch=256",
];

/// Checks that the tasks can be given to Spark; `asked_by` says for which subcommand.
///
/// # Errors
/// No master, traces that a store cannot have, a missing program.
pub fn check(engine: &TaskEngine, expansion: &Expansion, asked_by: Use) -> Result<()> {
    ensure!(engine.master.is_some(), UsageError("--engine spark needs --master".to_owned()));
    check_stored(engine, expansion)?;
    submitter(asked_by)?;
    Ok(())
}

/// Runs all tasks in the folder, unless Spark has done so already, and gives the files of results.
///
/// # Errors
/// A job that fails.
pub fn run(engine: &TaskEngine, folder: &Folder, expansion: &Expansion, asked_by: Use) -> Result<Vec<PathBuf>> {
    let results = std::path::absolute(folder.spark())?;
    if !results.join(SUCCESS).exists() {
        submit(engine, &std::path::absolute(folder.tasks())?, &results, expansion.len(), asked_by)?;
    }
    let name = || results.display().to_string();
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&results).with_context(name)? {
        let path = entry.with_context(name)?.path();
        if path.extension().is_some_and(|ending| ending == "parquet") {
            files.push(path);
        }
    }
    ensure!(!files.is_empty(), "{} has no file of results; remove it and repeat the command", results.display());
    Ok(files)
}

/// Refuses traces in a store that may be captures of several files, of which the nodes would copy one.
fn check_stored(engine: &TaskEngine, expansion: &Expansion) -> Result<()> {
    let is_parquet = |trace: &&String| Path::new(trace).extension().is_some_and(|ending| ending == "parquet");
    match expansion.traces().iter().find(|trace| !is_parquet(trace)) {
        Some(trace) if engine.traces_at.is_some() => bail!(UsageError(format!(
            "{trace}: --traces-at takes Parquet traces, which are single files; `iocast convert {trace} NAME.parquet` \
             makes one"
        ))),
        _ => Ok(()),
    }
}

fn submit(engine: &TaskEngine, tasks: &Path, results: &Path, count: u64, asked_by: Use) -> Result<()> {
    let work = tempfile::tempdir().context("a folder for Spark's driver")?;
    let driver = work.path().join("iocast_sweep.py");
    std::fs::write(&driver, DRIVER).context("Spark's driver")?;
    // Every node gets this program, under its own name.
    let worker = std::env::current_exe().context("the path of this program")?;
    let name = worker.file_name().context("the name of this program")?.to_owned();
    let given = engine.spark_conf.iter().map(String::as_str);
    let confs = DEFAULTS.into_iter().chain(given).flat_map(|conf| ["--conf", conf]);
    let schema: Vec<String> = RESULT_COLUMNS.0.iter().map(|(name, kind)| format!("{name} {}", kind.spark())).collect();
    let status = Command::new(submitter(asked_by)?)
        .arg("--master")
        .args(&engine.master)
        .args(confs)
        .arg("--files")
        .arg(&worker)
        .arg(&driver)
        .args([tasks, results].map(|path| format!("file://{}", path.display())))
        .arg(&name)
        .arg(count.div_ceil(tasks_per_part(count)).to_string())
        .arg(schema.join(", "))
        .args(&engine.traces_at)
        .stdin(Stdio::null())
        // Results are on standard output, and what Spark says is none.
        .stdout(std::io::stderr())
        .status()
        .context("spark-submit")?;
    ensure!(status.success(), "Spark's job failed ({status}); its log above says why");
    Ok(())
}

/// The path of spark-submit, in $SPARK_HOME or on the PATH.
fn submitter(asked_by: Use) -> Result<PathBuf> {
    if let Some(home) = std::env::var_os("SPARK_HOME") {
        let program = Path::new(&home).join("bin/spark-submit");
        ensure!(program.is_file(), "there is no {}; set SPARK_HOME to a folder of Apache Spark", program.display());
        return Ok(program);
    }
    needs::check(&[asked_by])?;
    Ok(PathBuf::from("spark-submit"))
}
