//! Counts by interval and row, in bounded memory.

use traces::results::history::{Grid, STEPS_MAX};

/// Counts by interval and row.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    row_size: u64,
    /// The row of the first element of a column.
    first: u64,
    /// The first and last row that count anything.
    used: Option<(u64, u64)>,
    /// All rows of the first interval, then of the next. Empty until anything is counted.
    counts: Vec<u32>,
}

impl Counts {
    pub(super) fn new(row_size: u64) -> Counts {
        Counts { row_size, first: 0, used: None, counts: Vec::new() }
    }

    pub(super) fn add(&mut self, column: usize, value: u64) {
        let row = value / self.row_size;
        let is_there = self.used.is_some_and(|(first, last)| (first..=last).contains(&row));
        let row = if is_there { row } else { self.make_room(value) };
        let count = &mut self.counts[column * STEPS_MAX + (row - self.first) as usize];
        *count = count.saturating_add(1);
    }

    /// Makes a column hold the row of this value, and says which row it is then.
    #[cold]
    fn make_room(&mut self, value: u64) -> u64 {
        let Some((mut low, mut high)) = self.used else {
            self.counts = vec![0; STEPS_MAX * STEPS_MAX];
            let row = value / self.row_size;
            // Rows below may follow.
            self.first = row.saturating_sub(STEPS_MAX as u64 / 2);
            self.used = Some((row, row));
            return row;
        };
        let mut row = value / self.row_size;
        while high.max(row) - low.min(row) >= STEPS_MAX as u64 {
            self.fold_rows(low);
            (low, high, row) = (low / 2, high / 2, row / 2);
        }
        (low, high) = (low.min(row), high.max(row));
        if low < self.first || high >= self.first + STEPS_MAX as u64 {
            self.shift(low.saturating_sub((STEPS_MAX as u64 - 1 - (high - low)) / 2));
        }
        self.used = Some((low, high));
        row
    }

    /// Makes each two rows one. The first row then is that of `low`.
    fn fold_rows(&mut self, low: u64) {
        let first = low / 2;
        for column in self.counts.chunks_exact_mut(STEPS_MAX) {
            let mut folded = [0_u32; STEPS_MAX];
            for (index, &count) in column.iter().enumerate().filter(|(_, count)| **count > 0) {
                let row = (self.first + index as u64) / 2 - first;
                folded[row as usize] = folded[row as usize].saturating_add(count);
            }
            column.copy_from_slice(&folded);
        }
        self.first = first;
        self.row_size *= 2;
    }

    /// Moves the rows, so that `first` is the first of them.
    fn shift(&mut self, first: u64) {
        for column in self.counts.chunks_exact_mut(STEPS_MAX) {
            let mut moved = [0; STEPS_MAX];
            for (index, &count) in column.iter().enumerate().filter(|(_, count)| **count > 0) {
                moved[(self.first + index as u64 - first) as usize] = count;
            }
            column.copy_from_slice(&moved);
        }
        self.first = first;
    }

    pub(super) fn fold_columns(&mut self) {
        for column in 0..self.counts.len() / STEPS_MAX {
            for row in 0..STEPS_MAX {
                let at = |column: usize| column * STEPS_MAX + row;
                self.counts[at(column)] = match column < STEPS_MAX / 2 {
                    true => self.counts[at(2 * column)].saturating_add(self.counts[at(2 * column + 1)]),
                    false => 0,
                };
            }
        }
    }

    pub(super) fn grid(&self, columns: usize) -> Grid {
        let column = |counts: &[u32]| {
            let counted = counts.iter().enumerate().filter(|(_, count)| **count > 0);
            counted.map(|(index, &count)| (self.first + index as u64, u64::from(count))).collect()
        };
        let mut columns_counted: Vec<Vec<(u64, u64)>> = self.counts.chunks_exact(STEPS_MAX).map(column).collect();
        columns_counted.resize(columns, Vec::new());
        Grid { row_size: self.row_size, columns: columns_counted }
    }
}
