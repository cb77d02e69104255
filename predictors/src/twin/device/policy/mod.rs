//! Infers the dispatch order of a device, or of a VM's own scheduler, from isolated traces.
//!
//! 1. `choices` extracts every dispatch: how many reads and writes waited, which kind waited longest, and which request
//!    was dispatched. A choice is decisive if reads and writes both waited and the oldest of one kind is clearly older
//!    than the oldest of the other.
//! 2. `inference` follows every candidate policy through all choices. After each choice the policy's state is set by
//!    the request that the device really dispatched. The simplest policy wins, unless another explains clearly more
//!    choices (sign test).
//!
//! The policy is *sure* if every other candidate is clearly worse. A queue length that never occurred excludes no
//! policy: a drain that begins at n waiting writes can be detected only if n writes waited.
//!
//! Only five outcomes are known: first come first served, reads first, reads first with a drain of writes, weighted
//! turns, and unknown. Orders by address or by deadline are not inferred; they come out as unknown.

mod choices;
mod inference;

use std::fmt;

use schedulers::Scheduler;
use traces::spec::Spec;

pub(crate) use self::choices::{Choices, at_device, in_vm};
use crate::predictor::PredictError;

/// A dispatch order between reads and writes; requests of one kind go in order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// The oldest request first.
    Fcfs,
    /// The oldest read, or the oldest write if no read waits.
    ReadPriority,
    /// Reads first, until too many writes wait: then writes only, until few enough are left.
    Drain {
        /// The number of waiting writes that begins a drain.
        at: u32,
        /// The number of waiting writes at which a drain ends.
        to: u32,
    },
    /// A turn of reads, then a turn of writes, while both wait.
    Weighted {
        /// Reads in a turn.
        reads: u32,
        /// Writes in a turn.
        writes: u32,
    },
    /// None of the above explains the choices.
    Unknown,
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Fcfs => f.write_str("first come, first served"),
            Policy::ReadPriority => f.write_str("reads first"),
            Policy::Drain { at, to } => {
                write!(f, "reads first, but writes first from {at} waiting writes on, until {to} are left")
            }
            Policy::Weighted { reads, writes } => write!(f, "in turn {reads} reads and {writes} writes"),
            Policy::Unknown => f.write_str("unknown"),
        }
    }
}

impl Policy {
    /// The spec of the scheduler with this order; first come, first served if the order is unknown.
    pub(crate) fn scheduler(self) -> String {
        match self {
            Policy::Fcfs | Policy::Unknown => "fifo".to_owned(),
            Policy::ReadPriority => "read-priority".to_owned(),
            Policy::Drain { at, to } => format!("read-priority:drain_at={at},drain_to={to}"),
            Policy::Weighted { reads, writes } => format!("weighted:reads={reads},writes={writes}"),
        }
    }

    /// The policy's name without its parameters.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Policy::Fcfs => "fcfs",
            Policy::ReadPriority => "read-priority",
            Policy::Drain { .. } => "read-priority-drain",
            Policy::Weighted { .. } => "weighted",
            Policy::Unknown => "unknown",
        }
    }
}

/// The device's dispatch order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DispatchOrder {
    pub(crate) policy: Policy,
    /// Whether durable writes go ahead of all other requests.
    pub(crate) durable_first: bool,
}

/// Builds the scheduler that `spec` describes.
pub(crate) fn scheduler(spec: &str) -> Result<Box<dyn Scheduler>, PredictError> {
    let built = spec.parse().and_then(|spec: Spec| schedulers::build(&spec));
    built.map(|built| built.scheduler).map_err(|error| PredictError::DoesNotHold(error.to_string()))
}

/// Builds the registry's scheduler of this name with default settings.
pub(crate) fn shipped(name: &str) -> Box<dyn Scheduler> {
    scheduler(name).expect("the registry has it")
}
