//! `iocast validate cross`: captures replayed on another device, against the shipped labs and simulated guests.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod program;

use std::path::Path;

use program::{failure, iocast, json, sample, stdout};
use serde_json::Value;

fn summary(result: &Value, figure: &str) -> [f64; 2] {
    let of = result["summary"].as_array().unwrap().iter().find(|of| of["figure"] == figure).unwrap();
    ["median", "p90"].map(|key| of[key].as_f64().unwrap())
}

/// Another name for a shipped lab, in a folder.
fn same_lab(folder: &Path, lab: &str) -> String {
    let (lab, link) = (std::path::absolute(sample(lab)).unwrap(), folder.join("again"));
    std::os::unix::fs::symlink(lab, &link).unwrap();
    link.to_str().unwrap().to_owned()
}

#[test]
fn on_the_recorded_device_a_replay_does_what_was_captured() {
    let folder = tempfile::tempdir().unwrap();
    let again = same_lab(folder.path(), "lab-suite/disk");
    let result = json(&["validate", "cross", &sample("lab-suite/disk"), &again]);
    // Twelve VMs there and back.
    let count = |result: &Value| ["cases", "left_out"].map(|of| result[of].as_array().unwrap().len());
    assert_eq!(count(&result), [24, 0]);
    let [rate, response] = ["requests_per_s", "read_response_mean_ns"].map(|figure| summary(&result, figure));
    // The errors reached today are 0.2 and 1.0 %, 0.6 and 3.6 %.
    assert!(rate[0] < 0.01 && rate[1] < 0.03, "{rate:?}");
    assert!(response[0] < 0.02 && response[1] < 0.04, "{response:?}");
    // Four VMs of the older lab, three repetitions, there and back: 0.3 and 0.9 %, 0.7 and 2.7 %.
    let folder = tempfile::tempdir().unwrap();
    let result = json(&["validate", "cross", &sample("lab-virtio"), &same_lab(folder.path(), "lab-virtio")]);
    assert_eq!(count(&result), [24, 0]);
    let [rate, response] = ["requests_per_s", "read_response_mean_ns"].map(|figure| summary(&result, figure));
    assert!(rate[0] < 0.01 && rate[1] < 0.03, "{rate:?}");
    assert!(response[0] < 0.02 && response[1] < 0.04, "{response:?}");
    let cases = result["cases"].as_array().unwrap();
    // There and back are the same replay, measured for the same time. The captured figures are those of all of the time.
    let of = |case: &Value, of: &str| case["figures"]["read_response_mean_ns"][of].clone();
    for case in cases {
        let same = |other: &&Value| {
            other["vm"] == case["vm"] && other["repetition"] == case["repetition"] && other["from"] == case["to"]
        };
        let back = cases.iter().find(same).unwrap();
        for what in ["captured", "replayed", "truth"] {
            assert_eq!(of(case, what), of(back, what), "{what} of {case}");
        }
        assert_eq!(case["replayed_ns"], back["replayed_ns"]);
    }
    let stack = cases[0]["stack"].as_str().unwrap();
    assert!(stack.contains("guest=mq-deadline@depth=8") && stack.contains("delay_down="), "{stack}");
}

#[test]
fn the_output_says_what_was_chosen_when_errors_had_been_seen() {
    let text = stdout(&["validate", "cross", "--synthetic", "--vms", "1"]);
    let text = text.replace('\n', " ");
    assert!(text.contains("measured for the same time") && text.contains("when errors of the shipped labs"), "{text}");
}

#[test]
fn a_transport_is_learned_from_the_other_vms() {
    let result = json(&["validate", "cross", &sample("lab-virtio"), &sample("lab-iscsi")]);
    let of = |vm: &str, from: &str| {
        let is_it = |case: &&Value| case["vm"] == vm && case["from"] == from && case["repetition"] == 1;
        result["cases"].as_array().unwrap().iter().find(is_it).unwrap()["stack"].as_str().unwrap().to_owned()
    };
    // Over the emulated network large reads take long; on virtio disks they do not.
    let bandwidth = |stack: &str| -> f64 {
        stack.split("bandwidth=").nth(1).map_or(f64::INFINITY, |rest| rest.split('/').next().unwrap().parse().unwrap())
    };
    let (to_iscsi, to_virtio) = (of("oltp", "lab-virtio"), of("oltp", "lab-iscsi"));
    assert!((5e6..20e6).contains(&bandwidth(&to_iscsi)), "{to_iscsi}");
    assert!(bandwidth(&to_virtio) > 1e8, "{to_virtio}");
}

#[test]
fn simulated_guests_have_the_same_bytes_for_any_number_of_threads() {
    let run = |threads: &str, seed: &str| {
        let mut command = iocast();
        command.args(["validate", "cross", "--synthetic", "--vms", "1", "--seed", seed, "--output-format", "json"]);
        let output = command.env("RAYON_NUM_THREADS", threads).output().unwrap();
        assert!(output.status.success());
        output.stdout
    };
    let one = run("1", "2");
    assert!(one == run("2", "2") && one != run("2", "3"));
    let result: Value = serde_json::from_slice(&one).unwrap();
    // What a model may be made on says so.
    assert_eq!(result["part"], "train");
    let counted = result["cases"].as_array().unwrap().len() + result["left_out"].as_array().unwrap().len();
    // From each of six devices to each of the five others.
    assert_eq!(counted, 30);
    for case in result["cases"].as_array().unwrap() {
        assert!(case["workload"].as_str().unwrap().starts_with("fio:"), "{case}");
    }
}

#[test]
fn a_part_of_a_split_is_run_alone_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let split = folder.path().join("split.toml");
    let text = "[workloads]\ntrain = [\"mail\", \"web\"]\ntest = [\"file\", \"oltp\"]\n[drives]\ntrain = [\"lab-virtio\", \"again\"]\n";
    std::fs::write(&split, text).unwrap();
    let again = same_lab(folder.path(), "lab-virtio");
    let labs = ["validate", "cross", &sample("lab-virtio"), &again, "--split", split.to_str().unwrap()];
    let train = json(&[&labs[..], &["--part", "train"]].concat());
    let vms: Vec<&str> = train["cases"].as_array().unwrap().iter().map(|case| case["vm"].as_str().unwrap()).collect();
    assert!(vms.len() == 12 && vms.iter().all(|vm| ["mail", "web"].contains(vm)), "{vms:?}");
    assert_eq!(train["part"], "train");
    assert!(stdout(&[&labs[..], &["--part", "test"]].concat()).contains("12 cases of the part test"));
    let (code, said) = failure(&[&labs[..], &["--part", "validation"]].concat());
    assert!(code == 2 && said.contains("no VM ran the same workload"), "{said}");
    std::fs::write(&split, "[workloads]\ntrain = [\"mail\"]\n[drives]\ntrain = [\"lab-virtio\", \"again\"]\n").unwrap();
    let (_, said) = failure(&[&labs[..], &["--part", "train"]].concat());
    assert!(said.contains("the split has no workload `web`"), "{said}");
}

#[test]
fn labs_that_cannot_be_compared_are_refused() {
    let lab = sample("lab-virtio");
    for (arguments, code, expected) in [
        (&["validate", "cross", &lab][..], 2, "2 values required"),
        (&["validate", "cross", &lab, &lab], 2, "two labs have the name lab-virtio"),
        (
            &["validate", "cross", &lab, "../traces/samples"],
            1,
            "name a folder of results that iocast capture lab wrote",
        ),
        (&["validate", "cross"], 2, "required"),
        (&["validate", "cross", &lab, &sample("lab-iscsi"), "--part", "test"], 2, "--split"),
        (&["validate", "consolidation", &sample("lab-suite/slow")], 2, "none of the 12 groups of VMs"),
    ] {
        let (found, said) = failure(arguments);
        assert!(found == code && said.contains(expected), "{arguments:?}: {said}");
    }
}
