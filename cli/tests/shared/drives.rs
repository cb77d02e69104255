//! `validate drive` on the shared measurements of real drives.

use assert_cmd::Command;
use serde_json::Value;

/// Profile, trace, the least share within 250 µs or 5 % of the mean, and the greatest relative rms: what
/// is reached now, a little rounded.
const DRIVES: &[(&str, &str, f64, f64)] = &[
    ("atlas-10k", "atlas10k", 0.97, 0.008),
    ("atlas-iii", "atlas_III", 0.96, 0.010),
    ("barracuda", "barracuda", 0.97, 0.011),
    ("cheetah-15k5", "cheetah15k5", 0.84, 0.067),
    ("cheetah-4lp", "cheetah4LP", 0.95, 0.023),
    ("cheetah-9lp", "cheetah9LP", 0.97, 0.014),
    ("dec-rz26", "dec_rz26", 0.60, 0.016),
    ("hp-c2247a", "hp_c2247a", 0.93, 0.009),
    ("hp-c2490a", "hp_c2490a", 0.91, 0.009),
    ("hp-c3323a", "hp_c3323a", 0.28, 0.013),
    ("ibm-18es", "ibm18es", 0.96, 0.007),
    ("st41601n", "st41601n", 0.95, 0.004),
];

#[test]
fn every_measured_drive_is_timed_as_well_as_documented() {
    let root = crate::root();
    for (profile, trace, within, relative_rms) in DRIVES {
        let path = root.join("disks").join(format!("{trace}.first-half.trace.gz"));
        let mut program = Command::cargo_bin("iocast").unwrap();
        let output = program.args(["validate", "drive", profile]).arg(&path).args(["--output-format", "json"]);
        let output = output.output().unwrap();
        assert!(output.status.success(), "{profile}: {}", String::from_utf8_lossy(&output.stderr));
        let judged: Value = serde_json::from_slice(&output.stdout).unwrap();
        let figure = |pointer: &str| judged.pointer(pointer).and_then(Value::as_f64).unwrap();
        assert!(figure("/per_request/within_250us_or_5pct") >= *within, "{profile}: {judged}");
        assert!(figure("/relative_rms") <= *relative_rms, "{profile}: {judged}");
        assert!(figure("/per_request/mean_abs_error_ns") < figure("/empirical/mean_abs_error_ns"), "{profile}");
    }
}
