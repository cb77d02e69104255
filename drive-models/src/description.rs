//! The description of a drive: everything that a model needs to build it beside the values of its tunables. Also the
//! error for tunables that contradict one another.

use std::any::Any;
use std::fmt::Debug;

use schedulers::Scheduler;
use traces::DescriptionError;
use traces::spec::{Settings, SpecError};

use crate::drive::DriveModel;
use crate::part::Part;

/// The description of a drive beside its settings, checked. Each model has a type of its own and builds drives from it.
/// A drive that is named by its model alone has the model's default description.
pub trait DriveDescription: Any + Debug + Send + Sync {
    /// The drives and schedulers that the drive is made of.
    fn parts(&self) -> &[Part] {
        &[]
    }

    /// The same, to apply the settings of a spec to them.
    fn parts_mut(&mut self) -> &mut [Part] {
        &mut []
    }

    /// Builds the drive with `settings` that the model's `check` accepts. `parts` builds the drive's parts.
    ///
    /// # Errors
    /// A part that cannot be built, or settings that contradict a part.
    fn build(&self, settings: &Settings, parts: &dyn PartBuilder) -> Result<Box<dyn DriveModel>, BuildError>;
}

impl dyn DriveDescription {
    /// The description as the type `D` of one model, if it is of that type.
    pub fn downcast_ref<D: DriveDescription>(&self) -> Option<&D> {
        (self as &dyn Any).downcast_ref()
    }
}

/// Builds the parts of a drive, by the names in [`DriveDescription::parts`]. Each call builds another one.
pub trait PartBuilder {
    /// Builds the drive `name`.
    ///
    /// # Errors
    /// A drive that cannot be built.
    fn drive(&self, name: &str) -> Result<Box<dyn DriveModel>, DriveError>;

    /// Builds the scheduler `name`.
    ///
    /// # Errors
    /// A scheduler that cannot be built.
    fn scheduler(&self, name: &str) -> Result<Box<dyn Scheduler>, DriveError>;
}

/// Why a drive cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The name or a tunable is not known, or a value is not accepted.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The profile is not accepted.
    #[error(transparent)]
    Profile(#[from] DescriptionError),
    /// A part of a drive cannot be built.
    #[error("{whole}: its {part}: {error}")]
    Part {
        /// The drive that has the part, such as an array.
        whole: String,
        /// The name of the part, such as `member`.
        part: &'static str,
        /// Why the part cannot be built.
        error: Box<DriveError>,
    },
    /// A drive would take too much memory.
    #[error(
        "{drive}: takes about {megabytes} MB of memory, and a drive may take {most}; fewer members, smaller caches, or less \
         that is simulated take less"
    )]
    Memory {
        /// The drive.
        drive: String,
        /// What it would take.
        megabytes: u64,
        /// The most that a drive may take, in the same unit.
        most: u64,
    },
    /// A drive is a part of itself, directly or through other drives.
    #[error("a drive cannot be a part of itself: {0}")]
    Recursion(String),
}

/// Why a drive cannot be built from its description.
#[derive(Debug)]
pub enum BuildError {
    /// A part cannot be built.
    Part(DriveError),
    /// A setting contradicts a part.
    Contradiction(Contradiction),
}

impl From<DriveError> for BuildError {
    fn from(error: DriveError) -> BuildError {
        BuildError::Part(error)
    }
}

impl From<Contradiction> for BuildError {
    fn from(contradiction: Contradiction) -> BuildError {
        BuildError::Contradiction(contradiction)
    }
}

/// The description of a drive that its settings describe completely: the function that builds it.
#[derive(Clone, Copy, Debug)]
pub struct SettingsAlone(pub fn(&Settings) -> Box<dyn DriveModel>);

impl DriveDescription for SettingsAlone {
    fn build(&self, settings: &Settings, _: &dyn PartBuilder) -> Result<Box<dyn DriveModel>, BuildError> {
        Ok(self.0(settings))
    }
}

/// A setting that is accepted by itself but contradicts another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The tunable to change.
    pub tunable: &'static str,
    /// The values that would be accepted, and why.
    pub expected: String,
}

impl Contradiction {
    /// The error for this contradiction among the `settings` of the drive `name`.
    pub fn among(self, settings: &Settings, name: &str) -> SpecError {
        let Contradiction { tunable, expected } = self;
        let value = settings.word(tunable).to_owned();
        SpecError::Value { part: name.to_owned(), name: tunable.to_owned(), value, expected }
    }
}
