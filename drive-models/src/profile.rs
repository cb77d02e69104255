//! Drives by make and type: a model and its settings in one readable file, every number with its source. The shipped
//! ones are part of the program; a user's own is named by its path.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, Deserializer};
use traces::spec::{Settings, Spec, SpecError, Tunable};
use traces::{DescriptionError, described};

use crate::description::DriveDescription;
use crate::model_row::ModelRow;
use crate::section::{DRIVE_PROFILE, ProfileError, Sections};

/// A drive profile.
#[derive(Debug)]
pub struct Profile {
    /// The name on the command line.
    pub name: String,
    /// The model, a name of [`MODELS`](crate::MODELS).
    pub model: String,
    /// One line that describes the drive.
    pub summary: String,
    /// The measurements that it was checked against, or that it was not.
    pub validation: String,
    /// Every tunable of the model: value and where it comes from.
    pub settings: BTreeMap<String, (String, String)>,
    /// The description that its model needs beside them.
    pub description: Box<dyn DriveDescription>,
    /// The lines of settings and parts.
    pub(crate) lines: BTreeMap<String, usize>,
}

/// The shipped profiles: name and text.
pub const PROFILES: &[(&str, &str)] = &[
    ("atlas-10k", include_str!("../profiles/atlas-10k.toml")),
    ("atlas-iii", include_str!("../profiles/atlas-iii.toml")),
    ("barracuda", include_str!("../profiles/barracuda.toml")),
    ("cheetah-15k4", include_str!("../profiles/cheetah-15k4.toml")),
    ("cheetah-15k4-mechanical", include_str!("../profiles/cheetah-15k4-mechanical.toml")),
    ("cheetah-15k5", include_str!("../profiles/cheetah-15k5.toml")),
    ("cheetah-4lp", include_str!("../profiles/cheetah-4lp.toml")),
    ("cheetah-9lp", include_str!("../profiles/cheetah-9lp.toml")),
    ("dec-rz26", include_str!("../profiles/dec-rz26.toml")),
    ("ds8700-raid5-7", include_str!("../profiles/ds8700-raid5-7.toml")),
    ("hp-c2247a", include_str!("../profiles/hp-c2247a.toml")),
    ("hp-c2490a", include_str!("../profiles/hp-c2490a.toml")),
    ("hp-c3323a", include_str!("../profiles/hp-c3323a.toml")),
    ("ibm-18es", include_str!("../profiles/ibm-18es.toml")),
    ("iscsi-raid5-15", include_str!("../profiles/iscsi-raid5-15.toml")),
    ("nvme-ssd", include_str!("../profiles/nvme-ssd.toml")),
    ("qemu-virtio", include_str!("../profiles/qemu-virtio.toml")),
    ("sata-500", include_str!("../profiles/sata-500.toml")),
    ("sata-7200", include_str!("../profiles/sata-7200.toml")),
    ("sata-ssd", include_str!("../profiles/sata-ssd.toml")),
    ("st41601n", include_str!("../profiles/st41601n.toml")),
];

/// The entries of every profile, whatever its model.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileText {
    model: Spanned<String>,
    summary: String,
    validation: Spanned<String>,
    settings: Spanned<SettingsText>,
}

impl ProfileText {
    /// The names of its fields.
    const KEYS: [&str; 4] = ["model", "summary", "validation", "settings"];
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingText {
    value: String,
    source: String,
}

impl Profile {
    /// Reads a profile of one of `models` and checks it. Every tunable of the model has a value and a source, the model
    /// accepts the values, and the sections are those of the model.
    ///
    /// # Errors
    /// The first error with its line.
    pub fn parse_among(models: &'static [ModelRow], name: &str, text: &str) -> Result<Profile, DescriptionError> {
        read_profile(models, name, text).map_err(|error| error.in_profile(name, text))
    }

    /// Reads the profile at `path`, of one of `models`.
    pub(crate) fn read_among(models: &'static [ModelRow], path: &Path) -> Result<Profile, DescriptionError> {
        let name = path.display().to_string();
        match traces::read_text(path) {
            Ok(text) => Profile::parse_among(models, &name, &text),
            Err(error) => Err(DescriptionError { what: DRIVE_PROFILE, name, line: None, problem: error.to_string() }),
        }
    }

    /// The shipped profile `name`, which is of one of `models`.
    ///
    /// # Panics
    /// If there is none or it is malformed, which a test excludes.
    pub(crate) fn shipped_among(models: &'static [ModelRow], name: &str) -> Profile {
        let (name, text) = PROFILES.iter().find(|(known, _)| *known == name).expect("the profile is shipped");
        Profile::parse_among(models, name, text).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The model's settings with `given` on top of the profile's.
    ///
    /// # Errors
    /// A tunable or value that the model does not accept.
    pub fn resolve(&self, model: &ModelRow, given: &Spec) -> Result<Settings, SpecError> {
        resolve(&self.settings, model, given)
    }
}

/// Parses the profile `text` and takes its sections apart from what every profile has. A section is parsed as the row
/// of the profile's model says, or else as another row says that has a section of this name.
fn parse_text(models: &'static [ModelRow], text: &str) -> Result<(ProfileText, Sections), ProfileError> {
    let table = DeTable::parse(text)?;
    let model = table.get_ref().get("model").and_then(|model| model.get_ref().as_str());
    let own = models.iter().filter(|row| Some(row.name) == model);
    let known: Vec<_> = own.chain(models).flat_map(|row| row.sections).collect();
    let (span, table) = (table.span(), table.into_inner());
    let (mut rest, mut sections) = (DeTable::new(), Sections::default());
    for (key, value) in table {
        if let Some(section) = known.iter().find(|section| section.name == key.get_ref()) {
            sections.parse(**section, value)?;
        } else if ProfileText::KEYS.contains(&&**key.get_ref()) {
            rest.insert(key, value);
        } else {
            let mut names: Vec<String> = ProfileText::KEYS.iter().map(|name| format!("`{name}`")).collect();
            for name in models.iter().flat_map(|row| row.sections).map(|section| format!("`{}`", section.name)) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            let problem = format!("unknown field `{}`, expected one of {}", key.get_ref(), names.join(", "));
            return Err(ProfileError::at(key.span().start, problem));
        }
    }
    let head = ProfileText::deserialize(Deserializer::from(Spanned::new(span, rest)))?;
    Ok((head, sections))
}

fn read_profile(models: &'static [ModelRow], name: &str, text: &str) -> Result<Profile, ProfileError> {
    let (ProfileText { model, summary, validation, settings }, sections) = parse_text(models, text)?;
    let model_at = model.span().start;
    let model = models
        .iter()
        .find(|row| row.name == model.get_ref())
        .ok_or_else(|| ProfileError::at(model_at, format!("there is no model `{}`", model.get_ref())))?;
    if validation.get_ref().trim().is_empty() {
        let problem = "validation is empty: say against what the drive was checked, or that it was not";
        return Err(ProfileError::at(validation.span().start, problem));
    }
    let mut offsets: BTreeMap<String, usize> =
        settings.get_ref().keys().map(|key| (key.get_ref().clone(), key.span().start)).collect();
    let settings = read_settings(name, model, settings)?;
    let alone = Spec { name: name.to_owned(), given: Vec::new() };
    let in_force = resolve(&settings, model, &alone).map_err(|error| ProfileError::anywhere(error.to_string()))?;
    (model.check)(&in_force).map_err(|contradiction| ProfileError {
        offset: offsets.get(contradiction.tunable).copied(),
        problem: contradiction.among(&in_force, name).to_string(),
    })?;
    let article = if model.name.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    sections.check(model.sections, &format!("{article} {} drive", model.name), model_at)?;
    let description = (model.describe)(Some(sections))?;
    offsets.extend(description.parts().iter().filter_map(|part| Some((part.name.to_owned(), part.offset()?))));
    Ok(Profile {
        name: name.to_owned(),
        model: model.name.to_owned(),
        summary,
        validation: validation.into_inner(),
        settings,
        description,
        lines: offsets.into_iter().map(|(key, offset)| (key, described::line_of(text, offset))).collect(),
    })
}

/// The settings of a profile with those of `given` in their place where both have one.
fn resolve(settings: &SourcedSettings, model: &ModelRow, given: &Spec) -> Result<Settings, SpecError> {
    let from_profile = settings.iter().filter(|(key, _)| given.given.iter().all(|(k, _)| k != *key));
    let mut spec = Spec { name: given.name.clone(), given: given.given.clone() };
    spec.given.extend(from_profile.map(|(key, (value, _))| (key.clone(), value.clone())));
    model.settings(&spec)
}

/// The values of tunables by name, each with its source.
type SourcedSettings = BTreeMap<String, (String, String)>;

/// `[settings]` as they are written.
type SettingsText = BTreeMap<Spanned<String>, Spanned<SettingText>>;

/// Reads the settings of a profile: each tunable of the model has a value that is accepted by itself, and a source.
fn read_settings(name: &str, model: &ModelRow, text: Spanned<SettingsText>) -> Result<SourcedSettings, ProfileError> {
    let section = text.span().start;
    let mut settings = BTreeMap::new();
    for (key, entry) in text.into_inner() {
        let (offset, SettingText { value, source }) = (key.span().start, entry.into_inner());
        let key = key.into_inner();
        let spec = Spec { name: name.to_owned(), given: vec![(key.clone(), value.clone())] };
        model.settings(&spec).map_err(|error| ProfileError::at(offset, error.to_string()))?;
        if source.trim().is_empty() {
            return Err(ProfileError::at(offset, format!("`{key}` has no source")));
        }
        settings.insert(key, (value, source));
    }
    match model.tunables.iter().find(|tunable| !settings.contains_key(tunable.name)) {
        Some(Tunable { name, summary, .. }) => {
            Err(ProfileError::at(section, format!("`{name}` is missing from [settings]: {summary}")))
        }
        None => Ok(settings),
    }
}
