//! Names that anyone may have chosen: of processes, VMs and files. None reaches a terminal as it is, breaks a table, or
//! passes for a message of iocast.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod program;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Output;

use program::{iocast, sample};
use traces::formats::{self, parquet::ParquetWriter};
use traces::trace::{ReadOptions, TraceWriter};

/// A title of the window, the start of the line again, a line of its own, cells of a table, code, a link, an image,
/// text from right to left, a C1 control, nothing visible.
const HOSTILE: &str =
    "x\u{1b}]0;owned\u{7}\rforged\n| forged | b | `c` [d](e) <img> \u{202e}f\u{85}\u{9b}31m\u{7f}\u{200b}\u{2066}";

/// A trace as in the sample, of which every name is hostile, in a file of a hostile name.
fn hostile_trace(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(format!("{name}{HOSTILE}.parquet"));
    let mut writer = Box::new(ParquetWriter::create(&path).unwrap());
    let mut reader = formats::open(Path::new(&sample("mail.parquet")), &ReadOptions::default()).unwrap();
    for _ in 0..3000 {
        writer.write(&reader.next().unwrap().unwrap()).unwrap();
    }
    let mut meta = reader.meta().clone();
    meta.vms = vec![format!("{name}{HOSTILE}")];
    meta.streams.values_mut().for_each(|stream| *stream = HOSTILE.to_owned());
    meta.clock.name = HOSTILE.to_owned();
    meta.provenance.values_mut().for_each(|value| *value = HOSTILE.to_owned());
    writer.finish(&meta).unwrap();
    path
}

/// Whether a terminal obeys or hides the character.
fn is_bad(character: char) -> bool {
    character != '\n' && (character.is_control() || "\u{202e}\u{200b}\u{2066}".contains(character))
}

fn check(what: &str, text: &[u8]) -> String {
    let text = String::from_utf8(text.to_vec()).unwrap();
    assert!(!text.chars().any(is_bad), "{what}: {text:?}");
    for line in text.lines() {
        assert!(!line.trim_start_matches("| ").starts_with("forged"), "{what}: {text}");
    }
    text
}

/// The cells of a line of a Markdown table.
fn cells(line: &str) -> usize {
    let mut bars = 0;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => drop(characters.next()),
            '|' => bars += 1,
            '`' | '<' | '[' => panic!("markup from a name: {line}"),
            _ => {}
        }
    }
    bars
}

fn check_markdown(what: &str, text: &str) {
    let mut tables = 0;
    let lines: Vec<&str> = text.lines().collect();
    for table in
        lines.chunk_by(|a, b| a.starts_with('|') == b.starts_with('|')).filter(|lines| lines[0].starts_with('|'))
    {
        tables += 1;
        assert!(table.iter().all(|line| cells(line) == cells(table[0])), "{what}: {}", table.join("\n"));
    }
    assert!(tables > 0, "{what}: {text}");
}

fn run<S: AsRef<OsStr>>(arguments: &[S]) -> Output {
    iocast().args(arguments).output().unwrap()
}

/// Runs a subcommand in every output format, and with a report.
fn check_formats(arguments: &[&str]) {
    for format in ["table", "markdown", "json"] {
        let what = format!("{} {format}", arguments[..2].join(" "));
        let output = run(&[arguments, &["--output-format", format]].concat());
        let (text, errors) = (check(&what, &output.stdout), check(&what, &output.stderr));
        // Of `place`: the limits are broken, and there is a result.
        assert!(output.status.success() || output.status.code() == Some(3), "{what}: {errors}");
        match format {
            "markdown" => check_markdown(&what, &text),
            "json" => {
                let value: serde_json::Value = serde_json::from_str(&text).unwrap();
                assert!(holds(&value), "{what}: the name in JSON has changed");
            }
            _ => assert!(text.contains("owned"), "{what}: no name in {text}"),
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html").display().to_string();
    let output = run(&[arguments, &["--report", &page]].concat());
    assert!(output.status.success() || output.status.code() == Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    let page = check("the report", &std::fs::read(page).unwrap());
    assert!(page.contains("owned") && !page.contains("<img>"), "{page}");
}

/// Whether a string or key of the document holds the name as it is.
fn holds(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::String(text) => text.contains(HOSTILE),
        serde_json::Value::Array(values) => values.iter().any(holds),
        serde_json::Value::Object(fields) => fields.iter().any(|(key, value)| key.contains(HOSTILE) || holds(value)),
        _ => false,
    }
}

#[test]
fn results_show_hostile_names_as_escapes_and_markdown_keeps_its_tables() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (hostile_trace(folder.path(), "a"), hostile_trace(folder.path(), "b"));
    let (a, b) = (a.display().to_string(), b.display().to_string());
    let plan = folder.path().join(format!("plan{HOSTILE}.toml")).display().to_string();
    let named = |table: &str, name: &str, rest: &str| format!("[[{table}]]\nname = {}\n{rest}\n", toml_string(name));
    let capture = |path: &str| format!("capture = {}\nread_response = \"1us\"", toml_string(path));
    let text = [
        named("lun", &format!("lun{HOSTILE}"), "drive = \"cheetah-15k4\""),
        named("vm", &format!("vm a{HOSTILE}"), &capture(&a)),
        named("vm", &format!("vm b{HOSTILE}"), &capture(&b)),
    ];
    std::fs::write(&plan, text.concat()).unwrap();
    check_formats(&["stat", &a]);
    check_formats(&[
        "compare",
        &a,
        &b,
        "--schedulers",
        "fifo,cats",
        "--drive",
        "cheetah-15k4",
        "--per-vm",
        "--details",
    ]);
    check_formats(&["predict", &a, &b]);
    check_formats(&["place", &plan]);
    check_formats(&["validate", "closed", &a, "--drive", "cheetah-15k4"]);
}

fn toml_string(text: &str) -> String {
    toml::Value::from(text).to_string()
}

#[test]
fn pictures_of_hostile_names_are_valid_xml() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (hostile_trace(folder.path(), "a"), hostile_trace(folder.path(), "b"));
    let stem = folder.path().join("picture").display().to_string();
    let (a, b) = (a.display().to_string(), b.display().to_string());
    let output = run(&["compare", &a, &b, "--schedulers", "fifo,cats", "--pacing", "closed", "--per-vm", "-o", &stem]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let svg = std::fs::read_to_string(format!("{stem}.svg")).unwrap();
    assert!(!svg.chars().any(is_bad) && svg.contains("owned") && !svg.contains("<img>"), "{svg}");
}

#[test]
fn messages_show_hostile_names_as_escapes() {
    let folder = tempfile::tempdir().unwrap();
    let a = hostile_trace(folder.path(), "a").display().to_string();
    let file = |name: &str| folder.path().join(format!("{name}{HOSTILE}")).display().to_string();
    let (missing, text, toml) = (file("missing"), file("text"), file("profile") + ".toml");
    std::fs::write(&text, format!("{HOSTILE}\n{HOSTILE}\n")).unwrap();
    std::fs::write(&toml, format!("model = {}\n", toml_string(HOSTILE))).unwrap();
    let csv = file("out") + ".csv";
    let converted = run(&["convert", &a, &csv]);
    assert!(converted.status.success());
    assert!(check("convert", &converted.stderr).contains("owned"));
    assert!(!std::fs::read_to_string(&csv).unwrap().contains("owned"));
    let to = &csv[..];
    for arguments in [
        &["stat", &missing][..],
        &["stat", &text],
        &["stat", &text, "--input-format", "blkparse"],
        &["stat", &a, "--device", HOSTILE],
        &["stat", &a, HOSTILE],
        &["stat", "--no\u{1b}[31m-option"],
        &["stat", &a, "--input-format", HOSTILE],
        &["compare", &a, "--schedulers", HOSTILE],
        &["compare", &a, "--schedulers", &format!("cats:{HOSTILE}=5")],
        &["compare", &a, "--drive", &toml],
        &["compare", &a, "--drive", HOSTILE],
        // Too few reads for a fit.
        &["calibrate", &a],
        &["predict", &a, &text],
        &["place", &text],
        &["convert", &a, to],
        &["convert", &text, to],
        &["convert", &a, to, "--provenance", HOSTILE],
        &["validate", "closed", &missing],
        &["validate", "decisions", &missing, "--scheduler", HOSTILE],
        &["list", "drives", HOSTILE],
        &["list", "schedulers", HOSTILE],
        &["capture", "scrub", &missing, to],
        &["capture", "scrub", &text, &file("scrubbed")],
        &["capture", "iscsi", "--read", &text],
        &["capture", "recover", &text],
        &["doctor", "--for", HOSTILE],
        &["man", HOSTILE],
        &["reproduce", HOSTILE],
        &["serve", HOSTILE],
    ] {
        let what = arguments.join(" ").replace(HOSTILE, "HOSTILE");
        let output = run(arguments);
        assert!(!output.status.success(), "{what} succeeded");
        let said = check(&what, &output.stderr);
        assert!(["owned", "forged", "-option"].iter().any(|part| said.contains(part)), "{what}: {said}");
        check(&what, &output.stdout);
    }
}
