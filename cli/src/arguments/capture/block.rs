//! The arguments of `iocast capture block`.

use std::path::PathBuf;

use capture::block::{AttributeBy, BACKENDS, Rotate};
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use traces::quantity::{parse_bytes, parse_nanos};
use traces::{Layer, Nanos};

use crate::arguments::reading::{parse_layer, parse_percent};
use crate::output_format::OutputFormat;

#[derive(Debug, Args)]
pub struct Block {
    /// Disks to trace, by path or name
    #[arg(required = true, value_name = "DEVICE")]
    pub devices: Vec<PathBuf>,
    #[command(flatten)]
    pub until: Until,
    /// Trace to write (Parquet): a file, `-` for standard output, unix:PATH for a listening socket; with --raw the
    /// beginning of the files' names; with --histograms a file of lines [default: NAME-OF-DEVICE.parquet or .jsonl]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<String>,
    /// Overwrite the output if it exists
    #[arg(long)]
    pub force: bool,
    /// Write the kernel's raw data instead of a trace: pages of the trace buffer, or blktrace's files
    #[arg(long, conflicts_with_all = ["vm_by", "max_rate"])]
    pub raw: bool,
    /// Write histograms by second and VM instead of a trace, as lines of JSON: for a capture that is always on. Times
    /// are D2C, from the issue to the completion
    #[arg(long, conflicts_with_all = ["raw", "raw_too", "max_rate", "layer", "backend"])]
    pub histograms: bool,
    /// Also write the kernel's raw data, to files whose names begin so
    #[arg(long, value_name = "STEM", conflicts_with = "raw")]
    pub raw_too: Option<PathBuf>,
    /// Backend that supplies the events, instead of the first that works
    #[arg(long, value_parser = PossibleValuesParser::new(BACKENDS.iter().map(|row| row.name)))]
    pub backend: Option<String>,
    /// Unit that counts as one VM: a device, or the control group or process that queued the request (for qemu and
    /// blkback under the VM's name). Requests of write-back and other kernel threads are unattributed
    #[arg(long, value_enum, default_value_t = VmBy::Device)]
    pub vm_by: VmBy,
    /// Layer of the trace, instead of guest-queue (hypervisor: on a host whose VMs use the device)
    #[arg(long, value_parser = parse_layer, value_name = "guest-queue|guest-issued|hypervisor|wire")]
    pub layer: Option<Layer>,
    /// Begin a new file, NAME.0001.parquet (or .jsonl) and on, at this size (1g) or age (1h); with --raw a new piece
    /// NAME.0001
    #[arg(long, value_parser = parse_rotate, value_name = "SIZE|TIME")]
    pub rotate: Option<Rotate>,
    /// Files or pieces that stay; when a new one begins, the oldest are removed [default: all]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), value_name = "N", requires = "rotate")]
    pub keep: Option<u32>,
    /// Permit writing the trace onto a traced device
    #[arg(long)]
    pub allow_self_capture: bool,
    /// Most CPU time that the capture itself takes, in percent of one CPU; events that are not read in time are lost
    /// and counted
    #[arg(long, value_parser = parse_percent, value_name = "PERCENT")]
    pub max_cpu: Option<f64>,
    /// Most events per second; further events are dropped and counted
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..), value_name = "EVENTS")]
    pub max_rate: Option<u64>,
    #[command(flatten)]
    pub buffer: Buffer,
    /// How to print the summary
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output_format: OutputFormat,
}

/// Limits that end a capture.
#[derive(Clone, Copy, Debug, Args)]
pub struct Until {
    /// Stop after this time; a bare number is seconds [default: at an interrupt]
    #[arg(short = 'w', long, value_parser = parse_seconds, value_name = "SECONDS")]
    pub seconds: Option<Nanos>,
    /// Stop when this much has been written
    #[arg(long, value_parser = parse_bytes, value_name = "SIZE")]
    pub max_size: Option<u64>,
    /// Stop when less than this is free where the trace is written
    #[arg(long, value_parser = parse_bytes, default_value = "64m", value_name = "SIZE")]
    pub min_free: u64,
}

#[derive(Clone, Copy, Debug, Args)]
pub struct Buffer {
    /// Size of the kernel's buffer for each CPU
    #[arg(long = "buffer", value_parser = parse_bytes, default_value = "16m", value_name = "SIZE")]
    pub bytes: u64,
}

/// How requests are attributed to VMs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum VmBy {
    Device,
    Cgroup,
    Process,
}

impl From<VmBy> for AttributeBy {
    fn from(by: VmBy) -> AttributeBy {
        match by {
            VmBy::Device => AttributeBy::Device,
            VmBy::Cgroup => AttributeBy::Cgroup,
            VmBy::Process => AttributeBy::Process,
        }
    }
}

/// Parses `10`, `10s`, `5min`.
pub fn parse_seconds(text: &str) -> Result<Nanos, String> {
    let with_unit = if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') { "s" } else { "" };
    let time = parse_nanos(&format!("{text}{with_unit}")).map_err(|error| error.to_string())?;
    if time == Nanos::ZERO { Err("nothing can be recorded in no time".to_owned()) } else { Ok(time) }
}

/// Parses a size or a time; a bare number is bytes.
fn parse_rotate(text: &str) -> Result<Rotate, String> {
    if let Ok(bytes) = parse_bytes(text) {
        return Ok(Rotate::Bytes(bytes));
    }
    let time = parse_nanos(text).map_err(|_| "expected a size (1g) or a time (1h, 10min)".to_owned())?;
    Ok(Rotate::Time(std::time::Duration::from_nanos(time.as_ns())))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn rotation_accepts_sizes_and_times() {
        assert_eq!(parse_rotate("1g"), Ok(Rotate::Bytes(1 << 30)));
        assert_eq!(parse_rotate("2min"), Ok(Rotate::Time(Duration::from_secs(120))));
        assert!(parse_rotate("often").is_err());
        assert_eq!(parse_seconds("2").unwrap().as_ns(), 2_000_000_000);
        assert_eq!(parse_seconds("2ms").unwrap().as_ns(), 2_000_000);
        assert!(parse_seconds("0").unwrap_err().contains("nothing can be recorded"));
        assert_eq!(parse_percent("5%"), Ok(5.0));
        assert!(parse_percent("0").is_err());
    }
}
