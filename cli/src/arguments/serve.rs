//! The arguments of `iocast serve`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use drive_models::throttle::ThrottleScale;
use traces::Sectors;
use traces::quantity::{parse_sectors, parse_thousandths};

use crate::output_format::OutputFormat;

#[derive(Debug, Args)]
pub struct Serve {
    /// Drive with tunables (cheetah-15k4:cache=off), or the path of a profile
    #[arg(long)]
    pub drive: String,
    /// Image that holds the data: a file, a block device (with --allow-writes), or memory of this size
    #[arg(long, value_name = "FILE|memory:SIZE")]
    pub image: String,
    /// Address at which clients connect (repeatable): over NBD at a Unix socket or a TCP port of this host, over
    /// vhost-user at a Unix socket whose clients open one export, or a block device of this host (ublk: /dev/ublkbN)
    #[arg(long, required = true, value_name = "unix:PATH|tcp:PORT|vhost-user:PATH[=EXPORT]|ublk[:N][=EXPORT]")]
    pub listen: Vec<String>,
    /// With tcp:PORT, listen on this address instead of 127.0.0.1; beyond loopback it needs --listen-public
    #[arg(long, value_name = "ADDRESS")]
    pub listen_address: Option<IpAddr>,
    /// Permit clients on other hosts; every client that reaches the address can read and write
    #[arg(long)]
    pub listen_public: bool,
    /// Create the image as a sparse file of this size
    #[arg(long, value_parser = parse_sectors, value_name = "SIZE")]
    pub create: Option<Sectors>,
    /// Permit writes to an image on a block device
    #[arg(long)]
    pub allow_writes: bool,
    /// Serve this slice of the image under its own name (repeatable: mail@0:10g, web@32g:10g)
    #[arg(long = "export", value_name = "NAME@START:SIZE")]
    pub exports: Vec<String>,
    /// Offset on the drive at which the image begins
    #[arg(long, value_parser = parse_sectors, value_name = "SIZE", default_value = "0", conflicts_with = "map")]
    pub place: Sectors,
    /// How the image's addresses map to the drive's: exact (contiguous, from --place on), or scale (units of 1 MiB
    /// spread proportionally over the whole drive)
    #[arg(long, value_enum, default_value_t = ServeMap::Exact)]
    pub map: ServeMap,
    /// Scheduler in front of the drive, with tunables
    #[arg(long, default_value = "fifo")]
    pub scheduler: String,
    /// Most requests at the drive at once [default: as many as its queue holds, such as 1 at a Cheetah]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub depth: Option<u32>,
    /// How many times slower than its model the drive is (8, 0.5). All times of the log and the figures are the host's
    #[arg(long, value_parser = parse_k, default_value = "1")]
    pub k: ThrottleScale,
    /// Most outstanding requests of one connection; further requests wait in the socket or the ring
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub threads: u32,
    /// Unit that counts as one VM in the log
    #[arg(long, value_enum, default_value_t = ServeVmBy::Export)]
    pub vm_by: ServeVmBy,
    /// Write every request to this trace (.parquet or .csv)
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Write the final figures to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Write the figures so far to this file every second, as one JSON object per line; `-` is standard output, which
    /// then gets no final tables
    #[arg(long, value_name = "FILE")]
    pub statistics: Option<PathBuf>,
    /// Overwrite the log, the report and the statistics if they exist
    #[arg(long)]
    pub force: bool,
    /// The server's scheduling priority: realtime (SCHED_FIFO, priority 10), nice (-10), normal [default: the first
    /// that is permitted]
    #[arg(long, value_enum)]
    pub urgency: Option<Urgency>,
    /// How to print the final figures
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

/// A factor of 0.001 to 1000.
fn parse_k(text: &str) -> Result<ThrottleScale, String> {
    const MOST: u64 = 1000 * 1000;
    match parse_thousandths(text) {
        Ok(k @ 1..=MOST) => Ok(ThrottleScale::from_millionths(k * 1000)),
        _ => Err("expected a number of 0.001 to 1000 with at most three places".to_owned()),
    }
}
