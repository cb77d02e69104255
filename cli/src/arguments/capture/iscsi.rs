//! The arguments of `iocast capture iscsi`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use traces::Nanos;
use traces::quantity::parse_nanos;

use crate::output_format::OutputFormat;

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("source").required(true).args(["interface", "read"])))]
pub struct Iscsi {
    /// Capture on this network interface until interrupted; needs dumpcap, and tshark for --engine tshark
    #[arg(short, long, value_name = "INTERFACE")]
    pub interface: Option<String>,
    /// Read this pcap or pcapng file (also gzip or zstd), `-` for standard input
    #[arg(short, long, value_name = "FILE")]
    pub read: Option<PathBuf>,
    /// Trace to write; the ending selects the format [default: none, only figures are printed]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Format of the trace, instead of that of its ending (see `iocast list formats`)
    #[arg(long, value_name = "FORMAT", requires = "output")]
    pub to: Option<String>,
    /// Also write the packets, with all user data zeroed; compressed if the name ends in .gz or .zst
    #[arg(long, value_name = "FILE.pcap")]
    pub raw: Option<PathBuf>,
    /// Engine that analyses the packets: iocast, or Wireshark's tshark as a second opinion
    #[arg(long, value_enum, default_value_t = Engine::Iocast)]
    pub engine: Engine,
    /// TCP port of the target (repeatable)
    #[arg(long = "port", value_name = "PORT", default_value = "3260")]
    pub ports: Vec<u16>,
    /// Digests of the connections; auto reads the login, or infers them from the bytes
    #[arg(long, value_enum, default_value_t = DigestsArgument::Auto)]
    pub digests: DigestsArgument,
    /// Stop a live capture after this time (30s, 10min)
    #[arg(short = 'w', long, value_parser = parse_nanos, value_name = "TIME", requires = "interface")]
    pub seconds: Option<Nanos>,
    /// Most bytes of each packet that a live capture records. A lower value costs less, but loses commands that begin
    /// behind the cut
    #[arg(
        long, value_name = "BYTES", default_value_t = 262_144,
        value_parser = clap::value_parser!(u32).range(96..=262_144)
    )]
    pub snaplen: u32,
    /// Accept a file whose last packet is cut off
    #[arg(long)]
    pub lenient: bool,
    /// Overwrite the outputs if they exist
    #[arg(long)]
    pub force: bool,
    /// How to print the figures
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}

/// The engine that analyses packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    Iocast,
    Tshark,
}

/// The digests of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DigestsArgument {
    Auto,
    None,
    Header,
    Data,
    Both,
}
