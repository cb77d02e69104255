//! An assignment of VMs to LUNs, as tables.

use traces::results::placement::{PlacedVm, Placement, Share, Standing};

use crate::output::{Table, number, terminal_width, wrapped};
use crate::output_format::OutputFormat;

/// The most VMs for which a table of pairs is printed; the JSON and the picture always hold all pairs.
const MATRIX_MAX: usize = 12;

pub fn render(placement: &Placement, format: OutputFormat) -> String {
    let mut text = vec![luns(placement).render(format)];
    if !placement.limits.is_empty() {
        text.push(limits(placement).render(format));
    }
    if placement.interference.vms.len() <= MATRIX_MAX {
        text.push(matrix(placement).render(format));
    }
    let width = terminal_width().map_or(100, usize::from);
    let said = std::iter::once(binding(placement)).chain(placement.notes.clone());
    text.extend(said.map(|line| match format {
        OutputFormat::Markdown => format!("{line}\n"),
        _ => format!("{}\n", wrapped(&line, width).trim_end()),
    }));
    text.join("\n")
}

fn luns(placement: &Placement) -> Table {
    let three = |of: fn(&Share) -> Option<f64>, scale: f64| {
        move |vm: &PlacedVm| {
            let shown = |share: &Share| number(of(share).map(|figure| figure * scale));
            let replayed = vm.replayed.as_ref().map_or_else(|| "-".to_owned(), shown);
            [shown(&vm.alone), shown(&vm.forecast), replayed].join(" / ")
        }
    };
    let reads = three(|share| share.read_iops, 1.0);
    let response = three(|share| share.read_response_ns, 1e-6);
    let p99 = three(|share| share.read_p99_ns, 1e-6);
    let writes = three(|share| share.write_iops, 1.0);
    let write = three(|share| share.write_response_ns, 1e-6);
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
    let header = ["LUN", "VM", "reads/s", "read, ms", "p99, ms", "writes/s", "write, ms"];
    Table {
        title: format!("Assignment by {}: alone / forecast / replayed", placement.predictor),
        header: header.map(str::to_owned).to_vec(),
        rows,
        text_columns: 2,
    }
}

/// The text of a figure: times in ms, rates per second.
fn shown(standing: &Standing, figure: Option<f64>) -> String {
    let is_time = !standing.figure.ends_with("iops");
    number(figure.map(|figure| if is_time { figure / 1e6 } else { figure }))
}

fn limits(placement: &Placement) -> Table {
    let row = |standing: &Standing| {
        let kept = standing.kept.map_or("-", |kept| if kept { "kept" } else { "exceeded" });
        vec![
            standing.vm.clone(),
            standing.figure.clone(),
            shown(standing, Some(standing.limit)),
            shown(standing, standing.forecast),
            shown(standing, standing.replayed),
            number(Some(100.0 * standing.slack)),
            kept.to_owned(),
        ]
    };
    let header = ["VM", "limit on", "limit", "forecast", "replayed", "slack, %", "in the replay"];
    Table {
        title: "Limits, the tightest first (ms, requests/s)".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: placement.limits.iter().map(row).collect(),
        text_columns: 2,
    }
}

fn matrix(placement: &Placement) -> Table {
    let of = &placement.interference;
    let row = |(vm, left): (&String, &Vec<Option<f64>>)| {
        let cells = left.iter().map(|share| number(share.map(|share| 100.0 * share)));
        std::iter::once(vm.clone()).chain(cells).collect()
    };
    Table {
        title: format!("Throughput that a VM (row) keeps beside another (column) on {}, %", of.lun),
        header: std::iter::once("VM".to_owned()).chain(of.vms.iter().cloned()).collect(),
        rows: of.vms.iter().zip(&of.left).map(row).collect(),
        text_columns: 1,
    }
}

fn binding(placement: &Placement) -> String {
    let Some(first) = placement.limits.first() else {
        return "No limits are given; this assignment slows the VMs down least in sum.".to_owned();
    };
    let what = format!("{} of {}", first.figure, first.vm);
    if first.forecast.is_none() {
        return format!("No assignment that was found has a forecast for every limit; there is no forecast of {what}.");
    }
    if first.slack < 0.0 {
        return format!("No assignment that was found keeps all limits; the forecast exceeds {what} most.");
    }
    format!("The forecast keeps all limits; {what} is the tightest, with {:.0} % slack.", 100.0 * first.slack)
}
