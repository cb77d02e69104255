//! The drive that a throttle delays: the section `[throttle]` of a profile, and the same on a command line.

use serde::Deserialize;
use toml::Spanned;
use traces::spec::Settings;

use super::{Throttle, ThrottleSettings, virtual_disk};
use crate::description::{BuildError, DriveDescription, PartBuilder};
use crate::drive::DriveModel;
use crate::part::{Part, PartKind, PartText};
use crate::section::{ProfileError, Section, Sections};

/// The name of the virtual disk in profiles and specs.
const DISK: &str = "virtual";

/// The section of a throttle.
pub(super) const SECTIONS: &[Section] = &[Section::of::<ThrottleText>("throttle")];

/// The virtual disk whose completions a throttle delays.
#[derive(Clone, Debug)]
pub struct ThrottleTarget([Part; 1]);

/// `[throttle]` as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ThrottleText {
    #[serde(rename = "virtual")]
    disk: Spanned<PartText>,
}

impl Default for ThrottleTarget {
    fn default() -> ThrottleTarget {
        let summary = "the drive whose completions are delayed; virtual.X=V sets its tunable X";
        ThrottleTarget([Part::new(DISK, PartKind::Drive, virtual_disk::MODEL.name, summary)])
    }
}

/// The virtual disk that a profile names, or else the default one.
pub(super) fn describe(sections: Option<Sections>) -> Result<Box<dyn DriveDescription>, ProfileError> {
    let ThrottleTarget([disk]) = ThrottleTarget::default();
    let Some(mut sections) = sections else { return Ok(Box::new(ThrottleTarget([disk]))) };
    let text: ThrottleText = sections.take("throttle");
    Ok(Box::new(ThrottleTarget([disk.read(&text.disk)?])))
}

/// A throttle before a drive of any model.
pub type AnyThrottle = Throttle<Box<dyn DriveModel>>;

impl ThrottleTarget {
    pub(crate) fn throttle(&self, settings: &Settings, parts: &dyn PartBuilder) -> Result<AnyThrottle, BuildError> {
        Ok(Throttle::new(parts.drive(DISK)?, &ThrottleSettings::new(settings)?))
    }
}

impl DriveDescription for ThrottleTarget {
    fn parts(&self) -> &[Part] {
        &self.0
    }

    fn parts_mut(&mut self) -> &mut [Part] {
        &mut self.0
    }

    fn build(&self, settings: &Settings, parts: &dyn PartBuilder) -> Result<Box<dyn DriveModel>, BuildError> {
        Ok(Box::new(self.throttle(settings, parts)?))
    }
}
