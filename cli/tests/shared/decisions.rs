//! `validate decisions` on the recordings of Linux's own schedulers.

use assert_cmd::Command;
use serde_json::Value;

fn validate(file: &str, scheduler: &str, more: &[&str]) -> std::process::Output {
    let path = crate::root().join("kernel-decisions").join(file);
    Command::cargo_bin("iocast")
        .unwrap()
        .args(["validate", "decisions", path.to_str().unwrap(), "--scheduler", scheduler])
        .args(["--output-format", "json"])
        .args(more)
        .output()
        .unwrap()
}

#[test]
fn schedulers_decide_as_the_kernels_do() {
    for (file, scheduler, decisions_min, agreement_min) in [
        ("many8.mq-deadline.txt.gz", "mq-deadline", 11_000, 0.9995),
        ("mixsz10.mq-deadline.txt.gz", "mq-deadline", 9_000, 0.9995),
        ("tag4.mixed.mq-deadline.txt.gz", "mq-deadline", 600, 0.9995),
        ("tag4.randread.mq-deadline.txt.gz", "mq-deadline", 700, 0.9995),
        ("many8.kyber.txt.gz", "kyber", 10_000, 0.995),
        ("mixsz10.kyber.txt.gz", "kyber", 8_500, 0.995),
        ("tag4.mixed.kyber.txt.gz", "kyber", 500, 0.995),
        ("tag4.randread.kyber.txt.gz", "kyber", 500, 0.995),
        ("many8.bfq.txt.gz", "bfq", 11_000, 0.998),
        ("mixsz10.bfq.txt.gz", "bfq", 10_000, 0.998),
        ("tag4.mixed.bfq.txt.gz", "bfq", 600, 0.998),
        ("tag4.randread.bfq.txt.gz", "bfq", 600, 0.998),
    ] {
        let output = validate(file, scheduler, &[]);
        assert!(output.status.success(), "{file}: {}", String::from_utf8_lossy(&output.stderr));
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(result["decisions"].as_u64().unwrap() >= decisions_min, "{file}: {}", result["decisions"]);
        assert!(result["agreement"].as_f64().unwrap() >= agreement_min, "{file}: {result}");
        assert!(result["baseline_cscan"].as_f64().unwrap() < agreement_min, "{file}");
        let misses = result["misses"].as_array().unwrap();
        assert_eq!(
            misses.len() as u64,
            result["decisions"].as_u64().unwrap() - result["agreed"].as_u64().unwrap(),
            "{file}"
        );
        for miss in misses {
            assert!(!miss["reason"].as_str().unwrap().is_empty());
        }
    }
}

/// Response times at the 99th percentile of a process that waits for whole turns of others jump by a
/// turn; for bfq they are held to the whole capture's.
#[test]
fn schedulers_that_run_freely_serve_as_the_kernels_do() {
    for file in ["many8", "mixsz10"] {
        for scheduler in ["mq-deadline", "kyber", "bfq"] {
            let output = validate(&format!("{file}.{scheduler}.txt.gz"), scheduler, &["--free"]);
            assert!(output.status.success(), "{file}: {}", String::from_utf8_lossy(&output.stderr));
            let run: Value = serde_json::from_slice(&output.stdout).unwrap();
            let near = |ratio: &Value, tolerance: f64| (ratio.as_f64().unwrap() - 1.0).abs() <= tolerance;
            assert!(near(&run["throughput"]["ratio"], 0.03), "{file} {scheduler}: {}", run["throughput"]);
            assert!(near(&run["all"]["p50_ratio"], 0.1) && near(&run["all"]["p99_ratio"], 0.1), "{file} {scheduler}");
            assert!(run["requests"].as_u64().unwrap() >= 8_900, "{file} {scheduler}: {}", run["requests"]);
            for process in run["processes"].as_array().unwrap().iter().filter(|_| scheduler != "bfq") {
                let is_near = near(&process["p50_ratio"], 0.1) && near(&process["p99_ratio"], 0.1);
                assert!(is_near, "{file} {scheduler}: {process}");
            }
        }
    }
}

#[test]
fn a_capture_without_a_scheduler_is_refused() {
    let output = validate("tag4.mixed.none.txt.gz", "none", &[]);
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("tag4.mixed.none.txt.gz") && said.contains("no insertions"), "{said}");
}
