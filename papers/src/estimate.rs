//! Means over seeds with their confidence intervals, beside the numbers of a paper.

use traces::results::reproduction::{Cell, Evidence, GroupError, Source};
use traces::statistics::mean_and_half_width;

/// Makes a cell with the given name from the values of the seeds' replays.
pub fn cell([table, row, column]: [&str; 3], unit: &str, paper: Option<f64>, values: &[f64], counts: bool) -> Cell {
    let (ours, half) = mean_and_half_width(values);
    Cell {
        table: table.to_owned(),
        row: row.to_owned(),
        column: column.to_owned(),
        paper,
        ours,
        unit: unit.to_owned(),
        relative_error: paper.map(|paper| (ours - paper) / paper),
        ci95: half.map(|half| [ours - half, ours + half]),
        counts,
        source: Source::Replayed,
        evidence: Evidence::Forecast,
    }
}

/// The mean absolute relative error of the cells that `belongs` selects and that count towards errors. The group is no
/// better evidence than the weakest of them.
pub fn group_error(group: &str, cells: &[Cell], bar: Option<f64>, belongs: impl Fn(&Cell) -> bool) -> GroupError {
    let counted = cells.iter().filter(|cell| cell.counts && belongs(cell));
    let evidence = counted.clone().map(|cell| cell.evidence).max().unwrap_or_default();
    let errors: Vec<f64> = counted.filter_map(|cell| cell.relative_error).collect();
    let sum: f64 = errors.iter().map(|error| error.abs()).sum();
    GroupError {
        group: group.to_owned(),
        cells: errors.len() as u64,
        mean_absolute_relative_error: if errors.is_empty() { 0.0 } else { sum / errors.len() as f64 },
        bar,
        evidence,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_error_leaves_out_cells_that_do_not_count_or_have_no_paper_value() {
        let cells = [
            cell(["2", "mean", "a"], "ms", Some(10.0), &[11.0], true),
            cell(["2", "mean", "b"], "ms", Some(10.0), &[7.0], true),
            cell(["2", "mean", "c"], "ms", Some(10.0), &[90.0], false),
            cell(["3", "mean", "a"], "ms", Some(10.0), &[90.0], true),
            cell(["2", "mean", "d"], "ms", None, &[90.0], true),
        ];
        let error = group_error("two", &cells, None, |cell| cell.table == "2");
        assert_eq!(error.cells, 2);
        assert!((error.mean_absolute_relative_error - 0.2).abs() < 1e-12);
    }
}
