//! The share of the dispatches that each rule of a scheduler made, as cells.

use traces::results::RuleFigures;
use traces::results::reproduction::Cell;

use crate::estimate::cell;

/// A column of the table of a scheduler's rules, from the runs of all seeds. A scheduler with a single rule has no
/// cells, nor has one that sent nothing.
pub fn cells(table: &str, column: &str, runs: &[&[RuleFigures]]) -> Vec<Cell> {
    let Some(first) = runs.first() else { return Vec::new() };
    let of_rule = |(number, rule): (usize, &RuleFigures)| {
        let shares = runs.iter().map(|rules| rules.get(number)?.share).collect::<Option<Vec<f64>>>()?;
        Some(cell([table, &rule.name, column], "share", None, &shares, false))
    };
    first.iter().enumerate().filter_map(of_rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_never_ran_has_a_share_of_zero() {
        let rule = |name: &str, requests, share| RuleFigures { name: name.to_owned(), requests, share: Some(share) };
        let runs =
            [[rule("batch", 4, 1.0), rule("expired", 0, 0.0)], [rule("batch", 3, 0.75), rule("expired", 1, 0.25)]];
        let cells = cells("rules of deadline", "real", &[&runs[0], &runs[1]]);
        let found: Vec<(&str, f64)> = cells.iter().map(|cell| (&*cell.row, cell.ours)).collect();
        assert_eq!(found, [("batch", 0.875), ("expired", 0.125)]);
        let never = super::cells("rules of deadline", "real", &[&runs[0]]);
        assert_eq!((&*never[1].row, never[1].ours), ("expired", 0.0));
        assert!(super::cells("rules of fifo", "real", &[&[]]).is_empty());
    }
}
