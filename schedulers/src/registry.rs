//! The table of all schedulers. `iocast list`, the help texts, the documentation and the conformance tests are made
//! from it.

use traces::spec::{Settings, Spec, SpecError, library, nearest};

use crate::entry::Entry;
use crate::scheduler::Scheduler;
use crate::{
    anticipatory, ba, batch_fcfs, bfq, cats, cfq, cscan, deadline, esx, fifo, gsw, kyber, look, mclock, mq_deadline,
    none, plugin, read_priority, satf, scan, sfq, sstf, table, token_bucket, vr, weighted,
};

/// Every scheduler.
pub const SCHEDULERS: &[Entry] = &[
    none::ENTRY,
    fifo::ENTRY,
    read_priority::ENTRY,
    sstf::ENTRY,
    scan::ENTRY,
    look::ENTRY,
    cscan::ENTRY,
    deadline::ENTRY,
    mq_deadline::ENTRY,
    kyber::ENTRY,
    bfq::ENTRY,
    anticipatory::ENTRY,
    cfq::ENTRY,
    cfq::ENTRY_3_5,
    table::ENTRY,
    gsw::ENTRY,
    cats::ENTRY,
    vr::ENTRY,
    satf::ENTRY,
    batch_fcfs::ENTRY,
    sfq::ENTRY,
    esx::ENTRY,
    mclock::ENTRY,
    ba::ENTRY,
    token_bucket::ENTRY,
    weighted::ENTRY,
];

/// Other names that vendors and papers use for policies, each with the name of its entry.
pub const ALIASES: &[(&str, &str)] = &[("clook", "cscan"), ("noop", "fifo"), ("sptf", "satf"), ("vscan", "vr")];

/// A scheduler built from a spec, with its tunables as they are in force.
pub struct Built {
    /// Its row in the registry.
    pub entry: &'static Entry,
    /// All tunables, defaults filled in.
    pub settings: Settings,
    /// The policy.
    pub scheduler: Box<dyn Scheduler>,
}

/// The registry row with this name, or with the one this is another name of; or of the library that
/// `plugin:PATH` or `kernel:PATH` names.
///
/// # Errors
/// [`SpecError::UnknownName`] with the nearest names; a library that cannot be used.
pub fn find(name: &str) -> Result<&'static Entry, SpecError> {
    find_among(SCHEDULERS.iter(), name)
}

/// Builds the scheduler that `spec` names.
///
/// # Errors
/// An unknown name or tunable with the nearest ones; a value that is not accepted; a library that cannot be used.
pub fn build(spec: &Spec) -> Result<Built, SpecError> {
    built(find(&spec.name)?, spec)
}

/// The schedulers that specs may name: ours, and those of whoever makes it.
///
/// ```
/// use iocast_schedulers::{Registry, fifo};
///
/// let mine = iocast_schedulers::Entry { name: "mine", summary: "as they come", ..fifo::ENTRY };
/// let registry = Registry::builtin().with(Box::leak(Box::new(mine)));
/// assert_eq!(registry.build(&"mine".parse()?)?.entry.summary, "as they come");
/// assert!(registry.build(&"cscan".parse()?).is_ok());
/// # Ok::<(), traces::spec::SpecError>(())
/// ```
#[derive(Clone)]
pub struct Registry {
    entries: Vec<&'static Entry>,
}

impl Registry {
    /// The schedulers of this crate.
    pub fn builtin() -> Registry {
        Registry { entries: SCHEDULERS.iter().collect() }
    }

    /// The same with one more: `&mine::ENTRY`.
    ///
    /// # Panics
    /// If there is a scheduler of this name, by this or another name.
    #[must_use]
    pub fn with(mut self, entry: &'static Entry) -> Registry {
        assert!(self.find(entry.name).is_err(), "there is a scheduler named {} already", entry.name);
        self.entries.push(entry);
        self
    }

    /// All rows.
    pub fn entries(&self) -> &[&'static Entry] {
        &self.entries
    }

    /// As [`find`], among these.
    ///
    /// # Errors
    /// As [`find`].
    pub fn find(&self, name: &str) -> Result<&'static Entry, SpecError> {
        find_among(self.entries.iter().copied(), name)
    }

    /// As [`build`], among these.
    ///
    /// # Errors
    /// As [`build`].
    pub fn build(&self, spec: &Spec) -> Result<Built, SpecError> {
        built(self.find(&spec.name)?, spec)
    }
}

fn find_among(
    mut entries: impl Iterator<Item = &'static Entry> + Clone,
    name: &str,
) -> Result<&'static Entry, SpecError> {
    if let Some((prefix, path)) = library(name) {
        return plugin::find(prefix, path);
    }
    let known = entries.clone().map(|entry| entry.name);
    let real = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |&(_, real)| real);
    entries.find(|entry| entry.name == real).ok_or_else(|| SpecError::UnknownName {
        kind: "scheduler",
        name: name.to_owned(),
        near: nearest(name, known),
    })
}

fn built(entry: &'static Entry, spec: &Spec) -> Result<Built, SpecError> {
    let settings = Settings::resolve(spec, entry.tunables)?;
    let scheduler = (entry.build)(&settings);
    Ok(Built { entry, settings, scheduler })
}
