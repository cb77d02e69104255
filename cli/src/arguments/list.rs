//! The arguments of `iocast list`.

use clap::{Args, ValueEnum};

use crate::output_format::OutputFormat;

#[derive(Debug, Args)]
pub struct List {
    /// Kind of parts to list
    #[arg(value_enum)]
    pub what: ListWhat,
    /// List only the part of this name, with all that is known of it; a drive with the values of its profile
    pub name: Option<String>,
    /// List all drives with the settings of their models and what each was validated against, all schedulers with their
    /// rules
    #[arg(long, conflicts_with = "name")]
    pub details: bool,
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
