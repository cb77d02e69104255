//! The table of all schedulers. `iocast list`, the help texts, the documentation and the conformance tests are made
//! from it.

use traces::spec::{Settings, Spec, SpecError, nearest};

use crate::entry::Entry;
use crate::scheduler::Scheduler;
use crate::{
    anticipatory, ba, batch_fcfs, bfq, cats, cfq, cscan, deadline, esx, fifo, gsw, kyber, look, mclock, mq_deadline,
    none, read_priority, satf, scan, sfq, sstf, table, token_bucket, vr, weighted,
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

/// The registry row with this name, or with the one this is another name of.
///
/// # Errors
/// [`SpecError::UnknownName`] with the nearest names.
pub fn find(name: &str) -> Result<&'static Entry, SpecError> {
    let real = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |&(_, real)| real);
    SCHEDULERS.iter().find(|entry| entry.name == real).ok_or_else(|| SpecError::UnknownName {
        kind: "scheduler",
        name: name.to_owned(),
        near: nearest(name, SCHEDULERS.iter().map(|entry| entry.name)),
    })
}

/// Builds the scheduler that `spec` names.
///
/// # Errors
/// An unknown name or tunable with the nearest ones; a value that is not accepted.
pub fn build(spec: &Spec) -> Result<Built, SpecError> {
    let entry = find(&spec.name)?;
    let settings = Settings::resolve(spec, entry.tunables)?;
    let scheduler = (entry.build)(&settings);
    Ok(Built { entry, settings, scheduler })
}
