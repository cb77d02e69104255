//! A rectangle in which values are shown by height, with its scale.

use plotters::coord::Shift;
use plotters::element::{PathElement, Text};
use plotters::prelude::{Color, DrawingArea};
use plotters::style::BLACK;
use plotters::style::text_anchor::HPos;

use crate::canvas::{Canvas, FAMILY, PictureError, failed, fitted, text_at, width_of};
use crate::ticks::Scale;

/// Where it lies in pixels, and what its height shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Panel {
    pub left: i32,
    pub right: i32,
    pub top: i32,
    pub bottom: i32,
    pub values: Scale,
}

/// Labelled values of a scale so high: at least two, with a line between any two.
fn labelled(values: Scale, height: i32, text: u32) -> Vec<(f64, String)> {
    values.ticks((height / (2 * text as i32)).clamp(2, 8) as usize)
}

/// Pixels that the labels beside a panel so high take.
pub(crate) fn beside(values: Scale, height: i32, text: u32) -> u32 {
    let labels = labelled(values, height, text).into_iter().map(|(_, label)| width_of(&label, text));
    labels.max().unwrap_or(0) + text
}

impl Panel {
    /// The height of a value.
    pub fn y(&self, value: f64) -> i32 {
        self.bottom - (self.values.at(value) * f64::from(self.bottom - self.top)) as i32
    }

    /// Its name above it; lines at round values, which stand to the left.
    pub fn frame<B: Canvas>(&self, area: &DrawingArea<B, Shift>, name: &str, text: u32) -> Result<(), PictureError> {
        let (name, size) = fitted(name, text, (self.right - self.left).max(0) as u32);
        let above = self.top - text as i32 * 4 / 3;
        area.draw(&Text::new(name, (self.left, above), (FAMILY, size))).map_err(failed)?;
        for (value, label) in labelled(self.values, self.bottom - self.top, text) {
            let y = self.y(value);
            let across = vec![(self.left, y), (self.right, y)];
            area.draw(&PathElement::new(across, BLACK.mix(0.15).stroke_width(1))).map_err(failed)?;
            text_at(area, &label, [self.left - text as i32 / 3, y], text, HPos::Right)?;
        }
        let corner = vec![(self.left, self.top), (self.left, self.bottom), (self.right, self.bottom)];
        area.draw(&PathElement::new(corner, BLACK.stroke_width(1))).map_err(failed)
    }

    /// The horizontal axis: round values, and what runs along.
    pub fn below<B: Canvas>(
        &self,
        area: &DrawingArea<B, Shift>,
        along: Scale,
        name: &str,
        text: u32,
    ) -> Result<(), PictureError> {
        let letter = text as i32;
        let wide = self.right - self.left;
        for (value, label) in along.ticks((wide / (5 * letter)).clamp(2, 12) as usize) {
            let x = self.left + (along.at(value) * f64::from(wide)) as i32;
            let mark = vec![(x, self.bottom), (x, self.bottom + letter / 3)];
            area.draw(&PathElement::new(mark, BLACK.stroke_width(1))).map_err(failed)?;
            let place = (x - width_of(&label, text) as i32 / 2, self.bottom + letter / 2);
            area.draw(&Text::new(label, place, (FAMILY, text))).map_err(failed)?;
        }
        let (name, size) = fitted(name, text, wide.max(0) as u32);
        let place = (self.left + (wide - width_of(&name, size) as i32) / 2, self.bottom + letter * 7 / 4);
        area.draw(&Text::new(name, place, (FAMILY, size))).map_err(failed)
    }
}

/// Lines of a label, each at most `width` pixels wide and with its middle at `middle`.
pub(crate) fn centred<B: Canvas>(
    area: &DrawingArea<B, Shift>,
    lines: &[String],
    [middle, top]: [i32; 2],
    text: u32,
    width: u32,
) -> Result<(), PictureError> {
    for (nth, line) in lines.iter().enumerate() {
        let (line, size) = fitted(line, text, width);
        let down = top + (nth as i32 * 6 + 2) * text as i32 / 5;
        text_at(area, &line, [middle, down], size, HPos::Center)?;
    }
    Ok(())
}
