//! What both screens are made of.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row, Table};
use traces::printable::printable;

use crate::units::three_digits;

/// The style of headings.
pub fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// Areas of these heights below one another. Those that do not fit are cut, and empty from there on.
pub fn rows<const N: usize>(area: Rect, heights: [usize; N]) -> [Rect; N] {
    let mut y = area.y;
    heights.map(|height| {
        let height = u16::try_from(height).unwrap_or(u16::MAX).min(area.bottom() - y);
        let row = Rect { y, height, ..area };
        y += height;
        row
    })
}

/// A line with a text at the left and the keys at the right.
pub fn title(frame: &mut Frame<'_>, area: Rect, text: &str, keys: &str) {
    let text = printable(text);
    let space = usize::from(area.width).saturating_sub(text.chars().count() + keys.chars().count());
    // On a narrow screen the keys go, unless there is room for both.
    let keys = if space == 0 { String::new() } else { format!("{}{keys}", " ".repeat(space)) };
    frame.render_widget(Line::from(vec![Span::styled(text, bold()), Span::raw(keys)]), area);
}

/// A table without rules: the first column at the left, the numbers at the right. Columns that do not fit are left out
/// from the right.
pub fn plain_table(frame: &mut Frame<'_>, area: Rect, header: &[&str], rows: &[Vec<String>]) {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| printable(cell).into_owned()).collect()).collect();
    let cells = |column: usize| rows.iter().filter_map(move |row| row.get(column));
    let width = |column: usize| {
        let of_cells = cells(column).map(|cell| cell.chars().count()).max().unwrap_or(0);
        of_cells.max(header[column].chars().count())
    };
    let mut widths = Vec::new();
    let mut left = usize::from(area.width);
    for column in 0..header.len() {
        // A long name is cut, so that it leaves room for its numbers.
        let wanted = if column == 0 { width(0).min(left / 3).max(12) } else { width(column) };
        if wanted > left {
            break;
        }
        widths.push(wanted);
        left -= (wanted + 1).min(left);
    }
    let shown = widths.len();
    let cell = |(column, text): (usize, &str)| {
        let line = Line::from(text.to_owned());
        Cell::from(if column == 0 { line.left_aligned() } else { line.right_aligned() })
    };
    let line = |row: &Vec<String>| Row::new(row.iter().map(String::as_str).take(shown).enumerate().map(cell));
    let heading = Row::new(header.iter().copied().take(shown).enumerate().map(cell)).style(bold());
    let widths = widths.into_iter().map(|width| Constraint::Length(width as u16));
    frame.render_widget(Table::new(rows.iter().map(line), widths).header(heading), area);
}

/// An amount per second, to three digits.
pub fn rate(amount: u64, ns: u64) -> String {
    if ns == 0 { "0".to_owned() } else { three_digits(amount as f64 * 1e9 / ns as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::shown::shown;

    #[test]
    fn columns_that_do_not_fit_are_left_out() {
        let rows = [vec!["web\x1b[2J".to_owned(), "1200".to_owned(), "3.5".to_owned()]];
        let draw = |width| shown(width, 2, |frame| plain_table(frame, frame.area(), &["VM", "reads/s", "MB/s"], &rows));
        assert_eq!(draw(30), "VM           reads/s MB/s\nweb\\u{1b}[2J    1200  3.5\n");
        assert_eq!(draw(22), "VM           reads/s\nweb\\u{1b}[2J    1200\n");
    }

    #[test]
    fn keys_are_named_where_there_is_room() {
        let draw = |width| shown(width, 1, |frame| title(frame, frame.area(), "sda", "q ends"));
        assert_eq!(draw(12), "sda   q ends\n");
        assert_eq!(draw(9), "sda\n");
    }

    #[test]
    fn rates_are_per_second_of_what_was_captured() {
        let rates = [rate(500, 500_000_000), rate(3, 10_000_000_000), rate(5, 0)];
        assert_eq!(rates, ["1000", "0.30", "0"]);
    }

    #[test]
    fn areas_that_do_not_fit_are_empty() {
        let [a, b, c] = rows(Rect::new(1, 2, 8, 5), [2, 9, 1]);
        assert_eq!([a, b, c].map(|area| (area.y, area.height)), [(2, 2), (4, 3), (7, 0)]);
    }
}
