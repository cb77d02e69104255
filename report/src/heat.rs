//! Squares of shares as colours, one for each LUN: who disturbs whom.

use plotters::coord::Shift;
use plotters::element::{Rectangle, Text};
use plotters::prelude::{Color, DrawingArea, DrawingBackend, RGBColor};
use plotters::style::BLACK;
use traces::results::placement::Interference;

use crate::canvas::{Drawing, FAMILY, PictureError, failed, fitted, width_of};
use crate::heading::{Mark, heading, legend, letters};

/// Nothing is left, half, all. Lightness grows with the share, so that a grey print shows it too.
const SCALE: [[f64; 3]; 3] = [[140.0, 25.0, 40.0], [240.0, 175.0, 95.0], [240.0, 247.0, 252.0]];
const UNKNOWN: RGBColor = RGBColor(205, 205, 205);
/// Cells narrower than so many letters have no number.
const NUMBER_LETTERS: i32 = 2;
/// Columns narrower than so many letters have no name above them.
const NAME_LETTERS: i32 = 2;
/// So many panels stand one below the other; more stand in two columns.
const PANELS_BELOW: usize = 2;

/// What the picture shows.
#[derive(Clone, Copy, Debug)]
pub struct HeatFigure<'a> {
    /// What it is of.
    pub title: &'a str,
    /// By whom it was forecast.
    pub caption: &'a str,
    /// For each LUN, or LUNs that are alike: the name and the shares.
    pub panels: &'a [(&'a str, &'a Interference)],
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
        if self.panels.is_empty() || self.panels.iter().any(|(_, of)| of.vms.is_empty()) {
            return Err(PictureError::Empty);
        }
        let (width, height) = area.dim_in_pixel();
        let text = letters(width, height);
        let down = heading(area, self.title, self.caption, text)?;
        let entries = [(0.0, "nothing left"), (0.5, "half"), (1.0, "all")]
            .map(|(share, name)| (Mark::Bar(colour(share)), name.to_owned()));
        let top = legend(area, &entries, text, down)? as i32;
        let bottom = height as i32 - 2 * text as i32;
        let across = if self.panels.len() > PANELS_BELOW { 2 } else { 1 };
        let deep = self.panels.len().div_ceil(across);
        let (wide, high) = (width as i32 / across as i32, (bottom - top) / deep as i32);
        for (nth, (name, interference)) in self.panels.iter().enumerate() {
            let (left, top) = ((nth % across) as i32 * wide, top + (nth / across) as i32 * high);
            square(area, name, interference, [left, top, left + wide, top + high], text)?;
        }
        let what = "rows: whose throughput is left, %; columns: beside whom";
        let (what, size) = fitted(what, text, width - 2 * text);
        area.draw(&Text::new(what, (text as i32, height as i32 - text as i32 * 3 / 2), (FAMILY, size))).map_err(failed)
    }
}

/// The shares on one LUN, between left, top, right and bottom: a cell for each two VMs, with the names of both.
fn square<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    name: &str,
    Interference { vms, left, .. }: &Interference,
    [begin, top, end, bottom]: [i32; 4],
    text: u32,
) -> Result<(), PictureError> {
    let letter = text as i32;
    let names = vms.iter().map(|vm| width_of(vm, text)).max().unwrap_or(0).min((end - begin) as u32 / 4);
    let (from, to) = (begin + 2 * letter + names as i32, end - letter);
    let (title, size) = fitted(&format!("on {name}"), text, (end - begin - 2 * letter).max(0) as u32);
    area.draw(&Text::new(title, (begin + letter, top), (FAMILY, size))).map_err(failed)?;
    let (first, last) = (top + letter * 3, bottom - letter);
    let count = vms.len() as i32;
    let edge = |start: i32, end: i32, nth: i32| start + (end - start) * nth / count;
    let column = |nth: usize| [edge(from, to, nth as i32), edge(from, to, nth as i32 + 1)];
    let wide = (to - from) / count;
    for (nth, vm) in vms.iter().enumerate().filter(|_| wide >= NAME_LETTERS * letter) {
        let (vm, size) = fitted(vm, text, wide as u32);
        let [left, right] = column(nth);
        let place = ((left + right - width_of(&vm, size) as i32) / 2, first - letter * 4 / 3);
        area.draw(&Text::new(vm, place, (FAMILY, size))).map_err(failed)?;
    }
    for (row, vm) in vms.iter().enumerate() {
        let (high, low) = (edge(first, last, row as i32), edge(first, last, row as i32 + 1));
        let fits = letter.min(low - high);
        if fits >= letter * 2 / 3 {
            let (vm, size) = fitted(vm, text, names);
            let place = (begin + letter, (high + low - size as i32) / 2);
            area.draw(&Text::new(vm, place, (FAMILY, size))).map_err(failed)?;
        }
        for (nth, share) in left.get(row).into_iter().flatten().enumerate() {
            let [left, right] = column(nth);
            let filled = share.map_or(UNKNOWN, colour);
            area.draw(&Rectangle::new([(left, high), (right, low)], filled.filled())).map_err(failed)?;
            let Some(share) = share.filter(|_| right - left >= NUMBER_LETTERS * letter && fits >= letter) else {
                continue;
            };
            let number = format!("{:.0}", 100.0 * share);
            let place = ((left + right - width_of(&number, text) as i32) / 2, (high + low - fits) / 2);
            area.draw(&Text::new(number, place, (FAMILY, text))).map_err(failed)?;
        }
    }
    area.draw(&Rectangle::new([(from, first), (to, last)], BLACK.stroke_width(1))).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canvas::Size;

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
    fn every_vm_has_its_cells_and_its_name_on_rows_and_columns() {
        let vms: Vec<String> = ["mail", "web", "file"].map(str::to_owned).to_vec();
        let left = vec![vec![None, Some(0.5), Some(1.0)], vec![Some(0.25), None, Some(0.75)], vec![None; 3]];
        let interference = Interference { lun: "a".to_owned(), vms, left };
        let size = Size { width: 600, height: 400 };
        let svg =
            |panels: &[(&str, &Interference)]| HeatFigure { title: "title", caption: "caption", panels }.svg(size);
        let one = svg(&[("gold", &interference)]).unwrap();
        for word in ["on gold", "50", "100", "25", "75", "nothing left"] {
            assert!(one.contains(&format!("\n{word}\n")), "{word}: {one}");
        }
        for vm in ["mail", "web", "file"] {
            assert_eq!(one.matches(&format!("\n{vm}\n")).count(), 2, "{vm}: {one}");
        }
        // Background, three marks with outlines, nine cells, the frame.
        assert!(one.matches("<rect").count() >= 14, "{one}");
        let three = svg(&[("gold", &interference), ("silver", &interference), ("tin", &interference)]).unwrap();
        assert!(three.contains("\non tin\n") && three.matches("\n75\n").count() == 3, "{three}");
        assert!(matches!(svg(&[]), Err(PictureError::Empty)));
        assert!(matches!(svg(&[("gold", &Interference::default())]), Err(PictureError::Empty)));
    }
}
