//! The picture of a calibration, as Figure 1 of Geist, Jones and Westall 2010: single reads as a band,
//! the smoothed curve, the line.

use plotters::chart::ChartBuilder;
use plotters::coord::Shift;
use plotters::element::Circle;
use plotters::prelude::{Color, DashedLineSeries, DrawingArea, LineSeries, RGBColor};
use plotters::style::{BLACK, WHITE};
use traces::{Nanos, Sectors};

use crate::canvas::{Canvas, Drawing, FAMILY, PictureError, failed, fitted, width_of};
use crate::heading::{Mark, heading, legend, letters};

/// Reads that are drawn: more make a picture larger and no clearer.
const DRAWN_MAX: usize = 6_000;
/// Points of the smoothed curve that are drawn.
const CURVE_MAX: usize = 2_000;
/// The share of the reads that sets the scale of time, unless twice the next one is less; longer ones are
/// left out and counted.
const SHOWN: f64 = 0.999;
/// The share that nearly all reads stay within, so that a few slow ones do not flatten the rest.
const USUAL: f64 = 0.99;
const BAND: RGBColor = RGBColor(170, 182, 200);
const CURVE: RGBColor = RGBColor(0, 70, 140);
const LINE: RGBColor = RGBColor(210, 80, 0);

/// What the picture shows.
#[derive(Clone, Copy, Debug)]
pub struct CalibrationFigure<'a> {
    /// What was measured.
    pub title: &'a str,
    /// Distance and time of each read, by distance.
    pub points: &'a [(Sectors, Nanos)],
    /// The mean time around each, in ns.
    pub means_ns: &'a [f64],
    /// The line if there is one: its time at distance zero in ns, and ns a sector.
    pub line: Option<(f64, f64)>,
    /// The capacity that the line's second coefficient is relative to.
    pub capacity: Sectors,
}

/// A scale of an axis: the unit and how many base units it is.
#[derive(Clone, Copy, Debug)]
struct Scale {
    unit: &'static str,
    base: f64,
}

impl CalibrationFigure<'_> {
    /// The longest time that is shown, in ns.
    fn tallest(&self) -> f64 {
        let mut times: Vec<u64> = self.points.iter().map(|(_, time)| time.as_ns()).collect();
        times.sort_unstable();
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize] as f64;
        let shown = at(SHOWN).min(2.0 * at(USUAL));
        self.means_ns.iter().copied().fold(shown, f64::max).max(1.0)
    }

    /// The line as an expression, in the unit of its axis.
    fn formula(&self, time: Scale) -> Option<String> {
        let (at_zero, per_sector) = self.line?;
        let (a, b) = (at_zero / time.base, per_sector * self.capacity.count() as f64 / time.base);
        Some(format!("line: {a:.2} {} {:.2} d/D {}", if b < 0.0 { "−" } else { "+" }, b.abs(), time.unit))
    }

    /// What the marks mean.
    fn entries(&self, time: Scale) -> Vec<(Mark, String)> {
        let mut entries = vec![
            (Mark::Dot(BAND), "single reads".to_owned()),
            (Mark::Line(CURVE, 2, None), "mean of up to 1001 neighbours".to_owned()),
        ];
        entries.extend(self.formula(time).map(|formula| (Mark::Line(LINE, 3, Some([4, 2])), formula)));
        entries
    }

    /// What is drawn of the reads, and what is not.
    fn caption(&self, every: usize, beyond: usize, time: Scale, tallest: f64) -> String {
        let drawn = match every {
            1 => format!("{} reads", self.points.len()),
            every => format!("1 of {every} of {} reads", self.points.len()),
        };
        match beyond {
            0 => drawn,
            beyond => format!("{drawn}; {beyond} above {:.2} {} not shown", tallest / time.base, time.unit),
        }
    }
}

fn time_scale(longest_ns: f64) -> Scale {
    if longest_ns >= 1e6 { Scale { unit: "ms", base: 1e6 } } else { Scale { unit: "µs", base: 1e3 } }
}

fn distance_scale(longest: f64) -> Scale {
    match longest {
        long if long >= 2e6 => Scale { unit: "million sectors", base: 1e6 },
        long if long >= 2e3 => Scale { unit: "thousand sectors", base: 1e3 },
        _ => Scale { unit: "sectors", base: 1.0 },
    }
}

impl Drawing for CalibrationFigure<'_> {
    fn draw<B: Canvas>(&self, area: &DrawingArea<B, Shift>) -> Result<(), PictureError> {
        let furthest = self.points.last().ok_or(PictureError::Empty)?.0.count().max(1) as f64;
        let (width, height) = area.dim_in_pixel();
        let text = letters(width, height);
        let tallest = self.tallest() * 1.08;
        let (time, distance) = (time_scale(tallest), distance_scale(furthest));
        let beyond = self.points.iter().filter(|(_, took)| took.as_ns() as f64 > tallest).count();
        let every = self.points.len().div_ceil(DRAWN_MAX);
        let caption = self.caption(every, beyond, time, tallest);
        let under = heading(area, self.title, &caption, text)?;
        let top = legend(area, &self.entries(time), text, under)?;

        let of_times = format!("{:.1}", tallest / time.base);
        let mut chart = ChartBuilder::on(area)
            .margin_top(top)
            .margin_right(text * 2)
            .margin_bottom(text / 2)
            .margin_left(text / 2)
            .x_label_area_size(text * 3)
            .y_label_area_size(width_of(&of_times, text) + text * 5 / 2)
            .build_cartesian_2d(0.0..furthest / distance.base, 0.0..tallest / time.base)
            .map_err(failed)?;
        let along = format!("distance from the read before, {}", distance.unit);
        let (along, along_size) = fitted(&along, text, width * 3 / 4);
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .bold_line_style(BLACK.mix(0.1))
            .x_labels((width / (text * 7)).clamp(3, 12) as usize)
            .y_labels((height / (text * 4)).clamp(3, 12) as usize)
            .label_style((FAMILY, text))
            .axis_desc_style((FAMILY, along_size))
            .x_desc(along)
            .y_desc(format!("time of a read, {}", time.unit))
            .draw()
            .map_err(failed)?;

        let at = |far: f64, ns: f64| (far / distance.base, ns / time.base);
        let dots = self.points.iter().step_by(every).filter(|(_, took)| took.as_ns() as f64 <= tallest);
        let dots = dots.map(|(far, took)| at(far.count() as f64, took.as_ns() as f64));
        chart.draw_series(dots.map(|dot| Circle::new(dot, 1, BAND.filled()))).map_err(failed)?;
        let thin = self.points.len().div_ceil(CURVE_MAX);
        let curve = self.points.iter().zip(self.means_ns).step_by(thin);
        let curve = curve.map(|((far, _), mean)| at(far.count() as f64, *mean));
        chart.draw_series(LineSeries::new(curve, CURVE.stroke_width(2))).map_err(failed)?;
        if let Some((a, b)) = self.line {
            let ends = [at(0.0, a), at(furthest, a + b * furthest)];
            chart.draw_series(DashedLineSeries::new(ends, text, text / 2, LINE.stroke_width(3))).map_err(failed)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canvas::Size;

    const SIZE: Size = Size { width: 480, height: 320 };

    fn figure<'a>(points: &'a [(Sectors, Nanos)], means_ns: &'a [f64]) -> CalibrationFigure<'a> {
        let capacity = Sectors::new(4_000_000);
        CalibrationFigure { title: "a <drive> & more", points, means_ns, line: Some((1e6, 1.0)), capacity }
    }

    fn line(reads: u64) -> (Vec<(Sectors, Nanos)>, Vec<f64>) {
        let points = (0..reads).map(|read| (Sectors::new(read * 400), Nanos::from_ns(1_000_000 + read * 400)));
        (points.collect(), (0..reads).map(|read| (1_000_000 + read * 400) as f64).collect())
    }

    #[test]
    fn all_parts_are_there_with_their_units() {
        let (points, means) = line(10_000);
        let svg = figure(&points, &means).svg(SIZE).unwrap();
        for part in [
            "a &lt;drive&gt; &amp; more",
            "1 of 2 of 10000 reads",
            "distance from the read before, million sectors",
            "time of a read, ms",
            "single reads",
            "mean of up to 1001 neighbours",
            "line: 1.00 + 4.00 d/D ms",
        ] {
            assert!(svg.contains(part), "{part}");
        }
        assert_eq!(svg.matches("<circle").count(), 5_001);
        assert_eq!(svg, figure(&points, &means).svg(SIZE).unwrap());
        assert!(!CalibrationFigure { line: None, ..figure(&points, &means) }.svg(SIZE).unwrap().contains("line:"));
    }

    #[test]
    fn outliers_are_counted_and_leave_the_scale_alone() {
        let (mut points, means) = line(5_000);
        points[10].1 = Nanos::from_s(3);
        let svg = figure(&points, &means).svg(SIZE).unwrap();
        assert!(svg.contains("5000 reads; 1 above 3.24 ms not shown"), "{}", &svg[..600]);
        assert_eq!(svg.matches("<circle").count(), 5_000, "all but one, and the legend's");
    }

    #[test]
    fn the_legend_stands_above_the_chart_in_the_lines_it_needs() {
        let (points, means) = line(1_000);
        let down = |width: u32, label: &str| {
            let svg = figure(&points, &means).svg(Size { width, height: 600 }).unwrap();
            let before = svg[..svg.find(label).unwrap()].rsplit(" y=\"").next().unwrap().to_owned();
            before.split('"').next().unwrap().parse::<u32>().unwrap()
        };
        assert_eq!(down(900, "single reads"), down(900, "line: 1.00"));
        assert!(down(320, "single reads") < down(320, "mean of up to 1001"));
        assert!(down(320, "mean of up to 1001") < down(320, "line: 1.00"));
    }

    #[test]
    fn a_png_has_its_size_and_colours() {
        let (points, means) = line(1_000);
        let file = figure(&points, &means).png(SIZE).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let frame = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((frame.width, frame.height), (480, 320));
        for colour in [CURVE, LINE] {
            assert!(pixels.chunks(3).any(|pixel| pixel == [colour.0, colour.1, colour.2]), "{colour:?}");
        }
    }

    #[test]
    fn odd_data_draws_or_says_why() {
        assert!(matches!(figure(&[], &[]).svg(SIZE), Err(PictureError::Empty)));
        for (far, took) in [(0, 0), (7, 3), (u64::MAX, u64::MAX)] {
            let points = [(Sectors::new(far), Nanos::from_ns(took))];
            let means = [took as f64];
            for (width, height) in [(320, 320), (320, 2000), (2000, 320)] {
                figure(&points, &means).png(Size { width, height }).unwrap();
            }
        }
    }
}
