//! The table of all drive models, and drives built from specs such as `cheetah-15k4:cache=off`.
//!
//! A row of [`MODELS`] is all that the crate knows of a model. A [`Registry`] is a set of rows with profiles for them:
//! [`Registry::SHIPPED`] has those of this crate, and a program may make one with rows of its own.

mod resolved;

use traces::DescriptionError;
use traces::spec::{Settings, Spec, SpecError, Tunable, nearest};

use crate::description::{Contradiction, DriveDescription};
use crate::drive::DriveModel;
use crate::profile::{PROFILES, Profile};
use crate::section::{ProfileError, Section, Sections};
use crate::{array, empirical, fixed, flash, linear, mechanical, queued, throttle};

pub(crate) use resolved::Resolved;

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
    /// Finds the first setting that contradicts another; [`never_contradict`] if none can.
    pub check: fn(&Settings) -> Result<(), Contradiction>,
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

/// Every drive model of this crate.
pub const MODELS: &[ModelRow] = &[
    linear::MODEL,
    mechanical::MODEL,
    array::MODEL,
    flash::MODEL,
    empirical::MODEL,
    fixed::MODEL,
    throttle::MODEL,
    throttle::virtual_disk::MODEL,
];

/// The models and profiles that specs may name.
#[derive(Clone, Copy, Debug)]
pub struct Registry {
    /// The models.
    pub models: &'static [ModelRow],
    /// The profiles: name and text.
    pub profiles: &'static [(&'static str, &'static str)],
}

impl Registry {
    /// The models and profiles of this crate.
    pub const SHIPPED: Registry = Registry { models: MODELS, profiles: PROFILES };

    /// Builds the drive that `spec` names: a profile of the registry, a model, or the path of a profile (anything that
    /// ends in `.toml`). Settings of `spec` replace those of the profile.
    ///
    /// # Errors
    /// An unknown name or tunable with the nearest ones; a value or profile that is not accepted.
    pub fn build(&self, spec: &Spec) -> Result<BuiltDrive, DriveError> {
        Resolved::of_spec(self, spec, &[])?.built()
    }

    /// The model with this name.
    pub fn model(&self, name: &str) -> Option<&'static ModelRow> {
        self.models.iter().find(|model| model.name == name)
    }

    /// The profile with this name.
    ///
    /// # Panics
    /// If it is malformed. A test excludes that for the profiles of this crate.
    pub fn profile(&self, name: &str) -> Option<Profile> {
        let (name, text) = self.profiles.iter().find(|(known, _)| *known == name)?;
        Some(Profile::parse_among(self.models, name, text).unwrap_or_else(|error| panic!("{error}")))
    }

    fn unknown(&self, name: &str) -> SpecError {
        let profiles = self.profiles.iter().map(|(profile, _)| *profile);
        let known = profiles.chain(self.models.iter().map(|model| model.name));
        SpecError::UnknownName { kind: "drive", name: name.to_owned(), near: nearest(name, known) }
    }
}

/// A drive with its tunables as they are in force.
pub struct BuiltDrive {
    /// The name of its profile or model, as it was given.
    pub name: String,
    /// Its model.
    pub model: &'static ModelRow,
    /// The values of all tunables.
    pub settings: Settings,
    /// The description that its model needs beside them.
    pub description: Box<dyn DriveDescription>,
    /// The drive.
    pub drive: Box<dyn DriveModel>,
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
    /// A drive is a part of itself, directly or through other drives.
    #[error("a drive cannot be a part of itself: {0}")]
    Recursion(String),
}

/// Builds the drive that `spec` names, as [`Registry::build`] among the models and profiles of this crate.
///
/// # Errors
/// As [`Registry::build`].
pub fn build(spec: &Spec) -> Result<BuiltDrive, DriveError> {
    Registry::SHIPPED.build(spec)
}

/// Builds the drive of a profile that is not (yet) a file.
///
/// # Errors
/// A profile whose parts cannot be built.
pub fn build_profile(profile: Profile) -> Result<BuiltDrive, DriveError> {
    let spec = Spec { name: profile.name.clone(), given: Vec::new() };
    Resolved::of_profile(&Registry::SHIPPED, Some(profile), &spec, &[])?.built()
}

#[cfg(test)]
mod tests;
