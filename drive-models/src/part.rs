//! The drives and schedulers that a drive is made of, such as the member of an array. A profile names a part in a
//! section, and a spec replaces it.

use serde::Deserialize;
use toml::Spanned;
use traces::spec::{Spec, SpecError};

use crate::section::ProfileError;

/// What a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// A drive.
    Drive,
    /// A scheduler of requests.
    Scheduler,
}

impl PartKind {
    /// The kind as help texts name it.
    pub fn name(self) -> &'static str {
        match self {
            PartKind::Drive => "drive",
            PartKind::Scheduler => "scheduler",
        }
    }
}

/// A drive or scheduler that another drive is made of. A spec replaces it by `name=X` and sets its tunables by
/// `name.tunable=V`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The name of the part in profiles and specs, such as `member`.
    pub name: &'static str,
    /// What the part is.
    pub kind: PartKind,
    /// The drive or scheduler itself.
    pub spec: Spec,
    /// One line on what the part does.
    pub summary: &'static str,
    /// The byte at which a profile names the part.
    offset: Option<usize>,
}

/// A part as a profile names it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartText {
    value: String,
    source: String,
}

impl Part {
    /// The drive or scheduler `default`, with its own defaults.
    pub fn new(name: &'static str, kind: PartKind, default: &str, summary: &'static str) -> Part {
        Part { name, kind, spec: Spec { name: default.to_owned(), given: Vec::new() }, summary, offset: None }
    }

    /// The same part with the drive or scheduler that a profile names.
    ///
    /// # Errors
    /// A value that is no spec, or a part without a source.
    pub fn read(self, text: &Spanned<PartText>) -> Result<Part, ProfileError> {
        let offset = text.span().start;
        let PartText { value, source } = text.get_ref();
        if source.trim().is_empty() {
            return Err(ProfileError::at(offset, format!("`{}` has no source", self.name)));
        }
        let spec = value.parse().map_err(|error: SpecError| ProfileError::at(offset, error.to_string()))?;
        Ok(Part { spec, offset: Some(offset), ..self })
    }

    /// The byte at which a profile names the part, if one does.
    pub(crate) fn offset(&self) -> Option<usize> {
        self.offset
    }

    /// Takes the settings of this part (`name=X`, `name.tunable=V`) out of the spec of the whole drive and applies
    /// them.
    pub(crate) fn take_from(&mut self, given: &mut Vec<(String, String)>) -> Result<(), SpecError> {
        if let Some(at) = given.iter().position(|(key, _)| key == self.name) {
            self.spec = given.remove(at).1.parse()?;
        }
        let own = &mut self.spec.given;
        given.retain(|(key, value)| {
            let Some(tunable) = key.strip_prefix(self.name).and_then(|rest| rest.strip_prefix('.')) else {
                return true;
            };
            own.retain(|(known, _)| known != tunable);
            own.push((tunable.to_owned(), value.clone()));
            false
        });
        Ok(())
    }
}
