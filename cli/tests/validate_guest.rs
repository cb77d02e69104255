//! `iocast validate guest` on folders as its runs leave them, and inputs that it must refuse. `long_guest.rs` makes the
//! runs.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod guest_folder;
mod program;

use guest_folder::{PLAN, folder, lab};
use program::{failure, iocast, json, stdout};
use serde_json::Value;

fn figure<'a>(found: &'a Value, name: &str) -> &'a Value {
    let figures = found["vms"][0]["figures"].as_array().unwrap();
    figures.iter().find(|figure| figure["figure"] == name).unwrap()
}

fn near(value: &Value, expected: f64, tolerance: f64) {
    let found = value.as_f64().unwrap_or_else(|| panic!("{value} is no number"));
    assert!((found / expected - 1.0).abs() <= tolerance, "{found} instead of {expected}");
}

#[test]
fn measured_and_simulated_figures_stand_side_by_side() {
    let scratch = tempfile::tempdir().unwrap();
    folder(scratch.path());
    let path = scratch.path().to_str().unwrap();
    let found = json(&["validate", "guest", path]);
    assert_eq!(
        (&found["baseline"], &found["repetitions"], &found["measured_seconds"]),
        (&"none".into(), &2.into(), &8.into())
    );
    assert_eq!(
        (&found["kernel"], &found["queue_depth"], &found["late_runs"]),
        (&"6.1".into(), &4.into(), &Value::Array(vec![]))
    );
    // A read and a think time take 5 ms as measured and in each simulation, 10 ms as measured under bfq.
    let rate = figure(&found, "requests_per_s");
    let [none, bfq] = [&rate["schedulers"][0], &rate["schedulers"][1]];
    assert_eq!((&none["scheduler"], &bfq["scheduler"]), (&"none".into(), &"bfq".into()));
    near(&none["measured_mean"], 200.0, 1e-9);
    near(&bfq["measured_mean"], 100.0, 1e-9);
    near(&none["simulated"], 200.0, 0.01);
    near(&bfq["simulated"], 200.0, 0.01);
    near(&bfq["measured_ratio"], 0.5, 1e-9);
    near(&bfq["ratio_error"], 1.0, 0.02);
    near(&figure(&found, "bytes_per_s")["schedulers"][0]["measured_mean"], 200.0 * 4096.0, 1e-9);
    near(&figure(&found, "read_response_mean_ns")["schedulers"][1]["measured_mean"], 9e6, 1e-9);
    near(&figure(&found, "read_response_p99_ns")["schedulers"][0]["simulated"], 4e6, 0.02);
    let ranks = &rate["ranks"];
    assert_eq!((&ranks["ordered"], &ranks["agreeing"], &ranks["tied"]), (&1.into(), &0.into(), &Value::Array(vec![])));
    assert_eq!(ranks["reversed"], serde_json::json!([["none", "bfq"]]));
    // Nothing was written, so there are no figures of writes.
    assert_eq!(found["vms"][0]["figures"].as_array().unwrap().len(), 4);
    let stack = found["vms"][0]["simulations"][1]["stack"].as_str().unwrap();
    assert!(stack.contains("/guest=bfq:rotational=on@depth=4"), "{stack}");
    // The same as text.
    let text = stdout(&["validate", "guest", path]);
    for line in [
        "a: requests/s",
        "│ bfq  ┆ 100.0 ± 0.0 ┆     200.0 ┆ 0.500 ± 0.000 ┆     1.000 ┆ +100.0 % ┆    2 ┆         1 │",
        "Order: simulated as measured for 0 of 1 pairs with a measured order. Otherwise (better as measured first):",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let markdown = stdout(&["validate", "guest", path, "--output-format", "markdown"]);
    assert!(markdown.contains("### a: requests/s\n\n|"), "{markdown}");
}

#[test]
fn used_up_captures_and_late_drives_are_warned_of() {
    let scratch = tempfile::tempdir().unwrap();
    folder(scratch.path());
    lab(scratch.path(), "capture", &[(5, 6, 50_000)]);
    lab(scratch.path(), "bfq", &[(10, 10, 50_000), (10, 10, 1_000_001)]);
    let output = iocast().args(["validate", "guest"]).arg(scratch.path()).arg("--output-format=json").output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    // Of 6 s, 2 are not measured.
    near(&found["vms"][0]["simulations"][0]["measured_seconds"], 4.0, 0.01);
    near(&figure(&found, "requests_per_s")["schedulers"][0]["simulated"], 200.0, 0.01);
    assert!(
        said.contains("a under none: a process used up its captured requests after 6.0 s of the simulation"),
        "{said}"
    );
    assert_eq!(found["late_runs"], serde_json::json!(["bfq/runs/alone-a/2"]));
    assert!(said.contains("over 1 ms late for 1 % of requests in bfq/runs/alone-a/2; the host was busy"), "{said}");
}

#[test]
fn inputs_that_cannot_be_compared_are_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = scratch.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let plan = write("plan.toml", PLAN);
    let once = write("once.toml", &PLAN.replace("repetitions = 2", "repetitions = 1"));
    let absent = scratch.path().join("absent.toml").to_str().unwrap().to_owned();
    let empty = scratch.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let empty = empty.to_str().unwrap();
    let cases: [(&[&str], i32, &str); 6] = [
        (
            &[&plan, "--schedulers", "none,cfq"],
            2,
            "`cfq` is no scheduler of the guests' kernel, which has none, mq-deadline",
        ),
        (&[&plan, "--schedulers", "bfq,bfq"], 2, "--schedulers names bfq twice"),
        (&[&plan, "--schedulers", "bfq"], 2, "--schedulers: a comparison needs two or more"),
        (&[&once], 2, "once.toml: repetitions is 1; intervals need 2 or more"),
        (&[&absent], 2, "absent.toml"),
        (&[empty], 1, "cannot be read; name a folder"),
    ];
    for (arguments, code, message) in cases {
        let (found, said) = failure(&[&["validate", "guest"], arguments].concat());
        assert!(found == code && said.contains(message), "{arguments:?}: {found}: {said}");
    }
    let made = scratch.path().join("made");
    folder(&made);
    let made = made.to_str().unwrap();
    let (code, said) = failure(&["validate", "guest", made, "--schedulers", "bfq,none"]);
    assert!(code == 2 && said.contains("was captured under none, which must come first, not bfq"), "{said}");
    let (code, said) = failure(&["validate", "guest", made, "--schedulers", "none,kyber"]);
    assert!(
        code == 1 && said.contains("kyber/lab.json: cannot be read; complete the runs with PLAN.toml --resume"),
        "{said}"
    );
    // A lab stores its results after each run; a repetition counts when every VM has been in it.
    let stored = scratch.path().join("made/none/lab.json");
    let text = std::fs::read_to_string(&stored).unwrap();
    std::fs::write(&stored, text.replace("\"group\": \"alone-a\"", "\"group\": \"alone-b\"")).unwrap();
    let (code, said) = failure(&["validate", "guest", made]);
    assert!(code == 1 && said.contains("no repetition has every VM; complete the runs"), "{said}");
}

#[test]
fn all_missing_programs_are_named_before_anything_is_made() {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::write(scratch.path().join("plan.toml"), PLAN).unwrap();
    let mut command = iocast();
    command.current_dir(scratch.path()).env("PATH", "/nowhere").args(["validate", "guest", "plan.toml", "-o", "out"]);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("iocast: validate guest cannot begin, because this host lacks:\n"), "{said}");
    assert!(said.contains("\n  qemu-system-x86_64: not installed: apt-get install qemu-system-x86\n"), "{said}");
    assert!(output.status.code() == Some(1) && !scratch.path().join("out").exists());
}
