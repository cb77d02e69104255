//! Cells, bars and series of Noorshams et al. 2014, from the measurements of several seeds.

use predictors::qpn::storage::Storage;
use traces::results::reproduction::{Bar, Cell, Evidence, GroupError, Series};

use super::experiment::{Measurements, Models, Point, errors};
use crate::estimate::{cell, group_error};

/// Reads and writes.
pub const KINDS: [&str; 2] = ["reads", "writes"];

/// What the paper prints, in per cent: of reads and of writes.
pub mod paper {
    /// The spreads of Figure 1.
    pub const SPREADS: [f64; 2] = [92.1, 118.3];
    /// The mean errors of Figure 7.
    pub const FIT: [f64; 2] = [3.36, 4.80];
    /// Mean, median and greatest error of Figure 8.
    pub const PREDICTION: [(&str, [f64; 2]); 3] =
        [("mean", [7.55, 10.85]), ("median", [5.39, 12.11]), ("greatest", [25.05, 21.49])];
}

/// A seed's measurements, and the models that are calibrated with them.
pub struct Seed {
    /// Response times.
    pub measured: Measurements,
    /// The models.
    pub models: Models,
}

impl Seed {
    /// Errors of a model for points, in per cent without sign: of reads and of writes.
    fn errors(&self, points: &[Point], model: impl Fn(&Seed, usize) -> &Storage) -> [Vec<f64>; 2] {
        errors(points, |nth| model(self, nth)).map(|errors| errors.iter().map(|error| 100.0 * error.abs()).collect())
    }

    /// The errors of a model in Figure 8: forecasts of two VMs.
    fn predicted(&self, model: impl Fn(&Seed, usize) -> &Storage) -> [Vec<f64>; 2] {
        self.errors(&self.measured.two_vms, model)
    }
}

fn published(seed: &Seed, _: usize) -> &Storage {
    &seed.models.published
}

fn refined(seed: &Seed, _: usize) -> &Storage {
    &seed.models.refined
}

fn own_weights(seed: &Seed, nth: usize) -> &Storage {
    &seed.models.own_weights[nth]
}

fn refined_without(seed: &Seed, nth: usize) -> &Storage {
    &seed.models.refined_without[nth]
}

/// Mean, median or greatest value.
pub fn summary(name: &str, values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match name {
        "mean" => sorted.iter().sum::<f64>() / sorted.len() as f64,
        "median" => sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN),
        _ => sorted.last().copied().unwrap_or(f64::NAN),
    }
}

/// Figure 1: mean response times (seconds) of ten clients in one VM beside 10 to 50 in the other. Of reads beside
/// writers, and of writes beside readers.
fn beside(measured: &Measurements, kind: usize) -> Vec<[f64; 2]> {
    let with = |point: &&Point| point.threads[kind] == 10.0;
    measured.two_vms.iter().filter(with).map(|point| [point.threads[1 - kind], point.responses[kind]]).collect()
}

/// How much greater the greatest of them is than the least, in per cent.
fn spread(measured: &Measurements, kind: usize) -> f64 {
    let responses = || beside(measured, kind).into_iter().map(|[_, response]| response);
    (responses().fold(0.0, f64::max) / responses().fold(f64::INFINITY, f64::min) - 1.0) * 100.0
}

type Model = fn(&Seed, usize) -> &Storage;

/// The numbers.
pub fn cells(seeds: &[Seed]) -> Vec<Cell> {
    let of = |names: [&str; 3], paper: Option<f64>, value: &dyn Fn(&Seed) -> f64| {
        cell(names, "%", paper, &seeds.iter().map(value).collect::<Vec<_>>(), true)
    };
    let mut cells = Vec::new();
    for (kind, name) in KINDS.into_iter().enumerate() {
        let row = format!("spread of {name}");
        let spread =
            of(["Figure 1", &row, "two VMs"], Some(paper::SPREADS[kind]), &|seed| spread(&seed.measured, kind));
        cells.push(spread.by(Evidence::ChosenOn));
    }
    let fits: [(&str, Model, bool); 3] = [
        ("weights of each mix", own_weights, true),
        ("weights by f", published, true),
        ("refined, without the mix", refined_without, false),
    ];
    for (row, model, printed) in fits {
        for (kind, name) in KINDS.into_iter().enumerate() {
            let error = |seed: &Seed| summary("mean", &seed.errors(&seed.measured.one_vm, model)[kind]);
            let column = format!("{name}, mean error");
            let fit = of(["Figure 7", row, &column], printed.then_some(paper::FIT[kind]), &error);
            // When the testbed was chosen by Figure 1, these errors of the candidates were seen, too.
            cells.push(if printed { fit.by(Evidence::Seen) } else { fit });
        }
    }
    let forecasts: [(&str, Model); 2] = [("as published", published), ("refined", refined)];
    for (row, model) in forecasts {
        for (statistic, printed) in paper::PREDICTION {
            for (kind, name) in KINDS.into_iter().enumerate() {
                let column = format!("{name}, {statistic} error");
                let printed = (row == "as published").then_some(printed[kind]);
                let error =
                    of(["Figure 8", row, &column], printed, &|seed| summary(statistic, &seed.predicted(model)[kind]));
                // A testbed was rejected because two VMs are not like one there, and these errors follow from that.
                cells.push(error.by(Evidence::ChosenOn));
            }
        }
    }
    for (row, model) in forecasts {
        for (kind, name) in KINDS.into_iter().enumerate() {
            let error = |seed: &Seed| summary("mean", &seed.errors(&seed.measured.between, model)[kind]);
            let between = of(["thread counts between, two VMs", row, &format!("{name}, mean error")], None, &error);
            // As in Figure 8.
            cells.push(between.by(Evidence::ChosenOn));
        }
    }
    cells
}

/// How far our errors and spreads are from the paper's.
pub fn group_errors(cells: &[Cell]) -> Vec<GroupError> {
    ["Figure 1", "Figure 7", "Figure 8"].map(|table| group_error(table, cells, None, |cell| cell.table == table)).into()
}

/// The bounds: the published model is to err no more than in the paper, the refined one about half as much.
pub fn bars(cells: &[Cell]) -> Vec<Bar> {
    let found = |row: &str, column: &str| {
        cells.iter().find(|cell| (&*cell.table, &*cell.row, &*cell.column) == ("Figure 8", row, column))
    };
    let mut bars = Vec::new();
    // About half of the paper's.
    for (row, most) in [("as published", paper::PREDICTION[0].1), ("refined", [3.8, 5.4])] {
        for (kind, name) in KINDS.into_iter().enumerate() {
            let column = format!("{name}, mean error");
            let what = format!("model {row}, {column} for two VMs, %");
            let (ours, ci95) = found(row, &column).map_or((f64::NAN, None), |cell| (cell.ours, cell.ci95));
            bars.push(Bar::new(&what, ours, None, Some(most[kind]), Evidence::ChosenOn).within(ci95));
        }
    }
    bars
}

/// Figure 1's bars, and the distributions of errors of Figures 7 and 8. Means over the seeds.
pub fn series(seeds: &[Seed]) -> Vec<Series> {
    let mean = |of: &dyn Fn(&Seed) -> Vec<[f64; 2]>| {
        let all: Vec<Vec<[f64; 2]>> = seeds.iter().map(of).collect();
        let point =
            |nth: usize| [0, 1].map(|axis| all.iter().map(|points| points[nth][axis]).sum::<f64>() / all.len() as f64);
        (0..all.first().map_or(0, Vec::len)).map(point).collect::<Vec<_>>()
    };
    let series = |figure: &str, name: &str, x: &str, y: &str, points: Vec<[f64; 2]>| Series {
        figure: figure.to_owned(),
        scheduler: None,
        name: name.to_owned(),
        x: x.to_owned(),
        y: y.to_owned(),
        points,
    };
    let in_ms = |points: Vec<[f64; 2]>| points.into_iter().map(|[x, seconds]| [x, seconds * 1e3]).collect();
    let mut all: Vec<Series> = ["10 clients read beside writers", "10 clients write beside readers"]
        .into_iter()
        .enumerate()
        .map(|(kind, name)| {
            let points = in_ms(mean(&|seed| beside(&seed.measured, kind)));
            series("Figure 1", name, "clients of the other VM", "mean response time, ms", points)
        })
        .collect();
    // The n-th smallest of k errors is the quantile (n - 1/2) / k.
    let distribution = |mut errors: Vec<f64>| {
        errors.sort_by(f64::total_cmp);
        let count = errors.len() as f64;
        errors.into_iter().enumerate().map(|(nth, error)| [error, (nth as f64 + 0.5) / count]).collect::<Vec<_>>()
    };
    for (kind, name) in KINDS.into_iter().enumerate() {
        let fit = mean(&|seed| distribution(seed.errors(&seed.measured.one_vm, published)[kind].clone()));
        all.push(series("Figure 7", &format!("published, {name}"), "error, %", "share of the mixes", fit));
    }
    let forecasts: [(&str, Model); 2] = [("published", published), ("refined", refined)];
    for (model_name, model) in forecasts {
        for (kind, name) in KINDS.into_iter().enumerate() {
            let points = mean(&|seed| distribution(seed.predicted(model)[kind].clone()));
            all.push(series("Figure 8", &format!("{model_name}, {name}"), "error, %", "share of the mixes", points));
        }
    }
    all
}
