//! The picture of a result, as SVG and PNG. Its files are checked before the work begins.

use anyhow::Result;
use report::{Drawing, Size};

use crate::arguments::Picture;
use crate::files::Files;

const ENDINGS: [&str; 2] = [".svg", ".png"];

/// The files of a picture and its size.
pub struct PictureFiles {
    files: Files,
    size: Size,
}

impl PictureFiles {
    /// Checks that the picture can be written, if one is asked for.
    ///
    /// # Errors
    /// As [`Files::planned`].
    pub fn planned(arguments: &Picture) -> Result<Option<PictureFiles>> {
        let Some(stem) = arguments.output.clone() else { return Ok(None) };
        let files = Files::planned(stem, arguments.force, &ENDINGS.map(str::to_owned), &[])?;
        Ok(Some(PictureFiles { files, size: arguments.size }))
    }

    /// Draws the picture, and appends the files' names to `written`.
    ///
    /// # Errors
    /// Nothing to draw; a file that cannot be written.
    pub fn write(&self, drawing: &impl Drawing, written: &mut Vec<String>) -> Result<()> {
        write(&self.files, drawing, self.size, written)
    }

    /// The names of its files.
    pub fn names(&self) -> [String; 2] {
        ENDINGS.map(|ending| self.files.named(ending).display().to_string())
    }
}

/// Writes a drawing in both forms and appends the files' names to `written`.
///
/// # Errors
/// As [`PictureFiles::write`].
pub fn write(files: &Files, drawing: &impl Drawing, size: Size, written: &mut Vec<String>) -> Result<()> {
    files.write(ENDINGS[0], drawing.svg(size)?.as_bytes(), written)?;
    files.write(ENDINGS[1], &drawing.png(size)?, written)
}
