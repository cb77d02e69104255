//! Distributions of times as shades of characters: the place says how long, the shade how many.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use traces::histograms::{ERROR_SHARE, LogHistogram};

use crate::units::span;

/// The shades, from none to all.
const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];

/// The character of a share of the largest one: any at all is visible.
fn shade(amount: u64, most: u64) -> char {
    if amount == 0 || most == 0 {
        return SHADES[0];
    }
    // The root, because tails are what people look for, and are rare.
    let share = (amount as f64 / most as f64).sqrt();
    SHADES[((share * 4.0).ceil() as usize).clamp(1, 4)]
}

/// The middle of each bucket that was hit, in ns and at least one, and how often it was hit.
fn middles(histogram: &LogHistogram) -> impl Iterator<Item = (f64, u64)> {
    histogram.stored().into_iter().map(|(least, often)| (least.max(1) as f64 * (1.0 + ERROR_SHARE), often))
}

/// A logarithmic axis of whole decades of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decades {
    /// The exponents of the first and of the end, in ns to the base of ten.
    from: i32,
    to: i32,
}

impl Decades {
    /// The decades that hold all times of these histograms; 1 to 10 ms without any.
    pub fn around<'a>(histograms: impl IntoIterator<Item = &'a LogHistogram>) -> Decades {
        let decades = histograms.into_iter().flat_map(middles).map(|(ns, _)| ns.log10() as i32);
        let (least, most) = decades.fold((i32::MAX, i32::MIN), |(least, most), of| (least.min(of), most.max(of)));
        if least > most { Decades { from: 6, to: 7 } } else { Decades { from: least, to: most + 1 } }
    }

    /// How many.
    pub fn count(self) -> usize {
        (self.to - self.from).unsigned_abs() as usize
    }

    /// How many numbers lie in each of `cells` equal parts of the axis.
    pub fn counts(self, histogram: &LogHistogram, cells: usize) -> Vec<u64> {
        let mut counts = vec![0; cells];
        for (ns, often) in middles(histogram) {
            let place = (ns.log10() - f64::from(self.from)) / self.count() as f64;
            if let Some(last) = cells.checked_sub(1) {
                counts[((place * cells as f64).max(0.0) as usize).min(last)] += often;
            }
        }
        counts
    }

    /// The names of the decades, each where it begins in `cells` cells.
    pub fn axis(self, cells: usize) -> String {
        let mut text = String::new();
        for (at, exponent) in (self.from..self.to).enumerate() {
            let begin = at * cells / self.count();
            let taken = text.chars().count();
            // A name that would stand in another's place is left out.
            if begin >= taken {
                text.extend(std::iter::repeat_n(' ', begin - taken));
                text.push_str(&span(10f64.powi(exponent)));
                text.push(' ');
            }
        }
        text.chars().take(cells).collect()
    }
}

/// A distribution in one line of so many cells, on an axis from left to right. The darkest cell is that with the most
/// numbers.
pub fn heat_line(histogram: &LogHistogram, axis: Decades, cells: usize) -> String {
    let counts = axis.counts(histogram, cells);
    let most = counts.iter().copied().max().unwrap_or(0);
    counts.iter().map(|&count| shade(count, most)).collect()
}

/// Distributions one after another from left to right, the last at the right edge; the axis of times goes up.
pub fn heat_map(frame: &mut Frame<'_>, area: Rect, columns: &[&LogHistogram], colour: Color) {
    let axis = Decades::around(columns.iter().copied());
    let rows = usize::from(area.height);
    let names: Vec<String> = (0..rows).map(|row| row_name(axis, row, rows)).collect();
    let left = names.iter().map(|name| name.chars().count()).max().unwrap_or(0) + 1;
    let cells = usize::from(area.width).saturating_sub(left);
    let shown = &columns[columns.len().saturating_sub(cells)..];
    let counts: Vec<Vec<u64>> = shown.iter().map(|histogram| axis.counts(histogram, rows)).collect();
    let most = counts.iter().flatten().copied().max().unwrap_or(0);
    let begin = area.x + (left + cells - shown.len()) as u16;
    for (row, name) in names.iter().enumerate() {
        // The lowest row has the shortest times.
        let y = area.bottom() - 1 - row as u16;
        let buffer = frame.buffer_mut();
        buffer.set_stringn(area.x, y, format!("{name:>width$}", width = left - 1), left, Style::new());
        let line: String = counts.iter().map(|column| shade(column[row], most)).collect();
        buffer.set_stringn(begin, y, line, cells, Style::new().fg(colour));
    }
}

/// The name of the decade that begins in a row, counted from below.
fn row_name(axis: Decades, row: usize, rows: usize) -> String {
    let begins = (0..axis.count()).find(|decade| decade * rows / axis.count() == row);
    begins.map_or_else(String::new, |decade| span(10f64.powi(axis.from + decade as i32)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::shown::shown;

    fn of(times: &[u64]) -> LogHistogram {
        let mut histogram = LogHistogram::default();
        times.iter().for_each(|time| histogram.add(*time));
        histogram
    }

    #[test]
    fn any_number_is_visible_and_the_most_are_darkest() {
        let shades: String = [0, 1, 100, 400, 10_000].into_iter().map(|count| shade(count, 10_000)).collect();
        assert_eq!(shades, " ░░░█");
        assert_eq!((shade(2_600, 10_000), shade(6_000, 10_000), shade(5, 0)), ('▓', '█', ' '));
    }

    #[test]
    fn a_distribution_is_a_line_below_its_axis() {
        let times = of(&[1_000, 1_000, 1_000, 1_000, 2_000_000]);
        let axis = Decades::around([&times]);
        assert_eq!(axis.count(), 4);
        assert_eq!(axis.axis(16), "1µs 10µs    1ms ");
        assert_eq!(heat_line(&times, axis, 16), "█            ▒  ");
        assert_eq!(heat_line(&LogHistogram::default(), axis, 3), "   ");
        assert_eq!(Decades::around([]).axis(8), "1ms ");
    }

    #[test]
    fn seconds_stand_side_by_side_with_the_last_at_the_right() {
        let (fast, slow) = (of(&[2_000_000; 9]), of(&[200_000_000]));
        let columns = [&slow, &LogHistogram::default(), &fast];
        let text = shown(12, 3, |frame| heat_map(frame, frame.area(), &columns, Color::Cyan));
        assert_eq!(text, "100ms    ▒\n 10ms\n  1ms      █\n");
        let narrow = shown(7, 3, |frame| heat_map(frame, frame.area(), &columns, Color::Cyan));
        assert_eq!(narrow, "100ms\n 10ms\n  1ms █\n");
    }
}
