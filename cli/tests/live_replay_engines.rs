//! `iocast replay --engine`: iocast, fio and btreplay replay one trace on a loop device, and the kernel's events say what
//! each did.
//!
//! Needs root, loop devices, fio and blktrace.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod live;

use std::fs;
use std::path::Path;

use live::{Loop, errors, need, ran};
use serde_json::Value;

/// Writes a trace of 300 requests within 600 ms: every third a write, and a flush at the end.
fn trace(folder: &Path) -> String {
    let mut text = "arrival_ns,operation,lba_sectors,sectors,flags,priority,vm,stream,cpu,inserted_ns,issued_ns,\
                    completed_ns,error\n"
        .to_owned();
    for number in 0..300u64 {
        let operation = if number % 3 == 2 { "write" } else { "read" };
        text.push_str(&format!(
            "{},{operation},{},8,,0,0,1,0,,,,0\n",
            number * 2_000_000,
            number * 4001 % 60_000 / 8 * 8
        ));
    }
    text.push_str("600000000,flush,0,0,,0,0,1,0,,,,0\n");
    let path = folder.join("trace.csv");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn engines(arguments: &[&str]) -> Value {
    let output = ran(&[&["replay", "--output-format", "json"], arguments].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", errors(&output)))
}

#[test]
fn each_engine_sends_every_request_that_its_format_can_express() {
    for (program, package) in [("fio", "fio"), ("btreplay", "blktrace")] {
        need(program, package);
    }
    let device = Loop::new(64);
    let trace = trace(device.folder.path());
    let common = [&trace, "--device", device.str(), "--engine", "iocast", "--engine", "fio", "--engine", "btreplay"];
    // Reads alone; then everything.
    for (more, asked) in [(&[][..], 200), (&["--allow-writes"][..], 301)] {
        let result = engines(&[&common[..], more].concat());
        assert_eq!((&result["asked_requests"], &result["left_out_requests"]), (&asked.into(), &(301 - asked).into()));
        assert_eq!(result["asked_span_ns"].as_u64().unwrap() / 1_000_000, if asked == 301 { 600 } else { 596 });
        let names: Vec<&str> =
            result["engines"].as_array().unwrap().iter().map(|one| one["engine"].as_str().unwrap()).collect();
        assert_eq!(names, ["iocast", "fio", "btreplay"]);
        for engine in result["engines"].as_array().unwrap() {
            assert_eq!((&engine["failure"], &engine["lost_events"]), (&Value::Null, &0.into()), "{engine}");
            let count = |name: &str| engine[name].as_u64().unwrap();
            let flush = u64::from(engine["engine"] == "btreplay" && asked == 301);
            assert_eq!((count("missing_requests"), count("inexpressible_requests")), (0, flush), "{engine}");
            assert_eq!(count("arrived_requests"), asked - flush, "{engine}");
            let late = &engine["issue_time_error"];
            assert_eq!((&late["count"], &late["min_ns"]), (&engine["arrived_requests"], &0.into()));
            assert!(engine["device_time"]["mean_ns"].as_f64().unwrap() > 0.0, "{engine}");
        }
        // As much later as the trace is long: an engine that sent all at once would be that much too early.
        let ours = &result["engines"][0];
        assert!(ours["span_ns"].as_u64().unwrap() > 550_000_000, "{ours}");
    }
}

#[test]
fn arguments_for_an_engine_reach_it_and_its_own_words_are_shown() {
    need("fio", "fio");
    need("btreplay", "blktrace");
    let device = Loop::new(64);
    let trace = trace(device.folder.path());
    let asked = [&trace, "--device", device.str(), "--end", "50ms"];
    // The same program twice, each with files of its own.
    let twice = ["--engine", "btreplay", "--engine", "btreplay=-N", "--engine", "fio=--ioengine=psync --iodepth=1"];
    let result = engines(&[&asked[..], &twice].concat());
    for engine in &result["engines"].as_array().unwrap()[..2] {
        assert_eq!((&engine["failure"], &engine["missing_requests"]), (&Value::Null, &0.into()), "{engine}");
    }
    let engine = &result["engines"][2];
    assert_eq!(
        (&engine["engine"], &engine["missing_requests"]),
        (&"fio=--ioengine=psync --iodepth=1".into(), &0.into())
    );
    assert!(engine["command"].as_str().unwrap().ends_with(" --ioengine=psync --iodepth=1"));
    let arguments = [&["replay"], &asked[..], &["--engine", "fio=--ioengine=nonsense"]].concat();
    let output = ran(&arguments);
    let (said, shown) = (errors(&output), String::from_utf8_lossy(&output.stdout).replace('\n', " "));
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(shown.contains("fio=--ioengine=nonsense failed: ") && shown.contains("nonsense not loadable"), "{shown}");
    assert!(said.contains("fio=--ioengine=nonsense did not replay all requests"), "{said}");
}

#[test]
fn what_engines_cannot_do_is_refused() {
    let device = Loop::new(64);
    let trace = trace(device.folder.path());
    let refused = |more: &[&str], code: i32, reason: &str| {
        let output = ran(&[&["replay", &trace], more].concat());
        let said = errors(&output);
        assert!(output.status.code() == Some(code) && said.contains(reason), "{more:?}: {said}");
    };
    refused(&["--device", device.str(), "--engine", "vdbench"], 2, "expected iocast, fio, btreplay");
    refused(&["--device", device.str(), "--engine", "fio", "--pacing", "closed"], 2, "--pacing recorded or scaled=F");
    for option in [&["--scheduler", "cats"][..], &["--per-vm"], &["--depth", "4"], &["--throttle", "cheetah-15k4"]] {
        refused(&[&["--device", device.str(), "--engine", "fio"], option].concat(), 2, "cannot be used with");
    }
    let file = device.folder.path().join("file");
    fs::write(&file, vec![1; 64 << 20]).unwrap();
    refused(&["--device", file.to_str().unwrap(), "--engine", "iocast"], 1, "block device");
}
