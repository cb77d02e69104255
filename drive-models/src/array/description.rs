//! What an array is made of: the section `[array]` of a profile, and the same on a command line.

use serde::Deserialize;
use traces::spec::{Spec, SpecError};

use crate::description::{PartText, take_part};
use crate::mechanical::Refused;

/// The parts of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The drive that every member is.
    pub member: Spec,
    /// The scheduler of every member's queue.
    pub scheduler: Spec,
}

/// `[array]` as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartsText {
    member: toml::Spanned<PartText>,
    scheduler: toml::Spanned<PartText>,
}

impl PartsText {
    /// Each part by the name that specs have for it, and the byte where a profile names it.
    pub fn offsets(&self) -> [(&'static str, usize); 2] {
        self.named().map(|(name, part)| (name, part.span().start))
    }

    fn named(&self) -> [(&'static str, &toml::Spanned<PartText>); 2] {
        [("member", &self.member), ("scheduler", &self.scheduler)]
    }
}

impl Default for Parts {
    fn default() -> Parts {
        let named = |name: &str| Spec { name: name.to_owned(), given: Vec::new() };
        Parts { member: named("cheetah-15k5"), scheduler: named("satf") }
    }
}

impl Parts {
    /// Each part by the name that specs have for it, and what it is.
    pub fn named(&self) -> [(&'static str, &Spec, &'static str); 2] {
        [
            ("member", &self.member, "the drive that every member is; member.X=V sets its tunable X"),
            ("scheduler", &self.scheduler, "the scheduler of every member's queue; scheduler.X=V sets its tunable X"),
        ]
    }

    /// Checks what a profile says.
    ///
    /// # Errors
    /// What is not a spec or has no source, with its place.
    pub fn from_text(text: &PartsText) -> Result<Parts, Refused> {
        let [member, scheduler] = text.named().map(|(name, part)| part.get_ref().spec(name, part.span().start));
        Ok(Parts { member: member?, scheduler: scheduler? })
    }

    /// Takes what is given of the parts (`member=X`, `member.tunable=V`) out of an array's spec and puts
    /// it over these.
    ///
    /// # Errors
    /// A part's name that is not one.
    pub fn take_from(mut self, given: &mut Vec<(String, String)>) -> Result<Parts, SpecError> {
        take_part("member", &mut self.member, given)?;
        take_part("scheduler", &mut self.scheduler, given)?;
        Ok(self)
    }
}
