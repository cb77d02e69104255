//! What stands above a chart: its title, what is shown of the data, what the marks mean.

use plotters::coord::Shift;
use plotters::element::{Circle, PathElement, Rectangle, Text};
use plotters::prelude::{Color, DrawingArea, RGBColor};
use plotters::style::BLACK;
use plotters::style::text_anchor::HPos;

use crate::canvas::{Canvas, FAMILY, PictureError, failed, fitted, text_at, width_of};
use crate::labels::broken;

/// A mark of the legend.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mark {
    /// A dot of a cloud.
    Dot(RGBColor),
    /// A line so many pixels wide; if dashed, the lengths of dash and gap in quarters of a letter's height.
    Line(RGBColor, u32, Option<[u32; 2]>),
    /// A bar with an outline.
    Bar(RGBColor),
    /// A whisker.
    Whisker,
}

/// Height of letters in pixels that suits a picture of this size.
pub(crate) fn letters(width: u32, height: u32) -> u32 {
    (width.min(height * 3 / 2) / 45).clamp(14, 22)
}

/// Lines of a caption at most.
const CAPTION_LINES_MAX: usize = 3;

/// Title and caption above the chart; how many pixels they take. The title is as large as fits, and the caption has as
/// many lines as it needs.
pub(crate) fn heading<B: Canvas>(
    area: &DrawingArea<B, Shift>,
    title: &str,
    caption: &str,
    text: u32,
) -> Result<u32, PictureError> {
    let width = area.dim_in_pixel().0 - 2 * text;
    let mut down = text * 2 / 3;
    let mut lines = broken(caption, text, width);
    if lines.len() > CAPTION_LINES_MAX {
        let rest = lines.split_off(CAPTION_LINES_MAX - 1).join(" ");
        lines.push(rest);
    }
    let title = std::iter::once((title, text * 4 / 3));
    for (line, size) in title.chain(lines.iter().map(|line| (line.as_str(), text))) {
        let (line, size) = fitted(line, size, width);
        area.draw(&Text::new(line, (text as i32, down as i32), (FAMILY, size))).map_err(failed)?;
        down += size * 4 / 3;
    }
    Ok(down)
}

/// The legend from `down` on, in as many lines as it needs; where it ends.
pub(crate) fn legend<B: Canvas>(
    area: &DrawingArea<B, Shift>,
    entries: &[(Mark, String)],
    text: u32,
    mut down: u32,
) -> Result<u32, PictureError> {
    if entries.is_empty() {
        return Ok(down + text / 2);
    }
    let (width, mark) = (area.dim_in_pixel().0, 2 * text);
    let mut along = text;
    for (kind, label) in entries {
        let (label, size) = fitted(label, text, width.saturating_sub(mark + 3 * text));
        let taken = mark + text / 2 + width_of(&label, size);
        if along > text && along + taken + text > width {
            (along, down) = (text, down + text * 4 / 3);
        }
        let middle = (down + text * 2 / 5) as i32;
        sample(area, *kind, text, [along as i32, middle])?;
        text_at(area, &label, [(along + mark + text / 2) as i32, middle], size, HPos::Left)?;
        along += taken + 2 * text;
    }
    Ok(down + text * 2)
}

/// The mark itself, two letters wide, from `left` on around `middle`.
fn sample<B: Canvas>(
    area: &DrawingArea<B, Shift>,
    mark: Mark,
    text: u32,
    [left, middle]: [i32; 2],
) -> Result<(), PictureError> {
    let (wide, half) = (2 * text as i32, text as i32 / 2);
    let stroke = |from: i32, to: i32| vec![(left + from, middle), (left + to.min(wide), middle)];
    match mark {
        Mark::Dot(colour) => area.draw(&Circle::new((left + wide / 2, middle), 3, colour.filled())).map_err(failed),
        Mark::Line(colour, thick, dashes) => {
            let [dash, gap] = dashes.map_or([wide, 1], |dashes| dashes.map(|part| (part * text / 4).max(1) as i32));
            for from in (0..wide).step_by((dash + gap) as usize) {
                area.draw(&PathElement::new(stroke(from, from + dash), colour.stroke_width(thick))).map_err(failed)?;
            }
            Ok(())
        }
        Mark::Bar(colour) => {
            let corners = [(left + half, middle - half), (left + wide - half, middle + half)];
            area.draw(&Rectangle::new(corners, colour.filled())).map_err(failed)?;
            area.draw(&Rectangle::new(corners, BLACK.stroke_width(1))).map_err(failed)
        }
        Mark::Whisker => whisker(area, left + wide / 2, [middle - half, middle + half], half),
    }
}

/// A whisker at `x` between two heights, its ends so many pixels wide.
pub(crate) fn whisker<B: Canvas>(
    area: &DrawingArea<B, Shift>,
    x: i32,
    [top, bottom]: [i32; 2],
    wide: i32,
) -> Result<(), PictureError> {
    let half = wide / 2;
    for ends in [
        vec![(x, top), (x, bottom)],
        vec![(x - half, top), (x + half, top)],
        vec![(x - half, bottom), (x + half, bottom)],
    ] {
        area.draw(&PathElement::new(ends, BLACK.stroke_width(1))).map_err(failed)?;
    }
    Ok(())
}
