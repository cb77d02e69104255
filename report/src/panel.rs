//! A rectangle in which values are shown by height, with its scale.

use plotters::coord::Shift;
use plotters::element::{PathElement, Text};
use plotters::prelude::{Color, DrawingArea, DrawingBackend};
use plotters::style::BLACK;

use crate::canvas::{FAMILY, PictureError, failed, fitted, width_of};
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
    pub fn frame<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
        name: &str,
        text: u32,
    ) -> Result<(), PictureError> {
        let (name, size) = fitted(name, text, (self.right - self.left).max(0) as u32);
        let above = self.top - text as i32 * 4 / 3;
        area.draw(&Text::new(name, (self.left, above), (FAMILY, size))).map_err(failed)?;
        for (value, label) in labelled(self.values, self.bottom - self.top, text) {
            let y = self.y(value);
            let across = vec![(self.left, y), (self.right, y)];
            area.draw(&PathElement::new(across, BLACK.mix(0.15).stroke_width(1))).map_err(failed)?;
            let place = (self.left - width_of(&label, text) as i32 - text as i32 / 3, y - text as i32 * 2 / 5);
            area.draw(&Text::new(label, place, (FAMILY, text))).map_err(failed)?;
        }
        let corner = vec![(self.left, self.top), (self.left, self.bottom), (self.right, self.bottom)];
        area.draw(&PathElement::new(corner, BLACK.stroke_width(1))).map_err(failed)
    }
}

/// `label` in lines no wider than `width` pixels, broken between words, the middle of each at `middle`.
pub(crate) fn centred<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    lines: &[String],
    [middle, top]: [i32; 2],
    text: u32,
    width: u32,
) -> Result<(), PictureError> {
    for (nth, line) in lines.iter().enumerate() {
        let (line, size) = fitted(line, text, width);
        let place = (middle - width_of(&line, size) as i32 / 2, top + nth as i32 * text as i32 * 6 / 5);
        area.draw(&Text::new(line, place, (FAMILY, size))).map_err(failed)?;
    }
    Ok(())
}

/// `label` in lines of words that fit `width` pixels, where a single word may be wider.
pub(crate) fn broken(label: &str, text: u32, width: u32) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in label.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width_of(&format!("{line} {word}"), text) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
