//! A square of shares as colours: who disturbs whom.

use plotters::coord::Shift;
use plotters::element::{Rectangle, Text};
use plotters::prelude::{Color, DrawingArea, DrawingBackend, RGBColor};
use plotters::style::BLACK;
use traces::results::placement::Interference;

use crate::canvas::{self, Drawing, FAMILY, PictureError, Size, failed, fitted, width_of};
use crate::heading::{Mark, heading, legend, letters};

/// Nothing is left, half, all. Lightness grows with the share, so that grey paper tells it too.
const SCALE: [[f64; 3]; 3] = [[140.0, 25.0, 40.0], [240.0, 175.0, 95.0], [240.0, 247.0, 252.0]];
const UNKNOWN: RGBColor = RGBColor(205, 205, 205);
/// Cells narrower than so many letters have no number.
const NUMBER_LETTERS: i32 = 2;

/// What the picture shows.
#[derive(Clone, Copy, Debug)]
pub struct HeatFigure<'a> {
    /// What it is of.
    pub title: &'a str,
    /// By whom it was forecast.
    pub caption: &'a str,
    /// The shares.
    pub interference: &'a Interference,
}

impl HeatFigure<'_> {
    /// As an SVG file.
    ///
    /// # Errors
    /// Nothing to draw, or what the drawing library says.
    pub fn svg(&self, size: Size) -> Result<String, PictureError> {
        canvas::svg(self, size)
    }

    /// As a PNG file.
    ///
    /// # Errors
    /// As [`HeatFigure::svg`].
    pub fn png(&self, size: Size) -> Result<Vec<u8>, PictureError> {
        canvas::png(self, size)
    }
}

fn colour(share: f64) -> RGBColor {
    let place = share.clamp(0.0, 1.0) * 2.0;
    let low = if place < 1.0 { 0 } else { 1 };
    let part = place - low as f64;
    let mixed: [f64; 3] = std::array::from_fn(|index| SCALE[low][index] * (1.0 - part) + SCALE[low + 1][index] * part);
    RGBColor(mixed[0] as u8, mixed[1] as u8, mixed[2] as u8)
}

impl Drawing for HeatFigure<'_> {
    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<(), PictureError> {
        let Interference { vms, left, .. } = self.interference;
        if vms.is_empty() {
            return Err(PictureError::Empty);
        }
        let (width, height) = area.dim_in_pixel();
        let text = letters(width, height);
        let down = heading(area, self.title, self.caption, text)?;
        let entries = [(0.0, "nothing left"), (0.5, "half"), (1.0, "all")]
            .map(|(share, name)| (Mark::Bar(colour(share)), name.to_owned()));
        let top = legend(area, &entries, text, down)? as i32;
        let names = vms.iter().map(|vm| width_of(vm, text)).max().unwrap_or(0).min(width / 4);
        let from = (2 * text + names) as i32;
        let across = width as i32 - from - text as i32;
        let bottom = height as i32 - 2 * text as i32;
        let count = vms.len() as i32;
        let edge = |start: i32, end: i32, nth: i32| start + (end - start) * nth / count;
        for (row, vm) in vms.iter().enumerate() {
            let (high, low) = (edge(top, bottom, row as i32), edge(top, bottom, row as i32 + 1));
            let letter = (text as i32).min(low - high);
            if letter >= text as i32 * 2 / 3 {
                let (name, size) = fitted(vm, text, names);
                let place = (text as i32, (high + low - size as i32) / 2);
                area.draw(&Text::new(name, place, (FAMILY, size))).map_err(failed)?;
            }
            for (column, share) in left.get(row).into_iter().flatten().enumerate() {
                let sides = [edge(from, from + across, column as i32), edge(from, from + across, column as i32 + 1)];
                let corners = [(sides[0], high), (sides[1], low)];
                let filled = share.map_or(UNKNOWN, colour);
                area.draw(&Rectangle::new(corners, filled.filled())).map_err(failed)?;
                let Some(share) = share.filter(|_| sides[1] - sides[0] >= NUMBER_LETTERS * text as i32) else {
                    continue;
                };
                if letter >= text as i32 {
                    let number = format!("{:.0}", 100.0 * share);
                    let place = ((sides[0] + sides[1] - width_of(&number, text) as i32) / 2, (high + low - letter) / 2);
                    area.draw(&Text::new(number, place, (FAMILY, text))).map_err(failed)?;
                }
            }
        }
        area.draw(&Rectangle::new([(from, top), (from + across, bottom)], BLACK.stroke_width(1))).map_err(failed)?;
        let what = "rows: whose throughput is left, %; columns, in the same order: beside whom";
        let (what, size) = fitted(what, text, width - 2 * text);
        area.draw(&Text::new(what, (text as i32, height as i32 - text as i32 * 3 / 2), (FAMILY, size))).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(interference: &Interference) -> HeatFigure<'_> {
        HeatFigure { title: "title", caption: "caption", interference }
    }

    #[test]
    fn lightness_grows_with_the_share() {
        let light = |share: f64| {
            let RGBColor(red, green, blue) = colour(share);
            0.3 * f64::from(red) + 0.59 * f64::from(green) + 0.11 * f64::from(blue)
        };
        let steps: Vec<f64> = (0..=20).map(|step| light(f64::from(step) / 20.0)).collect();
        assert!(steps.windows(2).all(|pair| pair[0] < pair[1]), "{steps:?}");
        assert_eq!(colour(7.0), colour(1.0));
    }

    #[test]
    fn every_machine_has_its_cells_and_large_ones_their_number() {
        let vms: Vec<String> = ["mail", "web", "file"].map(str::to_owned).to_vec();
        let left = vec![vec![None, Some(0.5), Some(1.0)], vec![Some(0.25), None, Some(0.75)], vec![None; 3]];
        let interference = Interference { lun: "a".to_owned(), vms, left };
        let svg = figure(&interference).svg(Size { width: 600, height: 400 }).unwrap();
        for word in ["mail", "web", "file", "50", "100", "25", "75", "nothing left"] {
            assert!(svg.contains(&format!("\n{word}\n")), "{word}: {svg}");
        }
        // Background, three marks with outlines, nine cells, the frame.
        assert!(svg.matches("<rect").count() >= 14, "{svg}");
        let none = Interference::default();
        assert!(matches!(figure(&none).svg(Size { width: 600, height: 400 }), Err(PictureError::Empty)));
    }
}
