//! Arguments on how traces are read, and which part of them is used.

use clap::{Args, ValueEnum};
use replay::sources::TimeWindow;
use traces::quantity::{parse_bytes, parse_nanos};
use traces::spec::did_you_mean;
use traces::trace::{ArrivalPoint, ThinkTime, TimeUnit, UnitOverrides};
use traces::{Layer, Nanos, Operation};

use crate::error::UsageError;

/// How traces are read.
#[derive(Clone, Debug, Args)]
pub struct Reading {
    /// Event that counts as the arrival, in formats that record several: queued (blktrace Q) or issued (blktrace D)
    #[arg(long, value_enum, default_value_t = At::Queued)]
    pub at: At,
    /// Format of the traces, instead of recognising it (see `iocast list formats`)
    #[arg(long, value_name = "FORMAT")]
    pub input_format: Option<String>,
    /// Read only the requests of this device (volume, disk, file) of a trace that holds several
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// Operation of every request, for a format that does not record it
    #[arg(long, value_enum, value_name = "OPERATION")]
    pub op: Option<Op>,
    /// Unit of times, instead of the format's own
    #[arg(long, value_parser = parse_time_unit, value_name = "s|ms|us|100ns|ns")]
    pub time_unit: Option<TimeUnit>,
    /// Unit of addresses, instead of the format's own: bytes, sectors (512 bytes) or the size of a block (4k)
    #[arg(long, value_parser = parse_data_unit, value_name = "bytes|sectors|SIZE")]
    pub address_unit: Option<u32>,
    /// Unit of lengths, instead of the format's own
    #[arg(long, value_parser = parse_data_unit, value_name = "bytes|sectors|SIZE")]
    pub length_unit: Option<u32>,
    /// Whether the think time of a line comes after its request or before it (disksim-validate traces)
    #[arg(long, value_enum, value_name = "WHICH")]
    pub think_time: Option<Think>,
    /// Layer at which the traces were recorded, instead of the format's usual layer
    #[arg(long, value_parser = parse_layer, value_name = "guest-queue|guest-issued|hypervisor|wire")]
    pub layer: Option<Layer>,
    /// Skip and count malformed records and lost events, and requests with times in an impossible order above 1 %,
    /// instead of failing
    #[arg(long)]
    pub lenient: bool,
}

impl Reading {
    pub fn options(&self) -> traces::trace::ReadOptions {
        traces::trace::ReadOptions {
            lenient: self.lenient,
            arrivals: match self.at {
                At::Queued => ArrivalPoint::Queued,
                At::Issued => ArrivalPoint::Issued,
            },
            layer: self.layer,
            format: self.input_format.clone(),
            device: self.device.clone(),
            operation: self.op.map(Op::operation),
            units: UnitOverrides {
                time: self.time_unit,
                address_bytes: self.address_unit,
                length_bytes: self.length_unit,
            },
            think_time: self.think_time.map(|think| match think {
                Think::After => ThinkTime::After,
                Think::Before => ThinkTime::Before,
            }),
        }
    }
}

/// The time of a trace that is used.
#[derive(Clone, Copy, Debug, Args)]
pub struct Span {
    /// Leave out arrivals before this time, counted from the first arrival of the trace (10s, 2min)
    #[arg(long, value_parser = parse_nanos, default_value = "0", value_name = "TIME")]
    pub start: Nanos,
    /// Leave out arrivals at or after this time, counted from the first arrival of the trace
    #[arg(long, value_parser = parse_nanos, value_name = "TIME")]
    pub end: Option<Nanos>,
}

impl Span {
    /// Checks the order of start and end.
    ///
    /// # Errors
    /// A span that ends before it begins.
    pub fn check(&self) -> Result<(), UsageError> {
        if self.end.is_some_and(|end| end <= self.start) {
            return Err(UsageError("--end must be later than --start".to_owned()));
        }
        Ok(())
    }
}

/// The part of a trace that is used.
#[derive(Clone, Copy, Debug, Args)]
pub struct Window {
    #[command(flatten)]
    pub span: Span,
    /// Use at most this number of requests, over all traces
    #[arg(long, value_name = "REQUESTS")]
    pub limit: Option<u64>,
}

impl Window {
    /// The error of a window without requests.
    pub const IS_EMPTY: &str = "no request lies in the window of --start, --end and --limit";

    pub fn checked(self) -> Result<TimeWindow, UsageError> {
        self.span.check()?;
        Ok(TimeWindow { from: self.span.start, to: self.span.end, limit: self.limit })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum At {
    Queued,
    Issued,
}

/// A [`ThinkTime`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Think {
    After,
    Before,
}

/// The operation of requests in a format that does not record it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Op {
    Read,
    Write,
}

impl Op {
    fn operation(self) -> Operation {
        match self {
            Op::Read => Operation::Read,
            Op::Write => Operation::Write,
        }
    }
}

pub fn parse_layer(text: &str) -> Result<Layer, String> {
    let names = Layer::ALL.map(Layer::name);
    Layer::from_name(text).ok_or_else(|| expected_one_of(&names, text))
}

fn parse_time_unit(text: &str) -> Result<TimeUnit, String> {
    let names = TimeUnit::ALL.map(TimeUnit::name);
    TimeUnit::ALL.into_iter().find(|unit| unit.name() == text).ok_or_else(|| expected_one_of(&names, text))
}

/// The message about a `word` that is none of `names`.
fn expected_one_of(names: &[&str], word: &str) -> String {
    format!("expected one of {}{}", names.join(", "), did_you_mean(word, names.iter().copied()))
}

/// The bytes of a unit of addresses or lengths.
fn parse_data_unit(text: &str) -> Result<u32, String> {
    let bytes = match text {
        "bytes" => Some(1),
        "sectors" => Some(512),
        size => parse_bytes(size).ok().filter(|bytes| bytes.is_power_of_two() && *bytes >= 512),
    };
    bytes.and_then(|bytes| u32::try_from(bytes).ok()).ok_or_else(|| {
        let hint = did_you_mean(text, ["bytes", "sectors"].into_iter());
        format!("expected bytes, sectors, or the size of a block: a power of two of at least 512 bytes{hint}")
    })
}

/// Parses `5`, `5%`.
pub fn parse_percent(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    percent.ok().filter(|percent| *percent > 0.0 && percent.is_finite()).ok_or("expected a number above 0".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_addresses_are_bytes_sectors_or_blocks_of_a_power_of_two() {
        assert_eq!(["bytes", "sectors", "512", "4k"].map(|unit| parse_data_unit(unit).unwrap()), [1, 512, 512, 4096]);
        for unit in ["256", "513", "6k", "0", "8g", "sector", ""] {
            assert!(parse_data_unit(unit).unwrap_err().starts_with("expected bytes, sectors"), "{unit}");
        }
        assert!(parse_data_unit("sector").unwrap_err().contains("sectors"));
    }
}
