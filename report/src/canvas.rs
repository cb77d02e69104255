//! A drawing as SVG text or PNG bytes, and text that fits where it stands.

use std::str::FromStr;

use plotters::coord::Shift;
use plotters::element::Text;
use plotters::prelude::{BLACK, BitMapBackend, DrawingArea, DrawingBackend, IntoDrawingArea, SVGBackend, WHITE};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, IntoFont, TextStyle, register_font};
use traces::printable::printable_lines;

/// Regular, for all text.
pub(crate) static TYPEFACE: &[u8] = include_bytes!("../fonts/Roboto-Regular.ttf");
/// What it is registered as; a viewer of an SVG takes its own sans-serif.
pub(crate) const FAMILY: &str = "sans-serif";
/// The smallest text in pixels.
pub(crate) const TEXT_MIN: u32 = 12;
/// Sides of a picture in pixels.
const SIDE: (u32, u32) = (320, 8192);

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// There is nothing to draw.
    #[error("there is nothing to draw")]
    Empty,
    /// What the drawing library says.
    #[error("drawing failed: {0}")]
    Drawing(String),
}

/// Width and height in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Pixels across.
    pub width: u32,
    /// Pixels down.
    pub height: u32,
}

impl FromStr for Size {
    type Err = String;

    /// `900x600`.
    fn from_str(text: &str) -> Result<Size, String> {
        let side = |text: &str| text.parse().ok().filter(|side| (SIDE.0..=SIDE.1).contains(side));
        let sides = text.split_once('x').and_then(|(width, height)| Some((side(width)?, side(height)?)));
        let (width, height) = sides.ok_or_else(|| {
            format!("expected width and height from {} to {} pixels, such as 900x600", SIDE.0, SIDE.1)
        })?;
        Ok(Size { width, height })
    }
}

/// A kind of canvas. Each draws letters at another height.
pub trait Canvas: DrawingBackend {
    /// From the top of a text to the middle of its capitals and digits, in heights of letters.
    const MIDDLE: f64;
}

impl Canvas for SVGBackend<'_> {
    const MIDDLE: f64 = 0.326;
}

impl Canvas for BitMapBackend<'_> {
    const MIDDLE: f64 = 0.16;
}

/// A picture of a result, on any kind of canvas.
pub trait Drawing {
    /// Draws it.
    ///
    /// # Errors
    /// Nothing to draw, or an error of the drawing library.
    fn draw<B: Canvas>(&self, area: &DrawingArea<B, Shift>) -> Result<(), PictureError>;

    /// The drawing as an SVG file. Control characters in names, which XML does not allow, become escapes.
    ///
    /// # Errors
    /// As [`Drawing::draw`].
    fn svg(&self, size: Size) -> Result<String, PictureError> {
        let mut text = String::new();
        paint(self, SVGBackend::with_string(&mut text, (size.width, size.height)))?;
        Ok(printable_lines(&text).into_owned())
    }

    /// The drawing as a PNG file.
    ///
    /// # Errors
    /// As [`Drawing::draw`].
    fn png(&self, size: Size) -> Result<Vec<u8>, PictureError> {
        let mut pixels = vec![0; size.width as usize * size.height as usize * 3];
        paint(self, BitMapBackend::with_buffer(&mut pixels, (size.width, size.height)))?;
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, size.width, size.height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().map_err(failed)?;
        writer.write_image_data(&pixels).map_err(failed)?;
        writer.finish().map_err(failed)?;
        Ok(file)
    }
}

fn paint<B: Canvas>(drawing: &(impl Drawing + ?Sized), backend: B) -> Result<(), PictureError> {
    register_font(FAMILY, FontStyle::Normal, TYPEFACE).map_err(|_| failed("the typeface is damaged"))?;
    let area = backend.into_drawing_area();
    area.fill(&WHITE).map_err(failed)?;
    drawing.draw(&area)?;
    area.present().map_err(failed)
}

/// The drawing library's error as ours.
pub(crate) fn failed(error: impl std::fmt::Display) -> PictureError {
    PictureError::Drawing(error.to_string())
}

/// The width in pixels of `text` in letters `size` pixels high.
pub(crate) fn width_of(text: &str, size: u32) -> u32 {
    (FAMILY, size).into_font().box_size(text).map_or(0, |(width, _)| width)
}

/// The size at which `text` takes at most `width` pixels: `size`, or a smaller one; `None` if it must be cut.
pub(crate) fn shrunk(text: &str, size: u32, width: u32) -> Option<u32> {
    (TEXT_MIN..=size).rev().find(|&size| width_of(text, size) <= width)
}

/// `text` in at most `width` pixels: smaller than `size` if it must be, and cut off with an ellipsis if
/// that is not enough.
pub(crate) fn fitted(text: &str, size: u32, width: u32) -> (String, u32) {
    if let Some(size) = shrunk(text, size, width) {
        return (text.to_owned(), size);
    }
    let letters: Vec<char> = text.chars().collect();
    let cut = |kept: usize| format!("{}…", letters[..kept].iter().collect::<String>());
    let kept = (0..letters.len()).rev().find(|&kept| width_of(&cut(kept), TEXT_MIN) <= width).unwrap_or(0);
    (cut(kept), TEXT_MIN)
}

/// Draws `text` so that the middle of its capitals and digits is at the height `middle`, and its `side` at `x`.
pub(crate) fn text_at<B: Canvas>(
    area: &DrawingArea<B, Shift>,
    text: &str,
    [x, middle]: [i32; 2],
    size: u32,
    side: HPos,
) -> Result<(), PictureError> {
    let style = TextStyle::from((FAMILY, size).into_font()).color(&BLACK).pos(Pos::new(side, VPos::Top));
    let top = f64::from(middle) - B::MIDDLE * f64::from(size);
    area.draw(&Text::new(text, (x, libm::round(top) as i32), style)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_or_refused() {
        assert_eq!("900x600".parse(), Ok(Size { width: 900, height: 600 }));
        for text in ["900", "900x", "x600", "90x600", "900x60000", "axb", "-900x600", ""] {
            let said = text.parse::<Size>().unwrap_err();
            assert!(said.contains("900x600"), "{said}");
        }
    }

    #[test]
    fn text_fits_its_place() {
        register_font(FAMILY, FontStyle::Normal, TYPEFACE).map_err(|_| ()).unwrap();
        let long = "a title that is far too long for the picture that it stands on";
        assert_eq!(fitted("short", 20, 500), ("short".to_owned(), 20));
        let (same, smaller) = fitted(long, 20, 400);
        assert!(same == long && smaller < 20 && width_of(&same, smaller) <= 400);
        let (cut, size) = fitted(long, 20, 100);
        assert!(cut.ends_with('…') && size == TEXT_MIN && width_of(&cut, size) <= 100, "{cut}");
    }
}
