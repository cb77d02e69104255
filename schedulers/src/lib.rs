//! I/O schedulers as pure policies: which waiting request goes next.
//!
//! A scheduler never reads a clock, does no I/O and uses no global, so the same policy runs in
//! simulation and on a real device. Each policy is one file and one row of [`SCHEDULERS`].

pub mod anticipatory;
pub mod ba;
pub mod batch_fcfs;
pub mod bfq;
pub mod busdriver;
pub mod cats;
pub mod cfq;
pub mod conformance;
pub mod cost;
pub mod cscan;
pub mod deadline;
pub mod entry;
pub mod esx;
pub mod fifo;
pub mod gsw;
pub mod kernel;
pub mod kyber;
pub mod look;
pub mod mclock;
pub mod mq_deadline;
pub mod none;
pub mod plugin;
pub mod read_priority;
pub mod registry;
pub mod satf;
pub mod scan;
pub mod scheduler;
pub mod sfq;
pub mod shadow_cache;
pub mod sstf;
pub mod table;
pub mod token_bucket;
pub mod vr;
pub mod weighted;

mod decayed_mean;
mod directions;
mod elevator;
mod id_list;
mod interval_table;
mod lba_queue;
mod order;
mod plan;
mod predicted_hits;
mod processes;
mod slots;
mod sorted;
mod sweep;
mod vm_queue;

pub use cost::{AccessCost, DistanceCost};
pub use entry::{Entry, RuleInfo};
pub use registry::{Registry, SCHEDULERS, build};
pub use scheduler::{Capacity, Dispatch, Scheduler};
