//! `iocast replay --throttle` on a scratch file, without root.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod program;
mod scratch;

use std::fs;
use std::time::{Duration, Instant};

use program::{failure, json, stdout};
use scratch::Scratch;
use serde_json::Value;

/// 50 reads within 250 ms, and what a Cheetah 15K.4 takes at least for one that is no hit. No two are adjacent, so that
/// none are merged if a busy host lets them wait.
fn reads() -> impl Iterator<Item = (u64, &'static str, u64, u64, u64)> {
    (0..50).map(|number| (number * 5000, "read", number * 13 % 50 * 320, 8, 300))
}
const ACCESS_NS: f64 = 4_250_000.0;

const CHEETAH: &str = "cheetah-15k4:cache=off";

fn throttled(trace: &str, device: &str, drive: &str, more: &[&str]) -> Value {
    let arguments = ["replay", trace, "--device", device, "--throttle", drive];
    json(&[&arguments, more].concat())["runs"][0].clone()
}

#[test]
fn a_throttled_device_takes_at_least_the_modelled_disks_times() {
    let scratch = Scratch::new();
    let (trace, disk, run) = (scratch.trace("reads.csv", reads()), scratch.str("disk"), scratch.str("run.csv"));
    for k in ["0.5", "3"] {
        let began = Instant::now();
        let result = throttled(&trace, &disk, CHEETAH, &["--k", k, "-o", &run, "--force"]);
        let factor: f64 = k.parse().unwrap();
        // The trace takes k times as long as it says.
        assert!(began.elapsed() >= Duration::from_secs_f64(0.245 * factor));
        let figures = &result["live"]["throttle"];
        assert_eq!((&figures["rule"], &figures["k"]), (&"fixed".into(), &factor.into()));
        assert_eq!((&figures["completions"], &figures["k_changes"]), (&50.into(), &0.into()));
        let all = &figures["all"];
        let (modelled, achieved) =
            (all["modelled_mean_ns"].as_f64().unwrap(), all["achieved_mean_ns"].as_f64().unwrap());
        assert!(achieved >= modelled && modelled > ACCESS_NS && modelled < 2.0 * ACCESS_NS, "{modelled} {achieved}");
        assert_eq!(all["requests"], 50);
        // The trace of the run is in the disk's scale, too.
        let text = fs::read_to_string(&run).unwrap();
        let arrivals = text.lines().skip(1).map(|line| line.split(',').next().unwrap().parse::<u64>().unwrap());
        assert!(arrivals.zip(reads()).all(|(arrival, (due, ..))| arrival >= due * 1000));
        let said = &result["live"]["faithful"];
        assert!(said.is_boolean(), "{said}");
    }
}

#[test]
fn k_is_looked_for_in_runs_of_their_own() {
    let scratch = Scratch::new();
    let (trace, disk) = (scratch.trace("reads.csv", reads()), scratch.str("disk"));
    let figures = throttled(&trace, &disk, CHEETAH, &["--k", "find", "--pacing", "asap=1"])["live"]["throttle"].clone();
    let searches = figures["searches"].as_array().unwrap();
    assert!((1..=12).contains(&searches.len()), "{searches:?}");
    assert!(searches.iter().all(|search| search["completions"] == 50 && search["k"].as_f64().unwrap() >= 1.0));
    assert_eq!(figures["rule"], "found");
    let k = |figures: &Value| figures["k"].as_f64().unwrap();
    assert!(k(&figures) >= k(searches.last().unwrap()), "{figures}");
    // Unless it was looked for as often as may be, the k that was found is kept.
    assert!(figures["late_completions"] == 0 || searches.len() == 12, "{figures}");
    let figures = throttled(&trace, &disk, CHEETAH, &["--k", "dynamic"])["live"]["throttle"].clone();
    assert_eq!((&figures["rule"], &figures["searches"]), (&"dynamic".into(), &Value::Array(Vec::new())));
    assert!(figures["k"].as_f64().unwrap() >= 1.0);
}

#[test]
fn a_k_that_the_device_cannot_keep_is_not_faithful() {
    let scratch = Scratch::new();
    let (trace, disk) = (scratch.trace("reads.csv", reads()), scratch.str("disk"));
    // 4 us of the disk are 4 ns of the device: none is that fast.
    let drive = "linear:a=4us,b=0,cache=off";
    let run = throttled(&trace, &disk, drive, &["--k", "0.001"]);
    let live = &run["live"];
    assert_eq!(live["faithful"], false);
    // Arrivals that come too late merge, so that fewer than 50 requests reach the device.
    let throttle = &live["throttle"];
    assert!(throttle["completions"].as_u64().unwrap() > 0);
    assert_eq!(throttle["late_completions"], throttle["completions"]);
    let because = format!("{0} of {0} completions came after the modelled disk's", throttle["completions"]);
    assert!(live["not_faithful_because"].to_string().contains(&because), "{because}");
    let said = stdout(&["replay", &trace, "--device", &disk, "--throttle", drive, "--k", "0.001"]);
    assert!(said.contains("NOT FAITHFUL") && said.contains("Completions after the disk's: "), "{said}");
}

#[test]
fn throttles_that_make_no_sense_are_refused() {
    let scratch = Scratch::new();
    let (trace, disk) = (scratch.trace("reads.csv", reads()), scratch.str("disk"));
    for (more, reason) in [
        (["--throttle", "cheetah-15k5", "--k", "8"], "its model is mechanical"),
        (["--throttle", "chetah-15k4", "--k", "8"], "cheetah-15k4"),
        (["--throttle", "cheetah-15k4", "--k", "0"], "k="),
        (["--throttle", "cheetah-15k4", "--k", "fastest"], "or dynamic, or find"),
    ] {
        let (code, said) = failure(&[&["replay", &trace, "--device", &disk], &more[..]].concat());
        assert!(code == 2 && said.contains(reason), "{more:?}: {code} {said}");
    }
    let (code, said) = failure(&["replay", &trace, "--device", &disk, "--k", "2"]);
    assert!(code == 2 && said.contains("--throttle"), "{said}");
}
