//! The arguments of `iocast list`.

use clap::{Args, ValueEnum};

use crate::output_format::OutputFormat;

#[derive(Debug, Args)]
pub struct List {
    /// Kind of parts to list, with their tunables
    #[arg(value_enum)]
    pub what: ListWhat,
    /// Form of the printed result
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListWhat {
    Schedulers,
    Drives,
    Formats,
    Stacks,
    Predictors,
    Papers,
    Workloads,
}
