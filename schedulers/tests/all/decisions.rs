//! What every scheduler decides in random sequences, against digests of what it decided when they were recorded. Of
//! mq-deadline, kyber and bfq the kernel's own code decides the same.

use std::fmt::Write;

use iocast_schedulers::build;

use crate::conformance::specs;
use crate::kernel_pair::recorded::{LOADS, digest, recorded};

const HEAD: &str = "\
# Digests of what schedulers decide in random sequences (tests/kernel_pair/recorded.rs): of one VM, and of three.
# An intended change: IOCAST_UPDATE_DECISIONS=1 cargo test -p iocast-schedulers --test all decisions::
";

#[test]
fn decisions_are_those_that_were_recorded() {
    let mut lines = HEAD.to_owned();
    let mut changed = Vec::new();
    for spec in specs() {
        let make = || build(&spec.parse().unwrap()).unwrap().scheduler;
        let digests = LOADS.map(|load| format!("{:016x}", digest(&make, &make, load).unwrap()));
        writeln!(lines, "{spec} {}", digests.join(" ")).unwrap();
        if recorded().get(spec.as_str()).is_none_or(|recorded| **recorded != digests) {
            changed.push(spec);
        }
    }
    if std::env::var("IOCAST_UPDATE_DECISIONS").is_ok_and(|value| value == "1") {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/decisions.txt"), lines).unwrap();
    } else {
        assert!(changed.is_empty(), "other decisions than recorded: {changed:#?}");
    }
}
