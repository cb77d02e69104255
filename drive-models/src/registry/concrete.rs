//! Drives under their own types, for callers that need more of them than a [`DriveModel`](crate::DriveModel) offers.

use traces::spec::Spec;

use super::{Registry, Resolved};
use crate::description::DriveError;
use crate::mechanical::{Mechanical, Mechanics};
use crate::throttle::{AnyThrottle, ThrottleTarget};

/// The arm and platter of the drive that `spec` names, if it has them.
///
/// # Errors
/// As [`Registry::build`].
pub fn build_mechanical(spec: &Spec) -> Result<Option<Mechanical>, DriveError> {
    let drive = Resolved::of_spec(&Registry::SHIPPED, spec, &[])?;
    drive.build_from(|mechanics: &Mechanics, settings, _| Ok(Mechanical::new(settings, mechanics)))
}

/// Builds the throttle that `spec` names, if it names one. A caller of [`build`](crate::build) gets the same drive but
/// cannot reach its settings and report.
///
/// # Errors
/// As [`Registry::build`].
pub fn build_throttle(spec: &Spec) -> Result<Option<AnyThrottle>, DriveError> {
    Resolved::of_spec(&Registry::SHIPPED, spec, &[])?.build_from(ThrottleTarget::throttle)
}
