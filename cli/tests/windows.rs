//! The error of a window without requests calls options and keys as the help and the plan do.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::path::PathBuf;
use std::process::Command;

fn iocast(arguments: &[&str]) -> (bool, String, String) {
    let ran = Command::new(env!("CARGO_BIN_EXE_iocast")).args(arguments).output().unwrap();
    (ran.status.success(), String::from_utf8(ran.stdout).unwrap(), String::from_utf8(ran.stderr).unwrap())
}

fn sample(name: &str) -> String {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "traces", "samples", name].iter().collect();
    path.display().to_string()
}

/// What a command says whose window holds no request. Only `convert` goes on: it writes an empty trace.
fn error(arguments: &[&str]) -> String {
    let (done, _, said) = iocast(arguments);
    assert!(
        done == (arguments[0] == "convert") && said.contains("no request lies in the window of"),
        "{arguments:?}: {said}"
    );
    said
}

#[test]
fn empty_window_error_names_options_of_the_subcommands_help() {
    let folder = tempfile::tempdir().unwrap();
    let (mail, web, output) = (sample("mail.parquet"), sample("web.parquet"), folder.path().join("out.csv"));
    let capture = [env!("CARGO_MANIFEST_DIR"), "../traces/tests/data/blktrace/virtio-file.blktrace.0.gz"].join("/");
    for arguments in [
        vec!["compare", &mail, "--from", "1h"],
        vec!["predict", &mail, &web, "--start", "1h"],
        vec!["stat", &mail, "--start", "1h"],
        vec!["stat", &capture, "--start", "1h"],
        vec!["convert", &mail, output.to_str().unwrap(), "--start", "1h"],
    ] {
        let said = error(&arguments);
        let (_, help, _) = iocast(&[arguments[0], "--help"]);
        let known =
            |name: &str| help.split(|letter: char| !letter.is_alphanumeric() && letter != '-').any(|word| word == name);
        let words = said.split(|letter: char| !letter.is_alphanumeric() && letter != '-');
        let options: Vec<&str> = words.filter(|word| word.starts_with("--")).collect();
        assert!(options.len() >= 2 && options.iter().all(|option| known(option)), "{said}");
        // Whichever of its names the option was given by.
        assert!(options.contains(&arguments[arguments.len() - 2]), "{said}");
    }
}

#[test]
fn a_plan_has_keys_and_no_options() {
    let folder = tempfile::tempdir().unwrap();
    let vm = |name: &str| format!("[[vm]]\nname = {name:?}\ncapture = {:?}\n", sample(&format!("{name}.parquet")));
    for lun in ["", "drive = \"cheetah-9lp\"\n"] {
        let plan = format!("start = \"1h\"\n[[lun]]\nname = \"one\"\n{lun}{}{}", vm("mail"), vm("web"));
        std::fs::write(folder.path().join("plan.toml"), plan).unwrap();
        let (done, _, said) = iocast(&["place", &folder.path().join("plan.toml").display().to_string()]);
        assert!(!done && said.contains("`start` and `end` in the plan") && !said.contains("--"), "{lun}: {said}");
    }
}
