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
pub mod model_row;
pub mod part;
pub mod profile;
pub mod queued;
pub mod registry;
pub mod section;
pub mod single_server;
pub mod throttle;

pub use description::{BuildError, Contradiction, DriveDescription, DriveError, PartBuilder, SettingsAlone};
// In the signatures of every drive.
pub use drive::{Completion, DriveModel, WriteCache};
pub use model_row::{Describe, ModelRow};
pub use part::{Part, PartKind, PartText};
pub use profile::{PROFILES, Profile};
pub use queued::Queued;
pub use registry::{BuiltDrive, MODELS, Registry, build, build_mechanical, build_profile, build_throttle};
pub use schedulers::AccessCost;
pub use section::{ProfileError, Section, Sections};
pub use single_server::SingleServer;
pub use throttle::Throttle;
