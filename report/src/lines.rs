//! A figure of lines and clouds of dots.

use plotters::coord::Shift;
use plotters::element::{Circle, DashedPathElement, PathElement};
use plotters::prelude::{Color, DrawingArea, RGBColor};
use traces::results::reproduction::Series;

use crate::canvas::{Canvas, Drawing, PictureError, failed};
use crate::heading::{Mark, heading, legend, letters};
use crate::panel::{Panel, beside};
use crate::ticks::{Scale, axes, largest, with_axis};

/// More points than this that are not in order of x are no line.
const UNORDERED_MAX: usize = 300;
/// The name of a series that is a cloud whatever its order.
const CLOUD: &str = "reads";
/// The clouds' colours, which lines are seen on.
const DOTS: [RGBColor; 3] = [RGBColor(170, 182, 200), RGBColor(205, 185, 160), RGBColor(175, 200, 175)];
/// The lines' colours and dashes, which tell them apart without colour too.
pub(crate) const STROKES: [(RGBColor, u32, Option<[u32; 2]>); 6] = [
    (RGBColor(0, 70, 140), 2, None),
    (RGBColor(210, 80, 0), 3, Some([4, 2])),
    (RGBColor(0, 0, 0), 2, Some([1, 2])),
    (RGBColor(0, 130, 90), 3, None),
    (RGBColor(150, 60, 150), 2, Some([8, 2])),
    (RGBColor(120, 120, 120), 3, Some([2, 3])),
];

/// What the picture shows.
#[derive(Clone, Copy, Debug)]
pub struct LinesFigure<'a> {
    /// Which figure.
    pub title: &'a str,
    /// Whose.
    pub caption: &'a str,
    /// Its lines and clouds. Those with another unit stand in a panel of their own.
    pub series: &'a [&'a Series],
    /// Series of figures that this one is compared with; those with the same axes widen its ranges.
    pub alike: &'a [&'a Series],
}

impl LinesFigure<'_> {
    /// Each series with its mark.
    fn marked(&self) -> Vec<(Mark, &Series)> {
        let (mut lines, mut clouds) = (0, 0);
        let mark = |&series| {
            let of = |nth: &mut usize| std::mem::replace(nth, *nth + 1);
            if is_cloud(series) {
                return (Mark::Dot(DOTS[of(&mut clouds) % DOTS.len()]), series);
            }
            let (colour, wide, dashes) = STROKES[of(&mut lines) % STROKES.len()];
            (Mark::Line(colour, wide, dashes), series)
        };
        self.series.iter().map(mark).collect()
    }
}

fn is_cloud(series: &Series) -> bool {
    series.name == CLOUD || (series.points.len() > UNORDERED_MAX && !series.points.is_sorted_by_key(|point| point[0]))
}

/// So many lines of so many points hide one another, and get a panel each.
const CROWD: [usize; 2] = [3, 60];

/// Lines that would hide one another, in groups of one; all others in the group that they are in.
fn apart(group: Vec<(Mark, &Series)>) -> Vec<Vec<(Mark, &Series)>> {
    let [lines, points] = CROWD;
    let crowds = |(mark, series): &&(Mark, &Series)| matches!(mark, Mark::Line(..)) && series.points.len() >= points;
    match group.iter().filter(crowds).count() >= lines && group.len() == group.iter().filter(crowds).count() {
        true => group.into_iter().map(|one| vec![one]).collect(),
        false => vec![group],
    }
}

/// The series that share both axes.
struct Axes<'a> {
    shown: Vec<(Mark, &'a Series)>,
    along: Scale,
    values: Scale,
    /// Which axis of values of all with the same unit; 0 is that of the largest value.
    axis: usize,
}

impl<'a> Axes<'a> {
    fn new(shown: Vec<(Mark, &'a Series)>, alike: &[&Series]) -> Axes<'a> {
        let first = shown[0].1;
        let same = alike.iter().copied().filter(|other| (&other.x, &other.y) == (&first.x, &first.y));
        let all: Vec<&Series> = shown.iter().map(|(_, series)| *series).chain(same).collect();
        let of =
            |series: &Series, axis: usize| series.points.iter().map(move |point| point[axis]).collect::<Vec<f64>>();
        let along = Scale::of_lines(all.iter().flat_map(|series| of(series, 0)));
        // The panel, then each series that it may share an axis with.
        let own = largest(shown.iter().flat_map(|(_, series)| of(series, 1)));
        let each = all.iter().map(|series| largest(of(series, 1).into_iter()));
        let axis_of = axes(&std::iter::once(own).chain(each).collect::<Vec<f64>>());
        let beside = all.iter().zip(&axis_of[1..]).enumerate();
        let sharing = beside.filter(|(nth, (_, axis))| *nth < shown.len() || **axis == axis_of[0]);
        let values = Scale::of_lines(sharing.flat_map(|(_, (series, _))| of(series, 1)));
        // A little room above the highest.
        let values = Scale { high: values.high + (values.high - values.low) * 0.04, ..values };
        Axes { along, values, axis: axis_of[0], shown }
    }

    fn draw<B: Canvas>(
        &self,
        area: &DrawingArea<B, Shift>,
        panel: Panel,
        [is_named, is_last]: [bool; 2],
        text: u32,
    ) -> Result<(), PictureError> {
        let Some((_, first)) = self.shown.first() else { return Ok(()) };
        let name = if is_named { with_axis(&first.y, false, self.axis) } else { String::new() };
        panel.frame(area, &name, text)?;
        if is_last {
            panel.below(area, self.along, &first.x, text)?;
        }
        let wide = f64::from(panel.right - panel.left);
        let radius = (text / 10).max(1);
        // Clouds first, so that lines lie on them.
        for clouds in [true, false] {
            for (mark, series) in &self.shown {
                let finite = series.points.iter().filter(|point| point.iter().all(|value| value.is_finite()));
                let pixels = finite.map(|&[x, y]| (panel.left + (self.along.at(x) * wide) as i32, panel.y(y)));
                let pixels: Vec<(i32, i32)> = pixels.collect();
                match *mark {
                    Mark::Dot(colour) if clouds => {
                        for pixel in pixels {
                            area.draw(&Circle::new(pixel, radius, colour.filled())).map_err(failed)?;
                        }
                    }
                    Mark::Line(colour, wide, dashes) if !clouds => {
                        stroke(area, pixels, (colour, wide, dashes), text)?;
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// A line through these pixels. Dashes are in quarters of a letter's height.
pub(crate) fn stroke<B: Canvas>(
    area: &DrawingArea<B, Shift>,
    pixels: Vec<(i32, i32)>,
    (colour, wide, dashes): (RGBColor, u32, Option<[u32; 2]>),
    text: u32,
) -> Result<(), PictureError> {
    let style = colour.stroke_width(wide);
    match dashes.map(|dashes| dashes.map(|part| (part * text / 4).max(1))) {
        Some([dash, gap]) => area.draw(&DashedPathElement::new(pixels, dash, gap, style)).map_err(failed),
        None => area.draw(&PathElement::new(pixels, style)).map_err(failed),
    }
}

impl Drawing for LinesFigure<'_> {
    fn draw<B: Canvas>(&self, area: &DrawingArea<B, Shift>) -> Result<(), PictureError> {
        let marked = self.marked();
        let entries: Vec<(Mark, String)> = marked.iter().map(|(mark, series)| (*mark, series.name.clone())).collect();
        let mut groups: Vec<Vec<(Mark, &Series)>> = Vec::new();
        for (mark, series) in marked.into_iter().filter(|(_, series)| !series.points.is_empty()) {
            let same = |group: &&mut Vec<(Mark, &Series)>| group[0].1.x == series.x && group[0].1.y == series.y;
            match groups.iter_mut().find(same) {
                Some(group) => group.push((mark, series)),
                None => groups.push(vec![(mark, series)]),
            }
        }
        if groups.is_empty() {
            return Err(PictureError::Empty);
        }
        let groups: Vec<Vec<(Mark, &Series)>> = groups.into_iter().flat_map(apart).collect();
        let (width, height) = area.dim_in_pixel();
        let text = letters(width, height);
        let under = heading(area, self.title, self.caption, text)?;
        let top = legend(area, &entries, text, under)?;
        let letter = text as i32;
        let each = (height.saturating_sub(top) as usize / groups.len()) as i32;
        let alike: Vec<&Series> = self.series.iter().chain(self.alike).copied().collect();
        let axes: Vec<Axes<'_>> = groups.into_iter().map(|group| Axes::new(group, &alike)).collect();
        let left = axes.iter().map(|axes| beside(axes.values, each, text)).max().unwrap_or(0) as i32 + letter / 2;
        // Panels of the same units stand close together, their names above the first and below the last of them, and
        // above those with another axis than the one before.
        let is_like = |one: Option<&Axes<'_>>, other: &Axes<'_>| {
            let (one, other) = (one.and_then(|one| one.shown.first()), other.shown.first());
            one.zip(other).is_some_and(|((_, one), (_, other))| (&one.x, &one.y) == (&other.x, &other.y))
        };
        let ends: Vec<[bool; 2]> = (0..axes.len())
            .map(|nth| {
                let before = nth.checked_sub(1).and_then(|nth| axes.get(nth));
                let has_same_axis = before.is_some_and(|before| before.axis == axes[nth].axis);
                [!is_like(before, &axes[nth]) || !has_same_axis, !is_like(axes.get(nth + 1), &axes[nth])]
            })
            .collect();
        let margins = |[is_named, is_last]: [bool; 2]| {
            let above = if is_named { letter * 7 / 4 } else { letter / 2 };
            [above, if is_last { letter * 13 / 4 } else { letter / 2 }]
        };
        let taken: i32 = ends.iter().map(|ends| margins(*ends).iter().sum::<i32>()).sum();
        let high = ((height as i32 - top as i32 - taken) / axes.len() as i32).max(letter);
        let mut begin = top as i32;
        for (axes, ends) in axes.iter().zip(ends) {
            let [above, below] = margins(ends);
            let (from, right) = (begin + above, width as i32 - 2 * letter);
            let panel = Panel { left, right, top: from, bottom: from + high, values: axes.values };
            axes.draw(area, panel, ends, text)?;
            begin += above + high + below;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canvas::Size;

    const SIZE: Size = Size { width: 640, height: 400 };

    fn series(name: &str, y: &str, points: Vec<[f64; 2]>) -> Series {
        let [figure, x] = ["1", "distance in <sectors>"].map(str::to_owned);
        Series { figure, scheduler: None, name: name.to_owned(), x, y: y.to_owned(), points }
    }

    fn rising(points: u32) -> Vec<[f64; 2]> {
        (0..points).map(|point| [f64::from(point), 4.0 + f64::from(point) / 100.0]).collect()
    }

    fn svg(series: &[Series], size: Size) -> Result<String, PictureError> {
        let series: Vec<&Series> = series.iter().collect();
        LinesFigure { title: "Figure 1", caption: "a & b", series: &series, alike: &[] }.svg(size)
    }

    #[test]
    fn all_parts_are_there_with_their_units() {
        let figure = [
            series("reads", "time in ms", rising(500)),
            series("smoothed", "time in ms", rising(500)),
            series("paper's line", "time in ms", vec![[0.0, 4.25], [500.0, 9.5]]),
        ];
        let text = svg(&figure, SIZE).unwrap();
        for part in
            ["Figure 1", "a &amp; b", "distance in &lt;sectors&gt;", "time in ms", "reads", "smoothed", "\n500\n"]
        {
            assert!(text.contains(part), "{part}");
        }
        assert_eq!(text.matches("<circle").count(), 501, "the reads, and the legend's");
        assert_eq!(text.matches("time in ms").count(), 1, "all have the same axes");
        assert_eq!(text, svg(&figure, SIZE).unwrap());
    }

    #[test]
    fn a_cloud_is_named_so_or_has_many_points_in_no_order() {
        let unordered = |points: u32| {
            let points = (0..points).map(|point| [f64::from(point * 7919 % points), 1.0]);
            series("a", "ms", points.collect())
        };
        assert!(is_cloud(&unordered(400)) && !is_cloud(&unordered(300)));
        assert!(!is_cloud(&series("a", "ms", rising(400))) && is_cloud(&series("reads", "ms", rising(4))));
    }

    #[test]
    fn points_lie_where_their_values_are() {
        let dots = series("reads", "ms", vec![[0.0, 0.0], [50.0, 5.0], [100.0, 10.0]]);
        let text = svg(&[dots], SIZE).unwrap();
        let circles: Vec<[f64; 2]> = text
            .split("<circle ")
            .skip(2)
            .map(|circle| {
                let number = |name: &str| -> f64 {
                    let value = circle.split(&format!("{name}=\"")).nth(1).unwrap();
                    value.split('"').next().unwrap().parse().unwrap()
                };
                [number("cx"), number("cy")]
            })
            .collect();
        let [low, middle, high] = circles[..] else { panic!("{circles:?}") };
        assert!(low[0] < middle[0] && low[1] > middle[1], "{circles:?}");
        for axis in [0, 1] {
            assert!((middle[axis] - (low[axis] + high[axis]) / 2.0).abs() <= 1.0, "{circles:?}");
        }
    }

    #[test]
    fn another_unit_has_a_panel_of_its_own() {
        let both = [series("a", "time in ms", rising(9)), series("b", "queue length", rising(9))];
        let text = svg(&both, SIZE).unwrap();
        let down = |label: &str| {
            let before = text[..text.find(label).unwrap()].rsplit(" y=\"").next().unwrap();
            before.split('"').next().unwrap().parse::<u32>().unwrap()
        };
        assert!(down("queue length") > down("time in ms") + 100);
        assert_eq!(text.matches("distance in").count(), 2);
    }

    #[test]
    fn lines_that_would_hide_one_another_have_panels_of_one_range() {
        let line =
            |high: f64| series("a", "MB/s", (0..80).map(|at| [f64::from(at), f64::from(at % 2) * high]).collect());
        let crowd = svg(&[line(30.0), line(20.0), line(100.0)], SIZE).unwrap();
        assert_eq!(crowd.matches("\nMB/s\n").count(), 1, "{crowd}");
        assert_eq!(crowd.matches("\n100\n").count(), 3, "{crowd}");
        let small = svg(&[line(100.0), line(3.0), line(90.0)], SIZE).unwrap();
        assert!(small.contains("\nMB/s (finer axis)\n") && small.contains("\n2\n"), "{small}");
        assert_eq!((small.matches("\nMB/s\n").count(), small.matches("\n100\n").count()), (2, 2), "{small}");
        let two = svg(&[line(10.0), line(100.0)], SIZE).unwrap();
        assert_eq!(two.matches("\nMB/s\n").count(), 1);
    }

    #[test]
    fn a_png_has_its_size_and_colours() {
        let both = [series("reads", "ms", rising(90)), series("b", "ms", rising(9)), series("c", "ms", rising(90))];
        let both: Vec<&Series> = both.iter().collect();
        let file = LinesFigure { title: "", caption: "", series: &both, alike: &[] }.png(SIZE).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let frame = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((frame.width, frame.height), (640, 400));
        for colour in [DOTS[0], STROKES[0].0, STROKES[1].0] {
            assert!(pixels.chunks(3).any(|pixel| pixel == [colour.0, colour.1, colour.2]), "{colour:?}");
        }
    }

    #[test]
    fn odd_data_draws_or_says_why() {
        assert!(matches!(svg(&[], SIZE), Err(PictureError::Empty)));
        assert!(matches!(svg(&[series("a", "ms", Vec::new())], SIZE), Err(PictureError::Empty)));
        let numbers = [0.0, -5.0, 1e300, -1e300, f64::NAN, f64::INFINITY];
        for points in numbers.into_iter().flat_map(|x| numbers.map(|y| vec![[x, y], [1.0, 1.0]])) {
            for (width, height) in [(320, 320), (320, 900), (900, 320)] {
                let many: Vec<Series> =
                    (0..12).map(|nth| series("a", &format!("{} ms", nth % 5), points.clone())).collect();
                svg(&many, Size { width, height }).unwrap();
            }
        }
    }
}
