//! Schedulers in shared libraries: `plugin:./libmine.so:tunable=value`.
//!
//! `schedulers/include/iocast_scheduler.h` is the interface. A library is loaded once and stays loaded. It runs in this
//! process with all its rights, so it is trusted as the program itself is. What it answers is checked: an answer that
//! no scheduler may give ends the replay with an error ([`Scheduler::fault`](crate::Scheduler::fault)). A crash, or a call
//! that does not return for ten seconds, ends the process with a message that names the call.

mod abi;
mod checked;
mod guard;
mod library;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use traces::spec::SpecError;

use crate::entry::Entry;

/// What the name of a scheduler begins with if it is in a library.
pub const PREFIX: &str = traces::spec::PLUGIN;

/// The libraries that are loaded, by their real paths, each with its row.
static LOADED: Mutex<BTreeMap<PathBuf, &'static Entry>> = Mutex::new(BTreeMap::new());

/// The row of the scheduler in the library that `name` names, which begins with [`PREFIX`].
///
/// # Errors
/// A library that cannot be loaded, is of another version of the interface, or describes its scheduler wrongly.
pub(crate) fn find(name: &str) -> Result<&'static Entry, SpecError> {
    let path = name.strip_prefix(PREFIX).unwrap_or(name);
    let fail = |problem: String| SpecError::Plugin { path: path.to_owned(), problem };
    // Without a folder the name would be looked up among the libraries of the system.
    let real = Path::new(path).canonicalize().map_err(|error| fail(error.to_string()))?;
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(entry) = loaded.get(&real) {
        return Ok(entry);
    }
    let entry = library::load(&real).map_err(fail)?;
    loaded.insert(real, entry);
    Ok(entry)
}
