//! The arguments of `iocast capture iscsi`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use traces::Nanos;
use traces::quantity::parse_nanos;

use crate::output_format::OutputFormat;

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("source").required(true).args(["interface", "read"])))]
pub struct Iscsi {
    /// Capture on this network interface until interrupted; needs dumpcap, and tshark too for --engine tshark
    #[arg(short, long, value_name = "INTERFACE")]
    pub interface: Option<String>,
    /// Read this pcap or pcapng file (gzip and zstd too), `-` for standard input
    #[arg(short, long, value_name = "FILE")]
    pub read: Option<PathBuf>,
    /// The trace to write; the ending tells the format [default: none, only figures are printed]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Its format, instead of that of its ending (see `iocast list formats`)
    #[arg(long, value_name = "FORMAT", requires = "output")]
    pub to: Option<String>,
    /// Write the packets as well, with all data zeroed; compressed if the name ends in .gz or .zst
    #[arg(long, value_name = "FILE.pcap")]
    pub raw: Option<PathBuf>,
    /// What takes the packets apart: iocast, or Wireshark's tshark for a second opinion
    #[arg(long, value_enum, default_value_t = Engine::Iocast)]
    pub engine: Engine,
    /// TCP port of the target (repeatable)
    #[arg(long = "port", value_name = "PORT", default_value = "3260")]
    pub ports: Vec<u16>,
    /// Which digests the connections have; auto reads the login, or finds out from the bytes
    #[arg(long, value_enum, default_value_t = DigestsArgument::Auto)]
    pub digests: DigestsArgument,
    /// Stop a live capture after this long (30s, 10min)
    #[arg(short = 'w', long, value_parser = parse_nanos, value_name = "TIME", requires = "interface")]
    pub seconds: Option<Nanos>,
    /// Bytes of each packet that a live capture takes. Less than all costs less and loses the commands that begin behind
    /// the cut
    #[arg(long, value_name = "BYTES", default_value_t = 262_144, value_parser = clap::value_parser!(u32).range(96..=262_144))]
    pub snaplen: u32,
    /// Take a file whose last packet is cut off
    #[arg(long)]
    pub lenient: bool,
    /// Overwrite the outputs if they exist
    #[arg(long)]
    pub force: bool,
    /// How to print
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}

/// What takes packets apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    Iocast,
    Tshark,
}

/// Which digests connections have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DigestsArgument {
    Auto,
    None,
    Header,
    Data,
    Both,
}
