//! Forecasts as tables.

use std::collections::BTreeMap;

use traces::results::isolation::{IsolatedOperation, IsolationProfile};
use traces::results::prediction::{Forecast, Intervals, Outcome, PairPrediction, Predictions, STATED};

use crate::output::{Table, number, terminal_width, wrapped};
use crate::output_format::OutputFormat;

pub fn render(predictions: &Predictions, format: OutputFormat) -> String {
    let mut text = vec![alone(&predictions.alone).render(format)];
    for pair in &predictions.pairs {
        for (index, vm) in pair.vms.iter().enumerate() {
            text.push(of_vm(pair, index, vm, &predictions.alone).render(format));
        }
        text.push(total(pair).render(format));
        text.extend(intervals(pair).map(|table| table.render(format)));
        text.extend(said(pair, format));
    }
    text.extend(overlapping(predictions).map(|line| sentence(&line, format)));
    text.join("\n")
}

/// VMs whose footprints overlap by a smaller share count as separate.
const OVERLAP_MIN: f64 = 0.01;

/// A warning if VMs touch the same addresses of the device; disks of different VMs hardly ever do.
fn overlapping(predictions: &Predictions) -> Option<String> {
    let of = |one: usize, other: usize| predictions.overlap.get(one)?.get(other).copied().flatten();
    let count = predictions.alone.len();
    let pairs = (0..count).flat_map(|one| (one + 1..count).map(move |other| (one, other)));
    let shared = pairs.filter_map(|(one, other)| Some((of(one, other)?, of(other, one)?, one, other)));
    let shared: Vec<_> = shared.filter(|(one, other, ..)| one.max(*other) >= OVERLAP_MIN).collect();
    let (share, back, one, other) =
        shared.iter().copied().max_by(|one, other| one.0.max(one.1).total_cmp(&other.0.max(other.1)))?;
    let [one, other] = [one, other].map(|vm| predictions.alone[vm].vm.as_str());
    let advice = if predictions.pairs.iter().any(|pair| pair.truth.is_some()) {
        format!("Give them other places ({one}=FILE@SIZE), another --map or a larger drive.")
    } else {
        format!("Traces of virtual disks need the places of these disks on the device ({one}=FILE@SIZE).")
    };
    Some(format!(
        "{} touch the same addresses of the device, most of all {one} and {other}: {} % of {one}'s and {} % of \
         {other}'s. {advice}",
        if shared.len() == 1 { "Two VMs".to_owned() } else { format!("{} pairs of VMs", shared.len()) },
        number(Some(100.0 * share)),
        number(Some(100.0 * back)),
    ))
}

fn alone(profiles: &[IsolationProfile]) -> Table {
    let ms = |operation: &IsolatedOperation| number(operation.response_ns.map(|ns| ns / 1e6));
    let rate = |operation: &IsolatedOperation| number((operation.iops > 0.0).then_some(operation.iops));
    let row = |profile: &IsolationProfile| {
        let (reads, writes) = (&profile.reads, &profile.writes);
        let mut row = vec![profile.vm.clone()];
        row.extend([rate(reads), ms(reads), number(reads.found_total)]);
        row.extend([rate(writes), ms(writes), number(writes.found_total)]);
        row.push(number(profile.busy_share.map(|share| 100.0 * share)));
        row
    };
    let header = ["VM", "reads/s", "read, ms", "read finds", "writes/s", "write, ms", "write finds", "busy, %"];
    Table {
        title: "Alone: rates, mean response times (D2C), mean number of requests that one finds at the device"
            .to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: profiles.iter().map(row).collect(),
        text_columns: 1,
    }
}

/// The result of the replay of all VMs together, if there was one, and the forecasts.
fn forecasts(pair: &PairPrediction) -> impl Iterator<Item = (&str, &Forecast)> {
    let of = pair.predictors.iter().filter_map(|(name, outcome)| match outcome {
        Outcome::Forecast(forecast) => Some((name.as_str(), forecast)),
        Outcome::Refused { .. } => None,
    });
    pair.truth.iter().map(|truth| ("(replayed)", truth)).chain(of)
}

fn of_vm(pair: &PairPrediction, index: usize, vm: &str, alone: &[IsolationProfile]) -> Table {
    let at = |figures: &[Option<f64>]| figures.get(index).copied().flatten();
    let ms = |figures: &[Option<f64>]| number(at(figures).map(|ns| ns / 1e6));
    let row = |(name, forecast): (&str, &Forecast)| {
        let rates = [&forecast.read_iops, &forecast.write_iops].map(|rates| number(at(rates)));
        let [reads, writes] = rates;
        let p99 =
            |named: &BTreeMap<String, Vec<Option<f64>>>| named.get("p99").map_or_else(|| number(None), |p99| ms(p99));
        let (read, write) = (ms(&forecast.read_response_ns), ms(&forecast.write_response_ns));
        let (read_p99, write_p99) = (p99(&forecast.read_percentiles_ns), p99(&forecast.write_percentiles_ns));
        vec![name.to_owned(), reads, read, read_p99, writes, write, write_p99]
    };
    let others: Vec<&str> = alone
        .iter()
        .map(|profile| profile.vm.as_str())
        .filter(|name| *name != vm && pair.vms.iter().any(|vm| vm == name))
        .collect();
    Table {
        title: format!("{vm} with {}", others.join(", ")),
        header: ["predictor", "reads/s", "read, ms", "p99", "writes/s", "write, ms", "p99"].map(str::to_owned).to_vec(),
        rows: forecasts(pair).map(row).collect(),
        text_columns: 1,
    }
}

/// The intervals of those predictors that state intervals.
fn intervals(pair: &PairPrediction) -> Option<Table> {
    let ends = |of: &[Option<[f64; 2]>], index: usize, scale: f64| match of.get(index).copied().flatten() {
        Some(ends) => ends.map(|end| number(Some(end / scale))).join(" to "),
        None => number(None),
    };
    let row = |name: &str, stated: &Intervals, index: usize| {
        vec![
            name.to_owned(),
            pair.vms[index].clone(),
            ends(&stated.read_iops, index, 1.0),
            ends(&stated.read_response_ns, index, 1e6),
            ends(&stated.write_iops, index, 1.0),
            ends(&stated.write_response_ns, index, 1e6),
        ]
    };
    let stating = forecasts(pair).filter_map(|(name, forecast)| Some((name, forecast.intervals_90.as_ref()?)));
    let rows: Vec<Vec<String>> =
        stating.flat_map(|(name, stated)| (0..pair.vms.len()).map(move |index| row(name, stated, index))).collect();
    (!rows.is_empty()).then(|| Table {
        title: format!("Intervals that should hold {} % of the true values", number(Some(100.0 * STATED))),
        header: ["predictor", "VM", "reads/s", "read, ms", "writes/s", "write, ms"].map(str::to_owned).to_vec(),
        rows,
        text_columns: 2,
    })
}

fn total(pair: &PairPrediction) -> Table {
    let row = |(name, forecast): (&str, &Forecast)| {
        let mix = number(forecast.mix_read.map(|share| 100.0 * share));
        vec![name.to_owned(), number(forecast.total_read_iops), number(forecast.total_write_iops), mix]
    };
    Table {
        title: format!("{} together", pair.vms.join(", ")),
        header: ["predictor", "reads/s", "writes/s", "reads, %"].map(str::to_owned).to_vec(),
        rows: forecasts(pair).map(row).collect(),
        text_columns: 1,
    }
}

/// The notes of the predictors, and the reasons of those without a forecast.
fn said(pair: &PairPrediction, format: OutputFormat) -> Vec<String> {
    let replayed = pair.truth.iter().flat_map(|truth| &truth.notes).map(|note| format!("(replayed): {note}"));
    let lines = pair.predictors.iter().flat_map(|(name, outcome)| match outcome {
        Outcome::Refused { refused } => vec![format!("{name} has no forecast: {refused}")],
        Outcome::Forecast(forecast) => forecast.notes.iter().map(|note| format!("{name}: {note}")).collect(),
    });
    replayed.chain(lines).map(|line| sentence(&line, format)).collect()
}

fn sentence(line: &str, format: OutputFormat) -> String {
    let width = match format {
        OutputFormat::Markdown => usize::MAX,
        _ => terminal_width().map_or(usize::MAX, usize::from),
    };
    format!("{}\n", wrapped(line, width).trim_end())
}
