//! Input that asks for more than there is: memory, time, numbers. Every run has a bound on its address space and on its
//! time on a processor, beyond which the kernel ends it.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod program;

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use program::{bounded, sample};
use serde_json::Value;

/// Standard output and standard error of a run with bounds that succeeds.
fn succeeds(arguments: &[&str]) -> (String, String) {
    let output = bounded(arguments);
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success(), "{arguments:?}: {}: {err}", output.status);
    (out, err)
}

/// Exit code and standard error of a run with bounds that fails by itself.
fn fails(arguments: &[&str]) -> (i32, String) {
    let output = bounded(arguments);
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{arguments:?} succeeded");
    (output.status.code().unwrap_or_else(|| panic!("{arguments:?}: {}: {err}", output.status)), err)
}

/// A trace of `rows` equal requests, each column of which is one page.
fn one_page(path: &Path, rows: usize) {
    let of = SerializedFileReader::new(File::open(sample("file.parquet")).unwrap()).unwrap();
    let metadata = of.metadata().file_metadata();
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_dictionary_enabled(false)
        .set_data_page_size_limit(usize::MAX)
        .set_data_page_row_count_limit(usize::MAX);
    let schema = Arc::new(metadata.schema().clone());
    let mut writer =
        SerializedFileWriter::new(File::create(path).unwrap(), schema, Arc::new(properties.build())).unwrap();
    let extent = format!(
        r#"{{"records":{rows},"first_arrival_ns":0,"last_arrival_ns":0,"lba_min_sectors":0,"lba_end_sectors":0}}"#
    );
    for pair in metadata.key_value_metadata().unwrap() {
        match pair.key.as_str() {
            "iocast.checksum" => {}
            "iocast.extent" => {
                writer.append_key_value_metadata(KeyValue::new(pair.key.clone(), extent.clone()));
            }
            _ => writer.append_key_value_metadata(pair.clone()),
        }
    }
    let mut group = writer.next_row_group().unwrap();
    while let Some(mut column) = group.next_column().unwrap() {
        match column.untyped() {
            ColumnWriter::Int64ColumnWriter(column) => {
                column.write_batch(&vec![0; rows], Some(&vec![1; rows]), None).unwrap()
            }
            ColumnWriter::Int32ColumnWriter(column) => column.write_batch(&vec![0; rows], None, None).unwrap(),
            _ => panic!("a trace has integers only"),
        };
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
}

#[test]
fn a_small_parquet_file_takes_little_memory_whatever_it_states() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.parquet");
    // 72 bytes a row: more than all of the address space.
    one_page(&path, 8_000_000);
    assert!(fs::metadata(&path).unwrap().len() < 200_000);
    let path = path.to_str().unwrap();
    for command in [&["stat", path][..], &["compare", path, "--limit", "10", "--schedulers", "fifo,sstf"]] {
        let (code, message) = fails(command);
        assert_eq!(code, 1, "{message}");
        assert!(message.contains("page.parquet at row 0"), "{message}");
        assert!(message.contains("a page of 64000000 bytes, but at most 4 MiB are read"), "{message}");
    }
    // What iocast writes has enough in the same bounds.
    succeeds(&["stat", &sample("mail.parquet")]);
}

#[test]
fn files_beside_traces_that_never_end_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let zero = folder.path().join("zero.toml");
    std::os::unix::fs::symlink("/dev/zero", &zero).unwrap();
    let pipe = folder.path().join("pipe.toml");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mail = sample("mail.parquet");
    for path in [&zero, &pipe] {
        let file = path.to_str().unwrap();
        let job = path.with_extension("fio");
        std::os::unix::fs::symlink(path, &job).unwrap();
        for command in [
            &["place", file][..],
            &["compare", &mail, "--stack", file],
            &["compare", &mail, "--drive", file],
            &["compare", "--workload", file],
            &["compare", "--workload", job.to_str().unwrap()],
            &["predict", &mail, &mail, "--learn-from", file],
            &["capture", "lab", file],
        ] {
            let (_, message) = fails(command);
            assert!(message.contains("no regular file"), "{command:?}: {message}");
            assert!(message.contains(path.with_extension("").to_str().unwrap()), "{command:?}: {message}");
        }
    }
}

const HEADER: &str =
    "arrival_ns,operation,lba_sectors,sectors,flags,priority,vm,stream,cpu,inserted_ns,issued_ns,completed_ns,error\n";

/// A CSV of these lines.
fn csv(folder: &Path, lines: impl IntoIterator<Item = String>) -> String {
    let path = folder.join("trace.csv");
    fs::write(&path, [HEADER.to_owned()].into_iter().chain(lines).collect::<String>()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn times_up_to_the_end_of_their_range_are_replayed_and_later_ones_refused() {
    let folder = tempfile::tempdir().unwrap();
    let last = (1u64 << 62) - 1;
    let line = |arrival: u64, lba: u64| format!("{arrival},read,{lba},8,,0,0,1,0,,,{},0\n", arrival.max(last));
    let arrivals = [0, 5, last - 1_000, last];
    let trace = csv(folder.path(), arrivals.into_iter().zip([0, 800, 80, 8]).map(|(at, lba)| line(at, lba)));
    let schedulers: Vec<Value> =
        serde_json::from_str(&program::stdout(&["list", "schedulers", "--output-format=json"])).unwrap();
    let names: Vec<&str> = schedulers.iter().map(|scheduler| scheduler["name"].as_str().unwrap()).collect();
    let all = names.join(",");
    succeeds(&["stat", &trace]);
    for pacing in ["recorded", "scaled=0.5", "closed", "asap"] {
        succeeds(&["compare", &trace, "--schedulers", &all, "--drive", "fixed", "--pacing", pacing]);
    }
    let (code, message) =
        fails(&["compare", &trace, "--schedulers", "fifo,gsw", "--drive", "fixed", "--pacing", "scaled=2"]);
    assert_eq!(code, 1, "{message}");
    assert!(message.contains("trace.csv") && message.contains("more than 146 years"), "{message}");
    let (code, message) = fails(&["stat", &csv(folder.path(), [line(last + 1, 0)])]);
    assert_eq!(code, 1, "{message}");
    assert!(message.contains("trace.csv at line 2: a time of 4611686018.427387904 s"), "{message}");
}

#[test]
fn a_tunable_of_centuries_is_refused() {
    let mail = sample("mail.parquet");
    let (code, message) = fails(&["compare", &mail, "--schedulers", "fifo,gsw:busdriver_delay=9223372036s"]);
    assert_eq!(code, 2, "{message}");
    assert!(message.contains("gsw:busdriver_delay=`9223372036s` is not from 0ns to 2592000s"), "{message}");
}

#[test]
fn requests_in_an_impossible_order_are_an_error_or_counted_where_all_can_see() {
    let folder = tempfile::tempdir().unwrap();
    let line = |at: u64| format!("{at},read,0,8,,0,0,1,0,,{},{},0\n", at + 20, at + if at > 0 { 10 } else { 30 });
    let trace = csv(folder.path(), (0..50).map(line));
    for command in [&["stat", &trace][..], &["compare", &trace, "--schedulers", "fifo,sstf", "--drive", "fixed"]] {
        let (code, message) = fails(command);
        assert_eq!(code, 1, "{message}");
        assert!(message.contains("49 of 50 requests have times in an impossible order"), "{message}");
        assert!(message.contains("trace.csv at line 3") && message.contains("--lenient"), "{message}");
    }
    let (table, warning) = succeeds(&["stat", &trace, "--lenient"]);
    assert!(table.contains("impossible: C before D"), "{table}");
    assert!(warning.contains("49 requests with times in an impossible order: C before D"), "{warning}");
    let (json, _) = succeeds(&["stat", &trace, "--lenient", "--output-format", "json"]);
    let figures: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(figures["trace"]["losses"]["impossible"]["C before D"], 49);
    let replay = ["compare", &trace, "--lenient", "--schedulers", "fifo,sstf", "--drive", "fixed"];
    let (out, err) = succeeds(&replay);
    let said = [out, err].concat().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("49 requests have times in an impossible order: C before D"), "{said}");
    let converted = folder.path().join("trace.parquet");
    let (_, warning) = succeeds(&["convert", &trace, converted.to_str().unwrap(), "--lenient"]);
    assert!(warning.contains("49 requests with times in an impossible order"), "{warning}");
}

#[test]
fn a_trace_that_was_skipped_as_a_whole_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("words");
    fs::write(&path, "some text\nand more\n").unwrap();
    let path = path.to_str().unwrap();
    for command in
        [&["stat", path][..], &["compare", path, "--schedulers", "fifo,sstf"], &["convert", path, "x.parquet"]]
    {
        let (code, message) = fails(&[command, &["--lenient", "--input-format", "msr"]].concat());
        assert_eq!(code, 1, "{message}");
        assert!(message.contains("no request of it could be read (2 skipped: malformed)"), "{message}");
    }
}
