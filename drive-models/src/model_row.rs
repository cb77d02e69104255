//! The row of a drive model in the registry.

use traces::spec::{Settings, Spec, SpecError, Tunable};

use crate::description::{Contradiction, DriveDescription};
use crate::queued;
use crate::section::{ProfileError, Section, Sections};

/// Makes the description of a drive from the sections of its profile.
pub type Describe = fn(Option<Sections>) -> Result<Box<dyn DriveDescription>, ProfileError>;

/// One drive model.
#[derive(Clone, Copy, Debug)]
pub struct ModelRow {
    /// The name on the command line and in profiles.
    pub name: &'static str,
    /// One line that describes it.
    pub summary: &'static str,
    /// Its tunables.
    pub tunables: &'static [Tunable],
    /// Whether its drives serve one request at a time. They get the tunables of a tagged queue, [`queued::TUNABLES`].
    pub one_at_a_time: bool,
    /// How many requests its drives hold at once, with these settings: the depth of a stage that keeps them busy, as a
    /// kernel learns it from a device. [`queue_of_one_at_a_time`] for drives that serve one request at a time.
    pub queue_depth: fn(&Settings) -> u32,
    /// Whether its drives turn, as far as a kernel would know (`queue/rotational`). False where profiles hold measured
    /// times only.
    pub is_rotational: bool,
    /// Finds the first setting that contradicts another; [`never_contradict`] if none can.
    pub check: fn(&Settings) -> Result<(), Contradiction>,
    /// About how many bytes a drive takes before its first request. The second argument is what its parts take, one of
    /// each. [`memory_without_tables`] for drives whose settings ask for no large tables.
    pub memory: fn(&Settings, u64) -> u64,
    /// The sections that its profiles have beside `[settings]`.
    pub sections: &'static [Section],
    /// Makes the description of a drive from the sections of its profile. Without a profile, makes the description of a
    /// drive that is named by the model alone.
    pub describe: Describe,
}

/// The `check` of a model whose settings cannot contradict one another.
///
/// # Errors
/// None.
pub fn never_contradict(_: &Settings) -> Result<(), Contradiction> {
    Ok(())
}

/// Bytes of a drive and its queue without large tables; measured as 10 to 60 KB.
const DRIVE_BYTES: u64 = 40_960;

/// The `memory` of a model whose drives have no tables that grow with their settings.
pub fn memory_without_tables(_: &Settings, parts: u64) -> u64 {
    parts.saturating_add(DRIVE_BYTES)
}

/// The `queue_depth` of a model whose drives serve one request at a time: that of the tagged queue, or 1 without one.
pub fn queue_of_one_at_a_time(settings: &Settings) -> u32 {
    settings.count("queue_depth").max(1) as u32
}

impl ModelRow {
    /// Its own tunables and, if its drives serve one request at a time, those of the tagged queue.
    pub fn all_tunables(&self) -> Vec<Tunable> {
        let queue = if self.one_at_a_time { queued::TUNABLES } else { &[] };
        [self.tunables, queue].concat()
    }

    /// Checks each value that `spec` gives against [`ModelRow::all_tunables`].
    pub(crate) fn settings(&self, spec: &Spec) -> Result<Settings, SpecError> {
        Settings::resolve(spec, &self.all_tunables())
    }

    /// The description of a drive that is named by this model alone.
    ///
    /// # Panics
    /// If the model refuses its own default, which a test excludes.
    pub fn default_description(&self) -> Box<dyn DriveDescription> {
        (self.describe)(None).unwrap_or_else(|error| panic!("{}: {}", self.name, error.problem))
    }
}
