//! `iocast validate`: replays, forecasts, schedulers and drive models compared with measurements.

pub mod closed;
mod consolidation;
pub mod cross;
pub mod decisions;
pub mod drive;
mod errors_charts;
pub mod errors_tables;
pub mod free;
pub mod guest;
mod guest_queue;
mod guest_requests;
mod recorded_queue;
mod replayed;
pub mod scheduler;
pub mod split;

use anyhow::Result;

pub use guest_queue::ReplayedBy;

use crate::arguments::{Validate, ValidateWhat};

pub fn run(arguments: &Validate) -> Result<()> {
    match &arguments.what {
        ValidateWhat::Closed(arguments) => closed::run(arguments),
        ValidateWhat::Consolidation(arguments) => consolidation::run(arguments),
        ValidateWhat::Cross(arguments) => cross::run(arguments),
        ValidateWhat::Decisions(arguments) => decisions::run(arguments),
        ValidateWhat::Drive(arguments) => drive::run(arguments),
        ValidateWhat::Guest(arguments) => guest::run(arguments),
        ValidateWhat::Scheduler(arguments) => scheduler::run(arguments),
    }
}
