//! Faulty inputs, and the errors for them: the place and a part of the message.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod support;

use std::io::Write as _;

use iocast_traces::Place::{self, Byte, Line, Whole};
use iocast_traces::Timestamp;
use iocast_traces::formats::{self, FORMATS};
use iocast_traces::trace::ReadOptions;
use support::{FIXTURES, data, read_as, read_bytes};

/// One bad input: its format, a name, its bytes, and the error's place and a part of its message.
type Case = (&'static str, &'static str, Vec<u8>, Place, &'static str);

const TITLE: &str = "start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n";

/// A load file of a good line and `line`.
fn load(line: &str) -> Vec<u8> {
    format!("{TITLE} 1.0 ; 8 ; 8 ; R ; 0.0 ; 0.0\n{line}\n").into_bytes()
}

/// A DiskSim trace of a good line and `line`.
fn disksim(line: &str) -> Vec<u8> {
    format!("R Hit 8 8 1000.0 1000.0\n{line}\n").into_bytes()
}

/// Two vscsi records of version 1, of which the second is damaged.
fn vscsi(damage: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut bytes = std::fs::read(data("small-v1.vscsi")).unwrap()[..64].to_vec();
    damage(&mut bytes[32..]);
    bytes
}

/// The same of version 2.
fn vscsi2(damage: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut bytes = std::fs::read(data("small-v2.vscsi")).unwrap()[..80].to_vec();
    damage(&mut bytes[40..]);
    bytes
}

fn put(record: &mut [u8], at: usize, bytes: &[u8]) {
    record[at..at + bytes.len()].copy_from_slice(bytes);
}

fn blkreplay_cases() -> Vec<Case> {
    let line = |name, line: &str, message| ("blkreplay", name, load(line), Line(3), message);
    vec![
        ("blkreplay", "no title", b"1.0 ; 8 ; 8 ; R ; 0.0 ; 0.0\n".to_vec(), Line(1), "before the line `start ;"),
        (
            "blkreplay",
            "text only",
            b"some text\nand more\nand more\n".to_vec(),
            Line(4),
            "ends in the middle of the header",
        ),
        ("blkreplay", "binary", vec![0xff; 9_000], Line(1), "a line of more than 4096 bytes"),
        (
            "blkreplay",
            "bad first request",
            format!("{TITLE}1.0 ; x\n").into_bytes(),
            Line(2),
            "expected 6 fields, found 2",
        ),
        line("text after requests", "Copying is permitted", "expected 6 fields, found 1"),
        line("a second title", TITLE.trim_end(), "start `start` is not a number"),
        line("an empty line", "", "expected 6 fields, found 1"),
        line("a cut line", "2.0 ; 16 ; 8 ; W", "expected 6 fields, found 4"),
        line("a field too many", "2.0 ; 16 ; 8 ; W ; 0.0 ; 0.0 ; 1 ; 2", "expected 6 fields, found 8"),
        line("an endless line", &"9".repeat(10_000), "a line of more than 4096 bytes"),
        line("time negative", "-2.0 ; 16 ; 8 ; W ; 0.0 ; 0.0", "start `-2.0` is not a number"),
        line("time NaN", "NaN ; 16 ; 8 ; W ; 0.0 ; 0.0", "start `NaN` is not a number"),
        line("time with an exponent", "2e0 ; 16 ; 8 ; W ; 0.0 ; 0.0", "start `2e0` is not a number"),
        line("time too large", "18446744074.0 ; 16 ; 8 ; W ; 0.0 ; 0.0", "start `18446744074.0` is too large"),
        line("time too fine", "2.0000000001 ; 16 ; 8 ; W ; 0.0 ; 0.0", "more decimals than are kept"),
        line("sector negative", "2.0 ; -16 ; 8 ; W ; 0.0 ; 0.0", "sector `-16` is not a number"),
        line("sector too large", "2.0 ; 18446744073709551616 ; 8 ; W ; 0.0 ; 0.0", "is too large"),
        line("sector fractional", "2.0 ; 16.5 ; 8 ; W ; 0.0 ; 0.0", "sector `16.5` is not a number"),
        line("length zero", "2.0 ; 16 ; 0 ; W ; 0.0 ; 0.0", "a length of zero sectors"),
        line("length absurd", "2.0 ; 16 ; 4294967296 ; W ; 0.0 ; 0.0", "4294967296 sectors, more than 4294967295"),
        line("end overflows", "2.0 ; 18446744073709551608 ; 8 ; W ; 0.0 ; 0.0", "beyond the last address"),
        line("operation unknown", "2.0 ; 16 ; 8 ; X ; 0.0 ; 0.0", "unknown operation `X`"),
        line("operation empty", "2.0 ; 16 ; 8 ; ; 0.0 ; 0.0", "unknown operation ``"),
        line("delay negative", "2.0 ; 16 ; 8 ; R ; -0.1 ; 0.0", "replay_delay `-0.1` is not a number"),
        line("delay too large", "2.0 ; 16 ; 8 ; R ; 18446744073.0 ; 0.0", "a time that is too large"),
        line("duration too large", "2.0 ; 16 ; 8 ; R ; 0.0 ; 18446744072.0", "a time that is too large"),
        line("time beyond the range", "4611686018.9 ; 16 ; 8 ; W ; 0.0 ; 0.0", "more than 146 years (2^62 ns) after"),
        line("completion beyond the range", "2.0 ; 16 ; 8 ; W ; 0.0 ; 4611686017.0", "more than 146 years"),
        line("out of order", "0.999999999 ; 16 ; 8 ; R ; 0.0 ; 0.0", "out of order: an arrival at 0.999999999 s after"),
    ]
}

fn disksim_cases() -> Vec<Case> {
    let line = |name, line: &str, message| ("disksim-validate", name, disksim(line), Line(2), message);
    vec![
        ("disksim-validate", "binary", vec![0xff; 100], Line(1), "expected 6 fields, found 1"),
        line("a cut line", "R Hit 16 8", "expected 6 fields, found 4"),
        line("a field too many", "R Hit 16 8 1.0 1.0 1", "expected 6 fields, found 7"),
        line("an empty line", "", "expected 6 fields, found 0"),
        line("an endless line", &"R".repeat(10_000), "a line of more than 4096 bytes"),
        line("direction unknown", "r Hit 16 8 1.0 1.0", "expected R or W, found `r`"),
        line("remark no word", "R 12 16 8 1.0 1.0", "expected a word such as Hit or Miss, found `12`"),
        line("remark too long", "R HitHitHitHitHitHi 16 8 1.0 1.0", "expected a word"),
        line("sector negative", "R Hit -16 8 1.0 1.0", "sector `-16` is not a number"),
        line("length zero", "R Hit 16 0 1.0 1.0", "a length of zero sectors"),
        line("length absurd", "R Hit 16 4294967296 1.0 1.0", "more than 4294967295"),
        line("end overflows", "R Hit 18446744073709551615 1 1.0 1.0", "beyond the last address"),
        line("service NaN", "R Hit 16 8 nan 1.0", "service time `nan` is not a number"),
        line("service negative", "R Hit 16 8 -1.0 1.0", "service time `-1.0` is not a number"),
        line("service too fine", "R Hit 16 8 1.0000001 1.0", "more decimals than are kept"),
        line("service too large", "R Hit 16 8 18446744073710.0 1.0", "is too large"),
        line("think negative", "R Hit 16 8 1.0 -1.0", "think time `-1.0` is not a number"),
    ]
}

fn vscsi_cases() -> Vec<Case> {
    let second = |name, bytes, message| ("vscsi", name, bytes, Byte(32), message);
    let ts = |ts: u64| move |record: &mut [u8]| put(record, 24, &ts.to_le_bytes());
    let len = |len: u32| move |record: &mut [u8]| put(record, 4, &len.to_le_bytes());
    vec![
        ("vscsi", "cut in the first record", vec![1; 20], Byte(0), "ends in the middle of the first record"),
        ("vscsi", "text", vec![b'x'; 100], Byte(0), "unsupported version: expected 0x0100"),
        ("vscsi", "cut in a record", vscsi(|_| ())[..63].to_vec(), Byte(32), "ends in the middle of a record"),
        ("vscsi", "cut in a record of version 2", vscsi2(|_| ())[..79].to_vec(), Byte(40), "the middle of a record"),
        (
            "vscsi",
            "version 3",
            {
                let mut bytes = vscsi(|_| ());
                bytes[15] = 3;
                bytes
            },
            Byte(0),
            "unsupported version: expected 0x0100 in bytes 14-15",
        ),
        second("version changes", vscsi(|record| put(record, 14, &[0, 2])), "version 0x0200 after 0x0100"),
        second("operation unknown", vscsi(|record| put(record, 12, &[0xff])), "unknown SCSI operation code 0xff"),
        second("length zero", vscsi(len(0)), "a length of zero sectors"),
        second("length no sectors", vscsi(len(513)), "513 bytes, no whole sectors"),
        second(
            "unmap's list",
            vscsi(|record| {
                len(24)(record);
                put(record, 12, &[0x42]);
            }),
            "24 bytes, no whole",
        ),
        second("end overflows", vscsi(|record| put(record, 16, &[0xff; 8])), "beyond the last address"),
        second("out of order", vscsi(ts(5_633_898_368_801)), "out of order: ts 5633898368801 before the first"),
        second("time beyond the range", vscsi(ts(10_005_633_898_368_802)), "more than 146 years (2^62 ns) after"),
        second("time too large", vscsi(ts(u64::MAX)), "a time that is too large"),
        (
            "vscsi",
            "response too large",
            vscsi2(|record| put(record, 32, &[0xff; 8])),
            Byte(40),
            "time that is too large",
        ),
        (
            "vscsi",
            "out of order later",
            {
                let mut bytes = std::fs::read(data("small-v1.vscsi")).unwrap();
                put(&mut bytes[96..], 24, &5_633_898_368_803u64.to_le_bytes());
                bytes
            },
            Byte(96),
            "out of order: an arrival at 0.000001000 s after one at 0.000009000 s",
        ),
    ]
}

fn parquet_cases() -> Vec<Case> {
    let good = std::fs::read(data("small.parquet")).unwrap();
    let length = good.len() as u64;
    let with = |at: usize, bytes: &[u8]| {
        let mut damaged = good.clone();
        put(&mut damaged, at, bytes);
        damaged
    };
    let end = good.len();
    vec![
        ("parquet", "corrupt magic", with(0, b"PARX"), Byte(0), "does not begin with PAR1"),
        ("parquet", "encrypted", with(0, b"PARE"), Byte(0), "does not begin with PAR1"),
        ("parquet", "magic only", b"PAR1".to_vec(), Byte(4), "does not end with PAR1"),
        ("parquet", "cut", good[..end - 1].to_vec(), Byte(length - 1), "does not end with PAR1"),
        ("parquet", "footer's length", with(end - 8, &[0xff; 4]), Whole, "undecodable Parquet"),
        ("parquet", "footer", with(end - 200, &[0xff; 100]), Whole, "undecodable Parquet"),
        ("parquet", "first page", with(4, &[0xff; 16]), Place::Row(0), "undecodable Parquet"),
    ]
}

#[test]
fn every_bad_input_is_refused_with_its_place() {
    for cases in [blkreplay_cases(), disksim_cases(), vscsi_cases(), parquet_cases()] {
        for (format, name, bytes, place, message) in cases {
            let error = read_bytes(format, &bytes, false).expect_err(name);
            assert_eq!(error.place, place, "{format}, {name}: {error}");
            assert!(error.to_string().contains(message), "{format}, {name}: {error} does not say {message}");
            assert!(error.to_string().contains("input"), "{format}, {name}: {error} does not name the file");
        }
    }
}

/// A record is skipped and counted, and those around it are read.
#[test]
fn a_lenient_read_counts_what_it_skips() {
    for cases in [blkreplay_cases(), disksim_cases(), vscsi_cases()] {
        for (format, name, mut bytes, place, _) in cases.into_iter().filter(in_second_record) {
            let first_only = read_bytes(format, &bytes, true).unwrap();
            assert_eq!(first_only.losses.total(), 1, "{format}, {name}");
            if format != "vscsi" {
                let good: &[u8] = if format == "blkreplay" { b"9.0;8;8;R;0.0;0.0\n" } else { b"W Hit 1 1 1 1\n" };
                bytes.extend(good);
                let both = read_bytes(format, &bytes, true).unwrap();
                assert_eq!((both.records.len(), both.losses.total()), (2, 1), "{format}, {name}, {place:?}");
            }
        }
    }
}

fn in_second_record((format, _, _, place, _): &Case) -> bool {
    matches!((*format, place), ("blkreplay", Line(3)) | ("disksim-validate", Line(2)) | ("vscsi", Byte(32 | 40)))
}

#[test]
fn an_empty_input_and_a_directory_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty");
    std::fs::write(&empty, []).unwrap();
    for format in FORMATS {
        let read = |path| read_as(format.name, path, &ReadOptions::default()).unwrap_err().to_string();
        assert!(read(&empty).ends_with("empty: the input is empty"), "{}: {}", format.name, read(&empty));
        assert!(read(folder.path()).contains("this is a directory"), "{}: {}", format.name, read(folder.path()));
        let missing = read(&folder.path().join("missing"));
        assert!(missing.contains("missing: No such file"), "{}: {missing}", format.name);
    }
    assert!(formats::open(&empty, &ReadOptions::default()).is_err());
}

/// Many further records for a fixture, which do not compress.
fn more(format: &str, name: &str, bytes: &[u8]) -> Vec<u8> {
    let record: Box<dyn Fn(u64) -> Vec<u8>> = match (format, name) {
        ("blkreplay", _) => Box::new(|sector| format!("86400.0;{sector};8;R;0.0;0.0\n").into_bytes()),
        ("disksim-validate", _) => Box::new(|sector| format!("R Hit {sector} 8 1 1\n").into_bytes()),
        ("disksim-ascii", _) => Box::new(|sector| format!("12 0 {sector} 8 1\n").into_bytes()),
        ("csv", _) => Box::new(|sector| format!("3000,read,{sector},8,,0,0,0,0,,,,0\n").into_bytes()),
        ("fio-iolog", "small.iolog") => Box::new(|sector| format!("9999 a read {} 512\n", sector * 512).into_bytes()),
        ("fio-iolog", _) => Box::new(|sector| format!("a read {} 512\n", sector * 512).into_bytes()),
        ("fio-latency", _) => {
            let line = String::from_utf8_lossy(bytes);
            let fields: Vec<String> = line.lines().last().unwrap_or_default().split(", ").map(str::to_owned).collect();
            Box::new(move |sector| {
                let mut fields = fields.clone();
                fields[4] = (sector * 512).to_string();
                (fields.join(", ") + "\n").into_bytes()
            })
        }
        ("btreplay", _) => {
            Box::new(|sector| [1, Timestamp::TRACE_MAX.as_ns(), sector, 512, 1].map(u64::to_le_bytes).concat())
        }
        ("vscsi", _) => {
            let last = bytes[bytes.len() - if name.contains("v1") { 32 } else { 40 }..].to_vec();
            Box::new(move |sector| {
                let mut record = last.clone();
                put(&mut record, 17, &(sector as u32).to_le_bytes());
                record
            })
        }
        ("blkparse", _) => {
            Box::new(|sector| format!("8,0 0 0 86400.000000000 7 Q R {sector} + 8 [fio]\n").into_bytes())
        }
        ("ftrace", _) => Box::new(|sector| {
            format!("fio-7 [000] ..... 86400.000000: block_bio_queue: 8,0 R {sector} + 8 [fio]\n").into_bytes()
        }),
        ("msr", _) => {
            Box::new(|sector| format!("128500863990000000,left,0,Read,{},512,9\n", sector * 512).into_bytes())
        }
        ("spc", _) => Box::new(|sector| format!("1,{sector},512,r,86400.0\n").into_bytes()),
        ("fiu", _) => Box::new(|sector| format!("80002000000001 0 idle {sector} 8 R 8 17\n").into_bytes()),
        ("alibaba", _) => Box::new(|sector| format!("1,R,{},512,1580400000000000\n", sector * 512).into_bytes()),
        ("tencent", _) => Box::new(|sector| format!("1538403600,{sector},8,0,7\n").into_bytes()),
        ("oracle-general", _) => Box::new(|sector| {
            let (time, length) = (86_400u32.to_le_bytes(), 512u32.to_le_bytes());
            [&time[..], &(sector * 512).to_le_bytes(), &length, &[0xff; 8]].concat()
        }),
        _ => panic!("{format} has no further records here"),
    };
    (0..50_000u64).flat_map(|at| record(at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20)).collect()
}

#[test]
fn a_compressed_input_that_is_cut_off_is_refused() {
    for (format, name) in FIXTURES {
        // Long and not compressible, so that the cut comes behind the bytes that are read first.
        let mut bytes = std::fs::read(data(name)).unwrap();
        if format == "parquet" {
            continue;
        }
        bytes.extend(more(format, name, &bytes));
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&bytes).unwrap();
        let zstd = zstd::encode_all(&bytes[..], 1).unwrap();
        for compressed in [gzip.finish().unwrap(), zstd] {
            let cut = &compressed[..compressed.len() * 3 / 4];
            let error = read_bytes(format, cut, false).unwrap_err();
            assert!(error.to_string().contains("ends in the middle of compressed data"), "{name}: {error}");
            assert!(matches!(error.place, Line(1_000..) | Byte(10_000..)), "{name}: {error}");
            let lenient = read_bytes(format, cut, true).unwrap();
            assert_eq!(lenient.losses.skipped["the rest of a truncated input"], 1, "{name}");
            assert!(lenient.records.len() > 1_000, "{name}");
        }
    }
}

/// An input of no line or record that can be read is refused, in each format alike, however lenient the read is.
#[test]
fn an_input_that_is_malformed_as_a_whole_is_refused_whether_lenient_or_not() {
    let folder = tempfile::tempdir().unwrap();
    let words = (0..400).map(|line| format!("line {line} of no format, with words\n")).collect::<String>();
    let noise: Vec<u8> = (0..20_000u32).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
    let path = folder.path().join("input");
    for format in FORMATS {
        for (name, bytes) in [("words", words.as_bytes()), ("a few words", &words.as_bytes()[..80]), ("noise", &noise)]
        {
            std::fs::write(&path, bytes).unwrap();
            for lenient in [false, true] {
                let operation = (format.name == "oracle-general").then_some(iocast_traces::Operation::Read);
                let named = Some(format.name.to_owned());
                let options = ReadOptions { lenient, operation, format: named, ..ReadOptions::default() };
                let read = formats::open(&path, &options).and_then(|mut reader| {
                    while reader.next()?.is_some() {}
                    Ok(reader.losses().clone())
                });
                assert!(read.is_err(), "{name} as {}, lenient {lenient}: {read:?}", format.name);
            }
        }
    }
}

#[test]
fn an_input_without_a_request_and_without_a_fault_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input");
    std::fs::write(&path, TITLE).unwrap();
    let mut reader = formats::open(&path, &ReadOptions::default()).unwrap();
    assert!(reader.next().unwrap().is_none());
}
