//! Arguments on the stage: the limits around its scheduler.

use clap::{Args, ValueEnum};
use traces::Sectors;
use traces::quantity::parse_sectors;

/// The limits of the stage.
#[derive(Clone, Copy, Debug, Args)]
pub struct Stage {
    /// Most requests in flight at the drive [default: as many as its queue holds, such as 1 at a Cheetah, 32 at sata-7200,
    /// sata-ssd and arrays, 1023 at nvme-ssd]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub depth: Option<u32>,
    /// Most writes among the requests in flight [default: as --depth]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), value_name = "DEPTH")]
    pub write_depth: Option<u32>,
    /// 1: take the next request from the scheduler before the drive accepts it, as Linux does
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=1), value_name = "0|1")]
    pub look_ahead: u8,
    /// Merge waiting requests that are adjacent on the drive
    #[arg(long, value_enum, default_value_t = Switch::On)]
    pub merge: Switch,
    /// Longest request that merging makes; longer arrivals are split
    #[arg(long, value_parser = parse_request_size, default_value = "1280k", value_name = "SIZE")]
    pub max_request: Sectors,
    /// Most outstanding requests; further arrivals are held back
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..10_000_000))]
    pub max_queue: u32,
}

impl Stage {
    /// The limits. Without `--depth`, `queue_depth` requests are kept in flight.
    pub fn limits(self, queue_depth: u32) -> replay::Limits {
        replay::Limits {
            depth: self.depth.unwrap_or(queue_depth),
            write_depth: self.write_depth.unwrap_or(u32::MAX),
            look_ahead: self.look_ahead == 1,
            merge: self.merge == Switch::On,
            max_sectors: self.max_request,
            ..replay::Limits::default()
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    On,
    Off,
}

fn parse_request_size(text: &str) -> Result<Sectors, String> {
    let sectors = parse_sectors(text).map_err(|error| error.to_string())?;
    if sectors == Sectors::ZERO || sectors > traces::Request::SECTORS_MAX {
        return Err("expected 512 bytes to 2 TiB".to_owned());
    }
    Ok(sectors)
}
