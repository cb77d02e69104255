//! Errors that end the program with a code of their own.

use std::panic;
use std::process::ExitCode;

use traces::formats::parquet::is_caught;

use crate::output;

/// The command line asks for something impossible. The program ends with code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// The result breaks limits that the user stated. The program ends with code 3.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LimitsBroken(pub String);

/// The user stopped the program. It ends with code 130.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

impl UsageError {
    /// The message of another error, as a usage error.
    pub fn from_display(error: impl std::fmt::Display) -> anyhow::Error {
        UsageError(error.to_string()).into()
    }
}

/// Says nothing of the panics of the Parquet library that become errors: the error tells file and remedy.
pub fn hide_caught_panics() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |what| {
        if !is_caught() {
            usual(what);
        }
    }));
}

/// The program's exit code. Prints an error on standard error.
pub fn exit_code(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("iocast: {error:#}");
            match () {
                () if error.is::<UsageError>() => ExitCode::from(2),
                () if error.is::<LimitsBroken>() => ExitCode::from(3),
                () if error.is::<Interrupted>() => ExitCode::from(130),
                () => ExitCode::FAILURE,
            }
        }
    }
}
