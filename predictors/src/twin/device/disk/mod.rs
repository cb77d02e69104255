//! A disk: a device that serves one request at a time.
//!
//! ```text
//!   isolated trace -> samples      service times between completions
//!                        |         (read_hits: which of them were cache hits; destage: the write cache;
//!                        |          read_ahead: of which reads a hit was to be expected)
//!                        v
//!                    regression    line over operation, length and seek distance (seek_curves as prior)
//!                        |
//!                        v
//!                    residuals     measured times less the line's, by VM
//!                        |
//!              fit = line + residuals + caches + delay
//!                        |
//!                        v
//!                      model       drive model for the simulation
//! ```

mod destage;
mod equations;
mod fit;
pub(crate) mod line;
mod model;
mod read_ahead;
mod read_hits;
pub(crate) mod regression;
mod residuals;
pub(crate) mod samples;
mod seek_curves;

pub(crate) use self::fit::{FittedDisk, capacity, fit, fit_to, with_cache};
pub(crate) use self::model::DiskModel;
