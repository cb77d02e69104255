//! What makes a drive beside the values of its tunables, and what those may not be together.

use serde::Deserialize;
use toml::Spanned;
use traces::spec::{Settings, Spec, SpecError};

use crate::array::{Parts, PartsText};
use crate::empirical::{Cells, CellsText};
use crate::mechanical::{LayoutText, Mechanics, Refused, SeekText};
use crate::registry::{Build, Model};
use crate::throttle::{Behind, BehindText};

/// What a profile says of a drive beside its settings; each model is built with one kind.
#[derive(Clone, Debug)]
pub enum Description {
    /// Nothing: the settings say it all.
    SettingsAlone,
    /// `[seek]` and `[layout]`: the arm and the platter.
    Mechanics(Mechanics),
    /// `[empirical]`: measured service times.
    Cells(Cells),
    /// `[array]`: what an array is made of.
    Parts(Parts),
    /// `[throttle]`: what a throttle stands in front of.
    Behind(Behind),
}

impl Description {
    /// What an array is made of, if it is one.
    pub fn parts(&self) -> Option<&Parts> {
        match self {
            Description::Parts(parts) => Some(parts),
            _ => None,
        }
    }

    /// The drives and schedulers that it is made of: the name that specs have for each, which it is, what it does.
    pub fn named_parts(&self) -> Vec<(&'static str, &Spec, &'static str)> {
        match self {
            Description::Parts(parts) => parts.named().to_vec(),
            Description::Behind(behind) => vec![behind.named()],
            Description::SettingsAlone | Description::Mechanics(_) | Description::Cells(_) => Vec::new(),
        }
    }

    /// Reads the sections that `model` needs; there may be no others.
    pub(crate) fn read(model: &Model, sections: Sections) -> Result<Description, Refusal> {
        sections.match_those_of(model)?;
        let refuse = |Refused { offset, problem }| (Some(offset), problem);
        let Sections { seek, layout, empirical, array, throttle } = sections;
        if let Some(throttle) = throttle {
            return Behind::from_text(throttle.get_ref()).map(Description::Behind).map_err(refuse);
        }
        match (seek, layout, empirical, array) {
            (Some(seek), Some(layout), ..) => {
                Mechanics::new(seek.get_ref(), layout.into_inner()).map(Description::Mechanics).map_err(refuse)
            }
            (.., Some(cells), _) => Cells::from_text(cells.get_ref()).map(Description::Cells).map_err(refuse),
            (.., Some(array)) => Parts::from_text(array.get_ref()).map(Description::Parts).map_err(refuse),
            _ => Ok(Description::SettingsAlone),
        }
    }
}

/// What is wrong, and at which byte of the profile where one is to blame.
pub(crate) type Refusal = (Option<usize>, String);

/// The sections of a profile that describe.
pub(crate) struct Sections {
    pub(crate) seek: Option<Spanned<SeekText>>,
    pub(crate) layout: Option<Spanned<LayoutText>>,
    pub(crate) empirical: Option<Spanned<CellsText>>,
    pub(crate) array: Option<Spanned<PartsText>>,
    pub(crate) throttle: Option<Spanned<BehindText>>,
}

impl Sections {
    fn match_those_of(&self, model: &Model) -> Result<(), Refusal> {
        let needed: &[&str] = match model.build {
            Build::FromSettings(_) | Build::Checked { .. } => &[],
            Build::WithMechanics(_) => &["seek", "layout"],
            Build::WithCells(_) => &["empirical"],
            Build::WithMembers { .. } => &["array"],
            Build::OverDrive { .. } => &["throttle"],
        };
        let article = if model.name.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
        let drive = format!("{article} {} drive", model.name);
        for (section, offset) in [
            ("seek", offset(self.seek.as_ref())),
            ("layout", offset(self.layout.as_ref())),
            ("empirical", offset(self.empirical.as_ref())),
            ("array", offset(self.array.as_ref())),
            ("throttle", offset(self.throttle.as_ref())),
        ] {
            match (needed.contains(&section), offset) {
                (false, Some(_)) => return Err((offset, format!("{drive} has no [{section}]"))),
                (true, None) => return Err((None, format!("[{section}] is missing: {drive} needs it"))),
                _ => {}
            }
        }
        Ok(())
    }
}

fn offset<T>(section: Option<&Spanned<T>>) -> Option<usize> {
    section.map(|section| section.span().start)
}

/// A drive or scheduler that another drive is made of, as a profile names it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PartText {
    value: String,
    source: String,
}

impl PartText {
    /// What the part `name`, which stands at byte `offset`, is.
    pub(crate) fn spec(&self, name: &str, offset: usize) -> Result<Spec, Refused> {
        if self.source.trim().is_empty() {
            return Err(Refused { offset, problem: format!("`{name}` has no source") });
        }
        self.value.parse().map_err(|error: SpecError| Refused { offset, problem: error.to_string() })
    }
}

/// Takes what is given of the part `name` (`name=X`, `name.tunable=V`) out of the whole drive's spec and
/// puts it over `part`.
pub(crate) fn take_part(name: &str, part: &mut Spec, given: &mut Vec<(String, String)>) -> Result<(), SpecError> {
    if let Some(at) = given.iter().position(|(key, _)| key == name) {
        *part = given.remove(at).1.parse()?;
    }
    given.retain(|(key, value)| {
        let Some(tunable) = key.strip_prefix(name).and_then(|rest| rest.strip_prefix('.')) else { return true };
        part.given.retain(|(known, _)| known != tunable);
        part.given.push((tunable.to_owned(), value.clone()));
        false
    });
    Ok(())
}

/// A setting that is fine by itself but contradicts another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The tunable to change.
    pub tunable: &'static str,
    /// What would be accepted, beside what.
    pub expected: String,
}

impl Contradiction {
    /// The error that it is among the `settings` of `part`.
    pub fn among(self, settings: &Settings, part: &str) -> SpecError {
        let Contradiction { tunable, expected } = self;
        let value = settings.word(tunable).to_owned();
        SpecError::Value { part: part.to_owned(), name: tunable.to_owned(), value, expected }
    }
}
