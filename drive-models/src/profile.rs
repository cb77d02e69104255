//! Drives by make and type: a model and its settings in one readable file, every number with its
//! source. The shipped ones are part of the program; a user's own is named by its path.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use traces::spec::{Settings, Spec, SpecError};

use crate::array::{Parts, PartsText};
use crate::mechanical::{LayoutText, Mechanics, SeekText};
use crate::registry::{Build, MODELS, Model};

/// A drive profile.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The name on the command line.
    pub name: String,
    /// The model, a name of [`MODELS`].
    pub model: String,
    /// One line on what drive it is.
    pub summary: String,
    /// Against what it was checked, if anything.
    pub validation: String,
    /// Every tunable of the model: value and where it comes from.
    pub settings: BTreeMap<String, (String, String)>,
    /// The seek curve and layout, if the model has an arm and a platter.
    pub mechanics: Option<Mechanics>,
    /// What it is made of, if the model is an array.
    pub parts: Option<Parts>,
    /// The lines of settings and parts.
    pub(crate) lines: BTreeMap<String, usize>,
}

/// The shipped profiles: name and text.
pub const PROFILES: &[(&str, &str)] = &[
    ("cheetah-15k4", include_str!("../profiles/cheetah-15k4.toml")),
    ("cheetah-15k5", include_str!("../profiles/cheetah-15k5.toml")),
    ("ds8700-raid5-7", include_str!("../profiles/ds8700-raid5-7.toml")),
    ("iscsi-raid5-15", include_str!("../profiles/iscsi-raid5-15.toml")),
];

/// Why a profile was not accepted.
#[derive(Debug, thiserror::Error)]
#[error("drive profile {name}{}: {problem}", line.map(|line| format!(" at line {line}")).unwrap_or_default())]
pub struct ProfileError {
    /// The profile's name or path.
    pub name: String,
    /// The line, where one is to blame.
    pub line: Option<usize>,
    /// What is wrong.
    pub problem: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    model: toml::Spanned<String>,
    summary: String,
    validation: String,
    settings: BTreeMap<toml::Spanned<String>, toml::Spanned<Value>>,
    seek: Option<toml::Spanned<SeekText>>,
    layout: Option<toml::Spanned<LayoutText>>,
    array: Option<toml::Spanned<PartsText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Value {
    value: String,
    source: String,
}

impl Profile {
    /// Reads a profile and checks it against its model: every tunable must be there, with a value
    /// that the model accepts and a source.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn parse(name: &str, text: &str) -> Result<Profile, ProfileError> {
        let line_of = |offset: usize| text[..offset.min(text.len())].matches('\n').count() + 1;
        let fail = |offset: Option<usize>, problem: String| ProfileError {
            name: name.to_owned(),
            line: offset.map(line_of),
            problem,
        };
        let file: File = toml::from_str(text)
            .map_err(|error| fail(error.span().map(|span| span.start), error.message().to_owned()))?;
        let model = find_model(file.model.get_ref()).ok_or_else(|| {
            fail(Some(file.model.span().start), format!("there is no model `{}`", file.model.get_ref()))
        })?;
        let (mut settings, mut lines) = (BTreeMap::new(), BTreeMap::new());
        for (key, entry) in file.settings {
            let (offset, Value { value, source }) = (key.span().start, entry.into_inner());
            let key = key.into_inner();
            let spec = Spec { name: name.to_owned(), given: vec![(key.clone(), value.clone())] };
            Settings::resolve(&spec, model.tunables).map_err(|error| fail(Some(offset), error.to_string()))?;
            if source.trim().is_empty() {
                return Err(fail(Some(offset), format!("`{key}` has no source")));
            }
            lines.insert(key.clone(), line_of(offset));
            settings.insert(key, (value, source));
        }
        if let Some(missing) = model.tunables.iter().find(|tunable| !settings.contains_key(tunable.name)) {
            return Err(fail(None, format!("`{}` is missing from [settings]: {}", missing.name, missing.summary)));
        }
        let sections = [
            ("seek", file.seek.as_ref().map(toml::Spanned::span)),
            ("layout", file.layout.as_ref().map(toml::Spanned::span)),
            ("array", file.array.as_ref().map(toml::Spanned::span)),
        ];
        for (section, span) in sections {
            let needed = match model.build {
                Build::FromSettings(_) => false,
                Build::WithMechanics(_) => section != "array",
                Build::WithMembers(_) => section == "array",
            };
            match span {
                Some(span) if !needed => {
                    return Err(fail(Some(span.start), format!("a {} drive has no [{section}]", model.name)));
                }
                None if needed => {
                    return Err(fail(None, format!("[{section}] is missing: a {} drive needs it", model.name)));
                }
                _ => {}
            }
        }
        let mechanics = match (file.seek, file.layout) {
            (Some(seek), Some(layout)) => Some(
                Mechanics::new(seek.get_ref(), layout.into_inner())
                    .map_err(|refused| fail(Some(refused.offset), refused.problem))?,
            ),
            _ => None,
        };
        let parts = match file.array {
            Some(array) => {
                let (parts, offsets) =
                    Parts::read(array.get_ref()).map_err(|(offset, problem)| fail(Some(offset), problem))?;
                lines.extend(offsets.map(|(part, offset)| (part.to_owned(), line_of(offset))));
                Some(parts)
            }
            None => None,
        };
        let File { summary, validation, .. } = file;
        Ok(Profile {
            name: name.to_owned(),
            model: model.name.to_owned(),
            summary,
            validation,
            settings,
            mechanics,
            parts,
            lines,
        })
    }

    /// Reads the profile at `path`.
    ///
    /// # Errors
    /// As [`Profile::parse`], and what the operating system says.
    pub fn read(path: &Path) -> Result<Profile, ProfileError> {
        let name = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Profile::parse(&name, &text),
            Err(error) => Err(ProfileError { name, line: None, problem: error.to_string() }),
        }
    }

    /// The shipped profile with this name.
    ///
    /// # Panics
    /// If a shipped profile is malformed, which a test excludes.
    pub fn shipped(name: &str) -> Option<Profile> {
        let (name, text) = PROFILES.iter().find(|(shipped, _)| *shipped == name)?;
        Some(Profile::parse(name, text).unwrap_or_else(|error| panic!("{error}")))
    }

    /// The model's settings with `given` on top of the profile's.
    ///
    /// # Errors
    /// A tunable or value that the model does not accept.
    pub fn resolve(&self, model: &Model, given: &Spec) -> Result<Settings, SpecError> {
        let from_profile = self.settings.iter().filter(|(key, _)| given.given.iter().all(|(k, _)| k != *key));
        let mut spec = Spec { name: given.name.clone(), given: given.given.clone() };
        spec.given.extend(from_profile.map(|(key, (value, _))| (key.clone(), value.clone())));
        Settings::resolve(&spec, model.tunables)
    }
}

pub(crate) fn find_model(name: &str) -> Option<&'static Model> {
    MODELS.iter().find(|model| model.name == name)
}
