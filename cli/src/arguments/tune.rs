//! The arguments of `iocast tune`.

use std::path::PathBuf;

use clap::Args;
use replay::sources::Pacing;

use super::{MapArgument, TaskEngine};
use crate::output_format::OutputFormat;

/// The text of a pacing, checked: tasks hold it as text.
fn parse_pacing(text: &str) -> Result<String, String> {
    text.parse::<Pacing>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}

#[derive(Debug, Args)]
pub struct Tune {
    /// Traces, or patterns of them: `*` stands for any part of a name, `**` for any folders
    #[arg(value_name = "TRACE", required = true)]
    pub traces: Vec<String>,
    /// Scheduler whose tunables are searched; those given with it are fixed (mq-deadline:front_merges=off)
    #[arg(long, value_name = "SCHEDULER")]
    pub scheduler: String,
    /// Drive with tunables (cheetah-15k4:cache=off), or the path of a drive profile
    #[arg(long, default_value = "cheetah-15k4")]
    pub drive: String,
    /// Figure that should get better. Of response times: mean, p50, p90, p95, p99, p99_9 or p99_99, with _read, _write or
    /// _all (p99_read). Of rates: throughput (requests/s) or bandwidth (bytes/s), alone or with _read or _write
    #[arg(long = "for", value_name = "FIGURE", default_value = "p99_read")]
    pub goal: String,
    /// Figure that may get worse, and by how much: throughput=-2% (at most 2 % less than as given) or p99_write=+10% (at
    /// most 10 % more); repeatable
    #[arg(long = "limit", value_name = "FIGURE=CHANGE")]
    pub limits: Vec<String>,
    /// Folder for the rounds and the result (tune.json). What is there already is not run again
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,
    /// Tunables that are searched, and where: fifo_batch=1..64 (each twice the one before), read_expire=50ms/1s (these
    /// values), or a name alone (numbers at 1/16, 1/4, 1, 4 and 16 times their default) [default: all]
    #[arg(long, value_name = "NAME=FROM..TO|NAME=VALUE/VALUE", value_delimiter = ',')]
    pub tunables: Vec<String>,
    /// Candidates of the first round; fewer of them need fewer rounds. The scheduler as given is one of them. If all
    /// combinations of the values are at most this many, all are tried, and the scheduler as given may be one more
    #[arg(long, default_value_t = 27, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub candidates: u32,
    /// Traces that prove the result and are not tuned on, by name or pattern; repeatable [default: a third, drawn by
    /// --seed; of a single trace the last third of its time]
    #[arg(long, value_name = "TRACE")]
    pub hold_out: Vec<String>,
    /// Draws candidates, windows, held-out traces and the interval
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// When requests arrive, as in `iocast compare`; closed is usually right on a drive that is slower than the
    /// recorded one
    #[arg(long, default_value = "recorded", value_parser = parse_pacing)]
    pub pacing: String,
    /// How the trace's addresses are mapped to the drive, as in `iocast compare`
    #[arg(long, value_enum, default_value_t = MapArgument::Exact)]
    pub map: MapArgument,
    /// Most requests in flight at the drive [default: as many as its queue holds]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub depth: Option<u32>,
    #[command(flatten)]
    pub engine: TaskEngine,
    /// Form of the printed result
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}
