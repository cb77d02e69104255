//! The member and the scheduler of an array: the section `[array]` of a profile, and the same on a command line.

use serde::Deserialize;
use toml::Spanned;
use traces::spec::Settings;

use crate::description::{BuildError, DriveDescription, PartBuilder};
use crate::drive::DriveModel;
use crate::part::{Part, PartKind, PartText};
use crate::section::{ProfileError, Section, Sections};

/// The section of an array.
pub(super) const SECTIONS: &[Section] = &[Section::of::<ArrayText>("array")];

/// The parts of an array: the drive that every member is, and the scheduler of every member's queue.
#[derive(Clone, Debug)]
pub struct ArrayParts([Part; 2]);

/// `[array]` as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ArrayText {
    member: Spanned<PartText>,
    scheduler: Spanned<PartText>,
}

impl Default for ArrayParts {
    fn default() -> ArrayParts {
        let member = "the drive that every member is; member.X=V sets its tunable X";
        let scheduler = "the scheduler of every member's queue; scheduler.X=V sets its tunable X";
        ArrayParts([
            Part::new("member", PartKind::Drive, "cheetah-15k5", member),
            Part::new("scheduler", PartKind::Scheduler, "satf", scheduler),
        ])
    }
}

/// The parts that a profile names, or else the default parts.
pub(super) fn describe(sections: Option<Sections>) -> Result<Box<dyn DriveDescription>, ProfileError> {
    let ArrayParts([member, scheduler]) = ArrayParts::default();
    let Some(mut sections) = sections else { return Ok(Box::new(ArrayParts([member, scheduler]))) };
    let text: ArrayText = sections.take("array");
    Ok(Box::new(ArrayParts([member.read(&text.member)?, scheduler.read(&text.scheduler)?])))
}

impl DriveDescription for ArrayParts {
    fn parts(&self) -> &[Part] {
        &self.0
    }

    fn parts_mut(&mut self) -> &mut [Part] {
        &mut self.0
    }

    fn build(&self, settings: &Settings, parts: &dyn PartBuilder) -> Result<Box<dyn DriveModel>, BuildError> {
        let member = |_| Ok::<_, BuildError>((parts.drive("member")?, parts.scheduler("scheduler")?));
        let members = (0..settings.count("members")).map(member).collect::<Result<_, _>>()?;
        Ok(super::build(settings, members)?)
    }
}
