//! The version of iocast, as results and files name the program that made them.

/// The version number, without the program's name.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The program's name and its version, such as `iocast 0.1.0`.
pub fn program_version() -> String {
    format!("iocast {VERSION}")
}
