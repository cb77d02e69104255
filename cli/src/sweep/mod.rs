//! `iocast sweep`: replays traces under every scheduler and on every drive of a plan. `iocast worker` runs tasks of such
//! a plan that come over a pipe.

mod columns;
mod expansion;
mod folder;
mod local;
mod plan;
mod ranges;
mod rows;
#[allow(dead_code, reason = "used by the subcommand that comes next")]
mod sensitivity;
mod spark;
mod task;
pub mod worker;

use anyhow::{Result, ensure};
use serde::Serialize;
use traces::results::SCHEMA_VERSION;

use self::expansion::Expansion;
use self::folder::{Folder, Joined};
use crate::arguments::{Shard, Sweep, SweepEngine};
use crate::error::UsageError;
use crate::interrupts::remove_unfinished_outputs;
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

pub fn run(arguments: &Sweep) -> Result<()> {
    let expansion = Expansion::new(plan::read(&arguments.plan).map_err(UsageError::from_display)?)?;
    for pruned in &expansion.pruned {
        note!("iocast: {pruned}");
    }
    let folder = Folder::open(&arguments.out, &expansion)?;
    remove_unfinished_outputs()?;
    let joined = match arguments.engine {
        SweepEngine::Local => {
            local::run(&expansion, &folder, arguments.shard.unwrap_or(Shard::ALL))?;
            let (parts, missing) = local::standing(&expansion, &folder);
            if missing > 0 {
                return waiting(arguments, &expansion, parts, missing);
            }
            folder.join(local::files(&expansion, &folder), expansion.len())?
        }
        SweepEngine::Spark => {
            ensure!(
                arguments.shard.is_none(),
                UsageError("Spark spreads the tasks itself; leave out --shard, or --engine spark".to_owned())
            );
            let files = spark::run(arguments, &folder, expansion.len())?;
            folder.join(files, expansion.len())?
        }
    };
    say(arguments, &folder, joined)
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
