//! A disk that is full after a number of bytes: no command leaves a part of an output under its final name.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod program;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;
use program::sample;

/// Runs the program in `folder`, where no file may grow beyond `bytes`.
fn run(folder: &Path, bytes: usize, arguments: &[&str]) -> Output {
    // The signal of a file that is too large would end the program; ignored, it becomes an error, as of a full disk.
    let script = format!("trap '' XFSZ; exec prlimit --fsize={bytes} \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).arg(cargo_bin("iocast")).args(arguments).current_dir(folder).output().unwrap()
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let read =
        |entry: std::fs::DirEntry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap());
    entries.map(read).collect()
}

#[test]
fn outputs_are_whole_or_absent_wherever_the_disk_is_full() {
    let mail = std::fs::canonicalize(sample("mail.parquet")).unwrap().display().to_string();
    let compare = ["compare", &mail, "--limit", "200", "--schedulers", "fifo,cats"];
    let commands: [&[&str]; 7] = [
        &["convert", &mail, "out.csv", "--limit", "300"],
        &["convert", &mail, "out.parquet", "--limit", "300"],
        &["stat", &mail, "--series", "out.parquet"],
        &[&compare[..], &["--decision-log", "."]].concat(),
        &[&compare[..], &["--per-request", "out.parquet"]].concat(),
        &[&compare[..], &["--output", "picture"]].concat(),
        &["man", "--output", "."],
    ];
    for command in commands {
        let folder = tempfile::tempdir().unwrap();
        let output = run(folder.path(), 1 << 30, command);
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        let whole = files(folder.path());
        let most = whole.values().map(Vec::len).max().unwrap();
        for bytes in (0..10).map(|tenth| most * tenth / 10).chain([1, most - 1]) {
            let folder = tempfile::tempdir().unwrap();
            let output = run(folder.path(), bytes, command);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.code() == Some(1) && said.contains("File too large"), "{command:?}: {said}");
            for (name, left) in files(folder.path()) {
                assert!(whole.get(&name) == Some(&left), "{command:?}, {bytes} bytes: {name} is not whole");
            }
        }
    }
}
