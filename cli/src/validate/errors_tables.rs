//! The errors of forecasts, as tables.

use std::collections::BTreeMap;

use predictors::errors::Errors;
use traces::results::prediction::{Consolidations, ForecastError, Identified, STATED};

use super::errors_charts::{self, FIRST};
use crate::document::{Block, Document};
use crate::output::{Table, number};
use crate::units::ABSENT;

/// The figures, and the headings of their columns.
const FIGURES: [(&str, &str); 9] = [
    ("read_response", "read, ms"),
    ("read_p99", "read p99"),
    ("write_response", "write, ms"),
    ("write_p99", "write p99"),
    ("read_iops", "reads/s"),
    ("write_iops", "writes/s"),
    ("total_read_iops", "all reads/s"),
    ("total_write_iops", "all writes/s"),
    ("mix_read", "mix"),
];

/// The errors as a document.
pub fn document(result: &Consolidations) -> Document {
    let groups = result.pairs.len();
    let title =
        format!("Mean absolute relative errors over {groups} groups, % ± half of the 95 % interval; {}", result.truth);
    let mut tables = vec![table(title, &result.summary, &mean)];
    for (size, errors) in &result.by_size {
        let groups = result.pairs.iter().filter(|pair| pair.vms.len() == *size).count();
        tables.push(table(format!("The same over the {groups} groups of {size} VMs"), errors, &mean));
    }
    tables.push(table("Largest errors, %".to_owned(), &result.summary, &|error| percent(error.max)));
    tables.push(table("Number of forecasts, of the values to forecast".to_owned(), &result.summary, &|error| {
        format!("{} of {}", error.forecasts, error.forecasts + error.left_out)
    }));
    let stating: Errors = result.summary.clone().into_iter().filter(|(_, of)| states(of)).collect();
    if !stating.is_empty() {
        let title = format!(
            "Share of true values within the interval that should hold {} % of them, %",
            number(Some(100.0 * STATED))
        );
        tables.push(table(title, &stating, &|error| percent(error.within_stated)));
    }
    if !result.policies.is_empty() {
        tables.push(policies(result));
    }
    Document {
        title: format!("Forecasts of {groups} groups of VMs, {}", result.truth),
        blocks: nearest(result).map(Block::Sentence).into_iter().chain(tables.into_iter().map(Block::Table)).collect(),
        charts: errors_charts::sections(result),
        program: result.program.clone(),
    }
}

/// The predictor that is nearest in each of the first figures, of those that forecast all; `None` if none does.
fn nearest(result: &Consolidations) -> Option<String> {
    let of_figure = |(figure, name): &(&str, &str)| {
        let all = result.summary.iter().filter_map(|(predictor, of)| Some((predictor, of.get(*figure)?)));
        let complete = all.filter(|(_, error)| error.left_out == 0).filter_map(|(of, error)| Some((of, error.mean?)));
        let (predictor, mean) = complete.min_by(|(_, one), (_, other)| one.total_cmp(other))?;
        Some(format!("{name}: {predictor} ({} %)", percent(Some(mean))))
    };
    let said: Vec<String> = FIRST.iter().filter_map(of_figure).collect();
    (!said.is_empty()).then(|| format!("Nearest in the mean, of those that forecast every VM: {}.", said.join("; ")))
}

fn policies(result: &Consolidations) -> Table {
    let row = |(name, identified): (&String, &Identified)| {
        let counts = [identified.groups, identified.right, identified.right_and_sure, identified.wrong_but_sure];
        [name.clone()].into_iter().chain(counts.map(|count| count.to_string())).collect()
    };
    Table {
        title: "Inferred dispatch order of the device, number of groups".to_owned(),
        header: ["predictor", "inferred", "right", "right and certain", "wrong but certain"]
            .map(str::to_owned)
            .to_vec(),
        rows: result.policies.iter().map(row).collect(),
        text_columns: 1,
    }
}

fn states(of: &BTreeMap<String, ForecastError>) -> bool {
    of.values().any(|error| error.within_stated.is_some())
}

fn percent(share: Option<f64>) -> String {
    number(share.map(|share| 100.0 * share))
}

fn mean(error: &ForecastError) -> String {
    match error.ci95 {
        Some([low, high]) => format!("{} ± {}", percent(error.mean), percent(Some((high - low) / 2.0))),
        None => percent(error.mean),
    }
}

fn table(title: String, errors: &Errors, cell: &dyn Fn(&ForecastError) -> String) -> Table {
    let row = |(name, of): (&String, &BTreeMap<String, ForecastError>)| {
        let cells = FIGURES.iter().map(|(figure, _)| of.get(*figure).map_or_else(|| ABSENT.to_owned(), cell));
        [name.clone()].into_iter().chain(cells).collect()
    };
    let names = ["predictor"].into_iter().chain(FIGURES.map(|(_, name)| name));
    Table { title, header: names.map(str::to_owned).collect(), rows: errors.iter().map(row).collect(), text_columns: 1 }
}
