//! The arguments of `iocast serve`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use traces::Sectors;
use traces::quantity::parse_sectors;

use crate::output_format::OutputFormat;

#[derive(Debug, Args)]
pub struct Serve {
    /// Drive with tunables (cheetah-15k4:cache=off), or the path of a profile
    #[arg(long)]
    pub drive: String,
    /// Where the data lie: a file, a block device (with --allow-writes), or memory of this size
    #[arg(long, value_name = "FILE|memory:SIZE")]
    pub image: String,
    /// Where clients connect: a socket, or a port of this machine
    #[arg(long, value_name = "unix:PATH|tcp:PORT")]
    pub listen: String,
    /// With tcp:PORT, listen on this address instead of loopback; whoever reaches it reads and writes
    #[arg(long, value_name = "ADDRESS")]
    pub listen_address: Option<IpAddr>,
    /// Make the image, a sparse file of this size
    #[arg(long, value_parser = parse_sectors, value_name = "SIZE")]
    pub create: Option<Sectors>,
    /// Write to the block device that the image is
    #[arg(long)]
    pub allow_writes: bool,
    /// Serve this slice of the image under a name of its own (repeatable: mail@0:10g, web@32g:10g)
    #[arg(long = "export", value_name = "NAME@START:SIZE")]
    pub exports: Vec<String>,
    /// Where the image begins on the drive
    #[arg(long, value_parser = parse_sectors, value_name = "SIZE", default_value = "0", conflicts_with = "map")]
    pub place: Sectors,
    /// How the image's addresses come onto the drive: exact (as one piece, at --place), or scale (its units of 1 MiB
    /// spread over the whole drive in proportion)
    #[arg(long, value_enum, default_value_t = ServeMap::Exact)]
    pub map: ServeMap,
    /// Scheduler with tunables for what waits in front of the drive
    #[arg(long, default_value = "fifo")]
    pub scheduler: String,
    /// Requests that the drive is given at once [default: as many as it takes]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub depth: Option<u32>,
    /// Requests of one connection that are served at once; further ones wait in its socket
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub threads: u32,
    /// What makes a virtual machine of the log
    #[arg(long, value_enum, default_value_t = ServeVmBy::Export)]
    pub vm_by: ServeVmBy,
    /// Write every request to this trace (.parquet or .csv)
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Write the figures of the end to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Overwrite log and report if they exist
    #[arg(long)]
    pub force: bool,
    /// How the server competes with other programs: realtime (SCHED_FIFO, priority 10), nice (-10), normal
    /// [default: the first of these that is permitted]
    #[arg(long, value_enum)]
    pub urgency: Option<Urgency>,
    /// How to print the figures of the end
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ServeMap {
    Exact,
    Scale,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ServeVmBy {
    Export,
    Connection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Urgency {
    Realtime,
    Nice,
    Normal,
}
