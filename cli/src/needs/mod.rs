//! What subcommands need of the host. One row of [`NEEDS`] per need drives `iocast doctor` and the check that a
//! subcommand makes before it does anything.

mod probes;
mod registry;
mod resources;
pub mod uses;

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use capture::programs::find;

pub use probes::io_uring_unavailable;
pub use registry::{NEEDS, TABLES};
pub use resources::{memory_doubt, require_memory, space_doubt};
pub use uses::Use;

/// Checks a need: the found thing, or why it is missing and the remedy.
type Probe = fn() -> Result<String, String>;

/// Something that a subcommand needs of the host.
pub struct Need {
    pub name: &'static str,
    pub kind: Kind,
    /// The runs that fail without it.
    pub needed: &'static [Use],
    /// The runs that are better with it.
    pub useful: &'static [Use],
}

/// The kind of a need, and how it is checked.
#[derive(Clone, Copy)]
pub enum Kind {
    /// A program and its Debian package.
    Program(&'static str),
    /// A program that Debian has no package of, and where it comes from.
    Unpackaged(&'static str),
    /// A program of ours that is installed beside this one, and how it gets there.
    Companion(&'static str),
    /// A permission of this user.
    Permission(Probe),
    /// A property of the running kernel.
    Kernel(Probe),
    /// A device file.
    Device(Probe),
    /// Memory, or space on a disk.
    Resource(Probe),
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Program(_) | Kind::Unpackaged(_) | Kind::Companion(_) => "program",
            Kind::Permission(_) => "permission",
            Kind::Kernel(_) => "kernel",
            Kind::Device(_) => "device",
            Kind::Resource(_) => "resource",
        }
    }
}

impl Need {
    /// Looks for it on this host.
    ///
    /// # Errors
    /// It is missing: why, and the remedy.
    pub fn find(&self) -> Result<String, String> {
        let program = |remedy: String| match self.path() {
            Some(path) => Ok(path.display().to_string()),
            None => Err(format!("not installed: {remedy}")),
        };
        match self.kind {
            Kind::Program(package) => program(format!("{INSTALL} {package}")),
            Kind::Unpackaged(source) | Kind::Companion(source) => program(source.to_owned()),
            Kind::Permission(probe) | Kind::Kernel(probe) | Kind::Device(probe) | Kind::Resource(probe) => probe(),
        }
    }

    /// The path of a program; of a companion first beside this program.
    fn path(&self) -> Option<PathBuf> {
        let beside = || Some(std::env::current_exe().ok()?.with_file_name(self.name)).filter(|path| path.is_file());
        match self.kind {
            Kind::Companion(_) => beside().or_else(|| find(self.name)),
            _ => find(self.name),
        }
    }

    /// The Debian package of a program.
    pub fn package(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Program(package) => Some(package),
            _ => None,
        }
    }
}

const INSTALL: &str = "apt-get install";

/// The path of a companion, a program of ours in [`NEEDS`] that `run` cannot do without.
///
/// # Errors
/// As [`check`].
pub fn companion(name: &str, run: Use) -> Result<PathBuf> {
    check(&[run])?;
    let row = NEEDS.iter().find(|row| row.name == name);
    row.and_then(Need::path).with_context(|| format!("{name} has vanished"))
}

/// Checks that this host has all that a run needs, which is each of `uses`.
///
/// # Errors
/// Names all that is missing at once, each with its remedy, and one command that installs all missing programs.
pub fn check(uses: &[Use]) -> Result<()> {
    check_rows(NEEDS, uses)
}

fn check_rows(rows: &[Need], uses: &[Use]) -> Result<()> {
    let Some(subcommand) = uses.first().map(|one| one.subcommand) else { return Ok(()) };
    let needed = rows.iter().filter(|row| row.needed.iter().any(|one| uses.contains(one)));
    let missing: Vec<(&Need, String)> = needed.filter_map(|row| Some((row, row.find().err()?))).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = missing.iter().map(|(row, why)| format!("\n  {}: {why}", row.name)).collect();
    let mut packages: Vec<&str> = missing.iter().filter_map(|(row, _)| row.package()).collect();
    packages.sort_unstable();
    packages.dedup();
    let together = match packages.as_slice() {
        [] | [_] => String::new(),
        several => format!("\n  together: {INSTALL} {}", several.join(" ")),
    };
    bail!("{subcommand} cannot begin, because this host lacks:{}{together}", lines.concat());
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Use = Use { subcommand: "capture lab", when: None };
    const OTHER: Use = Use { subcommand: "capture lab", when: Some("with an iSCSI disk") };

    const fn row(name: &'static str, kind: Kind, needed: &'static [Use], useful: &'static [Use]) -> Need {
        Need { name, kind, needed, useful }
    }

    #[test]
    fn everything_that_a_run_lacks_is_named_at_once() {
        let rows = [
            row("sh", Kind::Program("dash"), &[ONE], &[]),
            row("no-such-program", Kind::Program("its-package"), &[ONE, OTHER], &[]),
            row("no-other-program", Kind::Program("another"), &[OTHER], &[]),
            row("no-source", Kind::Unpackaged("build it"), &[ONE], &[]),
            row("a wish", Kind::Program("wished"), &[], &[ONE]),
            row("a right", Kind::Permission(|| Err("you are nobody".to_owned())), &[ONE], &[]),
        ];
        assert_eq!(
            check_rows(&rows, &[ONE, OTHER]).unwrap_err().to_string(),
            "capture lab cannot begin, because this host lacks:\n  no-such-program: not installed: apt-get install \
             its-package\n  no-other-program: not installed: apt-get install another\n  no-source: not installed: \
             build it\n  a right: you are nobody\n  together: apt-get install another its-package"
        );
        let fewer = check_rows(&rows, &[OTHER]).unwrap_err().to_string();
        assert!(fewer.contains("no-other-program") && !fewer.contains("a right"), "{fewer}");
        assert!(check_rows(&rows[..1], &[ONE]).is_ok());
        assert!(check_rows(&rows, &[]).is_ok());
    }
}
