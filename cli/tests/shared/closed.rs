//! `validate closed` on the lab's captures and on recordings of the kernel's schedulers.

use assert_cmd::Command;
use serde_json::Value;

/// A capture, and the bound on the error of its requests per second: the error reached today, rounded up a little.
const CAPTURES: &[(&str, f64)] = &[
    ("lab/virtio-mail.blktrace.0.gz", 0.02),
    ("lab/virtio-web.blktrace.0.gz", 0.02),
    ("lab/virtio-file.blktrace.0.gz", 0.18),
];

#[test]
fn closed_replays_on_the_fitted_drive_match_the_documented_errors() {
    let root = crate::root();
    for (name, bound) in CAPTURES {
        let mut program = Command::cargo_bin("iocast").unwrap();
        let program = program.args(["validate", "closed"]).arg(root.join(name));
        let output = program.args(["--output-format", "json"]).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        let error = result.pointer("/all/relative_error/requests_per_s").and_then(Value::as_f64).unwrap();
        assert!(error.abs() <= *bound, "{name}: {error}");
    }
}
