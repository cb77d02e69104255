//! A table as bars: what a paper has beside what we have, with our confidence interval.

use plotters::coord::Shift;
use plotters::element::Rectangle;
use plotters::prelude::{Color, DrawingArea, RGBColor};
use plotters::style::BLACK;
use traces::results::reproduction::Cell;

use crate::canvas::failed;
use crate::canvas::{Canvas, Drawing, PictureError};
use crate::heading::{Mark, heading, legend, letters, whisker};
use crate::labels::in_lines;
use crate::panel::{Panel, beside, centred};
use crate::ticks::{Scale, axes, largest, with_axis};

const PAPER: RGBColor = RGBColor(222, 222, 222);
const OURS: RGBColor = RGBColor(70, 125, 185);
/// The least height of a panel with its name, in heights of letters: lower ones stand beside one another.
const LEAST_HEIGHT: u32 = 4;

/// What the picture shows.
#[derive(Clone, Copy, Debug)]
pub struct BarsFigure<'a> {
    /// Which table.
    pub title: &'a str,
    /// Whose.
    pub caption: &'a str,
    /// Its cells.
    pub cells: &'a [&'a Cell],
    /// Whether each row has a panel of its own even if the table has one column.
    pub rows_apart: bool,
}

/// Values that share a scale.
struct Group<'a> {
    name: String,
    /// The cells with what each is called.
    bars: Vec<(&'a str, &'a Cell)>,
}

impl BarsFigure<'_> {
    /// A group for each row, whose columns stand side by side; of a table of one column the rows stand
    /// side by side, in a group for each unit.
    fn groups(&self) -> Vec<Group<'_>> {
        let column = self.cells.first().map(|cell| &cell.column);
        let is_column = !self.rows_apart && self.cells.iter().all(|cell| Some(&cell.column) == column);
        let mut groups: Vec<Group<'_>> = Vec::new();
        for &cell in self.cells {
            let (of, label) = if is_column { (&cell.column, &cell.row) } else { (&cell.row, &cell.column) };
            let name = with_unit(of, &cell.unit);
            match groups.iter_mut().find(|group| group.name == name) {
                Some(group) => group.bars.push((label, cell)),
                None => groups.push(Group { name, bars: vec![(label, cell)] }),
            }
        }
        groups
    }

    /// Whether the paper gives any value.
    fn of_paper(&self) -> bool {
        self.cells.iter().any(|cell| cell.paper.is_some())
    }

    /// The marks of the legend; none if there is nothing to tell apart.
    fn entries(&self) -> Vec<(Mark, String)> {
        if !self.of_paper() && self.cells.iter().all(|cell| cell.ci95.is_none()) {
            return Vec::new();
        }
        let mut entries = vec![(Mark::Bar(OURS), "ours".to_owned())];
        if self.of_paper() {
            entries.insert(0, (Mark::Bar(PAPER), "paper (no bar: it gives no value)".to_owned()));
            if self.cells.iter().all(|cell| cell.paper.is_some()) {
                entries[0].1 = "paper".to_owned();
            }
        }
        if self.cells.iter().any(|cell| cell.ci95.is_some()) {
            entries.push((Mark::Whisker, "95 % confidence interval".to_owned()));
        }
        entries
    }
}

/// What a panel shows with its unit, unless its words have the unit already.
fn with_unit(what: &str, unit: &str) -> String {
    match what.split_whitespace().any(|word| word == unit) {
        true => what.to_owned(),
        false => format!("{what}, {}", unit.replace("ms2", "ms²")),
    }
}

impl Group<'_> {
    fn values(&self) -> impl Iterator<Item = f64> + Clone {
        let ends = |cell: &Cell| [cell.paper, Some(cell.ours), cell.ci95.map(|[_, high]| high)].into_iter().flatten();
        self.bars.iter().flat_map(move |(_, cell)| ends(cell))
    }

    fn unit(&self) -> Option<&str> {
        self.bars.first().map(|(_, cell)| cell.unit.as_str())
    }

    /// The scale that this one shares with other `groups` of its unit and labels, so that their bars can be compared;
    /// and the number of that axis, 0 for that of the highest bar.
    fn scale(&self, groups: &[Group<'_>]) -> (Scale, usize) {
        let alike = groups.iter().filter(|other| other.unit() == self.unit() && other.labels().eq(self.labels()));
        let alike: Vec<&Group<'_>> = alike.collect();
        let axis_of = axes(&alike.iter().map(|group| largest(group.values())).collect::<Vec<f64>>());
        let own = alike.iter().position(|other| other.name == self.name).map_or(0, |own| axis_of[own]);
        let sharing = alike.iter().zip(&axis_of).filter(|(_, axis)| **axis == own);
        let all: Vec<f64> = sharing.flat_map(|(group, _)| group.values()).collect();
        (Scale::of_bars(all.into_iter()), own)
    }

    fn labels(&self) -> impl Iterator<Item = &str> {
        self.bars.iter().map(|(label, _)| *label)
    }

    /// Paper and ours of each cell within the panel.
    fn draw<B: Canvas>(&self, area: &DrawingArea<B, Shift>, panel: Panel, of_paper: bool) -> Result<(), PictureError> {
        let each = f64::from(panel.right - panel.left) / self.bars.len() as f64;
        let base = panel.y(if panel.values.is_logarithmic { panel.values.low } else { 0.0 });
        // A pair of bars takes three fifths of its place.
        let wide = ((each * 0.3) as i32).max(1);
        // Without the paper's bar beside them, ours stand above their labels.
        let before = if of_paper { 0 } else { wide / 2 };
        for (nth, (_, cell)) in self.bars.iter().enumerate() {
            let middle = panel.left + ((nth as f64 + 0.5) * each) as i32 - before;
            let bars = [(cell.paper, middle - wide, PAPER), (Some(cell.ours), middle, OURS)];
            for (value, left, colour) in bars {
                let Some(value) = value.filter(|value| value.is_finite()) else { continue };
                let corners = [(left, panel.y(value).min(base)), (left + wide, panel.y(value).max(base))];
                area.draw(&Rectangle::new(corners, colour.filled())).map_err(failed)?;
                area.draw(&Rectangle::new(corners, BLACK.stroke_width(1))).map_err(failed)?;
            }
            if let Some([low, high]) = cell.ci95 {
                whisker(area, middle + wide / 2, [panel.y(high), panel.y(low)], (wide / 2).clamp(3, 13))?;
            }
        }
        Ok(())
    }
}

/// Draws groups one below the other between `left` and `right`, their labels below the last of those that
/// have the same.
fn stack<B: Canvas>(
    area: &DrawingArea<B, Shift>,
    (groups, all): (&[Group<'_>], &[Group<'_>]),
    [left, right]: [i32; 2],
    [top, bottom]: [i32; 2],
    text: u32,
) -> Result<(), PictureError> {
    let letter = text as i32;
    let of_group = (bottom - top) / groups.len() as i32;
    let axis = groups.iter().map(|group| beside(group.scale(all).0, of_group, text)).max().unwrap_or(0);
    let (left, right) = (left + axis as i32, right - letter);
    let is_last = |nth: usize| groups.get(nth + 1).is_none_or(|next| !next.labels().eq(groups[nth].labels()));
    let lines: Vec<Vec<Vec<String>>> = groups
        .iter()
        .enumerate()
        .map(|(nth, group)| {
            let width = ((right - left) / group.bars.len() as i32 - letter / 2).max(1) as u32;
            let labels: Vec<&str> = group.labels().filter(|_| is_last(nth)).collect();
            in_lines(&labels, text, width)
        })
        .collect();
    let below = |nth: usize| -> i32 {
        let most = lines[nth].iter().map(Vec::len).max().unwrap_or(0) as i32;
        if most == 0 { letter / 2 } else { most * letter * 6 / 5 + letter }
    };
    let labels: i32 = (0..groups.len()).map(below).sum();
    let height = ((bottom - top - labels) / groups.len() as i32).max(2 * letter);
    let mut down = top;
    for (nth, group) in groups.iter().enumerate() {
        let (values, axis) = group.scale(all);
        let panel = Panel { left, right, top: down + letter * 3 / 2, bottom: down + height, values };
        panel.frame(area, &with_axis(&group.name, values.is_logarithmic, axis), text)?;
        let of_paper = all.iter().flat_map(|group| &group.bars).any(|(_, cell)| cell.paper.is_some());
        group.draw(area, panel, of_paper)?;
        let each = f64::from(right - left) / group.bars.len() as f64;
        for (place, lines) in lines[nth].iter().enumerate() {
            let middle = left + ((place as f64 + 0.5) * each) as i32;
            centred(area, lines, [middle, panel.bottom + letter / 3], text, (each as u32).saturating_sub(text / 3))?;
        }
        down += height + below(nth);
    }
    Ok(())
}

impl Drawing for BarsFigure<'_> {
    fn draw<B: Canvas>(&self, area: &DrawingArea<B, Shift>) -> Result<(), PictureError> {
        let groups = self.groups();
        let (width, height) = area.dim_in_pixel();
        let text = letters(width, height);
        let under = heading(area, self.title, self.caption, text)?;
        let top = legend(area, &self.entries(), text, under)?;
        let room = height.saturating_sub(top).max(1);
        let least = groups.len() as u32 * LEAST_HEIGHT * text;
        let stacks = groups.len().div_ceil(least.div_ceil(room).max(1) as usize);
        if stacks == 0 {
            return Err(PictureError::Empty);
        }
        let columns = groups.len().div_ceil(stacks) as u32;
        for (nth, stacked) in groups.chunks(stacks).enumerate() {
            let side = |nth: u32| (nth * width / columns) as i32;
            let sides = [side(nth as u32) + text as i32 / 3, side(nth as u32 + 1)];
            stack(area, (stacked, &groups), sides, [top as i32, height as i32], text)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canvas::Size;

    const SIZE: Size = Size { width: 640, height: 400 };

    fn cell([row, column, unit]: [&str; 3], paper: Option<f64>, ours: f64, ci95: Option<[f64; 2]>) -> Cell {
        let [table, row, column, unit] = ["2", row, column, unit].map(str::to_owned);
        Cell { table, row, column, paper, ours, unit, ci95, counts: true, ..Cell::default() }
    }

    fn table() -> Vec<Cell> {
        let of = |column: &str, response: f64| {
            vec![
                cell(["mean response", column, "ms"], Some(40.0), response, Some([response - 4.0, response + 5.0])),
                cell(["variance <response>", column, "ms2"], Some(9.0), 50_000.0, None),
            ]
        };
        [of("real cats", 44.0), of("real deadline", 30.0)].concat()
    }

    fn svg(cells: &[Cell], size: Size) -> String {
        let cells: Vec<&Cell> = cells.iter().collect();
        BarsFigure { title: "Table 2", caption: "a & b", cells: &cells, rows_apart: false }.svg(size).unwrap()
    }

    /// Left, top, right and bottom of each bar of a colour, but for the legend's.
    fn bars(svg: &str, RGBColor(red, green, blue): RGBColor) -> Vec<[i32; 4]> {
        let fill = format!("fill=\"#{red:02X}{green:02X}{blue:02X}\"");
        let attribute = |line: &str, name: &str| -> i32 {
            let value = line.split(&format!(" {name}=\"")).nth(1).unwrap();
            value.split('"').next().unwrap().parse().unwrap()
        };
        let rectangles = svg.split("<rect").filter(|rectangle| rectangle.contains(&fill));
        let corners = rectangles.map(|rectangle| {
            let [x, y, width, height] = ["x", "y", "width", "height"].map(|name| attribute(rectangle, name));
            [x, y, x + width, y + height]
        });
        // The first is that of the legend, if there is one.
        corners.skip(usize::from(svg.contains("\nours\n"))).collect()
    }

    #[test]
    fn all_parts_are_there_with_their_units() {
        let text = svg(&table(), SIZE);
        for part in [
            "a &amp; b",
            "mean response, ms",
            "variance &lt;response&gt;, ms² (powers of ten)",
            "real deadline",
            "paper",
            "ours",
            "95 % confidence interval",
        ] {
            assert!(text.contains(part), "{part}");
        }
        assert_eq!(text.matches("real cats").count(), 1, "the panels share their labels");
        assert_eq!(text, svg(&table(), SIZE));
        let sure: Vec<Cell> = table().into_iter().map(|cell| Cell { ci95: None, ..cell }).collect();
        assert!(!svg(&sure, SIZE).contains("confidence"));
    }

    #[test]
    fn bars_are_as_high_as_their_values() {
        let text = svg(&table(), SIZE);
        let (theirs, ours) = (bars(&text, PAPER), bars(&text, OURS));
        assert_eq!((theirs.len(), ours.len()), (4, 4));
        let height = |bar: [i32; 4]| f64::from(bar[3] - bar[1]);
        // 40 beside 44 and 30, within a pixel of rounding.
        assert!((height(ours[0]) / height(theirs[0]) - 1.1).abs() < 0.03, "{theirs:?} {ours:?}");
        assert!((height(ours[1]) / height(theirs[1]) - 0.75).abs() < 0.03, "{theirs:?} {ours:?}");
        // Side by side from the same line, the paper's first.
        assert!(theirs[0][2] == ours[0][0] && theirs[0][3] == ours[0][3] && ours[0][2] < theirs[1][0]);
        assert!(ours[2][1] > ours[0][3], "another unit is below");
    }

    #[test]
    fn compared_panels_share_a_range_and_absent_values_have_no_bar() {
        let of = |row: &str, ours: f64| cell([row, "fio", "MB/s"], None, ours, None);
        let alone = svg(
            &[of("cfq", 100.0), of("BA", 50.0), of("change", 1.0)].map(|mut cell| {
                cell.column = format!("{} load", cell.column);
                cell.row.push_str(" row");
                cell
            }),
            SIZE,
        );
        assert!(!alone.contains("paper"), "no value of the paper, no mark of it: {alone}");
        let two = [of("cfq", 100.0), of("BA", 50.0), Cell { column: "dd".to_owned(), ..of("cfq", 80.0) }];
        let two = [&two[..], &[Cell { column: "dd".to_owned(), ..of("BA", 80.0) }]].concat();
        let ours = bars(&svg(&two, SIZE), OURS);
        let height = |bar: [i32; 4]| f64::from(bar[3] - bar[1]);
        // Panel by panel: cfq 100 and 80, BA 50 and 80.
        assert!((height(ours[2]) / height(ours[0]) - 0.5).abs() < 0.05, "{ours:?}");
        assert!((height(ours[3]) / height(ours[1]) - 1.0).abs() < 0.05, "{ours:?}");
        // Means of 2 ms would vanish beside responses of 200 ms.
        let far = [of("service", 2.0), of("response", 200.0), Cell { column: "dd".to_owned(), ..of("service", 2.0) }];
        let far = [&far[..], &[Cell { column: "dd".to_owned(), ..of("response", 100.0) }]].concat();
        let ours = bars(&svg(&far, SIZE), OURS);
        assert!(height(ours[0]) > 20.0 && height(ours[2]) > 20.0, "{ours:?}");
        let some = [cell(["a", "c", "ms"], Some(1.0), 1.0, None), cell(["a", "d", "ms"], None, 1.0, None)];
        let text = svg(&some, SIZE);
        assert!(text.contains("paper (no bar: it gives no value)") && bars(&text, PAPER).len() == 1, "{text}");
    }

    #[test]
    fn a_panel_of_small_values_has_a_finer_axis_and_says_so() {
        let row = |row: &str, values: [f64; 2]| {
            [("cats", values[0]), ("cfq", values[1])].map(|(column, ours)| cell([row, column, "ms"], None, ours, None))
        };
        let cells = [row("mean", [18.0, 9.0]), row("p99", [160.0, 40.0]), row("p95", [32.0, 16.0])].concat();
        let text = svg(&cells, SIZE);
        for name in ["\nmean, ms (finer axis)\n", "\np99, ms\n", "\np95, ms\n"] {
            assert!(text.contains(name), "{name}: {text}");
        }
        let heights = bars(&text, OURS).iter().map(|bar| f64::from(bar[3] - bar[1])).collect::<Vec<f64>>();
        assert!(heights[0] >= 0.95 * heights[2], "each of the two axes ends above its highest bar: {heights:?}");
        assert!((heights[4] / heights[2] - 0.2).abs() < 0.05, "a fifth is still seen on the same axis: {heights:?}");
    }

    #[test]
    fn without_a_legend_the_panels_begin_where_it_would_be() {
        let first = |paper: Option<f64>| {
            let text = svg(&[cell(["response", "cats", "ms"], paper, 9.0, None)], SIZE);
            let before = text[..text.find("\ncats, ms\n").unwrap()].rsplit(" y=\"").next().unwrap();
            before.split('"').next().unwrap().parse::<u32>().unwrap()
        };
        assert!(first(None) + 15 < first(Some(9.0)), "{} {}", first(None), first(Some(9.0)));
    }

    #[test]
    fn a_unit_that_the_name_has_already_is_not_repeated() {
        let found = |row: &str| cell([row, "cats", "k"], None, 2.0, None);
        let other = Cell { column: "cfq".to_owned(), ..found("k found") };
        let text = svg(&[found("k found"), other, found("kept")], SIZE);
        assert!(text.contains("\nk found\n") && text.contains("\nkept, k\n"), "{text}");
    }

    #[test]
    fn rows_stand_apart_if_asked_for_and_bars_with_long_names_differ() {
        let one = ["mean", "p99"].map(|row| cell([row, "bfq", "ms"], None, 9.0, None));
        let one: Vec<&Cell> = one.iter().collect();
        let text = BarsFigure { title: "", caption: "", cells: &one, rows_apart: true }.svg(SIZE).unwrap();
        assert!(text.contains("\nmean, ms\n") && text.contains("\np99, ms\n"), "{text}");
        let times = ["1ms", "100ms", "500ms"];
        let name = |time| format!("mq-deadline:fifo_batch=8,read_expire={time}");
        let long = times.map(|time| cell(["mean", &name(time), "ms"], None, 9.0, None));
        let long: Vec<&Cell> = long.iter().collect();
        let text = BarsFigure { title: "", caption: "", cells: &long, rows_apart: true }.svg(SIZE).unwrap();
        for time in times {
            assert!(text.contains(&format!("\nread_expire={time}\n")), "{time}: {text}");
        }
    }

    #[test]
    fn a_single_column_has_its_rows_side_by_side() {
        let rows = ["recall", "precision", "share of all the hits"];
        let cells = rows.map(|row| cell([row, "real cats", "share"], None, 0.9, None));
        let text = svg(&cells, SIZE);
        let ours = bars(&text, OURS);
        assert!(bars(&text, PAPER).is_empty() && ours.len() == 3);
        assert!(ours.windows(2).all(|two| two[0][2] < two[1][0] && two[0][1] == two[1][1]), "{ours:?}");
        assert!(text.contains("real cats, share") && text.contains("precision"));
    }

    #[test]
    fn a_png_has_its_size_and_colours() {
        let cells = table();
        let cells: Vec<&Cell> = cells.iter().collect();
        let file = BarsFigure { title: "", caption: "", cells: &cells, rows_apart: false }.png(SIZE).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let frame = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((frame.width, frame.height), (640, 400));
        for colour in [PAPER, OURS] {
            assert!(pixels.chunks(3).any(|pixel| pixel == [colour.0, colour.1, colour.2]), "{colour:?}");
        }
    }

    #[test]
    fn odd_data_draws_or_says_why() {
        assert!(matches!(
            BarsFigure { title: "", caption: "", cells: &[], rows_apart: false }.svg(SIZE),
            Err(PictureError::Empty)
        ));
        let numbers = [0.0, -5.0, 1e300, f64::NAN, f64::INFINITY];
        for (paper, ours) in numbers.into_iter().flat_map(|paper| numbers.map(|ours| (Some(paper), ours))) {
            let one = cell(["r", "c", "ms"], paper, ours, Some([f64::NEG_INFINITY, ours]));
            svg(&[one], Size { width: 320, height: 320 });
        }
        let many = |row: usize| (0..30).map(move |column| [format!("row {row}"), format!("a column {column}")]);
        let many: Vec<Cell> =
            (0..40).flat_map(many).map(|[row, column]| cell([&row, &column, "ms"], Some(1.0), 2.0, None)).collect();
        for (width, height) in [(320, 320), (320, 2000), (2000, 320)] {
            svg(&many, Size { width, height });
        }
    }
}
