//! A modelled drive as a network block device: data at full speed, completions at the model's times.
//!
//! [`ServedDrive`] is the drive, its image and its log; the plugin around it is what nbdkit loads. Times are those of
//! the model for the requests as they really arrive ([`front`], on a simulated clock); who waits for them sleeps until
//! the real clock has come that far ([`waiting`]).

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
