//! An assignment of VMs to LUNs, as sentences, tables and charts.

use traces::results::placement::{Interference, PlacedLun, PlacedVm, Placement, Share, Standing};
use traces::results::supports_percentile;

use super::charts;
use crate::document::{Block, Document};
use crate::output::Table;
use crate::units::{ABSENT, span, three_digits};

/// The most VMs for which there is a table of pairs; the JSON and the picture always hold all pairs.
const MATRIX_MAX: usize = 12;

/// The assignment as a document.
pub fn document(placement: &Placement) -> Document {
    let mut blocks: Vec<Block> = vec![Block::sentence(who_goes_where(placement)), Block::sentence(answer(placement))];
    blocks.push(Block::Table(luns(placement)));
    if !placement.limits.is_empty() {
        blocks.push(Block::Table(limits(placement)));
    }
    if placement.interference.vms.len() <= MATRIX_MAX {
        blocks.extend(matrices(placement).iter().map(|(names, of)| Block::Shares(matrix(names, of))));
    }
    blocks.extend(placement.notes.iter().map(Block::sentence));
    let vms = placement.luns.iter().map(|lun| lun.vms.len()).sum::<usize>();
    Document {
        title: format!("{vms} VMs on {} LUNs, by {}", placement.luns.len(), method(placement)),
        blocks,
        charts: charts::sections(placement),
        program: placement.program.clone(),
    }
}

/// Which VMs go to which LUN.
fn who_goes_where(placement: &Placement) -> String {
    let of = |lun: &PlacedLun| {
        let vms: Vec<&str> = lun.vms.iter().map(|vm| vm.vm.as_str()).collect();
        let said = match &vms[..] {
            [] => return None,
            [one] => format!("{one} goes to {}", lun.lun),
            [first @ .., last] => format!("{} and {last} go to {}", first.join(", "), lun.lun),
        };
        Some(said)
    };
    format!("{}.", placement.luns.iter().filter_map(of).collect::<Vec<String>>().join("; "))
}

/// The way in which groups were forecast, in words.
fn method(placement: &Placement) -> String {
    placement.predictor.replace(", ", " and ")
}

/// Whether the forecasts are the replays themselves.
pub(super) fn by_replay(placement: &Placement) -> bool {
    let mut vms = placement.luns.iter().flat_map(|lun| &lun.vms);
    vms.all(|vm| vm.replayed == Some(vm.forecast))
}

/// Whether any LUN was replayed.
fn any_replay(placement: &Placement) -> bool {
    placement.luns.iter().flat_map(|lun| &lun.vms).any(|vm| vm.replayed.is_some())
}

fn shown(figure: Option<f64>, unit: fn(f64) -> String) -> String {
    figure.map_or_else(|| ABSENT.to_owned(), unit)
}

fn luns(placement: &Placement) -> Table {
    let (by_replay, any_replay) = (by_replay(placement), any_replay(placement));
    let each = |of: fn(&Share) -> Option<f64>, unit: fn(f64) -> String| {
        move |vm: &PlacedVm| {
            let forecast = (!by_replay).then(|| shown(of(&vm.forecast), unit));
            let replayed = any_replay.then(|| shown(vm.replayed.as_ref().and_then(of), unit));
            let cells = std::iter::once(shown(of(&vm.alone), unit)).chain(forecast).chain(replayed);
            cells.collect::<Vec<String>>().join(" / ")
        }
    };
    let reads = each(|share| share.read_iops, three_digits);
    let response = each(|share| share.read_response_ns, span);
    let p99 = each(|share| share.read_p99_ns.filter(|_| supports_percentile(share.reads, "p99")), span);
    let writes = each(|share| share.write_iops, three_digits);
    let write = each(|share| share.write_response_ns, span);
    let mut rows = Vec::new();
    for lun in &placement.luns {
        if lun.vms.is_empty() {
            rows.push(vec![lun.lun.clone(), "no VM".to_owned()].into_iter().chain(vec![String::new(); 5]).collect());
        }
        for (nth, vm) in lun.vms.iter().enumerate() {
            let name = if nth == 0 { lun.lun.clone() } else { String::new() };
            rows.push(vec![name, vm.vm.clone(), reads(vm), response(vm), p99(vm), writes(vm), write(vm)]);
        }
    }
    let header = ["LUN", "VM", "reads/s", "read", "read p99", "writes/s", "write"];
    let title = match by_replay {
        true => "Assignment: alone / replayed together".to_owned(),
        false if any_replay => format!("Assignment by {}: alone / forecast / replayed", method(placement)),
        false => format!("Assignment by {}: alone / forecast", method(placement)),
    };
    Table { title, header: header.map(str::to_owned).to_vec(), rows, text_columns: 2 }
}

/// How much of a limit is left, or by how much it is broken.
fn left(slack: Option<f64>) -> String {
    match slack.map(|slack| 100.0 * slack) {
        None => ABSENT.to_owned(),
        Some(percent) if percent < 0.0 => format!("broken by {} %", three_digits(-percent)),
        Some(percent) => format!("{} %", three_digits(percent)),
    }
}

/// The slack of the forecast, if there is a forecast.
fn forecast_slack(standing: &Standing) -> Option<f64> {
    standing.forecast.map(|_| standing.slack)
}

/// The value of a limited figure, in its unit.
pub fn figure(name: &str, value: Option<f64>) -> String {
    shown(value, if name.ends_with("iops") { three_digits } else { span })
}

fn limits(placement: &Placement) -> Table {
    let (by_replay, any_replay) = (by_replay(placement), any_replay(placement));
    let row = |standing: &Standing| {
        let shown = |value: Option<f64>| figure(&standing.figure, value);
        let mut row = vec![standing.vm.clone(), standing.figure.clone(), shown(Some(standing.limit))];
        if any_replay {
            row.extend([shown(standing.replayed), left(standing.replayed_slack)]);
        }
        if !by_replay {
            row.extend([shown(standing.forecast), left(forecast_slack(standing))]);
        }
        row
    };
    let mut header = vec!["VM", "limit on", "limit"];
    header.extend(if any_replay { ["replayed", "left, replayed"].as_slice() } else { &[] });
    header.extend(if by_replay { [].as_slice() } else { &["forecast", "left, forecast"] });
    Table {
        title: "Limits, the tightest first".to_owned(),
        header: header.into_iter().map(str::to_owned).collect(),
        rows: placement.limits.iter().map(row).collect(),
        text_columns: 2,
    }
}

/// The interference on the LUNs: once for all LUNs on which it is the same, with their names.
pub fn matrices(placement: &Placement) -> Vec<(String, &Interference)> {
    let mut different: Vec<(String, &Interference)> = Vec::new();
    for of in std::iter::once(&placement.interference).chain(&placement.interference_elsewhere) {
        match different.iter_mut().find(|(_, known)| known.left == of.left) {
            Some((names, _)) => *names = format!("{names}, {}", of.lun),
            None => different.push((of.lun.clone(), of)),
        }
    }
    different
}

fn matrix(luns: &str, of: &Interference) -> Table {
    let percent = |share: &Option<f64>| shown(share.map(|share| 100.0 * share), three_digits);
    let row = |(vm, left): (&String, &Vec<Option<f64>>)| {
        std::iter::once(vm.clone()).chain(left.iter().map(percent)).collect()
    };
    Table {
        title: format!("Throughput in % that a VM (row) keeps beside another (column), on {luns}"),
        header: std::iter::once("VM".to_owned()).chain(of.vms.iter().map(|vm| format!("beside {vm}"))).collect(),
        rows: of.vms.iter().zip(&of.left).map(row).collect(),
        text_columns: 1,
    }
}

/// The limits that are broken, in one sentence; `None` if all are kept.
pub fn broken(placement: &Placement) -> Option<String> {
    let broken: Vec<&Standing> = placement.limits.iter().filter(|standing| standing.left() < 0.0).collect();
    let first = broken.first()?;
    let what = format!("{} of {}", first.figure, first.vm);
    let worst = match (first.replayed_slack, first.forecast) {
        (Some(slack), _) => format!("{what} is broken by {} % in the replay", three_digits(-100.0 * slack)),
        (None, Some(_)) => format!("the forecast breaks {what} by {} %", three_digits(-100.0 * first.slack)),
        (None, None) => format!("nothing is known of {what}"),
    };
    let count = (broken.len(), placement.limits.len());
    Some(format!("no assignment that was found keeps all limits; {} of {} are not kept: {worst}", count.0, count.1))
}

fn answer(placement: &Placement) -> String {
    let Some(first) = placement.limits.first() else {
        return "No limits are given; this assignment slows the VMs down least in sum.".to_owned();
    };
    if let Some(broken) = broken(placement) {
        return format!("Limits are broken: {broken}.");
    }
    let what = format!("{} of {}", first.figure, first.vm);
    let of_forecast = match by_replay(placement) {
        true => String::new(),
        false => format!(" (forecast: {})", left(forecast_slack(first))),
    };
    match first.replayed_slack {
        Some(slack) => format!(
            "The replay keeps all limits; {what} is the tightest, with {} left{of_forecast}.",
            left(Some(slack))
        ),
        None => {
            format!("The forecast keeps all limits; {what} is the tightest, with {} left.", left(Some(first.slack)))
        }
    }
}
