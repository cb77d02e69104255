//! `iocast-tables`: tables of single requests, which `iocast report --table`, `--by` and `--sql` ask for. It is a
//! program of its own because it links polars.

mod arguments;
mod grouped;
mod named;
mod output;
mod quantiles;
mod query;
mod requests;

use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::OnceLock;

use anyhow::{Result, anyhow};
use clap::Parser as _;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use traces::printable::printable_lines;
use traces::whole_file::remove_unfinished;

use arguments::{Arguments, UsageError};
use output::{Output, is_closed_pipe};
use requests::Requests;

/// What the first panic said.
static PANIC: OnceLock<String> = OnceLock::new();

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // polars may panic in one of its threads, over a query or a file that it did not expect.
    panic::set_hook(Box::new(|panic| {
        let _ = PANIC.set(panic.payload_as_str().unwrap_or_default().to_owned());
    }));
    let ran = panic::catch_unwind(AssertUnwindSafe(|| run(&arguments)));
    let panicked =
        |_| anyhow!("polars failed in this query: {}", PANIC.get().map_or("no reason is known", String::as_str));
    match ran.unwrap_or_else(|cause| Err(panicked(cause))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // Names in a message begin no line of their own.
            eprintln!("iocast: {}", printable_lines(&format!("{error:#}")).replace('\n', "\n  "));
            if error.is::<UsageError>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    remove_unfinished_at_signals()?;
    let output = Output::planned(arguments.output.as_deref(), arguments.force)?;
    let requests = Requests::open(&arguments.files)?;
    output.write(query::table(arguments, &requests)?)
}

/// From now on, a signal that ends the program first removes unfinished outputs.
fn remove_unfinished_at_signals() -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            remove_unfinished();
            // Ends the program as if it had not watched. A failure leaves it running, and the next signal retries.
            let _ = emulate_default_handler(signal);
        }
    });
    Ok(())
}
