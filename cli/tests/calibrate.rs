//! `iocast calibrate`: fits to models of known parameters, to files and to traces; the files it writes; the arguments
//! it refuses.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::path::{Path, PathBuf};
use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;

fn calibrate(folder: &Path, arguments: &[&str]) -> Output {
    Command::cargo_bin("iocast").unwrap().arg("calibrate").args(arguments).current_dir(folder).output().unwrap()
}

fn json(folder: &Path, arguments: &[&str]) -> Value {
    let output = calibrate(folder, &[arguments, &["--output-format=json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The exit code and standard error of a run that fails.
fn failure(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let output = calibrate(folder, arguments);
    assert!(output.stdout.is_empty());
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

fn parameter(calibration: &Value, model: usize, name: &str) -> f64 {
    let parameters = calibration["fits"][model]["parameters"].as_array().unwrap();
    parameters.iter().find(|parameter| parameter["name"] == name).unwrap()["value"].as_f64().unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

#[test]
fn fit_recovers_the_parameters_of_a_known_model_within_1_percent() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--drive", "cheetah-15k4:cache=off", "--models", "linear,linear"];
    let found = json(folder.path(), &arguments);
    assert_eq!((&found["schema_version"], &found["reads"]), (&1.into(), &100_000.into()));
    for (name, known) in [("a_ns", 4.25e6), ("b_ns", 5.25e6)] {
        let value = parameter(&found, 0, name);
        assert!((value - known).abs() < 0.01 * known, "{name}: {value}");
    }
    assert_eq!(found["dependence"]["depends_on_distance"], true);
    let known = root().join("drive-models/src/calibration/known.toml").display().to_string();
    let found = json(folder.path(), &["--drive", &known, "--reads", "5000", "--output", "k"]);
    for (name, known) in
        [("period_ps", 4_005_700_000.0), ("read_overhead_ns", 230_000.0), ("head_switch_ns", 600_000.0)]
    {
        let value = parameter(&found, 1, name);
        assert!((value - known).abs() < 0.01 * known, "{name}: {value}");
    }
    assert!(found["fits"][1]["goodness"]["relative_rms"].as_f64().unwrap() < 0.01, "{found}");
}

#[test]
fn fit_recovers_a_solid_state_drive_and_its_profile_names_unmeasured_properties() {
    let folder = tempfile::tempdir().unwrap();
    let found = json(folder.path(), &["--drive", "sata-ssd", "--models", "flash", "--reads", "1000"]);
    for (name, known) in [("command_and_read_ns", 89_900.0), ("transfer_byte_ps", 2_000.0)] {
        let value = parameter(&found, 0, name);
        assert!((value - known).abs() < 0.01 * known, "{name}: {value}");
    }
    assert!(found["fits"][0]["goodness"]["relative_rms"].as_f64().unwrap() < 0.01, "{found}");
    let text = std::fs::read_to_string(folder.path().join("sata-ssd-flash.toml")).unwrap();
    assert!(text.contains("taken over from sata-ssd: not measurable by reads alone"), "{text}");
    let refused = &json(folder.path(), &["--drive", "cheetah-15k4", "--models", "flash", "--reads", "1000"])["fits"][0];
    assert_eq!(refused["not_fitted"], "the times depend on distance, which those of flash do not");
}

#[test]
fn profiles_are_drives_and_runs_repeat_to_the_byte() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--drive", "cheetah-15k5", "--reads", "2000"];
    let written = json(folder.path(), &[&arguments[..], &["--output", "one"]].concat());
    let names =
        ["one-linear.toml", "one-mechanical.toml", "one-fixed.toml", "one-empirical.toml", "one.svg", "one.png"];
    assert_eq!(written["files"], Value::from(names.map(Value::from).to_vec()));
    calibrate(folder.path(), &[&arguments[..], &["--output", "two"]].concat());
    for name in names {
        let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
        assert_eq!(read(name), read(&name.replace("one", "two")), "{name}");
    }
    for name in &names[..4] {
        let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(text.contains("validation = \"on 1000 held-out reads of the model cheetah-15k5: explains"), "{text}");
        let again = json(folder.path(), &["--drive", name, "--reads", "300", "--force", "--output", "again"]);
        assert_eq!(again["source"], **name);
    }
}

#[test]
fn no_line_is_fitted_if_times_do_not_depend_on_distance() {
    let folder = tempfile::tempdir().unwrap();
    let flat = calibrate(folder.path(), &["--drive", "fixed", "--reads", "1000"]);
    let text = String::from_utf8(flat.stdout).unwrap();
    assert!(flat.status.success());
    assert!(
        text.contains("Times do NOT depend on distance") && text.contains("linear not fitted: the times"),
        "{text}"
    );
    assert!(text.contains("mechanical not fitted: no rotation found"), "{text}");
    assert!(!folder.path().join("fixed-linear.toml").exists() && folder.path().join("fixed-fixed.toml").exists());
    assert!(!std::fs::read_to_string(folder.path().join("fixed.svg")).unwrap().contains("line:"));
    assert!(text.contains("flash not fitted: longer reads take no more time"), "{text}");
    let forced = json(folder.path(), &["--drive", "fixed", "--reads", "1000", "--force-linear", "--force"]);
    assert_eq!((parameter(&forced, 0, "a_ns"), parameter(&forced, 0, "b_ns")), (1e6, 0.0));
    assert!(std::fs::read_to_string(folder.path().join("fixed.svg")).unwrap().contains("line: 1.00 + 0.00 d/D ms"));
}

#[test]
fn measured_file_is_not_changed() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("disk.img");
    let bytes: Vec<u8> = (0..4 << 20).map(|byte: u32| (byte / 512) as u8).collect();
    std::fs::write(&path, &bytes).unwrap();
    let found = json(folder.path(), &["--device", "disk.img", "--reads", "500"]);
    assert_eq!((&found["capacity_sectors"], &found["requests"]), (&8192.into(), &501.into()));
    assert!(parameter(&found, 2, "service_ns") > 0.0);
    // Reads of 1 MiB are among the attempts, and no drive is that small.
    assert!(found["fits"][4]["not_fitted"].is_string(), "{found}");
    assert!(found["notes"][0].as_str().unwrap().starts_with("a file was measured"), "{found}");
    assert!(!found["device"].as_array().unwrap().is_empty());
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}

#[test]
fn trace_is_fitted_to_reads_without_concurrent_requests() {
    let folder = tempfile::tempdir().unwrap();
    let trace = root().join("traces/samples/file.parquet").display().to_string();
    let found = json(folder.path(), &[&trace, "--capacity", "2g"]);
    assert_eq!(found["capacity_sectors"], 2 << 21);
    assert!(found["reads"].as_u64().unwrap() < found["requests"].as_u64().unwrap());
    let refused = found["fits"][1]["not_fitted"].as_str().unwrap();
    assert!(refused.contains("calibrate the drive itself"), "{refused}");
    // Half of all that was completed, not only of the reads that had the device to themselves.
    let drawn = parameter(&found, 3, "requests");
    assert!(drawn > found["reads"].as_f64().unwrap() && drawn < 0.6 * found["requests"].as_f64().unwrap(), "{drawn}");
    assert!(parameter(&found, 3, "depth") > 1.0 && found["fits"][3]["goodness"]["relative_rms"].is_f64());
    json(folder.path(), &["--drive", "file-empirical.toml", "--reads", "300", "--models", "fixed"]);
    let (code, said) = failure(folder.path(), &[&trace, "--capacity", "1m", "--force"]);
    assert!(code == 2 && said.contains("--capacity is 2048 sectors, but reads reach sector"), "{said}");
}

#[test]
fn impossible_arguments_are_refused_before_any_measurement() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("taken.svg"), "").unwrap();
    for (arguments, code, message) in [
        (&["--device", "absent"][..], 1, "absent: there is no such device or file"),
        (&["--device", "."], 1, ". is a directory"),
        (&["--device", "/dev/null"], 1, "/dev/null is neither a block device nor a file"),
        (&[], 2, "give one of: --device PATH"),
        (&["trace", "--drive", "fixed"], 2, "give one of: --device PATH"),
        (&["absent.parquet"], 1, "absent.parquet"),
        (&["--drive", "fixd"], 2, "unknown drive `fixd`; did you mean fixed?"),
        (&["--drive", "fixed", "--models", "cubic"], 2, "`cubic` is no model that can be fitted"),
        (&["--drive", "fixed", "--output", "taken"], 1, "taken.svg exists; overwrite it with --force"),
        (&["--drive", "fixed", "--output", "nowhere/x"], 1, "nowhere: this folder of --output does not exist"),
        (&["--drive", "fixed", "--output", ".."], 2, "it is the beginning of file names"),
        (&["--drive", "fixed", "--drive-cache", "off"], 2, "--drive-cache applies to a --device only"),
        (&["--drive", "fixed", "--picture-size", "10x10"], 2, "such as 900x600"),
        (&["--drive", "fixed", "--reads", "10"], 2, "10 is not in 200..=10000000"),
        (&["--drive", "fixed:capacity=4k"], 1, "it holds 8 sectors: too few"),
    ] {
        let (ended, said) = failure(folder.path(), arguments);
        assert!(ended == code && said.contains(message), "{arguments:?}: {ended} {said}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn interrupt_exits_with_130_and_writes_no_files() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::write(folder.path().join("disk.img"), vec![1; 4 << 20]).unwrap();
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("iocast"))
        .args(["calibrate", "--device", "disk.img", "--reads", "10000000"])
        .current_dir(folder.path())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // The facts of the device are printed when the signals are watched and the reads begin.
    let mut line = String::new();
    let mut stderr = std::io::BufReader::new(child.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut stderr, &mut line).unwrap();
    std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{line}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
