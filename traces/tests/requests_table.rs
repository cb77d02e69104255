//! The table of requests: what is written is what is read, in full row groups, in others and in joined parts.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

use iocast_traces as traces;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use traces::results::requests::{RequestNames, RequestRow, RequestTable, Service, VmNames, column_names};
use traces::{Flags, Lba, Nanos, Operation, Priority, Request, Sectors, StreamId, Timestamp, VmId};

const GROUP: u64 = 65_536;

fn row(number: u64, vms: u64) -> RequestRow {
    let operation = Operation::ALL[(number % 4) as usize];
    let arrival = Timestamp::from_ns(number * 1000);
    let mut request = Request::new(arrival, operation, Lba::new(number * 7919 % (1 << 40)), Sectors::new(number % 9));
    (request.vm, request.stream) = (VmId((number % vms) as u16), StreamId((number % 5) as u32));
    request.flags = Flags::from_bits_truncate((number % 32) as u8);
    request.priority = Priority::new((number % 4) as u8, (number % 8) as u8).unwrap();
    let at = |ns: u64| arrival + Nanos::from_ns(ns);
    let service = Service {
        dispatched: at(number % 10),
        issued: at(20 + number % 10),
        started: at(40),
        seek: Sectors::new(number % 1001),
        hit: number.is_multiple_of(3),
    };
    let service = (!number.is_multiple_of(11)).then_some(service);
    RequestRow {
        number,
        request,
        service,
        completed: at(50 + number % 1_000_003),
        all_active: number.is_multiple_of(2),
    }
}

fn names(scheduler: &str, vms: u64, processes: &BTreeMap<u32, String>) -> RequestNames {
    let vm = |number| VmNames { vm: format!("vm{number}"), processes: processes.clone() };
    RequestNames { scheduler: scheduler.to_owned(), drive: "the drive".to_owned(), vms: (0..vms).map(vm).collect() }
}

/// What the file has to say of a row, written out.
fn expected(names: &RequestNames, row: &RequestRow) -> Vec<Field> {
    let RequestRow { number, request, service, completed, all_active } = *row;
    let text = |text: &str| Field::Str(text.to_owned());
    let time = |at: Timestamp| Field::ULong(at.as_ns());
    let optional = |value: Option<Field>| value.unwrap_or(Field::Null);
    let vm = &names.vms[usize::from(request.vm.0)];
    vec![
        text(&names.scheduler),
        text("the drive"),
        text(&vm.vm),
        optional(vm.processes.get(&request.stream.0).map(|name| text(name))),
        Field::UInt(request.stream.0),
        Field::ULong(number),
        text(request.operation.name()),
        Field::ULong(request.lba.sector()),
        Field::UInt(request.sectors().count() as u32),
        Field::Bool(request.is_sync()),
        Field::UByte(request.flags.bits()),
        Field::UByte(request.priority.as_byte()),
        time(request.arrival),
        optional(service.map(|service| time(service.dispatched))),
        optional(service.map(|service| time(service.issued))),
        optional(service.map(|service| time(service.started))),
        time(completed),
        Field::ULong(completed.as_ns() - request.arrival.as_ns()),
        optional(service.map(|service| Field::ULong(completed.as_ns() - service.issued.as_ns()))),
        optional(service.map(|service| Field::ULong(service.seek.count()))),
        optional(service.map(|service| Field::Bool(service.hit))),
        Field::Bool(all_active),
    ]
}

/// Writes a part for each of `parts`, with so many rows, and reads the file with the parquet package's own reader.
fn check(path: &Path, parts: &[(RequestNames, u64)]) {
    let table = RequestTable::create(path).unwrap();
    let write = |(names, rows): &(RequestNames, u64)| {
        let mut part = table.part(names).unwrap();
        (0..*rows).for_each(|number| part.push(&row(number, names.vms.len() as u64)).unwrap());
        part.finish().unwrap()
    };
    // The parts end in another order than they are joined in.
    let mut written: Vec<_> = parts.iter().rev().map(write).collect();
    written.reverse();
    table.join(written).unwrap();
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let mut found = reader.get_row_iter(None).unwrap().map(Result::unwrap);
    for (names, rows) in parts {
        for number in 0..*rows {
            let columns = found.next().unwrap().into_columns();
            let fields: Vec<Field> = columns.into_iter().map(|(_, field)| field).collect();
            assert_eq!(fields, expected(names, &row(number, names.vms.len() as u64)), "row {number}");
        }
    }
    assert!(found.next().is_none());
}

#[test]
fn rows_are_read_as_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("requests.parquet");
    let processes = BTreeMap::from([(0, "mysqld".to_owned()), (3, String::new())]);
    let none = BTreeMap::new();
    check(&path, &[]);
    check(&path, &[(names("empty", 1, &none), 0)]);
    // One VM without names: the same in every row of a full row group. Two full ones, and a rest.
    check(&path, &[(names("alone", 1, &none), 2 * GROUP + 5), (names("named", 1, &processes), GROUP)]);
    check(&path, &[(names("a", 3, &processes), GROUP + 1), (names("b", 3, &none), 7), (names("", 2, &none), 1)]);
    // Nothing else is left beside it.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn the_schema_has_the_documented_columns() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("requests.parquet");
    RequestTable::create(&path).unwrap().join([]).unwrap();
    let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let schema = reader.metadata().file_metadata().schema_descr();
    let found: Vec<&str> = schema.columns().iter().map(|column| column.name()).collect();
    assert!(column_names().eq(found.iter().copied()));
    for page in ["../docs/notebooks.md", "src/results/requests/mod.rs"] {
        let text = fs::read_to_string(page).unwrap();
        let rows = text.lines().map(|line| line.trim_start_matches("//! ")).filter_map(|line| line.strip_prefix("| `"));
        let documented: Vec<&str> = rows.filter_map(|row| row.split_once("` |")).map(|(name, _)| name).collect();
        let first = documented.iter().position(|name| *name == "scheduler").unwrap();
        assert_eq!(documented[first..first + found.len()], found, "{page}");
    }
}
