//! The row of a scheduler in the registry.

use traces::spec::{Settings, Tunable};

use crate::scheduler::Scheduler;

/// One scheduler.
pub struct Entry {
    /// The name on the command line.
    pub name: &'static str,
    /// Its rule in one line.
    pub summary: &'static str,
    /// The paper, or kernel file and version, that it follows.
    pub origin: &'static str,
    /// Its tunables under their real names.
    pub tunables: &'static [Tunable],
    /// Makes one from settings resolved against `tunables`.
    pub build: fn(&Settings) -> Box<dyn Scheduler>,
}
