//! Runs the program for tests.
#![allow(dead_code, reason = "every test uses a part of it")]

use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;

/// Relative to this package, where cargo runs its tests: what the program prints is wrapped the same in any checkout.
pub fn sample(name: &str) -> String {
    format!("../traces/samples/{name}")
}

pub fn iocast() -> Command {
    let mut command = Command::cargo_bin("iocast").unwrap();
    command.env_remove("RAYON_NUM_THREADS").env_remove("COLUMNS");
    command
}

/// Standard output of a run that succeeds.
pub fn stdout(arguments: &[&str]) -> String {
    let assert = iocast().args(arguments).assert().success();
    String::from_utf8(assert.get_output().stdout.clone()).unwrap()
}

/// Exit code and standard error of a run that fails.
pub fn failure(arguments: &[&str]) -> (i32, String) {
    let output = iocast().args(arguments).output().unwrap();
    assert!(!output.status.success(), "{arguments:?} succeeded");
    assert!(output.stdout.is_empty(), "results on standard output of a failed run");
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

pub fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&stdout(&[arguments, &["--output-format=json"]].concat())).unwrap()
}

/// Address space of a run. A program with a few threads takes less than half of it; most of that is never touched.
const ADDRESSES_MIB: u64 = 512;
/// Time on processors of a run. All take a few seconds at most, in the slowest build.
const PROCESSOR_S: u64 = 60;

/// Runs the program with bounds on its address space and CPU time, beyond which the kernel ends it.
pub fn bounded(arguments: &[&str]) -> Output {
    let script = format!("ulimit -v {} && ulimit -t {PROCESSOR_S} && exec \"$0\" \"$@\"", ADDRESSES_MIB << 10);
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script]).arg(assert_cmd::cargo::cargo_bin("iocast")).args(arguments);
    // Each thread reserves as much as all bounds together otherwise.
    command.env("MALLOC_ARENA_MAX", "1").env("RAYON_NUM_THREADS", "2").output().unwrap()
}
