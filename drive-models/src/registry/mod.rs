//! The table of all drive models, and drives built from specs such as `cheetah-15k4:cache=off`.
//!
//! A row of [`MODELS`] is all that the crate knows of a model. A [`Registry`] is a set of rows with profiles for them:
//! [`Registry::SHIPPED`] has those of this crate, and a program may make one with rows of its own.

mod concrete;
mod resolved;

use std::path::Path;

use traces::DescriptionError;
use traces::spec::{Settings, Spec, SpecError, nearest};

use crate::description::{DriveDescription, DriveError};
use crate::drive::DriveModel;
use crate::model_row::ModelRow;
use crate::profile::{PROFILES, Profile};
use crate::{array, empirical, fixed, flash, linear, mechanical, throttle};

pub use concrete::{build_mechanical, build_throttle};
use resolved::Resolved;

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

impl BuiltDrive {
    /// How many requests the drive holds at once ([`ModelRow::queue_depth`]).
    pub fn queue_depth(&self) -> u32 {
        (self.model.queue_depth)(&self.settings)
    }
}

/// Profiles of the models of this crate.
impl Profile {
    /// Reads a profile of a model of this crate, as [`Profile::parse_among`].
    ///
    /// # Errors
    /// As [`Profile::parse_among`].
    pub fn parse(name: &str, text: &str) -> Result<Profile, DescriptionError> {
        Profile::parse_among(MODELS, name, text)
    }

    /// Reads the profile at `path`.
    ///
    /// # Errors
    /// As [`Profile::parse`], and errors of the operating system.
    pub fn read(path: &Path) -> Result<Profile, DescriptionError> {
        Profile::read_among(MODELS, path)
    }

    /// The shipped profile with this name.
    ///
    /// # Panics
    /// If a shipped profile is malformed, which a test excludes.
    pub fn shipped(name: &str) -> Option<Profile> {
        Registry::SHIPPED.profile(name)
    }
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
