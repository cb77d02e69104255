//! A device that serves one request at a time, as a disk does.

mod destage;
mod fit;
mod model;
mod read_hits;
pub(crate) mod regression;
mod residuals;
pub(crate) mod samples;
mod seek_curves;

pub(crate) use self::fit::{FittedDisk, capacity, fit, fit_to, with_cache};
pub(crate) use self::model::DiskModel;
