//! The arguments of `iocast sweep`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::output_format::OutputFormat;

/// What runs the tasks of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SweepEngine {
    /// All cores of this machine.
    Local,
    /// Apache Spark.
    Spark,
}

/// One of several processes that share the tasks of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 1.
    pub number: u64,
    pub of: u64,
}

impl Shard {
    /// The only one.
    pub const ALL: Shard = Shard { number: 1, of: 1 };
}

fn parse_shard(text: &str) -> Result<Shard, String> {
    let expected = || "expected i/n with i from 1 to n, such as 3/16".to_owned();
    let (number, of) = text.split_once('/').ok_or_else(expected)?;
    let shard = Shard { number: number.parse().map_err(|_| expected())?, of: of.parse().map_err(|_| expected())? };
    if (1..=shard.of).contains(&shard.number) { Ok(shard) } else { Err(expected()) }
}

/// What runs tasks, and where.
#[derive(Debug, Args)]
pub struct TaskEngine {
    /// What runs the tasks: all cores of this machine, or Apache Spark
    #[arg(long, value_enum, default_value_t = SweepEngine::Local)]
    pub engine: SweepEngine,
    /// Spark's master: spark://HOST:7077, yarn, k8s://URL, `local[N]`
    #[arg(long, value_name = "URL", required_if_eq("engine", "spark"))]
    pub master: Option<String>,
    /// Property of Spark, as spark-submit takes it (spark.executor.memory=2g); repeatable
    #[arg(long = "spark-conf", value_name = "KEY=VALUE", requires = "master")]
    pub spark_conf: Vec<String>,
    /// Where the nodes find Parquet traces, profiles of drives and stacks by the names that they have below the plan's
    /// folder, or of tune below the current one: an object store or another path of theirs (s3://bucket/fleet, gs://…,
    /// hdfs://…, file:///…). Each node copies a file once [default: that folder]
    #[arg(long, value_name = "URI", requires = "master")]
    pub traces_at: Option<String>,
}

#[derive(Debug, Args)]
pub struct Sweep {
    /// Plan: patterns of traces, schedulers with ranges of tunables, drives, and what else is varied (docs/scale.md)
    #[arg(value_name = "PLAN.toml")]
    pub plan: PathBuf,
    /// Folder for tasks and results. What is there already is not run again
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,
    #[command(flatten)]
    pub engine: TaskEngine,
    /// Run one of n shares of the tasks (3/16), for Slurm arrays and indexed jobs of Kubernetes
    #[arg(long, value_parser = parse_shard, value_name = "i/n")]
    pub shard: Option<Shard>,
    /// Form of the printed summary
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}
