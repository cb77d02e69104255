//! Data on their way between the kernel's pages of a request and the image.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::image::Image;

/// Data that are yet to be moved.
pub(crate) struct Copy {
    pub(super) device: Arc<File>,
    /// Whether they go to the kernel.
    pub(super) is_read: bool,
    /// The next byte of the request's data in the character device.
    pub(super) data_at: u64,
    /// The next byte of the image.
    pub(super) image_at: u64,
    pub(super) left: u64,
}

impl Copy {
    /// Moves a piece of at most the length of `scratch`. Returns whether all data are moved.
    ///
    /// # Errors
    /// The image's, or the kernel has given the request up.
    pub(crate) fn step(&mut self, image: &Image, scratch: &mut [u8]) -> io::Result<bool> {
        let count = self.left.min(scratch.len() as u64);
        let piece = &mut scratch[..count as usize];
        if self.is_read {
            image.read(piece, self.image_at)?;
            self.device.write_all_at(piece, self.data_at)?;
        } else {
            self.device.read_exact_at(piece, self.data_at)?;
            image.write(piece, self.image_at)?;
        }
        (self.data_at, self.image_at, self.left) = (self.data_at + count, self.image_at + count, self.left - count);
        Ok(self.left == 0)
    }
}
