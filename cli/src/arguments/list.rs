//! The arguments of `iocast list`.

use clap::{Args, ValueEnum};

use crate::output_format::OutputFormat;

#[derive(Debug, Args)]
pub struct List {
    /// Kind of parts to list, with their tunables
    #[arg(value_enum)]
    pub what: ListWhat,
    /// List only the part of this name; a drive with the values of its profile
    pub name: Option<String>,
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

impl ListWhat {
    /// What one of its parts is called.
    pub fn kind(self) -> &'static str {
        match self {
            ListWhat::Schedulers => "scheduler",
            ListWhat::Drives => "drive",
            ListWhat::Formats => "format",
            ListWhat::Stacks => "stack",
            ListWhat::Predictors => "predictor",
            ListWhat::Papers => "paper",
            ListWhat::Workloads => "workload",
        }
    }
}
