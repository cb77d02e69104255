//! Our mq-deadline, kyber and bfq against the kernel's own code, decision by decision.
//!
//! Needs the trees that `make test-kernel` unpacks.

mod kernel_pair;

use iocast_schedulers::build;
use kernel_pair::Pair;
use kernel_pair::load::{Load, run};
use traces::{Nanos, Timestamp};

#[test]
fn probe() {
    let get = |name: &str, or: &str| std::env::var(name).unwrap_or_else(|_| or.to_owned());
    let ours = get("OURS", "mq-deadline");
    let theirs = get("THEIRS", "kernel:/tmp/mq-deadline-612.so");
    let seeds: u64 = get("SEEDS", "200").parse().unwrap();
    let steps: u32 = get("STEPS", "5000").parse().unwrap();
    let on = |name: &str| get(name, "1") == "1";
    let load = Load {
        classes: on("CLASSES"),
        merges: on("MERGES"),
        requeues: on("REQUEUES"),
        discards: on("DISCARDS"),
        idle_gaps: on("GAPS"),
    };
    let log: Option<u64> = std::env::var("LOG").ok().map(|seed| seed.parse().unwrap());
    let (mut decisions, mut differences) = (0, 0);
    for seed in log.map_or(0..=seeds, |seed| seed..=seed) {
        let make = |spec: &str| build(&spec.parse().unwrap()).unwrap().scheduler;
        let mut pair = Pair::new(make(&ours), make(&theirs), Timestamp::ZERO + Nanos::from_s(100_000), log.is_some());
        let outcome = run(&mut pair, seed, load, steps);
        decisions += pair.decisions;
        if let Err(difference) = outcome {
            differences += 1;
            if differences <= 15 {
                println!("seed {seed} decision {} at {:?}: {}", difference.decision, difference.now, difference.what);
                for call in &difference.calls {
                    println!("    {call}");
                }
            }
        }
    }
    println!("{decisions} decisions, {differences} sequences differ");
}
