//! Faults by strace: which calls a command makes, and the same command with one of them failing.
//!
//! strace counts the calls of each name, per thread. Where a file has a name, only the calls about that file are
//! counted (`-P`), so that threads with other files do not matter. Files without a name, and what is printed, are
//! counted with all calls of that name, the loader's included: a fault at number N then comes at the Nth call of every
//! thread that makes so many. The numbers that are tried are those at which some thread of the clean run has such a
//! file. What was hit is read from strace's own record of the run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use super::served::iocast;

/// The calls at which a fault is tried, and the errors that each may have.
pub const CALLS: [(&str, &[&str]); 12] = [
    ("write", &["ENOSPC", "EIO", INTERRUPTED]),
    ("pwrite64", &["ENOSPC", "EIO", INTERRUPTED]),
    ("writev", &["ENOSPC", "EIO", INTERRUPTED]),
    ("read", &["EIO", INTERRUPTED]),
    ("pread64", &["EIO", INTERRUPTED]),
    ("openat", &["EIO", "ENOSPC"]),
    ("linkat", &["EIO", "ENOSPC"]),
    ("rename", &["EIO", "ENOSPC"]),
    ("unlink", &["EIO"]),
    ("fsync", &["EIO", "ENOSPC"]),
    ("ftruncate", &["EIO", "ENOSPC", INTERRUPTED]),
    ("fallocate", &["EIO", "ENOSPC", INTERRUPTED]),
];
/// The error after which a call is repeated.
pub const INTERRUPTED: &str = "EINTR";
/// Stands for a kill at the call's begin.
pub const KILL: &str = "KILL";

/// A fault at the call with this number, from one on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    pub call: &'static str,
    /// The file, if only its calls count.
    pub file: Option<String>,
    pub number: usize,
    pub kind: &'static str,
}

/// A call that a command made.
#[derive(Debug)]
pub struct Call {
    thread: String,
    pub name: String,
    /// Its arguments, as strace writes them.
    pub arguments: String,
    is_injected: bool,
}

impl Call {
    /// The number of the file that it writes or reads, if it is given by number.
    fn file(&self) -> Option<&str> {
        self.arguments.split_once('<').map(|(number, _)| number).filter(|number| number.parse::<u32>().is_ok())
    }

    /// Whether it is about standard error.
    pub fn is_message(&self) -> bool {
        self.file() == Some("2")
    }

    /// Whether a result may lack something if it fails.
    pub fn must_succeed(&self) -> bool {
        matches!(self.name.as_str(), "write" | "pwrite64" | "writev" | "fsync" | "ftruncate")
    }

    /// Whether it is about standard output.
    pub fn is_standard_output(&self) -> bool {
        self.file() == Some("1")
    }

    /// Whether it is about a file of the test's, or about what the command prints.
    fn is_ours(&self, folder: &Path) -> bool {
        if self.file().is_some() {
            return self.is_message() || self.is_standard_output() || self.arguments.contains(&of(folder));
        }
        let path = self.arguments.split('"').nth(1).unwrap_or_default();
        self.name != "openat" || !path.starts_with('/') || path.starts_with(&*folder.to_string_lossy())
    }

    /// The name of the file, if it has a lasting one.
    fn lasting_name(&self, folder: &Path) -> Option<String> {
        let name = if self.file().is_some() {
            self.arguments.split_once(&of(folder))?.1.split_once('>').filter(|(_, rest)| !rest.starts_with("(del"))?.0
        } else {
            let path = self.arguments.split('"').nth(1).filter(|_| self.name == "openat")?;
            path.strip_prefix(&format!("{}/", folder.display())).unwrap_or(path)
        };
        (!name.starts_with(['.', '#', '/'])).then(|| name.to_owned())
    }
}

/// What strace writes before the name of a file in `folder`.
fn of(folder: &Path) -> String {
    format!("<{}/", folder.display())
}

/// A command under strace in `folder`, with strace's record of it in `record`.
pub fn traced(folder: &Path, record: &Path, fault: Option<&Fault>) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-y", "-s", "0", "--quiet=attach,path-resolution", "-o"]).arg(record);
    match fault {
        None => command.arg(format!("--trace={}", CALLS.map(|(name, _)| name).join(","))),
        Some(Fault { call, kind, number, .. }) => {
            let how = if *kind == KILL { "signal=KILL".to_owned() } else { format!("error={kind}") };
            command.arg(format!("--trace={call}")).arg(format!("--inject={call}:{how}:when={number}"))
        }
    };
    if let Some(name) = fault.and_then(|fault| fault.file.as_ref()) {
        command.args(["-P", name, "-P"]).arg(folder.join(name));
    }
    // One thread for computations, so that the numbers of calls vary as little as possible.
    command.arg(iocast().get_program()).env("RAYON_NUM_THREADS", "1").current_dir(folder);
    // cargo's would let the loader look in many more places.
    command.env_remove("LD_LIBRARY_PATH").env_remove("COLUMNS");
    command
}

/// The calls of strace's record.
pub fn calls(record: &Path) -> Vec<Call> {
    let text = std::fs::read_to_string(record).expect("strace is not installed; Debian's package strace has it");
    let mut calls: Vec<Call> = Vec::new();
    for line in text.lines() {
        let (thread, rest) = line.split_once(' ').unwrap_or_default();
        let rest = rest.trim_start();
        let is_injected = rest.contains("(INJECTED)");
        if rest.starts_with("<... ") {
            let begun = calls.iter_mut().rev().find(|call| call.thread == thread).unwrap();
            begun.is_injected |= is_injected;
        } else if let Some((name, arguments)) = rest.split_once('(')
            && !rest.starts_with(['+', '-'])
        {
            let (thread, name) = (thread.to_owned(), name.to_owned());
            calls.push(Call { thread, name, arguments: arguments.to_owned(), is_injected });
        }
    }
    calls
}

/// The calls of a run at which its fault came. A killed thread has no mark: its last call is the one.
pub fn hit<'a>(calls: &'a [Call], fault: &Fault) -> Vec<&'a Call> {
    if fault.kind != KILL {
        return calls.iter().filter(|call| call.is_injected).collect();
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut hit = Vec::new();
    for call in calls {
        let count = counts.entry(&call.thread).or_default();
        *count += 1;
        if *count == fault.number {
            hit.push(call);
        }
    }
    hit
}

/// All faults at calls of a clean run that are about a file of the test's.
pub fn faults(calls: &[Call], folder: &Path) -> Vec<Fault> {
    // All calls of a name, and those among them that are about one file.
    let mut counts: BTreeMap<(&str, &str, Option<String>), usize> = BTreeMap::new();
    let mut faults = BTreeSet::new();
    for call in calls {
        let file = call.lasting_name(folder).filter(|_| call.is_ours(folder));
        let mut number = 0;
        for counted in BTreeSet::from([None, file.clone()]) {
            let count = counts.entry((&call.thread, &call.name, counted)).or_default();
            *count += 1;
            number = *count;
        }
        for &(call, errors) in CALLS.iter().filter(|(name, _)| *name == call.name && call.is_ours(folder)) {
            let kinds = errors.iter().copied().chain([KILL]);
            faults.extend(kinds.map(|kind| Fault { call, file: file.clone(), number, kind }));
        }
    }
    faults.into_iter().collect()
}
