//! The sections of a profile beside `[settings]`, such as `[seek]`. The row of a model lists its sections. The profile
//! reader parses them and hands them to the model with their byte offsets, so that an error can name a line.

use std::any::Any;

use serde::de::{DeserializeOwned, IntoDeserializer};
use toml::Spanned;
use toml::de::DeValue;
use traces::{DescriptionError, described};

/// The name of profiles in error messages.
pub(crate) const DRIVE_PROFILE: &str = "drive profile";

/// Why a profile is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileError {
    /// The byte of the profile that is to blame, if one is.
    pub offset: Option<usize>,
    /// The error and its remedy.
    pub problem: String,
}

impl ProfileError {
    /// An error at byte `offset` of a profile.
    pub fn at(offset: usize, problem: impl Into<String>) -> ProfileError {
        ProfileError { offset: Some(offset), problem: problem.into() }
    }

    /// An error of the profile as a whole.
    pub(crate) fn anywhere(problem: impl Into<String>) -> ProfileError {
        ProfileError { offset: None, problem: problem.into() }
    }

    /// The error with the name and the line of the profile `text`.
    pub(crate) fn in_profile(self, name: &str, text: &str) -> DescriptionError {
        DescriptionError {
            what: DRIVE_PROFILE,
            name: name.to_owned(),
            line: self.offset.map(|offset| described::line_of(text, offset)),
            problem: self.problem,
        }
    }
}

impl From<toml::de::Error> for ProfileError {
    fn from(error: toml::de::Error) -> ProfileError {
        ProfileError { offset: error.span().map(|span| span.start), problem: error.message().to_owned() }
    }
}

/// Parses the table below a section's name.
type Parse = fn(Spanned<DeValue<'_>>) -> Result<Box<dyn Any>, ProfileError>;

/// A section that a profile must have if its model lists it.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Its name between brackets.
    pub name: &'static str,
    parse: Parse,
}

impl Section {
    /// The section `name`, which is parsed as a `T`. [`toml::Spanned`] fields of `T` get offsets into the profile.
    pub const fn of<T: DeserializeOwned + 'static>(name: &'static str) -> Section {
        Section { name, parse: parse::<T> }
    }
}

fn parse<T: DeserializeOwned + 'static>(value: Spanned<DeValue<'_>>) -> Result<Box<dyn Any>, ProfileError> {
    let start = value.span().start;
    let parsed = T::deserialize(value.into_deserializer()).map_err(ProfileError::from);
    parsed
        .map(|text| Box::new(text) as Box<dyn Any>)
        .map_err(|error| ProfileError { offset: error.offset.or(Some(start)), ..error })
}

/// The parsed sections of one profile.
#[derive(Debug, Default)]
pub struct Sections(Vec<ParsedSection>);

#[derive(Debug)]
struct ParsedSection {
    section: Section,
    offset: usize,
    text: Box<dyn Any>,
}

impl Sections {
    /// Parses `value` as `section` and keeps it.
    pub(crate) fn parse(&mut self, section: Section, value: Spanned<DeValue<'_>>) -> Result<(), ProfileError> {
        let offset = value.span().start;
        self.0.push(ParsedSection { section, offset, text: (section.parse)(value)? });
        Ok(())
    }

    /// Checks that `expected` are the sections that there are. `drive` names the model in the error, which stands at
    /// byte `model_at` of the profile.
    pub(crate) fn check(&self, expected: &[Section], drive: &str, model_at: usize) -> Result<(), ProfileError> {
        let has = |sections: &[Section], name| sections.iter().any(|section| section.name == name);
        if let Some(other) = self.0.iter().find(|parsed| !has(expected, parsed.section.name)) {
            return Err(ProfileError::at(other.offset, format!("{drive} has no [{}]", other.section.name)));
        }
        let missing = expected.iter().find(|section| self.0.iter().all(|parsed| parsed.section.name != section.name));
        match missing {
            Some(Section { name, .. }) => {
                Err(ProfileError::at(model_at, format!("[{name}] is missing: {drive} needs it")))
            }
            None => Ok(()),
        }
    }

    /// Takes the text of the section `name` out.
    ///
    /// # Panics
    /// If the model's row does not list a section of this name and type, or if it was taken before.
    pub fn take<T: 'static>(&mut self, name: &str) -> T {
        let at = self.0.iter().position(|parsed| parsed.section.name == name);
        let parsed = self.0.swap_remove(at.expect("the sections of the row are there"));
        *parsed.text.downcast().expect("a section has the type that its row says")
    }
}
