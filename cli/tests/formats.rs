//! Formats on the command line: outputs that `iocast convert` writes and refuses, traces of several devices, and the
//! list of formats.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use assert_cmd::Command;
use serde_json::Value;

fn mail() -> String {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "traces", "samples", "mail.parquet"].iter().collect();
    path.display().to_string()
}

fn iocast(folder: &Path, arguments: &[&str]) -> Output {
    Command::cargo_bin("iocast").unwrap().args(arguments).current_dir(folder).output().unwrap()
}

/// Standard error of a run that succeeds.
fn succeeds(folder: &Path, arguments: &[&str]) -> String {
    let output = iocast(folder, arguments);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {message}");
    message
}

/// Exit code and standard error of a run that fails.
fn fails(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let output = iocast(folder, arguments);
    assert!(!output.status.success(), "{arguments:?} succeeded");
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// The arrivals of reads and writes, which every format keeps to the microsecond.
fn arrivals_us(folder: &Path, trace: &str) -> Vec<u64> {
    let output = iocast(folder, &["convert", trace, "-", "--to", "csv"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let rows = text.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    let moves_data = |row: &Vec<&str>| row[1] == "read" || row[1] == "write";
    rows.filter(moves_data).map(|row| row[0].parse::<u64>().unwrap() / 1_000).collect()
}

#[test]
fn file_extension_of_the_output_chooses_its_format() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let limit = ["--limit", "500"];
    for (output, format, lossy) in [
        ("mail.csv", "csv", false),
        ("mail.iolog", "fio-iolog", false),
        ("mail.replay.0", "btreplay", false),
        ("mail.load", "blkreplay", true),
        ("mail.disksim", "disksim-ascii", true),
        ("mail.parquet", "parquet", false),
        ("mail", "parquet", false),
    ] {
        let flags: &[&str] = if lossy { &["--lossy"] } else { &[] };
        let message = succeeds(folder, &[&["convert", &mail(), output], &limit[..], flags].concat());
        assert!(
            message.contains(&format!("→ {output}: ")) && message.contains(&format!(" requests as {format}, layer")),
            "{message}"
        );
        // A log for fio does not begin at zero, as this trace does.
        let late = u64::from(format == "fio-iolog");
        let expected: Vec<u64> = arrivals_us(folder, "mail.csv").into_iter().map(|us| us + late).collect();
        assert_eq!(arrivals_us(folder, output), expected, "{output}");
        assert!(expected.len() > 400);
    }
    // A format that is named comes before the ending.
    succeeds(folder, &[&["convert", &mail(), "mail.txt", "--to", "csv"], &limit[..]].concat());
    assert_eq!(std::fs::read(folder.join("mail.txt")).unwrap(), std::fs::read(folder.join("mail.csv")).unwrap());
}

#[test]
fn a_format_that_cannot_be_written_is_a_usage_error_that_names_those_that_can() {
    let folder = tempfile::tempdir().unwrap();
    let written =
        ["parquet (.parquet)", "csv (.csv)", "fio-iolog (.iolog)", "btreplay (.replay.0)", "blkreplay (.load)"];
    for (arguments, message) in [
        (&["mail.vscsi"][..], "no writable format has the file extension of mail.vscsi; name a format with --to"),
        (&["mail.csv.gz"], "no writable format has the file extension of mail.csv.gz"),
        (&["-"], "standard output has no file extension; name the format with --to"),
        (&["mail.csv", "--to", "vscsi"], "--to vscsi: that format is only read; iocast writes"),
        (&["mail.csv", "--to", "excel"], "--to excel: that format is unknown; iocast writes"),
    ] {
        let (code, error) = fails(folder.path(), &[&["convert", &mail()], arguments].concat());
        assert_eq!(code, 2, "{error}");
        assert!(error.contains(message) && written.iter().all(|format| error.contains(format)), "{error}");
    }
    for (arguments, message) in [
        (&["mail.csv", "--provenance", "host=lab"][..], "only Parquet stores --provenance; leave it out to write csv"),
        (&["mail.csv", "--vm", "post"], "only Parquet stores --vm"),
    ] {
        let (code, error) = fails(folder.path(), &[&["convert", &mail()], arguments].concat());
        assert!(code == 2 && error.contains(message), "{error}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn requests_that_a_format_cannot_express_are_an_error_or_counted_with_lossy() {
    let folder = tempfile::tempdir().unwrap();
    let (code, error) = fails(folder.path(), &["convert", &mail(), "mail.load"]);
    assert_eq!(code, 1);
    assert!(
        error.contains(": blkreplay cannot express flushes; --lossy leaves such records out and counts them"),
        "{error}"
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let message = succeeds(folder.path(), &["convert", &mail(), "mail.load", "--lossy"]);
    // As pyarrow counts them: 39,664 records, of which 4,431 are flushes.
    assert!(message.contains("warning: 4431 records left out: blkreplay cannot express flushes"), "{message}");
    assert!(message.contains(": 35233 requests as blkreplay"), "{message}");
}

#[test]
fn a_window_without_requests_is_written_too() {
    let folder = tempfile::tempdir().unwrap();
    for output in ["none.csv", "none.iolog", "none.load", "none.parquet"] {
        let message = succeeds(folder.path(), &["convert", &mail(), output, "--start", "100000s"]);
        assert!(message.contains(": 0 requests as "), "{message}");
        assert!(arrivals_us(folder.path(), output).is_empty(), "{output}");
    }
}

#[test]
fn standard_output_is_for_text_and_may_be_closed_early() {
    let folder = tempfile::tempdir().unwrap();
    for format in ["parquet", "btreplay"] {
        let (code, error) = fails(folder.path(), &["convert", &mail(), "-", "--to", format]);
        assert!(code == 1 && error.contains("cannot write -: this format is written to files only"), "{error}");
    }
    // As with `| head`: the reader closes the pipe early.
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("iocast"))
        .args(["convert", &mail(), "-", "--to", "csv"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn existing_output_is_kept_without_force_and_never_replaced_if_it_is_no_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mail.csv"), "precious").unwrap();
    let (code, error) = fails(folder.path(), &["convert", &mail(), "mail.csv"]);
    assert!(code == 2 && error.contains("mail.csv exists; --force overwrites it"), "{error}");
    for force in [&[][..], &["--force"]] {
        let (code, error) = fails(folder.path(), &[&["convert", &mail(), "/dev/null", "--to", "csv"], force].concat());
        assert!(code == 1 && error.contains("what stands there is no regular file"), "{error}");
    }
    assert_eq!(std::fs::read(folder.path().join("mail.csv")).unwrap(), b"precious");
}

/// Two files, each with its own address space.
const TWO_DEVICES: &str = "fio version 3 iolog\n1 /dev/vda add\n1 /dev/vdb add\n10 /dev/vda read 0 4096\n\
                           20 /dev/vdb write 0 4096\n30 /dev/vda read 4096 4096\n";

#[test]
fn trace_of_several_devices_needs_a_choice_if_the_output_holds_one() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("two.iolog"), TWO_DEVICES).unwrap();

    let (code, error) = fails(folder, &["convert", "two.iolog", "two.load"]);
    assert_eq!(code, 1);
    for part in
        ["first devices are /dev/vda, /dev/vdb", "a blkreplay trace holds one; choose one of them with --device NAME"]
    {
        assert!(error.contains(part), "{error}");
    }
    // No other remedy helps.
    assert_eq!(fails(folder, &["convert", "two.iolog", "two.load", "--lossy"]).1, error);
    let message = succeeds(folder, &["convert", "two.iolog", "a.load", "--device", "/dev/vda"]);
    assert!(message.contains(": 2 requests as blkreplay"), "{message}");

    // If the capacity suffices for all, they stay apart.
    for output in ["two.csv", "again.iolog", "two.disksim", "two.parquet"] {
        let message = succeeds(folder, &["convert", "two.iolog", output]);
        assert!(message.contains(": 3 requests"), "{message}");
        let (code, error) = fails(folder, &["convert", output, "again.load"]);
        assert!(code == 1 && error.contains("choose one of them with --device NAME"), "{output}: {error}");
    }

    let replay = |trace| ["compare", trace, "--schedulers", "fifo,sstf"];
    for trace in ["two.iolog", "two.parquet"] {
        let (code, error) = fails(folder, &replay(trace));
        assert_eq!(code, 1);
        let message = "it holds several devices, each with its own address space: /dev/vda, /dev/vdb, …; \
                       choose one of them with --device NAME";
        assert!(error.contains(trace) && error.contains(message), "{error}");
        succeeds(folder, &[&replay(trace)[..], &["--device", "/dev/vda"]].concat());
    }
}

#[test]
fn records_of_other_devices_are_skipped_before_their_addresses_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let far = TWO_DEVICES.replace("write 0 4096", "write 1125899906842624 4096");
    std::fs::write(folder.path().join("far.iolog"), far).unwrap();
    // A footprint over both would not fit the drive.
    let (code, error) = fails(folder.path(), &["compare", "far.iolog", "--map", "remap"]);
    assert!(code == 1 && error.contains("it holds several devices"), "{error}");
}

#[test]
fn vms_that_share_a_device_are_replayed_on_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("two.iolog"), TWO_DEVICES).unwrap();
    succeeds(folder.path(), &["convert", "two.iolog", "two.csv"]);
    let devices = std::fs::read_to_string(folder.path().join("two.csv")).unwrap();
    std::fs::write(folder.path().join("shared.csv"), devices.replacen(",device,", ",vm,", 1)).unwrap();
    succeeds(folder.path(), &["compare", "shared.csv", "--schedulers", "fifo,sstf"]);
    assert_eq!(fails(folder.path(), &["compare", "two.csv", "--schedulers", "fifo,sstf"]).0, 1);
}

#[test]
fn list_of_formats_is_complete_and_fits_80_columns() {
    let folder = tempfile::tempdir().unwrap();
    let output = iocast(folder.path(), &["list", "formats"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let listed: Value =
        serde_json::from_slice(&iocast(folder.path(), &["list", "formats", "--output-format", "json"]).stdout).unwrap();
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for format in listed.as_array().unwrap() {
        let of = |key: &str| format[key].as_str().unwrap().to_owned();
        let access = if format["written"].as_bool().unwrap() { "read and written" } else { "read" };
        let title = format!("{}: {access}", of("name"));
        assert!(text.lines().any(|line| line == title || line.starts_with(&format!("{title} ("))), "{title}");
        for key in ["summary", "units", "layer", "traps"] {
            assert!(words(&text).contains(&words(&of(key))), "{key} of {title}");
        }
    }
    assert!(text.contains("fio-iolog: read and written (.iolog)\n") && text.contains("blktrace: read\n"), "{text}");
    let markdown = iocast(folder.path(), &["list", "formats", "--output-format", "markdown"]);
    let rows = String::from_utf8(markdown.stdout).unwrap();
    for text in [&text, &rows] {
        let text = words(text);
        for rule in
            ["146 years (2^62 ns)", "more than 1 % of the requests", "no request can be read is an error", "4 MiB"]
        {
            assert!(text.contains(rule), "{rule}: {text}");
        }
    }
    assert!(rows.contains("| csv ") && rows.contains("| read and written (.csv) "), "{rows}");
}
