//! `iocast`: measure, replay and compare block I/O.

/// Prints a message on standard error, in the place of the standard library's macro. That one panics if nobody reads
/// there, but the exit code must not depend on that. Names in the message are made safe to show.
macro_rules! eprintln {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "{}", $crate::output::message(&format!($($text)*)));
    }};
}

/// Prints a note on standard error as `eprintln!` does: what is neither a warning nor an error. With `--quiet` nothing.
macro_rules! note {
    ($($text:tt)*) => {
        if !$crate::quiet::is_set() {
            eprintln!($($text)*);
        }
    };
}

mod arguments;
mod bench;
mod calibrate;
mod capture;
mod catalog;
mod compare;
mod convert;
mod diff;
mod doctor;
mod document;
mod error;
mod files;
mod interrupts;
mod kernel_scheduler;
mod lab_results;
mod list;
mod needs;
mod output;
mod output_format;
mod picture;
mod place;
mod predict;
mod progress;
mod quiet;
mod replay;
mod report;
mod reproduce;
mod scheduling;
mod screen;
mod secret_key;
mod serve;
mod shell;
mod stat;
mod storage;
mod sweep;
mod tune;
mod units;
mod validate;
mod vms;

use std::process::ExitCode;

use crate::arguments::{Cli, Command};

fn main() -> ExitCode {
    error::hide_caught_panics();
    let cli = Cli::parse_arguments();
    quiet::set(cli.quiet);
    error::exit_code(match cli.command {
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Calibrate(arguments) => calibrate::run(&arguments),
        Command::Capture(arguments) => capture::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Completions(arguments) => shell::completions(&arguments),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::Diff(arguments) => diff::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::KernelScheduler(what) => kernel_scheduler::run(&what),
        Command::List(arguments) => list::run(&arguments),
        Command::Man(arguments) => shell::man(&arguments),
        Command::Place(arguments) => place::run(&arguments),
        Command::Predict(arguments) => predict::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Reproduce(arguments) => reproduce::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Stat(arguments) => stat::run(&arguments),
        Command::Sweep(arguments) => sweep::run(&arguments),
        Command::Tune(arguments) => tune::run(&arguments),
        Command::Validate(arguments) => validate::run(&arguments),
        Command::Worker => sweep::worker::run(),
    })
}
