//! In which order waiting requests are taken, told from a recording.
//!
//! Whenever something is taken while others wait, the recording shows what was chosen. A choice tells policies apart if both kinds wait
//! and one of them clearly the longer. Every policy is followed through all choices, in the state that what was really taken has left it
//! in; the one that would have chosen otherwise least often is the policy, the simpler one unless another is clearly better. It is
//! *sure* if every other is clearly worse. What was never seen excludes nothing: that writes are not drained above some
//! number of them shows only where so many have waited.

mod choices;
mod inference;

use std::fmt;

use schedulers::Scheduler;
use traces::spec::Spec;

pub(crate) use self::choices::{Choices, at_device, in_vm};
use crate::predictor::PredictError;

/// An order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// The oldest first.
    Fcfs,
    /// The oldest read, and the oldest write if there is no read.
    ReadPriority,
    /// The same, but from so many waiting writes on these, until so few are left.
    Drain {
        /// So many begin it.
        at: u32,
        /// So many are left at its end.
        to: u32,
    },
    /// So many reads and so many writes in turn, while both wait.
    Weighted {
        /// Reads of a turn.
        reads: u32,
        /// Writes of a turn.
        writes: u32,
    },
    /// None of these.
    Unknown,
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Fcfs => f.write_str("first come, first served"),
            Policy::ReadPriority => f.write_str("reads first"),
            Policy::Drain { at, to } => {
                write!(f, "reads first, and from {at} waiting writes on these until {to} are left")
            }
            Policy::Weighted { reads, writes } => write!(f, "{reads} reads and {writes} writes in turn"),
            Policy::Unknown => f.write_str("unknown"),
        }
    }
}

impl Policy {
    /// The scheduler that takes requests so, as one would write it. Of an unknown order, as they come.
    pub(crate) fn scheduler(self) -> String {
        match self {
            Policy::Fcfs | Policy::Unknown => "fifo".to_owned(),
            Policy::ReadPriority => "read-priority".to_owned(),
            Policy::Drain { at, to } => format!("read-priority:drain_at={at},drain_to={to}"),
            Policy::Weighted { reads, writes } => format!("weighted:reads={reads},writes={writes}"),
        }
    }

    /// Its name without what was fitted.
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

/// In which order the device takes what waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DispatchOrder {
    pub(crate) policy: Policy,
    /// Writes that are to be durable go ahead of all others.
    pub(crate) durable_first: bool,
}

/// Builds the scheduler that `spec` names.
pub(crate) fn scheduler(spec: &str) -> Result<Box<dyn Scheduler>, PredictError> {
    let built = spec.parse().and_then(|spec: Spec| schedulers::build(&spec));
    built.map(|built| built.scheduler).map_err(|error| PredictError::DoesNotHold(error.to_string()))
}

/// A shipped scheduler without settings.
pub(crate) fn shipped(name: &str) -> Box<dyn Scheduler> {
    scheduler(name).expect("the registry has it")
}
