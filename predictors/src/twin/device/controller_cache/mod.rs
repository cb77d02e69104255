//! The cache of a device's controller.

mod fit;
mod model;

pub(crate) use self::fit::{BEHIND, CacheTiming, ControllerCache, kind, pass};
pub(crate) use self::model::{CachedDevice, WithControllerCache};
