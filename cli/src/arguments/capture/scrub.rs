//! The arguments of `iocast capture scrub`.

use std::path::PathBuf;

use clap::Args;

use crate::output_format::OutputFormat;

#[derive(Debug, Args)]
pub struct Scrub {
    /// Capture to read: pcap or pcapng (also gzip or zstd), `-` for standard input
    pub input: PathBuf,
    /// File to write: pcap; compressed if the name ends in .gz or .zst
    pub output: PathBuf,
    /// TCP port of the target (repeatable)
    #[arg(long = "port", value_name = "PORT", default_value = "3260")]
    pub ports: Vec<u16>,
    /// Keep the text of logins (names, addresses, parameters) without CHAP and other authentication
    #[arg(long)]
    pub keep_login: bool,
    /// Replace initiator and target names, IP and MAC addresses, by the secret key in this file (16 bytes at least), `-`
    /// for standard input; the same key gives the same replacements
    #[arg(long, value_name = "KEYFILE")]
    pub rename_key: Option<PathBuf>,
    /// Accept a file whose last packet is cut off
    #[arg(long)]
    pub lenient: bool,
    /// Overwrite the output if it exists
    #[arg(long)]
    pub force: bool,
    /// How to print the figures
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}
