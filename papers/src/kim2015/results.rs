//! Errors, bars and ranks of Kim et al. 2015.

use traces::results::reproduction::{Bar, Cell, Evidence, GroupError, Rank};

use super::figures::{ROWS, SEEKS, SWITCHES, fio_gains, fio_intervals, greatest, iozone_gains, loss, mean, paper};
use super::scenario::Outcome;
use super::{Outcomes, Part, READS};
use crate::estimate::group_error;
use crate::ranking::Ranking;

/// The errors of each figure with numbers that the paper prints.
pub fn errors(cells: &[Cell]) -> Vec<GroupError> {
    let figures = ["Figure 2", "Figure 5", "Figure 6 gain of BA"];
    figures.map(|figure| group_error(figure, cells, None, |cell| cell.table == figure)).into()
}

/// The bounds. Where the paper prints a number, they lie on both sides of it. Those of the gains and of Terasort's change
/// had one side only when these were first printed; the other was added then. What dd gives is marked as seen, too: its
/// results were in view when it was made to read.
pub fn bars(outcomes: &Outcomes<'_>, cells: &[Cell]) -> Vec<Bar> {
    let (fio, iozone) = (fio_gains(outcomes), iozone_gains(outcomes));
    let ours = |table: &str, row: &str, column: &str| {
        let found = cells.iter().find(|cell| (&*cell.table, &*cell.row, &*cell.column) == (table, row, column));
        found.map_or(f64::NAN, |cell| cell.ours)
    };
    let slowest = outcomes.both(Part::Light, |outcome| outcome.slowest_read_ms.get(3).copied().unwrap_or(0.0));
    let [cfq, ba] = paper::TERASORT;
    let change = (ba / cfq - 1.0) * 100.0;
    let bar = |what: &str, ours, at_least, at_most| Bar::new(what, ours, at_least, at_most, Evidence::Forecast);
    let of_dd = |what: &str, ours, at_least, at_most| Bar::new(what, ours, at_least, at_most, Evidence::Seen);
    let late = |what: &str, ours, at_least, at_most| bar(what, ours, at_least, at_most).limited_later();
    let [of_mean, of_greatest] = fio_intervals(outcomes);
    let mut bars = vec![
        of_dd("loss of four VMs against one, %", loss(outcomes), Some(25.0), Some(37.0)),
        late("fio, mean gain of BA, %", mean(&fio), Some(10.0), Some(paper::FIO_GAIN[0] + 5.0)).within(of_mean),
        late("fio, greatest gain of BA, %", greatest(&fio), Some(20.0), Some(paper::FIO_GAIN[1] + 5.0))
            .within(of_greatest),
        late("IOzone, mean gain of BA, %", mean(&iozone), Some(10.0), Some(paper::IOZONE_GAIN[0] + 5.0)),
        late("IOzone, greatest gain of BA, %", greatest(&iozone), Some(20.0), Some(paper::IOZONE_GAIN[1] + 5.0)),
        Bar::new(
            "Terasort, execution time with cfq, s",
            ours("Figure 5", ROWS[0], "execution time"),
            Some(cfq * 0.97),
            Some(cfq * 1.03),
            Evidence::ChosenOn,
        ),
        late(
            "Terasort, change of the execution time, %",
            ours("Figure 5", "change", "execution time"),
            Some(change - 5.0),
            Some((change + 5.0).min(-10.0)),
        ),
        of_dd(
            "Jain's index with BA while all read 1 GB",
            ours("Figure 9, Jain's index", "BA", "while all read 1 GB"),
            Some(0.98),
            None,
        ),
        Bar::new(
            "Jain's index with BA within 192 s",
            ours("Figure 9, Jain's index", "BA", "within 192 s"),
            Some(0.98),
            None,
            Evidence::Fitted,
        ),
        of_dd(
            "slowest read of a VM that is not bursty with BA, worst seed, ms",
            greatest(&slowest[1]),
            None,
            Some(1000.0),
        ),
    ];
    for cell in cells.iter().filter(|cell| [SWITCHES, SEEKS].contains(&cell.table.as_str()) && cell.row == "change") {
        let what = format!("{}, {}: change with BA, %", cell.table, cell.column);
        bars.push(bar(&what, cell.ours, None, Some(0.0)).within(cell.ci95));
    }
    bars
}

/// The order of the stacks at each mix of fio.
pub fn ranks(outcomes: &Outcomes<'_>) -> Vec<Rank> {
    let rank = |reads: u32| {
        let [cfq, ba] = outcomes.both(Part::Fio(reads), Outcome::megabytes_a_second);
        let ranking = Ranking {
            what: format!("fio, {} % writes, bandwidth", 100 - reads),
            names: &[ROWS[1], ROWS[0]],
            paper: None,
            ours: ba.into_iter().zip(cfq).map(|(ba, cfq)| vec![ba, cfq]).collect(),
            high_is_good: true,
            evidence: Evidence::Forecast,
        };
        ranking.rank()
    };
    READS.into_iter().map(rank).collect()
}
