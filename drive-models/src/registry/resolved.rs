//! A drive after its spec is checked and before it is built: model, settings and description. A drive that is made of
//! other drives holds the same of each of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schedulers::Scheduler;
use traces::DescriptionError;
use traces::spec::{Settings, Spec};

use super::{BuiltDrive, Registry};
use crate::description::{BuildError, DriveDescription, DriveError, PartBuilder};
use crate::drive::DriveModel;
use crate::model_row::ModelRow;
use crate::part::{Part, PartKind};
use crate::profile::Profile;
use crate::queued::Queued;
use crate::section::DRIVE_PROFILE;

/// The most bytes that a drive takes before its first request.
const MEMORY_MAX: u64 = 268_000_000;

/// A drive that a spec names, with settings that do not contradict one another.
pub(crate) struct Resolved {
    name: String,
    model: &'static ModelRow,
    settings: Settings,
    description: Box<dyn DriveDescription>,
    /// The drives among the parts of the description, by their names.
    drives: Vec<(&'static str, Resolved)>,
    /// The lines of the profile's settings and parts that are in force.
    lines: BTreeMap<String, usize>,
}

impl Resolved {
    /// Resolves `spec`. `within` are the files of the profiles that this drive is a part of.
    pub(crate) fn of_spec(registry: &Registry, spec: &Spec, within: &[PathBuf]) -> Result<Resolved, DriveError> {
        let mut within = within.to_vec();
        let profile = if spec.name.ends_with(".toml") {
            let path = Path::new(&spec.name);
            let profile = Profile::read_among(registry.models, path)?;
            let file = path.canonicalize().unwrap_or_else(|_| path.to_owned());
            if within.contains(&file) {
                return Err(DriveError::Recursion(spec.name.clone()));
            }
            within.push(file);
            Some(profile)
        } else {
            registry.profile(&spec.name)
        };
        Resolved::of_profile(registry, profile, spec, &within)
    }

    /// Resolves `spec` with the profile that it names, if it names one.
    pub(crate) fn of_profile(
        registry: &Registry,
        profile: Option<Profile>,
        spec: &Spec,
        within: &[PathBuf],
    ) -> Result<Resolved, DriveError> {
        let model = match &profile {
            Some(profile) => registry.model(&profile.model).expect("a profile names a model that exists"),
            None => registry.model(&spec.name).ok_or_else(|| registry.unknown(&spec.name))?,
        };
        let mut own = spec.clone();
        let (settings, description, mut lines) = match profile {
            Some(mut profile) => {
                apply_to_parts(&mut *profile.description, &mut own)?;
                (profile.resolve(model, &own)?, profile.description, profile.lines)
            }
            None => {
                let mut description = model.default_description();
                apply_to_parts(&mut *description, &mut own)?;
                (model.settings(&own)?, description, BTreeMap::new())
            }
        };
        (model.check)(&settings).map_err(|contradiction| contradiction.among(&settings, &spec.name))?;
        lines.retain(|key, _| !spec.given.iter().any(|(given, _)| given.split('.').next() == Some(key)));
        let name = spec.name.clone();
        let mut resolved = Resolved { name, model, settings, description, drives: Vec::new(), lines };
        resolved.drives = resolved.resolve_parts(registry, within)?;
        let bytes = resolved.memory();
        if bytes > MEMORY_MAX {
            return Err(DriveError::Memory {
                drive: resolved.name,
                megabytes: bytes / 1_000_000,
                most: MEMORY_MAX / 1_000_000,
            });
        }
        Ok(resolved)
    }

    /// About how many bytes it takes once it is built.
    fn memory(&self) -> u64 {
        let parts = self.drives.iter().fold(0, |sum: u64, (_, drive)| sum.saturating_add(drive.memory()));
        (self.model.memory)(&self.settings, parts)
    }

    /// Resolves the drives among the parts. Builds each scheduler once, so that a wrong one is refused now.
    fn resolve_parts(
        &self,
        registry: &Registry,
        within: &[PathBuf],
    ) -> Result<Vec<(&'static str, Resolved)>, DriveError> {
        let refused = |part: &Part, error: DriveError| match self.lines.get(part.name) {
            Some(_) => self.blame(part.name, error),
            None => DriveError::Part { whole: self.name.clone(), part: part.name, error: Box::new(error) },
        };
        let parts = |kind| self.description.parts().iter().filter(move |part| part.kind == kind);
        for part in parts(PartKind::Scheduler) {
            schedulers::build(&part.spec).map_err(|error| refused(part, error.into()))?;
        }
        let drive = |part: &Part| match Resolved::of_spec(registry, &part.spec, within) {
            Ok(drive) => Ok((part.name, drive)),
            Err(error) => Err(refused(part, error)),
        };
        parts(PartKind::Drive).map(drive).collect()
    }

    /// The drive, built.
    pub(crate) fn built(self) -> Result<BuiltDrive, DriveError> {
        let drive = self.drive()?;
        let Resolved { name, model, settings, description, .. } = self;
        Ok(BuiltDrive { name, model, settings, description, drive })
    }

    fn drive(&self) -> Result<Box<dyn DriveModel>, DriveError> {
        let drive = self.description.build(&self.settings, self).map_err(|error| self.explain(error))?;
        Ok(if self.model.one_at_a_time { Queued::in_front_of(drive, &self.settings) } else { drive })
    }

    /// Builds something else from a description of type `D`; `None` if the description is of another type.
    pub(crate) fn build_from<D: DriveDescription, T>(
        &self,
        build: impl FnOnce(&D, &Settings, &dyn PartBuilder) -> Result<T, BuildError>,
    ) -> Result<Option<T>, DriveError> {
        let Some(description) = self.description.downcast_ref::<D>() else { return Ok(None) };
        build(description, &self.settings, self).map(Some).map_err(|error| self.explain(error))
    }

    fn explain(&self, error: BuildError) -> DriveError {
        match error {
            BuildError::Part(error) => error,
            BuildError::Contradiction(contradiction) => {
                let tunable = contradiction.tunable;
                self.blame(tunable, contradiction.among(&self.settings, &self.name).into())
            }
        }
    }

    /// The error with the line of the setting or part `key`, if that comes from the profile.
    fn blame(&self, key: &str, error: DriveError) -> DriveError {
        match self.lines.get(key) {
            Some(&line) => {
                let problem = error.to_string();
                DescriptionError { what: DRIVE_PROFILE, name: self.name.clone(), line: Some(line), problem }.into()
            }
            None => error,
        }
    }
}

/// Moves the settings of the parts from `spec` to the parts of `description`.
fn apply_to_parts(description: &mut dyn DriveDescription, spec: &mut Spec) -> Result<(), DriveError> {
    for part in description.parts_mut() {
        part.take_from(&mut spec.given)?;
    }
    Ok(())
}

impl PartBuilder for Resolved {
    fn drive(&self, name: &str) -> Result<Box<dyn DriveModel>, DriveError> {
        let (_, drive) = self.drives.iter().find(|(known, _)| *known == name).expect("the drive is among the parts");
        drive.drive()
    }

    fn scheduler(&self, name: &str) -> Result<Box<dyn Scheduler>, DriveError> {
        let mut parts = self.description.parts().iter();
        let part = parts.find(|part| part.name == name).expect("the scheduler is among the parts");
        Ok(schedulers::build(&part.spec)?.scheduler)
    }
}
