//! The other programs that captures run. `iocast doctor` knows the package of each.

use std::path::PathBuf;
use std::process::Command;

/// Folders of administration programs, which some users' PATH lacks.
pub const ADMIN_FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// The path of `program`, on the PATH or in the administration folders.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(ADMIN_FOLDERS.map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// A command that runs `program`. Starting it fails with `NotFound` if the program is not installed.
pub(crate) fn command(program: &str) -> Command {
    Command::new(find(program).unwrap_or_else(|| PathBuf::from(program)))
}
