//! The cache of a device's controller, which answers requests before they reach the medium.
//!
//! `fit` infers from isolated traces which share of a VM's requests the cache answers and in what time. `model` is the
//! drive model: the cache before another drive.

mod fit;
mod model;

pub(crate) use self::fit::{CacheTiming, ControllerCache, SEQUENTIAL_READ, kind, pass};
pub(crate) use self::model::{CachedDevice, WithControllerCache};
