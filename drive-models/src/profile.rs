//! Drives by make and type: a model and its settings in one readable file, every number with its
//! source. The shipped ones are part of the program; a user's own is named by its path.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use traces::spec::{Settings, Spec, SpecError};
use traces::{DescriptionError, described};

use crate::array::PartsText;
use crate::description::{Description, Sections};
use crate::empirical::CellsText;
use crate::mechanical::{LayoutText, SeekText};
use crate::registry::{MODELS, Model};
use crate::throttle::BehindText;

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
    /// What its model needs beside them.
    pub description: Description,
    /// The lines of settings and of the drives and schedulers that it is made of.
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

/// What a profile is called in errors.
pub(crate) const WHAT: &str = "drive profile";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    model: toml::Spanned<String>,
    summary: String,
    validation: toml::Spanned<String>,
    settings: toml::Spanned<SettingsText>,
    seek: Option<toml::Spanned<SeekText>>,
    layout: Option<toml::Spanned<LayoutText>>,
    empirical: Option<toml::Spanned<CellsText>>,
    array: Option<toml::Spanned<PartsText>>,
    throttle: Option<toml::Spanned<BehindText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Value {
    value: String,
    source: String,
}

impl Profile {
    /// Reads a profile and checks it against its model: every tunable must be there, with a value
    /// that the model accepts beside the others, and a source; and the sections that the model needs.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn parse(name: &str, text: &str) -> Result<Profile, DescriptionError> {
        let line_of = |offset: usize| described::line_of(text, offset);
        let fail = |offset: Option<usize>, problem: String| DescriptionError {
            what: WHAT,
            name: name.to_owned(),
            line: offset.map(line_of),
            problem,
        };
        let file: File = toml::from_str(text)
            .map_err(|error| fail(error.span().map(|span| span.start), error.message().to_owned()))?;
        let File { model, summary, validation, settings, seek, layout, empirical, array, throttle } = file;
        let model_at = model.span().start;
        let model = find_model(model.get_ref())
            .ok_or_else(|| fail(Some(model_at), format!("there is no model `{}`", model.get_ref())))?;
        if validation.get_ref().trim().is_empty() {
            let problem = "validation is empty: say against what the drive was checked, or that it was not";
            return Err(fail(Some(validation.span().start), problem.to_owned()));
        }
        let mut offsets: BTreeMap<String, usize> =
            settings.get_ref().keys().map(|key| (key.get_ref().clone(), key.span().start)).collect();
        let settings = read_settings(name, model, settings).map_err(|(offset, problem)| fail(Some(offset), problem))?;
        let profile = Profile {
            name: name.to_owned(),
            model: model.name.to_owned(),
            summary,
            validation: validation.into_inner(),
            settings,
            description: Description::SettingsAlone,
            lines: BTreeMap::new(),
        };
        let in_force = profile
            .resolve(model, &Spec { name: name.to_owned(), given: Vec::new() })
            .map_err(|error| fail(None, error.to_string()))?;
        model.build.check(&in_force).map_err(|contradiction| {
            let offset = offsets.get(contradiction.tunable).copied();
            fail(offset, contradiction.among(&in_force, name).to_string())
        })?;
        offsets
            .extend(array.iter().flat_map(|array| array.get_ref().offsets()).map(|(part, at)| (part.to_owned(), at)));
        let virtual_disk = throttle.iter().map(|throttle| throttle.get_ref().offset());
        offsets.extend(virtual_disk.map(|(part, at)| (part.to_owned(), at)));
        let sections = Sections { seek, layout, empirical, array, throttle };
        // A section that is missing is missed by the model.
        let description =
            Description::read(model, sections).map_err(|(offset, problem)| fail(offset.or(Some(model_at)), problem))?;
        let lines = offsets.into_iter().map(|(key, offset)| (key, line_of(offset))).collect();
        Ok(Profile { description, lines, ..profile })
    }

    /// Reads the profile at `path`.
    ///
    /// # Errors
    /// As [`Profile::parse`], and what the operating system says.
    pub fn read(path: &Path) -> Result<Profile, DescriptionError> {
        let name = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Profile::parse(&name, &text),
            Err(error) => Err(DescriptionError { what: WHAT, name, line: None, problem: error.to_string() }),
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
        model.settings(&spec)
    }
}

/// `[settings]` as they are written.
type SettingsText = BTreeMap<toml::Spanned<String>, toml::Spanned<Value>>;

/// The settings of a profile, each with its source, once all are there and each is accepted by itself.
fn read_settings(
    name: &str,
    model: &Model,
    text: toml::Spanned<SettingsText>,
) -> Result<BTreeMap<String, (String, String)>, (usize, String)> {
    let section = text.span().start;
    let mut settings = BTreeMap::new();
    for (key, entry) in text.into_inner() {
        let (offset, Value { value, source }) = (key.span().start, entry.into_inner());
        let key = key.into_inner();
        let spec = Spec { name: name.to_owned(), given: vec![(key.clone(), value.clone())] };
        model.settings(&spec).map_err(|error| (offset, error.to_string()))?;
        if source.trim().is_empty() {
            return Err((offset, format!("`{key}` has no source")));
        }
        settings.insert(key, (value, source));
    }
    match model.tunables.iter().find(|tunable| !settings.contains_key(tunable.name)) {
        Some(missing) => Err((section, format!("`{}` is missing from [settings]: {}", missing.name, missing.summary))),
        None => Ok(settings),
    }
}

pub(crate) fn find_model(name: &str) -> Option<&'static Model> {
    MODELS.iter().find(|model| model.name == name)
}
