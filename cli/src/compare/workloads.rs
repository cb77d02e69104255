//! The simulated guests that the command line names, and the measure of their progress.

use std::path::Path;

use anyhow::Result;
use replay::sources::TimeWindow;
use traces::quantity::parse_sectors;
use traces::{Sectors, Timestamp};
use workloads::Until;
use workloads::plan::{GuestPlan, GuestSettings, Named};

use crate::arguments::{Switch, Workloads};
use crate::error::UsageError;

/// The guests named on the command line, on a drive of `capacity`.
///
/// # Errors
/// Unknown or clashing names, disks that do not fit, workloads that would never end.
pub fn gather(arguments: &Workloads, window: TimeWindow, capacity: Sectors) -> Result<GuestPlan> {
    let named = arguments.workloads.iter().map(|text| split(text)).collect::<Result<Vec<Named>, _>>()?;
    let settings = GuestSettings {
        seed: arguments.seed,
        capacity: arguments.guest_capacity,
        cache_bytes: arguments.guest_cache,
        keeps_journal: arguments.guest_journal == Switch::On,
    };
    let until = Until { requests: window.limit, time: window.to.map(|end| Timestamp::ZERO + end) };
    GuestPlan::new(&named, settings, until, capacity).map_err(UsageError::from_display)
}

/// `NAME=WORKLOAD@PLACE` → its parts. A `=` behind a `:` belongs to a tunable, an `@` that no size follows to a path.
fn split(text: &str) -> Result<Named, UsageError> {
    let (name, rest) = match text.split_once('=') {
        Some((name, rest)) if !name.contains(':') => (Some(name), rest),
        _ => (None, text),
    };
    if name == Some("") || rest.is_empty() {
        return Err(UsageError(format!("--workload {text}: expected [NAME=]WORKLOAD[@PLACE]")));
    }
    let named = |what: &str, place| Named { name: name.map(str::to_owned), what: what.to_owned(), place };
    match rest.rsplit_once('@') {
        Some((what, place)) if !what.is_empty() && !place.contains('/') && !Path::new(rest).exists() => {
            let place = parse_sectors(place).map_err(|error| UsageError(format!("--workload {text}: {error}")))?;
            Ok(named(what, Some(place)))
        }
        _ => Ok(named(rest, None)),
    }
}

/// The unit in which the progress of guests is measured: the one in which the total is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Simulated milliseconds.
    Time,
    /// Requests; the total may be unknown.
    Requests,
}

impl Measure {
    /// The measure of a run that ends at `until`, and its total if it is known.
    pub fn of(until: Until) -> (Measure, Option<u64>) {
        match until.time {
            Some(time) => (Measure::Time, Some(milliseconds(time))),
            None => (Measure::Requests, until.requests),
        }
    }
}

/// Whole simulated milliseconds since the start.
pub fn milliseconds(time: Timestamp) -> u64 {
    time.since(Timestamp::ZERO).as_ns() / 1_000_000
}
