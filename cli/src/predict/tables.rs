//! Forecasts as sentences and tables.

use std::collections::BTreeMap;

use predictors::{Consolidation, ranked};
use traces::results::isolation::{IsolatedOperation, IsolationProfile};
use traces::results::prediction::{Forecast, Outcome, PairPrediction, Predictions, STATED};
use traces::results::supports_percentile;

use super::charts;
use crate::document::{Block, Document};
use crate::output::{Table, number};
use crate::units::{ABSENT, span, span_or_absent, three_digits};

/// The forecasts as a document.
pub fn document(predictions: &Predictions) -> Document {
    let Predictions { alone: profiles, recommended, pairs, .. } = predictions;
    let recommended = recommended.as_deref();
    let mut blocks = Vec::new();
    blocks.extend(pairs.iter().filter_map(|pair| in_short(pair, recommended, profiles)).map(Block::Sentence));
    blocks.extend(predictions.missing.iter().map(Block::sentence));
    blocks.extend(overlapping(predictions).map(Block::Sentence));
    for pair in pairs {
        blocks.extend(answer(pair, recommended, profiles).map(Block::Table));
        let each = pair.vms.iter().enumerate();
        blocks.extend(each.map(|(index, vm)| Block::Table(of_vm(pair, index, vm, recommended, profiles))));
        blocks.push(Block::Table(total(pair)));
        blocks.extend(intervals(pair, recommended, profiles).map(Block::Table));
        blocks.extend(said(pair).map(Block::Sentence));
    }
    blocks.push(Block::Table(alone(profiles, pairs.iter().any(|pair| pair.truth.is_some()))));
    let names: Vec<&str> = profiles.iter().map(|profile| profile.vm.as_str()).collect();
    let charts = pairs.iter().filter_map(|pair| charts::section(pair, recommended, profiles));
    Document {
        title: format!("Forecast of {} on one device", names.join(", ")),
        blocks,
        charts: charts.collect(),
        program: predictions.program.clone(),
    }
}

/// What becomes of each VM, by the forecast to rely on.
fn in_short(pair: &PairPrediction, recommended: Option<&str>, profiles: &[IsolationProfile]) -> Option<String> {
    let (name, forecast) = forecasts(pair).find(|(name, _)| Some(*name) == recommended)?;
    let alone = Consolidation::measured(profiles).forecast();
    let of_vm = |(index, vm): (usize, &String)| {
        let kinds: [(&str, FiguresOf); 2] = [("reads", Figures::reads), ("writes", Figures::writes)];
        let of_kind = |(kind, of): (&str, FiguresOf)| {
            let (before, after) = (of(&alone, index, &profiles[index]), of(forecast, index, &profiles[index]));
            let (before, after) = (before.response_ns.filter(|ns| *ns > 0.0)?, after.response_ns?);
            Some(format!("{kind} take {} ({} times alone)", span(after), three_digits(after / before)))
        };
        let said: Vec<String> = kinds.into_iter().filter_map(of_kind).collect();
        (!said.is_empty()).then(|| format!("{vm}'s {}", said.join(" and ")))
    };
    let said: Vec<String> = pair.vms.iter().enumerate().filter_map(of_vm).collect();
    (!said.is_empty()).then(|| format!("Together, says {name}: {}.", said.join("; ")))
}

/// The figures of one kind of requests of a VM in a forecast.
pub(super) type FiguresOf = fn(&Forecast, usize, &IsolationProfile) -> Figures;

/// The forecast to rely on beside each VM alone, and beside the replay if there was one.
fn answer(pair: &PairPrediction, recommended: Option<&str>, profiles: &[IsolationProfile]) -> Option<Table> {
    let (name, forecast) = forecasts(pair).find(|(name, _)| Some(*name) == recommended)?;
    let alone = Consolidation::measured(profiles).forecast();
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (index, vm) in pair.vms.iter().enumerate() {
        let kinds: [(&str, FiguresOf); 2] = [("read", Figures::reads), ("write", Figures::writes)];
        let mut of_vm = Vec::new();
        for (kind, of) in kinds {
            let profile = &profiles[index];
            let (alone, together) = (of(&alone, index, profile), of(forecast, index, profile));
            let truth = pair.truth.as_ref().map(|truth| of(truth, index, profile));
            if alone.iops.is_none() {
                continue;
            }
            let mut row = |figure: String, shown: fn(f64) -> String, of: fn(&Figures) -> Option<f64>, stated| {
                let show = |figure: Option<f64>| figure.map_or_else(|| ABSENT.to_owned(), shown);
                let mut row = vec![String::new(), figure, show(of(&alone)), show(of(&together)), ends(stated, shown)];
                row.extend(truth.as_ref().map(|truth| show(of(truth))));
                of_vm.push(row);
            };
            row(format!("{kind}s/s"), three_digits, |figures| figures.iops, together.iops_interval);
            row(format!("{kind}, mean"), span, |figures| figures.response_ns, together.response_interval);
            row(format!("{kind}, p99"), span, |figures| figures.p99_ns, together.p99_interval);
        }
        of_vm.first_mut().into_iter().for_each(|row| row[0].clone_from(vm));
        rows.extend(of_vm);
    }
    let header = ["VM", "", "alone", "forecast", "interval"].into_iter().chain(pair.truth.iter().map(|_| "replayed"));
    let stated = match &forecast.intervals_90 {
        Some(_) => format!("its intervals should hold {:.0} % of true values", 100.0 * STATED),
        None => "it states no intervals".to_owned(),
    };
    let kind = if is_baseline(name) { "a baseline" } else { "recommended" };
    Some(Table {
        title: format!("{} together, forecast by {name} ({kind}; {stated})", pair.vms.join(", ")),
        header: header.map(str::to_owned).collect(),
        rows,
        text_columns: 2,
    })
}

/// The figures that a forecast has for the reads or writes of a VM.
pub(super) struct Figures {
    pub iops: Option<f64>,
    pub response_ns: Option<f64>,
    pub p99_ns: Option<f64>,
    pub iops_interval: Option<[f64; 2]>,
    pub response_interval: Option<[f64; 2]>,
    pub p99_interval: Option<[f64; 2]>,
}

impl Figures {
    pub fn reads(forecast: &Forecast, vm: usize, alone: &IsolationProfile) -> Figures {
        let stated = forecast.intervals_90.as_ref();
        let p99_ns = p99(&forecast.read_percentiles_ns, &forecast.read_requests, vm, &alone.reads);
        Figures {
            iops: at(&forecast.read_iops, vm),
            response_ns: at(&forecast.read_response_ns, vm),
            p99_ns,
            iops_interval: stated.and_then(|stated| at(&stated.read_iops, vm)),
            response_interval: stated.and_then(|stated| at(&stated.read_response_ns, vm)),
            p99_interval: p99_ns.and(stated.and_then(|stated| at(&stated.read_p99_ns, vm))),
        }
    }

    pub fn writes(forecast: &Forecast, vm: usize, alone: &IsolationProfile) -> Figures {
        let stated = forecast.intervals_90.as_ref();
        let p99_ns = p99(&forecast.write_percentiles_ns, &forecast.write_requests, vm, &alone.writes);
        Figures {
            iops: at(&forecast.write_iops, vm),
            response_ns: at(&forecast.write_response_ns, vm),
            p99_ns,
            iops_interval: stated.and_then(|stated| at(&stated.write_iops, vm)),
            response_interval: stated.and_then(|stated| at(&stated.write_response_ns, vm)),
            p99_interval: p99_ns.and(stated.and_then(|stated| at(&stated.write_p99_ns, vm))),
        }
    }
}

/// A VM's 99th percentile, if enough requests support it: of a measurement those measured, of a forecast those of the VM
/// alone from which it was inferred.
fn p99(
    percentiles_ns: &BTreeMap<String, Vec<Option<f64>>>,
    measured: &[Option<u64>],
    vm: usize,
    alone: &IsolatedOperation,
) -> Option<f64> {
    let requests = at(measured, vm).unwrap_or(alone.requests);
    at(percentiles_ns.get("p99")?, vm).filter(|_| supports_percentile(requests, "p99"))
}

fn at<T: Copy>(figures: &[Option<T>], vm: usize) -> Option<T> {
    figures.get(vm).copied().flatten()
}

fn rate(per_second: Option<f64>) -> String {
    per_second.map_or_else(|| ABSENT.to_owned(), three_digits)
}

fn ends(interval: Option<[f64; 2]>, shown: fn(f64) -> String) -> String {
    interval.map_or_else(|| ABSENT.to_owned(), |ends| ends.map(shown).join(" to "))
}

fn is_baseline(predictor: &str) -> bool {
    ranked(predictor).1.is_some_and(|entry| entry.baseline)
}

/// The standing of a predictor, for its row in a table.
fn standing(predictor: &str, recommended: Option<&str>) -> &'static str {
    match () {
        () if is_baseline(predictor) => "baseline",
        () if Some(predictor) == recommended => "recommended",
        () => "",
    }
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

/// `is_replayed`: the figures are those of replays on a drive, and not those of the traces.
fn alone(profiles: &[IsolationProfile], is_replayed: bool) -> Table {
    let row = |profile: &IsolationProfile| {
        let (reads, writes) = (&profile.reads, &profile.writes);
        let mut row = vec![profile.vm.clone()];
        for operation in [reads, writes] {
            row.push(rate((operation.iops > 0.0).then_some(operation.iops)));
            row.extend([span_or_absent(operation.response_ns), rate(operation.found_total)]);
        }
        row.push(rate(profile.busy_share.map(|share| 100.0 * share)));
        row
    };
    let header = ["VM", "reads/s", "read", "read finds", "writes/s", "write", "write finds", "busy, %"];
    Table {
        title: match is_replayed {
            true => {
                "Alone on the drive: rates of arrivals (before merging), mean response times (Q2C), mean number of \
                     requests that one finds at the drive"
            }
            false => {
                "Alone, as traced: rates of device requests (after merging), mean device times (D2C), mean number \
                      of requests that one finds at the device"
            }
        }
        .to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: profiles.iter().map(row).collect(),
        text_columns: 1,
    }
}

/// The result of the replay of all VMs together, if there was one, and the forecasts, the best method first.
pub(super) fn forecasts(pair: &PairPrediction) -> impl Iterator<Item = (&str, &Forecast)> {
    let mut of: Vec<(&str, &Forecast)> = Vec::new();
    for (name, outcome) in &pair.predictors {
        if let Outcome::Forecast(forecast) = outcome {
            of.push((name.as_str(), forecast));
        }
    }
    of.sort_by_key(|(name, _)| ranked(name).0);
    pair.truth.iter().map(|truth| ("(replayed)", truth)).chain(of)
}

fn of_vm(
    pair: &PairPrediction,
    index: usize,
    vm: &str,
    recommended: Option<&str>,
    alone: &[IsolationProfile],
) -> Table {
    let row = |(name, forecast): (&str, &Forecast)| {
        let mut row = vec![name.to_owned(), standing(name, recommended).to_owned()];
        for Figures { iops, response_ns, p99_ns, .. } in
            [Figures::reads, Figures::writes].map(|of| of(forecast, index, &alone[index]))
        {
            row.extend([rate(iops), span_or_absent(response_ns), span_or_absent(p99_ns)]);
        }
        row
    };
    let others: Vec<&str> = pair.vms.iter().map(String::as_str).filter(|other| *other != vm).collect();
    let header = ["predictor", "", "reads/s", "read", "p99", "writes/s", "write", "p99"];
    Table {
        title: format!("{vm} with {}", others.join(", ")),
        header: header.map(str::to_owned).to_vec(),
        rows: forecasts(pair).map(row).collect(),
        text_columns: 2,
    }
}

/// The intervals of those predictors beside the recommended one that state intervals.
fn intervals(pair: &PairPrediction, recommended: Option<&str>, alone: &[IsolationProfile]) -> Option<Table> {
    let row = |name: &str, forecast: &Forecast, index: usize| {
        let mut row = vec![name.to_owned(), pair.vms[index].clone()];
        for figures in [Figures::reads, Figures::writes].map(|of| of(forecast, index, &alone[index])) {
            row.extend([ends(figures.iops_interval, three_digits), ends(figures.response_interval, span)]);
        }
        row
    };
    let others = forecasts(pair).filter(|(name, _)| Some(*name) != recommended);
    let stating = others.filter(|(_, forecast)| forecast.intervals_90.is_some());
    let rows: Vec<Vec<String>> =
        stating.flat_map(|(name, forecast)| (0..pair.vms.len()).map(move |index| row(name, forecast, index))).collect();
    (!rows.is_empty()).then(|| Table {
        title: format!("Intervals that should hold {:.0} % of the true values", 100.0 * STATED),
        header: ["predictor", "VM", "reads/s", "read", "writes/s", "write"].map(str::to_owned).to_vec(),
        rows,
        text_columns: 2,
    })
}

fn total(pair: &PairPrediction) -> Table {
    let row = |(name, forecast): (&str, &Forecast)| {
        let mix = rate(forecast.mix_read.map(|share| 100.0 * share));
        vec![name.to_owned(), rate(forecast.total_read_iops), rate(forecast.total_write_iops), mix]
    };
    Table {
        title: format!("{} together", pair.vms.join(", ")),
        header: ["predictor", "reads/s", "writes/s", "reads, %"].map(str::to_owned).to_vec(),
        rows: forecasts(pair).map(row).collect(),
        text_columns: 1,
    }
}

/// The notes of the predictors, and the reasons of those without a forecast.
fn said(pair: &PairPrediction) -> impl Iterator<Item = String> {
    let replayed = pair.truth.iter().flat_map(|truth| &truth.notes).map(|note| format!("(replayed): {note}"));
    let lines = pair.predictors.iter().flat_map(|(name, outcome)| match outcome {
        Outcome::Refused { refused } => vec![format!("{name} has no forecast: {refused}")],
        Outcome::Forecast(forecast) => forecast.notes.iter().map(|note| format!("{name}: {note}")).collect(),
    });
    replayed.chain(lines)
}
