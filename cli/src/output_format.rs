//! The forms in which every subcommand prints its result (`--output-format`).

use clap::ValueEnum;

/// The form of a printed result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    Table,
    Json,
    Markdown,
}
