//! A chart of a page: an SVG whose colours are the page's, so that it follows a dark screen and a printer.

use std::fmt::Write as _;

use traces::printable::printable;

use super::heat::Heat;
use super::spans::Spans;
use crate::ticks::Scale;

/// The chart's size in its own units. A page shows it as wide as there is room.
const SIZE: [f64; 2] = [480.0, 270.0];
/// Where the plot lies in it: left, top, width, height.
const PLOT: [f64; 4] = [52.0, 8.0, 416.0, 218.0];
/// The units of the plot's own coordinates, each way.
pub(super) const UNITS: f64 = 4000.0;
/// Labels along each axis.
const TICKS: [usize; 2] = [6, 5];

/// How an axis runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Even steps.
    Linear,
    /// Powers of ten.
    Powers,
}

/// One axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What runs along it, with its unit.
    pub name: String,
    /// How it runs.
    pub kind: Kind,
    /// Values that it reaches at least, so that charts beside one another have the same axis.
    pub reaches: Vec<f64>,
    /// The names of rows from above to below, in the place of values: a row is one high, and the lowest ends at 0.
    pub rows: Vec<String>,
}

impl Axis {
    /// An axis of even steps.
    pub fn linear(name: &str) -> Axis {
        Axis { name: name.to_owned(), kind: Kind::Linear, reaches: Vec::new(), rows: Vec::new() }
    }

    /// An axis of powers of ten.
    pub fn powers(name: &str) -> Axis {
        Axis { kind: Kind::Powers, ..Axis::linear(name) }
    }

    /// An axis of named rows.
    pub fn names(rows: Vec<String>) -> Axis {
        Axis { reaches: vec![0.0, rows.len() as f64], rows, ..Axis::linear("") }
    }

    /// The axis, with these values or beyond.
    pub fn reaching(self, values: impl IntoIterator<Item = f64>) -> Axis {
        Axis { reaches: self.reaches.into_iter().chain(values).collect(), ..self }
    }

    /// The values that are labelled: round ones, or the ends of rows.
    pub(super) fn ticks(&self, scale: Scale, count: usize) -> Vec<(f64, String)> {
        match self.rows.is_empty() {
            true => scale.ticks(count),
            false => (1..self.rows.len()).map(|row| (row as f64, String::new())).collect(),
        }
    }

    pub(super) fn scale(&self, values: impl Iterator<Item = f64>) -> Scale {
        let values = values.chain(self.reaches.iter().copied());
        match self.kind {
            Kind::Linear => Scale::of_lines(values),
            Kind::Powers => Scale::of_powers(values),
        }
    }
}

/// A named line. A point that is not finite is a gap.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Its points, in the order of x.
    pub points: Vec<[f64; 2]>,
}

/// What a chart shows.
#[derive(Clone, Debug)]
pub enum Marks {
    /// Lines of their own colours and dashes.
    Lines(Vec<Line>),
    /// Areas that lie on one another. All have the same x.
    Stacked(Vec<Line>),
    /// Counts by two values.
    Heat(Heat),
    /// Spans along x, each at a height.
    Spans(Vec<Spans>),
}

/// A chart with its title.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// How to read it, and how exact it is.
    pub about: String,
    /// From left to right.
    pub x: Axis,
    /// From below to above.
    pub y: Axis,
    /// Its content.
    pub marks: Marks,
}

/// Colours of lines and areas.
pub(super) const COLOURS: usize = 8;

/// An entry of the legend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The number of its line.
    pub number: usize,
    /// The number of its colour.
    pub colour: usize,
    /// The line's name, safe to show.
    pub name: String,
}

impl Chart {
    /// Whether there is something to draw.
    pub fn has_marks(&self) -> bool {
        let is_finite = |line: &Line| line.points.iter().any(|point| point.iter().all(|value| value.is_finite()));
        match &self.marks {
            Marks::Lines(lines) | Marks::Stacked(lines) => lines.iter().any(is_finite),
            Marks::Heat(heat) => !heat.is_empty(),
            Marks::Spans(all) => all.iter().any(|spans| !spans.is_empty()),
        }
    }

    /// The entries of the legend; none for a single line.
    pub fn legend(&self) -> Vec<Entry> {
        let names: Vec<&str> = match &self.marks {
            Marks::Lines(lines) | Marks::Stacked(lines) => lines.iter().map(|line| line.name.as_str()).collect(),
            Marks::Spans(all) => all.iter().map(|spans| spans.name.as_str()).collect(),
            Marks::Heat(_) => Vec::new(),
        };
        let entry = |(number, name): (usize, &&str)| Entry {
            number,
            colour: number % COLOURS,
            name: printable(name).into_owned(),
        };
        if names.len() < 2 { Vec::new() } else { names.iter().enumerate().map(entry).collect() }
    }

    /// Whether the marks are spans and dots.
    pub fn has_dots(&self) -> bool {
        matches!(self.marks, Marks::Spans(_))
    }

    /// Whether single lines can be hidden: areas lie on one another.
    pub fn has_switches(&self) -> bool {
        matches!(self.marks, Marks::Lines(_) | Marks::Spans(_))
    }

    /// The chart as SVG to stand in a page; what is missing where there is nothing to draw stands in the page.
    pub fn inline(&self) -> String {
        let [x, y] = self.scales();
        let [left, top, width, height] = PLOT;
        let mut text = String::new();
        let _ = write!(
            text,
            "<svg class=\"chart\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\"",
            SIZE[0],
            SIZE[1],
            escaped(&format!("{}. {}", self.title, self.about))
        );
        for (axis, scale, name) in [('x', x, &self.x.name), ('y', y, &self.y.name)] {
            let Scale { low, high, is_logarithmic } = scale;
            let powers = u8::from(is_logarithmic);
            let _ = write!(text, " data-{axis}=\"{low:e},{high:e},{powers}\" data-{axis}-name=\"{}\"", escaped(name));
        }
        text.push('>');
        text.push_str("<g class=\"grid\">");
        for (value, _) in self.y.ticks(y, TICKS[1]) {
            let at = top + (1.0 - y.at(value)) * height;
            let _ = write!(text, "<path d=\"M{left} {at:.1}h{width}\"/>");
        }
        text.push_str("</g><g class=\"ticks-x\">");
        for (value, label) in x.ticks(TICKS[0]) {
            let (at, below) = (left + x.at(value) * width, top + height + 14.0);
            // A label at the end would be cut off.
            let anchor = if x.at(value) > 0.95 { "end" } else { "middle" };
            let _ = write!(text, "<text x=\"{at:.1}\" y=\"{below}\" text-anchor=\"{anchor}\">{label}</text>");
        }
        text.push_str("</g><g class=\"ticks-y\">");
        for (value, label) in self.y.ticks(y, TICKS[1]) {
            let at = top + (1.0 - y.at(value)) * height + 4.0;
            let _ = write!(text, "<text x=\"{}\" y=\"{at:.1}\" text-anchor=\"end\">{label}</text>", left - 5.0);
        }
        for (row, name) in self.y.rows.iter().enumerate() {
            let at = top + row as f64 / self.y.rows.len() as f64 * height + 11.0;
            let _ = write!(text, "<text class=\"row\" x=\"{}\" y=\"{at:.1}\">{}</text>", left + 4.0, escaped(name));
        }
        let _ = write!(
            text,
            "</g><text class=\"name\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
             <text class=\"name\" transform=\"translate(11 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            left + width / 2.0,
            SIZE[1] - 6.0,
            escaped(&self.x.name),
            top + height / 2.0,
            escaped(&self.y.name)
        );
        let [across, down] = match &self.marks {
            Marks::Heat(heat) => heat.cells(),
            _ => [UNITS, UNITS],
        };
        let _ = write!(
            text,
            "<svg class=\"plot\" x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {across} {down}\" preserveAspectRatio=\"none\">"
        );
        match &self.marks {
            Marks::Lines(lines) => lines.iter().enumerate().for_each(|(number, line)| {
                let _ = write!(text, "<path class=\"line c{}\" data-line=\"{number}\" d=\"", number % COLOURS);
                path(&mut text, &line.points, [x, y]);
                text.push_str("\"/>");
            }),
            Marks::Stacked(lines) => stacked(&mut text, lines, [x, y]),
            Marks::Heat(heat) => heat.write(&mut text),
            Marks::Spans(all) => {
                all.iter().enumerate().for_each(|(number, spans)| spans.write(&mut text, number, [x, y]));
            }
        }
        let _ = write!(
            text,
            "</svg><path class=\"frame\" d=\"M{left} {top}v{height}h{width}\"/><path class=\"cursor\" d=\"\"/></svg>"
        );
        text
    }

    pub(super) fn scales(&self) -> [Scale; 2] {
        let of = |lines: &[Line], axis: usize| -> Vec<f64> {
            lines.iter().flat_map(|line| line.points.iter().map(move |point| point[axis])).collect()
        };
        match &self.marks {
            Marks::Lines(lines) => [self.x.scale(of(lines, 0).into_iter()), self.y.scale(of(lines, 1).into_iter())],
            Marks::Stacked(lines) => {
                let most = sums(lines).last().cloned().unwrap_or_default();
                [self.x.scale(of(lines, 0).into_iter()), self.y.scale(std::iter::once(0.0).chain(most))]
            }
            Marks::Heat(heat) => heat.scales(),
            Marks::Spans(all) => {
                let all: Vec<&[f64; 3]> = all.iter().flat_map(Spans::all).collect();
                let ends = all.iter().flat_map(|span| [span[0], span[1]]);
                [self.x.scale(ends), self.y.scale(all.iter().map(|span| span[2]))]
            }
        }
    }
}

/// For each line the sums of its values and those of the lines before it.
pub(super) fn sums(lines: &[Line]) -> Vec<Vec<f64>> {
    let mut sums: Vec<Vec<f64>> = Vec::new();
    for line in lines {
        let below = sums.last().cloned().unwrap_or_else(|| vec![0.0; line.points.len()]);
        sums.push(line.points.iter().zip(below).map(|(point, below)| point[1] + below).collect());
    }
    sums
}

/// The areas, the uppermost first, so that each covers what lies below its own part.
fn stacked(text: &mut String, lines: &[Line], scales: [Scale; 2]) {
    let sums = sums(lines);
    for (number, (line, sums)) in lines.iter().zip(&sums).enumerate().rev() {
        let [Some(first), Some(last)] = [line.points.first(), line.points.last()] else { continue };
        let top: Vec<[f64; 2]> = line.points.iter().zip(sums).map(|(point, sum)| [point[0], *sum]).collect();
        let _ = write!(text, "<path class=\"area c{}\" data-line=\"{number}\" d=\"", number % COLOURS);
        path(text, &top, scales);
        let along = |x: f64| libm::round(scales[0].at(x) * UNITS);
        let _ = write!(text, "L{} {UNITS}L{} {UNITS}Z\"/>", along(last[0]), along(first[0]));
    }
}

/// The points as a path. Points that fall together are left out.
fn path(text: &mut String, points: &[[f64; 2]], [x, y]: [Scale; 2]) {
    let mut before = None;
    for &[of_x, of_y] in points {
        if !of_x.is_finite() || !of_y.is_finite() {
            before = None;
            continue;
        }
        let place = [libm::round(x.at(of_x) * UNITS), libm::round((1.0 - y.at(of_y)) * UNITS)];
        if before == Some(place) {
            continue;
        }
        let _ = write!(text, "{}{} {}", if before.is_none() { 'M' } else { 'L' }, place[0], place[1]);
        before = Some(place);
    }
}

/// Text for an attribute or a text of SVG.
pub(super) fn escaped(text: &str) -> String {
    let text = printable(text);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(marks: Marks) -> Chart {
        let (title, about) = ("<script>alert(1)</script>".to_owned(), "\"a\" & b\u{202e}".to_owned());
        Chart { title, about, x: Axis::linear("time, s"), y: Axis::linear("MB/s"), marks }
    }

    fn line(name: &str, values: &[f64]) -> Line {
        let points = values.iter().enumerate().map(|(at, value)| [at as f64, *value]).collect();
        Line { name: name.to_owned(), points }
    }

    #[test]
    fn names_cannot_leave_their_place() {
        let svg = chart(Marks::Lines(vec![line("a", &[1.0, 2.0])])).inline();
        assert!(!svg.contains("<script") && !svg.contains('\u{202e}'), "{svg}");
        assert!(svg.contains("aria-label=\"&lt;script&gt;alert(1)&lt;/script&gt;. &quot;a&quot; &amp; b\\u{202e}\""));
    }

    #[test]
    fn lines_have_gaps_and_lie_where_their_values_are() {
        let svg = chart(Marks::Lines(vec![line("a", &[0.0, 10.0, f64::NAN, 5.0, 5.0])])).inline();
        // x from 0 to 4, y from 0 to 10, down the plot.
        assert!(svg.contains("d=\"M0 4000L1000 0M3000 2000L4000 2000\""), "{svg}");
        assert!(svg.contains("data-x=\"0e0,4e0,0\"") && svg.contains("data-y=\"0e0,1e1,0\""), "{svg}");
    }

    #[test]
    fn areas_lie_on_one_another_up_to_their_sum() {
        let svg = chart(Marks::Stacked(vec![line("a", &[1.0, 1.0]), line("b", &[3.0, 1.0])])).inline();
        let below = svg.find("M0 3000L4000 3000L4000 4000L0 4000Z");
        let above = svg.find("M0 0L4000 2000L4000 4000L0 4000Z");
        assert!(above.unwrap() < below.unwrap(), "{svg}");
    }

    #[test]
    fn a_single_line_has_no_legend_and_nothing_is_no_marks() {
        let both = chart(Marks::Lines(vec![line("a", &[1.0]), line("b\n", &[2.0])]));
        let names: Vec<String> = both.legend().into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["a", "b\\n"]);
        assert!(chart(Marks::Lines(vec![line("a", &[1.0])])).legend().is_empty());
        assert!(!chart(Marks::Lines(vec![line("a", &[f64::NAN])])).has_marks() && both.has_marks());
    }
}
