//! Calibration: from measured times of a drive to a profile of it, and how well the profile predicts measurements that
//! the fit has not seen.
//!
//! Nothing here does I/O. A [`MeasuredDevice`] is calibrated: a model on a simulated clock ([`SimulatedDevice`]) or a
//! real device, whose access lives with the program. [`FITS`] lists the models that can be fitted, one row each. Every
//! fit sees a random half of the reads, and [`goodness()`] judges its profile on the other half.

pub mod dependence;
pub mod device;
mod empirical;
mod fixed;
mod flash;
pub mod goodness;
pub mod linear;
mod mechanical;
mod profile_text;
pub mod reads;
mod served;

use traces::Sectors;
use traces::results::calibration::Parameter;

pub use dependence::dependence;
pub use device::{DeviceError, MeasuredDevice, SimulatedDevice};
pub use goodness::{Measurement, goodness};
pub use linear::DistanceLine;
pub use profile_text::ProfileText;
pub use reads::{CalibrationReads, Point, RandomReads, ReadsError, TraceReads};

/// Name of the generator of everything that is drawn here: xoshiro256++ with a seed.
pub const GENERATOR: &str = "xoshiro256++";

/// The evidence that a fit is made from.
#[derive(Clone, Copy, Debug)]
pub struct FitEvidence<'a> {
    /// The reads; a fit looks at the fitted half only.
    pub reads: &'a CalibrationReads,
    /// The capacity of the profile.
    pub capacity: Sectors,
    /// The measured device, trace or model, as the profile's sources name it.
    pub origin: &'a str,
    /// Whether times depend on distance.
    pub depends_on_distance: bool,
    /// Fit a line although they do not.
    pub force_linear: bool,
    /// Heads of the drive, if the user gives them. They are otherwise inferred from the skews.
    pub heads: Option<u32>,
    /// Seed of what is drawn for probes.
    pub seed: u64,
}

/// A fitted model.
#[derive(Clone, Debug)]
pub struct FittedModel {
    /// The profile, each number with its source.
    pub profile: ProfileText,
    /// The parameters found, in order of importance.
    pub parameters: Vec<Parameter>,
    /// The limits of the fit.
    pub notes: Vec<String>,
}

/// Why there is no fit.
#[derive(Debug, thiserror::Error)]
pub enum FitError {
    /// The model does not suit what was measured, or more would have to be known.
    #[error("{0}")]
    NotFitted(String),
    /// The device failed while it was probed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// One model that can be fitted.
#[derive(Debug)]
pub struct ModelFit {
    /// The model's name.
    pub name: &'static str,
    /// How it is fitted, in one line.
    pub summary: &'static str,
    /// Fits it. The device is there if what is calibrated can be asked more, and not for a trace.
    pub fit: fn(&FitEvidence, Option<&mut dyn MeasuredDevice>) -> Result<FittedModel, FitError>,
}

/// Every model that can be fitted, in the order in which they are printed.
pub const FITS: &[ModelFit] = &[linear::FIT, mechanical::FIT, fixed::FIT, empirical::FIT, flash::FIT];

#[cfg(test)]
mod tests;
