//! Tables I to III for our own VMs: measured figures beside the forecasts of the formulas and the baselines.

use traces::results::isolation::IsolationProfile;
use traces::results::prediction::Forecast;
use traces::results::reproduction::{Cell, Claim, Evidence, GroupError, Source, Verdict};
use traces::statistics::mean_and_half_width;

use super::formula::{ALONE, TYPES};
use super::printed::{PRINTED, Pair};
use crate::estimate::cell;
use predictors::baselines::{CONSTANT, ISOLATION};
use predictors::casale;
use predictors::predictor::{Consolidation, Entry, Isolated, PredictError, Predictor, VmForecast, predict};

/// The paper's VMs.
pub const VMS: [&str; 3] = ["file", "mail", "web"];
/// The paper's pairs, as indices into [`VMS`].
pub const PAIRS: [[usize; 2]; 3] = [[0, 1], [0, 2], [2, 1]];
/// The predictors in the tables; the paper's is first.
const PREDICTORS: [&Entry; 3] = [&casale::published::ENTRY, &ISOLATION, &CONSTANT];

/// One run of all VMs, alone and in pairs.
#[derive(Clone, Debug)]
pub struct Run {
    /// The profiles of [`VMS`] alone.
    pub alone: Vec<IsolationProfile>,
    /// The profiles of [`PAIRS`] together.
    pub together: Vec<[IsolationProfile; 2]>,
}

/// The word for a source in names of tables.
pub(super) fn word(source: Source) -> &'static str {
    match source {
        Source::Formula => "formula",
        Source::Replayed => "replayed",
        Source::Measured => "measured",
    }
}

/// Picks a figure of a forecast.
type Pick = Box<dyn Fn(&Forecast) -> Option<f64>>;

/// Picks the paper's numbers: the measured figure, the predicted one, and the error.
type Paper = Box<dyn Fn(&Pair) -> [f64; 3]>;

/// A figure of a forecast: its table, its column without the predictor's name, its unit and its value.
struct Figure {
    table: &'static str,
    column: String,
    unit: &'static str,
    value: Pick,
    paper: Paper,
}

fn figures() -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut add =
        |table, column: String, unit, value, paper| figures.push(Figure { table, column, unit, value, paper });
    let mix = |kind: usize| {
        move |forecast: &Forecast| forecast.mix_read.map(|reads| if kind == 0 { reads } else { 1.0 - reads })
    };
    let rate = |kind: usize| {
        move |forecast: &Forecast| {
            if kind == 0 { forecast.total_read_iops } else { forecast.total_write_iops }
        }
    };
    let response = |vm: usize, kind: usize| {
        move |forecast: &Forecast| {
            let of_kind = if kind == 0 { &forecast.read_response_ns } else { &forecast.write_response_ns };
            of_kind.get(vm).copied().flatten().map(|ns| ns / 1e6)
        }
    };
    for (kind, name) in TYPES.into_iter().enumerate() {
        let paper = move |pair: &Pair| [pair.mix[kind], pair.predicted_mix[kind], pair.mix_error[kind]];
        add("I", name.to_owned(), "share", Box::new(mix(kind)) as Pick, Box::new(paper) as Paper);
    }
    for (kind, name) in TYPES.into_iter().enumerate() {
        let paper = move |pair: &Pair| [pair.rates[kind], pair.predicted_rates[kind], pair.rate_error[kind]];
        add("II", name.to_owned(), "requests/s", Box::new(rate(kind)), Box::new(paper));
    }
    for vm in 0..2 {
        for (kind, name) in TYPES.into_iter().enumerate() {
            let paper = move |pair: &Pair| {
                [pair.response, pair.predicted_response, pair.response_error].map(|of_vm| of_vm[vm][kind])
            };
            add("III", format!("VM{} {name}", vm + 1), "ms", Box::new(response(vm, kind)), Box::new(paper));
        }
    }
    figures
}

/// The measured figures of a pair and the forecasts of each of [`PREDICTORS`], one for each run.
struct Row {
    name: String,
    truths: Vec<Forecast>,
    forecasts: Vec<Vec<Forecast>>,
}

fn rows(runs: &[Run]) -> Result<Vec<Row>, PredictError> {
    let built = |entry: &&Entry| {
        let method = entry.by_default().map_err(|error| PredictError::DoesNotHold(error.to_string()))?;
        Ok(method.predictor().expect("each of them forecasts"))
    };
    let predictors = PREDICTORS.iter().map(built).collect::<Result<Vec<_>, PredictError>>()?;
    let row = |(index, pair): (usize, &[usize; 2])| {
        let truth = |run: &Run| {
            let vms = run.together[index].iter().map(VmForecast::measured).collect();
            Consolidation { vms, ..Consolidation::default() }.forecast()
        };
        let of = |predictor: &dyn Predictor| {
            let forecast = |run: &Run| {
                let alone = pair.map(|vm| run.alone[vm].clone());
                predict(predictor, Isolated::of_profiles(&alone)).map(|together| together.forecast())
            };
            runs.iter().map(forecast).collect::<Result<Vec<Forecast>, PredictError>>()
        };
        Ok(Row {
            name: pair.map(|vm| VMS[vm]).join("+"),
            truths: runs.iter().map(truth).collect(),
            forecasts: predictors.iter().map(|predictor| of(&**predictor)).collect::<Result<_, PredictError>>()?,
        })
    };
    PAIRS.iter().enumerate().map(row).collect()
}

/// The mean over runs with its confidence interval; none if a run lacks the figure.
fn over(forecasts: &[Forecast], figure: &Figure) -> Option<(f64, Option<f64>)> {
    let values = forecasts.iter().map(|forecast| (figure.value)(forecast)).collect::<Option<Vec<f64>>>()?;
    (!values.is_empty()).then(|| mean_and_half_width(&values))
}

/// The cells of all three tables, and the mean errors of each predictor by table and type.
pub(super) fn tables(source: Source, runs: &[Run]) -> Result<(Vec<Cell>, Vec<GroupError>), PredictError> {
    let rows = rows(runs)?;
    let (mut cells, mut errors) = (Vec::new(), Vec::new());
    for figure in figures() {
        let table = format!("{}, {}", figure.table, word(source));
        let errors_table = format!("{} errors, {}", figure.table, word(source));
        // The replayed environment is meant to be the paper's, the measured one is not.
        let printed = |pair: usize| (source == Source::Replayed).then(|| (figure.paper)(&PRINTED[pair]));
        let cell = |row: &Row,
                    table: &str,
                    column: String,
                    (ours, half): (f64, Option<f64>),
                    unit: &str,
                    paper: Option<f64>| Cell {
            table: table.to_owned(),
            row: row.name.clone(),
            column,
            paper,
            relative_error: paper.map(|paper| (ours - paper) / paper),
            evidence: if paper.is_some() { Evidence::Fitted } else { Evidence::Forecast },
            ours,
            unit: unit.to_owned(),
            ci95: half.map(|half| [ours - half, ours + half]),
            counts: false,
            source,
        };
        let mut missed: Vec<Vec<f64>> = vec![Vec::new(); PREDICTORS.len()];
        for (pair, row) in rows.iter().enumerate() {
            let [measured, predicted, error_there] = [0, 1, 2].map(|nth| printed(pair).map(|printed| printed[nth]));
            let Some(truth) = over(&row.truths, &figure) else { continue };
            cells.push(cell(row, &table, format!("measured {}", figure.column), truth, figure.unit, measured));
            for (index, forecasts) in row.forecasts.iter().enumerate() {
                let Some(forecast) = over(forecasts, &figure) else { continue };
                let error = (forecast.0 - truth.0).abs() / truth.0;
                missed[index].push(error);
                if index == 0 {
                    cells.push(cell(
                        row,
                        &table,
                        format!("predicted {}", figure.column),
                        forecast,
                        figure.unit,
                        predicted,
                    ));
                    cells.push(cell(row, &errors_table, figure.column.clone(), (error, None), "share", error_there));
                }
            }
        }
        let group = |(name, missed): (&str, &Vec<f64>)| GroupError {
            group: format!("Table {table}, {}: {name}", figure.column),
            cells: missed.len() as u64,
            mean_absolute_relative_error: missed.iter().sum::<f64>() / missed.len() as f64,
            bar: None,
            evidence: Evidence::Forecast,
        };
        errors.extend(
            PREDICTORS.iter().map(|entry| entry.name).zip(&missed).filter(|(_, missed)| !missed.is_empty()).map(group),
        );
    }
    if source == Source::Replayed {
        errors.extend(["I", "II", "III"].map(|table| environment(table, &cells)));
    }
    Ok((cells, errors))
}

/// The rates of our replayed VMs alone beside those that the paper's Table II implies.
pub(super) fn rates_alone(runs: &[Run]) -> Vec<Cell> {
    let of = |vm: usize, kind: usize| {
        let rate = |run: &Run| if kind == 0 { run.alone[vm].reads.iops } else { run.alone[vm].writes.iops };
        let (name, reads, writes, _) = ALONE[vm];
        debug_assert!(name.eq_ignore_ascii_case(VMS[vm]));
        let table = format!("rates alone, as Table II implies them, {}", word(Source::Replayed));
        let paper = Some([reads, writes][kind]);
        let rates: Vec<f64> = runs.iter().map(rate).collect();
        cell([&table, VMS[vm], TYPES[kind]], "requests/s", paper, &rates, false).by(Evidence::Fitted)
    };
    (0..VMS.len()).flat_map(|vm| [0, 1].map(|kind| of(vm, kind))).collect()
}

/// The writes of the web server alone, in words: there our environment is furthest from the paper's.
pub(super) fn writes_of_web(cells: &[Cell]) -> Option<String> {
    let cell = cells.iter().find(|cell| cell.row == "web" && cell.column == "W")?;
    let paper = cell.paper?;
    Some(format!(
        "Alone, the web server writes {:.1} times a second here; Table II implies {paper:.1}, {:.0} times as many. So its \
         writes and the pairs with it are not the paper's.",
        cell.ours,
        paper / cell.ours
    ))
}

/// Above this the paper calls the autocorrelation of response times large.
const CORRELATED: f64 = 0.35;

/// What the paper says of single VMs (section I), on our replayed ones.
pub(super) fn correlated_alone(runs: &[Run]) -> Claim {
    let at_lag_1 = |(vm, kind): (usize, usize)| {
        let of_run = |run: &Run| {
            let operation = if kind == 0 { &run.alone[vm].reads } else { &run.alone[vm].writes };
            operation.response_autocorrelation.first().copied()
        };
        mean_and_half_width(&runs.iter().filter_map(of_run).collect::<Vec<_>>()).0
    };
    let all = || (0..VMS.len()).flat_map(|vm| [0, 1].map(|kind| (vm, kind)));
    let right = all().filter(|of| at_lag_1(*of) > CORRELATED).count();
    let listed: Vec<String> =
        all().map(|(vm, kind)| format!("{} {} {:.2}", VMS[vm], TYPES[kind], at_lag_1((vm, kind)))).collect();
    Claim {
        place: format!("Section I, {}", word(Source::Replayed)),
        says: "response times of single VMs have large autocorrelations, above 0.35".to_owned(),
        ours: format!("from one request to the next {}", listed.join(", ")),
        verdict: Verdict::of(right, all().count()),
        evidence: Evidence::Forecast,
    }
}

/// What the paper concludes of its formulas (section V), on our replayed VMs.
pub(super) fn conclusions(cells: &[Cell]) -> Vec<Claim> {
    let errors = |table: &str, kind: &str| -> Vec<f64> {
        let name = format!("{table} errors, {}", word(Source::Replayed));
        let of = |cell: &&Cell| cell.table == name && cell.column.ends_with(kind);
        cells.iter().filter(of).map(|cell| cell.ours).collect()
    };
    let within = |says: &str, errors: &[f64], most: f64| {
        let [least, greatest] =
            [errors.iter().copied().fold(f64::INFINITY, f64::min), errors.iter().copied().fold(0.0, f64::max)];
        let right = errors.iter().filter(|error| **error <= most).count();
        let ours = format!("from {least:.2} to {greatest:.2}; {right} of {} at most {most}", errors.len());
        (says.to_owned(), ours, Verdict::of(right, errors.len()))
    };
    let (reads, writes) = (errors("III", "R"), errors("III", "W"));
    let all = |table: &str| [errors(table, "R"), errors(table, "W")].concat();
    let better = reads.iter().zip(&writes).filter(|(read, write)| read < write).count();
    let of_writes = |what: &str| -> Vec<f64> {
        let name = format!("III, {}", word(Source::Replayed));
        let of = |cell: &&Cell| cell.table == name && cell.column.starts_with(what) && cell.column.ends_with('W');
        cells.iter().filter(of).map(|cell| cell.ours).collect()
    };
    let (measured, predicted) = (of_writes("measured"), of_writes("predicted"));
    let above = predicted.iter().zip(&measured).filter(|(predicted, measured)| predicted > measured).count();
    let of_claims = [
        within("the mix of requests is predicted with errors of 0.03 to 0.13", &all("I"), 0.13),
        within("throughput is predicted with errors of 0.03 to 0.21", &all("II"), 0.21),
        within("response times of reads are predicted with errors of 0.04 to 0.17", &reads, 0.17),
        (
            "errors of reads are generally lower than those of writes".to_owned(),
            format!("in {better} of {}", reads.len()),
            Verdict::of(better, reads.len()),
        ),
        (
            "the model is overly pessimistic for writes".to_owned(),
            format!("{above} of {} predictions are above what is measured", predicted.len()),
            Verdict::of(above, predicted.len()),
        ),
    ];
    let claim = |(says, ours, verdict)| Claim {
        place: "Section V, replayed".to_owned(),
        says,
        ours,
        verdict,
        evidence: Evidence::Fitted,
    };
    of_claims.into_iter().map(claim).collect()
}

/// The errors of equation (6) on the writes of our VMs, in words.
pub(super) fn equation_6_on_writes(source: Source, cells: &[Cell]) -> Option<String> {
    let table = format!("III errors, {}", word(source));
    let errors: Vec<f64> =
        cells.iter().filter(|cell| cell.table == table && cell.column.ends_with('W')).map(|cell| cell.ours).collect();
    let most = errors.iter().copied().reduce(f64::max)?;
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    Some(format!(
        "Equation (6) on the writes of {} VMs: the mean error is {:.0} %, the greatest {:.0} %. The paper's own are 0.3 to 62 %.",
        word(source),
        mean * 100.0,
        most * 100.0
    ))
}

/// The end of the names of the groups in which our environment is held against the paper's.
pub(super) const ENVIRONMENT: &str = ": our environment";

/// How far the measured figures of our environment are from those of the paper's.
fn environment(table: &str, cells: &[Cell]) -> GroupError {
    let name = format!("{table}, {}", word(Source::Replayed));
    let measured = cells.iter().filter(|cell| cell.table == name && cell.column.starts_with("measured"));
    let errors: Vec<f64> = measured.filter_map(|cell| cell.relative_error).map(f64::abs).collect();
    GroupError {
        group: format!("Table {table}, measured there{ENVIRONMENT}"),
        cells: errors.len() as u64,
        mean_absolute_relative_error: errors.iter().sum::<f64>() / errors.len() as f64,
        bar: None,
        evidence: Evidence::Fitted,
    }
}

#[cfg(test)]
mod tests {
    use traces::results::isolation::IsolatedOperation;

    use super::*;

    fn profile(name: &str, reads: [f64; 2], writes: [f64; 2]) -> IsolationProfile {
        let of = |[iops, ms]: [f64; 2]| IsolatedOperation {
            iops,
            response_ns: Some(ms * 1e6),
            found_total: Some(1.0),
            ..IsolatedOperation::default()
        };
        IsolationProfile { vm: name.to_owned(), reads: of(reads), writes: of(writes), ..IsolationProfile::default() }
    }

    #[test]
    fn cells_are_means_over_runs_beside_the_formulas() {
        let together = |longer: f64| {
            let of = |vm: usize| profile(VMS[vm], [50.0, 12.0 + longer], [150.0, 6.0]);
            PAIRS.map(|pair| pair.map(of)).to_vec()
        };
        let alone = VMS.map(|name| profile(name, [100.0, 8.0], [300.0, 4.0])).to_vec();
        let run = |longer: f64| Run { alone: alone.clone(), together: together(longer) };
        let (cells, errors) = tables(Source::Replayed, &[run(-1.0), run(1.0)]).unwrap();
        let find = |table: &str, column: &str| {
            let cell = cells.iter().find(|cell| cell.table == table && cell.column == column && cell.row == "web+mail");
            cell.unwrap()
        };
        let close = |cell: &Cell, value: f64| assert!((cell.ours - value).abs() < 1e-9, "{cell:?}");
        close(find("I, replayed", "measured R"), 0.25);
        close(find("II, replayed", "measured W"), 300.0);
        close(find("II, replayed", "predicted W"), 300.0);
        close(find("III, replayed", "measured VM1 R"), 12.0);
        // 8 ms alone and the other VM's interference: S A is 4 ms for reads, and 2 ms for writes, which count by half.
        close(find("III, replayed", "predicted VM1 R"), 13.0);
        close(find("III errors, replayed", "VM1 R"), 1.0 / 12.0);
        assert!(find("III, replayed", "measured VM1 R").ci95.is_some());
        assert!(cells.iter().all(|cell| cell.source == Source::Replayed && cell.paper.is_some() && !cell.counts));
        // With the formula test, that makes the 72 cells of the paper's tables, some of them twice.
        assert_eq!((cells.len(), find("III, replayed", "measured VM1 R").paper), (72, Some(33.0)));
        let environment =
            errors.iter().find(|error| error.group == "Table I, measured there: our environment").unwrap();
        let of_mix = |paper: f64, ours: f64| (ours - paper).abs() / paper;
        let all: Vec<f64> =
            PRINTED.iter().flat_map(|pair| [of_mix(pair.mix[0], 0.25), of_mix(pair.mix[1], 0.75)]).collect();
        assert!((environment.mean_absolute_relative_error - all.iter().sum::<f64>() / 6.0).abs() < 1e-9);
        let (measured, _) = tables(Source::Measured, &[run(0.0)]).unwrap();
        assert!(measured.iter().all(|cell| cell.paper.is_none()));
        let isolation = errors.iter().find(|error| error.group == "Table III, replayed, VM1 R: isolation").unwrap();
        assert!((isolation.mean_absolute_relative_error - 1.0 / 3.0).abs() < 1e-9 && isolation.cells == 3);
        // Of both formulas for writes, 4 + 4 + 1 ms is above the 6 ms that were measured.
        let conclusions = conclusions(&cells);
        let pessimistic = conclusions.last().unwrap();
        assert_eq!((conclusions.len(), pessimistic.verdict), (5, Verdict::Holds), "{pessimistic:?}");
        let alone = rates_alone(&[run(0.0), run(0.0)]);
        let web = alone.last().unwrap();
        assert_eq!((alone.len(), &*web.row, web.ours), (6, "web", 300.0));
        assert!((web.paper.unwrap() - 44.405).abs() < 1e-3);
        assert!(writes_of_web(&alone).unwrap().contains("300.0 times a second here; Table II implies 44.4, 0 times"));
    }

    #[test]
    fn response_times_are_correlated_as_the_profiles_have_them() {
        let of = |found: f64| IsolatedOperation {
            response_autocorrelation: vec![found, 0.9],
            ..IsolatedOperation::default()
        };
        let vm = |found: f64| IsolationProfile { reads: of(found), writes: of(0.1), ..IsolationProfile::default() };
        let run = Run { alone: [0.5, 0.2, 0.1].map(vm).to_vec(), together: Vec::new() };
        let claim = correlated_alone(&[run.clone(), run]);
        assert_eq!(
            claim.ours,
            "from one request to the next file R 0.50, file W 0.10, mail R 0.20, mail W 0.10, web R 0.10, web W 0.10"
        );
        assert_eq!(claim.verdict, Verdict::Contradicts);
    }
}
