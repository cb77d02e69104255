//! `iocast validate`: replays, forecasts, schedulers and drive models compared with measurements.

pub mod closed;
mod consolidation;
pub mod decisions;
pub mod drive;
mod errors_charts;
pub mod errors_tables;
pub mod free;
pub mod guest;
mod recorded_queue;
mod replayed;
pub mod scheduler;

use anyhow::Result;

use crate::arguments::{Validate, ValidateWhat};

pub fn run(arguments: &Validate) -> Result<()> {
    match &arguments.what {
        ValidateWhat::Closed(arguments) => closed::run(arguments),
        ValidateWhat::Consolidation(arguments) => consolidation::run(arguments),
        ValidateWhat::Decisions(arguments) => decisions::run(arguments),
        ValidateWhat::Drive(arguments) => drive::run(arguments),
        ValidateWhat::Guest(arguments) => guest::run(arguments),
        ValidateWhat::Scheduler(arguments) => scheduler::run(arguments),
    }
}
