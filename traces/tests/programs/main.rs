//! Our readers and writers against the programs whose formats they are: fio, btrecord and btreplay
//! (blktrace), blkreplay. Each must be installed (`make tools`); a missing one is a failure. They
//! replay onto files in temporary folders, never onto a device.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod blkreplay;
mod btreplay;
mod fio;
#[path = "../support/mod.rs"]
mod support;

use std::path::Path;
use std::process::{Command, Output};

use iocast_traces::trace::WriteOptions;
use iocast_traces::{Flags, Lba, Operation, Record, Request, Sectors, Timestamp};

/// Runs a program in a folder and returns its output.
fn run(folder: &Path, program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap_or_else(|error| panic!("{program} is needed for this test (`make tools` installs it): {error}"));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?} ended with {}: {message}", output.status);
    output
}

fn write(format_name: &str, path: &Path, records: &[Record]) {
    write_with(format_name, path, records, &WriteOptions::default());
}

fn write_with(format_name: &str, path: &Path, records: &[Record], options: &WriteOptions) {
    support::written::write(format_name, path, records, options).unwrap();
}

/// A file of `DISK_SECTORS`, all holes.
fn make_disk(path: &Path) {
    std::fs::File::create(path).unwrap().set_len(DISK_SECTORS * 512).unwrap();
}

const DISK_SECTORS: u64 = 131_072;

/// Requests of these operations in turn, over 200 ms from `start_ns`, within the disk; some arrive together.
fn mixed(start_ns: u64, operations: &[Operation]) -> Vec<Record> {
    let mut records = Vec::new();
    let mut random = 1u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut ns = start_ns;
    for &operation in operations.iter().cycle().take(300) {
        if next(4) > 0 {
            ns += next(1_777_777);
        }
        let (lba, sectors) = match operation {
            Operation::Flush => (0, 0),
            // In units of 8 sectors, because direct I/O onto a file may need that.
            _ => (next(DISK_SECTORS / 8 - 32) * 8, (1 + next(32)) * 8),
        };
        let mut request = Request::new(Timestamp::from_ns(ns), operation, Lba::new(lba), Sectors::new(sectors));
        if operation == Operation::Write && next(2) == 0 {
            request.flags = Flags::SYNC;
        }
        records.push(Record::arrived(request));
    }
    records
}
