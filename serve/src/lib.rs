//! A modelled drive as a network block device: data are served at full speed, and replies follow the model's times.
//!
//! [`ServedDrive`] combines the drive, its image and its log; [`nbd::Server`] serves it to clients. [`simulated_drive`]
//! computes completion times from the requests' real arrivals, on a simulated clock.

mod accounts;
mod checked;
mod clock;
pub mod description;
pub mod image;
mod image_placement;
pub mod log;
pub mod nbd;
pub mod served;
pub mod simulated_drive;
pub mod urgency;

pub use checked::{Checked, ServeError, check};
pub use description::{Description, Export, SettingError, VmBy};
pub use image::{ImageSource, Opening};
pub use image_placement::ImagePlacement;
pub use served::ServedDrive;
