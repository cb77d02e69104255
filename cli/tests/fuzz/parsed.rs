//! Files that are parsed and checked, and nets, which are solved.

use std::path::Path;
use std::sync::atomic::AtomicU64;

use capture::lab::Plan;
use iocast_bench::scenario::Scenario;
use queueing::exact::ctmc;
use queueing::net::{Net, description, draw, qpe};
use queueing::simulation::{Settings, simulate};
use schedulers::Registry;
use traces::histograms::{LogHistogram, summarise};
use traces::results::histograms::{HISTOGRAMS_VERSION, OperationInSecond, SecondOfVm};

use crate::harness::Target;
use crate::{contents, text};

/// Inputs of a short run.
const SHORT_RUN: u64 = 300;

/// Draws a net and solves it in both ways.
fn solve<E>(net: Result<Net, E>) -> bool {
    let Ok(net) = net else { return false };
    let _ = (draw::svg(&net), draw::dot(&net), ctmc::solve(&net, 300));
    simulate(&net, &Settings { events: [500, 500], precision: None, ..Settings::default() }).is_ok()
}

fn lab(path: &Path) -> bool {
    let _ = Plan::alone_under(&text(path), "bfq", Some(7), path);
    let Ok(plan) = Plan::read(path) else { return false };
    let _ = plan.groups();
    for vm in 0..plan.vms.len() {
        let _ = (plan.place(vm), plan.job(vm, Path::new("/")));
    }
    true
}

/// A line of histograms with so many reads.
fn second(reads: u64) -> Vec<u8> {
    let mut times = LogHistogram::default();
    (1..=reads).for_each(|ms| times.add(ms * 1_000_000));
    let of = OperationInSecond {
        requests: reads,
        bytes: reads * 4096,
        d2c_sum_ns: reads * (reads + 1) / 2 * 1_000_000,
        d2c_max_ns: reads * 1_000_000,
        d2c_ns: times.stored(),
        sectors: times.stored(),
    };
    let line = SecondOfVm {
        histograms_version: HISTOGRAMS_VERSION,
        start_unix_ns: 1_795_000_000_000_000_000 + reads as i64 * 1_000_000_000,
        length_ns: 1_000_000_000,
        begins: reads == 1,
        device: "sda".to_owned(),
        vm: format!("vm{}", reads % 3),
        read: Some(of.clone()),
        write: reads.is_multiple_of(2).then_some(of),
        device_in_flight_ns: 1_000_000_000,
        device_in_flight_max: 4,
        ..SecondOfVm::default()
    };
    (serde_json::to_string(&line).unwrap() + "\n").into_bytes()
}

pub(crate) fn targets() -> Vec<Target> {
    let lab_plans = [contents("capture/lab/plans", ".toml"), contents("traces/samples/lab-iscsi", "plan.toml")];
    let scenarios =
        Target::new("scenario", "input.toml", contents("benches/scenarios", ".toml"), SHORT_RUN, |path, _| {
            Scenario::parse(path, &text(path), &Registry::builtin()).is_ok()
        });
    vec![
        Target::new("net", "input.toml", contents("queueing/nets", ".toml"), SHORT_RUN, |path, _| {
            solve(description::parse(&text(path), "input.toml"))
        }),
        Target::new("net-qpe", "input.qpe", contents("cli/tests/fuzz/seeds", ".qpe"), SHORT_RUN, |path, _| {
            solve(qpe::parse(&text(path), "input.qpe"))
        }),
        Target::new("lab-plan", "input.toml", lab_plans.concat(), SHORT_RUN, |path, _| lab(path)),
        // Builds the drive.
        Target { resident_max_mb: 450, ..scenarios },
        Target::new("histograms", "input.jsonl", vec![(1..9).flat_map(second).collect()], SHORT_RUN, |path, way| {
            summarise(&[path.to_owned()], way.is_multiple_of(2), 10, &AtomicU64::new(0)).is_ok()
        }),
    ]
}
