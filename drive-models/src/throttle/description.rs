//! What a throttle stands in front of: the section `[throttle]` of a profile, and the same on a command
//! line.

use serde::Deserialize;
use traces::spec::{Spec, SpecError};

use crate::description::{PartText, take_part};
use crate::mechanical::Refused;

/// The drive behind a throttle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behind {
    /// The virtual disk.
    pub disk: Spec,
}

/// `[throttle]` as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BehindText {
    #[serde(rename = "virtual")]
    disk: toml::Spanned<PartText>,
}

impl BehindText {
    /// The name that specs have for the virtual disk, and the byte where a profile names it.
    pub fn offset(&self) -> (&'static str, usize) {
        ("virtual", self.disk.span().start)
    }
}

impl Default for Behind {
    fn default() -> Behind {
        Behind { disk: Spec { name: super::virtual_disk::MODEL.name.to_owned(), given: Vec::new() } }
    }
}

impl Behind {
    /// The virtual disk by the name that specs have for it, and what it is.
    pub fn named(&self) -> (&'static str, &Spec, &'static str) {
        ("virtual", &self.disk, "the drive whose completions are delayed; virtual.X=V sets its tunable X")
    }

    /// Checks what a profile says.
    ///
    /// # Errors
    /// What is not a spec or has no source, with its place.
    pub fn from_text(text: &BehindText) -> Result<Behind, Refused> {
        Ok(Behind { disk: text.disk.get_ref().spec("virtual", text.disk.span().start)? })
    }

    /// Takes what is given of the virtual disk (`virtual=X`, `virtual.tunable=V`) out of a throttle's spec
    /// and puts it over this one.
    ///
    /// # Errors
    /// A name that is not one.
    pub fn take_from(mut self, given: &mut Vec<(String, String)>) -> Result<Behind, SpecError> {
        take_part("virtual", &mut self.disk, given)?;
        Ok(self)
    }
}
