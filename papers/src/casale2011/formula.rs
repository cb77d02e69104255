//! Tables I to III of Casale et al. 2011: the formulas on the paper's own inputs.
//!
//! The paper prints no rates of the VMs alone. Its six predictions in Table II are six equations for these six rates,
//! with a single positive solution; the mixes of Table I follow from it. The paper prints no response times alone
//! either. The read response times of Table III determine all of them but one, which is free.

use traces::results::isolation::{IsolatedOperation, IsolationProfile};
use traces::results::reproduction::{Bar, Cell, Choice, Evidence, Source};

use predictors::predictor::{Consolidation, Isolated, Predictor, predict};

/// The VMs alone: name, reads and writes per second (the solution of Table II), and the read response time beyond that
/// of File, ms.
const ALONE: [(&str, f64, f64, f64); 3] = [
    ("File", 330.114_059_8, 238.110_277_3, 0.0),
    ("Mail", 245.298_039_4, 370.561_295_3, -2.65),
    ("Web", 470.772_926_5, 44.405_484_0, -8.15),
];
/// The time that a VM adds to a read of another VM, minus the read response time of File alone, ms.
const ADDED: [f64; 3] = [40.25, 36.3, 33.6];
/// The read response time of File alone, ms. Every value that leaves all times positive gives the same tables.
const FREE: f64 = 25.0;

/// The paper's numbers for a pair: the VMs; measured requests per second; predicted mix with its errors; predicted
/// requests per second; predicted read response times, ms.
struct Pair {
    vms: [usize; 2],
    measured: [f64; 2],
    mix: [f64; 2],
    mix_error: [f64; 2],
    rates: [f64; 2],
    reads_ms: [f64; 2],
}

const PAIRS: [Pair; 3] = [
    Pair {
        vms: [0, 1],
        measured: [293.0, 336.0],
        mix: [0.49, 0.51],
        mix_error: [0.03, 0.03],
        rates: [286.0, 307.0],
        reads_ms: [36.3, 37.6],
    },
    Pair {
        vms: [0, 2],
        measured: [448.0, 176.0],
        mix: [0.74, 0.26],
        mix_error: [0.03, 0.08],
        rates: [397.0, 146.0],
        reads_ms: [33.6, 32.1],
    },
    Pair {
        vms: [2, 1],
        measured: [382.0, 280.0],
        mix: [0.63, 0.36],
        mix_error: [0.10, 0.13],
        rates: [348.0, 222.0],
        reads_ms: [28.2, 30.9],
    },
];

/// The tables, their targets, and the misprints of the paper.
pub(super) struct Formula {
    pub(super) cells: Vec<Cell>,
    pub(super) bars: Vec<Bar>,
    pub(super) misprints: Vec<String>,
}

/// The formulas on the paper's own inputs.
pub(super) fn formula(casale: &dyn Predictor) -> Formula {
    let mut cells = Vec::new();
    let mut misprints = Vec::new();
    for pair in &PAIRS {
        let alone = pair.vms.map(|vm| profile(vm, FREE));
        let name = pair.vms.map(|vm| ALONE[vm].0).join("+");
        // The profiles are constants, and a test makes forecasts from them.
        if let Ok(together) = predict(casale, Isolated::of_profiles(&alone)) {
            table_1(pair, &name, &together, &mut cells, &mut misprints);
            table_2(pair, &name, &together, &mut cells);
            table_3(pair, &name, &together, &mut cells);
        }
    }
    let off = |table: &str, digits: f64| {
        let wrong = cells.iter().filter(|cell| cell.table == table && !same_digits(cell, digits));
        wrong.count() as f64
    };
    let furthest =
        cells.iter().filter(|cell| cell.table == "III").map(|cell| (cell.ours - cell.paper.unwrap_or(cell.ours)).abs());
    let bars = vec![
        Bar::new(
            "formula test, Table I: cells that differ from the paper's last digit",
            off("I", 100.0),
            None,
            Some(0.0),
            Evidence::Forecast,
        ),
        Bar::new(
            "formula test, Table II: cells that differ from the paper's last digit",
            off("II", 1.0),
            None,
            Some(0.0),
            Evidence::ChosenOn,
        ),
        Bar::new(
            "formula test, Table III, reads: largest difference, ms",
            furthest.fold(0.0, f64::max),
            None,
            Some(0.1),
            Evidence::ChosenOn,
        ),
    ];
    Formula { cells, bars, misprints }
}

/// The profile of a VM alone with its implied inputs. Reads cause all of its interference, since the paper does not
/// state the division between reads and writes.
fn profile(vm: usize, free: f64) -> IsolationProfile {
    let (name, reads, writes, longer) = ALONE[vm];
    let response = free + longer;
    let added = ADDED[vm] - free;
    // The interference is S A = C A / (1 + A).
    let found = added / (response - added);
    let operation = |iops: f64, found: f64| IsolatedOperation {
        iops,
        response_ns: Some(response * 1e6),
        found_total: Some(found),
        ..IsolatedOperation::default()
    };
    IsolationProfile {
        vm: name.to_owned(),
        reads: operation(reads, found),
        writes: operation(writes, 0.0),
        ..IsolationProfile::default()
    }
}

/// A cell that the formula gives. The inputs were made from Table II and the reads of Table III.
fn cell([table, row, column]: [&str; 3], unit: &str, paper: f64, ours: f64) -> Cell {
    Cell {
        table: table.to_owned(),
        row: row.to_owned(),
        column: column.to_owned(),
        paper: Some(paper),
        ours,
        unit: unit.to_owned(),
        relative_error: Some((ours - paper) / paper),
        ci95: None,
        counts: true,
        source: Source::Formula,
        evidence: if table == "I" { Evidence::Forecast } else { Evidence::ChosenOn },
    }
}

/// Whether our value, rounded as in the paper, equals the printed value. `digits` is 10 to the power of the number of
/// decimal places.
fn same_digits(cell: &Cell, digits: f64) -> bool {
    cell.paper.is_some_and(|paper| libm::round(cell.ours * digits) == libm::round(paper * digits))
}

/// The paper's names of reads and writes.
pub(super) const TYPES: [&str; 2] = ["R", "W"];

fn table_1(pair: &Pair, name: &str, together: &Consolidation, cells: &mut Vec<Cell>, misprints: &mut Vec<String>) {
    let reads = together.mix_read.unwrap_or(f64::NAN);
    let all: f64 = pair.measured.iter().sum();
    for (kind, ours) in [reads, 1.0 - reads].into_iter().enumerate() {
        let column = TYPES[kind];
        let mix = cell(["I", name, &format!("predicted {column}")], "share", pair.mix[kind], ours);
        // If one share of a mix is right and both do not add up to 1, the other share is a misprint.
        if (pair.mix[0] + pair.mix[1] - 1.0).abs() > 0.005 && !same_digits(&mix, 100.0) {
            misprints.push(format!("Table I, {name}, predicted {column}: {} printed, {ours:.4} by the formula; the printed pair does not make 1", pair.mix[kind]));
        }
        cells.push(mix);
        // The measured mix follows from the rates of Table II, each known to half a request per second.
        let error = |slack: f64| {
            let measured = (pair.measured[kind] + slack) / (all + 2.0 * slack);
            (ours - measured).abs() / measured
        };
        let delta = cell(["I", name, &format!("error of {column}")], "share", pair.mix_error[kind], error(0.0));
        if ![-0.5, 0.0, 0.5]
            .iter()
            .any(|slack| libm::round(error(*slack) * 100.0) == libm::round(pair.mix_error[kind] * 100.0))
        {
            misprints.push(format!(
                "Table I, {name}, error of {column}: {} printed, {:.4} by Table II's measured rates and the formula",
                pair.mix_error[kind],
                error(0.0)
            ));
        }
        cells.push(delta);
    }
}

fn table_2(pair: &Pair, name: &str, together: &Consolidation, cells: &mut Vec<Cell>) {
    let forecast = together.forecast();
    for (kind, ours) in [forecast.total_read_iops, forecast.total_write_iops].into_iter().enumerate() {
        cells.push(cell(
            ["II", name, &format!("predicted {}", TYPES[kind])],
            "requests/s",
            pair.rates[kind],
            ours.unwrap_or(f64::NAN),
        ));
    }
}

fn table_3(pair: &Pair, name: &str, together: &Consolidation, cells: &mut Vec<Cell>) {
    for (vm, forecast) in together.vms.iter().enumerate() {
        let ours = forecast.reads.response_ns.unwrap_or(f64::NAN) / 1e6;
        cells.push(cell(["III", name, &format!("VM{} predicted R", vm + 1)], "ms", pair.reads_ms[vm], ours));
    }
}

pub(super) fn choices() -> Vec<Choice> {
    vec![
        Choice::new(
            "rates alone, reads and writes per second",
            "File 330.1141 and 238.1103, Mail 245.2980 and 370.5613, Web 470.7729 and 44.4055",
            "not printed; the only positive solution of Table II's six predictions",
        ),
        Choice::new(
            "response of File's reads alone",
            "25 ms",
            "not printed and not implied: Mail's are 2.65 ms and Web's 8.15 ms shorter, and any value above 20.9 and below 33.6 gives the same table",
        ),
    ]
}

pub(super) fn statements(misprints: Vec<String>) -> Vec<String> {
    let mut statements = vec![
        "The formula test takes the paper's own inputs, as far as its tables imply them. Six rates are solved from the six predictions of \
         Table II, so that these agree by construction. Five constants are solved from the six reads of Table III, so that one sum of them \
         is tested and no more. The mixes of Table I are tested. How well the formulas predict VMs is another question: the tables of \
         replayed VMs show it."
            .to_owned(),
        "The writes of Table III cannot come from equation (6) with one set of measurements alone, so they are not in these tables. By \
         (6) a forecast is the VM's own response alone plus what the other adds. Then (File in File+Mail - File in File+Web) + \
         (Mail in Web+Mail - Mail in File+Mail) + (Web in File+Web - Web in Web+Mail) is zero whatever was measured. The printed reads \
         give -0.1 ms, which is rounding; the printed writes give -9.51 ms."
            .to_owned(),
    ];
    statements.extend(
        misprints.into_iter().map(|misprint| format!("Probably a misprint, and counted as a difference: {misprint}.")),
    );
    statements
}

#[cfg(test)]
mod tests {
    use super::super::casale;
    use super::*;

    #[test]
    fn the_rates_are_those_that_table_2_implies() {
        for pair in &PAIRS {
            let [one, other] = pair.vms.map(|vm| ALONE[vm]);
            let weights = [one.1 + one.2, other.1 + other.2];
            let all: f64 = weights.iter().sum();
            let reads = (one.1 * weights[0] + other.1 * weights[1]) / all;
            let writes = (one.2 * weights[0] + other.2 * weights[1]) / all;
            assert!((reads - pair.rates[0]).abs() < 1e-3, "{reads}");
            assert!((writes - pair.rates[1]).abs() < 1e-3, "{writes}");
        }
    }

    #[test]
    fn tables_are_the_papers_but_for_three_cells() {
        let Formula { cells, bars, misprints } = formula(&*casale().unwrap());
        assert_eq!((cells.len(), misprints.len()), (3 * (4 + 2 + 2), 3));
        assert!(cells.iter().all(|cell| cell.source == Source::Formula && cell.ours.is_finite()));
        // Misprints are counted as what they are: three cells of Table I that the formula does not give.
        assert_eq!(bars.iter().map(|bar| bar.reached).collect::<Vec<_>>(), [false, true, true]);
        assert_eq!((bars[0].ours, bars[0].evidence), (3.0, Evidence::Forecast));
        assert!(bars[1..].iter().all(|bar| bar.evidence == Evidence::ChosenOn));
        let of_table_1 = cells.iter().filter(|cell| cell.table == "I" && !same_digits(cell, 100.0));
        let differ: Vec<[&str; 2]> = of_table_1.map(|cell| [&*cell.row, &*cell.column]).collect();
        assert_eq!(differ, [["File+Mail", "error of R"], ["File+Mail", "error of W"], ["Web+Mail", "predicted W"]]);
        assert!(cells.iter().all(|cell| cell.counts));
    }

    #[test]
    fn read_responses_of_table_3_do_not_depend_on_the_free_response_time() {
        let casale = casale().unwrap();
        for free in [21.0, 33.0] {
            for pair in &PAIRS {
                let alone = pair.vms.map(|vm| profile(vm, free));
                let together = predict(&*casale, Isolated::of_profiles(&alone)).unwrap();
                for (vm, printed) in together.vms.iter().zip(pair.reads_ms) {
                    assert!((vm.reads.response_ns.unwrap() / 1e6 - printed).abs() < 0.1);
                }
            }
        }
    }

    /// The sums around the circle of pairs are equal: with (6) they hold the same responses and additions, whatever
    /// their values.
    #[test]
    fn the_writes_of_table_3_do_not_close() {
        let writes = [[6.91, 12.2], [10.9, 11.1], [12.9, 8.48]];
        // Capital letters are responses alone, small ones interference: File+Mail is [F+m, M+f], File+Web [F+w, W+f],
        // Web+Mail [W+m, M+w].
        let closure = |printed: [[f64; 2]; 3]| {
            let [[file_mail, mail_file], [file_web, web_file], [web_mail, mail_web]] = printed;
            (file_mail - file_web) + (mail_web - mail_file) + (web_file - web_mail)
        };
        assert!(closure(PAIRS.map(|pair| pair.reads_ms)).abs() < 0.2);
        assert!((closure(writes).abs() - 9.51).abs() < 1e-9, "{}", closure(writes));
    }
}
