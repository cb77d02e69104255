//! A modelled drive as a block device for real clients: data are served at full speed, and replies follow the model's
//! times.
//!
//! [`ServedDrive`] combines the drive, its image and its log; [`Server`] serves it to clients, over NBD and vhost-user,
//! and to this host through ublk.
//! [`simulated_drive`] computes completion times from the requests' real arrivals, on a simulated clock.

mod accounts;
mod checked;
mod clock;
pub mod description;
pub mod image;
mod image_placement;
pub mod log;
pub mod nbd;
mod requests;
pub mod served;
mod server;
pub mod simulated_drive;
mod ublk;
pub mod urgency;
mod vhost_user;

pub use checked::{Checked, ServeError, check};
pub use description::{Description, Export, SettingError, VmBy};
pub use image::{ImageSource, Opening};
pub use image_placement::ImagePlacement;
pub use requests::Command;
pub use served::ServedDrive;
pub use server::{Limits, Listener, Server, Stopper};
pub use ublk::UblkControl;
