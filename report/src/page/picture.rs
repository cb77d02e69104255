//! A chart of a page as a picture of its own.

use plotters::coord::Shift;
use plotters::element::{Circle, PathElement, Polygon, Rectangle, Text};
use plotters::prelude::{Color, DrawingArea, RGBColor};
use plotters::style::BLACK;

use super::chart::{Axis, Chart, Line, Marks, sums};
use super::heat::{Heat, Run, SHADES};
use super::spans::Spans;
use crate::canvas::{Canvas, Drawing, FAMILY, PictureError, failed, fitted};
use crate::heading::{Mark, heading, legend, letters};
use crate::lines::{STROKES, stroke};
use crate::panel::{Panel, beside};
use crate::ticks::Scale;

/// The lightest and the darkest shade.
const SHADE: [[f64; 3]; 2] = [[222.0, 235.0, 247.0], [8.0, 48.0, 107.0]];

/// How much of its colour a pale dot has.
const PALE: f64 = 0.5;
/// Most runs of cells in a picture.
const RUNS_MAX: usize = 2500;

fn shade(number: usize) -> RGBColor {
    let part = (number - 1) as f64 / (SHADES - 1) as f64;
    let mixed: [f64; 3] = std::array::from_fn(|at| SHADE[0][at] * (1.0 - part) + SHADE[1][at] * part);
    RGBColor(mixed[0] as u8, mixed[1] as u8, mixed[2] as u8)
}

impl Drawing for Chart {
    fn draw<B: Canvas>(&self, area: &DrawingArea<B, Shift>) -> Result<(), PictureError> {
        if !self.has_marks() {
            return Err(PictureError::Empty);
        }
        let (width, height) = area.dim_in_pixel();
        let text = letters(width, height);
        let letter = text as i32;
        // A file of too many cells would be large.
        let joined = match &self.marks {
            Marks::Heat(heat) if heat.runs().len() > RUNS_MAX => Some(heat.coarser()),
            _ => None,
        };
        let about = match &joined {
            Some(heat) => format!("Each cell stands for four of the report; the darkest has {} requests.", heat.most()),
            None => self.about.clone(),
        };
        let under = heading(area, &self.title, &about, text)?;
        let mark = |number: usize| {
            let (colour, wide, dashes) = STROKES[number % STROKES.len()];
            match &self.marks {
                Marks::Spans(_) => Mark::Dot(colour),
                _ if self.has_switches() => Mark::Line(colour, wide, dashes),
                _ => Mark::Bar(colour),
            }
        };
        let entries: Vec<(Mark, String)> =
            self.legend().into_iter().map(|entry| (mark(entry.number), entry.name)).collect();
        let top = legend(area, &entries, text, under)? as i32 + letter * 7 / 4;
        let [along, values] = self.scales();
        let bottom = height as i32 - letter * 13 / 4;
        let left = beside(values, bottom - top, text) as i32 + letter / 2;
        let panel = Panel { left, right: width as i32 - 2 * letter, top, bottom: bottom.max(top + letter), values };
        match &self.marks {
            Marks::Lines(lines) => {
                for (number, line) in lines.iter().enumerate() {
                    for pixels in parts(line, panel, along) {
                        stroke(area, pixels, STROKES[number % STROKES.len()], text)?;
                    }
                }
            }
            Marks::Stacked(lines) => stacked(area, lines, panel, along)?,
            Marks::Heat(heat) => cells(area, joined.as_ref().unwrap_or(heat), panel)?,
            Marks::Spans(all) => {
                for (number, spans) in all.iter().enumerate() {
                    draw_spans(area, spans, panel, along, STROKES[number % STROKES.len()].0)?;
                }
            }
        }
        if !self.y.rows.is_empty() {
            names(area, &self.y, panel, text)?;
            return panel.below(area, along, &self.x.name, text);
        }
        panel.frame(area, &self.y.name, text)?;
        panel.below(area, along, &self.x.name, text)
    }
}

/// The pixels of a value.
fn pixel([x, y]: [f64; 2], panel: Panel, along: Scale) -> (i32, i32) {
    (panel.left + (along.at(x) * f64::from(panel.right - panel.left)) as i32, panel.y(y))
}

/// The parts of a line between its gaps.
fn parts(line: &Line, panel: Panel, along: Scale) -> Vec<Vec<(i32, i32)>> {
    let is_finite = |point: &[f64; 2]| point.iter().all(|value| value.is_finite());
    let parts = line.points.split(|point| !is_finite(point)).filter(|part| !part.is_empty());
    parts.map(|part| part.iter().map(|point| pixel(*point, panel, along)).collect()).collect()
}

/// Areas, the uppermost first.
fn stacked<B: Canvas>(
    area: &DrawingArea<B, Shift>,
    lines: &[Line],
    panel: Panel,
    along: Scale,
) -> Result<(), PictureError> {
    for (number, (line, sums)) in lines.iter().zip(sums(lines)).enumerate().rev() {
        let [Some(first), Some(last)] = [line.points.first(), line.points.last()] else { continue };
        let tops = line.points.iter().zip(sums).map(|(point, sum)| [point[0], sum]);
        let corners = tops.chain([[last[0], 0.0], [first[0], 0.0]]);
        let pixels: Vec<(i32, i32)> = corners.map(|point| pixel(point, panel, along)).collect();
        area.draw(&Polygon::new(pixels, STROKES[number % STROKES.len()].0.filled())).map_err(failed)?;
    }
    Ok(())
}

/// The names of rows, and lines between them.
fn names<B: Canvas>(area: &DrawingArea<B, Shift>, y: &Axis, panel: Panel, text: u32) -> Result<(), PictureError> {
    for (row, name) in y.rows.iter().enumerate() {
        let top = panel.y((y.rows.len() - row) as f64);
        let across = vec![(panel.left, top), (panel.right, top)];
        area.draw(&PathElement::new(across, BLACK.mix(0.15).stroke_width(1))).map_err(failed)?;
        let (name, size) = fitted(name, text, (panel.right - panel.left).max(0) as u32);
        area.draw(&Text::new(name, (panel.left + text as i32 / 3, top + text as i32 / 4), (FAMILY, size)))
            .map_err(failed)?;
    }
    Ok(())
}

fn draw_spans<B: Canvas>(
    area: &DrawingArea<B, Shift>,
    spans: &Spans,
    panel: Panel,
    along: Scale,
    colour: RGBColor,
) -> Result<(), PictureError> {
    let colour = colour.mix(if spans.is_pale { PALE } else { 1.0 });
    for (width, of) in [(2, &spans.thin), (7, &spans.thick)] {
        for [from, to, height] in of.iter().filter(|span| span.iter().all(|value| value.is_finite())) {
            let [left, right] = [from, to].map(|x| pixel([*x, *height], panel, along));
            match left == right {
                true => area.draw(&Circle::new(left, width / 2 + 1, colour.filled())).map_err(failed)?,
                false => area.draw(&PathElement::new(vec![left, right], colour.stroke_width(width))).map_err(failed)?,
            }
        }
    }
    Ok(())
}

fn cells<B: Canvas>(area: &DrawingArea<B, Shift>, heat: &Heat, panel: Panel) -> Result<(), PictureError> {
    let [across, down] = heat.cells();
    let x = |column: u64| panel.left + (column as f64 / across * f64::from(panel.right - panel.left)) as i32;
    let y = |row: u64| panel.top + (row as f64 / down * f64::from(panel.bottom - panel.top)) as i32;
    for Run { shade: number, down, columns } in heat.runs() {
        let corners = [(x(columns.start), y(down)), (x(columns.end), y(down + 1))];
        area.draw(&Rectangle::new(corners, shade(number).filled())).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::chart::Axis;
    use super::*;
    use crate::canvas::Size;
    use traces::results::history::Grid;

    const SIZE: Size = Size { width: 900, height: 560 };

    fn chart(marks: Marks) -> Chart {
        let (title, about) = ("p99 <of> reads".to_owned(), "to an eighth".to_owned());
        Chart { title, about, x: Axis::linear("time, s"), y: Axis::linear("MB/s"), marks }
    }

    #[test]
    fn title_units_and_names_stand_in_the_picture() {
        let line = |name: &str| Line { name: name.to_owned(), points: vec![[0.0, 1.0], [1.0, f64::NAN], [2.0, 3.0]] };
        for marks in [Marks::Lines(vec![line("a&b"), line("c")]), Marks::Stacked(vec![line("a&b"), line("c")])] {
            let svg = chart(marks).svg(SIZE).unwrap();
            for part in ["p99 &lt;of&gt; reads", "to an eighth", "time, s", "MB/s", "a&amp;b", "\nc\n"] {
                assert!(svg.contains(part), "{part}: {svg}");
            }
        }
        assert!(matches!(chart(Marks::Lines(Vec::new())).svg(SIZE), Err(PictureError::Empty)));
    }

    #[test]
    fn the_fullest_heat_map_stays_small() {
        let column = |at: u64| (0..256).map(|row| (row, (row * 7919 + at * 104_729) % 90)).collect();
        let grid = Grid { row_size: 8, columns: (0..256).map(column).collect() };
        let extent = super::super::heat::Extent { seconds: 256.0, rows: (0, 255) };
        let heat = chart(Marks::Heat(Heat::of(&grid, 1.0, extent, &Axis::linear("x"), |row| row as f64)));
        let [svg, png] = [heat.svg(SIZE).unwrap().len(), heat.png(SIZE).unwrap().len()];
        assert!(svg < 300_000 && png < 300_000, "{svg} and {png} bytes");
        assert!(heat.svg(SIZE).unwrap().contains("Each cell stands for four of the report"));
    }
}
