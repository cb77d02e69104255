//! `iocast compare --stack` on the command line.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod program;

use std::path::Path;

use assert_cmd::Command;
use program::{iocast, sample};
use serde_json::Value;

/// `iocast compare` of the first 1,500 requests of two VMs, with more arguments.
fn compare(more: &[&str]) -> Command {
    let mut command = iocast();
    command.args(["compare", &sample("mail.parquet"), &sample("web.parquet"), "--pacing", "closed", "--limit", "1500"]);
    command.args(more);
    command
}

fn stdout(more: &[&str]) -> String {
    let assert = compare(more).assert().success();
    String::from_utf8(assert.get_output().stdout.clone()).unwrap()
}

fn json(more: &[&str]) -> Value {
    serde_json::from_str(&stdout(&[more, &["--output-format=json"]].concat())).unwrap()
}

/// Exit code and standard error of a run that fails.
fn failure(more: &[&str]) -> (i32, String) {
    let output = compare(more).output().unwrap();
    assert!(!output.status.success() && output.stdout.is_empty(), "{more:?} succeeded");
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

fn names(result: &Value) -> Vec<&str> {
    result["runs"].as_array().unwrap().iter().map(|run| run["scheduler"]["name"].as_str().unwrap()).collect()
}

#[test]
fn schedulers_are_compared_in_the_hypervisor_of_a_stack() {
    let result = json(&["--stack", "xen-cfq", "--schedulers", "cfq-3.5,deadline,ba", "--drive", "sata-500"]);
    assert_eq!(result["schema_version"], 1);
    assert_eq!((names(&result), &result["baseline"]), (vec!["cfq-3.5", "deadline", "ba"], &Value::from("deadline")));
    assert!(result["provenance"]["options"]["depth"].is_null(), "a stack has no depth of its own");
    assert_eq!(result["provenance"]["options"]["interval"], "1s");
    for run in result["runs"].as_array().unwrap() {
        assert_eq!(run["all"]["requests"].as_u64().unwrap() + run["other"]["requests"].as_u64().unwrap(), 1500);
        let layers = run["stack"]["layers"].as_array().unwrap();
        let layer_names: Vec<&str> = layers.iter().map(|layer| layer["layer"].as_str().unwrap()).collect();
        assert_eq!(layer_names, ["guest", "blkback", "hypervisor"]);
        assert_eq!(layers[2]["scheduler"], run["scheduler"]["name"]);
        assert_eq!(layers[0]["settings"]["max_request"], "44k");
        // The drive serves the requests that the last layer sends.
        let served = run["all"]["device_requests"].as_u64().unwrap();
        assert_eq!(layers[2]["requests"].as_u64().unwrap(), served);
        assert_eq!(run["queue"]["merged"], layers[2]["merged"]);
        assert!(layers[2]["context_switches"].as_u64().unwrap() < layers[2]["requests"].as_u64().unwrap());
        // The head's way is the same for all layers, over fewer and fewer requests.
        let way = |layer: &Value| {
            layer["seek_distance_mean_sectors"].as_f64().unwrap() * layer["requests"].as_u64().unwrap() as f64
        };
        assert!((way(&layers[0]) - way(&layers[2])).abs() < 1e-6 * way(&layers[2]));
        assert!(layers[0]["time_below"]["mean_ns"].as_f64() > layers[2]["time_below"]["mean_ns"].as_f64());
        // Each layer counts its own, and the run has those of the scheduler that is compared.
        assert_eq!(run["rules"], layers[2]["rules"]);
        assert_eq!(layers[0]["rules"][0]["name"], "idled");
        let sent = |layer: &Value| {
            let requests = layer["rules"].as_array().unwrap().iter().map(|rule| rule["requests"].as_u64().unwrap());
            requests.sum::<u64>()
        };
        assert_eq!(run["queue"]["dispatches"], sent(&layers[2]));
        // Writes of flush sequences do not pass the guests' schedulers, of which there is one for each VM.
        let of_guests = layers[0]["requests"].as_u64().unwrap();
        assert!((of_guests - 10..=of_guests).contains(&sent(&layers[0])), "{}", layers[0]);
        let fairness = &run["stack"]["fairness"];
        assert_eq!(fairness["interval_ns"], 1_000_000_000);
        let jain = fairness["jain"].as_f64().unwrap();
        assert!(
            (0.5..=1.0).contains(&jain)
                && fairness["jain_interval_min"].as_f64() <= fairness["jain_interval_mean"].as_f64()
        );
    }
}

#[test]
fn settings_and_picture_name_the_stacks() {
    let folder = tempfile::tempdir().unwrap();
    let stem = folder.path().join("stack").display().to_string();
    let text = stdout(&["--stack", "xen-cfq", "--schedulers", "cfq-3.5,deadline", "-o", &stem]);
    let text = text.split_whitespace().collect::<Vec<&str>>().join(" ");
    assert!(text.contains("on cheetah-15k4, stack xen-cfq, pacing closed;"), "{text}");
    let svg = std::fs::read_to_string(format!("{stem}.svg")).unwrap();
    assert!(svg.contains("stack xen-cfq, pacing closed, iocast"), "{svg}");
    let text = stdout(&["--stack", "bare", "--stack", "kvm-virtio"]);
    let text = text.split_whitespace().collect::<Vec<&str>>().join(" ");
    assert!(text.contains("on cheetah-15k4, stacks bare, kvm-virtio, pacing closed;"), "{text}");
}

#[test]
fn whole_stacks_are_compared_side_by_side() {
    let line = "guest=deadline@depth=4/hypervisor=sfq@depth=8";
    let arguments = ["--stack", "bare", "--stack", "kvm-virtio", "--stack", line, "--baseline", "bare"];
    let result = json(&arguments);
    assert_eq!(names(&result), ["bare", "kvm-virtio", "deadline/sfq"]);
    assert_eq!(result["runs"][0]["ratio"]["throughput"], 1.0);
    assert_eq!(result["runs"][2]["scheduler"]["settings"]["hypervisor"], "sfq");
    assert_eq!(result["runs"][2]["stack"]["spec"], line);
    for format in ["table", "markdown"] {
        let text = stdout(&[&arguments[..], &["--details", "--output-format", format]].concat());
        for word in ["Layers and fairness", "hypervisor:", "switches of VM", "fairness (Jain)", "until service begins"]
        {
            assert!(text.contains(word), "{word} is missing from the {format}");
        }
    }
}

#[test]
fn stack_of_one_layer_gives_the_figures_of_a_single_stage() {
    let alone = json(&["--schedulers", "deadline,cats", "--depth", "2", "--look-ahead", "1"]);
    let mut stacked = json(&["--stack", "disk=fifo@depth=2,look_ahead=on", "--schedulers", "deadline,cats"]);
    assert!(alone["runs"][0]["stack"].is_null(), "no layers without a stack");
    for run in stacked["runs"].as_array_mut().unwrap() {
        run.as_object_mut().unwrap().remove("stack");
    }
    assert_eq!(alone["runs"], stacked["runs"]);
}

#[test]
fn schedulers_in_several_stacks_and_in_a_layer_by_name() {
    let two = ["--stack", "xen-cfq", "--stack", "kvm-virtio", "--in", "guest"];
    let result = json(&[&two[..], &["--schedulers", "fifo,deadline,deadline:fifo_batch=1"]].concat());
    let both = |name: &str| ["fifo", "deadline", "deadline:fifo_batch=1"].map(|spec| format!("{name} {spec}"));
    assert_eq!(names(&result), [both("xen-cfq"), both("kvm-virtio")].concat());
    assert_eq!(result["runs"][2]["stack"]["layers"][0]["scheduler"], "deadline:fifo_batch=1");
    assert_eq!(result["runs"][2]["stack"]["layers"][2]["scheduler"], "cfq-3.5");
    let (code, message) = failure(&["--stack", "bare", "--stack", "bare"]);
    assert!(code == 2 && message.contains("stack `device=deadline` is named twice"), "{message}");
    let (code, message) = failure(&["--stack", "bare", "--stack", "xen-ba", "--baseline", "xen"]);
    assert!(
        code == 2 && message.contains("the baseline `xen` is not among the stacks compared: bare, xen-ba"),
        "{message}"
    );
}

#[test]
fn a_stack_in_a_file_and_its_series() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let text = "[[layer]]\nname = \"guest\"\nscheduler = \"cfq\"\nsettings = { depth = 8 }\n\n\
                [[layer]]\nname = \"lun\"\nscheduler = \"fifo\"\nsettings = { depth = 4, write_depth = 2 }\n";
    std::fs::write(path("mine.toml"), text).unwrap();
    let (series, log) = (path("series"), path("log"));
    let files = ["--series", &series, "--interval", "500ms", "--decision-log", &log];
    let result = json(&[&["--stack", &path("mine.toml"), "--per-vm"][..], &files].concat());
    assert_eq!(names(&result), ["mine"]);
    assert_eq!(result["runs"][0]["stack"]["spec"], "guest=cfq@depth=8/lun=fifo@depth=4,write_depth=2");
    assert!(Path::new(&log).join("0-mine.tsv").metadata().unwrap().len() > 1000);
    let bytes = std::fs::read(Path::new(&series).join("0-mine.parquet")).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    let intervals = result["runs"][0]["stack"]["fairness"]["intervals"].as_u64().unwrap();
    let span = result["runs"][0]["span_ns"].as_u64().unwrap();
    assert!(intervals > 0 && intervals <= span / 500_000_000 + 1);

    std::fs::write(path("wrong.toml"), text.replace("write_depth", "write_dept")).unwrap();
    let (code, message) = failure(&["--stack", &path("wrong.toml")]);
    assert!(
        code == 2 && message.contains("wrong.toml at line 9: `layer lun` has no tunable `write_dept`"),
        "{message}"
    );
}

#[test]
fn the_same_inputs_give_the_same_bytes_for_any_number_of_threads() {
    let run = |threads: &str| {
        let mut command = compare(&["--stack", "xen-cfq", "--schedulers", "cfq-3.5,ba,sfq", "--output-format", "json"]);
        command.env("RAYON_NUM_THREADS", threads).output().unwrap().stdout
    };
    let one = run("1");
    assert!(!one.is_empty());
    assert_eq!(one, run("5"));
}

#[test]
fn unknown_names_in_a_stack_end_with_code_2_and_similar_names() {
    for (arguments, expected) in [
        (&["--stack", "xen"][..], "unknown stack `xen`; did you mean xen-ba, xen-cfq?"),
        (&["--stack", "vax"], "unknown stack `vax`"),
        (&["--stack", "absent.toml"], "stack absent.toml: No such file or directory"),
        (&["--stack", "guest=dedline"], "layer guest: unknown scheduler `dedline`; did you mean deadline"),
        (&["--stack", "guest=deadline@dept=2"], "`layer guest` has no tunable `dept`; did you mean depth"),
        (&["--stack", "bare", "--in", "lun"], "stack bare has no layer `lun`; it has device"),
        (&["--stack", "bare", "--depth", "2"], "cannot be used with '--depth"),
        (&["--stack", "bare", "--max-request", "64k"], "cannot be used with '--max-request"),
        (&["--in", "guest"], "--stack <STACK>"),
        (&["--interval", "1us"], "expected at least 1ms"),
        (&["--stack", "bare", "--schedulers", "fifo,fifo"], "scheduler `fifo` is named twice"),
    ] {
        let (code, message) = failure(arguments);
        assert_eq!(code, 2, "{arguments:?}");
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
}

#[test]
fn the_list_of_stacks_comes_from_the_table() {
    let list = |format: &str| {
        let mut command = Command::cargo_bin("iocast").unwrap();
        let assert = command.args(["list", "stacks", "--output-format", format]).assert().success();
        String::from_utf8(assert.get_output().stdout.clone()).unwrap()
    };
    let listed: Value = serde_json::from_str(&list("json")).unwrap();
    for (entry, preset) in listed.as_array().unwrap().iter().zip(replay::stack::PRESETS) {
        let layers: Vec<&str> =
            entry["layers"].as_array().unwrap().iter().map(|layer| layer.as_str().unwrap()).collect();
        assert_eq!((entry["name"].as_str().unwrap(), layers.join("/")), (preset.name, preset.line.to_owned()));
        assert_eq!(entry["remark"], preset.origin);
    }
    let text = list("table");
    for word in ["xen-ba", "guest=mq-deadline@depth=128,per_vm=on", "write_depth", "no limit"] {
        assert!(text.contains(word), "{word} is missing");
    }
}
