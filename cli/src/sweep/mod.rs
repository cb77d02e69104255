//! `iocast sweep`: replays traces under every scheduler and on every drive of a plan. `iocast worker` runs tasks of such
//! a plan that come over a pipe.

mod columns;
pub mod expansion;
pub mod folder;
mod local;
pub mod plan;
pub mod ranges;
pub mod rows;
pub mod sensitivity;
mod spark;
pub mod task;
pub mod worker;

use anyhow::{Result, ensure};
use serde::Serialize;
use traces::results::SCHEMA_VERSION;

use self::expansion::Expansion;
use self::folder::{Folder, Joined};
use crate::arguments::{Shard, Sweep, SweepEngine, TaskEngine};
use crate::error::UsageError;
use crate::interrupts::remove_unfinished_outputs;
use crate::needs::uses::{SWEEP_SPARK, Use};
use crate::output;
use crate::output_format::OutputFormat;

/// What a sweep says when it ends.
#[derive(Debug, Serialize)]
struct Summary {
    schema_version: u32,
    program: String,
    tasks: u64,
    /// Tasks that failed by their input; missing as long as results are.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<u64>,
    /// Parts that other shards have not written yet.
    parts_missing: u64,
    /// The table of results, once nothing is missing.
    results: Option<String>,
}

/// Checks that the engine takes what was given.
///
/// # Errors
/// Options of Spark without it.
pub fn check_engine(engine: &TaskEngine) -> Result<()> {
    let of_spark = engine.master.is_some() || engine.traces_at.is_some() || !engine.spark_conf.is_empty();
    ensure!(
        engine.engine == SweepEngine::Spark || !of_spark,
        UsageError(
            "--master, --spark-conf and --traces-at are of Spark; add --engine spark, or leave them out".to_owned()
        )
    );
    Ok(())
}

pub fn run(arguments: &Sweep) -> Result<()> {
    check_engine(&arguments.engine)?;
    ensure!(
        arguments.shard.is_none() || arguments.engine.engine == SweepEngine::Local,
        UsageError("Spark spreads the tasks itself; leave out --shard, or --engine spark".to_owned())
    );
    let expansion = Expansion::new(plan::read(&arguments.plan).map_err(UsageError::from_display)?)?;
    for pruned in &expansion.pruned {
        note!("iocast: {pruned}");
    }
    check_tasks(&expansion, &arguments.engine, SWEEP_SPARK)?;
    let folder = Folder::open(&arguments.out, &expansion)?;
    remove_unfinished_outputs()?;
    let shard = arguments.shard.unwrap_or(Shard::ALL);
    match run_tasks(&expansion, &folder, &arguments.engine, shard, SWEEP_SPARK)? {
        Ran::All(joined) => say(arguments, &folder, joined),
        Ran::Shard { parts, missing } => waiting(arguments, &expansion, parts, missing),
    }
}

/// Checks that the engine can run the tasks, before anything is written; `asked_by` says for which subcommand.
///
/// # Errors
/// Those of Spark.
pub fn check_tasks(expansion: &Expansion, engine: &TaskEngine, asked_by: Use) -> Result<()> {
    match engine.engine {
        SweepEngine::Local => Ok(()),
        SweepEngine::Spark => spark::check(engine, expansion, asked_by),
    }
}

/// What is there after tasks have run.
pub enum Ran {
    /// All results, in one table.
    All(Joined),
    /// Of so many parts of the results, this many are missing: other shards run them.
    Shard { parts: u64, missing: u64 },
}

/// Runs the tasks of the shard that have no result in the folder yet, and joins the results if all are there. Spark runs
/// all tasks; `asked_by` says for which subcommand.
///
/// # Errors
/// The file system's, Spark's; results that do not belong together.
pub fn run_tasks(
    expansion: &Expansion,
    folder: &Folder,
    engine: &TaskEngine,
    shard: Shard,
    asked_by: Use,
) -> Result<Ran> {
    let files = match engine.engine {
        SweepEngine::Local => {
            local::run(expansion, folder, shard)?;
            let (parts, missing) = local::standing(expansion, folder);
            if missing > 0 {
                return Ok(Ran::Shard { parts, missing });
            }
            local::files(expansion, folder)
        }
        SweepEngine::Spark => spark::run(engine, folder, expansion, asked_by)?,
    };
    Ok(Ran::All(folder.join(files, expansion.len())?))
}

/// Says that other shards have something to do.
fn waiting(arguments: &Sweep, expansion: &Expansion, parts: u64, missing: u64) -> Result<()> {
    let summary = Summary {
        schema_version: SCHEMA_VERSION,
        program: traces::program_version(),
        tasks: expansion.len(),
        failed: None,
        parts_missing: missing,
        results: None,
    };
    if arguments.output_format == OutputFormat::Json {
        return output::print_json(&summary);
    }
    let text = format!(
        "This shard is complete. Of {parts} parts, {missing} are left to other shards; once all are there, the command \
         without --shard joins them."
    );
    output::print(&output::sentence(&text, arguments.output_format))
}

fn say(arguments: &Sweep, folder: &Folder, joined: Joined) -> Result<()> {
    let results = folder.results().display().to_string();
    let Joined { tasks, failed, errors } = joined;
    if arguments.output_format == OutputFormat::Json {
        return output::print_json(&Summary {
            schema_version: SCHEMA_VERSION,
            program: traces::program_version(),
            tasks,
            failed: Some(failed),
            parts_missing: 0,
            results: Some(results),
        });
    }
    let mut lines = vec![format!("{tasks} tasks, of which {failed} failed by their input; results: {results}")];
    lines.extend(errors.iter().map(|(error, count)| format!("{count} tasks: {error}")));
    let text: String = lines.iter().map(|line| output::sentence(line, arguments.output_format)).collect();
    output::print(&text)
}
