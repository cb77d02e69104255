//! Schedulers in shared libraries: `plugin:./libmine.so:tunable=value`, or `kernel:` for those that
//! [`kernel`](crate::kernel) builds.
//!
//! `schedulers/include/iocast_scheduler.h` is the interface. A library is loaded once and stays loaded. It runs in this
//! process with all its rights, so it is trusted as the program itself is. What it answers is checked: an answer that
//! no scheduler may give ends the replay with an error ([`Scheduler::fault`](crate::Scheduler::fault)). A crash, or a call
//! that does not return for ten seconds, ends the process with a message that names the call.

mod abi;
mod checked;
mod guard;
mod kept;
mod library;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use traces::spec::SpecError;

use crate::entry::Entry;

pub use kept::{keep, leave_kept};

/// Why a program of the static archive loads no library.
const STATIC: &str = "this iocast is linked statically and cannot load libraries; install its Debian package or build it \
                      from source (cargo install --path cli)";

/// The libraries that are loaded, by prefix and real path, each with its row.
static LOADED: Mutex<BTreeMap<(&str, PathBuf), &'static Entry>> = Mutex::new(BTreeMap::new());

/// The row of the scheduler in the library at `path`, which was named with one of
/// [`LIBRARIES`](traces::spec::LIBRARIES) before it.
///
/// # Errors
/// A library that cannot be loaded, is of another version of the interface, or describes its scheduler wrongly.
pub(crate) fn find(prefix: &'static str, path: &str) -> Result<&'static Entry, SpecError> {
    let fail = |problem: String| SpecError::Plugin { path: path.to_owned(), problem };
    // There, `dlopen` fails with no more than that it is not supported.
    if cfg!(all(target_env = "musl", target_feature = "crt-static")) {
        return Err(fail(STATIC.to_owned()));
    }
    // Without a folder the name would be looked up among the libraries of the system.
    let real = Path::new(path).canonicalize().map_err(|error| fail(error.to_string()))?;
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let place = (prefix, real);
    if let Some(entry) = loaded.get(&place) {
        return Ok(entry);
    }
    let entry = library::load(prefix, &place.1).map_err(fail)?;
    loaded.insert(place, entry);
    Ok(entry)
}
