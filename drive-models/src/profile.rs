//! Drives by make and type: a model and its settings in one readable file, every number with its
//! source. The shipped ones are part of the program; a user's own is named by its path.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use traces::spec::{Settings, Spec, SpecError};

use crate::empirical::{Cells, CellsText};
use crate::mechanical::{LayoutText, Mechanics, Refused, SeekText};
use crate::registry::{Build, MODELS, Model, refused};

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
    /// The measured service times, if the model draws from them.
    pub cells: Option<Cells>,
}

/// The shipped profiles: name and text.
pub const PROFILES: &[(&str, &str)] = &[
    ("cheetah-15k4", include_str!("../profiles/cheetah-15k4.toml")),
    ("cheetah-15k5", include_str!("../profiles/cheetah-15k5.toml")),
    ("sata-ssd", include_str!("../profiles/sata-ssd.toml")),
    ("nvme-ssd", include_str!("../profiles/nvme-ssd.toml")),
    ("qemu-virtio", include_str!("../profiles/qemu-virtio.toml")),
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
    empirical: Option<toml::Spanned<CellsText>>,
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
        let (mut settings, mut keys) = (BTreeMap::new(), BTreeMap::new());
        for (key, entry) in file.settings {
            let (offset, Value { value, source }) = (key.span().start, entry.into_inner());
            let key = key.into_inner();
            let spec = Spec { name: name.to_owned(), given: vec![(key.clone(), value.clone())] };
            Settings::resolve(&spec, model.tunables).map_err(|error| fail(Some(offset), error.to_string()))?;
            if source.trim().is_empty() {
                return Err(fail(Some(offset), format!("`{key}` has no source")));
            }
            keys.insert(key.clone(), offset);
            settings.insert(key, (value, source));
        }
        if let Some(missing) = model.tunables.iter().find(|tunable| !settings.contains_key(tunable.name)) {
            return Err(fail(None, format!("`{}` is missing from [settings]: {}", missing.name, missing.summary)));
        }
        let values =
            settings.iter().map(|(key, (value, _)): (&String, &(String, String))| (key.clone(), value.clone()));
        let spec = Spec { name: name.to_owned(), given: values.collect() };
        let resolved = Settings::resolve(&spec, model.tunables).map_err(|error| fail(None, error.to_string()))?;
        model.build.check(&resolved).map_err(|contradiction| {
            let offset = keys.get(contradiction.tunable).copied();
            fail(offset, refused(name, &resolved, contradiction).to_string())
        })?;
        let Parts { mechanics, cells } =
            parts(model, file.seek, file.layout, file.empirical).map_err(|(offset, problem)| fail(offset, problem))?;
        let File { summary, validation, .. } = file;
        Ok(Profile {
            name: name.to_owned(),
            model: model.name.to_owned(),
            summary,
            validation,
            settings,
            mechanics,
            cells,
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

/// A section of a profile, if it is there.
type Section<T> = Option<toml::Spanned<T>>;

/// What is wrong, and at which byte where one is to blame.
type Refusal = (Option<usize>, String);

/// What a model is made of beside its settings.
struct Parts {
    mechanics: Option<Mechanics>,
    cells: Option<Cells>,
}

/// What a model needs beside its settings, and nothing else.
fn parts(
    model: &Model,
    seek: Section<SeekText>,
    layout: Section<LayoutText>,
    empirical: Section<CellsText>,
) -> Result<Parts, Refusal> {
    let wanted: &[&str] = match model.build {
        Build::FromSettings(_) | Build::Checked { .. } => &[],
        Build::WithMechanics(_) => &["seek", "layout"],
        Build::WithCells(_) => &["empirical"],
    };
    let article = if model.name.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    let drive = format!("{article} {} drive", model.name);
    let given = [
        ("seek", seek.as_ref().map(|section| section.span().start)),
        ("layout", layout.as_ref().map(|section| section.span().start)),
        ("empirical", empirical.as_ref().map(|section| section.span().start)),
    ];
    for (section, offset) in given {
        match (wanted.contains(&section), offset) {
            (false, Some(_)) => {
                return Err((offset, format!("{drive} has no [{section}]")));
            }
            (true, None) => {
                return Err((None, format!("[{section}] is missing: {drive} needs it")));
            }
            _ => {}
        }
    }
    let refuse = |refused: Refused| (Some(refused.offset), refused.problem);
    let mechanics = match (seek, layout) {
        (Some(seek), Some(layout)) => Some(Mechanics::new(seek.get_ref(), layout.into_inner()).map_err(refuse)?),
        _ => None,
    };
    let cells = empirical.map(|section| Cells::from_text(section.get_ref()).map_err(refuse)).transpose()?;
    Ok(Parts { mechanics, cells })
}

pub(crate) fn find_model(name: &str) -> Option<&'static Model> {
    MODELS.iter().find(|model| model.name == name)
}
