//! The arguments of `iocast completions` and `iocast man`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

#[derive(Debug, Args)]
pub struct Man {
    /// Print the page of this subcommand instead of the program's (capture block)
    #[arg(conflicts_with = "output")]
    pub subcommand: Vec<String>,
    /// Write the pages of the program and of every subcommand to this folder, which is created if missing
    #[arg(long, short, value_name = "FOLDER")]
    pub output: Option<PathBuf>,
}
