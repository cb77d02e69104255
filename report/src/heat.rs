//! Squares of shares as colours, one for each LUN: who disturbs whom.

use plotters::coord::Shift;
use plotters::element::{Rectangle, Text};
use plotters::prelude::{Color, DrawingArea, RGBColor};
use plotters::style::BLACK;
use plotters::style::text_anchor::HPos;
use traces::results::placement::Interference;

use crate::canvas::{Canvas, Drawing, FAMILY, PictureError, failed, fitted, text_at, width_of};
use crate::heading::{Mark, heading, legend, letters};
use crate::labels::in_a_line;

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
    /// What the shares of a row are of: "whose throughput is left".
    pub rows: &'a str,
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
    fn draw<B: Canvas>(&self, area: &DrawingArea<B, Shift>) -> Result<(), PictureError> {
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
        let what = format!("rows: {}, %; columns: beside whom", self.rows);
        let (what, size) = fitted(&what, text, width - 2 * text);
        area.draw(&Text::new(what, (text as i32, height as i32 - text as i32 * 3 / 2), (FAMILY, size))).map_err(failed)
    }
}

/// The shares on one LUN, between left, top, right and bottom: a cell for each two VMs, with the names of both.
fn square<B: Canvas>(
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
    let called: Vec<&str> = vms.iter().map(String::as_str).collect();
    if wide >= NAME_LETTERS * letter {
        for (nth, (vm, size)) in in_a_line(&called, text, (wide - letter / 2) as u32).iter().enumerate() {
            let [left, right] = column(nth);
            text_at(area, vm, [(left + right) / 2, first - letter], *size, HPos::Center)?;
        }
    }
    for (row, (vm, size)) in in_a_line(&called, text, names).into_iter().enumerate() {
        let (high, low) = (edge(first, last, row as i32), edge(first, last, row as i32 + 1));
        let (middle, fits) = ((high + low) / 2, letter.min(low - high));
        if fits >= letter * 2 / 3 {
            text_at(area, &vm, [begin + letter, middle], size, HPos::Left)?;
        }
        for (nth, share) in left.get(row).into_iter().flatten().enumerate() {
            let [left, right] = column(nth);
            let filled = share.map_or(UNKNOWN, colour);
            area.draw(&Rectangle::new([(left, high), (right, low)], filled.filled())).map_err(failed)?;
            let Some(share) = share.filter(|_| right - left >= NUMBER_LETTERS * letter && fits >= letter) else {
                continue;
            };
            text_at(area, &format!("{:.0}", 100.0 * share), [(left + right) / 2, middle], text, HPos::Center)?;
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

    /// A picture as rows of pixels.
    fn pixels(count: usize, size: Size) -> Vec<Vec<[u8; 3]>> {
        let vms: Vec<String> = (0..count).map(|vm| format!("E{vm}")).collect();
        let left = vec![vec![Some(0.5); count]; count];
        let interference = Interference { lun: "a".to_owned(), vms, left };
        let panels = [("gold", &interference)];
        let file = HeatFigure { title: "", caption: "", rows: "", panels: &panels }.png(size).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut bytes).unwrap();
        let pixels: Vec<[u8; 3]> = bytes.as_chunks().0.to_vec();
        pixels.chunks(size.width as usize).map(<[[u8; 3]]>::to_vec).collect()
    }

    /// Twice the middle of the first and last place of which something holds.
    fn middle(places: usize, holds: impl Fn(usize) -> bool) -> usize {
        (0..places).find(|&place| holds(place)).unwrap() + (0..places).rfind(|&place| holds(place)).unwrap()
    }

    #[test]
    fn numbers_and_names_of_rows_stand_in_the_middle_of_their_cells() {
        for (count, size) in [(1, Size { width: 400, height: 320 }), (1, Size { width: 1500, height: 1000 })] {
            let pixels = pixels(count, size);
            let RGBColor(red, green, blue) = colour(0.5);
            let is_cell = |pixel: &[u8; 3]| *pixel == [red, green, blue];
            // The cell begins below the mark of the legend.
            let top =
                (0..pixels.len()).find(|&y| pixels[y].iter().filter(|pixel| is_cell(pixel)).count() > 100).unwrap();
            let cell = &pixels[top..];
            let row = |y: usize| cell[y].iter().any(is_cell);
            let bottom = (0..cell.len()).rfind(|&y| row(y)).unwrap();
            let [begin, end] =
                [cell[0].iter().position(is_cell), cell[0].iter().rposition(is_cell)].map(Option::unwrap);
            let dark = |pixel: &[u8; 3]| u32::from(pixel[0]) < 120;
            let inside = |y: usize| (2..bottom - 2).contains(&y) && cell[y][begin + 2..end - 2].iter().any(dark);
            assert!(middle(bottom, inside).abs_diff(bottom) <= 2, "{size:?} {} {bottom}", middle(bottom, inside));
            let across =
                |x: usize| (begin + 2..end - 2).contains(&x) && cell[2..bottom - 2].iter().any(|y| dark(&y[x]));
            assert!(middle(end, across).abs_diff(begin + end) <= 4, "{size:?}");
            let name = |y: usize| cell[y][..begin - 2].iter().any(dark);
            assert!(middle(bottom, name).abs_diff(bottom) <= 2, "{size:?}");
        }
    }

    #[test]
    fn names_of_many_vms_stay_within_their_rows() {
        let size = Size { width: 600, height: 320 };
        let names = (0..16).map(|vm| format!("E{vm}")).collect::<Vec<String>>();
        let left = vec![vec![Some(0.5); names.len()]; names.len()];
        let interference = Interference { lun: "a".to_owned(), vms: names.clone(), left };
        let panels = [("gold", &interference)];
        let text = HeatFigure { title: "", caption: "", rows: "", panels: &panels }.svg(size).unwrap();
        let numbers = |part: &str, names: [&str; 2]| {
            names.map(|name| {
                let value = part.split(&format!("{name}=\"")).nth(1).unwrap();
                value.split('"').next().unwrap().parse::<f64>().unwrap()
            })
        };
        let fill = |RGBColor(red, green, blue): RGBColor| format!("fill=\"#{red:02X}{green:02X}{blue:02X}\"");
        let cells: Vec<[f64; 2]> = text
            .split("<rect")
            .filter(|part| part.contains(&fill(colour(0.5))))
            .map(|part| numbers(part, [" y", "height"]))
            .collect();
        for (row, name) in names.iter().enumerate() {
            let before = &text[..text.rfind(&format!("\n{name}\n")).unwrap()];
            let [y, size] = numbers(&before[before.rfind("<text").unwrap()..], [" y", "font-size"]);
            // The mark of the legend is the first; a letter stands on its baseline, seven tenths of its size high.
            let [top, high] = cells[1 + row * names.len()];
            let [first, last] = [y + 0.05 * size, y + 0.76 * size];
            assert!(first >= top && last <= top + high, "{name}: {first} to {last}, {top} + {high}");
        }
    }

    #[test]
    fn every_vm_has_its_cells_and_its_name_on_rows_and_columns() {
        let vms: Vec<String> = ["mail", "web", "file"].map(str::to_owned).to_vec();
        let left = vec![vec![None, Some(0.5), Some(1.0)], vec![Some(0.25), None, Some(0.75)], vec![None; 3]];
        let interference = Interference { lun: "a".to_owned(), vms, left };
        let size = Size { width: 600, height: 400 };
        let svg = |panels: &[(&str, &Interference)]| {
            HeatFigure { title: "title", caption: "caption", rows: "", panels }.svg(size)
        };
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
