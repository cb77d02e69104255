//! Shared parts of the tests of formats: fixtures, reading a whole trace, records as text, writers
//! of the formats that iocast only reads, and generated records.

#![allow(dead_code)] // Each test binary uses some of it.

pub(crate) mod published;
pub(crate) mod written;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use iocast_traces::formats::{FORMATS, Format};
use iocast_traces::trace::ReadOptions;
use iocast_traces::{
    Flags, Lba, Losses, Observed, Operation, Priority, ReadError, Record, Request, Sectors, StreamId, Timestamp,
    TraceMeta, VmId,
};
use proptest::prelude::*;

/// The fixtures in `tests/data` and the format of each.
pub(crate) const FIXTURES: [(&str, &str); 23] = [
    ("blkreplay", "small.load"),
    ("disksim-validate", "small.trace"),
    ("vscsi", "small-v1.vscsi"),
    ("vscsi", "small-v2.vscsi"),
    ("parquet", "small.parquet"),
    ("csv", "small.csv"),
    ("csv", "small-devices.csv"),
    ("btreplay", "virtio-mail.replay.0"),
    ("blkparse", "small.blkparse"),
    ("ftrace", "small.ftrace"),
    ("fio-iolog", "small.iolog"),
    ("fio-iolog", "small-v2.iolog"),
    ("fio-latency", "small_lat.1.log"),
    ("fio-latency", "small_clat.2.log"),
    ("fio-latency", "small_slat.3.log"),
    ("fio-latency", "small-issue_clat.4.log"),
    ("disksim-ascii", "small.disksim"),
    ("msr", "small-msr.csv"),
    ("spc", "small.spc"),
    ("fiu", "small.fiu"),
    ("alibaba", "small-alibaba.csv"),
    ("tencent", "small-tencent.csv"),
    ("oracle-general", "small.oracleGeneral"),
];

pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

pub(crate) fn format(name: &str) -> &'static Format {
    FORMATS.iter().find(|format| format.name == name).unwrap_or_else(|| panic!("there is no format {name}"))
}

/// A trace read to its end.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) meta: TraceMeta,
    pub(crate) records: Vec<Record>,
    pub(crate) losses: Losses,
    pub(crate) position_bytes: u64,
}

pub(crate) fn read_as(format_name: &str, path: &Path, options: &ReadOptions) -> Result<Whole, ReadError> {
    let mut options = options.clone();
    if format_name == "oracle-general" {
        // It does not tell, and is not read without.
        options.operation.get_or_insert(Operation::Read);
    }
    let mut reader = (format(format_name).open)(path, &options)?;
    let mut records = Vec::new();
    while let Some(record) = reader.next()? {
        records.push(record);
    }
    let (meta, losses) = (reader.meta().clone(), reader.losses().clone());
    Ok(Whole { meta, records, losses, position_bytes: reader.position_bytes() })
}

/// Reads `bytes` as a file of that format, under a name that does not give it away.
pub(crate) fn read_bytes(format_name: &str, bytes: &[u8], lenient: bool) -> Result<Whole, ReadError> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("input");
    std::fs::write(&path, bytes).expect("a temporary file");
    read_as(format_name, &path, &ReadOptions { lenient, ..ReadOptions::default() })
}

/// Where a trace comes from that was read to its end, as far as statistics need it.
pub(crate) fn provenance(
    reader: &dyn iocast_traces::TraceReader,
    requests: u64,
) -> iocast_traces::results::TraceProvenance {
    let of = iocast_traces::results::TraceProvenance::of(reader.meta(), requests);
    iocast_traces::results::TraceProvenance { losses: reader.losses().clone(), ..of }
}

/// A record as one line of a golden file.
pub(crate) fn line(record: &Record) -> String {
    let Record { request, observed } = record;
    let time = |time: Option<Timestamp>| time.map_or("-".to_owned(), |time| time.as_ns().to_string());
    format!(
        "{} {} {} {} {} {} {} {} {} {} {} {} {}",
        request.arrival.as_ns(),
        request.operation,
        request.flags.bits(),
        request.lba,
        request.sectors(),
        request.stream.0,
        request.vm.0,
        request.cpu,
        request.priority.as_byte(),
        time(observed.inserted),
        time(observed.issued),
        time(observed.completed),
        observed.error
    )
}

/// A blkreplay load file. Completions must not come before their issue.
pub(crate) fn write_blkreplay(records: &[Record]) -> Vec<u8> {
    let mut text = "start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n".to_owned();
    let seconds = |ns: u64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    for Record { request, observed } in records {
        let mut letters = String::new();
        if request.operation == Operation::Flush || request.flags.contains(Flags::PREFLUSH) {
            letters.push('F');
        }
        letters.push_str(["R", "W", "N", "D"][request.operation as usize]);
        for (flag, letter) in [(Flags::FUA, 'F'), (Flags::AHEAD, 'A'), (Flags::SYNC, 'S'), (Flags::META, 'M')] {
            if request.flags.contains(flag) {
                letters.push(letter);
            }
        }
        let issued = observed.issued.unwrap_or(request.arrival);
        let delay = issued.since(request.arrival).as_ns();
        let duration = observed.completed.map_or(0, |completed| completed.since(issued).as_ns());
        let start = seconds(request.arrival.as_ns());
        let (lba, sectors) = (request.lba, request.sectors());
        let _ = writeln!(
            text,
            "{start:>15} ; {lba:>12} ; {sectors:>4} ; {letters} ; {} ; {}",
            seconds(delay),
            seconds(duration)
        );
    }
    text.into_bytes()
}

/// A DiskSim validation trace. Records must follow one another as it says.
pub(crate) fn write_disksim(records: &[Record]) -> Vec<u8> {
    let us = |ns: u64| format!("{}.{:03}", ns / 1_000, ns % 1_000);
    let mut text = String::new();
    for (at, Record { request, observed }) in records.iter().enumerate() {
        let letter = ["R", "W"][request.operation as usize];
        let completed = observed.completed.expect("a completion");
        let service = completed.since(request.arrival).as_ns();
        let think = records.get(at + 1).map_or(0, |next| next.request.arrival.since(completed).as_ns());
        let (lba, sectors) = (request.lba, request.sectors());
        let _ = writeln!(text, "{letter} Hit {lba} {sectors} {} {}", us(service), us(think));
    }
    text.into_bytes()
}

/// A vscsi trace of version 1 or 2. Arrivals must be whole microseconds and begin at zero.
pub(crate) fn write_vscsi(version: u16, records: &[Record]) -> Vec<u8> {
    const BOOT_US: u64 = 5_000_000_000_000;
    let mut bytes = Vec::new();
    for (serial, Record { request, observed }) in records.iter().enumerate() {
        let command = [0x28u16, 0x2a, 0x35, 0x42][request.operation as usize];
        let serial = serial as u32;
        let length = u32::try_from(request.sectors().bytes()).expect("a length that vscsi can hold");
        let sn_len_nsg = [serial, length, 1].map(u32::to_le_bytes).concat();
        let cmd_ver = [command, version << 8].map(u16::to_le_bytes).concat();
        let lbn_ts = [request.lba.sector(), BOOT_US + request.arrival.as_ns() / 1_000].map(u64::to_le_bytes).concat();
        if version == 1 {
            bytes.extend([sn_len_nsg, cmd_ver, lbn_ts].concat());
        } else {
            let response = observed.completed.map_or(0, |completed| completed.since(request.arrival).as_ns() / 1_000);
            bytes.extend([cmd_ver, sn_len_nsg, lbn_ts, response.to_le_bytes().to_vec()].concat());
        }
    }
    bytes
}

fn operation() -> impl Strategy<Value = Operation> {
    prop::sample::select(Operation::ALL.to_vec())
}

fn time() -> impl Strategy<Value = Option<Timestamp>> {
    prop::option::of((0..=Timestamp::TRACE_MAX.as_ns()).prop_map(Timestamp::from_ns))
}

/// Any record that can be: only that its arrival is not before the last one's is left to do.
fn any_record() -> impl Strategy<Value = Record> {
    let length = prop_oneof![0u32..2_048, any::<u32>()];
    let request = (operation(), any::<u64>(), length, any::<u32>(), 0u16..3, any::<u16>());
    let small = (0u8..32, 0u8..4, 0u8..8, any::<i32>());
    (request, small, (time(), time(), time())).prop_map(
        |((operation, lba, sectors, stream, vm, cpu), (flags, class, level, error), (inserted, issued, completed))| {
            let lba = Lba::new(lba.min(u64::MAX - u64::from(sectors)));
            let mut request = Request::new(Timestamp::ZERO, operation, lba, Sectors::new(u64::from(sectors)));
            request.flags = Flags::from_bits(flags).expect("five bits");
            request.priority = Priority::new(class, level).expect("a class and a level");
            request.stream = StreamId(stream);
            request.vm = VmId(vm);
            request.cpu = cpu;
            Record { request, observed: Observed { inserted, issued, completed, error } }
        },
    )
}

/// Any records, in the order of arrival.
pub(crate) fn any_records() -> impl Strategy<Value = Vec<Record>> {
    prop::collection::vec((any_record(), 0..=Timestamp::TRACE_MAX.as_ns()), 0..200).prop_map(|mut records| {
        records.sort_by_key(|(_, arrival)| *arrival);
        records.into_iter().map(|(record, arrival)| at(record, Timestamp::from_ns(arrival))).collect()
    })
}

/// The record with this arrival, and its other times in an order that is possible.
fn at(mut record: Record, arrival: Timestamp) -> Record {
    record.request.arrival = arrival;
    let Observed { inserted, issued, completed, .. } = &mut record.observed;
    let mut last = arrival;
    for time in [inserted, issued, completed].into_iter().flatten() {
        last = last.max(*time);
        *time = last;
    }
    record
}

/// The fields of a simple record: operation, first sector, sectors, and three spans.
pub(crate) type Simple = (Operation, u64, u64, u64, u64, u64);

/// Values from which each format's test makes records that its format can hold.
pub(crate) fn simple_records() -> impl Strategy<Value = Vec<Simple>> {
    let one = (operation(), 0..u64::MAX / 2, 1u64..8_000_000, 0u64..5_000_000_000, 0u64..1_000_000, 0u64..1_000_000);
    prop::collection::vec(one, 1..100)
}
