//! A modelled drive as a network block device: data are served at full speed, and replies follow the model's times.
//!
//! [`ServedDrive`] combines the drive, its image and its log; nbdkit loads it through the plugin. [`simulated_drive`]
//! computes completion times from the requests' real arrivals, on a simulated clock. [`live_queue`] makes each client
//! wait until the real clock has reached them.

mod checked;
mod clock;
pub mod description;
pub mod image;
mod image_placement;
pub mod live_queue;
pub mod log;
mod plugin;
pub mod served;
pub mod simulated_drive;
mod status_line;

pub use checked::{Checked, ServeError, check};
pub use description::{Description, Export, SettingError, VmBy};
pub use image::{ImageSource, Opening};
pub use image_placement::ImagePlacement;
pub use served::ServedDrive;
pub use status_line::StatusLine;
