//! What is wrong with an input in the format of a published trace, and the error that says so: its
//! place and a part of its message.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod support;

use iocast_traces::Place::{self, Byte, Line, Whole};
use support::{data, read_bytes};

/// One bad input: its format, a name, its bytes, and the error's place and a part of its message.
type Case = (&'static str, &'static str, Vec<u8>, Place, &'static str);

const MSR: &str = "128500000000000000,left,0,Read,0,512,9\n";
const SPC: &str = "0,8,4096,R,1.0\n";
const FIU: &str = "5000000000 1 init 8 8 R 8 0\n";
const ALIBABA: &str = "0,R,4096,512,1577900000000000\n";
const TENCENT: &str = "1538400000,8,8,0,1\n";

fn good(format: &str) -> &'static str {
    match format {
        "msr" => MSR,
        "spc" => SPC,
        "fiu" => FIU,
        "alibaba" => ALIBABA,
        "tencent" => TENCENT,
        other => panic!("{other} has no lines"),
    }
}

/// A good line and a bad one.
fn second(format: &'static str, name: &'static str, line: &str, message: &'static str) -> Case {
    (format, name, format!("{}{line}\n", good(format)).into_bytes(), Line(2), message)
}

/// Lines that no table may hold.
fn table_cases(format: &'static str, fields: &'static str) -> Vec<Case> {
    let line = good(format).trim_end();
    let separator = if line.contains(',') { ',' } else { ' ' };
    let (cut, last) = line.rsplit_once(separator).unwrap();
    vec![
        (format, "binary", vec![0xff; 9_000], Line(1), "a line of more than 4096 bytes"),
        (format, "binary and short", vec![0x9a, 0, b'\n'], Line(1), fields),
        second(format, "an endless line", &"9".repeat(10_000), "a line of more than 4096 bytes"),
        second(format, "an empty line", "", fields),
        second(format, "a missing field", cut, fields),
        second(format, "a cut line", &line[..line.len() / 3], fields),
        second(
            format,
            "an empty field",
            &format!("{cut}{separator}"),
            if last == "0" { fields } else { "`` is not a number" },
        ),
    ]
}

fn msr_cases() -> Vec<Case> {
    let line = |name, line: &str, message| second("msr", name, line, message);
    vec![
        line("a field too many", "128500000000000000,left,0,Read,0,512,9,9", "expected 7 fields, found 8"),
        line("a title below", "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime", "DiskNumber `DiskNumber`"),
        line("time negative", "-128500000000000000,left,0,Read,0,512,9", "Timestamp `-128500000000000000` is not a"),
        line("time NaN", "NaN,left,0,Read,0,512,9", "Timestamp `NaN` is not a number"),
        line("time too large", "184467440737095517,left,0,Read,0,512,9", "is too large in 100ns (--time-unit says"),
        line("time beyond numbers", "18446744073709551616,left,0,Read,0,512,9", "is too large"),
        line("time too fine", "128500000000000000.001,left,0,Read,0,512,9", "more decimals than are kept"),
        line("host missing", "128500000000000000,\u{7},0,Read,0,512,9", "is no name of a device"),
        line("disk no number", "128500000000000000,left,C:,Read,0,512,9", "DiskNumber `C:` is not a number"),
        line("operation unknown", "128500000000000000,left,0,Trim,0,512,9", "expected Read or Write, found `Trim`"),
        line("operation empty", "128500000000000000,left,0,,0,512,9", "expected Read or Write, found ``"),
        line("offset negative", "128500000000000000,left,0,Read,-512,512,9", "Offset `-512` is not a number"),
        line("offset in a sector", "128500000000000000,left,0,Read,8,512,9", "--address-unit says what it is in"),
        line("offset too large", "128500000000000000,left,0,Read,18446744073709551616,512,9", "is too large"),
        line("size zero", "128500000000000000,left,0,Read,0,0,9", "a length of zero sectors"),
        line(
            "size in a sector",
            "128500000000000000,left,0,Read,0,8,9",
            "length 8 is no whole number of 512-byte sectors",
        ),
        line("size absurd", "128500000000000000,left,0,Read,0,2199023255552,9", "more than 4294967295"),
        line("response negative", "128500000000000000,left,0,Read,0,512,-1", "ResponseTime `-1` is not a number"),
        line("response too late", "128500000000000000,left,0,Read,0,512,100000000000000000", "too late"),
        line("out of order", "128499999989999999,left,0,Read,0,512,9", "more than 1 s late"),
    ]
}

fn spc_cases() -> Vec<Case> {
    let line = |name, line: &str, message| second("spc", name, line, message);
    vec![
        line("ASU no number", "a,8,4096,R,1.0", "ASU `a` is not a number"),
        line("ASU negative", "-1,8,4096,R,1.0", "ASU `-1` is not a number"),
        line("LBA negative", "0,-8,4096,R,1.0", "LBA `-8` is not a number"),
        line("LBA too large", "0,18446744073709551616,4096,R,1.0", "LBA `18446744073709551616` is too large"),
        line("size zero", "0,8,0,R,1.0", "a length of zero sectors"),
        line("size in a sector", "0,8,4097,R,1.0", "length 4097 is no whole number of 512-byte sectors (--length-unit"),
        line("end overflows", "0,18446744073709551615,512,R,1.0", "beyond the last address"),
        line("operation unknown", "0,8,4096,F,1.0", "expected R or W, found `F`"),
        line("time negative", "0,8,4096,R,-1.0", "Timestamp `-1.0` is not a number"),
        line("time with an exponent", "0,8,4096,R,1e0", "Timestamp `1e0` is not a number"),
        line("time too fine", "0,8,4096,R,1.0000000001", "more decimals than are kept"),
        line("time too large", "0,8,4096,R,18446744074.0", "is too large in s (--time-unit says what it is in)"),
        line("out of order", "0,8,4096,R,0.999999999", "an arrival at 0.999999999 s after one at 1.000000000 s"),
    ]
}

fn fiu_cases() -> Vec<Case> {
    let line = |name, line: &str, message| second("fiu", name, line, message);
    vec![
        line(
            "a process of two words",
            "5000000000 1 kernel worker 8 8 R 8 0",
            "expected an MD5 or nothing behind the device",
        ),
        line(
            "a digest of no digits",
            "5000000000 1 init 8 8 R 8 0 0011223344556677-899aabbccddeeff",
            "expected an MD5",
        ),
        line(
            "a digest that is none",
            "5000000000 1 init 8 8 R 8 0 0123",
            "expected an MD5 or nothing behind the device",
        ),
        line(
            "a field too many",
            "5000000000 1 init 8 8 R 8 0 00112233445566778899aabbccddeeff 1",
            "expected an MD5 or nothing behind the device",
        ),
        line("time negative", "-5 1 init 8 8 R 8 0", "ts `-5` is not a number"),
        line("time fractional", "5.0 1 init 8 8 R 8 0", "ts `5.0` is not a number"),
        line("time too large", "18446744073709551616 1 init 8 8 R 8 0", "is too large in ns (--time-unit says"),
        line("pid negative", "5000000000 -1 init 8 8 R 8 0", "pid `-1` is not a number"),
        line("pid absurd", "5000000000 4194305 init 8 8 R 8 0", "pid 4194305 is above 4194304"),
        line("pid beyond 32 bits", "5000000000 4294967297 init 8 8 R 8 0", "pid 4294967297 is above 4194304"),
        line("process too long", &format!("5000000000 1 {} 8 8 R 8 0", "x".repeat(65)), "a process name of 65 bytes"),
        line("size zero", "5000000000 1 init 8 0 R 8 0", "a length of zero sectors"),
        line("size absurd", "5000000000 1 init 8 4294967296 R 8 0", "more than 4294967295"),
        line("end overflows", "5000000000 1 init 18446744073709551615 8 R 8 0", "beyond the last address"),
        line("operation unknown", "5000000000 1 init 8 8 D 8 0", "expected R or W, found `D`"),
        line("major no number", "5000000000 1 init 8 8 R sda 0", "major number `sda` is not a number"),
        line("minor no number", "5000000000 1 init 8 8 R 8 x", "minor number `x` is not a number"),
        line("out of order", "3999999999 1 init 8 8 R 8 0", "more than 1 s late"),
    ]
}

fn cloud_cases() -> Vec<Case> {
    let alibaba = |name, line: &str, message| second("alibaba", name, line, message);
    let tencent = |name, line: &str, message| second("tencent", name, line, message);
    vec![
        alibaba("a field too many", "0,R,4096,512,1577900000000000,1", "expected 5 fields, found 6"),
        alibaba("device no number", "vda,R,4096,512,1577900000000000", "device_id `vda` is not a number"),
        alibaba("operation unknown", "0,r,4096,512,1577900000000000", "expected R or W, found `r`"),
        alibaba("offset negative", "0,R,-4096,512,1577900000000000", "offset `-4096` is not a number"),
        alibaba("offset in a sector", "0,R,8,512,1577900000000000", "--address-unit says what it is in"),
        alibaba("length in a sector", "0,R,4096,8,1577900000000000", "--length-unit says what it is in"),
        alibaba("length zero", "0,R,4096,0,1577900000000000", "a length of zero sectors"),
        alibaba("time NaN", "0,R,4096,512,nan", "timestamp `nan` is not a number"),
        alibaba("time too large", "0,R,4096,512,1577900000000000000", "is too large in us (--time-unit says"),
        alibaba("out of order", "0,R,4096,512,1577899998999999", "more than 1 s late"),
        tencent("a field too many", "1538400000,8,8,0,1,1", "expected 5 fields, found 6"),
        tencent("operation by letter", "1538400000,8,8,R,1", "expected 0 or 1, found `R`"),
        tencent("operation unknown", "1538400000,8,8,2,1", "expected 0 or 1, found `2`"),
        tencent("offset negative", "1538400000,-8,8,0,1", "Offset `-8` is not a number"),
        tencent("end overflows", "1538400000,18446744073709551615,8,0,1", "beyond the last address"),
        tencent("size zero", "1538400000,8,0,0,1", "a length of zero sectors"),
        tencent("size absurd", "1538400000,8,4294967296,0,1", "more than 4294967295"),
        tencent("volume no number", "1538400000,8,8,0,-1", "VolumeID `-1` is not a number"),
        tencent("time too large", "1538400000000000000,8,8,0,1", "is too large in s (--time-unit says"),
        tencent("out of order", "1538399998,8,8,0,1", "more than 1 s late"),
    ]
}

fn oracle_cases() -> Vec<Case> {
    let with = |name, at: usize, value: &[u8], message| {
        let mut bytes = std::fs::read(data("small.oracleGeneral")).unwrap()[..48].to_vec();
        bytes[24 + at..][..value.len()].copy_from_slice(value);
        ("oracle-general", name, bytes, Byte(24), message)
    };
    let whole = std::fs::read(data("small.oracleGeneral")).unwrap();
    let later = |bytes: &[u8]| [&bytes[24 * 4..], &bytes[..24]].concat();
    vec![
        ("oracle-general", "cut in the first record", whole[..23].to_vec(), Byte(0), "the middle of a record"),
        ("oracle-general", "cut in a record", whole[..47].to_vec(), Byte(24), "the middle of a record"),
        ("oracle-general", "out of order", later(&whole), Byte(24 * 4), "out of order: an arrival at 0.000000000 s"),
        ("oracle-general", "hashes", (0..3_000u32).map(|at| (at % 251) as u8).collect(), Whole, "looks wrong"),
        with("size zero", 12, &[0; 4], "a length of zero sectors"),
        with("size in a sector", 12, &[1, 2, 0, 0], "length 513 is no whole number of 512-byte sectors"),
        with("address in a sector", 4, &[1], "address 4097 is no whole number of 512-byte sectors (--address-unit"),
    ]
}

fn cases() -> Vec<Case> {
    let mut cases = [msr_cases(), spc_cases(), fiu_cases(), cloud_cases(), oracle_cases()].concat();
    for (format, fields) in [
        ("msr", "expected 7 fields, found "),
        ("spc", "expected 5 fields, found "),
        ("fiu", "expected 8 fields, found "),
        ("alibaba", "expected 5 fields, found "),
        ("tencent", "expected 5 fields, found "),
    ] {
        cases.extend(table_cases(format, fields));
    }
    cases
}

#[test]
fn every_bad_input_is_refused_with_its_place() {
    for (format, name, bytes, place, message) in cases() {
        let error = read_bytes(format, &bytes, false).expect_err(name);
        assert_eq!(error.place, place, "{format}, {name}: {error}");
        assert!(error.to_string().contains(message), "{format}, {name}: {error} does not say {message}");
        assert!(error.to_string().contains("input"), "{format}, {name}: {error} does not name the file");
    }
}

/// A record is skipped and counted, and those around it are read.
#[test]
fn a_lenient_read_counts_what_it_skips() {
    for (format, name, mut bytes, place, _) in cases() {
        match place {
            Line(2) => bytes.extend(good(format).bytes()),
            // The last record of the fixture is the latest.
            Byte(24) if bytes.len() == 48 => {
                let whole = std::fs::read(data("small.oracleGeneral")).unwrap();
                bytes.extend(&whole[whole.len() - 24..]);
            }
            _ => continue,
        }
        let whole = read_bytes(format, &bytes, true).unwrap();
        assert_eq!((whole.records.len(), whole.losses.total()), (2, 1), "{format}, {name}");
    }
}
