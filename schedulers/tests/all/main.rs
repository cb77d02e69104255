//! The decisions of the schedulers, by hand-made cases and random ones. One program, since it is linked after each change
//! of a scheduler.

#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod anticipatory;
mod ba;
mod bfq;
mod bfq_idling;
mod bfq_latency;
mod bfq_merging;
mod bfq_processes;
mod by_operation;
mod cats;
mod cfq;
mod cfq_3_5;
mod cfq_idling;
mod cfq_processes;
mod conformance;
mod deadline;
mod decisions;
mod drive_level;
mod driver;
mod esx;
mod hypervisor;
#[path = "../kernel_pair/mod.rs"]
mod kernel_pair;
mod kyber;
mod mq_deadline;
mod rule_cases;
mod rules;
mod sweeps;
mod table;
