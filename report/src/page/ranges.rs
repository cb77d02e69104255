//! Values of several kinds beside one another, with their intervals: measured, replayed and forecast on one axis.

use super::{Axis, Chart, Marks, Spans};
use crate::ticks::Scale;

/// Most rows in a chart; more stand in further charts.
const ROWS_MAX: usize = 5;

/// A value, with the ends of its interval if it has one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranged {
    /// The value.
    pub value: f64,
    /// From where to where it may lie.
    pub interval: Option<[f64; 2]>,
}

/// What is compared in one row, such as the reads of a VM.
#[derive(Clone, Debug, PartialEq)]
pub struct RangesRow {
    /// Its name.
    pub name: String,
    /// A value for each kind, where there is one.
    pub values: Vec<Option<Ranged>>,
}

/// Rows of values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranges {
    /// The kinds of values, such as measured and forecast.
    pub kinds: Vec<String>,
    /// The rows from above to below.
    pub rows: Vec<RangesRow>,
}

impl Ranges {
    /// The charts, all with the same axis. Rows without a value are left out; there is no chart without a row.
    pub fn charts(&self, title: &str, about: &str, x: &Axis) -> Vec<Chart> {
        let rows: Vec<&RangesRow> = self.rows.iter().filter(|row| row.values.iter().any(Option::is_some)).collect();
        let ends = |value: &Ranged| value.interval.into_iter().flatten().chain([value.value]).collect::<Vec<f64>>();
        let all = rows.iter().flat_map(|row| row.values.iter().flatten().flat_map(ends));
        let scale = x.scale(all.filter(|value| value.is_finite()));
        let chart = |(part, rows): (usize, &[&RangesRow])| Chart {
            title: if part == 0 { title.to_owned() } else { format!("{title}, part {}", part + 1) },
            about: about.to_owned(),
            x: x.clone().reaching(roomy(scale)),
            y: Axis::names(rows.iter().map(|row| row.name.clone()).collect()),
            marks: Marks::Spans(
                self.kinds.iter().enumerate().map(|(kind, name)| self.spans(kind, name, rows)).collect(),
            ),
        };
        rows.chunks(ROWS_MAX).enumerate().map(chart).collect()
    }

    /// The values of one kind, each in its lane of its row. The upper third of a row is its name's.
    fn spans(&self, kind: usize, name: &str, rows: &[&RangesRow]) -> Spans {
        let mut spans = Spans { name: name.to_owned(), ..Spans::default() };
        for (row, of) in rows.iter().enumerate() {
            let Some(Ranged { value, interval }) = of.values.get(kind).copied().flatten() else { continue };
            let lane = 0.35 + 0.6 * (kind as f64 + 0.5) / self.kinds.len() as f64;
            let height = rows.len() as f64 - row as f64 - lane;
            spans.thick.push([value, value, height]);
            spans.thin.extend(interval.map(|[low, high]| [low, high, height]));
        }
        spans
    }
}

/// The ends of a scale with a little room beyond the outermost values, so that no dot is cut.
fn roomy(Scale { low, high, is_logarithmic }: Scale) -> [f64; 2] {
    let room = if is_logarithmic { libm::pow(high / low, 0.04) } else { (high - low) * 0.03 };
    match is_logarithmic {
        true => [low / room, high * room],
        false => [if low == 0.0 { 0.0 } else { low - room }, high + room],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, values: [Option<f64>; 2]) -> RangesRow {
        let ranged = |value: f64| Ranged { value, interval: Some([value / 2.0, value * 2.0]) };
        RangesRow { name: name.to_owned(), values: values.map(|value| value.map(ranged)).to_vec() }
    }

    fn ranges(rows: Vec<RangesRow>) -> Ranges {
        Ranges { kinds: ["measured", "forecast"].map(str::to_owned).to_vec(), rows }
    }

    #[test]
    fn values_lie_in_the_rows_of_their_names_with_their_intervals() {
        let ranges =
            ranges(vec![row("mail", [Some(8.0), Some(4.0)]), row("none", [None, None]), row("web", [Some(2.0), None])]);
        let charts = ranges.charts("Response times", "", &Axis::linear("ms"));
        let [chart] = &charts[..] else { panic!("{} charts", charts.len()) };
        let Marks::Spans(kinds) = &chart.marks else { panic!("{chart:?}") };
        assert_eq!(kinds[0].thick, [[8.0, 8.0, 1.5], [2.0, 2.0, 0.5]]);
        let [[low, high, height]] = kinds[1].thin[..] else { panic!("{kinds:?}") };
        assert!((low, high) == (2.0, 8.0) && (height - 1.2).abs() < 1e-9, "{kinds:?}");
        let svg = chart.inline();
        assert!(svg.contains(">mail</text>") && svg.contains(">web</text>") && !svg.contains(">none<"), "{svg}");
        // From 0 to 16 ms and 3 % more: 8 ms is nearly in the middle, and half-way down the upper of two rows.
        assert!(svg.contains("class=\"span thick c0\" data-line=\"0\" d=\"M1942 1000h0M485 3000h0\""), "{svg}");
    }

    #[test]
    fn many_rows_are_several_charts_of_one_axis() {
        let rows = (0..20).map(|vm| row(&format!("vm{vm}"), [Some(f64::from(vm + 1)), None])).collect();
        let charts = ranges(rows).charts("Rates", "", &Axis::powers("requests/s"));
        let titles: Vec<&str> = charts.iter().map(|chart| chart.title.as_str()).collect();
        assert_eq!(titles, ["Rates", "Rates, part 2", "Rates, part 3", "Rates, part 4"]);
        let [first, last] = [&charts[0], &charts[3]].map(|chart| chart.scales()[0]);
        assert_eq!(first, last);
        assert!(0.4 < first.low && first.low < 0.5 && 40.0 < first.high && first.high < 50.0, "{first:?}");
        assert!(ranges(Vec::new()).charts("Rates", "", &Axis::linear("ms")).is_empty());
    }
}
