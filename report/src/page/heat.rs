//! Counts by two values, as cells of eight shades.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

use traces::results::history::Grid;

use super::chart::Axis;
use crate::ticks::Scale;

/// Shades of cells.
pub(super) const SHADES: usize = 8;
/// Most cells across and down. What has more is drawn with two in one.
const CELLS_MAX: [u64; 2] = [128, 96];

/// What a heat map shows: until when, and the first and last row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extent {
    /// The time of its right edge.
    pub seconds: f64,
    /// Rows of the grid.
    pub rows: (u64, u64),
}

/// Cells of one shade beside one another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// From 1.
    pub shade: usize,
    /// Rows from the top.
    pub down: u64,
    pub columns: Range<u64>,
}

/// A heat map.
#[derive(Clone, Debug)]
pub struct Heat {
    /// By row from below, and column.
    cells: BTreeMap<(u64, u64), u64>,
    columns: u64,
    /// Rows that are shown.
    rows: u64,
    scales: [Scale; 2],
}

impl Heat {
    /// A grid whose columns are `interval` wide from 0 on, and whose row begins at `value_of` its number. A grid that
    /// counts nothing gives an empty heat map. The `extent` holds all of the grid.
    pub fn of(grid: &Grid, interval: f64, extent: Extent, axis: &Axis, value_of: impl Fn(u64) -> f64) -> Heat {
        let (first, last) = extent.rows;
        let joined = |count: u64, most: u64| count.div_ceil(most).next_power_of_two();
        let wide = (libm::ceil(extent.seconds / interval) as u64).max(grid.columns.len() as u64);
        let [across, down] = [joined(wide, CELLS_MAX[0]), joined(last - first + 1, CELLS_MAX[1])];
        let mut cells: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for (column, counted) in grid.columns.iter().enumerate() {
            for (row, count) in counted {
                *cells.entry(((row - first) / down, column as u64 / across)).or_default() += count;
            }
        }
        let (columns, rows) = (wide.div_ceil(across).max(1), (last - first + 1).div_ceil(down));
        let ends = [value_of(first), value_of(first + rows * down)];
        let along = Scale { low: 0.0, high: (columns * across) as f64 * interval, is_logarithmic: false };
        let is_logarithmic = axis.scale(ends.into_iter()).is_logarithmic;
        Heat { cells, columns, rows, scales: [along, Scale { low: ends[0], high: ends[1], is_logarithmic }] }
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The count of the darkest cell.
    pub fn most(&self) -> u64 {
        self.cells.values().copied().max().unwrap_or(0)
    }

    /// Cells across and down.
    pub(super) fn cells(&self) -> [f64; 2] {
        [self.columns as f64, self.rows as f64]
    }

    pub(super) fn scales(&self) -> [Scale; 2] {
        self.scales
    }

    /// The shade of a count, from 1; equal ratios are equally many shades apart.
    fn shade(count: u64, most: u64) -> usize {
        let share = libm::log1p(count as f64) / libm::log1p(most as f64);
        (libm::ceil(share * SHADES as f64) as usize).clamp(1, SHADES)
    }

    /// With half as many cells each way.
    pub(super) fn coarser(&self) -> Heat {
        let mut cells: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for ((row, column), count) in &self.cells {
            *cells.entry((row / 2, column / 2)).or_default() += count;
        }
        // A row or column of which only half is there lies beyond the edge.
        let [columns, rows] = [self.columns, self.rows].map(|count| count.div_ceil(2));
        Heat { cells, columns, rows, scales: self.scales }
    }

    /// Cells of one shade beside one another: how far below the top, and from which column to before which.
    pub(super) fn runs(&self) -> Vec<Run> {
        let most = self.most();
        let mut runs = Vec::new();
        let mut cells = self.cells.iter().map(|(&place, &count)| (place, Heat::shade(count, most))).peekable();
        while let Some(((row, column), shade)) = cells.next() {
            let mut wide = 1;
            while cells.next_if_eq(&((row, column + wide), shade)).is_some() {
                wide += 1;
            }
            runs.push(Run { shade, down: self.rows - 1 - row, columns: column..column + wide });
        }
        runs
    }

    /// Writes a path for each shade.
    pub(super) fn write(&self, text: &mut String) {
        let mut paths = vec![String::new(); SHADES];
        for Run { shade, down, columns } in self.runs() {
            let wide = columns.end - columns.start;
            let _ = write!(paths[shade - 1], "M{} {down}h{wide}v1h-{wide}z", columns.start);
        }
        for (shade, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
            let _ = write!(text, "<path class=\"h{}\" d=\"{path}\"/>", shade + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heat(columns: Vec<Vec<(u64, u64)>>) -> Heat {
        let grid = Grid { row_size: 10, columns };
        let extent = Extent { seconds: 0.0, rows: grid.rows().unwrap() };
        Heat::of(&grid, 2.0, extent, &Axis::linear("sector"), |row| (row * 10) as f64)
    }

    #[test]
    fn cells_of_one_shade_beside_one_another_are_one_path() {
        let heat = heat(vec![vec![(5, 1)], vec![(5, 1), (6, 100)], vec![], vec![(5, 1)]]);
        let mut text = String::new();
        heat.write(&mut text);
        assert_eq!(text, "<path class=\"h2\" d=\"M0 1h2v1h-2zM3 1h1v1h-1z\"/><path class=\"h8\" d=\"M1 0h1v1h-1z\"/>");
        let [x, y] = heat.scales();
        assert_eq!((x.low, x.high, y.low, y.high), (0.0, 8.0, 50.0, 70.0));
        assert_eq!((heat.cells(), heat.most()), ([4.0, 2.0], 100));
    }

    #[test]
    fn a_map_beside_a_longer_one_shows_as_much() {
        let grid = Grid { row_size: 10, columns: vec![vec![(5, 1)]] };
        let heat = Heat::of(&grid, 2.0, Extent { seconds: 7.0, rows: (4, 6) }, &Axis::linear("x"), |row| row as f64);
        assert_eq!((heat.cells(), heat.scales()[0].high), ([4.0, 3.0], 8.0));
    }

    #[test]
    fn too_many_cells_are_joined_and_none_is_lost() {
        let columns = (0..256).map(|column| vec![(column, 1), (column + 300, 2)]).collect();
        let heat = heat(columns);
        assert_eq!(heat.cells.values().sum::<u64>(), 256 * 3);
        assert!(heat.columns == 128 && heat.rows <= 96, "{} and {}", heat.columns, heat.rows);
        let extent = Extent { seconds: 0.0, rows: (0, 0) };
        let empty = Heat::of(&Grid::default(), 1.0, extent, &Axis::linear("x"), |row| row as f64);
        assert!(empty.is_empty() && empty.most() == 0);
    }
}
