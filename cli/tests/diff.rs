//! `iocast diff`: what changed between two results.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod program;

use std::fs;
use std::path::Path;

use program::{failure, iocast, json, sample, stdout};
use serde_json::Value;

/// Results in a folder of their own.
struct Results(tempfile::TempDir);

impl Results {
    fn new() -> Results {
        Results(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// The result of a comparison of the trace's first 300 requests.
    fn compare(&self, name: &str, trace: &str, schedulers: &str) -> String {
        let fixed = ["compare", trace, "--limit", "300", "--drive", "cheetah-15k4", "--pacing", "closed"];
        let text = stdout(&[&fixed[..], &["--schedulers", schedulers, "--output-format", "json"]].concat());
        self.write(name, &text)
    }

    fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    /// A copy of a result with other values at these places (JSON pointers).
    fn changed(&self, name: &str, of: &str, values: &[(&str, Value)]) -> String {
        let mut result: Value = serde_json::from_str(&fs::read_to_string(of).unwrap()).unwrap();
        for (place, value) in values {
            *result.pointer_mut(place).unwrap() = value.clone();
        }
        self.write(name, &result.to_string())
    }
}

fn code(arguments: &[&str]) -> i32 {
    iocast().args(arguments).output().unwrap().status.code().unwrap()
}

fn message(arguments: &[&str]) -> String {
    failure(arguments).1
}

#[test]
fn equal_results_differ_in_nothing() {
    let results = Results::new();
    let old = results.compare("old.json", &sample("web.parquet"), "none,cats");
    let said = stdout(&["diff", &old, &old, "--threshold", "0%"]);
    assert!(said.contains("that both have are the same"), "{said}");
    let found = json(&["diff", &old, &old]);
    assert!(found["same"].as_u64().unwrap() > 100, "{found}");
    assert_eq!((&found["changed"], &found["past_threshold"]), (&Value::Array(Vec::new()), &0.into()));
}

#[test]
fn a_figure_past_its_threshold_is_named_and_ends_with_code_3() {
    let results = Results::new();
    let old = results.compare("old.json", &sample("web.parquet"), "none,cats");
    let result: Value = serde_json::from_str(&fs::read_to_string(&old).unwrap()).unwrap();
    let mean = result["runs"][1]["read"]["response_time"]["mean_ns"].as_f64().unwrap();
    let new = results.changed("new.json", &old, &[("/runs/1/read/response_time/mean_ns", (mean * 1.04).into())]);
    for (threshold, expected) in [("5%", 0), ("3%", 3), ("+3%", 3), ("-3%", 0), ("any", 0)] {
        assert_eq!(code(&["diff", &old, &new, "--threshold", threshold]), expected, "{threshold}");
    }
    let found = json(&["diff", &old, &new]);
    let changed = &found["changed"].as_array().unwrap()[..];
    assert_eq!(changed.len(), 1, "{found}");
    assert_eq!(changed[0]["key"], "runs[cats, cheetah-15k4].read.response_time.mean_ns");
    assert!((changed[0]["change"].as_f64().unwrap() - 0.04).abs() < 1e-9);
    let said = stdout(&["diff", &old, &new]);
    assert!(said.contains("read.response_time.mean_ns") && said.contains("+4.00 %"), "{said}");
    // What has no share of change: a figure that has vanished, one that was zero, another text.
    for (place, before, after) in [
        ("/runs/1/read/iops", Value::from(9.5), Value::Null),
        ("/runs/1/read/iops", 0.into(), 9.5.into()),
        ("/runs/1/status", "comparable".into(), "overloaded".into()),
    ] {
        let before = results.changed("before.json", &old, &[(place, before)]);
        let after = results.changed("after.json", &old, &[(place, after)]);
        assert_eq!(code(&["diff", &before, &after, "--threshold", "900%"]), 3, "{place}");
        assert_eq!(code(&["diff", &before, &after]), 0, "{place}");
    }
    // Thresholds by figure: the last that fits holds.
    let file = |text: &str| results.write("limits.toml", text);
    let strict = file("default = \"1%\"");
    assert_eq!(code(&["diff", &old, &new, "--threshold", &strict]), 3);
    let lenient = file(
        "default = \"1%\"\n[[figures]]\nfigure = \"mean_ns\"\nthreshold = \"1%\"\n\
         [[figures]]\nfigure = \"cats*response_time.*\"\nthreshold = \"+10%\"\n",
    );
    assert_eq!(code(&["diff", &old, &new, "--threshold", &lenient]), 0);
    let idle = file("[[figures]]\nfigure = \"mean_nanoseconds\"\nthreshold = \"1%\"\n");
    assert!(message(&["diff", &old, &new, "--threshold", &idle]).contains("`mean_nanoseconds` fits no figure"));
}

#[test]
fn a_scheduler_stands_beside_itself_with_other_tunables_and_runs_may_come_and_go() {
    let results = Results::new();
    let old = results.compare("old.json", &sample("web.parquet"), "none,deadline");
    let new = results.compare("new.json", &sample("web.parquet"), "none,deadline:fifo_batch=1");
    let found = json(&["diff", &old, &new]);
    assert_eq!((found["missing"].to_string(), found["added"].to_string()), ("[]".to_owned(), "[]".to_owned()));
    let settings = found["settings"].as_array().unwrap();
    let batch = "runs[deadline, cheetah-15k4].scheduler.settings.fifo_batch";
    assert!(settings.iter().any(|one| one["key"] == batch && one["new"] == "1"), "{found}");
    // A run that is missing is a miss if anything is bound, a new one is not.
    let more = results.compare("more.json", &sample("web.parquet"), "none,deadline,cats");
    assert_eq!(json(&["diff", &old, &more])["added"][0], "runs[cats, cheetah-15k4]");
    assert_eq!(json(&["diff", &old, &more])["changed"], Value::Array(Vec::new()));
    let appeared = results.changed("appeared.json", &old, &[("/runs/0/read", serde_json::json!({}))]);
    assert_eq!(code(&["diff", &appeared, &old, "--threshold", "0%"]), 0);
    assert_eq!(code(&["diff", &old, &appeared, "--threshold", "0%"]), 3);
    let bound = ["--threshold", "50%"];
    assert_eq!(code(&[&["diff", &more, &old][..], &bound].concat()), 3);
    assert_eq!(json(&["diff", &more, &old])["missing"][0], "runs[cats, cheetah-15k4]");
    assert_eq!(code(&["diff", &more, &old]), 0);
}

#[test]
fn results_that_say_nothing_about_each_other_are_refused() {
    let results = Results::new();
    let old = results.compare("old.json", &sample("web.parquet"), "none");
    let other = results.compare("other.json", &sample("mail.parquet"), "none");
    assert!(message(&["diff", &old, &other]).contains("the results are of other"));
    let renamed = results.changed("renamed.json", &old, &[("/provenance/traces/0/sha256", "0123456789".into())]);
    let said = message(&["diff", &old, &renamed]);
    assert!(said.contains("of other traces") && said.contains("web.parquet") && said.contains("01234567"), "{said}");
    let later = results.changed("later.json", &old, &[("/schema_version", 99.into())]);
    assert!(message(&["diff", &old, &later]).contains("its schema_version is 99"));
    let stat = results.write("stat.json", &stdout(&["stat", &sample("web.parquet"), "--output-format", "json"]));
    assert!(message(&["diff", &old, &stat]).contains("of stat"));
    assert!(stdout(&["diff", &stat, &stat]).contains("figures of stat"));
    let nothing = results.write("nothing.json", "{\"schema_version\": 1}");
    assert!(message(&["diff", &old, &nothing]).contains("no result of compare, predict, stat, reproduce"));
    let broken = results.write("broken.json", "{");
    assert!(message(&["diff", &old, &broken]).contains("broken.json: no JSON"));
    assert!(message(&["diff", &old, "missing.json"]).contains("missing.json"));
    assert!(!Path::new("missing.json").exists());
    for threshold in ["5", "x%", "nothing.toml"] {
        assert_ne!(code(&["diff", &old, &old, "--threshold", threshold]), 0, "{threshold}");
    }
}
