//! The arguments of `iocast capture scrub`.

use std::path::PathBuf;

use clap::Args;

use crate::output_format::OutputFormat;

#[derive(Debug, Args)]
pub struct Scrub {
    /// The capture: pcap or pcapng (gzip and zstd too), `-` for standard input
    pub input: PathBuf,
    /// The file to write: pcap; compressed if the name ends in .gz or .zst
    pub output: PathBuf,
    /// TCP port of the target (repeatable)
    #[arg(long = "port", value_name = "PORT", default_value = "3260")]
    pub ports: Vec<u16>,
    /// Keep the text of logins (names, addresses, parameters), without what CHAP and other authentication put there
    #[arg(long)]
    pub keep_login: bool,
    /// Rename initiators and targets, IP and MAC addresses by the key in this file: the same key gives the same names
    #[arg(long, value_name = "FILE")]
    pub rename_key: Option<PathBuf>,
    /// Take a file whose last packet is cut off
    #[arg(long)]
    pub lenient: bool,
    /// Overwrite the output if it exists
    #[arg(long)]
    pub force: bool,
    /// How to print
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}
