//! What is wrong with an input in a format that replay programs share (fio, btreplay, DiskSim) or in
//! our CSV, and the error that says so: its place and a part of its message.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod support;

use iocast_traces::Place::{self, Byte, Line, Whole};
use iocast_traces::trace::ReadOptions;
use support::{data, read_as, read_bytes};

/// One bad input: its format, a name, its bytes, and the error's place and a part of its message.
type Case = (&'static str, &'static str, Vec<u8>, Place, &'static str);

const HEADER: &str =
    "arrival_ns,operation,lba_sectors,sectors,flags,priority,vm,stream,cpu,inserted_ns,issued_ns,completed_ns,error\n";

fn csv_cases() -> Vec<Case> {
    let line = |name, line: &str, message| {
        ("csv", name, format!("{HEADER}5,read,0,8,,0,0,0,0,,,,0\n{line}\n").into_bytes(), Line(3), message)
    };
    vec![
        ("csv", "no header", b"5,read,0,8,,0,0,0,0,,,,0\n".to_vec(), Line(1), "expected the header `arrival_ns,oper"),
        ("csv", "binary", vec![0xff; 9_000], Line(1), "a line of more than 4096 bytes"),
        line("an empty line", "", "expected 13 fields, found 1"),
        line("a cut line", "6,read,0,8", "expected 13 fields, found 4"),
        line("a field too many", "6,read,0,8,,0,0,0,0,,,,0,0", "expected 13 fields, found 14"),
        line("a second header", HEADER.trim_end(), "unknown operation `operation`"),
        line("time negative", "-6,read,0,8,,0,0,0,0,,,,0", "arrival_ns `-6` is not a number"),
        line("time fractional", "6.0,read,0,8,,0,0,0,0,,,,0", "arrival_ns `6.0` is not a number"),
        line("time empty", ",read,0,8,,0,0,0,0,,,,0", "arrival_ns `` is not a number"),
        line("time too large", "18446744073709551616,read,0,8,,0,0,0,0,,,,0", "is too large"),
        line(
            "time beyond the range",
            "4611686018427387904,read,0,8,,0,0,0,0,,,,0",
            "more than 146 years (2^62 ns) after",
        ),
        line("issue beyond the range", "6,read,0,8,,0,0,0,0,,4611686018427387904,,0", "more than 146 years"),
        line("operation unknown", "6,trim,0,8,,0,0,0,0,,,,0", "unknown operation `trim`"),
        line("operation by number", "6,0,0,8,,0,0,0,0,,,,0", "unknown operation `0`"),
        line("length zero", "6,read,0,0,,0,0,0,0,,,,0", "a length of zero sectors"),
        line("length absurd", "6,read,0,4294967296,,0,0,0,0,,,,0", "more than 4294967295"),
        line("end overflows", "6,read,18446744073709551615,8,,0,0,0,0,,,,0", "beyond the last address"),
        line("a flush with a length", "6,flush,0,8,,0,0,0,0,,,,0", "a flush with an address or a length"),
        line("a flush with an address", "6,flush,8,0,,0,0,0,0,,,,0", "a flush with an address or a length"),
        line("flag unknown", "6,read,0,8,sync|idle,0,0,0,0,,,,0", "unknown flag `idle`"),
        line("priority too large", "6,read,0,8,,32,0,0,0,,,,0", "priority `32` is above 31"),
        line("vm too large", "6,read,0,8,,0,65536,0,0,,,,0", "vm `65536` is too large"),
        line("stream too large", "6,read,0,8,,0,0,4294967296,0,,,,0", "stream `4294967296` is too large"),
        line("cpu too large", "6,read,0,8,,0,0,0,65536,,,,0", "cpu `65536` is too large"),
        line("completion no number", "6,read,0,8,,0,0,0,0,,,NaN,0", "completed_ns `NaN` is not a number"),
        line("error no number", "6,read,0,8,,0,0,0,0,,,,EIO", "error `EIO` is not an error number"),
        line("out of order", "4,read,0,8,,0,0,0,0,,,,0", "out of order: an arrival at 0.000000004 s after one"),
    ]
}

fn iolog_cases() -> Vec<Case> {
    let title = |name, bytes: &[u8], message| ("fio-iolog", name, bytes.to_vec(), Line(1), message);
    let three = |name, line: &str, message| {
        let bytes = format!("fio version 3 iolog\n5 a read 0 512\n{line}\n").into_bytes();
        ("fio-iolog", name, bytes, Line(3), message)
    };
    let two = |name, line: &str, message| {
        let bytes = format!("fio version 2 iolog\na read 0 512\n{line}\n").into_bytes();
        ("fio-iolog", name, bytes, Line(3), message)
    };
    vec![
        title("version 1", b"0, 4096, 512\n", "expected the title `fio version 2 iolog`"),
        title("version 4", b"fio version 4 iolog\n", "expected the title `fio version 2 iolog`"),
        title("binary", &[0xff; 9_000], "a line of more than 4096 bytes"),
        three("a second title", "fio version 3 iolog", "a second title: fio has appended the log of another run"),
        three("an empty line", "", "expected 3 or 5 fields, found 0"),
        three("a cut line", "6 a read 0", "expected 3 or 5 fields, found 4"),
        three("a field too many", "6 a read 0 512 1", "expected 3 or 5 fields, found 6"),
        three("a name with a blank", "6 a b read 0 512", "expected 3 or 5 fields, found 6"),
        three("a line of version 2", "a read 0 512", "expected 3 or 5 fields, found 4"),
        three("action unknown", "6 a erase 0 512", "unknown action `erase`"),
        three("file action unknown", "6 a unlink", "unknown action `unlink`"),
        three("a wait", "6 a wait 100 0", "unknown action `wait`"),
        three("time negative", "-6 a read 0 512", "time `-6` is not a number"),
        three("time too large", "18446744073709552 a read 0 512", "--time-unit says what it is in"),
        three("offset negative", "6 a read -512 512", "offset `-512` is not a number"),
        three("offset too large", "6 a read 18446744073709551616 512", "is too large"),
        three("offset no sector", "6 a read 100 512", "--address-unit"),
        three("length zero", "6 a write 0 0", "a length of zero sectors"),
        three("length no sectors", "6 a write 0 100", "--length-unit"),
        three("length absurd", "6 a trim 0 2199023255552", "more than 4294967295"),
        three("out of order", "4 a read 0 512", "out of order: an arrival at 0.000004000 s after one at"),
        two("a line of version 3", "6 a read 0 512", "expected 2 or 4 fields, found 5"),
        two("a cut line", "a read 0", "expected 2 or 4 fields, found 3"),
        two("a wait that is no number", "a wait soon 0", "wait `soon` is not a number"),
        two("a wait too long", "a wait 18446744073710 0", "--time-unit says what it is in"),
        two("file action unknown", "a unlink", "unknown action `unlink`"),
    ]
}

fn latency_cases() -> Vec<Case> {
    let with = |line: &str| format!("5, 1000, 0, 512, 1024, 0\n{line}\n").into_bytes();
    let line = |name, line: &str, message| ("fio-latency", name, with(line), Line(2), message);
    let whole = |name, bytes: &[u8], message| ("fio-latency", name, bytes.to_vec(), Whole, message);
    vec![
        whole(
            "no offset, as old",
            b"5, 1000, 0, 512\n6, 1000, 0, 512\n",
            "where requests went; fio logs it with log_offset=1",
        ),
        whole("no offset", b"5, 1000, 0, 512, 0\n6, 1000, 0, 512, 1\n", "where requests went"),
        whole("no offset, log_prio", b"5, 1000, 0, 512, 0x4004\n6, 1000, 0, 512, 0x0000\n", "where requests went"),
        line("an empty line", "", "expected 6 fields, found 1"),
        line("a cut line", "6, 1000, 0, 512", "expected 6 fields, found 4"),
        line("a field too many", "6, 1000, 0, 512, 0, 0, 0, 0", "expected 6 fields, found 8"),
        line("averaged", "6, 1000, 0, 0, 0, 0", "what log_avg_msec has averaged is no request"),
        line("direction unknown", "6, 1000, 3, 512, 0, 0", "a direction of `3`, expected 0, 1 or 2"),
        line("time negative", "-6, 1000, 0, 512, 0, 0", "time `-6` is not a number"),
        line("time too large", "18446744073710, 1000, 0, 512, 0, 0", "time `18446744073710` is too large"),
        line("latency negative", "6, -1000, 0, 512, 0, 0", "latency `-1000` is not a number"),
        line("latency fractional", "6, 0.5, 0, 512, 0, 0", "latency `0.5` is not a number"),
        line("latency too large", "6, 18446744073709551616, 0, 512, 0, 0", "is too large"),
        line("length no sectors", "6, 1000, 0, 100, 0, 0", "--length-unit"),
        line("offset no sector", "6, 1000, 0, 512, 100, 0", "--address-unit"),
        line("priority unknown", "6, 1000, 0, 512, 0, 2", "priority `2` is neither 0, 1 nor hexadecimal"),
        line("priority too large", "6, 1000, 0, 512, 0, 0x10000", "priority `0x10000` is neither"),
        line("priority of no class", "6, 1000, 0, 512, 0, 0x8000", "priority `0x8000` is neither"),
        (
            "fio-latency",
            "out of order",
            b"70000, 1000, 0, 512, 0, 0\n9999, 1000, 0, 512, 0, 0\n".to_vec(),
            Line(2),
            "out of order: an arrival at 9.998999000 s after one at 69.999999000 s, more than 60 s late",
        ),
        (
            "fio-latency",
            "issue too late",
            b"5, 1000, 0, 512, 0, 0, 18446744073709551615\n".to_vec(),
            Line(1),
            "a time that is too large",
        ),
    ]
}

fn disksim_cases() -> Vec<Case> {
    let line = |name, line: &str, message| {
        ("disksim-ascii", name, format!("1.5 0 8 8 1\n{line}\n").into_bytes(), Line(2), message)
    };
    vec![
        ("disksim-ascii", "binary", vec![0xff; 100], Line(1), "expected 5 fields, found 1"),
        line("an empty line", "", "expected 5 fields, found 0"),
        line("a cut line", "2.0 0 8 8", "expected 5 fields, found 4"),
        line("a batch number", "2.0 0 8 8 1 1", "expected 5 fields, found 6"),
        line("time negative", "-2.0 0 8 8 1", "arrival `-2.0` is not a number"),
        line("time with an exponent", "2e3 0 8 8 1", "arrival `2e3` is not a number"),
        line("time with a tail", "2.0000000000x 0 8 8 1", "is not a number"),
        line("time too large", "18446744073710.0 0 8 8 1", "--time-unit says what it is in"),
        line("device negative", "2.0 -1 8 8 1", "device `-1` is not a number"),
        line("block negative", "2.0 0 -8 8 1", "block `-8` is not a number"),
        line("length zero", "2.0 0 8 0 1", "a length of zero sectors"),
        line("length absurd", "2.0 0 8 4294967296 1", "more than 4294967295"),
        line("end overflows", "2.0 0 18446744073709551615 8 1", "beyond the last address"),
        line("flags no number", "2.0 0 8 8 R", "flags `R` are no hexadecimal number"),
        line("flags with a sign", "2.0 0 8 8 +1", "flags `+1` are no hexadecimal number"),
        line("flags too large", "2.0 0 8 8 100000000", "flags `100000000` are no hexadecimal number"),
        line("out of order", "1.4 0 8 8 1", "out of order: an arrival at 0.001400000 s after one at"),
    ]
}

/// A record file of these words.
fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn btreplay_cases() -> Vec<Case> {
    let good = [0x10000, 5, 2, 2, 1, 5, 0, 512, 1];
    let second = |packet: [u64; 3]| words(&[&good[..], &[1, 6], &packet].concat());
    let case = |name, bytes, place, message| ("btreplay", name, bytes, place, message);
    let big_endian = good.iter().flat_map(|word: &u64| word.to_be_bytes()).collect();
    vec![
        case("cut in the header", words(&good[..3]), Whole, "ends in the middle of the header"),
        case(
            "version unknown",
            words(&[0x20000, 5, 0, 0]),
            Byte(0),
            "unsupported version: expected 0x10000 or 0x903, found",
        ),
        case("text", vec![b'x'; 100], Byte(0), "unsupported version"),
        case("of a big-endian machine", big_endian, Byte(0), "of a big-endian machine"),
        case(
            "cut in a bunch's header",
            words(&[&good[..], &[1]].concat()),
            Byte(72),
            "the middle of the header of a bunch",
        ),
        case("cut in a request", second([0, 512, 1])[..100].to_vec(), Byte(88), "ends in the middle of a request"),
        case(
            "an empty bunch",
            words(&[&good[..], &[0, 6]].concat()),
            Byte(72),
            "a bunch of 0 requests, expected 1 to 512",
        ),
        case("a huge bunch", words(&[&good[..], &[513, 6]].concat()), Byte(72), "a bunch of 513 requests, expected"),
        case(
            "two bunches missing",
            words(&[0x10000, 5, 3, 3, 1, 5, 0, 512, 1]),
            Byte(72),
            "counts 3 with 3 requests, there are 1 with 1",
        ),
        case(
            "more than it counts",
            words(&[&[0x10000, 5, 0, 0], &good[4..], &good[4..]].concat()),
            Byte(112),
            "counts 0 with 0",
        ),
        case("requests miscounted", words(&[&[0x10000, 5, 1, 2], &good[4..]].concat()), Byte(72), "there are 1 with 1"),
        case("direction unknown", second([0, 512, 2]), Byte(88), "a direction of 2, expected 0 (write) or 1 (read)"),
        case("a read of nothing", second([0, 0, 1]), Byte(88), "a length of zero sectors"),
        case("length no sectors", second([0, 100, 1]), Byte(88), "100 bytes, no whole sectors"),
        case("length absurd", second([0, 1 << 41, 1]), Byte(88), "more than 4294967295"),
        case("end overflows", second([u64::MAX, 512, 1]), Byte(88), "beyond the last address"),
        case("time beyond the range", words(&[&good[..], &[1, 1 << 62, 0, 512, 1]].concat()), Byte(88), "146 years"),
        case("out of order", words(&[&good[..], &[1, 4, 0, 512, 1]].concat()), Byte(88), "out of order: an arrival at"),
    ]
}

fn all_cases() -> impl Iterator<Item = Case> {
    [csv_cases(), iolog_cases(), latency_cases(), disksim_cases(), btreplay_cases()].into_iter().flatten()
}

#[test]
fn every_bad_input_is_refused_with_its_place() {
    for (format, name, bytes, place, message) in all_cases() {
        let error = read_bytes(format, &bytes, false).expect_err(name);
        assert!(error.to_string().contains(message), "{format}, {name}: {error} does not say {message}");
        assert_eq!(error.place, place, "{format}, {name}: {error}");
        assert!(error.to_string().contains("input"), "{format}, {name}: {error} does not name the file");
    }
}

/// The line, or request, is skipped and counted, and those around it are read.
#[test]
fn a_lenient_read_counts_what_it_skips() {
    let further = |format: &str, bytes: &[u8]| match format {
        "csv" => b"9,read,0,8,,0,0,0,0,,,,0\n".to_vec(),
        "fio-iolog" if bytes.starts_with(b"fio version 3") => b"9 a read 0 512\n".to_vec(),
        "fio-iolog" => b"a read 0 512\n".to_vec(),
        "fio-latency" => b"70001, 1000, 1, 512, 0, 0\n".to_vec(),
        "disksim-ascii" => b"3.0 0 0 8 1\n".to_vec(),
        _ => words(&[1, 9, 0, 512, 1]),
    };
    let skipped = |case: &Case| match case.0 {
        "csv" | "fio-iolog" => case.3 == Line(3),
        "btreplay" => case.3 == Byte(88) && !case.1.starts_with("cut"),
        _ => case.3 == Line(2),
    };
    let mut cases = 0;
    for (format, name, mut bytes, ..) in all_cases().filter(skipped) {
        bytes.extend(further(format, &bytes));
        let read = read_bytes(format, &bytes, true).unwrap();
        // The header of the record file counts two of its three bunches.
        assert_eq!((read.records.len(), read.losses.total()), (2, 1), "{format}, {name}: {:?}", read.losses);
        cases += 1;
    }
    assert!(cases > 60, "{cases}");
}

#[test]
fn a_cut_record_file_is_read_as_far_as_it_goes_if_lenient() {
    let whole = std::fs::read(data("virtio-mail.replay.0")).unwrap();
    let all = read_bytes("btreplay", &whole, false).unwrap().records;
    for cut in [33, 47, 48, 60, whole.len() / 2, whole.len() - 1] {
        assert!(read_bytes("btreplay", &whole[..cut], false).is_err(), "{cut}");
        let read = read_bytes("btreplay", &whole[..cut], true).unwrap();
        assert_eq!(read.losses.skipped["the rest of a truncated input"], 1, "{cut}");
        assert_eq!(read.records[..], all[..read.records.len()], "{cut}");
        assert!(read.records.len() + 1 >= (cut - 32) / 27, "{cut}");
    }
}

#[test]
fn a_csv_without_header_or_without_devices_is_refused_whatever_is_asked() {
    let rows = b"5,read,0,8,,0,0,0,0,,,,0\n5,read,0,8,,0,0,0,0,,,,0\n";
    let error = read_bytes("csv", rows, true).unwrap_err().to_string();
    assert!(error.contains("ends in the middle of the header"), "{error}");
    let options = ReadOptions { device: Some("vm0".to_owned()), ..ReadOptions::default() };
    let error = read_as("csv", &data("small.csv"), &options).unwrap_err().to_string();
    assert!(error.contains("there is no column `device`, so --device has no meaning"), "{error}");
}

#[test]
fn other_logs_of_fio_are_no_traces() {
    let folder = tempfile::tempdir().unwrap();
    for (name, what) in [("web_bw.1.log", "bandwidth"), ("web_iops.1.log", "IOPS")] {
        let path = folder.path().join(name);
        std::fs::write(&path, "5, 1000, 0, 512, 1024, 0\n").unwrap();
        let error = read_as("fio-latency", &path, &ReadOptions::default()).unwrap_err().to_string();
        let expected = format!("this is a log of {what}, which holds no requests; read the latency log beside it");
        assert!(error.contains(&expected), "{error}");
    }
}

#[test]
fn a_capture_is_all_the_files_of_its_device() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let file = |name: &str, time: u64, sector: u64| {
        let bytes = words(&[0x903, time, 1, 2, 2, time, sector, 512, 1, sector + 1, 512, 0]);
        std::fs::write(path(name), bytes).unwrap();
    };
    file("sda.replay.0", 7, 0);
    file("sda.replay.1", 5, 8);
    file("sda.replay.10", 7, 16);
    file("sdb.replay.0", 1, 24);
    std::fs::write(path("sda.replay.2"), words(&[0x903, 0, 0, 0])).unwrap();
    for other in ["sda.replay.0.rec", "sda.replay.+3", "sda.replay."] {
        std::fs::write(path(other), "no record file").unwrap();
    }
    for named in ["sda", "sda.replay.0", "sda.replay.10"] {
        let whole = read_as("btreplay", &path(named), &ReadOptions::default()).unwrap();
        let found: Vec<(u64, u64, u16)> = whole
            .records
            .iter()
            .map(|record| (record.request.arrival.as_ns(), record.request.lba.sector(), record.request.cpu))
            .collect();
        assert_eq!(found, [(5, 8, 1), (5, 9, 1), (7, 0, 0), (7, 1, 0), (7, 16, 10), (7, 17, 10)], "{named}");
        assert_eq!(whole.meta.provenance["btrecord_version"], "0.9.3");
        let formats = iocast_traces::formats::recognise(&path(named), &ReadOptions::default()).unwrap();
        assert_eq!((formats.members)(&path(named)).unwrap().len(), 4);
    }
    std::fs::copy(path("sda.replay.1"), path("sda.replay.1.gz")).unwrap();
    let error = read_as("btreplay", &path("sda"), &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("CPU 1 is there twice, as ") && error.contains("sda.replay.1.gz; keep one"), "{error}");
}

/// 32 bits of each request are padding, which btrecord does not clear.
#[test]
fn padding_in_a_record_file_means_nothing() {
    let direction = 1 | 0xdead_beef << 32;
    let read = read_bytes("btreplay", &words(&[0x10000, 5, 1, 1, 1, 5, 0, 512, direction]), false).unwrap();
    assert_eq!(read.records[0].request.operation, iocast_traces::Operation::Read);
}

/// In a CSV of `requests` requests, `impossible` complete before they are issued.
fn impossible_csv(requests: usize, impossible: usize) -> Vec<u8> {
    let line = |at: usize| format!("5,read,0,8,,0,0,0,0,,20,{},0\n", if at < impossible { 10 } else { 30 });
    [HEADER.to_owned()].into_iter().chain((0..requests).map(line)).collect::<String>().into_bytes()
}

#[test]
fn requests_with_times_in_an_impossible_order_are_counted_and_refused_above_a_hundredth() {
    let read = read_bytes("csv", &impossible_csv(100, 1), false).unwrap();
    assert_eq!((read.records.len(), read.losses.impossible["C before D"], read.losses.total()), (100, 1, 0));
    let error = read_bytes("csv", &impossible_csv(50, 49), false).unwrap_err();
    assert_eq!(error.place, Line(2));
    assert!(error.to_string().contains("49 of 50 requests have times in an impossible order"), "{error}");
    assert!(error.to_string().contains("C before D: 49"), "{error}");
    let lenient = read_bytes("csv", &impossible_csv(50, 49), true).unwrap();
    assert_eq!((lenient.records.len(), lenient.losses.impossible["C before D"]), (50, 49));
}
