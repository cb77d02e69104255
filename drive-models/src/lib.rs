//! Drive models decide *when* a request finishes. A scheduler decides which request goes next.
//!
//! A model reads no clock and does no I/O. Each model is one file or folder and one row of [`MODELS`]. A drive of a
//! make and type is a profile: a TOML file in `profiles/` that gives a source for every number.

pub mod array;
pub mod calibration;
pub mod description;
pub mod drive;
pub mod empirical;
pub mod fixed;
pub mod flash;
pub mod linear;
pub mod mechanical;
pub mod part;
pub mod profile;
pub mod queued;
pub mod registry;
pub mod section;
pub mod single_server;
pub mod throttle;

pub use description::{BuildError, Contradiction, DriveDescription, PartBuilder, SettingsAlone};
pub use drive::{Completion, DriveModel, WriteCache};
pub use mechanical::build_mechanical;
pub use part::{Part, PartKind, PartText};
pub use profile::{PROFILES, Profile};
pub use queued::Queued;
pub use registry::{BuiltDrive, Describe, DriveError, MODELS, ModelRow, Registry, build, build_profile};
pub use section::{ProfileError, Section, Sections};
pub use single_server::SingleServer;
pub use throttle::{Throttle, build_throttle};
