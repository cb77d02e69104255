//! The command line, which is that of `iocast report` without what is not about tables.

use std::path::PathBuf;

use clap::{ArgGroup, Parser};

use crate::quantiles::Share;

/// The command line asks for something impossible. The program ends with code 2.
#[derive(Debug)]
pub struct UsageError(pub String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Tables of single requests, from what `iocast compare --per-request` wrote and from captures; a part of `iocast report`
#[derive(Debug, Parser)]
#[command(name = "iocast-tables", version, group = ArgGroup::new("what").required(true))]
pub struct Arguments {
    /// Files of `iocast compare --per-request`, or captures in iocast's Parquet format
    #[arg(value_name = "FILE.parquet", required = true)]
    pub files: Vec<PathBuf>,
    /// Table of this name: responses, schedulers, vms, processes, waits, per-second, slowest
    #[arg(long, value_name = "NAME", group = "what")]
    pub table: Option<String>,
    /// Groups of requests by these columns
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',', group = "what")]
    pub by: Vec<String>,
    /// Answer to a query, with `requests` as the table
    #[arg(long, value_name = "QUERY", group = "what")]
    pub sql: Option<String>,
    /// Quantiles of the response time for --by
    #[arg(long, value_name = "SHARE,…", value_delimiter = ',', conflicts_with_all = ["table", "sql"], default_value = "0.5,0.99")]
    pub quantile: Vec<Share>,
    /// Output, as .parquet, .csv or .md by its ending [default: it is printed]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Overwrite what exists
    #[arg(long)]
    pub force: bool,
}
