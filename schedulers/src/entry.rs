//! The row of a scheduler in the registry.

use traces::spec::{Settings, Tunable};

use crate::scheduler::Scheduler;

/// A rule by which a policy chooses the request that it sends.
#[derive(Clone, Copy, Debug)]
pub struct RuleInfo {
    /// Its name, after the paper or the kernel.
    pub name: &'static str,
    /// Which requests count for it.
    pub summary: &'static str,
}

impl RuleInfo {
    /// A rule of this name.
    pub const fn new(name: &'static str, summary: &'static str) -> RuleInfo {
        RuleInfo { name, summary }
    }
}

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
    /// The rules that choose a request, in the order in which they are tried; none if there is only one. How many
    /// requests each has sent says [`Scheduler::sent_by_rule`].
    pub rules: &'static [RuleInfo],
    /// Makes one from settings resolved against `tunables`.
    pub build: &'static (dyn Fn(&Settings) -> Box<dyn Scheduler> + Sync),
}
