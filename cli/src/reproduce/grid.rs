//! Arranges the cells of a paper's table in rows and columns, and formats their numbers.

use traces::results::reproduction::{Cell, Evidence};

/// One table of the paper. Rows and columns are in the order in which cells name them first.
pub struct Grid<'a> {
    pub name: &'a str,
    pub cells: Vec<&'a Cell>,
    pub rows: Vec<&'a str>,
    pub columns: Vec<&'a str>,
}

impl<'a> Grid<'a> {
    /// All tables, in the order of their first cells.
    pub fn all(cells: &'a [Cell]) -> Vec<Grid<'a>> {
        let grid = |(name, cells): (&'a str, Vec<&'a Cell>)| {
            let rows = parts(cells.iter().copied(), |cell| &cell.row);
            let columns = parts(cells.iter().copied(), |cell| &cell.column);
            Grid {
                name,
                rows: rows.into_iter().map(|(row, _)| row).collect(),
                columns: columns.into_iter().map(|(column, _)| column).collect(),
                cells,
            }
        };
        parts(cells, |cell| &cell.table).into_iter().map(grid).collect()
    }

    /// The cell of a row and a column, if there is one.
    pub fn cell(&self, row: &str, column: &str) -> Option<&'a Cell> {
        self.cells.iter().copied().find(|cell| cell.row == row && cell.column == column)
    }

    /// The unit that all cells of the table or of a row have.
    pub fn unit(&self, row: Option<&str>) -> Option<String> {
        let mut cells = self.cells.iter().filter(|cell| row.is_none_or(|row| cell.row == row));
        let unit = &cells.next()?.unit;
        cells.all(|cell| cell.unit == *unit).then(|| spoken(unit))
    }
}

/// Groups items by name, in the order in which the names first occur.
pub fn parts<'a, T>(things: impl IntoIterator<Item = &'a T>, name: fn(&T) -> &String) -> Vec<(&'a str, Vec<&'a T>)> {
    let mut parts: Vec<(&'a str, Vec<&'a T>)> = Vec::new();
    for thing in things {
        match parts.iter_mut().find(|(other, _)| other == name(thing)) {
            Some((_, part)) => part.push(thing),
            None => parts.push((name(thing), vec![thing])),
        }
    }
    parts
}

/// `Table 2` for a number, Roman or not; a table with a name is called by that name.
pub fn named(kind: &str, name: &str) -> String {
    let mut letters = name.chars();
    let word = name.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
    if !word.is_empty() && word.chars().all(|letter| "IVX".contains(letter)) {
        return format!("{kind} {name}");
    }
    match letters.next() {
        Some(digit) if digit.is_ascii_digit() => format!("{kind} {name}"),
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => kind.to_owned(),
    }
}

/// A unit as it is printed.
pub fn spoken(unit: &str) -> String {
    unit.replace("ms2", "ms²")
}

/// Number of decimals that suits the size of a value.
fn decimals(value: f64) -> usize {
    match value.abs() {
        large if large >= 1000.0 => 0,
        large if large >= 100.0 => 1,
        small if small > 0.0 && small < 0.095 => 3,
        _ => 2,
    }
}

/// The paper's number; `-` if it has none.
pub fn theirs(cell: &Cell) -> String {
    cell.paper.map_or_else(|| "-".to_owned(), |value| format!("{value:.0$}", decimals(value)))
}

/// The new number, with half the width of its confidence interval.
pub fn ours(cell: &Cell) -> String {
    let decimals = decimals(cell.ours);
    let half = cell.ci95.map(|[low, high]| format!(" ± {:.decimals$}", (high - low) / 2.0));
    format!("{:.decimals$}{}", cell.ours, half.unwrap_or_default())
}

/// The relative error, with a star if it does not count and a letter if it is no forecast; `-` if there is none.
pub fn error(cell: &Cell) -> String {
    let star = if cell.counts { "" } else { "*" };
    let evidence = match cell.evidence {
        Evidence::Forecast => "",
        Evidence::Seen => " s",
        Evidence::ChosenOn => " c",
        Evidence::Fitted => " f",
    };
    cell.relative_error.map_or_else(|| "-".to_owned(), |error| format!("{}{star}{evidence}", signed_percent(error)))
}

/// A share in percent with its sign, but none before zeros.
fn signed_percent(share: f64) -> String {
    let text = format!("{:+.1} %", share * 100.0);
    if text.contains(|digit| matches!(digit, '1'..='9')) || !share.is_finite() {
        return text;
    }
    text[1..].to_owned()
}

/// A share in percent.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A cell of a table, row and column.
    pub fn cell(place: [&str; 3], unit: &str, paper: Option<f64>, ours: f64) -> Cell {
        let ci95 = Some([ours * 0.99, ours * 1.01]);
        Cell { ci95, ..papers::estimate::cell(place, unit, paper, &[ours], true) }
    }

    #[test]
    fn digits_are_those_that_make_sense() {
        let of = |paper: f64, value: f64| cell(["2", "variance", "real"], "ms2", Some(paper), value);
        let said = |cell: &Cell| [theirs(cell), ours(cell), error(cell)];
        assert_eq!(said(&of(6961.5, 7012.34)), ["6962", "7012 ± 70", "+0.7 %"]);
        assert_eq!(said(&of(561.15, 124.7)), ["561.1", "124.7 ± 1.2", "-77.8 %"]);
        assert_eq!(said(&of(2.5, 2.5001)), ["2.50", "2.50 ± 0.03", "0.0 %"]);
        assert_eq!(said(&Cell { counts: false, ..of(0.05, 0.06) }), ["0.050", "0.060 ± 0.001", "+20.0 %*"]);
        let alone = Cell { paper: None, relative_error: None, ci95: None, ..of(1.0, 0.0) };
        assert_eq!(said(&alone), ["-", "0.00", "-"]);
        assert_eq!(signed_percent(f64::INFINITY), "+inf %");
    }

    #[test]
    fn tables_keep_the_papers_order() {
        let cells = [
            cell(["2", "throughput", "virtual"], "sectors/ms", None, 1.0),
            cell(["2", "throughput", "real"], "sectors/ms", None, 2.0),
            cell(["shadow cache", "recall", "real"], "share", None, 3.0),
            cell(["2", "mean", "real"], "ms", None, 4.0),
        ];
        let grids = Grid::all(&cells);
        assert_eq!(grids.iter().map(|grid| named("Table", grid.name)).collect::<Vec<_>>(), ["Table 2", "Shadow cache"]);
        let two = &grids[0];
        assert_eq!((&two.rows, &two.columns), (&vec!["throughput", "mean"], &vec!["virtual", "real"]));
        assert_eq!(two.cell("mean", "real").map(|cell| cell.ours), Some(4.0));
        assert!(two.cell("mean", "virtual").is_none());
        assert_eq!(
            [two.unit(None), two.unit(Some("mean")), grids[1].unit(None)],
            [None, Some("ms".into()), Some("share".into())]
        );
    }
}
