//! `validate closed` on the lab's captures and on recordings of the kernel's schedulers.

use assert_cmd::Command;
use serde_json::Value;

/// Capture and the greatest error of requests per second: what is reached now, a little rounded.
const CAPTURES: &[(&str, f64)] = &[
    ("lab/virtio-mail.blktrace.0.gz", 0.02),
    ("lab/virtio-web.blktrace.0.gz", 0.02),
    ("lab/virtio-file.blktrace.0.gz", 0.18),
];

#[test]
fn captures_replayed_closed_on_their_own_drive_come_out_as_documented() {
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
