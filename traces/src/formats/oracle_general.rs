//! libCacheSim's oracleGeneral traces, to which many published traces have been converted:
//! little-endian records of 24 bytes without a header.
//!
//! | bytes | unit, meaning |
//! |---|---|
//! | 0 `clock_time` u32 | s |
//! | 4 `obj_id` u64 | the object: here an address, in bytes unless a user knows better |
//! | 12 `obj_size` u32 | bytes |
//! | 16 `next_access_vtime` i64 | number of the next request for the same object, counted from 1; -1 or the largest for none |
//!
//! Source: `oracleGeneralBin.h` and `traceConvOracleGeneral.cpp` of libCacheSim.
//!
//! *Addresses.* The converter decides what an object is. In libCacheSim, the scripts for Alibaba's and Tencent's traces
//! cut requests into blocks of 4 KiB. They give each block's address in bytes, plus 100 TiB times the volume's number.
//! The conversion of vscsi traces keeps the address in sectors (`--address-unit sectors`). Objects that were texts
//! became hashes, which no replay can use. Hashes and sectors taken for bytes are refused, as they are no whole
//! sectors.
//!
//! *Operations* are not there, and so must be given.

use std::path::Path;

use crate::error::{Place, Problem, ReadError};
use crate::formats::check::{Bad, Takes};
use crate::formats::fixed::{FixedReader, RecordParser, little_endian};
use crate::formats::plausible::{self, Sample};
use crate::formats::scale::{Scale, Units};
use crate::formats::{Format, Opened};
use crate::input::Input;
use crate::record::Record;
use crate::request::{Operation, Request};
use crate::trace::{Layer, ReadOptions, TimeUnit, TraceMeta};
use crate::units::Timestamp;

/// The format's row in [`crate::formats::FORMATS`].
pub const FORMAT: Format = Format {
    name: "oracle-general",
    summary: "libCacheSim oracleGeneral: 24-byte records of s, object, size, next access",
    units: "whole s; bytes (the unit of objects depends on the converter)",
    traps: "Objects are addresses in bytes, addresses in sectors or hashes, depending on the converter, usually with \
            the volume's number in the high bits; requests may have been cut into 4-KiB blocks. Whole seconds, no \
            operations: give --op read.",
    layer: Layer::Hypervisor,
    recognises,
    extensions: &["oracleGeneral"],
    open,
    ..Format::READ_ONLY
};

const UNITS: Units = Units { time: TimeUnit::Seconds, address_bytes: 1, length_bytes: 1 };
/// Bytes in a record.
const RECORD_BYTES: usize = 24;
/// Fewer records are not recognised: too few to distinguish them from other bytes.
const RECOGNISED_RECORDS_MIN: usize = 4;
/// The largest object, and the latest next access, by which the format is recognised: 1 GiB, and
/// more requests than any trace has.
const RECOGNISED_BYTES_MAX: u64 = 1 << 30;
const RECOGNISED_REQUESTS_MAX: i64 = 1 << 40;

fn recognises(_path: &Path, head: &[u8]) -> bool {
    let records: Vec<Fields> = head.chunks_exact(RECORD_BYTES).map(Fields::of).collect();
    records.len() >= RECOGNISED_RECORDS_MIN
        && records.is_sorted_by_key(|record| record.time)
        && records.iter().enumerate().all(|(at, record)| is_usual(record, at, &records))
}

fn is_usual(record: &Fields, at: usize, records: &[Fields]) -> bool {
    let is_next = |next: usize| next > at && records.get(next).is_none_or(|other| other.object == record.object);
    let next_is_usual = match record.next {
        -1 | i64::MAX => true,
        next if (1..RECOGNISED_REQUESTS_MAX).contains(&next) => {
            let next = next as usize;
            // Counted from 1; some converters have counted from 0.
            is_next(next - 1) || is_next(next)
        }
        _ => false,
    };
    next_is_usual && (1..=RECOGNISED_BYTES_MAX).contains(&record.bytes)
}

fn open(path: &Path, options: &ReadOptions) -> Opened {
    Takes { device: false, operation: true, units: true, think_time: false }.check(path, FORMAT.name, options)?;
    let Some(operation) = options.operation else {
        let what = "an oracle-general trace does not distinguish reads from writes".to_owned();
        let error = ReadError::new(path, Place::Whole, Problem::Missing(what));
        return Err(error.remedy("--op read treats all requests as reads"));
    };
    let input = Input::open(path)?;
    if input.head().is_empty() {
        return Err(ReadError::new(path, Place::Whole, Problem::Empty));
    }
    let parser = |scale| Parser { scale, operation };
    let scale = Scale::new(UNITS, options.units);
    plausible::judge(path, &scale, None, |scale| {
        let (mut sample, mut parser) = (Sample::default(), parser(scale));
        for record in input.head().chunks_exact(RECORD_BYTES) {
            sample.add(&parser.parse(record).map(Some));
        }
        sample
    })?;
    let meta = TraceMeta::new(FORMAT.name, options.layer.unwrap_or(FORMAT.layer), "oracleGeneral clock_time");
    Ok(Box::new(FixedReader::new(input, parser(scale), meta, options.lenient)))
}

struct Parser {
    scale: Scale,
    operation: Operation,
}

impl RecordParser for Parser {
    fn record_bytes(&self) -> usize {
        RECORD_BYTES
    }

    #[inline]
    fn parse(&mut self, record: &[u8]) -> Result<Record, Bad> {
        let fields = Fields::of(record);
        let arrival = Timestamp::from_ns(self.scale.whole_time("clock_time", fields.time)?);
        let (lba, sectors) = self.scale.extent(fields.object, fields.bytes)?;
        Ok(Record::arrived(Request::new(arrival, self.operation, lba, sectors)))
    }
}

struct Fields {
    time: u64,
    object: u64,
    bytes: u64,
    next: i64,
}

impl Fields {
    #[inline]
    fn of(record: &[u8]) -> Fields {
        Fields {
            time: little_endian::<4>(record, 0),
            object: little_endian::<8>(record, 4),
            bytes: little_endian::<4>(record, 12),
            next: little_endian::<8>(record, 16) as i64,
        }
    }
}
